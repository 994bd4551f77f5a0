# SPDX-License-Identifier: Apache-2.0
"""A stream of sensor readings: actors that message actors, alarms that reach the host while the
stream runs, and questions asked meanwhile with asyncio.

    python stream.py [device]

Each sensor counts its readings and tells its room of an odd one; every eighth that a room hears of
it reports to the host. In the end every count is compared with NumPy's.
"""

import asyncio
import sys

import numpy as np

import denizen

SENSORS, ROOMS, READINGS, PATIENCE = 512, 16, 200_000, 8

Reading = denizen.message("Reading", [("value", "f4")])
Join = denizen.message("Join", [("room", "u4")])
Odd = denizen.message("Odd", [("sensor", "u4"), ("value", "f4")])
Alarm = denizen.message("Alarm", [("sensor", "u4"), ("odd", "u4")])
Ask = denizen.message("Ask")
Count = denizen.message("Count", [("seen", "u4"), ("odd", "u4")])

program = denizen.Program(
    """
    struct Sensor {
        denizen::Address room;
        uint32_t seen = 0, odd = 0;
        void on(const Join& m, auto&) { room = denizen::Address{m.room}; }
        void on(const Reading& m, auto& ctx) {
            ++seen;
            if (m.value > 3.0f || m.value < -3.0f) {
                ++odd;
                ctx.send(room, Odd{ctx.self().value, m.value});
            }
        }
        void on(const Ask&, auto& ctx) { ctx.reply(Count{seen, odd}); }
    };

    struct Room {
        uint32_t odd = 0;
        void on(const Odd& m, auto& ctx) {
            if (++odd % PATIENCE == 0) ctx.send(denizen::host, Alarm{m.sensor, odd});
        }
        void on(const Ask&, auto& ctx) { ctx.reply(Count{0, odd}); }
    };
    """,
    actors=["Sensor", "Room"],
    messages=[Reading, Join, Odd, Alarm, Ask, Count],
    name="stream",
    flags=[f"-DPATIENCE={PATIENCE}"],
)


async def watch(rt: denizen.Runtime, rooms: list[int], stop: asyncio.Event) -> int:
    """Asks all rooms, again and again, while the stream runs; returns how often."""
    rounds = 0
    before = np.zeros(len(rooms), np.int64)
    while not stop.is_set():
        answers = await asyncio.gather(*(rt.ask_async(r, "Ask", timeout=30) for r in rooms))
        odd = np.array([a["odd"] for a in answers], np.int64)
        if (odd < before).any():
            sys.exit("a room forgot something")
        before = odd
        rounds += 1
    return rounds


async def replay(rt: denizen.Runtime) -> None:
    sensors, rooms = rt.spawn("Sensor", SENSORS), rt.spawn("Room", ROOMS)
    joins = Join.zeros(SENSORS)
    joins["room"] = rooms[np.arange(SENSORS) % ROOMS]
    rt.send_many(sensors, joins)

    random = np.random.default_rng(0)
    which = random.integers(0, SENSORS, READINGS)
    readings = Reading.zeros(READINGS)
    readings["value"] = random.normal(size=READINGS)

    stop = asyncio.Event()
    watching = asyncio.create_task(watch(rt, rooms.tolist(), stop))
    alarms = []
    for begin in range(0, READINGS, 10_000):
        part = slice(begin, begin + 10_000)
        await asyncio.to_thread(rt.send_many, sensors[which[part]], readings[part])
        alarms.append(rt.receive_many(Alarm, 1000)[0])  # what has arrived so far
    await asyncio.to_thread(rt.drain)
    alarms.append(rt.receive_many(Alarm, READINGS)[0])
    stop.set()
    rounds = await watching

    # The same, without actors.
    odd = np.abs(readings["value"]) > 3
    by_sensor = np.bincount(which[odd], minlength=SENSORS)
    by_room = np.bincount(np.arange(SENSORS) % ROOMS, weights=by_sensor, minlength=ROOMS)
    counts = rt.ask_many(sensors, "Ask", Count)
    heard = rt.ask_many(rooms, "Ask", Count)["odd"]
    raised = np.concatenate(alarms)
    print(f"{READINGS:,} readings on {rt.description['device']}, {odd.sum()} odd,", end=" ")
    print(f"{len(raised)} alarms, {rounds} rounds of {ROOMS} questions meanwhile")
    right = (
        np.array_equal(counts["seen"], np.bincount(which, minlength=SENSORS))
        and np.array_equal(counts["odd"], by_sensor)
        and np.array_equal(heard, by_room)
        and len(raised) == (by_room // PATIENCE).sum()
        and rt.stats()["errors"] == 0
    )
    if not right:
        sys.exit("the counts are wrong")
    print("all counts agree with NumPy")


def main(device: str = "auto") -> None:
    with denizen.Runtime(program, device) as rt:
        asyncio.run(replay(rt))


if __name__ == "__main__":
    main(*sys.argv[1:])

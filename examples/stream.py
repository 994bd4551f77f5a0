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


@denizen.message
class Reading:
    value: np.float32


@denizen.message
class Join:
    room: denizen.ADDRESS


@denizen.message
class Odd:
    sensor: denizen.ADDRESS
    value: np.float32


@denizen.message
class Alarm:
    sensor: denizen.ADDRESS
    odd: np.uint32


@denizen.message
class Ask:
    pass


@denizen.message
class Count:
    seen: np.uint32
    odd: np.uint32


@denizen.actor
class Sensor:
    room: denizen.ADDRESS
    seen: np.uint32 = 0
    odd: np.uint32 = 0

    def on_join(self, m: Join):
        self.room = m.room

    def on_reading(self, m: Reading, ctx):
        self.seen += 1
        if abs(m.value) > 3:
            self.odd += 1
            ctx.send(self.room, Odd(ctx.self, m.value))

    def on_ask(self, m: Ask, ctx):
        ctx.reply(Count(self.seen, self.odd))


@denizen.actor
class Room:
    odd: np.uint32 = 0

    def on_odd(self, m: Odd, ctx):
        self.odd += 1
        if self.odd % PATIENCE == 0:
            ctx.send(denizen.HOST, Alarm(m.sensor, self.odd))

    def on_ask(self, m: Ask, ctx):
        ctx.reply(Count(0, self.odd))


async def watch(rt: denizen.Runtime, rooms: list[int], stop: asyncio.Event) -> int:
    """Asks all rooms, again and again, while the stream runs; returns how often."""
    rounds = 0
    before = np.zeros(len(rooms), np.int64)
    while not stop.is_set():
        answers = await asyncio.gather(*(rt.ask_async(r, Ask(), timeout=30) for r in rooms))
        odd = np.array([a["odd"] for a in answers], np.int64)
        if (odd < before).any():
            sys.exit("a room forgot something")
        before = odd
        rounds += 1
    return rounds


async def replay(rt: denizen.Runtime) -> None:
    sensors, rooms = rt.spawn(Sensor, SENSORS), rt.spawn(Room, ROOMS)
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
    counts = rt.ask_many(sensors, Ask(), Count)
    heard = rt.ask_many(rooms, Ask(), Count)["odd"]
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
    with denizen.Runtime([Sensor, Room], device) as rt:
        asyncio.run(replay(rt))


if __name__ == "__main__":
    main(*sys.argv[1:])

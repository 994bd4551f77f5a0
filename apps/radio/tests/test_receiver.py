# SPDX-License-Identifier: Apache-2.0
"""The receiver from Python, on made signals whose every frame is known."""

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from denizen import ArgumentError
from denizen.radio import Receiver, decode, frames, modulate, parity

SPACING = 1000  # samples from one frame to the next


def one_by_one(sent, snr, seed=0):
    """A signal with the frames one after the other, at random fractions of a sample."""
    random = np.random.default_rng(seed)
    bursts = [
        modulate.random_burst(random, frame, SPACING * (k + 1) + random.random(), snr)
        for k, frame in enumerate(sent)
    ]
    return modulate.modulate(bursts, SPACING * (len(sent) + 2), seed=seed)


def received(signal, **options):
    receiver = Receiver(**options)
    return receiver.feed(signal) + receiver.finish()


@pytest.mark.parametrize("device", [None, "cpu:1"])
def test_threads_that_share_one_take_turns(device):
    """Two feed it the same stream by turns, and a third looks at what it knows."""
    random = np.random.default_rng(1)
    sent = [
        frames.extended_squitter(int(random.integers(1 << 24)), int(random.integers(1 << 56)))
        for _ in range(300)
    ]
    signal = one_by_one(sent, 30)
    pieces = np.split(signal, range(0, len(signal), 40_000))
    receiver, over = Receiver(device=device), threading.Event()

    def feed():
        return sum(len(receiver.feed(piece)) for piece in pieces * 10)

    def look():
        while not over.is_set():  # ends: when all is fed
            assert len(receiver.aircraft) <= receiver.counts["messages"]

    with ThreadPoolExecutor(3) as threads:
        looked, fed = threads.submit(look), [threads.submit(feed) for _ in range(2)]
        found = sum(f.result() for f in fed)
        over.set()
        looked.result()
    found += len(receiver.finish())
    assert receiver.counts["messages"] == found
    assert receiver.counts["samples"] == 10 * len(signal)  # two bytes each, from two threads


@pytest.mark.parametrize(("snr", "least"), [(9, 0.05), (12, 0.45), (15, 0.85), (18, 0.98), (24, 1)])
def test_detection(snr, least):
    """Frames of aircraft never heard before; benchmarks/results/adsb has the whole curve."""
    random = np.random.default_rng(snr)
    sent = [
        frames.extended_squitter(int(random.integers(1 << 24)), int(random.integers(1 << 56)))
        for _ in range(400)
    ]
    got = [message["frame"] for message in received(one_by_one(sent, snr))]
    assert not Counter(got) - Counter(sent)
    assert len(got) >= least * len(sent)


def test_what_was_sent_is_what_is_said():
    icao = 0x4840D6
    sent = [
        frames.identification(icao, "KLM1023"),
        frames.airborne_position(icao, 52.2572, 3.9194, 38000, odd=False),
        frames.airborne_position(icao, 52.2578, 3.9190, 38000, odd=True),
        frames.velocity(icao, 400, 120, -832),
        frames.all_call(icao),
        frames.surveillance(0, icao, altitude=37975),
        frames.surveillance(4, icao, altitude=-1000),
        frames.surveillance(5, icao, squawk="7700"),
        frames.surveillance(16, icao, altitude=50175),
        frames.surveillance(20, icao, altitude=12025),
        frames.surveillance(21, icao, squawk="0123"),
    ]
    got = received(one_by_one(sent, 25))
    assert [message["frame"] for message in got] == sent
    assert {message["icao"] for message in got} == {"4840D6"}
    name, _, place, speed, call, *replies = got
    assert name["callsign"] == "KLM1023"
    assert place["latitude"] == pytest.approx(52.2578, abs=1e-4)
    assert place["longitude"] == pytest.approx(3.9190, abs=1e-4)
    assert speed["groundspeed"] == pytest.approx(400, abs=1)
    assert speed["track"] == pytest.approx(120, abs=0.2)
    assert speed["vertical_rate"] == -832
    assert (call["interrogator"], call["capability"]) == (0, 5)
    assert [message.get("altitude") for message in replies] == [
        37975, -1000, None, 50175, 12025, None,
    ]  # fmt: skip
    assert [message.get("squawk") for message in replies] == [
        None, None, "7700", None, None, "0123",
    ]  # fmt: skip


def test_a_position_on_the_ground_needs_the_antennas():
    sent = [
        frames.surface_position(0x484175, 52.3206, 4.7347, 41, 92.8, odd=odd)
        for odd in (False, True)
    ]
    signal = one_by_one(sent, 25)
    alone = received(signal)
    assert len(alone) == 2
    assert not any("latitude" in message for message in alone)
    (_, placed) = received(signal, position=(51.99, 4.375))
    assert placed["latitude"] == pytest.approx(52.3206, abs=1e-4)
    assert placed["longitude"] == pytest.approx(4.7347, abs=1e-4)
    assert (placed["groundspeed"], placed["on_ground"]) == (17, True)


def test_traffic_with_overlaps_gives_no_frame_that_was_not_sent():
    bursts = modulate.traffic(1, 300, (12, 35), seed=3)  # most of them overlap
    receiver = Receiver()
    got = Counter(
        message["frame"]
        for message in receiver.feed(modulate.modulate(bursts, 2_000_000)) + receiver.finish()
    )
    sent = Counter(burst.frame for burst in bursts)
    assert not got - sent
    assert sum(got.values()) > 0.45 * len(bursts)
    assert receiver.counts["samples"] == 2_000_000
    assert receiver.counts["messages"] == sum(got.values())
    assert sum(one["messages"] for one in receiver.aircraft) == sum(got.values())


def test_pieces_of_any_kind_and_size():
    bursts = modulate.traffic(0.5, 40, seed=1)
    signal = modulate.modulate(bursts, 1_000_000)
    whole = received(signal)
    assert len(whole) > 100
    assert received(signal.tobytes()) == whole
    assert received(bytearray(signal)) == whole
    receiver = Receiver()
    random = np.random.default_rng(2)
    cuts = np.sort(random.integers(0, len(signal), 50))
    got = [m for piece in np.split(signal, cuts) for m in receiver.feed(piece)]
    assert got + receiver.finish() == whole


def test_wrong_arguments():
    with pytest.raises(ArgumentError, match="no Mode S frame"):
        decode("8D4840")
    with pytest.raises(TypeError):
        Receiver().feed("text")
    with pytest.raises(BufferError):
        Receiver().feed(memoryview(bytes(100))[::2])
    with pytest.raises(ValueError, match="does not fit"):
        frames.all_call(1 << 24)
    assert parity("8D40621D58C382D690C8AC2863A7") == 0x2863A7

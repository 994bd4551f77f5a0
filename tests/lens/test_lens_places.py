# SPDX-License-Identifier: Apache-2.0
"""Where rings and pushbuffers lie: by the mappings that a log tells of."""

import stream as s

from denizen.lens import lines, log, places, summary

SYSTEM, DEVICE = 1, 2


def capture(tmp_path, made):
    return log.read(made.end().write(tmp_path / "a.lens"))


def test_an_address_is_looked_up_at_its_time(tmp_path):
    made = s.Log().memory(0x1000, 0x1000, SYSTEM, time=10).memory(0x3000, 0x1000, DEVICE, time=20)
    made.memory(0x1000, 0x1000, SYSTEM, time=30, gone=True)
    made.memory(0x1800, 0x100, DEVICE, time=40)
    where = places.Places(capture(tmp_path, made)).aperture
    assert [where(0x1800, time) for time in (5, 10, 29, 30, 40)] == [
        "unknown", "system", "system", "unknown", "device",
    ]  # fmt: skip
    assert where(0x1900, 40) == "unknown" and where(0x17FF, 40) == "unknown"  # its edges
    assert where(0x1800, 10) == "system"  # time may go back
    assert where(0x3FFF, 25) == "device" and where(0x4000, 25) == "unknown"


def test_it_is_told_in_a_line_and_in_every_entry(tmp_path):
    made = s.Log().memory(0x200600000, 0x200000, DEVICE).memory(0x202600000, 0x100000, SYSTEM)
    made.channel(0).submit(0, s.engine_copy(1, 2, 64))
    # An entry that sets bits 56:40 of the addresses after it, on this channel.
    made.doorbell(0, [(4 << 32) | (1 << 8), s.entry(0x202600000, 1)], [None, [0]])
    made.channel(1).submit(1, s.engine_copy(1, 2, 64))
    one = capture(tmp_path, made)
    assert places.summary(one) == (
        "GPFIFO in device memory (2 channels); USERD in device memory (2 channels); "
        "pushbuffer in system memory (64 bytes), unknown memory (4 bytes)"
    )
    by_entry = places.Places(one)
    told = [
        [entry.get("aperture") for entry in lines.line(one, *pair, by_entry)["entries"]]
        for pair in summary.decoded(one)
    ]
    assert told == [["system"], [None, None], ["system"]]


def test_a_log_without_mappings_says_nothing(tmp_path):
    assert places.summary(capture(tmp_path, s.Log().channel(0))) == ""

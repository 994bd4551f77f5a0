# SPDX-License-Identifier: Apache-2.0
"""Builds what a driver would write: pushbuffers, GPFIFO entries, QMDs and log files, for tests.

Written from the formats, not from the decoder: it shares only the struct sizes of the log's bodies,
which test_lens_log.py checks against lens/format.hpp.
"""

import struct

import numpy as np

COMPUTE, COPY = 1, 4  # subchannels


def inc(subchannel, method, *values):
    return [1 << 29 | len(values) << 16 | subchannel << 13 | method >> 2, *values]


def non_inc(subchannel, method, *values):
    return [3 << 29 | len(values) << 16 | subchannel << 13 | method >> 2, *values]


def one_inc(subchannel, method, *values):
    return [5 << 29 | len(values) << 16 | subchannel << 13 | method >> 2, *values]


def immediate(subchannel, method, value):
    return [4 << 29 | value << 16 | subchannel << 13 | method >> 2]


def entry(address, words, *, sync=False, subroutine=False):
    high = address >> 32 & 0xFF | subroutine << 9 | words << 10 | sync << 31
    return high << 32 | address & 0xFFFF_FFFC


def extended_base(bits):
    """Sets bits 56:40 of the addresses that follow."""
    return 4 << 32 | (bits >> 40 & 0x1FFFF) << 8


def words(*packets):
    return np.array([word for packet in packets for word in packet], np.uint32)


def upper_lower(address):
    return address >> 32, address & 0xFFFF_FFFF


def engine_copy(source, target, size, release=None):
    """As libcuda's copies: offsets, length, LAUNCH_DMA 0x182, then a timestamped release."""
    packets = [
        inc(COPY, 0x400, *upper_lower(source), *upper_lower(target)),
        inc(COPY, 0x418, size),
        immediate(COPY, 0x300, 0x182),
    ]
    if release:
        packets += [
            inc(COPY, 0x240, *upper_lower(release[0]), release[1]),
            immediate(COPY, 0x300, 0x14),
        ]
    return [word for packet in packets for word in packet]


def inline_copy(target, data):
    """As libcuda's small copies to the device: LAUNCH_DMA 0x41, then the data in the stream."""
    padded = data + bytes(-len(data) % 4)
    values = np.frombuffer(padded, "<u4").tolist()
    packets = [
        inc(COMPUTE, 0x180, len(data), 1),
        inc(COMPUTE, 0x188, *upper_lower(target)),
        inc(COMPUTE, 0x1B0, 0x41),
    ]
    packets += [non_inc(COMPUTE, 0x1B4, *values[i : i + 8191]) for i in range(0, len(values), 8191)]
    return [word for packet in packets for word in packet]


def put(bits, high, low, value):
    """Set bits high:low of a long integer."""
    assert value >> (high - low + 1) == 0
    return bits & ~(((1 << (high - low + 1)) - 1) << low) | value << low


def qmd_v4(grid, block, registers, shared, program, *, kind=2, cluster=(0, 0, 0), constants=(0, 0)):
    """A QMD of version 4.0 (bit places: class header clcbc0qmd.h)."""
    bits = 0
    for (high, low), value in (
        ((583, 580), 4), ((579, 576), 0), ((25, 23), kind), ((601, 584), shared),
        ((1055, 1024), grid[0]), ((1071, 1056), grid[1]), ((1103, 1088), grid[2]),
        ((1167, 1152), block[0]), ((1183, 1168), block[1]), ((1199, 1184), block[2]),
        ((1208, 1200), registers),
        ((1247, 1216), program & 0xFFFF_FFFF), ((1272, 1248), program >> 32),
        ((2149, 2144), cluster[0]), ((2157, 2152), cluster[1]), ((2165, 2160), cluster[2]),
        ((416, 416), int(constants[1] > 0)),
        ((1567, 1536), constants[0] >> 6 & 0xFFFF_FFFF), ((1586, 1568), constants[0] >> 38),
        ((1599, 1587), constants[1] >> 4),
    ):  # fmt: skip
        bits = put(bits, high, low, value)
    return np.frombuffer(bits.to_bytes(384, "little"), "<u4").tolist()


def qmd_v3(grid, block, registers, shared, program):
    """A QMD of version 3.0, as Ampere's (bit places: class header clc6c0qmd.h)."""
    bits = 0
    for (high, low), value in (
        ((583, 580), 3), ((579, 576), 0), ((561, 544), shared),
        ((415, 384), grid[0]), ((431, 416), grid[1]), ((463, 448), grid[2]),
        ((607, 592), block[0]), ((623, 608), block[1]), ((639, 624), block[2]),
        ((656, 648), registers),
        ((1567, 1536), program & 0xFFFF_FFFF), ((1584, 1568), program >> 32),
    ):  # fmt: skip
        bits = put(bits, high, low, value)
    return np.frombuffer(bits.to_bytes(256, "little"), "<u4").tolist()


def host_release(address, payload, execute=0x03100001):
    return inc(
        0, 0x5C, address & 0xFFFF_FFFF, address >> 32, payload & 0xFFFF_FFFF, payload >> 32, execute
    )


# --- log files ---


def record(kind, body, rest=b"", flags=0):
    rest += bytes(-len(rest) % 8)
    return struct.pack("<IHH", 8 + len(body) + len(rest), kind, flags) + body + rest


def text(kind, body, value):
    return record(kind, body, value.encode())


class Log:
    """A log file of one process; the calls append records in the order of the real ones."""

    def __init__(self, mode="full", pid=4711, driver=(580, 159, 4), process="prog"):
        self.mode = mode
        dotted = "{}.{}.{:02}".format(*driver).encode()
        self.bytes = struct.pack(
            "<8sIIIIQQ3II32s32s136x", b"DNZLENS\n", 1, 256, 1 if mode == "count" else 2, pid,
            1_000_000, 1_700_000_000_000_000_000, *driver, 0, dotted, process.encode(),
        )  # fmt: skip
        arguments = b"prog\0--fast\0"
        self.bytes += record(1, struct.pack("<II", len(arguments), 0), arguments)
        self.sequence = 0
        self.totals = [0, 0, 0]
        self.put = {}

    def thread(self, tid, name="main"):
        self.bytes += record(2, struct.pack("<II16s", tid, 0, name.encode()))
        return self

    def channel(self, number, engines=(0xCBC0, 0xC8B5), entries=1024, class_id=0xC86F, engine=1):
        self.bytes += record(
            4,
            struct.pack("<8IQQIIQ", number, 0, class_id, 1, 2, 3, engine, entries,
                        0x200600000 + number * 0x3000, 0x200602000 + number * 0x3000,
                        0x10000 + number, number, 1_000_100),
        )  # fmt: skip
        for engine_class in engines:
            self.bytes += record(6, struct.pack("<4I", number, engine_class, 9, 0))
        return self

    def memory(self, address, size, aperture, *, time=1_000_050, gone=False):
        self.bytes += record(
            18, struct.pack("<QQQII", time, address, size, aperture, 8), flags=int(gone)
        )
        return self

    def release(self, channel, address, payload, gpu_ns, *, time):
        self.bytes += record(19, struct.pack("<QQQII", time, address, gpu_ns, channel, payload))
        return self

    def name(self, api, name):
        self.bytes += record(11, struct.pack("<II", api, len(name)), name.encode())
        return self

    def doorbell(
        self, channel, entries, segments=(), *, api=0, inner=0, call=0, time=None, tid=7, flags=0
    ):
        """``segments``: of each entry the words to record, or None."""
        sequence, self.sequence = self.sequence, self.sequence + 1
        old = self.put.get(channel, 0)
        new = self.put[channel] = (old + len(entries)) % 1024
        size = sum(4 * (e >> 42 & 0x1FFFFF) for e in entries)
        time = 2_000_000 + 1000 * sequence if time is None else time
        self.bytes += record(
            7,
            struct.pack("<QQ8IQIIQQ", sequence, time, tid, channel, 0, 0x10000 + channel, old, new,
                        len(entries), 0x90, size, api, inner, call, 0x7FFF0000),
            struct.pack(f"<{len(entries)}Q", *entries),
            flags,
        )  # fmt: skip
        self.totals = [self.totals[0] + 1, self.totals[1] + len(entries), self.totals[2] + size]
        if self.mode == "full":
            for i, data in enumerate(segments):
                if data is not None:
                    self.pushbuffer(sequence, i, np.asarray(data, "<u4").tobytes())
        return self

    def pushbuffer(self, sequence, entry_number, data, piece=48 * 1024):
        for offset in range(0, len(data), piece):
            part = data[offset : offset + piece]
            self.bytes += record(
                8,
                struct.pack("<QQ4I", sequence, 0x202600000 + offset,
                            entry_number, offset, len(part), len(data)),
                part,
            )  # fmt: skip

    def submit(self, channel, packets, **how):
        """One doorbell with one entry that holds the packets' words."""
        data = np.array(packets, np.uint32)
        return self.doorbell(channel, [entry(0x202600000, len(data))], [data], **how)

    def call(self, number, api, begin, end, *, doorbells=1, tid=7, correlation=0):
        self.bytes += record(
            12, struct.pack("<QQQ4I", number, begin, end, tid, api, doorbells, correlation)
        )
        return self

    def count(self, api, calls):
        self.bytes += record(13, struct.pack("<IIQ", api, 0, calls))
        return self

    def note(self, value):
        self.bytes += record(14, struct.pack("<QII", 5, len(value), 0), value.encode())
        return self

    def lost(self, records, size, doorbells):
        self.bytes += record(10, struct.pack("<4Q", 5, records, size, doorbells))
        return self

    def overhead(self, doorbells, ns):
        self.bytes += record(16, struct.pack("<2Q", doorbells, ns))
        return self

    def end(self, time=9_000_000, lost=(0, 0, 0)):
        self.bytes += record(15, struct.pack("<12Q", time, *self.totals, 3, 0, 0, 0, *lost, 0))
        return self

    def write(self, path):
        path.write_bytes(self.bytes)
        return path

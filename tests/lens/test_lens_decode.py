# SPDX-License-Identifier: Apache-2.0
"""The decoder against streams built from the published formats, and against nonsense."""

import numpy as np
import pytest
import stream as s
from hypothesis import given, settings
from hypothesis import strategies as st

from denizen.lens import classes, qmd
from denizen.lens.decode import Stream
from denizen.lens.pushbuffer import Control, Kind, Reader, entry


def decode(*packets, of=None, engines=None):
    data = s.words(*packets)
    return (of or Stream(0xC86F, engines)).submission([s.entry(0x1000, len(data))], [data])


def one(found, kind):
    (operation,) = [operation for operation in found.operations if operation.kind == kind]
    return operation


def test_an_entry_as_the_paper_prints_it():
    e = entry(0x00003E0202600020)
    assert (e.address, e.words, e.bytes, e.control) == (0x202600020, 15, 60, None)
    assert e.subroutine and not e.sync and not e.conditional


def test_control_entries():
    e = entry(s.extended_base(0x1AB << 40))
    assert (e.words, e.control, e.extended_base) == (
        0,
        Control.SET_PB_SEGMENT_EXTENDED_BASE,
        0x1AB << 40,
    )
    assert entry(0).control == Control.NOP
    assert entry(0x77 << 32).control == 0x77


def test_every_kind_of_header():
    data = s.words(
        s.inc(1, 0x100, 1, 2), [0], s.non_inc(2, 0x104, 3, 4), s.one_inc(3, 0x108, 5, 6, 7),
        s.immediate(4, 0x10C, 0x1FFF), [1 << 16 | 0xFF0], [2 << 18 | 5 << 13 | 0x110, 8, 9],
        [2 << 29 | 1 << 18 | 6 << 13 | 0x114, 10], [7 << 29], [0xDEAD_BEEF],
    )  # fmt: skip
    packets = list(Reader().read(data))
    got = [(p.kind, p.subchannel, list(p.methods())) for p in packets[:-1]]
    assert got == [
        (Kind.INC, 1, [(0x100, 1), (0x104, 2)]),
        (Kind.NON_INC, 2, [(0x104, 3), (0x104, 4)]),
        (Kind.ONE_INC, 3, [(0x108, 5), (0x10C, 6), (0x10C, 7)]),
        (Kind.IMMEDIATE, 4, [(0x10C, 0x1FFF)]),
        (Kind.SUBDEVICE, 0, [(0, 1 << 16 | 0xFF0)]),
        (Kind.INC, 5, [(0x110, 8), (0x114, 9)]),
        (Kind.NON_INC, 6, [(0x114, 10)]),
    ]
    # What follows END_PB_SEGMENT is not read, and is still shown.
    assert packets[-1].kind == Kind.END_SEGMENT and packets[-1].data.tolist() == [0xDEAD_BEEF]


def test_a_packet_that_goes_on_in_the_next_segment():
    whole = s.words(s.one_inc(1, 0x1B0, 0x41, 1, 2, 3), s.inc(1, 0x200, 4, 5, 6))
    for cut in range(len(whole) + 1):
        reader = Reader()
        writes = [
            w for part in (whole[:cut], whole[cut:]) for p in reader.read(part) for w in p.methods()
        ]
        assert writes == [
            (0x1B0, 0x41), (0x1B4, 1), (0x1B4, 2), (0x1B4, 3), (0x200, 4), (0x204, 5), (0x208, 6),
        ], cut  # fmt: skip


def test_an_engine_copy_with_its_timestamped_release():
    packets = s.engine_copy(0x7F00_1234_5000, 0x3_0000_0040, 64 << 20, (0x2_0440_0010, 77))
    assert len(packets) == 13
    found = decode(packets)
    copy, release = found.operations
    assert (copy.kind, copy.engine, copy.bytes) == ("copy", "copy", 64 << 20)
    assert copy.detail == {"to": 0x3_0000_0040, "from": 0x7F00_1234_5000}
    assert (release.kind, release.engine) == ("release", "copy")
    assert release.detail == {"address": 0x2_0440_0010, "payload": 77, "timestamp": True}
    assert found.engines == {"copy"}
    assert not found.unknown and not found.problems and found.recorded


def test_a_copy_of_lines_keeps_what_was_set_before():
    of = Stream(0xC86F)
    decode(s.engine_copy(0x1000, 0x2000, 512), of=of)
    found = decode(
        s.inc(s.COPY, 0x410, 4096, 8192),
        s.inc(s.COPY, 0x41C, 10),
        s.immediate(s.COPY, 0x300, 0x382),
        of=of,
    )
    copy = one(found, "copy")
    assert copy.bytes == 5120
    assert copy.detail == {
        "to": 0x2000, "from": 0x1000, "lines": 10, "pitch_in": 4096, "pitch_out": 8192,
    }  # fmt: skip


def test_a_fill_is_a_remapped_copy_of_constants():
    # One component of four bytes, constant A: COMPONENT_SIZE 3, one destination, DST_X = CONST_A.
    found = decode(
        s.inc(s.COPY, 0x700, 0xABABABAB), s.inc(s.COPY, 0x708, 4 | 3 << 16),
        s.inc(s.COPY, 0x408, 0x3, 0x40), s.inc(s.COPY, 0x418, 1000),
        s.immediate(s.COPY, 0x300, 0x586),
    )  # fmt: skip
    fill = one(found, "fill")
    assert fill.bytes == 4000
    assert fill.detail == {"to": 0x3_0000_0040, "element_bytes": 4, "value": 0xABABABAB}


@pytest.mark.parametrize("size", [1, 4, 64, 16_384, 65_536])
def test_an_inline_copy(size):
    data = np.random.default_rng(size).bytes(size)
    found = decode(s.inline_copy(0x7_0000_0004, data))
    copy = one(found, "inline copy")
    assert (copy.engine, copy.bytes, copy.detail["to"]) == ("compute", size, 0x7_0000_0004)
    assert found.methods["LOAD_INLINE_DATA"] == -(-size // 4)
    # The bytes that the probes saw: 16,440 and 65,600 with what else a call submits.
    assert len(s.inline_copy(0, data)) * 4 <= size + 3 + 4 * (8 + 3)


def test_an_inline_copy_by_one_increment_once_header():
    data = list(range(16))
    found = decode(
        s.inc(s.COMPUTE, 0x180, 64, 1),
        s.inc(s.COMPUTE, 0x188, 0, 0x500),
        s.one_inc(s.COMPUTE, 0x1B0, 0x41, *data),
    )
    assert one(found, "inline copy").bytes == 64
    assert found.methods["LOAD_INLINE_DATA"] == 16


LAUNCH = {
    "grid": (7, 5, 3),
    "block": (128, 2, 1),
    "registers": 40,
    "shared": 49_152,
    "program": 0x7_1234_5600,
}


def check_launch(launch, address):
    assert launch.detail["qmd_address"] == address
    assert launch.detail["grid"] == [7, 5, 3]
    assert launch.detail["block"] == [128, 2, 1]
    assert launch.detail["registers"] == 40
    assert launch.detail["shared_bytes"] == 49_152
    assert launch.detail["program"] == 0x7_1234_5600


def test_a_hopper_launch_by_an_inline_qmd():
    clusters = {**LAUNCH, "grid": (7, 5, 1)}  # of three blocks each
    words = s.qmd_v4(**clusters, kind=3, cluster=(1, 1, 3), constants=(0x3_0000_1040, 544))
    address = 0x2_0450_0000
    found = decode(
        s.inc(s.COMPUTE, 0x318, address >> 40 | 1 << 30, address >> 8 & 0xFFFF_FFFF),
        s.inc(s.COMPUTE, 0x320, *words),
    )
    launch = one(found, "launch")
    check_launch(launch, address)
    assert launch.detail["qmd"] == "4.0"
    assert (launch.detail["type"], launch.detail["cluster"]) == ("GRID_GPC_CGA", [1, 1, 3])
    assert (launch.detail["constants"], launch.detail["constant_bytes"]) == (0x3_0000_1040, 544)
    assert launch.detail["action"] == "inline"


def test_a_grid_that_runs_nothing_is_no_launch():
    address = 0x2_0450_0000
    words = s.qmd_v4((0, 0, 0), (1, 1, 1), 8, 0, 0, kind=1)
    found = decode(s.inc(s.COMPUTE, 0x318, 0, address >> 8), s.inc(s.COMPUTE, 0x320, *words))
    assert one(found, "queue").detail["type"] == "GRID_NULL"


def test_a_qmd_loaded_inline_and_then_scheduled_is_one_launch():
    address = 0x2_0450_0000
    found = decode(
        s.inc(s.COMPUTE, 0x318, 0, address >> 8), s.inc(s.COMPUTE, 0x320, *s.qmd_v4(**LAUNCH)),
        s.inc(s.COMPUTE, 0x2B4, address >> 8), s.immediate(s.COMPUTE, 0x2C0, 9),
    )  # fmt: skip
    launch = one(found, "launch")
    assert launch.detail["action"] == "inline, PREFETCH_SCHEDULE"


def test_an_ampere_launch_of_a_qmd_that_an_inline_copy_wrote():
    address = 0x2_0450_0100
    of = Stream(0xC56F)
    blob = np.array(s.qmd_v3(**LAUNCH), "<u4").tobytes()
    # The QMD lies inside a longer copy, which a submission before it made.
    decode(s.inline_copy(address - 0x40, bytes(0x40) + blob + bytes(32)), of=of)
    found = decode(s.inc(s.COMPUTE, 0x2B4, address >> 8), s.immediate(s.COMPUTE, 0x2BC, 3), of=of)
    launch = one(found, "launch")
    check_launch(launch, address)
    assert (launch.detail["qmd"], launch.detail["action"]) == ("3.0", "SCHEDULE")


def test_a_launch_of_an_unseen_qmd_has_no_grid():
    found = decode(s.inc(s.COMPUTE, 0x2B4, 0x2045000), s.immediate(s.COMPUTE, 0x2C0, 3))
    launch = one(found, "launch")
    assert launch.detail == {"qmd_address": 0x2_0450_0000, "action": "INVALIDATE_COPY_SCHEDULE"}
    other = decode(s.inc(s.COMPUTE, 0x2B4, 1), s.immediate(s.COMPUTE, 0x2C0, 1))
    assert [o.kind for o in other.operations] == ["queue"]


def test_host_semaphores():
    found = decode(s.host_release(0x2_0440_0020, 5 | 1 << 32))
    release = one(found, "release")
    assert release.engine == "host"
    assert release.detail == {
        "address": 0x2_0440_0020, "payload": 5 | 1 << 32, "timestamp": True, "waits_for_idle": True,
    }  # fmt: skip
    acquire = one(decode(s.host_release(0x1_0000_0010, 9, execute=3 | 1 << 12)), "acquire")
    assert acquire.detail == {"address": 0x1_0000_0010, "payload": 9, "condition": "ACQ_CIRC_GEQ"}


def test_report_semaphores_of_the_compute_engine():
    old = one(decode(s.inc(s.COMPUTE, 0x1B00, 2, 0x0440_0030, 11, 0)), "release")
    assert old.engine == "compute"
    assert old.detail == {"address": 0x2_0440_0030, "payload": 11, "timestamp": True}
    new = one(decode(s.inc(s.COMPUTE, 0x158, 12, 1, 0x0440_0040, 2, 1 << 12)), "release")
    assert new.detail == {"address": 0x2_0440_0040, "payload": 12 | 1 << 32, "timestamp": True}


def test_waits_invalidations_interrupts_barriers_and_macros():
    found = decode(
        s.inc(0, 0x78, 0), s.inc(0, 0x20, 0), s.inc(0, 0x30, 0, 5 << 27),
        s.immediate(s.COMPUTE, 0x110, 0), s.immediate(s.COMPUTE, 0x21C, 0x1011),
        s.one_inc(s.COMPUTE, 0x3808, 1, 2, 3, 4), s.immediate(s.COMPUTE, 0x110, 0),
    )  # fmt: skip
    kinds = [(operation.kind, operation.engine) for operation in found.operations]
    assert kinds == [
        ("wait", "host"), ("interrupt", "host"), ("barrier", "host"), ("wait", "compute"),
        ("invalidate", "compute"), ("macro", "compute"), ("wait", "compute"),
    ]  # fmt: skip
    assert found.operations[2].detail == {"what": "SYS_MEMBAR"}
    assert found.operations[4].detail == {
        "what": "SHADER_CACHES",
        "of": "INSTRUCTION DATA CONSTANT",
    }
    assert found.operations[5].detail == {"macro": 1, "words": 4}


def test_unknown_methods_are_shown_by_number_with_their_count():
    found = decode(
        s.inc(s.COMPUTE, 0x3F0, 1, 2), s.non_inc(s.COMPUTE, 0x4FC, 1, 2, 3), s.inc(6, 0x300, 1)
    )
    assert found.unknown["cbc0:0x04fc"] == 0  # an element of LOAD_INLINE_QMD_DATA's array
    found = decode(
        s.inc(s.COPY, 0x600, 1, 2), s.non_inc(s.COPY, 0x600, 1, 2, 3), s.inc(6, 0x300, 1)
    )
    assert found.unknown == {"c8b5:0x0600": 4, "c8b5:0x0604": 1, "0000:0x0300": 1}


def test_a_bound_class_changes_what_methods_mean():
    found = decode(
        s.inc(2, 0, 0xC8B5),
        s.inc(2, 0x400, 0, 0x10, 0, 0x20),
        s.inc(2, 0x418, 4),
        s.immediate(2, 0x300, 0x182),
    )
    assert [o.kind for o in found.operations] == ["bind", "copy"]
    assert found.operations[0].detail == {"class": 0xC8B5, "subchannel": 2}
    other = decode(s.inc(2, 0, 0xCB97), s.inc(2, 0x400, 1))
    assert other.unknown == {"cb97:0x0400": 1}


def test_the_classes_of_a_channel_are_where_they_usually_are():
    found = decode(s.engine_copy(1 << 32, 2 << 32, 8), engines=[0xC7B5])
    assert one(found, "copy").bytes == 8


def test_missing_contents_are_told_and_break_nothing():
    of = Stream(0xC86F)
    first = s.words(s.inc(s.COPY, 0x400, 1, 2, 3, 4))
    found = of.submission([s.entry(0, 3), s.entry(64, 9)], [first[:3], None])
    assert not found.recorded
    # The open packet was given up: the next words are headers again.
    assert one(decode(s.engine_copy(1, 2, 3), of=of), "copy").bytes == 3
    assert not of.submission([s.entry(0, 3)], []).recorded


def test_a_wrong_header_is_told():
    found = decode([6 << 29 | 1], s.engine_copy(1, 2, 3))
    assert found.problems == ["word 0 (0xc0000001) is no header"]
    assert found.operations == []


def test_tables_name_what_the_notes_name():
    compute = classes.engine_class(0xCBC0)
    assert compute.name(0x1B4) == "LOAD_INLINE_DATA"
    assert compute.name(0x320 + 4 * 95) == "LOAD_INLINE_QMD_DATA[95]"
    assert compute.name(0x3804) == "CALL_MME_DATA[0]"
    assert compute.name(0x3FF8) == "CALL_MME_MACRO[255]"
    assert compute.name(0x108 + 2) == "0x010a"
    assert classes.engine_class(0x1234) is None
    assert classes.engine_of(0xC8B5) == "copy"
    for number in (*classes.HOSTS, *classes.COMPUTES, *classes.COPIES):
        table = classes.engine_class(number)
        assert len(table.methods) > 20
        for method in table.methods:
            assert method.offset % 4 == 0 and 0 <= method.offset < 0x4000
            for bits in method.fields.values():
                assert 0 <= bits.low <= bits.high < 32
                assert all(value >> (bits.high - bits.low + 1) == 0 for value in bits.values)


def test_qmds_that_are_cut_or_of_other_versions_are_refused():
    whole = np.array(s.qmd_v4(**LAUNCH), np.uint32)
    assert qmd.Qmd(whole)["BARRIER_COUNT"] == 0
    for words in (np.zeros(96, np.uint32), whole[:64], whole[:10]):
        assert qmd.launch(words) is None
        with pytest.raises(ValueError, match="QMD"):
            qmd.Qmd(words)


# Headers that look right, and words that need not: what a damaged or misread stream holds.
_word = st.one_of(
    st.integers(0, 2**32 - 1),
    st.builds(
        lambda op, count, sub, method: op << 29 | count << 16 | sub << 13 | method,
        st.integers(0, 7),
        st.integers(0, 40),
        st.integers(0, 7),
        st.one_of(
            st.integers(0, 0xFFF),
            st.sampled_from([0x180 // 4, 0x1B0 // 4, 0x2C0 // 4, 0x318 // 4, 0xC0]),
        ),
    ),
    st.sampled_from([0, 0x41, 0x182, 0xC8B5, 0xCBC0, 0xCB97, 4 << 4, 3]),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.lists(_word, max_size=200), max_size=6), st.data())
def test_nonsense_neither_crashes_nor_loops(segments, data):
    arrays = [np.array(segment, np.uint32) for segment in segments]
    entries = [
        data.draw(
            st.sampled_from(
                [s.entry(0, len(a)), s.entry(4, len(a) + 3), 0x123456789, s.extended_base(5 << 40)]
            )
        )
        for a in arrays
    ]
    of = Stream(
        data.draw(st.sampled_from([0xC86F, 0xC56F, 0xFFFF])),
        data.draw(st.sampled_from([None, [0xC7C0]])),
    )
    for _ in range(2):
        found = of.submission(entries, arrays)
        assert sum(found.methods.values()) + sum(found.unknown.values()) <= 3 + sum(
            map(len, arrays)
        ) + 2 * len(arrays)


@settings(max_examples=100, deadline=None)
@given(st.lists(_word, max_size=300), st.integers(0, 300))
def test_every_word_is_read_once(words, cut):
    array = np.array(words, np.uint32)
    reader = Reader()
    seen = 0
    for part in (array[:cut], array[cut:]):
        at = 0
        for packet in reader.read(part):
            if packet.kind == Kind.SUBDEVICE:
                size = 1
            elif packet.kind == Kind.INVALID:
                size = len(packet.data)
            elif packet.kind == Kind.IMMEDIATE:
                size = 1
            else:
                size = len(packet.data) + (packet.at >= 0)
            begin = max(packet.at, 0)
            assert not part[at:begin].any()  # nothing is skipped but zeros
            at = begin + size
        assert not part[at:].any()
        seen += len(part)
    assert seen == len(array)


def test_a_truncated_stream_is_decoded_up_to_the_cut():
    data = s.words(s.engine_copy(1 << 40, 2 << 40, 4096, (0x2_0440_0010, 7)))
    for cut in range(len(data)):
        found = Stream(0xC86F).submission([s.entry(0, len(data))], [data[:cut]])
        assert not found.recorded
        assert len(found.operations) == (cut >= 8) + (cut >= 13)

# SPDX-License-Identifier: Apache-2.0
"""Message types: what NumPy stores is what a C++ handler reads, and the other way round."""

import copy
import pickle
import re

import numpy as np
import pytest

import denizen

C_TYPES = {
    "u1": "uint8_t",
    "u2": "uint16_t",
    "u4": "uint32_t",
    "u8": "uint64_t",
    "i1": "int8_t",
    "i2": "int16_t",
    "i4": "int32_t",
    "i8": "int64_t",
    "f4": "float",
    "f8": "double",
    "b1": "bool",
}
# The order makes a C compiler pad between fields and at the end.
EVERY = denizen.message("Every", [(f"{c}_field", c) for c in C_TYPES])
PLAIN = denizen.message("Plain", [(f"{c}_field", c) for c in ("u1", "f8", "i2", "u8", "b1")])
ARRAYS = denizen.message(
    "Arrays", [("grid", "f4", (3, 4)), ("tail", "u1", 5), ("last", "i8", (2,))]
)
EMPTY = denizen.message("Empty")
SHORT = denizen.message("Short", [("words", "u4", (9,))])  # 36 bytes: the most in one slot
LONGER = denizen.message("Longer", [("bytes", "u1", (37,))])  # one byte more: two slots

MIRROR = r"""
struct Mirror {
    uint32_t empties = 0;
    void on(const Every& m, auto& ctx) {
        ctx.reply(Every{uint8_t(m.u1_field + 1), uint16_t(m.u2_field + 1), m.u4_field + 1,
                        m.u8_field + 1, int8_t(m.i1_field - 1), int16_t(m.i2_field - 1),
                        m.i4_field - 1, m.i8_field - 1, m.f4_field * 2, m.f8_field * 2,
                        !m.b1_field});
    }
    void on(const Plain& m, auto& ctx) {
        ctx.reply(Plain{uint8_t(m.u1_field + 1), m.f8_field * 2, int16_t(m.i2_field - 1),
                        m.u8_field + 1, !m.b1_field});
    }
    void on(const Arrays& m, auto& ctx) {
        Arrays r = m;
        for (int i = 0; i < 3; ++i)
            for (int j = 0; j < 4; ++j) r.grid[i][j] = m.grid[i][j] + 10.0f * i + j;
        for (int i = 0; i < 5; ++i) r.tail[i] = m.tail[4 - i];
        r.last[0] = m.last[1];
        r.last[1] = m.last[0];
        ctx.reply(r);
    }
    void on(const Empty& m, auto& ctx) { ++empties; ctx.reply(m); }
    void on(const Short& m, auto& ctx) {
        Short r = m;
        for (int i = 0; i < 9; ++i) r.words[i] = ~m.words[i];
        ctx.reply(r);
    }
    void on(const Longer& m, auto& ctx) {
        Longer r = m;
        for (int i = 0; i < 37; ++i) r.bytes[i] = m.bytes[i] ^ 0xff;
        ctx.reply(r);
    }
};
"""


@pytest.fixture
def mirror(device):
    program = denizen.Program(
        MIRROR,
        actors=["Mirror"],
        messages=[EVERY, PLAIN, ARRAYS, EMPTY, SHORT, LONGER],
        name="mirror",
    )
    with denizen.Runtime(program, device) as rt:
        (actor,) = rt.spawn("Mirror")
        yield lambda message: rt.ask(actor, message, timeout=10)


def test_every_field_type_crosses_both_ways(mirror):
    sent = {
        "u1": 200, "u2": 60_000, "u4": 4_000_000_000, "u8": 2**63 + 5, "i1": -100, "i2": -30_000,
        "i4": -2_000_000_000, "i8": -(2**62), "f4": 1.5, "f8": -2.25, "b1": True,
    }  # fmt: skip
    reply = mirror(EVERY(**{f"{c}_field": v for c, v in sent.items()}))
    assert {c: reply[f"{c}_field"] for c in sent} == {
        "u1": 201, "u2": 60_001, "u4": 4_000_000_001, "u8": 2**63 + 6, "i1": -101, "i2": -30_001,
        "i4": -2_000_000_001, "i8": -(2**62) - 1, "f4": 3.0, "f8": -4.5, "b1": False,
    }  # fmt: skip


def test_padded_fields_lie_where_a_c_compiler_puts_them(mirror):
    assert [PLAIN.dtype.fields[n][1] for n in PLAIN.dtype.names] == [0, 8, 16, 24, 32]
    assert PLAIN.dtype.itemsize == 40
    reply = mirror(PLAIN(u1_field=1, f8_field=2.5, i2_field=-3, u8_field=2**40, b1_field=False))
    assert reply.tolist() == (2, 5.0, -4, 2**40 + 1, True)


def test_records_that_are_not_laid_out_as_in_c_are_made_so(device):
    packed = np.dtype([("x", "u1"), ("y", "u4"), ("z", [("re", "f4"), ("im", "f8")])])
    flat = np.dtype([("a", "u4"), ("b", "u4")])
    kind = denizen.message("Kind", [("first", "u1"), ("one", packed), ("two", flat, (2,))])
    handler = "void on(const Kind& m, auto& ctx) { Kind k = m; ++k.one.y; ctx.reply(k); }"
    given = np.zeros((), packed)
    given["y"], given["z"]["im"] = 6, 2.5
    program = denizen.Program(f"struct Echo {{ {handler} }};", actors=["Echo"], messages=[kind])
    with denizen.Runtime(program, device) as rt:
        (echo,) = rt.spawn("Echo")
        reply = rt.ask(echo, kind(1, given[()], np.array([(1, 2), (3, 4)], flat)), timeout=20)
    assert reply.item()[:2] == (1, (0, 7, (0.0, 2.5)))
    assert reply["two"].tolist() == [(1, 2), (3, 4)]


def test_arrays_keep_their_shape(mirror):
    grid = np.arange(12, dtype="f4").reshape(3, 4)
    reply = mirror(ARRAYS(grid=grid, tail=[1, 2, 3, 4, 5], last=[-1, 2**50]))
    assert np.array_equal(reply["grid"], grid + 10 * np.arange(3)[:, None] + np.arange(4))
    assert reply["tail"].tolist() == [5, 4, 3, 2, 1]
    assert reply["last"].tolist() == [2**50, -1]


def test_an_empty_message_has_one_byte_as_in_c(mirror):
    assert EMPTY.dtype.itemsize == 1
    assert EMPTY.dtype.names == ()
    assert mirror(EMPTY()).dtype == EMPTY.dtype


def test_one_slot_and_one_byte_more(mirror):
    words = np.arange(9, dtype="u4") * 0x01010101
    assert np.array_equal(mirror(SHORT(words=words))["words"], ~words)
    data = np.arange(37, dtype="u1")
    assert np.array_equal(mirror(LONGER(bytes=data))["bytes"], data ^ 0xFF)


def test_the_longest_message(device):
    huge = denizen.message("Huge", [("words", "u4", (16_384,))])
    assert huge.dtype.itemsize == 65_536
    text = """
    struct Reverser {
        uint32_t seen = 0;
        void on(const Huge& m, auto& ctx) {
            ++seen;
            Digest d{};
            for (uint32_t i = 0; i < 16384; ++i) d.sum += uint64_t(i + 1) * m.words[i];
            d.first = m.words[0];
            d.last = m.words[16383];
            ctx.reply(d);
        }
    };
    """
    digest = denizen.message("Digest", [("sum", "u8"), ("first", "u4"), ("last", "u4")])
    program = denizen.Program(text, actors=["Reverser"], messages=[huge, digest], name="huge")
    words = np.random.default_rng(1).integers(0, 2**32, 16_384, dtype="u4")
    with denizen.Runtime(program, device, workers=1 if device == "gpu" else None, asks=4) as rt:
        (actor,) = rt.spawn("Reverser")
        reply = rt.ask(actor, huge(words=words), timeout=20)
    weights = np.arange(1, 16_385, dtype="u8")
    assert reply["sum"] == (weights * words).sum()
    assert (reply["first"], reply["last"]) == (words[0], words[-1])


def test_a_message_that_is_too_long_is_refused():
    with pytest.raises(denizen.MessageError, match=r"Over has 65537 bytes, the limit is 65536"):
        denizen.message("Over", [("bytes", "u1", (65_537,))])


def test_what_a_field_would_not_hold_is_refused_by_name():
    tick = denizen.message("Tick", [("n", "u4"), ("x", "f4"), ("many", "i2", (2,)), ("on", "b1")])
    refused = [
        ({"n": 1.7}, r"field n of Tick is u4: a whole number, not 1.7"),
        ({"n": "x"}, r"field n of Tick is u4; 'x' is none"),
        ({"n": None}, r"field n of Tick is u4; None is none"),
        ({"n": -1}, r"field n of Tick is u4: 0 to 4294967295, not -1"),
        ({"n": np.int64(2**32)}, r"field n of Tick is u4: 0 to 4294967295, not"),
        ({"n": float("nan")}, r"field n of Tick is u4: a whole number, not nan"),
        ({"n": float("inf")}, r"field n of Tick is u4: 0 to 4294967295, not inf"),
        ({"n": [1, 2]}, r"field n of Tick is u4: one number, not an array of shape \(2,\)"),
        ({"n": 2**70}, r"field n of Tick is u4: 0 to 4294967295, not 1180591620717411303424"),
        ({"x": 1e300}, r"field x of Tick is f4: up to 3.40282e\+38, or an infinity, not 1e\+300"),
        ({"x": 2**200}, r"field x of Tick is f4: up to 3.40282e\+38"),
        ({"x": "1.5"}, r"field x of Tick is f4; '1.5' is none"),
        ({"x": 1j}, r"field x of Tick is f4; 1j is none"),
        ({"many": [1, 2.5]}, r"field many of Tick is i2: a whole number, not \[1, 2.5\]"),
        ({"many": [1, 70_000]}, r"field many of Tick is i2: -32768 to 32767, not"),
        ({"many": [1, 2, 3]}, r"field many of Tick is i2: an array of shape \(2,\), not .*\(3,\)"),
        ({"many": [1]}, r"field many of Tick is i2: an array of shape \(2,\), not .*\(1,\)"),
        ({"on": 0.5}, r"field on of Tick is b1: True or False, not 0.5"),
        ({"on": 2}, r"field on of Tick is b1: True or False, not 2"),
    ]
    for fields, text in refused:
        with pytest.raises(denizen.MessageError, match=text):
            tick(**fields)
    held = tick(n=2.0, x=np.float64(0.5), many=np.array([1, -2]), on=1)
    assert (held["n"], held["x"], held["many"].tolist(), held["on"]) == (2, 0.5, [1, -2], True)
    assert tick(n=np.uint32(7), x=3, many=4)["many"].tolist() == [4, 4]


def test_the_fields_of_a_record_are_checked_as_those_of_its_message():
    point = np.dtype([("x", "f8"), ("steps", "i4")])
    move = denizen.message("Move", [("at", point), ("past", point, (2,))])
    refused = [
        ({"at": (0, 1.5)}, r"field at.steps of Move is i4: a whole number, not 1.5"),
        ({"at": (0, 2**40)}, r"field at.steps of Move is i4: -2147483648 to 2147483647, not 1099"),
        ({"at": ("a", 0)}, r"field at.x of Move is f8; 'a' is none"),
        ({"at": (1, 2, 3)}, r"field at of Move is a record of x f8, steps i4; give a tuple of 2, "),
        ({"at": 5}, r"field at of Move is a record of x f8, steps i4; give a tuple of 2, not 5"),
        ({"at": {"x": 1}}, r"field at of Move is a record of"),
        ({"past": [(0, 0), (0, 0.5)]}, r"field past\[1\].steps of Move is i4: a whole number"),
        ({"past": [(0, 0)]}, r"field past of Move is an array of 2 records \(x f8, steps i4\)"),
    ]
    for fields, text in refused:
        with pytest.raises(denizen.MessageError, match=text):
            move(**fields)
    wide = np.array((2.5, 7), [("x", "f4"), ("steps", "i8")])
    held = move(at=wide, past=[(0, 1), np.array((0, 2), point)])
    assert held["at"].tolist() == (2.5, 7)
    assert held["past"]["steps"].tolist() == [1, 2]


def test_messages_start_at_zero_and_know_their_fields():
    assert PLAIN().tolist() == (0, 0.0, 0, 0, False)
    with pytest.raises(
        denizen.MessageError, match='message Plain has no field "x"; it has u1_field, f8_'
    ):
        PLAIN(x=1)
    fields = "u1_field u1, f8_field f8, i2_field i2, u8_field u8, b1_field b1"
    assert repr(PLAIN) == f"<message Plain: {fields}; 40 bytes>"
    assert PLAIN.zeros(3).shape == (3,)
    assert PLAIN.zeros(3).dtype == PLAIN.dtype


OVERLAPPING = np.dtype({"names": ["x", "y"], "formats": ["u4", "u4"], "offsets": [0, 2]})


@pytest.mark.parametrize(
    ("name", "fields", "text"),
    [
        ("9lives", [], '"9lives" is not an identifier'),
        ("Größe", [], "is not an identifier"),
        ("a b", [], "is not an identifier"),
        ("class", [], '"class" is a keyword of C'),
        ("double", [], '"double" is a keyword of C'),
        (7, [], '"7" is not an identifier'),
        ("M", [("int", "u4")], 'field of message M "int" is a keyword'),
        ("M", [("x.y", "u4")], 'field of message M "x.y" is not an identifier'),
        ("M", [("x", "f2")], "field x of message M has dtype float16; use integers"),
        ("M", [("x", "S4")], "field x of message M has dtype"),
        ("M", [("x", "O")], "field x of message M has dtype object"),
        ("M", [("x", ">u4")], "native byte order"),
        ("M", [("x", [("y", "f2")])], r"M\.x\.y: dtype\('float16'\) is no field"),
        ("M", [("x", [("y", ">u4")])], r"M\.x\.y: dtype\('>u4'\) is no field.* native byte order"),
        ("M", [("x", [("y", [("int", "u4")])])], r'M\.x\.y: field "int" is a keyword'),
        ("M", [("x", [("y", "u4", (0,))])], r"M\.x\.y has no elements"),
        ("M", [("x", [])], "M.x is a record without fields"),
        ("M", [("x", "c32")], "field x of message M has dtype complex256"),
        ("M", [("x", OVERLAPPING)], r"M\.x: y does not lie behind the fields before it"),
        ("M", [("x",)], r"message M: \('x',\) is no field; give \(name, type\)"),
        ("M", {"x": "u4"}, "message M: 'x' is no field; give"),
        ("M", "x", "message M: 'x' is no field; give"),
        ("M", [("x", "u4", (0,))], "C.. has no empty arrays"),
        ("M", [("x", "u4"), ("x", "u4")], "message M: .*more than once"),
        ("M", [("x", "no such type")], "message M: .*fields are"),
    ],
)
def test_what_has_no_twin_in_c_is_refused(name, fields, text):
    with pytest.raises(denizen.ArgumentError, match=text):
        denizen.message(name, fields)


# ---- arrays that forgot their type's name


def twins_program():
    left = denizen.message("Left", [("n", "u4")])
    right = denizen.message("Right", [("n", "u4")])
    other = denizen.message("Other", [("n", "u8")])
    text = """
    struct Sink {
        uint64_t left = 0, right = 0, other = 0;
        void on(const Left& m, auto&) { left += m.n; }
        void on(const Right& m, auto&) { right += m.n; }
        void on(const Other& m, auto&) { other += m.n; }
        void on(const Get&, auto& ctx) { ctx.reply(Sums{left, right, other}); }
    };
    """
    get = denizen.message("Get")
    sums = denizen.message("Sums", [("left", "u8"), ("right", "u8"), ("other", "u8")])
    messages = [left, right, other, get, sums]
    return denizen.Program(text, actors=["Sink"], messages=messages, name="twins")


def test_the_name_in_the_metadata_tells_twins_apart():
    program = twins_program()
    left, right = program.messages["Left"], program.messages["Right"]
    with denizen.Runtime(program, "cpu:1") as rt:
        (sink,) = rt.spawn("Sink")
        rt.send(sink, left(n=1))
        rt.send(sink, right(n=10))
        rt.send_many(sink, np.full(5, 100, "u4").view(left.dtype))
        assert rt.ask(sink, "Get").tolist() == (501, 10, 0)


def test_a_dtype_without_its_name_is_taken_if_only_one_message_fits():
    with denizen.Runtime(twins_program(), "cpu:1") as rt:
        (sink,) = rt.spawn("Sink")
        nameless = np.zeros(3, np.dtype([("n", "u8")]))
        nameless["n"] = 7
        assert nameless.dtype.metadata is None
        rt.send_many(sink, nameless)
        rt.send(sink, nameless[0])
        assert rt.ask(sink, "Get")["other"] == 28


def test_a_dtype_that_two_messages_share_is_refused_by_name():
    with denizen.Runtime(twins_program(), "cpu:1") as rt:
        (sink,) = rt.spawn("Sink")
        nameless = np.zeros(3, np.dtype([("n", "u4")]))
        with pytest.raises(denizen.MessageError, match=r"the same for Left, Right of this program"):
            rt.send_many(sink, nameless)
        with pytest.raises(denizen.MessageError, match="is no message of this program"):
            rt.send_many(sink, np.zeros(3, "f4"))


def test_a_field_for_an_address_is_one_for_both_sides(device):
    join = denizen.message("Join", [("to", denizen.ADDRESS), ("others", denizen.ADDRESS, (2,))])
    seen = denizen.message("Seen", [("by", denizen.ADDRESS)])
    text = """
    struct Room {
        void on(const Join& m, auto& ctx) { ctx.send(m.to, Seen{ctx.self()}); }
        void on(const Seen& m, auto& ctx) { ctx.send(denizen::host, m); }
    };
    """
    rooms = denizen.Program(text, actors=["Room"], messages=[join, seen])
    with denizen.Runtime(rooms, device) as rt:
        a, b = rt.spawn("Room", 2)
        rt.send(a, join(to=b))
        got = rt.receive(timeout=20)
        assert (got.message["by"], got.sender) == (a, b)


def test_types_programs_and_runtimes_say_what_they_are():
    small = denizen.message("Small", [("n", "u4"), ("words", "f4", (2, 3))])
    assert repr(small) == "<message Small: n u4, words f4[2][3]; 28 bytes>"
    one = small(5, words=[[1, 2, 3], [4, 5, 6]])
    assert repr(one) == "Small(n=5, words=[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])"
    assert one.dtype == small.dtype
    assert repr(copy.deepcopy(one)) == repr(pickle.loads(pickle.dumps(one))) == repr(one)
    assert repr(denizen.message("Empty")()) == "Empty()"
    assert "<td>words</td><td>f4[2][3]</td><td>byte 4</td>" in small._repr_html_()
    program = denizen.Program("struct A {};", actors=["A"], messages=[small], name="tiny")
    assert repr(program) == "<denizen.Program tiny: actors A; messages Small>"
    assert "<td>A</td><td>actor</td>" in program._repr_html_()
    with denizen.Runtime(program, "cpu:1") as rt:
        assert re.fullmatch(
            r"<denizen.Runtime tiny: on .*; workers 1; mode running; handled \d+>", repr(rt)
        )
        assert "tiny" in rt._repr_html_()
        rt.pause()
        assert "mode paused" in repr(rt)
    assert repr(rt) == "<denizen.Runtime tiny: is closed>"

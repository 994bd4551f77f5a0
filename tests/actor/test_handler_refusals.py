# SPDX-License-Identifier: Apache-2.0
"""What a handler in Python cannot do is refused at its line, with what to write instead."""

import textwrap
import traceback

import pytest

import denizen
from denizen import extras

HEAD = """\
import math
import numpy as np
import denizen

TABLE = [1, 2]
TEXT = "text"
LARGE = 2**32

@denizen.message
class Tick:
    n: np.uint32
    words: (np.uint8, 4)
    place: denizen.record(type("Place", (), {"__annotations__": {"x": np.float64}}))

@denizen.message
class Tock:
    pass

@denizen.message
class Long:
    words: (np.uint64, 5)

def doubled(x):
    return 2 * x

def endless(x):
    return endless(x)

def either(x, u):
    if x > 0:
        return u
    return 1

def made(x):
    return Tock()

def positive(x):
    if x > 0:
        return 1

def shifted(x, y=None):
    return x

class Plain:
    pass

def shouts(x):
    print(x)
    return x

@denizen.actor
class Actor:
    LIMIT = 5
    sum: np.uint64 = 0
    cells: (np.float32, 4)
    def on_tick(self, m: Tick, ctx):
"""
LINE = HEAD.count("\n") + 1


def handler(load, body):
    module = load(HEAD + textwrap.indent(body, " " * 8))
    return denizen.Program(actors=[module.Actor])


REFUSED = [
    ("raise ValueError", 0, "raise; use ctx.fail"),
    ("assert m.n", 0, "assert; use if and ctx.fail"),
    ("try:\n    pass\nfinally:\n    pass", 0, "try; nothing raises"),
    ("with m: pass", 0, "with;"),
    ("x = [1, 2]", 0, "a list; use a field that is an array"),
    ("x = {}", 0, "a dict; use a field"),
    ("x = 'text'", 0, "a string; text travels as an array"),
    ("x = f'{m.n}'", 0, "a string"),
    ("x = lambda: 1", 0, "lambda; define a function"),
    ("import os", 0, "import; import at the top"),
    ("def f(): pass", 0, "a function within; define it outside"),
    ("x = (1, 2)", 0, "a tuple; use several names"),
    ("yield 1", 0, "yield; send a message"),
    ("x: np.uint32 = 5", 0, r"a type for a local; write x = np.uint32\(...\)"),
    ("return 5", 0, r"return with a value; ctx.reply\(...\) answers"),
    ("pass\nfor i in TABLE: pass", 1, r"may go over are range\(\), an array that is a field or a"),
    ("for i in reversed(range(9)): pass", 0, r"reversed\(\); use range\(n - 1, -1, -1\)"),
    ("for i in m.words[1:]: pass", 0, r"a slice; use a loop over range\(\)"),
    ("for i in range(0, 9, m.n): pass", 0, "a step that is no constant; use while"),
    ("while m.n: pass\nelse: pass", 0, "else of a loop"),
    ("x = m.n ** m.n", 0, r"a number from 1 to 16, a float, 1 << n for 2 \*\* n, or math.pow"),
    ("x = m.n @ m.n", 0, "@; use a loop over the elements"),
    ("x = 2**64 - 1", 0, "18446744073709551616; whole numbers have 64 bits"),
    ("self.sum **= 2", 0, r"\*\*=; write x = x \*\* 2"),
    ("x = m.n is None", 0, "is; a field always has a value: compare numbers with =="),
    ("x = m.n in m.words", 0, "write a <= x and x < b, or a loop"),
    ("x = 1 < doubled(m.n) < 5", 0, "where b comes of a call; assign it to a name before"),
    ("x = doubled(m.n) or 5", 0, "where a value comes of a call; assign it to a name before"),
    ("x = None", 0, "None; use a number that stands for it"),
    ("x = 1j", 0, "a complex number; assign the parts of a field"),
    ("x = m['n']", 0, r"a name as a place; write m\.n"),
    ("if m.n:\n    x = 1\nself.sum = x", 2, "x may not have been assigned yet; assign it before"),
    ("for i in range(m.n):\n    x = 1\nself.sum = x", 2, "x may not have been assigned yet"),
    ("x += 1", 0, "x may not have been assigned yet"),
    ("ctx.reply(made(m.n))", None, "made returns what it has made, which ends with it"),
    ("x = positive(m.n)", None, "positive returns a value here and none on another way"),
    (
        "k = Tock()\nwhile m.n:\n    t = Tock()\n    k = t",
        3,
        "t is made in a loop, each time in the same memory",
    ),
    ("x, y = doubled(1)", 0, "a, b = ... of one value"),
    ("ctx.self = 5", 0, r"ctx.self = ...: state is in fields of self"),
    ("Tock = 1\nctx.reply(Tock())", 1, r"Tock\(\), a local here, as a function"),
    ("x = self.cells[1:2]", 0, r"a slice; use a loop over range\(\)"),
    ("x = TABLE[m.n]", 0, "with TABLE from outside; give the actor a field that begins with it"),
    ("TABLE[0] = 3", 0, "TABLE, which is from outside; what it changes are fields of self"),
    ("x = TABLE[2]", 0, r"TABLE\[2\]: list index out of range"),
    ("x = TABLE", 0, r"TABLE, which is \[1, 2\]; what it may use from outside are numbers"),
    ("m.n = 5", 0, "what came stays as it is; make a new message"),
    ("m.words[0] += 5", 0, "what came stays as it is; make a new message"),
    ("x = open('f')", 0, r"open\(\); use a message to the host"),
    ("x = math.gcd(m.n, 4)", 0, r"math.gcd\(\); it may call int, float, bool"),
    ("x = sorted(m.words)", 0, r"sorted\(\); use a loop over the elements"),
    (
        "x = np.sum(m.words)",
        0,
        r"np.sum\(\); use a loop over the elements: for x in a: total \+= x",
    ),
    ("x = self.cells.sum()", 0, r"self.cells.sum\(\); use a loop over the elements"),
    ("x = np.zeros(4)", 0, r"np.zeros\(\); use a field that is an array"),
    ("x = round(m.n / 2)", 0, r"round\(\); use math.floor\(x \+ 0.5\)"),
    ("x = np.float16(1)", 0, r"np.float16\(\); use np.float32"),
    ("x = np.random.rand()", 0, r"np.random.rand\(\); use ctx.random\(\)"),
    ("x = Plain(1)", 0, r"Plain\(\), a class; what has parts is a field of a @denizen.record"),
    ("x = math.log(m.n, 2)", 0, r"takes 1 argument here; write math.log\(x\) / math.log\(base\)"),
    ("x = unknown + 1", 0, "unknown is not defined"),
    ("x = math.unknown(1)", 0, "math has no unknown"),
    ("x = endless(1)", None, "endless calls itself; use a loop, or a message to self"),
    ("x = doubled(1, 2)", 0, "doubled takes 1 argument"),
    ("x = doubled(y=1)", 0, r"doubled\(x\) gets y that it has not"),
    ("x = doubled(1, x=1)", 0, r"doubled\(x\) gets x twice"),
    ("x = doubled(**TABLE)", 0, r"is called with \*\*; name each argument"),
    ("x = shifted(1)", 0, r"y of shifted\(\), which is None by default; give it a number"),
    ("self.helper(1)", 0, r"self.helper\(\); what it calls is a function outside of the class"),
    ("ctx.xyz(1)", 0, r"ctx.xyz\(\); what it calls .* or of ctx: send, send_each"),
    ("ctx.replay(m)", 0, r"ctx.replay\(\); what it calls .*; of ctx there is reply"),
    ("x = ctx.now()", 0, r"ctx.now\(\); use ctx.now_ns"),
    ("x = ctx.time", 0, "ctx has no time; use ctx.now_ns"),
    ("x = ctx.me", 0, "ctx has no me; it has self, sender"),
    ("x = ctx.stop", 0, r"ctx.stop is a call: write ctx.stop\(...\)"),
    ("x = ctx.sender()", 0, r"ctx.sender is a value: write it without \(\)"),
    ("ctx.send(m)", 0, "ctx.send takes an address and a message"),
    ("ctx.send_after(5, Tock())", 0, "ctx.send_after takes ns, an address and a message"),
    ("ctx.reply(Tick(1, 2, 3, 4))", 0, "has 3 fields, not 4"),
    ("ctx.reply(Tick(n=1.7))", 0, "field n of Tick is u4: a whole number, not 1.7"),
    ("ctx.reply(Tick(-1))", 0, "field n of Tick is u4: 0 to 4294967295, not -1"),
    ("ctx.reply(Tick(4294967296))", 0, "field n of Tick is u4: 0 to 4294967295, not 4294967296"),
    ("ctx.reply(Tick(2**40))", 0, "field n of Tick is u4: 0 to 4294967295, not 1099511627776"),
    ("ctx.reply(Tick((1 << 32) - 1 + 1))", 0, "field n of Tick is u4: 0 to 42.*, not 4294967296"),
    ("ctx.reply(Tick(((2**60)**60)**60))", 0, "field n of Tick is u4: 0 to 4294967295, not 510486"),
    ("ctx.reply(Tick(3 - 4))", 0, "field n of Tick is u4: 0 to 4294967295, not -1"),
    ("ctx.reply(Tick(LARGE))", 0, "field n of Tick is u4: 0 to 4294967295, not 4294967296"),
    ("ctx.reply(Tick(k=1))", 0, "Tick has no field k; it is <message Tick: n u4"),
    ("ctx.reply(Tick(1, n=1))", 0, "field n of Tick is given twice"),
    ("ctx.reply(Tick(words=1))", 0, "field words of Tick is an array; make the message first"),
    ("ctx.publish(TABLE, Tock())", 0, r"ctx.publish takes a topic as text that is known now"),
    ("ctx.publish('a/*', Tock())", 0, r'the topic "a/\*" has a \* that is not at a pattern'),
    ("ctx.subscribe('x' * 256)", 0, "takes a topic as text that is known now"),
    (f"ctx.subscribe('{'x' * 256}')", 0, "has 256 bytes; use 1 to 255"),
    ("ctx.forward(0)", 0, r"ctx.forward\(\); use ctx.send\(address, m\), which sends on"),
    ("ctx.broadcast(Tock())", 0, r"ctx.publish\(topic, message\) sends a message to many"),
    ("x = ctx.random()", None, "keeps its state in a field of Actor: random: np.uint64 = 1"),
    ("x = ctx.allocate(5)", 0, "takes a number of elements and their type: ctx.allocate"),
    ("x = ctx.allocate(5, Tick)", 0, "takes a number of elements and their type: ctx.allocate"),
    ("ctx.spawn()", 0, r"ctx.spawn takes a new actor's state or a task: ctx.spawn\(Child\(5\)\)"),
    ("x = Actor(cells=1)", 0, "field cells of Actor is an array; make the state first"),
    ("ctx.checkpoint()", None, 'Actor calls ctx.checkpoint.*restart_from = "snapshot"'),
    ("self.LIMIT = 6", 0, "LIMIT is a constant of the class; a field has a type: LIMIT: np.int64"),
    ("a, b = c = 1, 2", 0, "assign on two lines"),
    ("dz_x = 1", None, "those with dz_ are denizen's own"),
    ("del m", 0, "del; a local ends with the handler"),
    ("x = 1 << 64 if 0 else 18446744073709551616", 0, "whole numbers have 64 bits"),
]


def shows(error, body, line):
    """The user's line: its number, its text, below it at most a caret; none of denizen's frames."""
    place, shown, *below = str(error).split("\n")
    if line is not None:
        assert f".py:{LINE + line}: " in place
        assert shown == "    " + body.split("\n")[line].strip()
    if below:
        (caret,) = below
        assert caret.strip() == "^" and len(caret) <= len(shown)
    frames = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    assert not [name for name in frames if "/denizen/handlers/" in name], frames


@pytest.mark.parametrize(("body", "line", "text"), REFUSED, ids=[b[:24] for b, _, _ in REFUSED])
def test_refused_before_it_is_compiled(load, body, line, text):
    with pytest.raises(denizen.CompileError, match=text) as caught:
        handler(load, body)
    shows(caught.value, body, line)


COMPILED = [
    ("x = m.weight", 0, "the message Tick has no field weight; it has n, words, place"),
    ("pass\nself.total = 1", 1, "the record or state has no field total; it has sum, cells"),
    ("x = m + 1", 0, "a number is needed here, not the message Tick"),
    ("x = m.n[0]", 0, "int64 has no elements"),
    ("self.cells = m.n", 0, "an array is assigned element by element"),
    ("self.sum = m.place.x", 0, r"a whole number is stored here, not a float: int\(...\) leaves"),
    ("self.sum += 0.5", 0, "a whole number is stored here, not a float"),
    ("a = ctx.allocate(5, np.int32)\na[0] = m.n / 2", 1, "a whole number is stored here, not a f"),
    ("ctx.reply(Tick(m.n / 2))", 0, r"field n of Tick is a whole number: int\(...\) leaves out"),
    ("m2 = Tick()\nm2.place = self", 1, "a record of this type is needed, not the record or state"),
    ("x = m.n & 1.5", 0, "a whole number is needed here, not a float"),
    ("ctx.send(m, m)", 0, "a number is needed here, not the message Tick"),
    ("ctx.send_after(5, 0, Long())", 0, "at most 36 bytes and without buffers, not Long"),
    (
        "ctx.spawn(m)",
        0,
        r"state of a new actor or a task is needed here, as Child\(...\), not the message",
    ),
    ("ctx.reply(Actor(5))", 0, "a message is needed here, not a new Actor"),
    ("ctx.send_each(0, Long())", 0, "ctx.send_each takes a message of at most 36 bytes"),
    ("ctx.address(self.cells)", 0, "an array of ctx.allocate is needed here, not an array"),
    ("x = self.cells.shape", 0, r"an array has no shape; it has a\[i\], and len\(a\)"),
    ("x = either(m.n, self.sum)", None, "a function returns int64, unsigned, each on another way"),
    ("x = self.cells if m.n else m.words", 0, r"array \(4,\) of .4 on one way|array \(4,\) of u1"),
    ("ctx.reply(self)", 0, "a message is needed here, not the record or state"),
    ("x = doubled(m)", None, "a number is needed here, not the message Tick"),
    ("x = 0\nfor i in range(3):\n    x += self.sum\ny = x", None, "x is .*signed on one way and "),
    ("x = 1 if m.n else self.sum\nself.sum = x", 0, "a value is .*signed .* write np.int64|np.ui"),
    ("if m.n:\n    x = 1\nelse:\n    x = m\nself.sum = x", None, "x is .* on one way|not the me"),
]


@pytest.mark.parametrize(("body", "line", "text"), COMPILED, ids=[b[:24] for b, _, _ in COMPILED])
@pytest.mark.parametrize("device", ["cpu", "gpu"])
def test_refused_by_numba(load, nvrtc, body, line, text, device):  # noqa: PLR0917
    pytest.importorskip("numba.cuda" if device == "gpu" else "numba")
    program = handler(load, body)
    with pytest.raises(denizen.CompileError, match=text) as caught:
        program.compile_cpu() if device == "cpu" else program.compile_gpu(90)
    shows(caught.value, body, line)


def test_print_is_for_the_interpreter(load):
    program = handler(load, "shouts(m.n)\n")
    with pytest.raises(denizen.CompileError, match=r'print\(\), but for device="python"'):
        program.compile_cpu()


def test_who_watches_lists_down(load):
    module = load(HEAD + "        ctx.watch(ctx.sender)\n")
    with pytest.raises(denizen.CompileError, match=r"Actor on Tick calls ctx.watch.*denizen.DOWN"):
        denizen.Program(actors=[module.Actor]).compile_cpu()
    assert denizen.Program(actors=[module.Actor], messages=[denizen.DOWN]).compile_cpu()


CLASSES = [
    ("sum: np.uint64 = -1", r"field Wrong.sum|Wrong.sum is u8: 0 to 18446744073709551615, not -1"),
    ("sum: str = 0", "Wrong.sum: <class 'str'> is no field; use a NumPy integer"),
    ('sum: np.dtype(">u4") = 1', "is no field; use a NumPy integer, .* in native byte order"),
    ('at: np.dtype([("t", "M8[s]")])', r"Wrong.at.t: dtype\('<M8\[s\]'\) is no field"),
    ("sum = [1]", r"Wrong.sum = \[1\] is neither a number nor a declaration"),
    ("grain = 'grid'", 'Wrong.grain = \'grid\'; use one of "thread", "warp", "block"'),
    ("block_threads = 100", "Wrong.block_threads = 100; use a multiple of 32 from 64 to 512"),
    ("block_threads = 128", 'Wrong.block_threads = 128, and its grain is "thread"; threads of a'),
    ("deadline_ns = 0", "deadline_ns = 0; use whole ns from 1"),
    ("def helper(self, x): pass", r"user\d+.py:\d+: Wrong.helper is no handler"),
    ("def __init__(self): pass", r"Wrong.__init__ is no handler; a new actor begins with what"),
    ("twice = property(abs)", "Wrong.twice is a property; an actor has fields and handlers"),
    ("TAPS = np.ones(8)", r"a field has a type: TAPS: \(np.float64, 8\) = ..."),
    ("taps: np.ones(8)", r"an array is no type; .* taps: \(np.float64, \(8,\)\) = ..."),
    ("taps: (np.float32, -1)", "has no shape; use whole numbers from 1"),
    ("def b(self, m: Tock): pass", "Wrong.b takes Tock, and so does a; use one of them"),
    ("def invariant(self, m): pass", "Wrong.invariant takes its actor alone"),
]


@pytest.mark.parametrize(("line", "text"), CLASSES, ids=[c[:24] for c, _ in CLASSES])
def test_classes_that_are_no_actors(load, line, text):
    tail = f"\n@denizen.actor\nclass Wrong:\n    def a(self, m: Tock): pass\n    {line}\n"
    with pytest.raises(denizen.ArgumentError, match=text):
        load(HEAD + "        pass\n" + tail)


def test_a_class_that_inherits(load):
    tail = "\nclass Base:\n    n: np.uint32\n\n@denizen.actor\nclass Wrong(Base):\n    pass\n"
    with pytest.raises(denizen.ArgumentError, match="Wrong inherits from Base, which is not read"):
        load(HEAD + "        pass\n" + tail)


def test_an_actor_without_messages(load):
    with pytest.raises(
        denizen.ArgumentError, match="actor Idle takes no message; give it a method"
    ):
        load(HEAD + "        pass\n\n@denizen.actor\nclass Idle:\n    n: np.uint32 = 0\n")


def test_two_messages_of_one_name(load):
    one, two = (load(HEAD + "        pass\n") for _ in range(2))
    other = load(HEAD.replace("n: np.uint32", "n: np.uint64") + "        pass\n")
    assert denizen.Program(actors=[one.Actor], messages=[two.Tick]).messages
    with pytest.raises(denizen.ArgumentError, match="lists another message Tick"):
        denizen.Program(actors=[one.Actor], messages=[other.Tick])


def test_a_class_without_the_decorator():
    class Plain:
        pass

    with pytest.raises(denizen.ArgumentError, match="Plain is a class; decorate it with @denizen"):
        denizen.Runtime(Plain, "cpu:1")
    with pytest.raises(denizen.ArgumentError, match="no text that defines Counter"):
        denizen.Program(actors=["Counter"])


BLOCKER = """
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("numba", "llvmlite"):
            raise ModuleNotFoundError(f"No module named {name!r}")
sys.meta_path.insert(0, Blocker())
"""


def test_without_numba(run_python):
    counter = """
import numpy as np, denizen
assert not any(m.split(".")[0] in ("numba", "llvmlite") for m in sys.modules)
@denizen.message
class Tick: n: np.uint32
@denizen.actor
class Counter:
    sum: np.uint64 = 0
    def on_tick(self, m: Tick, ctx):
        self.sum += m.n
        ctx.reply(Tick(self.sum))
with denizen.Runtime(Counter, "python") as rt:
    print(rt.ask(rt.spawn(Counter)[0], Tick(7))["n"])
try:
    denizen.Runtime(Counter, "cpu:1")
except denizen.MissingPackageError as error:
    print(error)
"""
    assert run_python(BLOCKER + counter).splitlines() == [
        "7",
        "Numba, which compiles handlers in Python, is not installed: "
        f"pip install {extras.of('handlers')}",
    ]

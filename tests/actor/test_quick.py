# SPDX-License-Identifier: Apache-2.0
"""A new program starts on a GPU with code that compiles quickly, and the optimised code takes over
while it runs."""

import logging
import os
import threading
import time
from contextlib import nullcontext
from pathlib import Path

import calculator
import numpy as np
import pytest
import sample

import denizen
from denizen import compilers, quick, starting
from denizen.device import parse_device
from denizen.lab import handlers

GET = denizen.message("Get")
VALUE = denizen.message("Value", [("n", "u4")])


def constant(text="5", before="", name="program"):
    handler = f"void on(const Get&, auto& ctx) {{ ctx.reply(Value{{{text}}}); }}"
    source = f"{before}\nstruct Constant {{ {handler} }};"
    return denizen.Program(source, actors=["Constant"], messages=[GET, VALUE], name=name)


def warnings(caplog):
    return [record for record in caplog.records if record.levelno >= logging.WARNING]


class Running:
    """In place of a program on a GPU."""

    def __init__(self):
        self.exchanged = threading.Event()
        self.images = []

    def exchange(self, image):
        self.images.append(image)
        self.exchanged.set()


_made = {}  # what has been compiled for any of these tests


@pytest.fixture
def compiled(monkeypatch):
    """The calls that compile. Nothing is optimised, which takes long, and nothing made twice."""
    calls = []
    compile_apart = compilers.compile_apart

    def counting(call, *given, **options):
        calls.append(call)
        if call == "compile_ltoir":
            return b""
        parts, name, flags = given if call == "compile_cubin" else (given[0][1:], "", [])
        key = repr((call, parts, name, sorted({*flags, "--Ofast-compile=max"})))
        if key not in _made:  # to link the optimised code gives the quick code once more
            _made[key] = compile_apart(call, *given, **options)
        return _made[key]

    monkeypatch.setattr(compilers, "compile_apart", counting)
    monkeypatch.setattr(quick, "compile_apart", counting)
    return calls


@pytest.mark.parametrize("make", [constant, handlers.in_python], ids=["text", "Python"])
def test_quick_code_first_and_then_the_optimised(make, empty_cache, nvrtc, compiled):
    program = make()
    image, background = quick.start_of(program, 90)
    assert image.to_exchange
    assert [p.suffix for p in empty_cache.iterdir()] == [".quick"]
    core = Running()
    exchange = quick.Exchange(core, program, background)
    assert exchange.code == "quick"
    assert core.exchanged.wait(120)
    while exchange.code != "optimised":  # ends: the very next thing that the thread does
        time.sleep(0.01)
    (better,) = core.images
    assert not better.to_exchange
    assert better.state_sizes == image.state_sizes
    assert {p.suffix for p in empty_cache.iterdir()} == {".quick", ".cubin"}
    compiled.clear()
    image, background = quick.start_of(program, 90)
    assert compiled == []
    assert background is None
    assert not image.to_exchange
    assert [p.suffix for p in empty_cache.iterdir()] == [".cubin"], "two of one program"


@pytest.mark.parametrize(
    ("refused", "starts"),
    [(denizen.NoFitError("8 workers find no room"), 2), (denizen.ArgumentError("asks = 3"), 1)],
    ids=["no room", "another error"],
)
def test_where_quick_code_does_not_fit_the_optimised_code_may(refused, starts, monkeypatch):
    images = []

    def run(image, *_):
        images.append(image)
        if image == "quick":
            raise refused
        return image

    program = constant()
    monkeypatch.setattr(starting, "start_of", lambda *_: ("quick", object()))
    monkeypatch.setattr(starting, "capability", lambda _: 90)
    monkeypatch.setattr(starting._core, "Runtime", run)
    monkeypatch.setattr(type(program), "compile_gpu", lambda *_: "optimised")
    if starts == 1:
        with pytest.raises(denizen.ArgumentError, match="asks = 3"):
            starting.started(program, parse_device("gpu:0"), {}, True)
    else:
        core, exchange = starting.started(program, parse_device("gpu:0"), {}, True)
        assert core == "optimised"
        assert exchange is None
    assert images == ["quick", "optimised"][:starts]


@pytest.mark.parametrize("fails", [False, True])
def test_the_gpus_are_opened_while_their_program_is_compiled(fails, monkeypatch):
    told = []

    class Opening:
        def __init__(self, *given):
            told.append(given)

        def end(self):
            told.append("let go")

    def compiled(*_):
        told.append("compiled")
        if fails:
            raise denizen.CompileError("no")
        return "image", None

    monkeypatch.setattr(starting._core, "Opening", Opening)
    monkeypatch.setattr(starting, "start_of", compiled)
    monkeypatch.setattr(starting, "capability", lambda _: 90)
    monkeypatch.setattr(starting._core, "Runtime", lambda *_: told.append("runs"))
    with pytest.raises(denizen.CompileError) if fails else nullcontext():
        starting.started(constant(), parse_device("gpu:1-2"), {"mapped": 0}, True)
    assert told == [(1, 2, False), "compiled", *([] if fails else ["runs"]), "let go"]
    starting.started(constant(), parse_device("cpu:1"), {}, False)
    assert told[-1] == "runs", "a GPU is opened for a program on CPU threads"


@pytest.mark.gpu
def test_workers_that_do_not_fit_have_an_error_of_their_own():
    with pytest.raises(denizen.NoFitError, match="2048 workers do not fit on 1 SMs"):
        denizen.Runtime(constant(), "gpu", workers=2048, sms=1)


def test_the_quick_code_is_kept_until_then(empty_cache, nvrtc, compiled):
    quick.start_of(constant(), 90)
    compiled.clear()
    _, background = quick.start_of(constant(), 90)
    assert compiled == []
    assert background is not None


@pytest.fixture
def held(monkeypatch, compiled):
    """What is compiled waits from hold() on until its event is set."""
    compile_apart = compilers.compile_apart

    def hold():
        go = threading.Event()

        def waiting(*given, **options):
            assert go.wait(60)
            return compile_apart(*given, **options)

        monkeypatch.setattr(compilers, "compile_apart", waiting)
        return go

    return hold


def test_programs_of_the_same_text_are_optimised_once(empty_cache, nvrtc, compiled, held):
    cores = [Running() for _ in range(3)]
    starts = [quick.start_of(constant(), 90) for _ in cores]
    compiled.clear()
    go = held()
    waiting = [
        quick.Exchange(core, constant(), background)
        for core, (_, background) in zip(cores, starts, strict=True)
    ]
    waiting[1].end()
    go.set()
    assert cores[0].exchanged.wait(120)
    assert cores[2].exchanged.wait(120)
    assert compiled == ["compile_cubin"]
    assert not cores[1].images, "it was closed before"


def test_nothing_is_compiled_for_programs_that_are_closed(empty_cache, nvrtc, caplog):
    """The real thing, which would take seconds; the process that compiles is gone at once."""
    program = constant()
    _, background = quick.start_of(program, 90)
    core = Running()
    exchange = quick.Exchange(core, program, background)
    (thread,) = [t for t in threading.enumerate() if t.name.startswith("denizen compiles")]
    children = Path(f"/proc/self/task/{thread.native_id}/children")
    while not children.read_text():  # ends: by the compiler's process
        time.sleep(0.01)
    with caplog.at_level(logging.WARNING):
        exchange.end()
        thread.join(20)
    assert not thread.is_alive()
    assert not core.images
    assert not warnings(caplog), "an end that was asked for is no failure"
    assert [p.suffix for p in empty_cache.iterdir()] == [".quick"]
    assert quick.Background._running == {}


def test_a_failure_to_optimise_is_a_warning(empty_cache, nvrtc, compiled, monkeypatch, caplog):
    program = constant(name="mine")
    _, background = quick.start_of(program, 90)

    def fails(*_, **__):
        raise denizen.CompileError("no memory")

    monkeypatch.setattr(compilers, "compile_apart", fails)
    core = Running()
    with caplog.at_level(logging.WARNING):
        exchange = quick.Exchange(core, program, background)
        deadline = time.monotonic() + 60
        while "no memory" not in exchange.why_quick:
            assert time.monotonic() < deadline, exchange.why_quick
            time.sleep(0.01)
    assert "mine goes on without being optimised: mine does not compile" in caplog.text
    assert exchange.code == "quick"
    assert not core.images


def test_an_exchange_that_is_refused_is_a_warning(empty_cache, nvrtc, held, caplog):
    class Refusing(Running):
        def exchange(self, image):
            super().exchange(image)
            raise denizen.ArgumentError("no room")

    refusing, other = Refusing(), Running()
    program = constant(name="mine")
    backgrounds = [quick.start_of(program, 90)[1] for _ in range(2)]
    go = held()
    with caplog.at_level(logging.WARNING):
        waiting = [
            quick.Exchange(core, program, background)
            for core, background in zip((refusing, other), backgrounds, strict=True)
        ]
        go.set()
        assert other.exchanged.wait(120)
        assert refusing.exchanged.wait(120)
        deadline = time.monotonic() + 60
        while not warnings(caplog) or waiting[1].why_quick:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    assert "mine goes on without being optimised: no room" in caplog.text
    assert [(one.code, one.why_quick) for one in waiting] == [
        ("quick", "no room"), ("optimised", ""),
    ]  # fmt: skip


def test_the_mistakes_of_a_handler_are_those_of_the_optimised_start(empty_cache, nvrtc):
    with pytest.raises(denizen.CompileError, match="mine:2: ") as caught:
        quick.start_of(constant("no_such_name", name="mine"), 90)
    assert "no_such_name" in str(caught.value)


def test_a_forked_child_compiles_for_itself():
    """Of what the parent compiles it has the objects and no thread."""
    background = quick.Background("x", "mine", lambda _: b"")
    with quick.Background._lock:  # another thread holds it
        quick.Background._running["x"] = background
        pid = os.fork()
        if pid == 0:
            held = quick.Background._lock.locked()
            os._exit(int(held or bool(quick.Background._running)))
        del quick.Background._running["x"]
    assert os.waitpid(pid, 0)[1] == 0


# ---- variables in the GPU's memory, of which each code has its own


VARIABLES = """
int plain;
static int of_the_file = 3;
namespace deep { int inside; }
struct Kept {
    static inline int shared = 0;
    static constexpr int least = 7;
};
constexpr int table[4] = {1, 2, 3, 4};
__device__ const float halves[2] = {1, 2};
const int* pointer;
"""
USED = (
    "static_cast<uint32_t>(plain++ + of_the_file++ + deep::inside++ + Kept::shared++ + *pointer++"
    " + Kept::least + table[ctx.self().value & 3] + halves[ctx.self().value & 1])"
)


def test_variables_of_a_program_are_found_and_constants_are_not(nvrtc):
    program = constant(USED, VARIABLES)
    made = compilers.compile_text(program.text(), "p", 90, (), ("--Ofast-compile=max",))
    assert quick.variables(made, program.source) == [
        "Kept::shared", "deep::inside", "of_the_file", "plain", "pointer",
    ]  # fmt: skip
    assert quick.variables(made, "") == [], "handlers in Python have none"


def test_a_program_with_variables_waits(empty_cache, nvrtc, compiled):
    image, background = quick.start_of(constant("count++", "uint32_t count = 5;"), 90)
    assert background is None
    assert not image.to_exchange


@denizen.message
class Told:
    n: np.uint32


@denizen.actor
class Whole:
    grain = "warp"

    def on_told(self, m: Told, ctx):
        ctx.reply(Told(m.n + 1))


def test_what_is_written_for_actors_in_python_is_no_variable(empty_cache, nvrtc):
    """Such as the grain of one, beside C++ text."""
    text = "struct Text { void on(const Told& m, auto& ctx) { ctx.reply(m); } };"
    _, background = quick.start_of(denizen.Program(text, actors=["Text", Whole]), 90)
    assert background is not None


# ---- the option


def test_the_option_and_the_environment(monkeypatch):
    monkeypatch.delenv("DENIZEN_OPTIMISE", raising=False)
    assert quick.chosen(None)
    assert not quick.chosen("wait")
    monkeypatch.setenv("DENIZEN_OPTIMISE", "wait")
    assert not quick.chosen(None)
    assert quick.chosen("background")
    monkeypatch.setenv("DENIZEN_OPTIMISE", "background")
    with quick.optimised_only():
        assert not quick.chosen(None)
        assert quick.chosen("background")
    assert os.environ["DENIZEN_OPTIMISE"] == "background"
    with pytest.raises(denizen.ArgumentError, match=r'optimise = .soon.; use "background" or "w'):
        denizen.Runtime(sample.program(), "cpu:1", optimise="soon")
    monkeypatch.setenv("DENIZEN_OPTIMISE", "never")
    with pytest.raises(denizen.ArgumentError, match=r'DENIZEN_OPTIMISE = .never.; use "back'):
        denizen.Runtime(sample.program(), "cpu:1")


def test_on_the_cpu_all_code_is_optimised():
    program = handlers.in_python()
    with denizen.Runtime(program, "cpu:1", optimise="background") as rt:
        assert rt.description["code"] == "optimised"
        assert rt.description["why_quick"] == ""
        with pytest.raises(denizen.ArgumentError, match="is for a GPU"):
            rt._core.exchange(program.compile_cpu())
        with pytest.raises(denizen.ArgumentError, match="another program"):
            rt._core.exchange(calculator.program().compile_cpu())


# ---- on a GPU


def until_optimised(rt, ask, patience=120.0):
    """Asks until the optimised code has answered some thousand times; returns how often."""
    deadline = time.monotonic() + patience
    asked = 0
    left = 2000
    while left:
        ask()
        asked += 1
        left -= rt.description["code"] == "optimised"
        assert time.monotonic() < deadline, rt.description["code"]
    return asked


@pytest.mark.gpu
@pytest.mark.parametrize("make", [sample.program, calculator.program], ids=["text", "Python"])
def test_nothing_is_lost_when_the_code_is_exchanged(make, empty_cache):
    """Asks go on throughout, one after the other and many at once; each is counted."""
    program = make()
    with denizen.Runtime(program, "gpu", optimise="background") as rt:
        assert rt.description["code"] == "quick"
        if make is sample.program:
            counters = rt.spawn("Counter", 64)
            adds = np.zeros(64, sample.ADD.dtype)
            adds["n"] = 1

            def step():
                rt.send_many(counters, adds)
                totals = rt.ask_many(counters, "Ask", sample.TOTAL, timeout=20)
                assert len(set(totals["sum"].tolist())) == 1
                seen.append(int(totals["sum"][0]))

            seen = []
            until_optimised(rt, step)
            assert seen == list(range(1, len(seen) + 1))
        else:
            (keeper,) = rt.spawn(calculator.Keeper)
            first = rt.ask(keeper, "Ask", timeout=20)
            until_optimised(rt, lambda: rt.ask(keeper, "Ask", timeout=20))
            assert rt.ask(keeper, "Ask", timeout=20).tobytes() == first.tobytes()
        stats = rt.stats()
        assert stats["launches"] == 1, "it has not left the GPU for that"
        assert stats["dead_letters"] == 0
    with denizen.Runtime(program, "gpu", optimise="background") as rt:
        assert rt.description["code"] == "optimised"


@pytest.mark.gpu
@pytest.mark.parametrize("workers", [264, 512])
def test_what_starts_with_quick_code_has_room_for_the_optimised(workers, empty_cache):
    """Whose registers let fewer blocks be on an SM."""
    with denizen.Runtime(sample.program(), "gpu", workers=workers, optimise="background") as rt:
        (counter,) = rt.spawn("Counter")
        assert until_optimised(rt, lambda: rt.ask(counter, "Ask", timeout=20)) > 0


@pytest.mark.gpu
def test_a_program_that_is_closed_at_once(empty_cache):
    for _ in range(3):
        with denizen.Runtime(sample.program(), "gpu", optimise="background") as rt:
            assert rt.description["code"] == "quick"
            (counter,) = rt.spawn("Counter")
            rt.ask(counter, "Ask", timeout=20)
            begin = time.monotonic()
        assert time.monotonic() - begin < 20
    assert [p.suffix for p in empty_cache.iterdir()] == [".quick"]


@pytest.mark.gpu
def test_one_kernel_for_ever_is_the_optimised_one(empty_cache):
    with denizen.Runtime(sample.program(), "gpu", breath_us=None, optimise="background") as rt:
        assert rt.description["code"] == "optimised"
        with pytest.raises(denizen.ArgumentError, match="one kernel for ever"):
            rt._core.exchange(sample.program().compile_gpu(90))


@pytest.mark.gpu
def test_a_parked_program_comes_back_with_the_optimised_code(empty_cache):
    with denizen.Runtime(sample.program(), "gpu", optimise="background") as rt:
        (counter,) = rt.spawn("Counter")
        rt.send(counter, "Add", n=3)
        rt.drain(timeout=20)
        rt.park(timeout=20)
        deadline = time.monotonic() + 120
        while rt.description["code"] != "optimised":
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert int(rt.ask(counter, "Ask", timeout=20)["sum"]) == 3

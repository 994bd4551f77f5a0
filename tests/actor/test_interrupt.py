# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C ends every wait of the package with KeyboardInterrupt, and the runtime can be used on.

As a script it prints how long each took, interrupted at several times: `python test_interrupt.py
[NAME...]`. The promise is 0.2 s on a machine that has nothing else to do.
"""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time

import pytest
import sample

import denizen

WAIT = 60.0  # of each call
PATIENCE = 1.5  # for its end, on a machine with other work; the promise is 0.2 s
SETTLE = 0.3 if "DENIZEN_QUICK_TESTS" in os.environ else 0.7  # how long a call waits until then

RUNTIME = """
import sample
rt = denizen.Runtime(sample.program(), "cpu:2")
(counter,) = rt.spawn("Counter")
(slow,) = rt.spawn("Slow")
def after():
    assert rt.ask(counter, sample.ASK(), timeout=20)["count"] >= 0
"""

# Its worker handles nothing else until `free()`.
BUSY = """
import mmap, sample
page = mmap.mmap(-1, 4096)
word = np.frombuffer(page, np.uint32)
program = denizen.Program('''
    struct Spinner {
        uint64_t word;
        void on(const Spin& m, auto&) {
            while (__atomic_load_n(reinterpret_cast<uint32_t*>(m.word), __ATOMIC_ACQUIRE) == 0) {}
        }
        void on(const Add& m, auto& ctx) { ctx.reply(Add{m.n + 1}); }
    };
    ''', actors=["Spinner"], messages=[denizen.message("Spin", [("word", "u8")]),
                                       denizen.message("Add", [("n", "u4")])])
rt = denizen.Runtime(program, "cpu:1", host_ring_slots=16)
(a,) = rt.spawn("Spinner")
rt.send(a, "Spin", word=word.ctypes.data)
adds = np.zeros(1000, program.messages["Add"].dtype)
def free():
    word[0] = 1
def after():
    free()
    rt.drain(timeout=20)
    assert rt.ask(a, "Add", n=1, timeout=20)["n"] == 2
"""

CLUSTER = """
import sample
cluster = denizen.Cluster(sample.program(), 2)
(counter,) = cluster.spawn("Counter", host=1)
(slow,) = cluster.spawn("Slow", host=1)
def after():
    assert cluster.ask(counter, sample.ASK(), timeout=20)["count"] >= 0
    cluster.close()
"""

# name: what makes ready, the call that waits, what is done when it has been interrupted.
WAITS = {
    "receive": (RUNTIME, "rt.receive(timeout=WAIT)", "after()"),
    "ask": (RUNTIME, "rt.ask(slow, sample.KEEP(), timeout=WAIT)", "after()"),
    "ask_many": (
        RUNTIME,
        "rt.ask_many(np.repeat(np.uint32(slow), 3), sample.KEEP(), sample.TOTAL, timeout=WAIT)",
        "after()",
    ),
    "drain": (BUSY, "rt.drain(timeout=WAIT)", "after()"),
    "send": (
        BUSY + "rt.send_many(a, adds[:15], timeout=5)\n",
        "while True: rt.send(a, adds[:1][0], timeout=WAIT)",
        "after()",
    ),
    "send_many": (BUSY, "rt.send_many(a, adds, timeout=WAIT)", "after()"),
    "broadcast": (
        BUSY + "rt.send_many(a, adds[:15], timeout=5)\n",
        "while True: rt.broadcast('Spinner', adds[:1][0], timeout=WAIT)",
        "after()",
    ),
    "spawn": (BUSY, "rt.spawn('Spinner', 1, timeout=WAIT)", "after()"),
    "stop": (BUSY + "b = a\n", "rt.stop(a, timeout=WAIT)", "free(); rt.drain(timeout=20)"),
    "pause": (BUSY, "rt.pause(timeout=WAIT)", "rt.resume(); after()"),
    "save": (BUSY, "rt.save('here.snapshot', timeout=WAIT)", "after()"),
    "close": (BUSY, "rt.close(timeout=WAIT)", "after(); rt.close()"),
    "transactions": (
        "",
        "from denizen.apps.transactions.records import generate; generate(30_000_000)",
        "assert len(generate(1000)[0]) == 1000",
    ),
    "a made signal": (
        "from denizen.radio import modulate\n",
        "modulate.modulate([], 400_000_000)",
        "assert len(modulate.modulate([], 1000)) == 2000",
    ),
    "compiling for the CPU": (
        "os.environ['DENIZEN_CACHE'] = os.path.join(os.getcwd(), 'cache')\n"
        "from denizen.apps.transactions.stage import program",
        "while True: denizen.Program(program().source, actors=['Shard'],"
        " messages=list(program().messages.values()), name=f'p{time.time()}').compile_cpu()",
        "",
    ),
    "tasks": (
        """
from denizen import tasks
program = tasks.Program("struct Again { void run(auto& ctx) const { ctx.spawn(*this); } };"
    "struct Idle { void run(auto&) const {} };",
    tasks=[tasks.task("Again"), tasks.task("Idle")])
rt = tasks.Runtime(program, "cpu:2")
group = rt.group()
group.spawn(tasks.task("Again")())
""",
        "group.wait(WAIT)",
        "group.cancel(); group.wait(20); rt.spawn(tasks.task('Idle')()); rt.wait(20)",
    ),
    "a future": (
        """
from denizen import tasks
program = tasks.Program("struct Idle { void run(auto&) const {} };", tasks=[tasks.task("Idle")])
rt = tasks.Runtime(program, "cpu:2")
never = rt.future("u8")
""",
        "never.get(WAIT)",
        "rt.spawn(tasks.task('Idle')()); rt.wait(20)",
    ),
    "a cluster's ask": (CLUSTER, "cluster.ask(slow, sample.KEEP(), timeout=WAIT)", "after()"),
    "a cluster's receive": (CLUSTER, "cluster.receive(timeout=WAIT)", "after()"),
    "a cluster's drain": (CLUSTER, "while True: cluster.drain(timeout=WAIT)", "after()"),
    "a cluster's start": (
        "import sample\n",
        "while True: denizen.Cluster(sample.program(), 2).close()",
        "denizen.Cluster(sample.program(), 2).close()",
    ),
    "flow": (
        """
from denizen import flow
class Never(flow.Block):
    def __init__(self, name):
        super().__init__(name)
        self.out = self.source("out", "f4")
    def work(self):
        time.sleep(0.01)
class Eats(flow.Block):
    def __init__(self, name):
        super().__init__(name)
        self.port = self.input("in", "f4")
    def work(self):
        self.port.consume(len(self.port.array))
g = flow.Flowgraph()
never, eats = g.add(Never("never")), g.add(Eats("eats"))
g.circuit("c", never.out, 2, 16)
g.connect(never.out, eats.port)
""",
        "g.run(WAIT)",
        "g.close()",
    ),
    "group.join": (
        "from denizen import group\n",
        "group.join(os.path.join(os.getcwd(), 'socket'), 0, 2, timeout=WAIT)",
        "group.local(2, 'cpu')",
    ),
    "group.join as a later rank": (
        "from denizen import group\n",
        "group.join(os.path.join(os.getcwd(), 'socket'), 1, 2, timeout=WAIT)",
        "group.local(2, 'cpu')",
    ),
    "group.join by network": (
        "from denizen import group\n",
        "group.join('tcp://127.0.0.1:47113', 1, 2, timeout=WAIT, token='of this test')",
        "group.local(2, 'cpu')",
    ),
    "a collective": (
        "from denizen import group\nranks = group.local(2, 'cpu', timeout=WAIT)\n",
        "ranks[0].all_reduce(np.ones(10, np.float32))",
        """
try:
    ranks[1].all_reduce(np.ones(10, np.float32))
except denizen.ClosedError as error:
    assert "rank 0 was interrupted in all_reduce" in str(error), error
else:
    raise AssertionError("the other rank was not told")
""",
    ),
    "tune": (
        "from denizen.group import tuning\n",
        "tuning.tune(2, 'cpu')",
        "",
    ),
    "bfs wide": (
        "from denizen import graph\ng = graph.chain(20_000_000)\ns = graph.Search(g, 'cpu:2')\n",
        "while True: s.bfs(0, 'wide')",
        "",
    ),
    "bfs narrow": (
        "from denizen import graph\ng = graph.chain(20_000_000)\ns = graph.Search(g, 'cpu:2')\n",
        "while True: s.bfs(0, 'narrow')",
        "",
    ),
    "bfs tasks": (
        "from denizen import graph\ng = graph.chain(5_000_000)\ns = graph.Search(g, 'cpu:2')\n",
        "while True: s.bfs(0, 'tasks')",
        "",
    ),
    **{
        f"shortest paths {method}": (
            "from denizen import graph\n"
            "g = graph.with_weights(graph.kronecker(18, 16), 1000)\n"
            "s = graph.Search(g, 'cpu:2')\n",
            f"while True: s.shortest_paths(0, '{method}')",
            "assert s.shortest_paths(0, 'serial').reached > 0",
        )
        for method in ("serial", "narrow", "wide")
    },
    "a made graph": (
        "from denizen import graph\n",
        "graph.kronecker(24, 16)",
        "assert graph.chain(5).vertices == 5",
    ),
    "a graph that is read": (
        "from denizen import graph\n"
        "n = 3_000_000\n"
        "with open('chain.txt', 'w') as file:\n"
        "    file.writelines(f'{i} {i + 1}\\n' for i in range(n))\n",
        "while True: graph.read('chain.txt')",
        "",
    ),
    "a search of a hub": (
        "from denizen import graph\n"
        "star = np.zeros(20_000_001, np.uint32)\n"
        "leaves = np.arange(1, len(star), dtype=np.uint32)\n"
        "offsets = np.concatenate([[0], np.arange(len(leaves), 2 * len(leaves) + 1)])\n"
        "g = graph.Graph(offsets, np.concatenate([leaves, star[1:]]), undirected=True)\n"
        "s = graph.Search(g, 'cpu:2')\n",
        "while True: s.bfs(0, 'wide')",
        "",
    ),
    "validation": (
        "from denizen import graph\ng = graph.chain(20_000_000)\np = graph.bfs(g, 0)\n",
        "while True: graph.validate(g, p)",
        "assert graph.validate(g, p) == ''",
    ),
    "a made log": (
        "from denizen import procmine\n",
        "procmine.generate(200_000_000)",
        "assert len(procmine.generate(1000)) >= 1000",
    ),
    "mining one long case": (
        "from denizen import procmine\n"
        "n = 20_000_000\n"
        "times = np.random.default_rng(1).integers(0, 1 << 40, n)\n"
        "log = procmine.Log('made', ['all'], list('abcdefg'), np.zeros(n, np.uint32),\n"
        "    np.arange(n, dtype=np.uint32) % 7, times)\n",
        "while True: procmine.mine(log, device='cpu:2')",
        "",
    ),
    "a filter": (
        "from denizen import dsp\n"
        "fir = dsp.Fir(dsp.low_pass(0.1, 0.001, 60))\n"
        "signal = np.zeros(20_000_000, np.complex64)\n",
        "while True: fir(signal)",
        "assert len(fir(signal[:10_000])) > 0",
    ),
    "a receiver": (
        "from denizen import radio\n"
        "receiver = radio.Receiver()\n"
        "iq = np.random.default_rng(1).integers(0, 255, 200_000_000, np.uint8)\n",
        "while True: receiver.feed(iq)",
        "receiver.feed(iq[:1_000_000])",
    ),
    "a wave's medium": (
        "from denizen import wave\n",
        "while True: wave.Simulation((400, 400, 400), device='cpu:2')",
        "",
    ),
    "a large wave": (
        "from denizen import wave\nroom = wave.Simulation((200, 200, 200), device='cpu:2')\n",
        "room.run(1 << 30)",
        "n = room.steps; room.run(1); assert room.steps == n + 1",
    ),
    "mine": (
        "from denizen import procmine\nlog = procmine.generate(30_000_000)\n",
        "while True: procmine.mine(log, device='cpu:2')",
        "",
    ),
    "wave": (
        "from denizen import wave\nroom = wave.Simulation((32, 32, 32), device='cpu:2')\n",
        "room.run(1 << 30)",
        "n = room.steps; assert n > 0; room.run(5); assert room.steps == n + 5",
    ),
    "a wave's piece": (
        "from denizen import wave\nroom = wave.Simulation((32, 32, 32), device='cpu:2')\n",
        "room._core.run(1 << 30, 'threads')",
        "n = room.steps; assert n > 0; room.run(5); assert room.steps == n + 5",
    ),
    "wave's end": (
        "from denizen import wave\nroom = wave.Simulation((32, 32, 32), device='cpu:2')\n"
        "steered = room.start(1 << 30)\n",
        "room._core.finish()",
        "assert steered.running; steered.stop(); room.run(5)",
    ),
}

# A statement stands before the call: CPython 3.11 looks for the handler of what a signal raises at
# the end of a loop one instruction before the loop, and that has to be in the `try`.
SCRIPT = """
import os, signal, sys, threading, time
import numpy as np
import denizen
WAIT = {wait}
{ready}
print("ready", flush=True)
try:
    begun = True
    {call}
except KeyboardInterrupt:
    print("interrupted", flush=True)
else:
    raise SystemExit("the call has returned")
{after}
print("usable", flush=True)
"""

HALF_TOLD = """
import os, signal, time
import numpy as np
import denizen
from {numba}.typing.context import BaseContext

@denizen.message
class Tick:
    n: np.uint32

def doubled(n):
    return 2 * n

@denizen.actor
class Counter:
    sum: np.uint64 = 0
    def on_tick(self, m: Tick):
        self.sum += doubled(m.n)

program = denizen.Program(actors=[Counter])
insert = BaseContext.insert_attributes
def interrupted(self, template):
    if type(template).__name__ == "RefAttributes":
        BaseContext.insert_attributes = insert
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.1)
    insert(self, template)
BaseContext.insert_attributes = interrupted
try:
    begun = True
    {call}
except KeyboardInterrupt:
    print("interrupted", flush=True)
{call}
print("compiled")
"""


def interrupted(text, tmp_path, *, settle=SETTLE):
    """Runs a script, interrupts it after "ready", and gives the seconds until "interrupted"."""
    script = tmp_path / "script.py"
    script.write_text(text)
    process = subprocess.Popen(
        [sys.executable, "-u", str(script)],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(
                os.path.abspath(p) for p in [os.path.dirname(sample.__file__), *sys.path] if p
            ),
        },
    )
    try:
        assert process.stdout.readline() == "ready\n", process.stderr.read()
        time.sleep(settle)
        assert process.poll() is None, process.stderr.read()
        process.send_signal(signal.SIGINT)
        begin = time.monotonic()
        said = process.stdout.readline()
        took = time.monotonic() - begin
        out, err = process.stdout.read(), process.stderr.read()
        process.wait(60)
        assert said == "interrupted\n", err
        assert out.splitlines()[-1:] == ["usable"], err
        assert process.returncode == 0, err
        return took
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("name", WAITS)
def test_ctrl_c_ends_a_wait(name, tmp_path):
    ready, call, after = WAITS[name]
    text = SCRIPT.format(wait=WAIT, ready=ready, call=call, after=textwrap.dedent(after))
    assert interrupted(text, tmp_path) < PATIENCE


def test_ctrl_c_ends_a_compilation_for_a_gpu(nvrtc, tmp_path):
    text = SCRIPT.format(
        wait=WAIT,
        ready="os.environ['DENIZEN_CACHE'] = os.path.join(os.getcwd(), 'cache')\n"
        "from denizen.apps.transactions.stage import program",
        call="program().compile_gpu(90)",  # takes half a minute
        after="assert os.listdir('cache') == []",
    )
    assert interrupted(text, tmp_path, settle=3) < PATIENCE


@pytest.mark.parametrize(
    "started", [["script.py"], ["-c", "import script"]], ids=["run", "imported"]
)
@pytest.mark.parametrize(
    ("numba", "call"),
    [
        ("numba.core", "program.compile_cpu()"),
        ("numba.cuda", "program.compile_gpu(90)"),
    ],
)
def test_a_program_compiles_after_ctrl_c_in_the_midst_of_numba(numba, call, started, tmp_path):
    """At a place where an exception would leave Numba without what a field is, for good. Numba asks
    for the module of a function that a handler calls, also while it is being imported."""
    pytest.importorskip(numba)
    (tmp_path / "script.py").write_text(HALF_TOLD.format(numba=numba, call=call))
    done = subprocess.run(
        [sys.executable, *started],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={
            **os.environ,
            "DENIZEN_CACHE": str(tmp_path / "cache"),
            "PYTHONPATH": os.pathsep.join(filter(None, [str(tmp_path), *sys.path])),
        },
    )
    assert done.stdout == "interrupted\ncompiled\n", done.stdout + done.stderr


@pytest.mark.gpu
@pytest.mark.parametrize("method", ["narrow", "wide", "launches", "graph"])
def test_ctrl_c_ends_a_search_on_a_gpu(method, tmp_path):
    text = SCRIPT.format(
        wait=WAIT,
        ready="from denizen import graph\ns = graph.Search(graph.chain(20_000_000), 'gpu')\n",
        call=f"while True: s.bfs(0, '{method}')",
        after="assert graph.Search(graph.chain(100), 'gpu').bfs(0).reached == 100",
    )
    assert interrupted(text, tmp_path, settle=2) < PATIENCE


def test_a_call_waits_for_another_threads_spawn_until_its_deadline_or_ctrl_c(tmp_path):
    with denizen.Runtime(sample.program(), "cpu:2") as rt:
        (counter,) = rt.spawn("Counter")
        rt.pause()  # so no spawn is answered
        first = threading.Thread(target=rt.spawn, args=("Counter",), kwargs={"timeout": WAIT})
        first.start()
        text = ""
        for _ in range(100):  # until the other one is at it
            with pytest.raises(denizen.DeadlineError) as error:
                rt.spawn("Counter", timeout=0.05)
            text = str(error.value)
            if "another thread's spawn, save or migrate has not ended within 0.05 s" in text:
                break
        assert "another thread's spawn" in text
        for call in (
            lambda: rt.save(tmp_path / "a.snapshot", timeout=0.05),
            lambda: rt.migrate(counter, worker=1, timeout=0.05),
        ):
            with pytest.raises(denizen.DeadlineError, match="another thread's spawn"):
                call()
        for call in (lambda: rt.spawn("Counter", timeout=WAIT), rt.actors):
            threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
            with pytest.raises(KeyboardInterrupt):
                call()
        assert first.is_alive()
        rt.resume()
        first.join()
        assert len(rt.spawn("Counter", 3)) == 3


def test_what_was_sent_and_what_has_arrived_is_not_lost(tmp_path):
    """send_many is interrupted with its host ring full: what it sent is handled, once each."""
    text = SCRIPT.format(
        wait=WAIT,
        ready=RUNTIME + "(teller,) = rt.spawn('Teller')\n",
        call="rt.send(teller, sample.TELL(first=0, count=5)); "
        "rt.drain(timeout=20); time.sleep(WAIT)",
        after="items, _ = rt.receive_many(sample.ITEM, 10)\n"
        "assert list(items['index']) == [0, 1, 2, 3, 4]",
    )
    assert interrupted(text, tmp_path) < PATIENCE


@pytest.mark.parametrize(
    "words",
    [
        ["wave", "--steps", "1000000", "--device", "cpu:2"],
        ["wave", "--size", "96", "--steps", "200000", "--device", "cpu:2"],
        ["transactions", "--generate", "20000000", "--device", "cpu:2"],
    ],
)
def test_ctrl_c_ends_a_command(words, tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", f"import sys; from denizen import cli; print('ready', flush=True);"
         f"sys.exit(cli.main(['run', *{words!r}]))"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )  # fmt: skip
    try:
        assert process.stdout.readline() == "ready\n"
        time.sleep(2)
        assert process.poll() is None, process.stderr.read()
        process.send_signal(signal.SIGINT)
        # Its threads leave no core to whoever wants to end it: not how soon, but that it ends.
        _, err = process.communicate(timeout=20)
        assert process.returncode == 130, err
    finally:
        process.kill()
        process.communicate()


def figures(names):
    for name in names or WAITS:
        ready, call, after = WAITS[name]
        text = SCRIPT.format(wait=WAIT, ready=ready, call=call, after=textwrap.dedent(after))
        took = []
        for settle in (0.3, 0.7, 1.1, 1.6, 2.3):
            with tempfile.TemporaryDirectory() as folder:
                took.append(interrupted(text, pathlib.Path(folder), settle=settle))
        print(f"{name:30} {' '.join(f'{t:5.2f}' for t in took)} s", flush=True)


if __name__ == "__main__":
    figures(sys.argv[1:])

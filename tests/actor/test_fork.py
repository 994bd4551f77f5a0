# SPDX-License-Identifier: Apache-2.0
"""A forked child has the objects and none of the threads: calls say so, close does nothing."""

import os

import pytest

PROGRAM = """
import os, signal, sys, tempfile, threading
import numpy as np
import denizen, sample
from denizen import flow, group, tasks, wave

os.environ["XDG_RUNTIME_DIR"] = tempfile.mkdtemp()

def in_child(body):
    "Runs body() in a forked child; its exit status, or that it had to be ended."
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        signal.alarm(20)  # ends a child that hangs
        try:
            body()
        except BaseException as error:
            print("child:", type(error).__name__, error, file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    return os.waitpid(pid, 0)[1]

def refused(call):
    try:
        call()
    except denizen.ClosedError as error:
        assert "belongs to another process" in str(error), error
    else:
        raise AssertionError("a call has returned in the child")
"""

RUNTIME = """
rt = denizen.Runtime(sample.program(), "cpu:2", trace=True)
(a,) = rt.spawn("Counter")
kept = rt.buffer(4)
adds = np.zeros(3, sample.ADD.dtype)
url = rt.serve_metrics()
served = os.environ["XDG_RUNTIME_DIR"] + "/denizen/"
files = os.listdir(served)
assert files

def body():
    for call in (
        lambda: rt.send(a, "Add", n=1),
        lambda: rt.send_many(a, adds),
        lambda: rt.broadcast("Counter", "Add", n=1),
        lambda: rt.ask(a, "Ask", timeout=30),
        lambda: rt.ask_many([a, a], "Ask", sample.TOTAL, timeout=30),
        lambda: rt.receive(timeout=30),
        lambda: rt.receive_many(sample.ITEM, 3),
        lambda: rt.spawn("Counter"),
        lambda: rt.stop(a, timeout=30),
        lambda: rt.restart(a, timeout=30),
        lambda: rt.inspect(a, timeout=30),
        lambda: rt.drain(timeout=30),
        lambda: rt.pause(timeout=30),
        lambda: rt.resume(),
        lambda: rt.park(timeout=30),
        lambda: rt.stats(),
        lambda: rt.telemetry(),
        lambda: rt.observe(True),
        lambda: rt.stuck(),
        lambda: rt.save("never", timeout=30),
        lambda: rt.migrate(a, worker=0),
        lambda: rt.buffer(4),
        lambda: rt.subscribe(a, "topic"),
        lambda: rt.publish("topic", "Add", n=1),
    ):
        refused(call)
    rt.close()
    assert os.listdir(served) == files, "the parent's announcement is gone"
    rt.description
    kept.close()

assert in_child(body) == 0

# What the child collects, and the interpreter's end in it, leave the parent alone.
def collected():
    global rt, kept
    import gc
    rt = kept = None
    gc.collect()
    sys.exit(0)

pid = os.fork()
if pid == 0:
    signal.alarm(20)
    collected()
assert os.waitpid(pid, 0)[1] == 0
assert os.listdir(served) == files
assert rt.ask(a, "Ask", timeout=20)["count"] == 0
rt.close()
assert not os.listdir(served)

# A child makes its own.
def own():
    with denizen.Runtime(sample.program(), "cpu:2") as mine:
        (b,) = mine.spawn("Counter")
        mine.send(b, "Add", n=2)
        assert mine.ask(b, "Ask", timeout=20)["sum"] == 2
assert in_child(own) == 0
print("done")
"""

OTHERS = """
program = tasks.Program("struct Idle { void run(auto&) const {} };", tasks=[tasks.task("Idle")])
of_tasks = tasks.Runtime(program, "cpu:2")
future = of_tasks.future("u8")
ranks = group.local(2, "cpu", timeout=30)
room = wave.Simulation((32, 32, 32), device="cpu:2")
run = room.start(1 << 30)

class Never(flow.Block):
    def __init__(self, name):
        super().__init__(name)
        self.out = self.source("out", "f4")
    # It waits in Python for as long as there are forks: the thread state of a thread that is made
    # for a call (PyGILState_Ensure) may have its lock taken when CPython 3.11 forks.
    def work(self):
        begun.set()
        ended.wait()
begun, ended = threading.Event(), threading.Event()
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
g.start()
assert begun.wait(20)

def body():
    refused(lambda: of_tasks.spawn(tasks.task("Idle")()))
    refused(lambda: of_tasks.wait(30))
    refused(lambda: of_tasks.stats())
    refused(lambda: of_tasks.future("u8"))
    refused(lambda: of_tasks.group())
    refused(lambda: future.get(30))
    of_tasks.close()
    refused(lambda: ranks[0].all_reduce(np.ones(4, np.float32)))
    refused(lambda: ranks[0].barrier())
    refused(lambda: run.pause())
    refused(lambda: run.stop())
    refused(lambda: g.wait(30))
    g.close()

assert in_child(body) == 0

pid = os.fork()
if pid == 0:
    signal.alarm(20)
    del of_tasks, future, ranks, run, room, g, never, eats
    import gc
    gc.collect()
    sys.exit(0)
assert os.waitpid(pid, 0)[1] == 0
of_tasks.spawn(tasks.task("Idle")())
of_tasks.wait(20)
run.stop()
ended.set()
g.close()
print("done")
"""


@pytest.mark.parametrize("text", [RUNTIME, OTHERS], ids=["runtime", "others"])
def test_a_forked_child(run_python, text):
    out = run_python(
        f"import sys; sys.path.insert(0, {os.path.dirname(__file__)!r})\n" + PROGRAM + text
    )
    assert out.splitlines()[0] == "done", out

# SPDX-License-Identifier: Apache-2.0
"""What happens when no thread can be created any more: a named error, nothing left behind."""

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

COMPILER = shutil.which(os.environ.get("CXX", "g++"))

# Fails the k-th creation after `fail_thread(k)`, and all after it until `fail_thread(0)`.
LIBRARY = r"""
#include <atomic>
#include <cerrno>
#include <dlfcn.h>
#include <pthread.h>
static std::atomic<int> left{-1};
extern "C" void fail_thread(int k) { left = k == 0 ? -1 : k - 1; }
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                              void* (*run)(void*), void* argument)
{
    using Create = int(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
    static Create* const real = reinterpret_cast<Create*>(dlsym(RTLD_NEXT, "pthread_create"));
    int now = left.load();
    while (now > 0 && !left.compare_exchange_weak(now, now - 1)) {}
    return now == 0 ? EAGAIN : real(thread, attributes, run, argument);
}
"""

BEGIN = """
import ctypes, os, sys, tempfile, threading
import numpy as np
import denizen
from denizen import flow, graph, group, procmine, tasks, wave

fail = ctypes.CDLL(None).fail_thread

def each(use, least):
    "Calls use() with the k-th thread failing, for each k until none fails."
    use()  # compiles, and works
    before = len(os.listdir("/proc/self/task"))
    for k in range(1, 100):
        fail(k)
        try:
            use()
        except denizen.ExhaustedError as error:
            text = str(error)
            assert "cannot start" in text and "Resource temporarily unavailable" in text, text
            assert "ulimit -u" in text, text
        else:
            assert k > least, f"thread {k} was never created"
            fail(0)
            break
        finally:
            fail(0)
    else:
        raise AssertionError("it never succeeds")
    use()
    assert len(os.listdir("/proc/self/task")) <= before + 1, "a thread was left behind"

"""

USES = {
    "runtime": (
        4,
        """
        program = denizen.Program("struct Counter { void on(const Add&, auto& ctx)"
            "{ ctx.reply(Add{1}); } };", actors=["Counter"],
            messages=[denizen.message("Add", [("n", "u4")])])
        def use():
            with denizen.Runtime(program, "cpu:2x2") as rt:
                (a,) = rt.spawn("Counter")
                assert rt.ask(a, "Add", n=2)["n"] == 1
        """,
    ),
    "tasks": (
        4,
        """
        program = tasks.Program("struct Idle { void run(auto&) const {} };",
                                tasks=[tasks.task("Idle")])
        def use():
            with tasks.Runtime(program, "cpu:3") as rt:
                rt.spawn(tasks.task("Idle")())
                rt.wait()
        """,
    ),
    "flow": (
        4,
        """
        class Ones(flow.Block):
            def __init__(self, name):
                super().__init__(name)
                self.out = self.source("out", "f4")
                self.left = 5
            def work(self):
                self.out.array[:] = 1
                self.out.produce(len(self.out.array))
                self.left -= 1
                if self.left == 0:
                    self.finish()
        class Eats(flow.Block):
            def __init__(self, name):
                super().__init__(name)
                self.port = self.input("in", "f4")
            def work(self):
                self.port.consume(len(self.port.array))
        def use():
            g = flow.Flowgraph()
            blocks = []
            for k in range(2):
                ones, eats = g.add(Ones(f"ones {k}")), g.add(Eats(f"eats {k}"))
                g.circuit(f"c{k}", ones.out, 2, 16)
                g.connect(ones.out, eats.port)
                blocks += [ones, eats]
            try:
                g.start(pools=[(blocks[2:], [-1, -1])])
                g.wait(20)
            finally:
                g.close()
        """,
    ),
    "bfs": (
        2,
        """
        g = graph.grid(60, 60)
        def use():
            for method in ("narrow", "wide", "tasks"):
                assert graph.bfs(g, 0, device="cpu:3", method=method).reached == 3600
        """,
    ),
    "weighted": (
        2,
        """
        g = graph.grid(30, 30)
        g = graph.with_weights(g, 9)
        def use():
            for method in ("narrow", "wide"):
                graph.shortest_paths(g, 0, device="cpu:3", method=method)
        """,
    ),
    "procmine": (
        2,
        """
        log = procmine.generate(20_000)
        def use():
            assert procmine.mine(log, device="cpu:3").edges is not None
        """,
    ),
    "wave threads": (
        2,
        """
        def use():
            assert wave.Simulation((16, 16, 16), device="cpu:3").run(4, "threads").steps == 4
        """,
    ),
    "wave passes": (
        1,
        """
        def use():
            assert wave.Simulation((16, 16, 16), device="cpu:2x1").run(4, "pass2").steps == 4
        """,
    ),
    "wave tiles": (
        1,
        """
        def use():
            room = wave.Simulation((8, 8, 32), device="cpu:2")
            for method in ("tiles", "deep"):
                assert room.run(4, method).steps == 4
        """,
    ),
    "wave steered": (
        3,
        """
        def use():
            room = wave.Simulation((8, 8, 32), device="cpu:2")
            try:
                with room.start(1 << 20, "tiles") as run:
                    run.add_source(wave.Impulse(), (1, 1, 1))
            finally:
                assert not room._core.running
        """,
    ),
    "group": (
        3,
        """
        def use():
            groups = group.local(3, "cpu", timeout=300)  # none of it is waited
            del groups
        """,
    ),
    "resident group": (
        1,
        """
        (only,) = group.local(1, "cpu", timeout=5)
        def use():
            with only.resident() as calls:
                calls.all_reduce(np.ones(4, np.float32))
                calls.wait()
        """,
    ),
    "radio": (
        3,
        """
        from denizen.radio import Receiver
        signal = bytes(400_000)
        def use():
            receiver = Receiver(device="cpu:3")
            assert receiver.feed(signal) == [] and receiver.finish() == []
        """,
    ),
    "metrics": (
        3,
        """
        program = denizen.Program("struct Counter { void on(const Add&, auto&) {} };",
            actors=["Counter"], messages=[denizen.message("Add", [("n", "u4")])])
        os.environ["XDG_RUNTIME_DIR"] = tempfile.mkdtemp()
        def use():
            with denizen.Runtime(program, "cpu:2") as rt:
                rt.serve_metrics()
            assert not os.listdir(os.environ["XDG_RUNTIME_DIR"] + "/denizen")
        """,
    ),
}


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    if COMPILER is None:
        pytest.skip("no C++ compiler")
    folder = tmp_path_factory.mktemp("library")
    (folder / "few.cpp").write_text(LIBRARY)
    subprocess.run(
        [COMPILER, "-std=c++17", "-O1", "-shared", "-fPIC", "few.cpp", "-o", "few.so"],
        cwd=folder,
        check=True,
    )
    return folder / "few.so"


@pytest.mark.parametrize("name", USES)
def test_a_thread_that_cannot_be_created(name, library, tmp_path):
    least, use = USES[name]
    script = tmp_path / "use.py"
    script.write_text(BEGIN + textwrap.dedent(use) + f"\neach(use, {least})\nprint('done')\n")
    paths = [str(Path(p).resolve()) for p in sys.path if p]
    ran = subprocess.run(
        [sys.executable, script],
        check=False,
        env={**os.environ, "LD_PRELOAD": str(library), "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[-1] == "done"

# SPDX-License-Identifier: Apache-2.0
"""The interpreter ends while threads of it are in a wait of the package."""

import os

import pytest

BEGIN = f"""
import sys, threading, time
sys.path.insert(0, {os.path.dirname(__file__)!r})
import numpy as np
import denizen, sample
rt = denizen.Runtime(sample.program(), "cpu:2")
(counter,) = rt.spawn("Counter")
(slow,) = rt.spawn("Slow")
adds = np.zeros(1000, sample.ADD.dtype)
def daemon(body):
    def forever():
        while True:
            body()
    for _ in range(3):
        threading.Thread(target=forever, daemon=True).start()
    time.sleep(0.3)
"""

BODIES = {
    "send_many": "rt.send_many(counter, adds)",
    "ask": "rt.ask(counter, sample.ASK())",
    "ask that waits": "rt.ask(slow, sample.KEEP(), timeout=60)",
    "receive": "rt.receive(timeout=60)",
    "drain": "rt.drain(timeout=60)",
    "telemetry": "rt.telemetry()",
    "buffer": "rt.buffer(1000).close()",
}


@pytest.mark.parametrize("name", BODIES)
def test_with_a_daemon_thread_in(name, run_python):
    for _ in range(3):  # which moment it is is chance
        out = run_python(BEGIN + f"daemon(lambda: {BODIES[name]})\nprint('end')\n")
        assert out == "end\n"


def test_nothing_is_said_of_what_is_left(run_python):
    """A runtime that nobody closed, from a module that the interpreter takes down last."""
    out = run_python(BEGIN + "import builtins\nbuiltins.rt = rt\nprint('end')\n")
    assert out == "end\n"


def test_without_daemon_threads_and_closed(run_python):
    assert run_python(BEGIN + "rt.close()\nprint('end')\n") == "end\n"

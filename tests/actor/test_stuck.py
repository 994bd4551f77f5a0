# SPDX-License-Identifier: Apache-2.0
"""A handler that never returns is named, and close() comes back with an error. In processes of
their own: such a handler keeps its thread, or costs the GPU context."""

import re

import pytest

SPINNER = """
import sys, time
import denizen

spin = denizen.message("Spin")
ask = denizen.message("Ask")
done = denizen.message("Done", [("n", "u4")])
text = '''
struct Spinner {
    uint32_t go_on = 1;
    uint32_t n = 0;
    void on(const Spin&, auto&) {
        while (*static_cast<volatile uint32_t*>(&go_on) != 0) ++n;
    }
    void on(const Ask&, auto& ctx) { ctx.reply(Done{1}); }
};
'''
program = denizen.Program(text, actors=["Spinner"], messages=[spin, ask, done], name="spinner")
device = sys.argv[1]
rt = denizen.Runtime(program, device, **({"workers": 4} if device == "gpu" else {}))
actors = rt.spawn("Spinner", 2)
assert rt.ask(actors[0], "Ask", timeout=20)["n"] == 1
assert rt.stuck(0.5) == ""
rt.send(actors[0], "Spin")
until = time.monotonic() + 30
while not rt.stuck(0.5) and time.monotonic() < until:
    time.sleep(0.05)
print("stuck:", rt.stuck(0.5))
"""

CLOSING = (
    SPINNER
    + """
for call in (lambda: rt.ask(actors[0], "Ask", timeout=0.2), lambda: rt.drain(timeout=0.2)):
    try:
        call()
    except denizen.DeadlineError as error:
        print("call:", error)
try:
    rt.close(timeout=0.5)
except denizen.StuckError as error:
    print("close:", error)
rt.close()
print("closed twice")
"""
)

NAMED = r"worker 0 is stuck: actor Spinner #0 of worker 0 has been handling Spin for [\d.]+ s"


def test_it_is_named_and_close_returns_an_error(run_python, device):
    out = run_python(CLOSING, device)
    assert re.search(f"stuck: {NAMED}", out)
    assert re.search(
        f"call: ask Ask to actor Spinner #0 of worker 0 was not answered.*: {NAMED}", out
    )
    assert re.search(f"call: messages are still being handled.*: {NAMED}", out)
    left = "context has been torn down" if device == "gpu" else "thread has been left behind"
    assert re.search(f"close: {NAMED}; its .*{left}", out)
    assert "closed twice" in out


def test_a_process_with_a_stuck_handler_can_end(run_python, device):
    assert "stuck: worker 0" in run_python(SPINNER, device)


def test_other_workers_go_on(run_python):
    text = (
        SPINNER
        + """
print("neighbour:", rt.ask(actors[1], "Ask", timeout=20)["n"])
try:
    rt.close(timeout=0.2)
except denizen.StuckError:
    pass
"""
    )
    assert "neighbour: 1" in run_python(text, "cpu:2")


DYING = """
import sys
import denizen

crash = denizen.message("Crash")
ask = denizen.message("Ask")
text = '''
struct Broken {
    uint64_t address = 16;
    void on(const Crash&, auto&) { *reinterpret_cast<volatile uint32_t*>(address) = 1; }
    void on(const Ask&, auto& ctx) { ctx.reply(Ask{}); }
};
'''
program = denizen.Program(text, actors=["Broken"], messages=[crash, ask], name="broken")
rt = denizen.Runtime(program, "gpu")
(actor,) = rt.spawn("Broken")
rt.ask(actor, "Ask", timeout=20)
rt.send(actor, "Crash")
for call in (lambda: rt.ask(actor, "Ask", timeout=20), lambda: rt.drain(timeout=20)):
    try:
        call()
    except denizen.DeadError as error:
        print("dead:", error)
rt.close()
print("closed")
"""


@pytest.mark.gpu
def test_a_program_that_dies_is_an_error_and_not_a_hang(run_python):
    out = run_python(DYING)
    assert (
        len(re.findall(r"dead: the program on .* died: CUDA_ERROR_.*start a new process", out)) == 2
    )
    assert "closed" in out

# SPDX-License-Identifier: Apache-2.0
"""``import denizen`` takes some 30 ms beside NumPy's 80, because it imports little.

Its time is not asserted. What that depends on is: how many modules come beside NumPy's, and that
none is an application's, an instrument's, or one of those that take long.
"""

import json
import sys

SCRIPT = """
import json, sys
import pathlib  # whose parts are others in each version of Python
import numpy
before = set(sys.modules)
import denizen
print(json.dumps(sorted(set(sys.modules) - before)))
"""
APART = {
    *("ab", "adsb", "apps", "check", "cli", "cluster", "flow", "graph", "group", "infer", "info"),
    *(
        "handlers.compiled",
        "iq",
        "lab",
        "lens",
        "metrics",
        "procmine",
        "radio",
        "tasks",
        "terminal",
    ),
    *("transactions", "wave"),
}
SLOW = {"asyncio", "email", "http", "multiprocessing", "socket", "ssl", "urllib", "xml"}


def test_it_imports_little(run_python):
    came = json.loads(run_python(SCRIPT))
    own = [name for name in came if name.partition(".")[0] == "denizen"]
    others = {name for name in came if name.partition(".")[0] != "denizen"}
    assert len(own) <= 36, own
    assert len(others) <= 36, sorted(others)
    assert not {name.removeprefix("denizen.") for name in own} & APART
    roots = {name.partition(".")[0] for name in others}
    assert not roots & SLOW
    # Of packages NumPy's alone, and what a wheel needs: all else is Python's own.
    assert roots - sys.stdlib_module_names <= {"numpy", "nanobind_backend"}


IN_ANOTHER = """
try:
    import _xxsubinterpreters as interpreters
except ImportError:  # since Python 3.13
    import _interpreters as interpreters
import sys
other = interpreters.create()
text = f"import sys; sys.path[:] = {sys.path!r}; import denizen"
try:
    told = interpreters.run_string(other, text)
except RuntimeError as error:
    told = error
print(told)
import denizen  # the main one has it all the same
"""


def test_a_sub_interpreter_is_refused(run_python):
    told = run_python(IN_ANOTHER)
    ours = "denizen cannot be imported in a sub-interpreter; import it in"
    pythons = "does not support loading in subinterpreters"  # since 3.12
    assert ours in told or pythons in told

# SPDX-License-Identifier: Apache-2.0
"""Handlers in Python are compiled once: a program that ran before starts without Numba."""

import pytest

pytest.importorskip("numba")

PROGRAM = """
import sys
import denizen, numpy as np

FACTOR = 3

def half(x):
    return x // 2

@denizen.message
class Ask:
    n: np.uint32

@denizen.message
class Answer:
    n: np.uint64

@denizen.actor
class Multiplier:
    asked: np.uint32 = 0

    def on_ask(self, m: Ask, ctx):
        self.asked += 1
        ctx.reply(Answer(half(m.n) * FACTOR))
{more}
with denizen.Runtime(Multiplier, "cpu:1") as rt:
    (actor,) = rt.spawn(Multiplier)
    print("answer", rt.ask(actor, Ask(10), timeout=20)["n"], "with Numba:", "numba" in sys.modules)
"""


_first = {}  # what the program has left in an empty cache


@pytest.fixture
def start(empty_cache, run_python):
    """What the program prints, in a process of its own."""

    def run(changed=("", ""), more=""):
        return run_python(PROGRAM.format(more=more).replace(*changed)).strip().splitlines()[-1]

    return run


@pytest.fixture
def started(start, empty_cache):
    """The same, after a process that found nothing: one for all tests."""
    if not _first:
        assert start() == "answer 15 with Numba: True"
        _first.update((p.name, p.read_bytes()) for p in empty_cache.iterdir())
    empty_cache.mkdir(0o700, exist_ok=True)
    for name, data in _first.items():
        (empty_cache / name).write_bytes(data)
    return start


def test_the_second_process_needs_no_numba(start, empty_cache):
    assert start() == "answer 15 with Numba: True"
    assert [p.suffix for p in empty_cache.iterdir()] == [".handler"]
    assert start() == "answer 15 with Numba: False"


@pytest.mark.parametrize(
    ("change", "answer"),
    [
        (("FACTOR = 3", "FACTOR = 4"), 20),  # a number from outside
        (("x // 2", "x // 5"), 6),  # a function that is called
        (("Ask:\n    n: np.uint32", "Ask:\n    n: np.uint16"), 15),  # a field's type
        (("asked: np.uint32 = 0", "asked: np.uint64 = 0"), 15),  # the state's
        (("* FACTOR", "+ FACTOR"), 8),
    ],
)
def test_what_changes_a_handler_compiles_it_anew(started, change, answer):
    assert started(change) == f"answer {answer} with Numba: True"
    assert started(change) == f"answer {answer} with Numba: False"
    assert started() == "answer 15 with Numba: False"


def test_another_handler_leaves_this_one_as_it_is(started, empty_cache):
    more = "    def on_answer(self, m: Answer):\n        self.asked += m.n\n"
    assert started(more=more) == "answer 15 with Numba: True"
    assert len(list(empty_cache.iterdir())) == 2


def test_an_initial_value_is_no_part_of_a_handler(started):
    assert (
        started(("asked: np.uint32 = 0", "asked: np.uint32 = 9")) == "answer 15 with Numba: False"
    )


@pytest.mark.parametrize("damage", ["empty", "cut", "flipped", "a link"])
def test_what_was_tampered_with_is_not_loaded(started, empty_cache, damage):
    (kept,) = empty_cache.iterdir()
    data = bytearray(kept.read_bytes())
    if damage == "a link":
        kept.rename(empty_cache.parent / "elsewhere")
        kept.symlink_to(empty_cache.parent / "elsewhere")
    else:
        data[len(data) // 2] ^= 1 if damage == "flipped" else 0
        kept.write_bytes({"empty": b"", "cut": data[:500]}.get(damage, data))
    assert started() == "answer 15 with Numba: True"
    assert started() == "answer 15 with Numba: False"


def test_a_cache_that_others_can_write_is_refused(started, empty_cache):
    empty_cache.chmod(0o777)
    with pytest.raises(AssertionError, match="others can write there"):
        started()


def test_other_settings_of_numba_compile_it_anew(started, monkeypatch):
    monkeypatch.setenv("NUMBA_OPT", "1")
    assert started() == "answer 15 with Numba: True"


def test_a_function_that_is_not_in_the_process_is_not_called(started, empty_cache, run_python):
    """LLVM ends the process where a symbol is missing."""
    prepare = """
import json, struct
from denizen.cache import open_cache
with open_cache() as kept:
    name = {!r}
    data = kept.code(name)
    (size,) = struct.unpack_from("<I", data)
    head = json.loads(data[4 : 4 + size])
    assert head["needs"], head
    head = json.dumps(head | {{"needs": ["no_such_function"]}}).encode()
    kept.keep_code(name, struct.pack("<I", len(head)) + head + data[4 + size :])
"""
    (kept,) = empty_cache.iterdir()
    run_python(prepare.format(kept.name))
    assert started() == "answer 15 with Numba: True"

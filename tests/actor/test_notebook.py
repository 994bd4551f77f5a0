# SPDX-License-Identifier: Apache-2.0
"""Cells of a notebook: their text is found as IPython leaves it, a cell that is run again replaces
its types, and what a cell shows can be read."""

import itertools
import linecache

import pytest

import denizen

MESSAGES = """
import numpy as np
import denizen
from denizen import tasks

@denizen.message
class Tick:
    n: np.{width}

@denizen.message
class Total:
    sum: np.uint64
"""
ACTORS = """
@denizen.actor
class Counter:
    sum: np.uint64 = 0
    def on_tick(self, m: Tick, ctx):
        self.sum += {times} * m.n
        ctx.reply(Total(self.sum))
"""
TASKS = """
@tasks.task
class Work:
    n: np.uint32
    result: tasks.PROMISE
    def run(self, ctx):
        ctx.set(self.result, {times} * self.n)
"""
ASKED = """
with denizen.Runtime(Counter, where) as rt:
    shown = repr(rt), rt._repr_html_()
    reply = rt.ask(rt.spawn(Counter)[0], Tick({n}), timeout=20)
    answer = int(reply["sum"])
"""
RUN = """
with tasks.Runtime(Work, where) as rt:
    shown_tasks = repr(rt), rt._repr_html_()
    result = rt.future("u8")
    rt.spawn(Work(5, result))
    worked = int(result.get(20))
"""


class Notebook:
    """Runs cells as IPython does: in one namespace, each with a file name that linecache knows."""

    def __init__(self):
        self._cells = itertools.count(1)
        self.names = {"__name__": "__main__"}

    def run(self, text):
        name = f"/tmp/ipykernel_1/{next(self._cells)}.py"
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
        exec(compile(text, name, "exec"), self.names)


@pytest.fixture(params=["python", "cpu:1"])
def notebook(request):
    if request.param != "python":
        pytest.importorskip("numba")
    made = Notebook()
    made.names["where"] = request.param
    made.run(MESSAGES.format(width="uint32"))
    made.run(ACTORS.format(times=1))
    return made


def test_a_cell_that_is_run_again_replaces_its_handlers(notebook):
    notebook.run(ASKED.format(n=7))
    assert notebook.names["answer"] == 7
    notebook.run(ACTORS.format(times=10))
    notebook.run(ASKED.format(n=7))
    assert notebook.names["answer"] == 70


def test_a_cell_that_is_run_again_replaces_its_messages(notebook):
    notebook.run(ASKED.format(n=7))
    notebook.run(MESSAGES.format(width="uint32"))  # as it was: the actors' cell need not be run
    notebook.run(ASKED.format(n=8))
    assert notebook.names["answer"] == 8
    notebook.run(MESSAGES.format(width="uint64"))  # another one: it is said who has the old one
    with pytest.raises(denizen.MessageError, match="Tick"):
        notebook.run(ASKED.format(n=9))
    notebook.run(ACTORS.format(times=1))
    notebook.run(ASKED.format(n=2**40))
    assert notebook.names["answer"] == 2**40


def test_tasks_are_replaced_too(notebook):
    for times in (2, 3):
        notebook.run(TASKS.format(times=times))
        notebook.run(RUN)
        assert notebook.names["worked"] == 5 * times


def test_what_a_cell_shows(notebook):
    notebook.run(ASKED.format(n=7))
    notebook.run(TASKS.format(times=2))
    notebook.run(RUN)
    names = notebook.names
    assert repr(names["Tick"]) == "<message Tick: n u4; 4 bytes>"
    assert repr(names["reply"]) == "Total(sum=7)"
    assert repr(names["Counter"]) == "<actor Counter: sum u8; takes Tick>"
    assert repr(names["Work"]).startswith("<task Work: n u4, result u8; 16 bytes>")
    assert repr(names["Work"](5)) == "Work(n=5, result=0)"
    for shown in (names["shown"], names["shown_tasks"]):
        text, html = shown
        assert text.startswith("<denizen.")
        assert "\n" not in text
        assert html.startswith("<table>")
    assert "Work" in names["shown_tasks"][0]


def test_an_error_names_the_cell(notebook):
    notebook.run(ACTORS.format(times="[1]"))
    with pytest.raises(denizen.CompileError, match=r"ipykernel_1/3.py:6: a handler cannot use a l"):
        notebook.run(ASKED.format(n=7))

# SPDX-License-Identifier: Apache-2.0
"""Handlers in Python on several hosts: their types are sent along."""

import importlib.util
import linecache
import os
import subprocess
import sys
import zipfile

import players
import pytest
from players import Player, Score, Serve

import denizen

pytest.importorskip("numba")


@pytest.mark.parametrize("transport", ["tcp", pytest.param("rings", marks=pytest.mark.deep)])
def test_handlers_in_python_send_to_actors_of_other_hosts(transport, device):
    with denizen.Cluster(Player, hosts=2, device=device, transport=transport) as cluster:
        (here,) = cluster.spawn(Player, host=0)
        (there,) = cluster.spawn(Player, host=1)
        cluster.send(there, Serve(here, 99))
        cluster.drain()
        for address in (here, there):
            answer = cluster.ask(address, Score(), timeout=10.0)
            assert (answer["hits"], answer["own"]) == (50, address)


def test_types_of_a_function_are_sent_along():
    message = denizen.message("Mark", [("n", "u4")])

    @denizen.actor
    class Local:
        n: "u4" = 0  # noqa: F821

        def on_mark(self, m: message, ctx):
            self.n += m.n
            ctx.reply(players.Hits(self.n, ctx.self))

    with denizen.Cluster(Local, hosts=2) as cluster:
        (there,) = cluster.spawn(Local, host=1)
        assert cluster.ask(there, message(5), timeout=10.0)["hits"] == 5


def test_a_module_that_hosts_cannot_import_is_named(tmp_path, monkeypatch):
    (tmp_path / "helper.py").write_text("def twice(x):\n    return 2 * x\n")
    spec = importlib.util.spec_from_file_location("only_here", tmp_path / "helper.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "only_here", module)
    spec.loader.exec_module(module)
    mark = denizen.message("Mark", [("n", "u4")])

    @denizen.actor
    class Local:
        def on_mark(self, m: mark, ctx):
            ctx.reply(mark(module.twice(m.n)))

    with pytest.raises(denizen.ArgumentError, match=r'host 1: .* module "only_here".* sys\.path'):
        denizen.Cluster(Local, hosts=2)


def test_a_module_that_hosts_cannot_import_is_sent_if_it_has_the_handlers(tmp_path, monkeypatch):
    (tmp_path / "program.py").write_text(CELL)
    spec = importlib.util.spec_from_file_location("only_here_too", tmp_path / "program.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "only_here_too", module)
    spec.loader.exec_module(module)
    with denizen.Cluster(module.Local, hosts=2) as cluster:
        (there,) = cluster.spawn("Local", host=1)
        assert cluster.ask(there, module.Mark(5), timeout=20)["n"] == 10
    function = importlib.import_module("numba").cloudpickle.dumps(module.twice)
    assert b"only_here_too" in function  # by its name, as ever, for others


def test_what_the_runtime_sends_is_known_on_all_hosts():
    ask = denizen.message("Ask", [])
    told = denizen.message("Told", [("downs", "u4"), ("failed", "u4")])

    @denizen.task
    class Failing:
        def run(self, ctx):
            ctx.fail(7)

    @denizen.actor
    class Guard:
        downs: "u4"  # noqa: F821
        failed: "u4"  # noqa: F821

        def on_down(self, m: denizen.DOWN):
            self.downs += 1

        def on_failed(self, m: denizen.TASK_FAILED):
            self.failed += m.code

        def on_told(self, m: told, ctx):
            ctx.spawn(Failing())

        def on_ask(self, m: ask, ctx):
            ctx.reply(told(self.downs, self.failed))

    with denizen.Cluster(Guard, hosts=2) as cluster:
        for host in (0, 1):
            guard, watched = cluster.spawn(Guard, 2, host=host)
            cluster.watch(guard, watched)
            cluster.stop(watched)
            cluster.send(guard, told())
            cluster.drain()
            assert cluster.ask(guard, ask(), timeout=10.0).item() == (1, 7)


CELL = """
import numpy as np
import denizen

@denizen.message
class Mark:
    n: np.uint32

def twice(x):
    return 2 * x

@denizen.actor
class Local:
    def on_mark(self, m: Mark, ctx):
        ctx.reply(Mark(twice(m.n)))
"""
ASKED = """
with denizen.Cluster(Local, hosts=2) as cluster:
    (there,) = cluster.spawn(Local, host=1)
    print(cluster.ask(there, Mark(5), timeout=20)["n"])
"""


def test_a_notebooks_cell_is_sent_with_its_text(capsys):
    name = "/nowhere/ipykernel_1/1.py"
    text = CELL + ASKED
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    exec(compile(text, name, "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out == "10\n"


def test_a_zip_is_a_program(tmp_path):
    with zipfile.ZipFile(tmp_path / "program.zip", "w") as file:
        file.writestr("__main__.py", CELL + ASKED)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "program.zip")],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "10\n", "")

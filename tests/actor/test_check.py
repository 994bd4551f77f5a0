# SPDX-License-Identifier: Apache-2.0
"""`denizen check`: a file's programs compiled for CPU and GPU, on a machine without a GPU."""

import pytest

from denizen import cli

TEXT = """
import denizen

get, value = denizen.message("Get"), denizen.message("Value", [("n", "f8")])

def constant(text):
    source = "struct Constant {\\n    void on(const Get&, auto& ctx) {\\n"
    source += f"        ctx.reply(Value{{{text}}});\\n    }}\\n}};\\n"
    return denizen.Program(source, actors=["Constant"], messages=[get, value], name="mine")

"""


@pytest.fixture
def checked(tmp_path, capfd):
    def run(more, *arguments):
        file = tmp_path / "program.py"
        file.write_text(TEXT + more)
        status = cli.main(["check", str(file), *arguments])
        return status, *capfd.readouterr()

    return run


@pytest.mark.usefixtures("unoptimised")
def test_what_compiles_for_both(checked, nvrtc):
    status, out, _ = checked('a = constant("std::sqrt(2.0)")\n')
    assert status == 0
    lines = out.splitlines()
    assert lines[0].startswith("a, CPU: compiles (")
    assert lines[1].startswith("a, GPU sm_90: compiles (")


@pytest.mark.usefixtures("unoptimised")
def test_what_compiles_for_the_cpu_alone(checked, nvrtc):
    status, out, error = checked('a = constant("__builtin_sqrt(2.0)")\nb = constant("1")\n')
    assert status == 1
    assert "a, CPU: compiles" in out
    assert "a, GPU sm_90: does not compile" in out
    assert "b, GPU sm_90: compiles" in out
    assert "__builtin_sqrt" in error
    assert "mine" in error


@pytest.mark.usefixtures("unoptimised")
def test_other_architectures(checked, nvrtc):
    status, out, _ = checked('a = constant("1")\n', "--arch", "sm_80")
    assert status == 0
    assert "a, GPU sm_80: compiles" in out
    assert "sm_90" not in out
    with pytest.raises(SystemExit):
        checked('a = constant("1")\n', "--arch", "new")


ACTORS = """
import denizen
import numpy as np

@denizen.message
class Tick:
    n: np.uint32

@denizen.actor
class Counter:
    sum: np.uint64 = 0

    def on_tick(self, m: Tick, ctx):
        self.sum += {value}

if __name__ == "__main__":
    denizen.Runtime(Counter)
"""


@pytest.mark.usefixtures("unoptimised")
def test_actors_in_python_that_are_in_no_program(tmp_path, capfd, nvrtc):
    pytest.importorskip("numba")
    file = tmp_path / "actors.py"
    file.write_text(ACTORS.format(value="m.n"))
    assert cli.main(["check", str(file)]) == 0
    assert "Counter, CPU: compiles (" in capfd.readouterr().out
    file.write_text(ACTORS.format(value="m.weight"))
    assert cli.main(["check", str(file)]) == 1
    said = capfd.readouterr()
    assert "Counter, CPU: does not compile" in said.out
    assert f"{file}:14: the message Tick has no field weight; it has n" in said.err


@pytest.mark.usefixtures("unoptimised")
def test_programs_of_tasks(checked, nvrtc):
    more = """
from denizen import tasks
work = tasks.Program("struct Work { void run(auto&) const {} };", tasks=[tasks.task("Work")])
if __name__ == "__main__":
    raise SystemExit("run, not imported")
"""
    status, out, _ = checked(more)
    assert status == 0
    assert "work, CPU: compiles" in out


def test_a_file_that_fails_itself(checked):
    status, _, error = checked("raise ValueError('of the user')\n")
    assert status == 1
    assert "of the user" in error
    assert "program.py" in error
    assert "runpy" not in error


def test_a_file_without_programs(checked, tmp_path, capfd):
    status, _, error = checked("")
    assert status == 2
    assert "no denizen.Program or actor at its top level" in error
    assert cli.main(["check", str(tmp_path / "none.py")]) == 2
    assert "no such file" in capfd.readouterr().err

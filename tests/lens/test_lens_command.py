# SPDX-License-Identifier: Apache-2.0
"""The command line, with programs that write their logs themselves.

The preload library's own part is tested where it is built; here any library may be preloaded.
"""

import json
import os
import re
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
import stream as s

from denizen import cli
from denizen.lab import schema
from denizen.lens import launch, log
from denizen.lens.lines import submission_schema

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def preloaded(monkeypatch):
    """A library that may be preloaded: the C library that is there anyway."""
    libc = re.search(r"(/\S*libc\.so\.6)$", Path("/proc/self/maps").read_text(), re.MULTILINE)[1]
    monkeypatch.setenv("DENIZEN_LENS_LIBRARY", libc)
    monkeypatch.delenv("LD_PRELOAD", raising=False)
    return libc


def example(mode="full", graphs=1):
    made = s.Log(mode, process="prog").thread(7).channel(0).name(0x2000001, "cudaMemcpyAsync")
    for i in range(graphs):
        made.submit(0, s.engine_copy(1, 2, 64), api=0x2000001, call=i + 1)
    return made.end()


def program(tmp_path, body):
    """A program that may do what it likes with the folder of its logs."""
    path = tmp_path / "program"
    path.write_text(
        f"#!{sys.executable}\nimport os, sys, time\nfrom pathlib import Path\n"
        "folder = Path(os.environ['DENIZEN_LENS_DIR'])\n" + body
    )
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def writes(tmp_path, log_file, name="prog.1.lens"):
    (tmp_path / "given.lens").write_bytes(log_file.bytes)
    return f"(folder / {name!r}).write_bytes(Path({str(tmp_path / 'given.lens')!r}).read_bytes())\n"


def test_a_program_runs_and_its_cost_is_told(tmp_path, capfd):
    body = writes(tmp_path, example()) + "print('own output'); sys.exit(int(sys.argv[1]))"
    lines, trace, kept = tmp_path / "l.jsonl", tmp_path / "t.perfetto", tmp_path / "k.lens"
    options = ["--json", str(lines), "--perfetto", str(trace), "-o", str(kept)]
    assert cli.main(["lens", *options, "--", program(tmp_path, body), "7"]) == 7
    told = capfd.readouterr()
    assert told.out == "own output\n"  # the tables are on stderr
    assert re.search(r"cudaMemcpyAsync\W+-\W+1\W+1\W+1\W+32\W+32\W+copy", told.err)
    assert "1 doorbells, 1 entries, 32 bytes" in told.err
    (line,) = lines.read_text().splitlines()
    assert json.loads(line)["api"] == "cudaMemcpyAsync"
    assert trace.stat().st_size > 100
    assert len(log.read(kept).submissions) == 1


def test_the_overhead_of_the_run_is_told(tmp_path, capfd):
    made = s.Log().channel(0).submit(0, s.host_release(0x100, 1)).overhead(200, 1_640_000).end()
    assert cli.main(["lens", "--", program(tmp_path, writes(tmp_path, made))]) == 0
    assert "longer: 8.2 us per doorbell in its handler" in capfd.readouterr().err


def test_the_programs_environment(tmp_path, capfd, monkeypatch, preloaded):
    names = ["LD_PRELOAD", "DENIZEN_LENS_MODE", "CUDA_INJECTION64_PATH", "DENIZEN_LENS_FORCE"]
    asks = program(tmp_path, f"print([os.environ.get(name) for name in {names}])")
    cli.main(["lens", "--force", "--", asks])
    assert capfd.readouterr().out == f"{[preloaded, 'count', None, '1']}\n"
    monkeypatch.setenv("LD_PRELOAD", preloaded)
    cli.main(["lens", "--mode", "full", "--cupti", "--", asks])
    expected = [f"{preloaded}:{preloaded}", "full", preloaded, None]
    assert capfd.readouterr().out == f"{expected}\n"
    monkeypatch.setenv("CUDA_INJECTION64_PATH", "/other/profiler.so")
    assert cli.main(["lens", "--cupti", "--", asks]) == 1
    assert "CUPTI is taken" in capfd.readouterr().err


def test_several_processes_are_kept_beside_each_other(tmp_path, capfd):
    body = writes(tmp_path, example(), "child.2.lens")
    (tmp_path / "more.lens").write_bytes(
        example(graphs=3).bytes.replace(b"\x67\x12", b"\x68\x12", 1)
    )
    body += f"(folder / 'p.1.lens').write_bytes(Path({str(tmp_path / 'more.lens')!r}).read_bytes())"
    kept = tmp_path / "k.lens"
    assert cli.main(["lens", "-o", str(kept), "--", program(tmp_path, body)]) == 0
    assert len(log.read(kept).submissions) == 3
    assert len(log.read(tmp_path / "k.child.2.lens").submissions) == 1
    assert capfd.readouterr().err.count("cudaMemcpyAsync") == 2


def test_a_process_without_doorbells(tmp_path, capfd):
    assert cli.main(["lens", "--", program(tmp_path, writes(tmp_path, s.Log().end()))]) == 0
    assert "mode full): no doorbells" in capfd.readouterr().err


def test_an_inherited_folder_of_sockets_does_not_put_it_to_sleep(tmp_path, capfd, monkeypatch):
    monkeypatch.setenv(launch.SOCKETS, str(tmp_path))
    body = f"print(repr(os.environ[{launch.SOCKETS!r}]))"
    cli.main(["lens", "--", program(tmp_path, body)])
    assert capfd.readouterr().out == "''\n"


PLAY = ROOT / "build" / "release" / "tests" / "lens" / "lens_play"
LIBRARY = ROOT / "build" / "release" / "lens" / launch.LIBRARY


@pytest.mark.skipif(not (PLAY.exists() and LIBRARY.exists()), reason="lens_play is not built")
def test_the_real_library_on_a_played_driver(tmp_path, capfd, monkeypatch):
    """201 doorbells of one to fifteen segments, as play.cpp says, with everything recorded."""
    monkeypatch.setenv("DENIZEN_LENS_LIBRARY", str(LIBRARY))
    monkeypatch.setenv("DENIZEN_LENS_FAKE", str(tmp_path))
    monkeypatch.setenv(launch.SOCKETS, str(tmp_path / "sockets"))  # it does not sleep
    for name in ("nvidiactl", "nvidia0"):
        (tmp_path / name).touch()
    module = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build\n"
    (tmp_path / "version").write_text(module)
    lines = tmp_path / "l.jsonl"
    assert cli.main(["lens", "--mode", "full", "--json", str(lines), "--", str(PLAY), "wrap"]) == 0
    assert "fake_ring" in capfd.readouterr().err
    values = [json.loads(line) for line in lines.read_text().splitlines()]
    assert [value["sequence"] for value in values] == list(range(201))
    whole = submission_schema()
    for value in values:
        schema.check(value, whole, root=whole)
        assert value["decoded"]["complete"] and value["api"] == "fake_ring"
        assert value["bytes"] == sum(entry["bytes"] for entry in value["entries"])


def test_a_program_killed_by_a_signal(tmp_path, capfd):
    body = writes(tmp_path, s.Log().channel(0)) + "import signal; os.kill(os.getpid(), 9)"
    assert cli.main(["lens", "--", program(tmp_path, body)]) == 128 + signal.SIGKILL
    assert "was killed" in capfd.readouterr().err


def test_ctrl_c_goes_to_the_program(tmp_path):
    """The program handles it; the lens waits, and still tells what was recorded."""
    body = writes(tmp_path, example())
    body += "try: print('ready', flush=True); time.sleep(60)\n"
    body += "except KeyboardInterrupt: sys.exit(3)"
    command = [sys.executable, "-m", "denizen", "lens", "--", program(tmp_path, body)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout.readline() == "ready\n"
    os.killpg(process.pid, signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 3 and "cudaMemcpyAsync" in told and "Traceback" not in told


def test_nothing_recorded_says_why(tmp_path, capfd):
    assert cli.main(["lens", "--", program(tmp_path, "sys.exit(4)")]) == 4
    assert "opened no NVIDIA device" in capfd.readouterr().err
    static = tmp_path / "static"
    elf = bytearray(Path(sys.executable).resolve().read_bytes()[:4096])
    assert launch._has_interpreter(bytes(elf))
    elf[56:58] = b"\0\0"  # no program headers, so none that names a loader
    static.write_bytes(elf)
    static.chmod(0o755)
    assert "linked statically" in launch.why_nothing(str(static))
    static.chmod(0o4755)
    assert "setuid" in launch.why_nothing(str(static))


@pytest.mark.parametrize(
    ("words", "status", "problem"),
    [
        ([], 1, "no program was given"),
        (["--"], 1, "no program was given"),
        (["--", "/no/such/program"], 1, 'program "/no/such/program": no such command'),
        (["--mode", "all", "--", "true"], 2, "invalid choice: 'all'"),
        (["--what", "--", "true"], 2, "unrecognized arguments: --what"),
        (["true"], 2, "unrecognized arguments: true"),
        (["-o", "/no/folder/x.lens", "--", "true"], 1, "there is no folder /no/folder"),
        (["report", "none.lens"], 1, "none.lens: No such file"),
        (["diff", "none.lens"], 2, "required: B"),
        (["show", "/dev/null"], 1, "/dev/null is no capture"),
    ],
)
def test_wrong_use_is_one_clear_line(capfd, words, status, problem):
    try:
        got = cli.main(["lens", *words])
    except SystemExit as exit_:
        got = exit_.code
    told = capfd.readouterr().err
    assert got == status and problem in told and len(told.splitlines()) == 1


def test_a_missing_library_is_told_before_the_program_runs(tmp_path, capfd, monkeypatch):
    monkeypatch.setenv("DENIZEN_LENS_LIBRARY", "/none/libdenizen_lens.so")
    ran = tmp_path / "ran"
    assert cli.main(["lens", "--", program(tmp_path, f"Path({str(ran)!r}).touch()")]) == 1
    assert "libdenizen_lens.so is in none of: /none/libdenizen_lens.so" in capfd.readouterr().err
    assert not ran.exists()


def test_a_program_that_is_no_executable(tmp_path, capfd):
    path = tmp_path / "text"
    path.write_bytes(b"\x7fELFnonsense")
    path.chmod(0o755)
    assert cli.main(["lens", "--", str(path)]) == 1
    assert "cannot be started: Exec format error" in capfd.readouterr().err


def test_show_report_and_diff(tmp_path, capfd):
    a = example().write(tmp_path / "a.lens")
    b = example(graphs=2).write(tmp_path / "b.lens")
    assert cli.main(["lens", "show", str(b)]) == 0
    told = capfd.readouterr().out
    assert "#1 cudaMemcpyAsync: channel 0, 1 entries, 32 bytes" in told
    assert "    copy: copy, 64 bytes, to 2, from 1" in told
    assert "methods: OFFSET_IN_UPPER 1, OFFSET_IN_LOWER 1" in told
    assert cli.main(["lens", "report", str(a)]) == 0
    assert capfd.readouterr().out == f"{tmp_path / 'a.html'}\n"
    assert (tmp_path / "a.html").read_text().startswith("<!doctype html>")
    assert cli.main(["lens", "report", str(a), "-o", str(tmp_path / "x.html")]) == 0
    assert (tmp_path / "x.html").exists()
    assert cli.main(["lens", "diff", str(a), str(b)]) == 0
    assert "0 of 1 functions differ" in capfd.readouterr().out


def test_a_log_is_followed_while_it_grows(tmp_path):
    whole = example(graphs=5).bytes
    path = tmp_path / "a.1.lens"
    path.touch()
    tail = launch.Tail(path)
    bells = 0
    for size in range(0, len(whole) + 1, 40):
        path.write_bytes(whole[: min(size, len(whole))])
        bells += sum(isinstance(record, log.Doorbell) for record in tail.read())
    path.write_bytes(whole)
    bells += sum(isinstance(record, log.Doorbell) for record in tail.read())
    assert bells == 5 and tail.capture.complete
    assert tail.capture.names == {0x2000001: "cudaMemcpyAsync"}


def test_the_live_table_and_the_programs_output_above_it(tmp_path):
    pytest.importorskip("rich")
    from rich.console import Console  # noqa: PLC0415

    from denizen.lens.live import LiveTable  # noqa: PLC0415

    (tmp_path / "a.1.lens").write_bytes(example(graphs=2).bytes)
    with open(tmp_path / "screen", "w+", encoding="utf-8") as file:
        console = Console(file=file, force_terminal=False, width=120)
        with LiveTable(tmp_path, console) as table:
            os.write(table.output, b"one line\npart")
            table.update()
            shown = table.render()
            for _ in range(200):  # ends: the relay has printed the line
                file.flush()
                if "one line" in Path(file.name).read_text():
                    break
                time.sleep(0.02)
        file.flush()
        assert Path(file.name).read_text().startswith("one line\npart\n")
    console = Console(width=120, record=True, quiet=True)
    with console.capture() as captured:
        console.quiet = False
        console.print(shown)
    assert "2 doorbells, 64 bytes" in captured.get()
    assert "cudaMemcpyAsync" in captured.get()

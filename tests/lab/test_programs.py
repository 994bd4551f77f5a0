# SPDX-License-Identifier: Apache-2.0
"""Running a benchmark program: what it may print, and what happens when it misbehaves."""

import json
import logging
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from denizen import terminal
from denizen.ab import profiled
from denizen.lab import bench, driver, programs
from denizen.lab.record import LabError

CASE = {"case": "ask", "unit": "us", "samples": [1.0, 2.0], "n": 2, "verified": True}


def script(folder, body, name="bench_fake"):
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_cases_and_environment_are_read(tmp_path):
    lines = [
        {"environment": {"device": "X", "driver": None}},
        {**CASE, "params": {"bytes": 64}, "ratio_base": "raw"},
        {**CASE, "ratio_base": ["a", "b"], "arm": "A/A"},
    ]
    body = "\n".join(f"echo '{json.dumps(line)}'" for line in lines)
    environment, (first, second) = programs.run([script(tmp_path, body)], 10)
    assert environment == {"device": "X", "driver": None}
    assert (first.case, first.params, first.unit, first.n) == ("ask", {"bytes": 64}, "us", 2)
    assert first.samples.tolist() == [1.0, 2.0]
    assert first.verified
    assert (first.ratio_base, first.arm) == (("raw",), "")
    assert (second.ratio_base, second.arm) == (("a", "b"), "A/A")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("hello", "line 1"),
        ("[1]", "not a JSON object"),
        (json.dumps({**CASE, "colour": 1}), '"colour" is not known'),
        (json.dumps({k: v for k, v in CASE.items() if k != "verified"}), '"verified" is missing'),
        (json.dumps({**CASE, "samples": []}), "samples must be"),
        (json.dumps({**CASE, "samples": ["x"]}), "line 1"),
        (json.dumps({**CASE, "verified": 1}), "verified must be"),
        (json.dumps({**CASE, "n": 0}), "n a count"),
        (json.dumps({**CASE, "params": {"a": [1]}}), "params must be"),
        (json.dumps(CASE).replace("2.0", "NaN"), "NaN is no measurement"),
        (json.dumps({"environment": {}}), "printed no case"),
        (json.dumps({"environment": {"clocks": [1]}}), "environment must be"),
        ("", "printed no case"),
    ],
)
def test_wrong_output_is_refused(line, message):
    with pytest.raises(LabError, match=message):
        programs.parse(line, "bench_fake")


def test_failure_tells_the_last_words(tmp_path):
    with pytest.raises(LabError, match=r"exit code 3: no such GPU$"):
        programs.run([script(tmp_path, "echo first >&2; echo no such GPU >&2; exit 3")], 10)
    with pytest.raises(LabError, match="signal SIGSEGV"):
        programs.run([script(tmp_path, "kill -SEGV $$")], 10)
    with pytest.raises(LabError, match="cannot be started"):
        programs.run([str(tmp_path / "none")], 10)


def test_what_it_leaves_out_is_told_and_the_rest_is_logged(tmp_path, caplog):
    said = ["ask (memory mapped)", "NY is left out: no NY.gr", "no vLLM: x.so is not there", "no"]
    case = '{"case": "a", "unit": "us", "samples": [1], "n": 1, "verified": true}'
    body = "".join(f"echo '{line}' >&2; " for line in said) + f"echo '{case}'"
    with terminal.errors() as told, caplog.at_level(logging.INFO, "denizen.lab"):
        programs.run([script(tmp_path, body, "bench_fake")], 10)
    assert told == [f"bench_fake: {line}" for line in said[1:3]]
    logged = [one.getMessage() for one in caplog.records]
    assert logged == [f"bench_fake: {line}" for line in (said[0], said[3])]


def test_a_hanging_program_is_killed_with_its_children(tmp_path):
    children = tmp_path / "child"
    command = script(tmp_path, f"sleep 600 & echo $! > {children}; echo half of it >&2; wait")
    with pytest.raises(LabError, match=r"was stopped after 0\.5 s: half of it$"):
        programs.run([command], 0.5)
    assert_gone(int(children.read_text()))


def test_a_program_ends_with_the_command(tmp_path, monkeypatch):
    children = tmp_path / "child"
    script(tmp_path, f"sleep 600 & echo $! > {children}; wait", "bench_ring")
    monkeypatch.setenv("DENIZEN_BENCH_DIR", str(tmp_path))
    command = [sys.executable, "-m", "denizen", "bench", "ring", "--device", "cpu"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as bench:
        for _ in range(600):
            if children.exists() and children.read_text():
                break
            time.sleep(0.05)
        bench.terminate()
        assert bench.wait(30) == 128 + signal.SIGTERM
    assert_gone(int(children.read_text()))


@pytest.mark.parametrize(
    "run",
    [
        lambda command: programs.run(command, 100),
        lambda command: driver.output(command, Path(), None, 100),
        lambda command: profiled._run(command, "nsys", 100),
    ],
)
def test_a_program_ends_with_a_command_that_ends_as_it_starts(tmp_path, monkeypatch, run):
    started = []

    class Slow(subprocess.Popen):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            started.append(self.pid)
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(subprocess, "Popen", Slow)
    with pytest.raises(KeyboardInterrupt):
        run([script(tmp_path, "sleep 600")])
    assert_gone(started[0])


def assert_gone(process):
    for _ in range(200):  # the kill is delivered at once, the entry goes when init reaps it
        try:
            state = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except FileNotFoundError:
            return
        if state == "Z":
            return
        time.sleep(0.05)
    pytest.fail("the child of a killed benchmark is still running")


def test_programs_are_found_where_they_are_installed(tmp_path, monkeypatch):
    path = script(tmp_path, "exit 0", "bench_ring")
    monkeypatch.setenv("DENIZEN_BENCH_DIR", str(tmp_path))
    assert os.fspath(programs.find("ring")) == path
    with pytest.raises(LabError, match="bench_nothing is in none of"):
        programs.find("nothing")


def test_a_missing_program_is_told_before_the_first_one_runs(tmp_path, monkeypatch):
    ran = tmp_path / "ran"
    script(tmp_path, f"touch {ran}; exit 3", "bench_beside")
    script(tmp_path, "exit 0", "bench_tasks")
    monkeypatch.setenv("DENIZEN_BENCH_DIR", str(tmp_path))
    monkeypatch.setattr(programs.machine, "checkout", lambda: None)
    with pytest.raises(LabError, match="bench_transactions is in none of"):
        bench.run("beside", quick=True)
    assert not ran.exists()

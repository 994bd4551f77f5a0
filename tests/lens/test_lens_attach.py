# SPDX-License-Identifier: Apache-2.0
"""Attaching to a process that runs: the command, with a process that a thread plays.

What the library does is tested where it is built, by attach_test.cpp.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import stream as s

from denizen import cli
from denizen.lens import attach, launch, log

BUILT = Path(__file__).resolve().parents[2] / "build" / "release"
PLAY, LIBRARY = BUILT / "tests" / "lens" / "lens_play", BUILT / "lens" / launch.LIBRARY


@pytest.fixture
def sockets(tmp_path, monkeypatch):
    folder = tmp_path / "sockets"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv(launch.SOCKETS, str(folder))
    return folder


class Process:
    """One that says ``answer`` to an attach, where its log is if None, and then obeys."""

    def __init__(self, folder, answer=None, ends=False):
        self.heard, self._answer, self._ends = [], answer, ends
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / str(os.getpid())))
        self._listener.listen()
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self):
        client, _ = self._listener.accept()
        with client, client.makefile("rw") as line:
            self.heard.append(line.readline())
            path = Path(self.heard[0].split()[2]) / "prog.1.lens"
            made = s.Log("count").thread(7).channel(0).name(0x3000001, "cuLaunchKernel")
            made.submit(0, s.engine_copy(1, 2, 64), api=0x3000001).end().write(path)
            line.write(f"{self._answer or f'attached {path}'}\n")
            line.flush()
            if not self._answer and not self._ends:
                self.heard.append(line.readline())
                line.write("detached\n")


def test_it_is_recorded_for_a_time(sockets, tmp_path, capfd):
    process = Process(sockets)
    lines = tmp_path / "l.jsonl"
    words = ["attach", str(os.getpid()), "--seconds", "0.3", "--mode", "full", "--json", str(lines)]
    begin = time.monotonic()
    assert cli.main(["lens", *words]) == 0
    assert time.monotonic() - begin >= 0.3
    process.thread.join(10)
    assert process.heard[0].startswith("attach full /") and process.heard[1] == "detach\n"
    assert "cuLaunchKernel" in capfd.readouterr().err
    (line,) = lines.read_text().splitlines()
    assert json.loads(line)["api"] == "cuLaunchKernel"


def test_it_ends_with_the_process(sockets, capfd):
    Process(sockets, ends=True)
    assert cli.main(["lens", "attach", str(os.getpid())]) == 0
    assert "1 doorbells" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ("error somebody else is attached to it", "attached to: somebody else is attached to it"),
        (" ", "attached to: it has ended"),
    ],
)
def test_a_refusal_is_told(sockets, capfd, answer, told):
    Process(sockets, answer)
    assert cli.main(["lens", "attach", str(os.getpid())]) == 1
    assert told in capfd.readouterr().err


def test_who_does_not_answer_is_told_as_that(sockets, capfd, monkeypatch):
    monkeypatch.setattr(attach, "_PATIENCE", 0.1)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(sockets / str(os.getpid())))
        listener.listen()
        assert cli.main(["lens", "attach", str(os.getpid())]) == 1
    told = capfd.readouterr().err
    assert f"process {os.getpid()} has not answered in 0.1 s; is it stopped?" in told


def test_who_cannot_be_attached_to(sockets, capfd):
    assert cli.main(["lens", "attach", str(os.getpid())]) == 1
    told = capfd.readouterr().err
    assert "has no sleeping lens" in told and "attached to: none" in told
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    assert cli.main(["lens", "attach", str(gone.pid)]) == 1
    assert f"there is no process {gone.pid}" in capfd.readouterr().err
    for pid in (gone.pid, os.getpid()):
        (sockets / str(pid)).touch()
    assert attach.waiting() == [os.getpid()]
    sockets.chmod(0o755)
    assert cli.main(["lens", "attach", "12"]) == 1
    assert "must be a folder of your own with mode 700" in capfd.readouterr().err


def test_asleep_it_takes_no_files(capfd):
    for option in (["--mode", "full"], ["-o", "x.lens"], ["--cupti"]):
        with pytest.raises(SystemExit):
            cli.main(["lens", "--sleep", *option, "--", "true"])
        assert "give --mode and the files to attach" in capfd.readouterr().err
    assert cli.main(["lens", "--sleep"]) == 1
    assert "no program was given" in capfd.readouterr().err


@pytest.mark.skipif(not (PLAY.exists() and LIBRARY.exists()), reason="lens_play is not built")
def test_a_process_on_a_played_driver(sockets, tmp_path):
    """The commands from start to end: a process that sleeps, two attaches, Ctrl-C in the second."""
    for name in ("nvidiactl", "nvidia0"):
        (tmp_path / name).touch()
    module = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build\n"
    (tmp_path / "version").write_text(module)
    logs = tmp_path / "logs"
    logs.mkdir()
    environment = os.environ | {
        "DENIZEN_LENS_LIBRARY": str(LIBRARY),
        "DENIZEN_LENS_FAKE": str(tmp_path),
        "TMPDIR": str(logs),
    }
    lens = [sys.executable, "-m", "denizen", "lens"]
    process = subprocess.Popen(
        [*lens, "--sleep", "--", str(PLAY), "until told", "2"],
        env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    try:
        assert process.stdout.readline() == "ringing\n"
        kept = [tmp_path / "a.lens", tmp_path / "b.lens"]
        words = ["attach", str(process.pid), "--mode", "full", "-o"]
        first = subprocess.run(
            [*lens, *words, str(kept[0]), "--seconds", "0.2"],
            env=environment, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert first.returncode == 0 and "fake_ring" in first.stderr, first.stderr
        assert "GPFIFO in device memory (2 channels)" in first.stderr
        assert "pushbuffer in system memory" in first.stderr
        second = subprocess.Popen(
            [*lens, *words, str(kept[1])], env=environment, stderr=subprocess.PIPE, text=True
        )
        while not any(path.stat().st_size > 4000 for path in logs.glob("denizen-lens-*/*.lens")):
            assert second.poll() is None
            time.sleep(0.02)
        second.send_signal(signal.SIGINT)
        assert "fake_ring" in second.communicate(timeout=60)[1] and second.returncode == 0
    finally:
        out, told = process.communicate("", timeout=60)
    assert process.returncode == 0
    assert told == f"denizen: process {process.pid}: denizen lens attach {process.pid}\n"
    sent = [int(line) for line in out.split()]
    last = [0, 0]
    for path in kept:
        capture = log.read(path)
        assert capture.complete and capture.end.doorbells == len(capture.submissions) > 0
        for number in (0, 1):
            of = [c for c in capture.submissions if c.doorbell.channel == number]
            firsts = [int(words[0]) for c in of for words in c.segments]
            assert firsts == list(range(firsts[0], firsts[0] + len(firsts)))  # none is missing
            assert last[number] < firsts[0] and firsts[-1] < sent[number]
            last[number] = firsts[-1]

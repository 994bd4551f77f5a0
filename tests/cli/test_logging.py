# SPDX-License-Identifier: Apache-2.0
"""The package logs under the name denizen, silently unless somebody listens; commands show it."""

import logging
import os
import pty
import subprocess
import sys

import denizen
from denizen import cli, terminal


def program(actor="A"):
    tick = denizen.message("Tick")
    text = f"struct {actor} {{ void on(const Tick&) {{}} }};"
    return denizen.Program(text, actors=[actor], messages=[tick], name="quiet.hpp")


def test_what_is_logged(caplog, monkeypatch, tmp_path):
    monkeypatch.setenv("DENIZEN_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with (
        caplog.at_level(logging.INFO, "denizen"),
        denizen.Runtime(program("Unseen"), "cpu:1") as rt,
    ):
        rt.save(tmp_path / "state.dzs")
    text = "\n".join(f"{r.name}: {r.getMessage()}" for r in caplog.records)
    assert "denizen.compilers: compiling quiet.hpp for the CPU" in text
    assert "denizen.compilers: compiled quiet.hpp in " in text
    assert "denizen.runtime: quiet.hpp runs on CPU, 1 workers, started in " in text
    assert "denizen.snapshot: saved to " in text
    assert "denizen.runtime: quiet.hpp is closing" in text


def test_nobody_listens(capfd):
    with denizen.Runtime(program(), "cpu:1"):
        pass
    assert capfd.readouterr() == ("", "")


def test_a_command_tells_if_it_is_told_to(tmp_path):
    log = tmp_path / "log.csv"
    cli.main(["run", "procmine", str(log), "--generate", "500"])
    words = ["run", "procmine", str(log), "--stream", "--device", "cpu:1"]
    command = [sys.executable, "-m", "denizen"]
    quiet = subprocess.run([*command, *words], capture_output=True, text=True, check=True)
    assert "denizen.runtime" not in quiet.stderr
    told = subprocess.run([*command, "-v", *words], capture_output=True, text=True, check=True)
    assert "ms  denizen.runtime:" in told.stderr
    assert told.stdout.split("verified")[1][:8] == quiet.stdout.split("verified")[1][:8]


def test_lens_has_its_own_words_behind_it(tmp_path, capsys):
    assert cli.main(["-v", "lens", "show", str(tmp_path / "none.lens")]) != 0
    assert "none.lens" in capsys.readouterr().err


def test_on_a_terminal_one_sees_what_is_compiled(monkeypatch):
    """The moving line, on a terminal of the test's own; nothing of it stays."""
    ours, theirs = pty.openpty()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", os.fdopen(theirs, "w"))
    monkeypatch.setattr(terminal, "_TURN", 0.01)
    logger = logging.getLogger("denizen.compilers")
    monkeypatch.setattr(logging.getLogger("denizen"), "level", logging.INFO)
    monkeypatch.setattr(logging.getLogger("denizen"), "handlers", [])  # as without -v
    logging.getLogger("denizen").manager._clear_cache()
    seen = ""
    with terminal.working("reading") as tell:
        while "reading" not in seen:  # ends: the line is drawn every hundredth of a second
            seen += os.read(ours, 4096).decode()
        logger.info("compiling the kernels")
        while "compiling the kernels" not in seen:  # ends: so is what has been logged
            seen += os.read(ours, 4096).decode()
        logging.getLogger("denizen.lab.cluster").info("failures under load")
        while "failures under load" not in seen:  # ends: and a part of an experiment
            seen += os.read(ours, 4096).decode()
        terminal.error("one is left out")
        while "left out\r\n" not in seen:  # ends: it is printed at once
            seen += os.read(ours, 4096).decode()
        assert "\r\x1b[2Kdenizen: one is left out\r\n" in seen
        tell("searching")
        while "searching" not in seen:  # ends: and what is told
            seen += os.read(ours, 4096).decode()
    last = os.read(ours, 1 << 16).decode()
    assert last.endswith("\r\x1b[2K")
    sys.stderr.close()
    os.close(ours)

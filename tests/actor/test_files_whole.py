# SPDX-License-Identifier: Apache-2.0
"""What the package leaves as a file is there whole, or not at all, whatever the disk does."""

import os
import resource
import stat
import threading

import numpy as np
import pytest

import denizen
from denizen import files, iq, procmine, wave
from denizen.apps.procmine.command import generate
from denizen.apps.transactions import load, records
from denizen.apps.wave import movie
from denizen.cli import main

OLD = b"what was there before"
NOISE = np.random.default_rng(1).random(9999)
LOUD = [np.sin(np.arange(60_000.0)) for _ in range(2)]


@pytest.fixture
def full_disk():
    """No file grows beyond 8 KiB: writing fails as on a full disk, by EFBIG."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def samples(path):
    rate = None if path.endswith(".u8") else 48_000
    with iq.create(path, form="u8", rate=rate) as sink:
        for _ in range(50):
            sink.write_bytes(bytes(1000))


def gif(path):
    pytest.importorskip("PIL")
    noise = np.random.default_rng(1).integers(0, 255, (8, 100, 100, 3), np.uint8)
    movie.write(type(path)(path), list(noise))


WRITERS = {
    "text.html": lambda path: files.write_text(path, "x" * 100_000),
    "arrays.npz": lambda path: files.write_arrays(
        path, noise=np.random.default_rng(1).random(9999)
    ),
    "heard.wav": lambda path: wave.write_wav(path, LOUD, 1e-5),
    "heard.csv": lambda path: wave.write_csv(path, LOUD, 1e-5),
    "samples.u8": lambda path: samples(str(path)),
    "samples.wav": lambda path: samples(str(path)),
    "samples.sigmf-data": lambda path: samples(str(path)),
    "log.csv": lambda path: generate(path, 5000, 1),
    "reference.json": lambda path: procmine.Reference.of(
        [(f"a{i}", f"b{i}") for i in range(2000)], ["a"], ["b"]
    ).write(path),
    "customers.csv": lambda path: load.write(str(path), np.zeros(3000, records.TRANSACTION)),
    "customers.bin": lambda path: load.write(str(path), np.zeros(3000, records.TRANSACTION)),
    "film.gif": gif,
}


@pytest.mark.parametrize("name", WRITERS)
def test_on_a_full_disk_what_was_there_stays(tmp_path, full_disk, name):
    path = tmp_path / name
    for before in None, OLD:
        if before is not None:
            path.write_bytes(before)
        with pytest.raises((OSError, denizen.errors.DataError)) as caught:
            WRITERS[name](path)
        told = getattr(caught.value, "filename", None) or str(caught.value)
        assert str(path) in told
        assert [p.name for p in tmp_path.iterdir()] == ([] if before is None else [name])
        assert before is None or path.read_bytes() == before


@pytest.mark.parametrize("name", WRITERS)
def test_a_file_that_exists_is_replaced(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(OLD)
    path.chmod(0o640)
    WRITERS[name](path)
    assert path.stat().st_size > 8192
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    left = {p.name for p in tmp_path.iterdir()} - {name, "samples.sigmf-meta"}
    assert left == set()


def test_the_command_names_the_file(tmp_path, full_disk, capsys):
    path = tmp_path / "last.npz"
    words = ["run", "wave", "--size", "32", "--steps", "60", "--device", "cpu:1"]
    assert main([*words, "--save", str(path)]) == 1
    assert capsys.readouterr().err == f"denizen: {path}: File too large\n"
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_leaves_nothing(tmp_path):
    path = tmp_path / "out"
    path.write_bytes(OLD)
    with pytest.raises(KeyboardInterrupt), files.whole(path) as part:
        with open(part, "w") as file:
            file.write("half of it")
        raise KeyboardInterrupt
    assert path.read_bytes() == OLD
    assert list(tmp_path.iterdir()) == [path]


def test_errors_of_other_files_are_left_alone(tmp_path):
    missing = tmp_path / "missing"
    with pytest.raises(FileNotFoundError) as caught, files.whole(tmp_path / "out"):
        missing.read_bytes()
    assert caught.value.filename == str(missing)


def test_a_link_stays_one(tmp_path):
    (tmp_path / "there").write_bytes(OLD)
    link = tmp_path / "link"
    link.symlink_to("there")
    files.write_text(link, "new")
    assert link.is_symlink()
    assert (tmp_path / "there").read_text() == "new"


def test_a_new_file_has_the_mode_of_any_other(tmp_path):
    before = os.umask(0o027)
    try:
        files.write_text(tmp_path / "new", "text")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640


def test_a_place_that_there_is_not_is_named(tmp_path):
    path = tmp_path / "no" / "such"
    with pytest.raises(FileNotFoundError) as caught:
        files.write_text(path, "text")
    assert caught.value.filename == str(path)


def test_devices_and_fifos_are_written_to(tmp_path):
    files.write_text("/dev/null", "text")
    wave.write_wav("/dev/null", LOUD, 1e-5)
    files.write_arrays("/dev/null", one=np.ones(3))
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    got = []
    reader = threading.Thread(target=lambda: got.append(fifo.read_bytes()))
    reader.start()
    files.write_text(fifo, "text")
    reader.join()
    assert got == [b"text"]
    assert list(tmp_path.iterdir()) == [fifo]


def test_text_that_is_no_utf8_is_told_all_the_same(tmp_path, capsys):
    path = tmp_path / "graph.gr"
    path.write_bytes(b"p \xff\xfe 2 1\n")
    assert main(["run", "bfs", str(path), "--source", "0", "--device", "cpu:1"]) != 0
    err = capsys.readouterr().err
    assert err.startswith("denizen: ")
    assert "Traceback" not in err
    assert r"\xff\xfe" in err

# SPDX-License-Identifier: Apache-2.0
"""The command ``denizen run wave``: its files, its film, and the page that steers."""

import json
import re
import shutil
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
import wave as riff

import numpy as np
import pytest

import denizen
from denizen import cli, wave
from denizen.apps.wave import live, movie, words

SMALL = ["run", "wave", "--size", "8x12x16", "--device", "cpu:1"]


def test_what_receivers_heard_and_the_field(tmp_path, capsys):
    out, field = tmp_path / "heard.csv", tmp_path / "field.npz"
    receivers = ["--receiver", "4,6,8", "--receiver", "1,1,1"]
    source = ["--source", "sine:120*0.5@4,6,4", "--steps", "40", "--boundary", "periodic"]
    assert cli.main([*SMALL, *source, *receivers, "-o", str(out), "--save", str(field)]) == 0
    told = capsys.readouterr().out
    assert "40 steps of 2 receivers" in told and "Courant number" in told
    room = wave.Simulation((8, 12, 16), boundary="periodic", device="cpu:1")
    room.add_source(wave.Sine(120, 0.5), (4, 6, 4))
    ear = room.add_receiver((4, 6, 8))
    room.run(40)
    heard = np.genfromtxt(out, delimiter=",", names=True)
    np.testing.assert_allclose(heard["receiver_0"], room.trace(ear), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(heard["seconds"], (np.arange(40) + 1) * room.dt)
    with np.load(field) as arrays:
        np.testing.assert_allclose(arrays["pressure"], room.pressure)


def test_slabs_and_passes_come_to_the_same(tmp_path, capsys):
    fields = []
    for device, method in (("cpu:1", "threads"), ("cpu:2x1", "threads"), ("cpu:2x1", "pass4")):
        out = tmp_path / f"field{len(fields)}.npz"
        words = ["--device", device, "--method", method, "--steps", "30", "--save", str(out)]
        assert cli.main(["run", "wave", "--size", "8x12x16", *words]) == 0
        assert ("in 2 slabs" in capsys.readouterr().out) == (device == "cpu:2x1")
        with np.load(out) as arrays:
            fields.append(arrays["pressure"])
    assert np.abs(fields[0]).max() > 0
    for field in fields[1:]:
        np.testing.assert_allclose(field, fields[0], atol=1e-6)


def test_a_recording_is_played_and_recorded(tmp_path, capsys):
    played, out = tmp_path / "in.wav", tmp_path / "out.wav"
    signal = np.sin(np.arange(400) * 0.2)
    for width, full in ((2, 32767), (1, 127)):
        with riff.open(str(played), "wb") as file:
            file.setparams((1, width, 3430, 0, "NONE", ""))
            whole = np.rint(signal * full)
            data = (whole + 128).astype("u1") if width == 1 else whole.astype("<i2")
            file.writeframes(data.tobytes())
        read = wave.read_wav(played)
        assert read.rate == 3430
        np.testing.assert_allclose(read.values, signal, atol=1.5 / full)
    # The rate of the steps: each adds one sample.
    arguments = [
        "--dt",
        str(1 / 3430),
        "--spacing",
        "0.2",
        "--steps",
        "200",
        "--source",
        f"wav:{played}@4,6,8",
    ]
    assert cli.main([*SMALL, *arguments, "--receiver", "4,6,8", "-o", str(out)]) == 0
    assert "full scale" in capsys.readouterr().out
    with riff.open(str(out), "rb") as file:
        assert file.getparams()[:4] == (1, 2, 3430, 200)
        heard = np.frombuffer(file.readframes(200), "<i2")
    assert np.abs(heard.astype(int)).max() == 32767


def test_masks(tmp_path, capsys):
    mask = tmp_path / "mask.npy"
    np.save(mask, np.zeros((6, 7, 8), bool))
    assert cli.main(["run", "wave", "--mask", str(mask), "--steps", "5", "--device", "cpu:1"]) == 0
    assert "6 x 7 x 8 cells" in capsys.readouterr().out
    walls = np.zeros((6, 7, 8), bool)
    walls[0, 0, 0] = True
    np.save(mask, walls)
    assert wave.read_mask(mask)[0, 0, 0] == 2 and wave.read_mask(mask).sum() == 2
    for bad in (np.zeros((6, 7)), np.zeros((6, 7, 8)), np.full((6, 7, 8), 4)):
        np.save(mask, bad)
        with pytest.raises(denizen.ArgumentError, match=r"mask\.npy"):
            wave.read_mask(mask)
    mask.write_bytes(b"no array")
    with pytest.raises(denizen.ArgumentError, match=r"mask\.npy"):
        wave.read_mask(mask)


def test_a_film(tmp_path, capsys):
    image = pytest.importorskip("PIL.Image")
    out = tmp_path / "film.gif"
    assert cli.main([*SMALL, "--steps", "30", "--movie", str(out), "--axis", "y"]) == 0
    assert "30 frames" in capsys.readouterr().out
    with image.open(out) as film:
        assert film.n_frames > 10  # equal ones in a row become one
        assert film.size == (16 * 16, 8 * 16)
        film.seek(film.n_frames - 1)
        assert len(film.convert("RGB").getcolors()) > 3


def test_a_film_by_ffmpeg(tmp_path, capsys, monkeypatch):
    ffmpeg = pytest.importorskip("imageio_ffmpeg")
    folder = tmp_path / "bin"
    folder.mkdir()
    out = tmp_path / "film.mp4"
    monkeypatch.setenv("PATH", str(folder))
    assert cli.main([*SMALL, "--movie", str(out)]) == 2
    assert "the program ffmpeg is not installed; write a .gif" in capsys.readouterr().err
    (folder / "ffmpeg").symlink_to(ffmpeg.get_ffmpeg_exe())
    assert cli.main([*SMALL, "--steps", "30", "--movie", str(out), "--axis", "y"]) == 0
    assert "30 frames" in capsys.readouterr().out
    about, *frames = ffmpeg.read_frames(str(out))
    assert about["codec"] == "h264" and about["size"] == (16 * 16, 8 * 16)
    assert len(frames) == 30
    first, last = (np.frombuffer(frames[i], np.uint8).reshape(128, 256, 3) for i in (0, -1))
    assert first.std() < last.std()  # the wave has spread
    whole = out.read_bytes()
    (folder / "ffmpeg").unlink()
    (folder / "ffmpeg").write_text("#!/bin/sh\necho no room >&2\nexit 1\n")
    (folder / "ffmpeg").chmod(0o755)
    assert cli.main([*SMALL, "--movie", str(out)]) == 2
    assert "ffmpeg says no room" in capsys.readouterr().err
    assert out.read_bytes() == whole


def test_colours_and_solid_cells():
    values = np.array([[-1.0, 0.0, 1.0]])
    seen = movie.picture(values, 1.0, np.array([[False, False, False]]))
    left, middle, right = seen[0, 0], seen[0, seen.shape[1] // 2], seen[0, -1]
    assert left[2] > left[0] and right[0] > right[2] and middle.min() > 240
    solid = movie.picture(values, 1.0, np.array([[True, False, False]]))
    assert (solid[0, 0] == 70).all()


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--size", "3"], "shape"),
        (["--size", "8x8"], "size"),
        (["--dt", "1"], "not stable"),
        (["--source", "bang@1,1,1"], "source"),
        (["--source", "ricker:loud@1,1,1"], "source"),
        (["--source", "impulse@1,1"], "place"),
        (["--source", "impulse@64,0,0"], "outside"),
        (["--source", "wav:/no/such.wav@1,1,1"], "no/such"),
        (["-o", "heard.wav"], "nobody listens"),
        (["-o", "heard.mp3", "--receiver", "1,1,1"], "heard.mp3"),
        (["--movie", "film.avi"], "film"),
        (["--at", "8"], "--at 8"),
        (["--boundary", "soft"], "boundary"),
        (["--method", "graph"], "graph"),
        (["--movie", "a.gif", "--live"], "not both"),
    ],
)
def test_what_is_refused(arguments, why, capsys):
    if "a.gif" in arguments:
        pytest.importorskip("PIL")
    assert cli.main([*SMALL, *arguments]) == 2
    assert why in capsys.readouterr().err


def test_words():
    assert words.source("impulse*0.5@1,2,3") == (wave.Impulse(0.5), (1, 2, 3))
    assert words.source("ricker:200@1,2,3") == (wave.Ricker(200.0), (1, 2, 3))
    assert words.boundary("absorbing,periodic,reflecting")[1] == "periodic"
    assert words.size("5") == (5, 5, 5)


@pytest.fixture
def page():
    cells = np.zeros((8, 12, 16), np.uint8)
    cells[4, 0, 3] = 2
    room = wave.Simulation((8, 12, 16), boundary="absorbing", cells=cells, device="cpu:1")
    room.add_source(wave.Sine(200.0), (4, 6, 8))
    with room.start(1 << 24) as run:
        served = live.Live(room, run, 0, 4, frequency=300.0, port=0, damping=2.5, cells=cells)
        try:
            yield served
        finally:
            served.close()


def send(url, words=None, **headers):
    data = None if words is None else json.dumps(words).encode()
    if data is not None:
        headers = {"Content-Type": "application/json"} | headers
    return urllib.request.urlopen(urllib.request.Request(url, data, headers), timeout=10)


def test_the_page_shows_and_steers(page):
    with send(page.url) as answer:
        assert b"<canvas" in answer.read()
    with send(page.url + "slice") as answer:
        first = int(answer.headers["X-Step"])
        assert (answer.headers["X-Rows"], answer.headers["X-Columns"]) == ("12", "16")
        assert np.frombuffer(answer.read(), "<f4").size == 12 * 16

    def order(**words):
        with send(page.url + "command", words) as answer:
            return json.load(answer)["step"]

    steps = [
        order(do="source", row=2, column=3),
        order(do="obstacle", row=6, column=3),
        order(do="obstacle", row=6, column=12),
        order(do="damping", value=20),
        order(do="pause"),
    ]
    assert steps == sorted(steps) and steps[0] >= first
    with send(page.url + "slice") as answer:
        assert int(answer.headers["X-Step"]) == steps[-1]
        field = np.frombuffer(answer.read(), "<f4").reshape(12, 16)
    assert field[6, 12] == 0 and np.abs(field).max() > 0  # the block is there
    assert order(do="resume") == steps[-1]
    order(do="end")
    assert page.ended.is_set()


def test_the_page_says_what_it_begins_with_and_loads_nothing(page):
    with send(page.url) as answer:
        text = answer.read().decode()
    assert not re.search(r"""(src|href)=["']|@import|url\(""", text)
    assert '"damping": 2.5' in text and '"pace": 0.0' in text and '"grid": [8, 12, 16]' in text
    assert 'name="viewport"' in text and "prefers-color-scheme: dark" in text


def test_the_page_shows_what_is_solid(page):
    def walls():
        with send(page.url + "walls") as answer:
            cells = np.frombuffer(answer.read(), np.uint8).reshape(12, 16)
            return int(answer.headers["X-Walls"]), cells

    version, cells = walls()
    assert cells.sum() == 1 and cells[0, 3] == 1  # of the mask
    with send(page.url + "command", {"do": "obstacle", "row": 6, "column": 8}):
        pass
    later, cells = walls()
    assert later > version and cells[6, 8] == 1 and cells[0, 3] == 1
    with send(page.url + "slice") as answer:
        assert int(answer.headers["X-Walls"]) == later


def test_a_run_is_paced(page):
    def order(**words):
        with send(page.url + "command", words) as answer:
            return json.load(answer)["step"]

    begin = order(do="pace", value=1e-6)  # a step in eleven days: it stands
    time.sleep(0.1)
    assert order(do="pace", value=1e-6) == begin
    order(do="pace", value=1000)
    deadline = time.monotonic() + 20
    while order(do="damping", value=0) < begin + 20 and time.monotonic() < deadline:
        time.sleep(0.01)
    paused = order(do="pause")
    assert paused >= begin + 20
    time.sleep(0.1)
    assert order(do="damping", value=0) == paused
    order(do="pace", value=0)  # it stays paused
    assert order(do="damping", value=0) == paused
    order(do="resume")
    while order(do="damping", value=0) < paused + 20 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert order(do="damping", value=0) >= paused + 20
    with pytest.raises(urllib.error.HTTPError) as refused:
        order(do="pace", value=-1)
    refused.value.close()


def test_a_pacer_asks_for_as_many_steps_as_have_become_due(monkeypatch):
    told = []

    class Run:
        step = 100

        def pause(self):
            return self.step

        def resume(self, until=None):
            told.append(until)
            if len(told) == 12:
                done.set()
            # It keeps up for some turns, then stands.
            self.step = max(self.step, until) if len(told) < 6 else self.step
            return self.step

    done = threading.Event()
    monkeypatch.setattr(live, "_TURN", 0.01)
    pacer = live.Pacer(Run(), 200.0)
    assert done.wait(20)
    pacer.close()
    assert told[:6] == [102, 104, 106, 108, 110, 112]
    assert max(told) <= 112 + 2 + 200 * live._MOST_BEHIND + 2  # who stands is not hurried on


def test_the_page_is_for_this_machine_alone(page):
    for url, sent, headers, status in (
        (page.url, None, {"Host": "example.org:80"}, 403),
        (page.url + "secret", None, {}, 404),
        (page.url + "command", {"do": "pause"}, {"Content-Type": "text/plain"}, 403),
        (page.url + "command", {"do": "pause"}, {"Host": "example.org"}, 403),
        (page.url + "command", {"do": "fly"}, {}, 400),
        (page.url + "command", {"do": "source", "row": 99, "column": 0}, {}, 400),
        (page.url + "command", {"do": "source"}, {}, 400),
    ):
        with pytest.raises(urllib.error.HTTPError) as refused:
            send(url, sent, **headers)
        assert refused.value.code == status
        refused.value.close()


@pytest.mark.parametrize(
    ("headers", "body", "status"),
    [
        (["Content-Length: -1"], b"x", 411),
        (["Content-Length: abc"], b"{}", 411),
        (["Content-Length: 6000000"], b"{}", 413),
        (["Content-Length: 60000"], b"[" * 60000, 400),
        (["Content-Length: 43"], b'{"do": "source", "row": 1e400, "column": 1}', 400),
        (["Content-Length: 34"], b'{"do": "damping", "value": 1e400} ', 400),
        (["Content-Length: 15", "Origin: http://example.org"], b'{"do": "pause"}', 403),
    ],
)
def test_what_a_stranger_posts(page, capfd, headers, body, status):
    host, port = page.url.removeprefix("http://").rstrip("/").split(":")
    head = ["POST /command HTTP/1.0", "Host: localhost", "Content-Type: application/json"]
    with socket.create_connection((host, int(port)), timeout=10) as line:
        line.sendall("\r\n".join([*head, *headers, "", ""]).encode() + body)
        assert line.recv(100).startswith(f"HTTP/1.0 {status} ".encode())
    assert capfd.readouterr() == ("", "")
    with send(page.url + "slice") as answer:
        assert answer.status == 200


def test_the_command_serves_a_page_until_it_is_ended(capsys):
    status = []
    thread = threading.Thread(target=lambda: status.append(cli.main([*SMALL, "--live"])))
    thread.start()
    text, deadline = "", time.monotonic() + 20
    while "http://" not in text and time.monotonic() < deadline:
        time.sleep(0.05)
        text += capsys.readouterr().out
    url = text.split(": the slice")[0].strip()
    with send(url + "command", {"do": "end"}) as answer:
        assert "step" in json.load(answer)
    thread.join(20)
    assert status == [0]


@pytest.mark.deep
def test_the_page_draws_in_a_browser(page, tmp_path):
    browser = next(filter(None, map(shutil.which, ("chromium", "google-chrome", "chrome"))), None)
    if browser is None:
        pytest.skip("no chromium: make system-deep installs it")
    done = subprocess.run(
        [browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}",
         "--virtual-time-budget=3000", "--dump-dom", page.url],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert 'data-step="' in done.stdout and 'data-cells="16 x 12"' in done.stdout
    assert re.search(r'id="low">\u2212\d', done.stdout)  # the legend

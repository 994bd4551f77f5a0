# SPDX-License-Identifier: Apache-2.0
"""Every page that a command writes: one style, nothing from a network; in a browser no error, and
nothing that is wider than a phone."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from denizen import cli, style

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("tour", "process", "aircraft", "capture", "experiment", "figures")


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Each page, made by its command of small data."""
    folder = tmp_path_factory.mktemp("pages")

    def made(name, *words):
        assert cli.main([str(word) for word in words]) == 0, name
        return folder / f"{name}.html"

    log, signal = folder / "log.csv", folder / "made.bin"
    cli.main(["run", "procmine", str(log), "--generate", "2000"])
    cli.main(["run", "adsb", str(signal), "--generate", "--seconds", "2"])
    capture = ROOT / "tests/lens/captures/h100-580.159.04-small.lens.gz"
    measured = ROOT / "benchmarks/results/ab/allreduce/nvidia-h200.json"
    tour = ["tour", "--device", "cpu:2", "--only", "log", "--only", "roads", "--only", "aircraft"]
    return {
        "tour": made("tour", *tour, "--only", "broadcast", "-o", folder / "tour.html"),
        "process": made("process", "run", "procmine", log, "--html", folder / "process.html"),
        "aircraft": made("aircraft", "run", "adsb", signal, "--map", folder / "aircraft.html"),
        "capture": made("capture", "lens", "report", capture, "-o", folder / "capture.html"),
        "experiment": made(
            "experiment", "ab", "report", measured, "-o", folder / "experiment.html"
        ),
        "figures": made(
            "figures",
            "bench",
            "report",
            "--results",
            ROOT / "benchmarks/results",
            "-o",
            folder / "figures.html",
        ),
    }


@pytest.mark.parametrize("name", PAGES)
def test_a_page_has_the_style_and_stands_by_itself(pages, name):
    text = pages[name].read_text("utf-8")
    assert style.sheet() in text
    assert 'name="viewport"' in text
    for target in re.findall(r"""(?:src|href)=["']([^"']+)""", text):
        assert target.startswith(("#", "data:")), target
    assert "@import" not in text and "url(http" not in text
    assert not re.search(r"(?<![\w.])@[a-z]+@", text)  # every part has been filled in


def browsed(page, width):
    """The document after its scripts, in a window of that width, of 500 pixels at least."""
    browser = next(filter(None, map(shutil.which, ("chromium", "google-chrome", "chrome"))), None)
    if browser is None:
        pytest.skip("no chromium: make system-deep installs it")
    return subprocess.run(
        [browser, "--headless", "--no-sandbox", "--disable-gpu",
         f"--user-data-dir={page.parent}/user", f"--window-size={width},800",
         "--enable-logging=stderr", "--virtual-time-budget=4000", "--dump-dom", f"file://{page}"],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip


def test_calls_that_nobody_counted_have_no_columns(pages):
    """They were two columns of dashes, which on a phone hid the rest."""
    text = pages["capture"].read_text("utf-8")
    head = re.findall("<th>([^<]*)</th>", text)
    assert head[:4] == ["API", "doorbells", "entries", "bytes"]
    for row in re.findall("<tr><td>cu.*?</tr>", text):
        assert row.count("<td") == len(head[: head.index("engines") + 1]), row


@pytest.mark.deep
def test_names_of_aircraft_are_on_the_screen_and_apart(pages):
    document = browsed(pages["aircraft"], 500).stdout
    names = [
        (dict(re.findall(r'([\w-]+)="([^"]*)"', attributes)), name)
        for attributes, name in re.findall(r'<text class="name"([^>]*)>([^<]+)<', document)
    ]
    boxes = []
    for of, name in names:
        width = 7 * len(name)
        left = float(of["x"]) - (width if of["text-anchor"] == "end" else 0)
        assert left >= 0 and left + width <= 500, name
        boxes.append((left, left + width, float(of["y"])))
    assert len(boxes) >= 8
    for i, (left, right, y) in enumerate(boxes):
        for other_left, other_right, other_y in boxes[:i]:
            apart = left >= other_right or right <= other_left or abs(y - other_y) > 10
            assert apart, (left, right, y)


@pytest.mark.deep
@pytest.mark.parametrize("width", [390, 1200])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_in_a_browser(pages, name, width, tmp_path):
    text = pages[name].read_text("utf-8")
    # In a frame: a headless window is never as narrow as a phone.
    (tmp_path / "page.html").write_text(
        text.replace(
            "</body>",
            "<script>addEventListener('load', () => parent.postMessage("
            "document.documentElement.scrollWidth - innerWidth, '*'));</script></body>",
        )
    )
    (tmp_path / "frame.html").write_text(
        f"<body><iframe src='page.html' width={width} height=800></iframe><script>"
        "addEventListener('message', e => { document.body.dataset.over = e.data; });"
        "</script></body>"
    )
    done = browsed(tmp_path / "frame.html", 1200)
    assert "CONSOLE" not in done.stderr, done.stderr
    over = re.search(r'data-over="(-?\d+)"', done.stdout)
    assert over is not None
    assert int(over[1]) <= 0, f"{over[1]} pixels wider than {width}"


# What is drawn, as against a broken image's mark: it has been decoded, and has a place on the page.
_SHOWN = """<script>addEventListener('load', () => {
  const shown = [...document.images].filter(one => one.complete && one.naturalWidth > 0
    && one.getBoundingClientRect().width > 100 && one.getBoundingClientRect().height > 100);
  document.body.dataset.shown = shown.length;
});</script></body>"""


@pytest.mark.deep
def test_each_picture_of_the_figures_is_shown(pages, tmp_path):
    text = pages["figures"].read_text("utf-8")
    count = text.count("<img ")
    assert count > 50

    def shown(page):
        (tmp_path / "page.html").write_text(page.replace("</body>", _SHOWN), "utf-8")
        document = browsed(tmp_path / "page.html", 1200).stdout
        return int(re.search(r'data-shown="(\d+)"', document)[1])

    assert shown(text) == count
    broken = text.replace("data:image/svg+xml;base64,", "data:image/svg+xml;base64,AAAA", 1)
    assert shown(broken) == count - 1

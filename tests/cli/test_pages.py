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
PAGES = ("tour", "process", "aircraft", "capture", "experiment")


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


@pytest.mark.deep
@pytest.mark.parametrize("width", [390, 1200])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_in_a_browser(pages, name, width, tmp_path):
    browser = next(filter(None, map(shutil.which, ("chromium", "google-chrome", "chrome"))), None)
    if browser is None:
        pytest.skip("no chromium: make system-deep installs it")
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
    done = subprocess.run(
        [browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}/user",
         "--enable-logging=stderr", "--virtual-time-budget=4000", "--dump-dom",
         f"file://{tmp_path}/frame.html"],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert "CONSOLE" not in done.stderr, done.stderr
    over = re.search(r'data-over="(-?\d+)"', done.stdout)
    assert over is not None
    assert int(over[1]) <= 0, f"{over[1]} pixels wider than {width}"

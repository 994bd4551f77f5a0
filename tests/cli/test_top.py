# SPDX-License-Identifier: Apache-2.0
"""``denizen top``: one screen from fixed figures, and the command against a running program."""

import contextlib
import io
import json
import os
import pty
import re
import select
import socket
import subprocess
import sys
import threading
import time
from dataclasses import asdict, replace
from pathlib import Path

import pytest

import denizen
from denizen.nvml import Sensors
from denizen.telemetry import ActorType, Durations, SlowHandler, Telemetry, Worker

pytest.importorskip("rich")
pytest.importorskip("prometheus_client")
from rich.console import Console

from denizen.top import command, screen


def worker(i, handled, **changed):
    fields = {
        "node": 0, "number": i, "mode": "running", "actors": 10, "handled": handled,
        "batches": 100, "idle_rounds": 300, "dead_letters": 0, "host_ring": 0, "inbox": 0,
        "near": 0, "outbox": 0,
        "sent": (0, 0, 0, 0, 0, 0), "busy": 0.0, "busy_actor": 0, "busy_message": "",
    }  # fmt: skip
    return Worker(**{**fields, **changed})


def durations(count):
    return Durations(count, 1.0, 120e-9, 900e-9, 12.3e-6, 1.5e-3, 2.25, (count,) + (0,) * 155)


def latencies(count):
    return Durations(count, 1e-4, 2.6e-6, 3e-6, 4.7e-6, 9e-6, 31e-6, (count,) + (0,) * 155)


AIRCRAFT = 3 << 18 | 17  # actor 17 of worker 3


def telemetry(workers=40, types=3, **changed):
    fields = {
        "time": 100.0, "device_time": 5.0, "observed": True, "mode": "running",
        "handled": 12_345_678, "dead_letters": 2, "errors": 3, "launches": 1,
        "sent": (1_000_000, 0, 0, 22_000, 0, 12),
        "workers": tuple(worker(i, 1000 * i) for i in range(workers)),
        "actor_types": tuple(
            ActorType(f"Type{i}", 100 + i, 5000 >> i, durations(5000 >> i), latencies(40 >> i))
            for i in range(types)
        ),
        "slowest": tuple(
            SlowHandler(AIRCRAFT + i, "Aircraft", "Flight", 2.25 / (i + 1)) for i in range(5)
        ),
    }  # fmt: skip
    return Telemetry(**{**fields, **changed})


GPU = Sensors("NVIDIA H100 80GB HBM3", 412.4, 700.0, 45.0, 1980.0, 2619.0, 0, 0)


def snapshot(t, *gpus):
    return screen.Snapshot("flights.hpp", "NVIDIA H100 80GB HBM3", t, dict(enumerate(gpus)))


def lines(now, before, width, height):
    out = io.StringIO()
    console = Console(file=out, width=width, color_system=None, highlight=False)
    console.print(screen.render(now, before, width, height))
    return [line.rstrip() for line in out.getvalue().splitlines()]


def two(**changed):
    """Now, and half a second before."""
    now = telemetry(**changed)
    before = replace(
        now,
        time=99.5,
        handled=now.handled - 500_000,
        sent=(0, 0, 0, 0, 0, 0),
        workers=tuple(
            replace(w, handled=w.handled // 2, batches=90, idle_rounds=270) for w in now.workers
        ),
    )
    return snapshot(now, GPU), snapshot(before, GPU)


@pytest.mark.parametrize(("width", "height"), [(80, 24), (160, 50), (80, 12), (200, 30)])
@pytest.mark.parametrize("workers", [1, 3, 40, 528])
@pytest.mark.parametrize("types", [1, 3, 20])
def test_every_screen_fits(width, height, workers, types):
    shown = lines(*two(workers=workers, types=types), width, height)
    assert len(shown) <= height
    assert all(len(line) <= width for line in shown)
    text = "\n".join(shown)
    for part in ("denizen top  flights.hpp", "messages/s", "actor type", "worker", "Type0"):
        assert part in text
    if workers > 12 and height == 24:
        assert len(shown) == height  # filled


def test_figures_at_80_columns():
    shown = lines(*two(), 80, 24)
    assert shown[0] == "denizen top  flights.hpp on NVIDIA H100 80GB HBM3, 40 workers, running"
    assert shown[1] == (
        "total  messages/s 1.00M  handled 12.3M  dead letters 2  errors 3  launches 1"
    )
    assert shown[2] == "sent/s worker 2.00M  sm 0  cluster 0  gpu 44.0k  peer 0  host 24"
    assert shown[3] == (
        "GPU    power 412 W of 700 W  heat 45 °C  SM 1,980 MHz  mem 2,619 MHz  ECC 0/0"
    )
    assert re.fullmatch(
        r"Type0 +100 +0 +5.00k +120 ns +12\.3 µs +1\.50 ms +2\.25 s +2\.60 µs", shown[6]
    ), shown[6]
    assert "  2.25 s  Flight to Aircraft #17 of worker 3" in shown
    # The busiest workers, and how many are left out.
    row = next(line for line in shown if re.match(r" +39 ", line))
    assert re.fullmatch(r" +39 +running +39\.0k +25 % +0 +0 +0 +0", row), row
    assert re.fullmatch(r"and \d+ more, less busy", shown[-1])


def test_each_node_has_a_line_for_its_gpu():
    now = snapshot(telemetry(workers=40), GPU, replace(GPU, power_w=90.2, temperature_c=None))
    sent = {
        "program": now.program,
        "device": now.device,
        "telemetry": asdict(now.telemetry),
        "gpus": {node: asdict(sensors) for node, sensors in now.gpus.items()},
    }
    assert screen.Snapshot.from_json(json.loads(json.dumps(sent))) == now
    shown = lines(now, None, 80, 24)
    assert shown[3].startswith("GPU 0  power 412 W of 700 W  heat 45 °C")
    assert shown[4].startswith("GPU 1  power 90 W of 700 W  heat ?")
    assert len(shown) == 24


def test_more_at_160_columns():
    shown = lines(*two(workers=20), 160, 50)
    head = next(line for line in shown if line.startswith("worker"))
    assert head.split() == [
        "worker", "mode", "handled/s", "load", "handled", "actors", "dead", "host_ring", "inbox",
        "near", "outbox", "running",
    ]  # fmt: skip
    assert [line.split()[0] for line in shown[shown.index(head) + 1 :]] == [
        str(i) for i in range(20)
    ]


def test_a_stuck_worker_comes_first():
    stuck = worker(7, 1, busy=12.0, busy_actor=AIRCRAFT, busy_message="Flight")
    full = worker(8, 1, inbox=600, near=1000)
    now = telemetry(workers=200)
    workers = (*now.workers[:7], stuck, full, *now.workers[9:])
    shown = lines(snapshot(replace(now, workers=workers), GPU), None, 80, 24)
    first = next(i for i, line in enumerate(shown) if line.startswith("worker")) + 1
    assert re.match(r" +7 .*Flight 12\.0 s$", shown[first])
    assert re.match(r" +8 .* 1\.00k ", shown[first + 1])


def test_workers_of_several_nodes_and_a_cpu():
    now = replace(telemetry(workers=1), workers=(worker(0, 1), worker(0, 2, node=1)))
    shown = lines(snapshot(now), None, 80, 24)
    assert any(line.lstrip().startswith("1:0 ") for line in shown)
    assert not any(line.startswith("GPU") for line in shown)


def test_numbers_and_times():
    values = (0, 7, 999, 1000, 1234, 99_950, 999_499, 1e6, 1.5e9, 2e12)
    assert [screen.number(v) for v in values] == [
        "0", "7", "999", "1.00k", "1.23k", "100k", "999k", "1.00M", "1.50G", "2.00T",
    ]  # fmt: skip
    times = (0, 1e-9, 45.2e-9, 1e-6, 12.34e-6, 300e-3, 1, 59.96, 12_345)
    assert [screen.time(v) for v in times] == [
        "-", "1 ns", "45 ns", "1.00 µs", "12.3 µs", "300 ms", "1.00 s", "60.0 s", "12345 s",
    ]  # fmt: skip


# ---- the command

SERVING = """
import sys, time, denizen
program = denizen.Program(
    "struct Counter { uint64_t sum = 0; void on(const Tick& m, auto&) { sum += m.n; } };",
    actors=["Counter"], messages=[denizen.message("Tick", [("n", "u4")])], name="serving",
)
with denizen.Runtime(program, "cpu:2") as rt:
    counters = rt.spawn("Counter", 4)
    rt.serve_metrics()
    for counter in counters:
        rt.send(counter, "Tick", n=1)
    rt.drain()
    print("ready", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def environment(tmp_path):
    return {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path), "COLUMNS": "100"}


@pytest.fixture
def serve(environment):
    """Starts a served program; a line on its stdin ends it."""
    started = []

    def start():
        process = subprocess.Popen(
            [sys.executable, "-c", SERVING],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
        )  # fmt: skip
        started.append(process)
        assert process.stdout.readline() == "ready\n"
        return process

    yield start
    for process in started:
        end(process)


def end(process):
    if process.stdin.closed:
        return
    if process.poll() is None:
        process.stdin.write("\n")
        process.stdin.flush()
    assert process.wait(timeout=60) == 0
    process.stdin.close()
    process.stdout.close()


def top(*words, env):
    return subprocess.run(
        [sys.executable, "-m", "denizen", "top", *map(str, words)],
        capture_output=True, text=True, timeout=120, env=env, stdin=subprocess.DEVNULL, check=False,
    )  # fmt: skip


def test_a_width_that_is_none_is_passed_over(serve, environment):
    process = serve()
    for no_width in ("wide", "0", "-3", "9" * 20):
        for how in (("--pid", process.pid), ("--all",)):
            found = top(*how, "--once", env={**environment, "COLUMNS": no_width})
            assert (found.returncode, found.stderr) == (0, "")
            assert "serving" in found.stdout


def test_once_against_a_live_program(serve, environment):
    process = serve()
    done = top("--once", env=environment)
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout
    shown = [line.rstrip() for line in done.stdout.splitlines()]
    assert shown[0] == "denizen top  serving on CPU, 2 workers, running"
    assert any(re.match(r"Counter +4 +0 +4 +\d", line) for line in shown), done.stdout
    # A pipe gets the same without being asked for.
    assert top("--pid", process.pid, env=environment).stdout.startswith("denizen top  serving")
    # By its URL it is found without being announced.
    (announced,) = (Path(environment["XDG_RUNTIME_DIR"]) / "denizen").iterdir()
    url = json.loads(announced.read_text())["url"]
    nowhere = {**environment, "XDG_RUNTIME_DIR": environment["XDG_RUNTIME_DIR"] + "/none"}
    by_url = top("--url", url, "--once", env=nowhere)
    assert by_url.returncode == 0, by_url.stderr
    assert by_url.stdout.startswith("denizen top  serving on CPU, 2 workers, running")


def test_which_program(serve, environment):
    none = top("--once", env=environment)
    assert none.returncode == 1
    assert re.fullmatch(r"denizen: no program is served .*serve_metrics\(\).*\n", none.stderr)
    first, second = serve(), serve()
    several = top("--once", env=environment)
    assert several.returncode == 1
    assert "2 programs are served, choose one with --pid or --url:" in several.stderr
    for process in (first, second):
        assert f"pid {process.pid}, serving: http://127.0.0.1:" in several.stderr
    assert top("--once", "--pid", second.pid, env=environment).returncode == 0
    other = top("--once", "--pid", os.getpid(), env=environment)
    assert f"no program is served by process {os.getpid()}" in other.stderr
    both = top("--pid", 1, "--url", "http://127.0.0.1:1", env=environment)
    assert both.returncode == 2


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("https://127.0.0.1:1", 'denizen: url "https://127.0.0.1:1"; use the one that .*'),
        ("http://127.0.0.1:1", r"denizen: nothing answers at http://127.0.0.1:1 \(.*refused\)"),
    ],
)
def test_a_url_that_is_none(url, message, environment):
    done = top("--url", url, "--once", env=environment)
    assert done.returncode == 1
    assert re.fullmatch(message + "\n", done.stderr)


class Terminal:
    """A terminal of 24 lines with ``denizen top`` in it."""

    def __init__(self, environment):
        self._fd, side = pty.openpty()
        env = {**environment, "TERM": "xterm", "LINES": "24", "COLUMNS": "80"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "denizen", "top"], stdin=side, stdout=side, stderr=side, env=env
        )
        os.close(side)
        self.text = ""

    def read_until(self, wanted, seconds=60):
        end = time.monotonic() + seconds
        while wanted not in self.text and time.monotonic() < end:
            if select.select([self._fd], [], [], 0.2)[0]:
                try:
                    self.text += os.read(self._fd, 65536).decode(errors="replace")
                except OSError:  # the other side is gone
                    break
        assert wanted in self.text, self.text

    def press(self, keys):
        os.write(self._fd, keys)

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self._fd)


@pytest.fixture
def terminal(environment):
    opened = []

    def open_one():
        opened.append(Terminal(environment))
        return opened[-1]

    yield open_one
    for one in opened:
        one.close()


def test_q_quits(serve, terminal):
    serve()
    shown = terminal()
    shown.read_until("q quits")
    shown.press(b"x")
    shown.press(b"q")
    shown.read_until("\x1b[?1049l")  # back from the alternate screen
    assert shown.process.wait(timeout=30) == 0
    assert "has ended" not in shown.text


def test_it_ends_with_the_program(serve, terminal):
    process = serve()
    shown = terminal()
    shown.read_until("q quits")
    end(process)
    shown.read_until("serving has ended")
    assert shown.process.wait(timeout=30) == 0


@contextlib.contextmanager
def saying(answer):
    """The URL of a server that answers so to everybody: bytes, or what a socket is given to."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(0.05)
    ended = threading.Event()

    def one(line):
        with line, contextlib.suppress(OSError):
            line.recv(65536)
            answer(line) if callable(answer) else line.sendall(answer)

    def serve():
        while not ended.is_set():
            with contextlib.suppress(TimeoutError):
                line, _ = listener.accept()
                threading.Thread(target=one, args=(line,), daemon=True).start()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        ended.set()
        thread.join()
        listener.close()


def page(content, status=200):
    head = f"HTTP/1.0 {status} OK\r\nContent-Length: {len(content)}\r\n\r\n"
    return head.encode() + content


def served(change=None):
    now = snapshot(telemetry(workers=3), GPU)
    given = json.loads(json.dumps(asdict(now)))
    if change:
        change(given)
    return page(json.dumps(given).encode())


def test_what_a_good_server_says_is_shown():
    with saying(served()) as url:
        assert command.read(url) == snapshot(telemetry(workers=3), GPU)


def changed(*path, to):
    def change(given):
        for key in path[:-1]:
            given = given[key]
        given[path[-1]] = to

    return change


@pytest.mark.parametrize(
    "change",
    [
        changed("program", to=1),
        changed("telemetry", to=[]),
        changed("telemetry", "time", to="1"),
        changed("telemetry", "time", to=float("nan")),
        changed("telemetry", "handled", to=None),
        changed("telemetry", "handled", to=10**400),
        changed("telemetry", "handled", to=True),
        changed("telemetry", "handled", to=1.5),
        changed("telemetry", "sent", to=[1]),
        changed("telemetry", "sent", to="123456"),
        changed("telemetry", "more", to=1),
        changed("telemetry", "workers", to={}),
        changed("telemetry", "workers", to=[1]),
        changed("telemetry", "workers", 0, "sent", to=[]),
        changed("telemetry", "workers", 0, "busy", to=[]),
        changed("telemetry", "workers", 0, "number", to="x"),
        changed("telemetry", "actor_types", 0, "durations", to=None),
        changed("telemetry", "actor_types", 0, "durations", "p50", to={}),
        changed("telemetry", "slowest", 0, "actor", to=-(2**70)),
        changed("telemetry", "slowest", to=[[]]),
        changed("gpus", to={"x": None}),
        changed("gpus", "0", "power_w", to="hot"),
        changed("gpus", to=[1]),
    ],
)
def test_values_that_are_none_are_one_named_error(change):
    with (
        saying(served(change)) as url,
        pytest.raises(denizen.DenizenError, match="serves no denizen telemetry"),
    ):
        command.read(url)


@pytest.mark.parametrize(
    "content",
    [
        b'{"program": 1}', b"", b"[" * 100_000, b"\xff\xfe", b"9" * 5000,
        b'{"program": "a", "device": "b", "telemetry": {}, "gpus": {}}',
    ],
)  # fmt: skip
def test_answers_that_are_not_ours(content):
    with (
        saying(page(content)) as url,
        pytest.raises(denizen.DenizenError, match="serves no denizen telemetry"),
    ):
        command.read(url)


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"SSH-2.0-x\r\n",
        b"HTTP/1.0 200 OK\r\nContent-Length: 100\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.0 200 OK\r\n" + b"A: b\r\n" * 1000,
        b"HTTP/1.0 200 OK\r\n\r\n" + b" " * (1 << 21),
        page(b"\x1b]0;owned\x07 no", 503),
    ],
)
def test_servers_that_are_none(answer, monkeypatch):
    monkeypatch.setattr(command, "_MOST", 1 << 20)
    with (
        saying(answer) as url,
        pytest.raises(denizen.DenizenError, match=re.escape(url)) as refused,
    ):
        command.read(url)
    assert "\x1b" not in str(refused.value) and "\x07" not in str(refused.value)


def test_a_server_that_drips_is_left(monkeypatch):
    def drip(line):
        line.sendall(b"HTTP/1.0 200 OK\r\n\r\n")
        for _ in range(1000):
            line.sendall(b" ")
            time.sleep(0.05)

    monkeypatch.setattr(command, "_PATIENCE", 0.5)
    with saying(drip) as url, pytest.raises(denizen.DenizenError, match=r"within 0\.5 s"):
        command.read(url)


def test_what_a_server_says_does_not_reach_the_terminal(environment):
    evil = "\x1b]0;owned\x07\x9b2J\u202e[/red]"

    def change(given):
        given["program"] = given["device"] = evil
        t = given["telemetry"]
        t["mode"] = t["workers"][0]["mode"] = t["actor_types"][0]["name"] = evil
        t["workers"][0].update(busy=2.0, busy_message=evil)
        t["slowest"][0].update(type=evil, message=evil)
        given["gpus"]["0"]["name"] = evil

    with saying(served(change)) as url:
        done = top("--url", url, "--once", env=environment)
    assert done.returncode == 0, done.stderr
    assert not set("\x1b\x07\x9b\u202e") & set(done.stdout)
    assert r"\x1b]0;owned\x07" in done.stdout


@pytest.mark.parametrize("url", ["http://[", "http://127.0.0.1:99999", "http://a..b/", "http://"])
def test_urls_that_are_none(url, environment):
    done = top("--url", url, "--once", env=environment)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr and done.stderr.count("\n") == 1


def test_another_program_at_the_same_place_has_no_rates():
    now, before = snapshot(telemetry(workers=5, types=4)), snapshot(telemetry(workers=2, types=1))
    assert lines(now, before, 100, 30)


def test_without_rich_it_says_what_to_install(tmp_path, environment):
    (tmp_path / "rich").mkdir()
    (tmp_path / "rich" / "__init__.py").write_text("raise ModuleNotFoundError('not here')")
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    done = top("--once", env={**environment, "PYTHONPATH": path})
    assert done.returncode == 1
    assert done.stderr == "denizen: rich is not installed: pip install rich\n"

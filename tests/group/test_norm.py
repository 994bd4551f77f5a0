# SPDX-License-Identifier: Apache-2.0
"""All-reduce, sum with the residual and RMS norm in one call: on CPU ranks, and on GPUs."""

import threading

import ml_dtypes
import numpy as np
import pytest

from denizen import ArgumentError, _core, group

EPS = 1e-3
DTYPES = [np.float32, np.float16, ml_dtypes.bfloat16]


def on_ranks(groups, body):
    """What ``body(group)`` returned, or raised, in a thread for each."""
    found = [None] * len(groups)

    def one(i):
        try:
            found[i] = body(groups[i])
        except ArgumentError as error:
            found[i] = error

    threads = [threading.Thread(target=one, args=(i,)) for i in range(len(groups))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return found


def data(ranks, shape, dtype):
    random = np.random.default_rng(len(shape) + shape[-1])
    parts = [random.normal(size=shape).astype(dtype) for _ in range(ranks)]
    return (
        parts,
        random.normal(size=shape).astype(dtype),
        random.normal(size=shape[-1:]).astype(dtype),
    )


def reference(parts, residual, weight):
    """The sums to the last bit, and the norms in float64."""
    whole = np.zeros(residual.shape, np.float32)
    for part in parts:
        whole += part.astype(np.float32)
    total = (residual.astype(np.float32) + whole).astype(residual.dtype)
    wide = total.astype(np.float64)
    scale = 1 / np.sqrt((wide**2).mean(axis=-1, keepdims=True) + EPS)
    return total, wide * scale * weight.astype(np.float64)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("ranks", "shape"), [(2, (3, 100)), (3, (2, 2, 7)), (2, (5000,))])
def test_on_the_cpu(ranks, shape, dtype):
    parts, residual, weight = data(ranks, shape, dtype)
    total, norm = reference(parts, residual, weight)

    def body(g):
        x, r = parts[g.rank].copy(), residual.copy()
        out, sums = np.zeros_like(x), np.zeros_like(r)
        g.all_reduce_rms_norm(x, r, weight, EPS, out=out, total=sums)
        assert (x == parts[g.rank]).all() and (r == residual).all()
        g.all_reduce_rms_norm(x, r, weight, EPS)
        return out, sums, x, r

    for out, sums, x, r in on_ranks(group.local(ranks, "cpu"), body):
        np.testing.assert_array_equal(sums, total)
        np.testing.assert_allclose(
            out.astype(np.float64), norm, rtol=4 * float(ml_dtypes.finfo(dtype).eps), atol=1e-6
        )
        assert x.tobytes() == out.tobytes() and r.tobytes() == sums.tobytes()


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"weight": np.ones(3, np.float32)}, "a weight of 3 elements for rows of 4"),
        ({"weight": np.ones(4, np.float16)}, "f32 in, f16 out"),
        ({"residual": np.ones((3, 4), np.float32)}, "the residual has 12 elements; 8 are expected"),
        ({"out": np.ones(4, np.float32)}, "out has 4 elements; 8 are expected"),
        ({"tensor": np.ones((2, 4), np.int32), "residual": np.ones((2, 4), np.int32),
          "weight": np.ones(4, np.int32)}, "it takes f32, f16 or bf16"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(changed, words):
    (g,) = group.local(1, "cpu")
    given = {
        "tensor": np.ones((2, 4), np.float32),
        "residual": np.ones((2, 4), np.float32),
        "weight": np.ones(4, np.float32),
        **changed,
    }
    with pytest.raises(ArgumentError, match=words):
        g.all_reduce_rms_norm(**given)


def test_data_that_overlap_are_refused():
    (g,) = group.local(1, "cpu")
    x, r, weight = (np.ones(n, np.float32) for n in (4, 4, 4))
    with pytest.raises(ArgumentError, match="the output overlaps the residual"):
        g.all_reduce_rms_norm(x, r, weight, out=r)


def test_ranks_of_other_widths_get_one_error():
    def body(g):
        width = 4 + 2 * g.rank
        x = np.ones((12 // width, width), np.float32)
        g.all_reduce_rms_norm(x, x.copy(), np.ones(width, np.float32))

    first, second = on_ranks(group.local(2, "cpu"), body)
    assert str(first) == str(second)
    assert "all_reduce_norm of 12 f32" in str(first)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_on_gpus_and_in_a_graph(dtype):
    torch = pytest.importorskip("torch")
    if _core.gpu_count() < 2:
        pytest.skip("fewer than two GPUs")
    groups = group.local(2, "gpu")
    for rows, width in ((1, 4096), (64, 4096), (7, 101), (3, 20_000)):
        kind = {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
        parts, residual, weight = data(2, (rows, width), kind[dtype])
        total, norm = reference(parts, residual, weight)

        def given(array, rank):
            wide = torch.from_numpy(array.astype(np.float32))
            return wide.to(device=f"cuda:{rank}", dtype=getattr(torch, dtype))

        made, graphs = [], []
        for rank in range(2):
            x, r, w = (given(one, rank) for one in (parts[rank], residual, weight))
            made.append((x, r, w, torch.empty_like(x), torch.empty_like(r)))
            torch.cuda.synchronize(rank)
        for rank, g in enumerate(groups):  # nothing is allocated while one waits for the other
            x, r, w, out, sums = made[rank]
            with torch.cuda.device(rank):
                g.all_reduce_rms_norm(x, r, w, EPS, out=out, total=sums)
        for rank in range(2):
            torch.cuda.synchronize(rank)
        for rank, g in enumerate(groups):  # the same again, in a graph
            x, r, w, out, sums = made[rank]
            out.zero_(), sums.zero_()
            torch.cuda.synchronize(rank)
            with torch.cuda.device(rank):
                graph = torch.cuda.CUDAGraph()
                own = torch.cuda.Stream()  # PyTorch's for captures is of the first GPU
                with torch.cuda.graph(graph, stream=own, capture_error_mode="thread_local"):
                    g.all_reduce_rms_norm(x, r, w, EPS, out=out, total=sums)
                graphs.append(graph)
        for graph in graphs:
            graph.replay()
        for rank, g in enumerate(groups):
            torch.cuda.synchronize(rank)
            g.check()
            _, _, _, out, sums = made[rank]
            np.testing.assert_array_equal(sums.float().cpu().numpy(), total.astype(np.float32))
            np.testing.assert_allclose(
                out.double().cpu().numpy(),
                norm,
                rtol=4 * float(ml_dtypes.finfo(kind[dtype]).eps),
                atol=1e-5,
            )

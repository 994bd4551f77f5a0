# SPDX-License-Identifier: Apache-2.0
"""Collectives as operators of PyTorch: results, gradients, torch.compile, CUDA graphs, errors."""

import threading

import pytest

from denizen import ArgumentError, _core, group

torch = pytest.importorskip("torch")

from denizen.group.torch_ops import TorchOps  # noqa: E402, needs torch

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


def in_ranks(body, device, ranks=2):
    """``body(ops, rank, device of the rank)`` in a thread for each; what they return."""
    if device == "cuda" and _core.gpu_count() < ranks:
        pytest.skip("fewer than two GPUs")
    groups = group.local(ranks, "cpu" if device == "cpu" else "gpu")
    found = [None] * ranks

    def run(g):
        where = torch.device("cpu") if device == "cpu" else torch.device("cuda", g.rank)
        try:
            if where.type == "cuda":
                torch.cuda.set_device(where)
            found[g.rank] = body(TorchOps(g), g.rank, where)
            g.wait()
        except BaseException as error:  # raised again below
            found[g.rank] = error

    threads = [threading.Thread(target=run, args=[g]) for g in groups]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for result in found:
        if isinstance(result, BaseException):
            raise result
    return found


@pytest.mark.parametrize("device", DEVICES)
def test_each_gives_a_new_tensor(device):
    def body(ops, rank, where):
        x = torch.arange(6, dtype=torch.float32, device=where).reshape(2, 3) + 10 * rank
        made = [
            ops.all_reduce(x),
            ops.all_reduce(x, "max"),
            ops.all_gather(x),
            ops.reduce_scatter(x, "avg"),
            ops.all_to_all(x),
            ops.broadcast(x, 1),
        ]
        kept = x.cpu()
        return [one.cpu() for one in made], kept

    base = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    for rank, (made, kept) in enumerate(in_ranks(body, device)):
        assert torch.equal(kept, base + 10 * rank)
        total, highest, gathered, scattered, swapped, sent = made
        assert torch.equal(total, 2 * base + 10)
        assert torch.equal(highest, base + 10)
        assert torch.equal(gathered, torch.cat([base, base + 10]))
        assert torch.equal(scattered, (base + 5)[rank : rank + 1])
        assert torch.equal(swapped, torch.stack([base[rank], base[rank] + 10]))
        assert torch.equal(sent, base + 10)


def test_a_tensor_with_gaps_and_one_of_bfloat16():
    def body(ops, rank, _):
        x = torch.arange(12, dtype=torch.bfloat16).reshape(3, 4).T
        return ops.all_reduce(x) - 2 * x

    for difference in in_ranks(body, "cpu"):
        assert torch.equal(difference, torch.zeros(4, 3, dtype=torch.bfloat16))


# Each rank's loss is a weighted sum of what it gets. The same in one process, with all ranks'
# tensors at hand, has the gradients.
WEIGHTS = torch.tensor([[1.0, -2.0, 3.0], [0.5, 4.0, -1.0]], dtype=torch.float32)


def alone(op, xs):
    if op == "all_reduce":
        made = [sum(xs)] * 2
    elif op == "mean":
        made = [sum(xs) / 2] * 2
    elif op == "all_gather":
        made = [torch.cat(xs)] * 2
    elif op == "reduce_scatter":
        made = list((sum(xs) / 2).chunk(2))
    elif op == "all_to_all":
        made = [torch.cat([x.chunk(2)[r] for x in xs]) for r in range(2)]
    else:
        made = [xs[1]] * 2
    return made


CALLS = {
    "all_reduce": lambda ops, x: ops.all_reduce(x),
    "mean": lambda ops, x: ops.all_reduce(x, "avg"),
    "all_gather": lambda ops, x: ops.all_gather(x),
    "reduce_scatter": lambda ops, x: ops.reduce_scatter(x, "avg"),
    "all_to_all": lambda ops, x: ops.all_to_all(x),
    "broadcast": lambda ops, x: ops.broadcast(x, 1),
}


def weighted(made, rank):
    flat = made.flatten()
    return (flat * WEIGHTS[rank].repeat(8)[: flat.numel()]).sum()


@pytest.mark.parametrize("op", CALLS)
def test_gradients_are_those_of_the_sum_of_all_losses(op):
    xs = [torch.randn(4, 3, requires_grad=True) for _ in range(2)]
    sum(weighted(made, rank) for rank, made in enumerate(alone(op, xs))).backward()

    def body(ops, rank, _):
        x = xs[rank].detach().requires_grad_()
        weighted(CALLS[op](ops, x), rank).backward()
        return x.grad

    for x, grad in zip(xs, in_ranks(body, "cpu"), strict=True):
        wanted = torch.zeros_like(x) if x.grad is None else x.grad
        assert torch.allclose(grad, wanted, rtol=1e-5, atol=1e-6)


def test_operators_are_what_pytorch_takes():
    """PyTorch's own checks: schema, fake tensors, autograd's registration."""

    def body(ops, rank, _):
        x = torch.randn(4, 3, requires_grad=True)
        what = ("test_schema", "test_faketensor", "test_autograd_registration")
        for name, args in (
            ("all_reduce", (x, "sum", ops.name)),
            ("all_gather", (x, ops.name)),
            ("reduce_scatter", (x, "sum", ops.name)),
            ("all_to_all", (x, ops.name)),
            ("broadcast", (x, 0, ops.name)),
        ):
            torch.library.opcheck(getattr(torch.ops.denizen, name), args, test_utils=what)
        return True

    assert in_ranks(body, "cpu", ranks=1) == [True]


def test_export_keeps_the_operator_in_the_graph():
    def body(ops, rank, _):
        class Layer(torch.nn.Module):
            def forward(self, x):
                return torch.relu(ops.all_reduce(x) - 1)

        return str(torch.export.export(Layer(), (torch.ones(3),)).graph)

    (graph,) = in_ranks(body, "cpu", ranks=1)
    assert "denizen.all_reduce" in graph


def test_a_compiled_function_has_it_in_one_graph():
    def body(ops, rank, _):
        @torch.compile(fullgraph=True, backend="aot_eager")
        def layer(x):
            return torch.relu(ops.all_reduce(2 * x) - 1).sum()

        x = torch.ones(4, 3, requires_grad=True)
        y = layer(x)
        y.backward()
        return y.item(), x.grad

    ((y, grad),) = in_ranks(body, "cpu", ranks=1)
    assert y == 12
    assert torch.equal(grad, torch.full((4, 3), 2.0))


@pytest.mark.gpu
def test_a_cuda_graph_replays_it():
    def body(ops, rank, where):
        x = torch.zeros(1000, device=where)
        graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream(where)
        with torch.cuda.stream(stream):
            ops.all_reduce(x)
        stream.synchronize()
        with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
            y = ops.all_reduce(2 * x) + 1
        made = []
        for turn in range(5):
            x.fill_(turn + rank)
            torch.cuda.synchronize(where)
            graph.replay()
            torch.cuda.synchronize(where)
            made.append(y.cpu())
        return made

    for made in in_ranks(body, "cuda"):
        for turn, y in enumerate(made):
            assert torch.equal(y, torch.full((1000,), 2.0 * (2 * turn + 1) + 1))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda ops: ops.all_to_all(torch.ones(3)), "first dimension must be a multiple of 2"),
        (lambda ops: ops.all_gather(torch.ones(())), "use x.reshape"),
        (lambda ops: ops.all_reduce(torch.ones(3, dtype=torch.complex64)), "elements of type"),
        (
            lambda ops: ops.all_reduce(torch.ones(3, requires_grad=True), "max").sum().backward(),
            '"max" has no gradient',
        ),
        (lambda _: torch.ops.denizen.all_reduce(torch.ones(3), "sum", "mine"), 'no "mine"'),
    ],
)
def test_errors_say_what_to_do(call, message):
    with pytest.raises(ArgumentError, match=message):
        in_ranks(lambda ops, *_: call(ops), "cpu")


@pytest.mark.parametrize("device", DEVICES)
def test_a_norm_behind_an_all_reduce(device):
    def body(ops, rank, where):
        torch.manual_seed(0)
        x, residual = (torch.randn(3, 40, device=where) for _ in range(2))
        weight = torch.randn(40, device=where)
        out, total = ops.all_reduce_rms_norm(x * (rank + 1), residual, weight, 1e-5)
        wanted = residual + ops.all_reduce(x * (rank + 1))
        norm = torch.nn.functional.rms_norm(wanted, (40,), weight, 1e-5)
        with torch._subclasses.FakeTensorMode(allow_non_fake_inputs=True):
            fake, _ = ops.all_reduce_rms_norm(x, residual, weight)
        assert fake.shape == x.shape
        return [one.cpu() for one in (out, norm, total, wanted)]

    for out, norm, total, wanted in in_ranks(body, device):
        torch.testing.assert_close(total, wanted)
        torch.testing.assert_close(out, norm)

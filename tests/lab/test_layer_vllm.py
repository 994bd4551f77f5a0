# SPDX-License-Identifier: Apache-2.0
"""vLLM's all-reduce as an arm of ``layer`` and of bench_group: how it is found, and what our own
code does around it, over a stand-in for its header and for CUDA (vllm_standin)."""

import ctypes
import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import MagicMock

import numpy as np
import pytest

from denizen.lab import layer, layer_vllm
from denizen.lab.record import LabError

ROOT = Path(__file__).resolve().parents[2]
RANKS = 2
COUNT = 64


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """benchmarks/rivals/vllm.cu over the stand-in."""
    made = tmp_path_factory.mktemp("vllm") / layer_vllm.LIBRARY
    compiler = shutil.which("c++") or pytest.skip("no C++ compiler")
    subprocess.run(
        [
            compiler, "-std=c++20", "-Wall", "-Werror", "-shared", "-fPIC",
            "-I", Path(__file__).parent / "vllm_standin", "-o", made,
            "-x", "c++", ROOT / "benchmarks" / "rivals" / "vllm.cu",
        ],
        check=True,
    )  # fmt: skip
    loaded = ctypes.CDLL(str(made))
    for name in ("standin_allocate", "standin_stream", "denizen_vllm_open"):
        getattr(loaded, name).restype = ctypes.c_void_p
    loaded.denizen_vllm_error.restype = ctypes.c_char_p
    return made, loaded


class Meeting:
    """Where ranks on threads give what they have, and get what all have."""

    def __init__(self, ranks):
        self._barrier = threading.Barrier(ranks, timeout=30)
        self._given = [b""] * ranks

    def of(self, rank):
        def exchange(own):
            self._given[rank] = own
            self._barrier.wait()
            got = list(self._given)
            self._barrier.wait()
            return got

        return exchange


def on_ranks(work):
    with ThreadPoolExecutor(RANKS) as pool:
        return list(pool.map(work, range(RANKS)))


def joined(library):
    meeting = Meeting(RANKS)
    made = on_ranks(lambda r: layer_vllm.AllReduce(library, r, RANKS, meeting.of(r)))
    return made


def memory(loaded, rank, *, behind=0):
    """Bits of bfloat16 in memory of a rank's device, so many bytes behind an allocation's start."""
    at = loaded.standin_allocate(rank, ctypes.c_uint64(behind + 2 * COUNT)) + behind
    return at, np.ctypeslib.as_array((ctypes.c_uint16 * COUNT).from_address(at))


def bits(values):
    return (np.asarray(values, np.float32).view(np.uint32) >> 16).astype(np.uint16)


def streams(loaded, *, capturing):
    made = [loaded.standin_stream(int(capturing)) for _ in range(RANKS)]
    return made, lambda: loaded.standin_run((ctypes.c_void_p * RANKS)(*made), RANKS)


def test_what_is_not_captured_goes_through_registered_buffers(library):
    path, loaded = library
    ranks = joined(path)
    on, run = streams(loaded, capturing=False)
    outs = []
    for r, one in enumerate(ranks):
        (source, x), (result, out) = memory(loaded, r), memory(loaded, r)
        x[:] = bits(np.arange(COUNT) + 100 * r)
        one(source, result, COUNT, on[r])
        outs.append(out)
    run()
    for out in outs:
        assert np.array_equal(out, bits(2 * np.arange(COUNT) + 100))
    for one in ranks:
        one.close()
        one.close()  # nothing


def test_captured_inputs_are_read_where_they_are(library):
    path, loaded = library
    ranks = joined(path)
    calls = 3
    for _ in range(2):  # a second graph has addresses of its own
        on, run = streams(loaded, capturing=True)
        ins, outs = [], []
        for r, one in enumerate(ranks):
            for call in range(calls):
                source, x = memory(loaded, r, behind=256 * (call + 2 * r))
                result, out = memory(loaded, r)
                one(source, result, COUNT, on[r])
                ins.append(x)
                outs.append(out)
        on_ranks(lambda r: ranks[r].register())
        for turn in range(2):  # a graph is launched again, with other data at the same places
            for i, x in enumerate(ins):
                x[:] = bits(np.full(COUNT, turn + i))
            run()
            for i, out in enumerate(outs):
                call = i % calls
                assert np.array_equal(out, bits(np.full(COUNT, 2 * (turn + call) + calls))), i


def test_ranks_of_one_process_need_no_handles(library):
    """As bench_group has them: threads of one process, each with one input."""
    _, loaded = library
    all_ranks = [loaded.denizen_vllm_open(r, r, RANKS) for r in range(RANKS)]
    table = (ctypes.c_void_p * RANKS)(*all_ranks)
    assert loaded.denizen_vllm_connect_here(table, RANKS) == 0
    on, run = streams(loaded, capturing=True)
    ins = [memory(loaded, r) for r in range(RANKS)]
    outs = [memory(loaded, r) for r in range(RANKS)]
    for r in range(RANKS):
        for _ in range(4):
            words = (all_ranks[r], 1, ins[r][0], outs[r][0])
            as_c = [ctypes.c_void_p(words[0]), words[1], *map(ctypes.c_void_p, words[2:])]
            count = ctypes.c_uint64(COUNT)
            assert loaded.denizen_vllm_all_reduce(*as_c, count, ctypes.c_void_p(on[r])) == 0
        addresses = (ctypes.c_void_p * RANKS)(*(at for at, _ in ins))
        assert loaded.denizen_vllm_captured(ctypes.c_void_p(all_ranks[r]), None) == 4
        assert loaded.denizen_vllm_register_here(ctypes.c_void_p(all_ranks[r]), addresses) == 0
        assert loaded.denizen_vllm_captured(ctypes.c_void_p(all_ranks[r]), None) == 0
    for r, (_, x) in enumerate(ins):
        x[:] = bits(np.arange(COUNT) + r)
    run()
    for _, out in outs:
        assert np.array_equal(out, bits(2 * np.arange(COUNT) + 1))


def test_what_vllm_leaves_to_others_is_an_error(library):
    path, loaded = library
    first, _ = joined(path)
    on, _ = streams(loaded, capturing=False)
    at, _ = memory(loaded, 0)
    with pytest.raises(LabError, match="vLLM leaves 8388608 bytes to NCCL"):
        first(at, at, 4 << 20, on[0])
    with pytest.raises(LabError, match="for 2, 4, 6 or 8 ranks"):
        layer_vllm.AllReduce(path, 0, 3, lambda own: [own] * 3)


def test_a_library_that_is_none_is_named(tmp_path):
    path = tmp_path / layer_vllm.LIBRARY
    path.write_text("no library")
    with pytest.raises(LabError, match=str(path)):
        layer_vllm.AllReduce(path, 0, RANKS, lambda own: [own] * RANKS)


def test_it_is_found_beside_the_programs_or_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setenv("DENIZEN_BENCH_DIR", str(tmp_path))
    monkeypatch.setattr("denizen.machine.checkout", lambda: None)
    with pytest.raises(LabError, match="`tools/rivals vllm` fetches its sources"):
        layer_vllm.find()
    library = tmp_path / layer_vllm.LIBRARY
    library.touch(0o755)
    assert layer_vllm.find() == library


def test_layer_has_it_as_a_way_where_it_is_there(monkeypatch):
    torch = MagicMock()
    for name in (
        "torch", "torch.distributed", "torch.distributed._symmetric_memory", "torch.nn",
        "torch.nn.functional", "denizen.group.torch_ops",
    ):  # fmt: skip
        monkeypatch.setitem(sys.modules, name, torch)
    assert layer_vllm.NAME not in layer._ways(0, 1, MagicMock(), None)
    vllm = MagicMock()
    ways = layer._ways(0, 1, MagicMock(), vllm)
    assert set(ways) >= {"denizen", "NCCL", layer_vllm.NAME}
    x, w1, w2 = MagicMock(), [MagicMock()] * 3, [MagicMock()] * 3
    ways[layer_vllm.NAME](x, w1, w2)
    assert vllm.call_count == 3
    out = torch.empty_like.return_value
    part = torch.empty_like.call_args.args[0]
    stream = torch.cuda.current_stream.return_value.cuda_stream
    assert vllm.call_args.args == (part.data_ptr(), out.data_ptr(), part.numel(), stream)

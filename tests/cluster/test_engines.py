# SPDX-License-Identifier: Apache-2.0
"""Engines on the hosts of a cluster: arrays come whole and in order, errors and losses are told."""

import os
import signal

import engine_sample as sample
import numpy as np
import pytest

import denizen
from denizen.cluster.engines import Engines, host_of


@pytest.fixture
def engines():
    with Engines("engine_sample:engine", 3, {"plus": 10}) as started:
        yield started


def test_arrays_come_whole_and_in_order(engines):
    sizes = [0, 1, 1023, 1024, 1025, 100_000]  # a message has 1,024 of them
    arrays = [np.arange(size, dtype=np.uint64) for size in sizes]
    for number, array in enumerate(arrays):
        for host in range(3):
            engines.send(host, sample.ADD, array, number)
    seen = {host: [] for host in range(3)}
    for _ in range(3 * len(arrays)):
        got = engines.receive()
        values = got.data.view(np.uint64)
        assert (values == arrays[got.number] + np.uint64(10 + got.sender)).all()
        assert len(values) == sizes[got.number]
        seen[got.sender].append(got.number)
    assert list(seen.values()) == [list(range(len(arrays)))] * 3


def test_what_the_caller_and_host_0s_engine_send_at_once_stays_apart(engines):
    # Both send to engine 1 from one process; taken for one sender, one array in thirty is mixed up.
    array = np.arange(5000, dtype=np.uint64)  # of five messages
    for _ in range(200):
        for host in range(3):
            engines.send(host, sample.PASS, array, host)
        for _ in range(3):
            got = engines.receive()
            values = got.data.view(np.uint64)
            assert values[-1] == got.number == (got.sender - 1) % 3
            assert (values[:-1] == array).all()


def test_an_error_of_an_engine_is_raised_by_the_caller(engines):
    engines.send(2, sample.FAIL, np.zeros(1, np.uint64))
    with pytest.raises(denizen.DenizenError, match="host 2: as it was told"):
        engines.receive()


def test_nothing_comes_without_an_answer(engines):
    with pytest.raises(denizen.DeadlineError, match=r"within 0\.1 s"):
        engines.receive(timeout=0.1)


def test_a_lost_host_ends_all(engines):
    os.kill(engines.cluster.hosts[1].pid, signal.SIGKILL)
    with pytest.raises(denizen.HostLostError, match="host 1 was lost"):
        engines.receive()
    with pytest.raises(denizen.HostLostError, match="begin anew"):
        engines.send(0, sample.ADD, np.zeros(1, np.uint64))


def test_what_is_no_engine_is_told():
    with pytest.raises(denizen.DenizenError, match="engine_nowhere"):
        Engines("engine_nowhere:engine", 2, {})


def test_keys_are_spread_evenly():
    for keys in (np.arange(30_000), np.arange(30_000) << 20, np.arange(30_000) * 3):
        counts = np.bincount(host_of(keys.astype(np.uint64), 3), minlength=3)
        assert counts.min() > 9_000

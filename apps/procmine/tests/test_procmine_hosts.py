# SPDX-License-Identifier: Apache-2.0
"""Mining over several hosts: every array is that of one host; a lost host is an error."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest

import denizen
from denizen import procmine
from denizen.cluster.engines import Engines
from denizen.procmine.mine import Mined

ARRAYS = [
    "edge_from", "edge_to", "edge_count", "edge_least", "edge_most", "edge_mean", "edge_median",
    "edge_p95", "activity_counts", "starts", "ends", "variant_count", "case_variants",
    "case_events", "case_begins", "case_ends",
]  # fmt: skip


def assert_same(found: Mined, expected: Mined):
    for name in ARRAYS:
        a, b = getattr(found, name), getattr(expected, name)
        assert a.dtype == b.dtype, name
        assert a.tobytes() == b.tobytes(), name
    assert found.variants == expected.variants


def test_every_array_is_that_of_one_host(hosts_of_work):
    hosts, transport, device = hosts_of_work
    log = procmine.generate(20_000, activities=14, seed=28)
    expected = procmine.mine(log, device="cpu:1")
    assert len(expected.edge_count) > 50
    found = procmine.mine(log, device=device, hosts=hosts, transport=transport)
    assert_same(found, expected)
    assert f"{hosts} host" in found.device
    one = procmine.Reference.of_mined(expected, 5)
    checked, check = procmine.check(found, one), procmine.check(expected, one)
    assert checked.fitness == check.fitness
    assert checked.deviations == check.deviations


def test_odd_logs():
    rng = np.random.default_rng(5)
    many = procmine.from_columns(
        rng.integers(0, 40, 3000), rng.integers(0, 5, 3000), rng.integers(-(2**62), 2**62, 3000)
    )
    one_case = procmine.from_columns(["c"] * 5, list("abcab"), [5, 4, 3, 2, 1])
    alone = procmine.from_columns(["a", "b"], ["x", "x"], [1, 1])
    for log in (many, one_case, alone):
        assert_same(procmine.mine(log, hosts=2), procmine.mine(log, device="cpu:1"))
    found = procmine.mine(many, hosts=2, quantiles=False, variants=False)
    assert_same(found, procmine.mine(many, device="cpu:1", quantiles=False, variants=False))


def test_lost_host_is_an_error(monkeypatch):
    log = procmine.generate(20_000, activities=14, seed=28)
    send = Engines.send

    def killing(self, host, tag, array, number=0):
        send(self, host, tag, array, number)
        if number == 3:  # the quantiles are being asked for
            os.kill(self.cluster.hosts[1].pid, signal.SIGKILL)

    monkeypatch.setattr(Engines, "send", killing)
    with pytest.raises(denizen.HostLostError, match="host 1 was lost"):
        procmine.mine(log, device="cpu:1", hosts=3)


def test_command(tmp_path):
    path = tmp_path / "made.csv"
    words = [sys.executable, "-m", "denizen", "run", "procmine", str(path)]
    subprocess.run([*words, "--generate", "3000"], check=True, timeout=120)

    def told(*more):
        done = subprocess.run(
            [*words, *more], capture_output=True, text=True, timeout=120, check=False
        )
        return done.returncode, done.stdout, done.stderr

    status, text, _ = told("--json", "--hosts", "2")
    assert status == 0
    assert text == told("--json")[1]
    status, _, error = told("--stream", "--hosts", "2")
    assert status == 2
    assert "--stream is of one host" in error

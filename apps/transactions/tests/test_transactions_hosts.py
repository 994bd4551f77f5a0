# SPDX-License-Identifier: Apache-2.0
"""Transactions over several hosts: the alerts of one, byte for byte; a lost host is an error."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest

import denizen
from denizen.apps import transactions as tx

COUNT = 6000
AT = 2500  # other rules from here on


@pytest.fixture(scope="module")
def made():
    return tx.generate(COUNT, seed=28, share=0.5, customers=100)


@pytest.fixture(scope="module")
def changed():
    return tx.Rules(amount_limit=400_000, circular_percent=60, circular_hops=3, version=2)


def expected_of(stage, made, changed):
    records, profiles = made
    stage.put(profiles[: len(profiles) // 2])
    alerts = [*stage.run(records[:1000], 300)]
    stage.put(profiles[len(profiles) // 2 :])
    alerts += stage.run(records[1000:AT], 700)
    stage.change(changed)
    alerts += stage.run(records[AT:], 1500)
    return np.concatenate(alerts)


@pytest.fixture(scope="module")
def expected(made, changed):
    with tx.Stage("cpu:1", horizon=2000) as stage:
        alerts = expected_of(stage, made, changed)
        counts = stage.counts()
        customers = stage.customers()
    assert (alerts["rule"] == 6).sum() > 20
    assert len(np.unique(alerts["hops"])) > 2
    return alerts, counts, customers


def test_alerts_are_those_of_one_host(made, changed, expected, hosts_of_work):
    hosts, transport, device = hosts_of_work
    alerts, counts, customers = expected
    with tx.ShardedStage(hosts, device, transport=transport, horizon=2000) as stage:
        found = expected_of(stage, made, changed)
        assert found.tobytes() == alerts.tobytes()
        assert stage.counts() == counts
        assert stage.customers() == customers
        assert stage.done == COUNT
        assert stage.hosts == hosts


def test_lost_host_is_an_error_and_no_wrong_alert(made, expected):
    records, profiles = made
    with tx.ShardedStage(3, "cpu:1") as stage:
        stage.put(profiles)
        complete = [*stage.run(records[:2000])]
        stage.feed(records[2000:4000])
        pid = stage._engines.cluster.hosts[2].pid
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(denizen.HostLostError, match="host 2 was lost"):
            while True:  # ends when the loss is known
                complete.append(stage.take())
                stage.feed(records[:10])
        for call in (stage.drain, stage.counts, stage.take, lambda: stage.put(profiles)):
            with pytest.raises(denizen.HostLostError, match="begin anew"):
                call()
    reference = tx.Reference()
    reference.put(profiles)
    right = reference.feed(records[:4000])
    found = np.concatenate(complete)
    assert found.tobytes() == right[: len(found)].tobytes()
    assert len(found) >= (right["sequence"] < 2000).sum()


def test_what_a_stage_refuses(made):
    with pytest.raises(denizen.DenizenError, match="circular_hops"):
        tx.ShardedStage(2, "cpu:1", rules=tx.Rules(circular_hops=9))
    with pytest.raises(denizen.ArgumentError, match="horizon = 0"):
        tx.ShardedStage(2, "cpu:1", horizon=0)
    records, _ = made
    with tx.ShardedStage(2, "cpu:1", memory=1 << 19, batch=256) as stage:
        records = np.tile(records, 2)
        records["customer"] = np.arange(len(records))
        with pytest.raises(denizen.ExhaustedError, match=r"host [01]"):
            np.concatenate([*stage.run(records)])


def test_outcomes_are_kept_where_asked_for(made):
    records, profiles = made
    with tx.Stage("cpu:1", keep_outcomes=True, batch=256) as stage:
        stage.put(profiles)
        list(stage.run(records))
        outcomes = stage.take_outcomes()
        counted = stage.counts().outcomes
        assert len(stage.take_outcomes()) == 0
    assert len(outcomes) == COUNT
    assert {name: int((outcomes == k).sum()) for k, name in enumerate(tx.OUTCOMES)} == counted
    # Of those of one customer, the first of an id is accepted, and all that follow it are not.
    seen = set()
    for record, outcome in zip(records, outcomes, strict=True):
        key = (int(record["customer"]), int(record["id"]))
        if tx.OUTCOMES[outcome] == "duplicate":
            assert key in seen
        if tx.OUTCOMES[outcome] == "accepted":
            assert key not in seen
            seen.add(key)
    with tx.Stage("cpu:1") as stage, pytest.raises(denizen.ArgumentError, match="keep_outcomes"):
        stage.take_outcomes()


def test_command(tmp_path):
    words = [sys.executable, "-m", "denizen", "run", "transactions", "--generate", "5000"]
    out = tmp_path / "alerts.jsonl"
    done = subprocess.run(
        [*words, "--hosts", "2", "--check", "--alerts", str(out)],
        capture_output=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert b"the same" in done.stdout
    assert out.read_text().count('"rule"') > 50
    refused = subprocess.run(
        [*words, "--hosts", "2", "--save", str(tmp_path / "s")],
        capture_output=True, timeout=120, check=False,
    )  # fmt: skip
    assert refused.returncode == 2
    assert b"--save is of one host" in refused.stderr

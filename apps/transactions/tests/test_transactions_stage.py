# SPDX-License-Identifier: Apache-2.0
"""A stage, the reference in C++ and the rules as docs/transactions.md has them agree."""

import dataclasses
import urllib.request

import naive
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import denizen
from denizen.apps import transactions as tx

HORIZON = 60
SLOW = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]


def dense(seed, count, accounts, pace, amounts):
    """A stream of few accounts, amounts, times and countries: everything happens often."""
    random = np.random.default_rng(seed)
    records = np.zeros(count, tx.TRANSACTION)
    records["id"] = random.integers(0, 8 * count, count)
    records["customer"] = random.integers(1, accounts + 1, count)
    records["dest"] = random.integers(1, accounts + 2, count)
    records["amount_cents"] = random.choice(amounts, count)
    records["country"] = random.choice([0, 840, 276, 408, 999], count)
    steps = random.choice([-2, 0, 1, 1, 2, 3, 6], count) * pace
    records["ts_ms"] = 100_000 + np.cumsum(steps)
    again = random.random(count) < 0.05
    again[0] = False
    for k in np.flatnonzero(again):
        records[k] = records[random.integers(0, k)]
    return records


STREAM = st.builds(
    dense,
    st.integers(0, 2**32),
    st.integers(1, 240),
    st.integers(2, 7),
    st.sampled_from([1, 5, 10]),
    st.sampled_from([(90, 95, 100, 101), (50, 90, 110, 250, 600), (95,)]),
)
RULES = st.builds(
    tx.Rules,
    amount_limit=st.sampled_from([100, 120]),
    exposed_limit=st.sampled_from([90, 300]),
    dormant_amount=st.just(60),
    dormant_ms=st.sampled_from([30, 200]),
    velocity_window_ms=st.sampled_from([1, 50, 400]),
    circular_window_ms=st.sampled_from([1, 60, 1000]),
    circular_amount=st.sampled_from([0, 95]),
    lateness_ms=st.sampled_from([0, 30, 10_000]),
    velocity_limit=st.integers(1, 8),
    circular_hops=st.integers(2, 4),
    circular_percent=st.sampled_from([0, 10, 50]),
    enabled=st.sampled_from([0xFE, 0x7E, 0xBE]),
)


def some_profiles():
    profiles = np.zeros(2, tx.PROFILE)
    profiles["customer"] = (1, 2)
    profiles["home"] = 840
    profiles["allowed"] = 1 << tx.country_bit(276)
    profiles["flags"] = (tx.EXPOSED, tx.ENHANCED)
    profiles["velocity_limit"] = (0, 2)
    profiles["dormant_ms"] = (25, 0)
    profiles["amount_limit"] = (0, 95)
    return profiles


def plain(alerts):
    return [
        (
            int(a["sequence"]),
            (
                tx.RULE_NAMES[a["rule"] - 1],
                tx.SEVERITIES[a["severity"]],
                int(a["score"]),
                int(a["value"]),
                int(a["limit"]),
                tuple(a["path"].tolist()[: max(int(a["hops"]) - 1, 0)]),
            ),
        )
        for a in alerts
    ]


@settings(max_examples=100, deadline=None, suppress_health_check=SLOW)
@given(records=STREAM, rules=RULES)
def test_the_reference_is_what_the_document_says(records, rules):
    slow = naive.Naive(rules, some_profiles(), HORIZON)
    expected = [(k, alert) for k, t in enumerate(records) for alert in slow.feed(t)]
    reference = tx.Reference(rules, HORIZON)
    reference.put(some_profiles())
    assert plain(reference.feed(records)) == expected
    assert reference.outcomes() == slow.outcomes


PLAN = st.fixed_dictionaries(
    {
        "cuts": st.lists(st.integers(1, 60), min_size=1, max_size=8),
        "shards": st.integers(1, 7),
        "batch": st.integers(1, 64),
        "depth": st.integers(1, 4),
        "change": st.integers(0, 240),
        "drills": st.lists(
            st.tuples(
                st.integers(0, 6),
                st.sampled_from(["split", "judge", "search"]),
                st.integers(0, 9),
            ),
            max_size=8,
        ),
    }
)


@settings(max_examples=25, deadline=None, suppress_health_check=SLOW)
@given(records=STREAM, rules=RULES, later=RULES, plan=PLAN)
def test_a_stage_is_the_reference_however_it_is_cut(records, rules, later, plan):
    cuts, shards, change, drills = (plan[k] for k in ("cuts", "shards", "change", "drills"))
    later = dataclasses.replace(later, version=2)
    reference = tx.Reference(rules, HORIZON)
    reference.put(some_profiles())
    expected = [reference.feed(records[:change])]
    reference.change(later)
    expected.append(reference.feed(records[change:]))
    found = []
    sizes = {"batch": plan["batch"], "depth": plan["depth"], "horizon": HORIZON}
    with tx.Stage("cpu:3", shards=shards, rules=rules, **sizes) as stage:
        stage.put(some_profiles())
        for part, following in ((records[:change], None), (records[change:], later)):
            if following is not None:
                stage.change(following)
            at, k = 0, 0
            while at < len(part):
                if drills:
                    shard, within, after = drills[k % len(drills)]
                    stage.drill(shard % shards, within, after)
                stage.feed(part[at : at + cuts[k % len(cuts)]])
                found.append(stage.take())
                at += cuts[k % len(cuts)]
                k += 1
        found.append(stage.drain())
        assert stage.counts().outcomes == reference.outcomes()
    assert plain(np.concatenate(found)) == plain(np.concatenate(expected))
    assert np.concatenate(found).tobytes() == np.concatenate(expected).tobytes()


def test_a_stage_goes_on_from_a_file(tmp_path):
    records, profiles = tx.generate(8000, seed=5, customers=100, share=0.5)
    reference = tx.Reference(horizon=3000)
    reference.put(profiles)
    expected = reference.feed(records)
    assert set(expected["rule"].tolist()) == set(range(1, 8))
    path = tmp_path / "state.dzs"
    with tx.Stage("cpu:2", horizon=3000, batch=500) as stage:
        stage.put(profiles)
        stage.feed(records[:4321])
        stage.save(path)
        first = stage.drain()
        assert stage.customers() == 100
    with tx.Stage("cpu:1", horizon=3000, shards=3, restore=path) as stage:
        assert stage.customers() == 100
        assert stage.done == 4321
        stage.feed(records[4321:])
        rest = stage.drain()
    assert np.concatenate([first, rest]).tobytes() == expected.tobytes()
    assert [file.name for file in tmp_path.iterdir()] == ["state.dzs"]

    with pytest.raises(denizen.SnapshotError, match="horizon is 3000, not 1048576"):
        tx.Stage("cpu:1", restore=path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(denizen.SnapshotError, match="is truncated"):
        tx.Stage("cpu:1", horizon=3000, restore=path)
    middle = bytearray(whole)
    middle[len(whole) // 2] ^= 0x55
    path.write_bytes(middle)
    with pytest.raises(denizen.SnapshotError, match=r'of section "\w+" does not match'):
        tx.Stage("cpu:1", horizon=3000, restore=path)
    with pytest.raises(denizen.SnapshotError, match="No such file"):
        tx.Stage("cpu:1", restore=tmp_path / "none")


def test_what_cannot_be_is_refused():
    with tx.Stage("cpu:1") as stage:
        with pytest.raises(denizen.ArgumentError, match="circular_hops = 5; use 2 to 4"):
            stage.change(tx.Rules(circular_hops=5))
        with pytest.raises(denizen.ArgumentError, match="records are of"):
            stage.feed(np.zeros(3))
        with pytest.raises(denizen.ArgumentError, match='"jduge" is no pass'):
            stage.drill(0, "jduge")
        with pytest.raises(denizen.ArgumentError, match="shard = 9"):
            stage.drill(9, "judge")
        twice = np.zeros(2, tx.PROFILE)
        with pytest.raises(denizen.ArgumentError, match="two profiles are of customer 0"):
            stage.put(twice)
    with pytest.raises(denizen.ClosedError):
        stage.take()
    with pytest.raises(denizen.ArgumentError, match="one node"):
        tx.Stage("cpu:2x1")
    with pytest.raises(denizen.ArgumentError, match="memory = 100; use 524288 to"):
        tx.Stage("cpu:1", memory=100)
    with pytest.raises(denizen.ArgumentError, match="whole number"):
        tx.Rules(amount_limit=-1)
    with pytest.raises(denizen.ArgumentError, match="1000 to"):
        tx.generate(10)
    with pytest.raises(denizen.ArgumentError, match="below 1000"):
        tx.country_bit(1000)


def test_memory_that_is_full_loses_nothing(tmp_path):
    records = np.zeros(5000, tx.TRANSACTION)
    records["id"] = records["ts_ms"] = np.arange(5000)
    records["customer"] = np.arange(5000) + 1
    records["amount_cents"] = 2_000_000
    expected = tx.Reference().feed(records)
    with tx.Stage("cpu:2", batch=200, memory=1 << 20) as stage:
        stage.feed(records[:600])
        first = stage.drain()
        stage.save(tmp_path / "state.dzs")
        with pytest.raises(denizen.ExhaustedError, match="no memory for one more customer"):
            for _ in stage.run(records[600:]):
                pass
        assert 600 <= stage.done < 5000
        assert stage.memory == 1 << 20
    with tx.Stage("cpu:1", restore=tmp_path / "state.dzs") as stage:
        stage.feed(records[stage.done :])
        rest = stage.drain()
        assert stage.customers() == 5000
    assert np.concatenate([first, rest]).tobytes() == expected.tobytes()


def test_rules_as_people_write_them():
    rules = tx.Rules.from_dict({"enabled": ["velocity", "dormant"], "high_risk": [840, 276]})
    assert rules.enabled == 1 << 1 | 1 << 7
    assert rules.high_risk == 1 << tx.country_bit(840) | 1 << tx.country_bit(276)
    assert tx.Rules.unpacked(rules.packed()) == rules
    assert tx.Rules.unpacked(denizen._core.transaction_rules) == tx.Rules()
    with pytest.raises(denizen.ArgumentError, match='no "colour"'):
        tx.Rules.from_dict({"colour": 1})
    with pytest.raises(denizen.ArgumentError, match='"speed" is no rule'):
        tx.Rules.from_dict({"enabled": ["speed"]})


def test_counts_for_prometheus():
    pytest.importorskip("prometheus_client")
    from denizen.apps.transactions.metrics import Collector  # noqa: PLC0415

    records, profiles = tx.generate(3000, seed=2)
    with tx.Stage("cpu:1") as stage:
        seen = Collector(stage)
        url = stage.runtime.serve_metrics(0, also=[seen])
        stage.put(profiles)
        stage.feed(records)
        alerts = stage.drain()
        seen.see(alerts)
        with urllib.request.urlopen(f"{url}/metrics", timeout=10) as answer:
            text = answer.read().decode()
    accepted = stage.counts().outcomes["accepted"]
    assert f'denizen_transactions_total{{outcome="accepted"}} {accepted:.1f}' in text
    large = int(((alerts["rule"] == 2) & (alerts["severity"] == 1)).sum())
    assert large > 0
    assert (
        f'denizen_transaction_alerts_total{{rule="amount",severity="medium"}} {large:.1f}' in text
    )
    assert "denizen_transaction_rules_version 1.0" in text
    assert "denizen_messages_handled_total" in text  # the runtime's own beside them

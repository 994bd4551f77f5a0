# SPDX-License-Identifier: Apache-2.0
"""The audited failures of `denizen bench cluster`: each message under load is accounted for."""

import collections

import pytest

from denizen.lab import losses


def test_some_failures_of_each_kind_leave_no_message_unaccounted_for(device):
    trials = [
        (3, "tcp", ["mend", "cut", "kill"]),
        (3, "rings", ["stop", "kill"]),
    ]
    total = losses.Account()
    for seed, (hosts, transport, events) in enumerate(trials):
        total += losses.run(hosts, transport, events, seed, device=device, deadline=3.0)
    assert total.complete
    assert total.events == {"mend": 1, "cut": 1, "kill": 2, "stop": 1}
    assert total.dead > 0
    assert f"{total.sent:,} messages sent" in str(total)


def test_a_message_that_is_missing_is_found():
    """One dead letter less, and one sink that has not had the last number."""
    cluster, trial = _quiet(("rings", ["kill"]), 2)
    with cluster:
        letters = cluster.dead_letters()
        numbers = [d for d in letters[0] if d["type"] == "Number"]
        assert numbers
        numbers.pop(len(numbers) // 2)
        trial.letters = {0: numbers}
        sent = trial.until
        with pytest.raises(losses.AccountError, match="not those after"):
            trial.pair(0, 1, sent, None, "lost")
        with pytest.raises(losses.AccountError, match=r"\(up\)"):
            trial.pair(0, 1, sent, sent - 1, "up")


def _quiet(what, hosts):
    transport, events = what
    cluster = losses.Cluster(
        losses.program(), hosts, transport=transport, max_actors=64, dead_letter_slots=1 << 16
    )
    trial = losses._Trial(cluster, hosts, 2.0, losses.np.random.default_rng(1))
    for event in events:
        trial.go_through(event)
    trial.load()
    trial.finish()
    return cluster, trial


def test_the_plan_has_as_many_failures_as_are_asked_for():
    for seed in range(20):
        trials = losses.plan(100, 30, 50, seed)
        events = collections.Counter(e for _, _, events in trials for e in events)
        assert events == {"kill": 100, "stop": 30, "cut": 25, "mend": 25}
        assert all(transport == "tcp" for _, transport, e in trials if "cut" in e or "mend" in e)
        assert {hosts for hosts, _, _ in trials} == {2, 3}
        for hosts, _, of_trial in trials:
            assert sum(e in ("kill", "stop") for e in of_trial) < hosts


@pytest.mark.deep
def test_a_hundred_kills_thirty_stops_and_fifty_cuts():
    total = losses.Account()
    for number, (hosts, transport, events) in enumerate(losses.plan(100, 30, 50, 1)):
        total += losses.run(hosts, transport, events, number)
    print(total)  # pytest -s or -rP shows it
    assert total.complete
    assert total.events == {"kill": 100, "stop": 30, "cut": 25, "mend": 25}

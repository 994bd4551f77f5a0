# SPDX-License-Identifier: Apache-2.0
"""A resident model scores each accepted payment: the scores are what NumPy computes of the whole
stream, and its alerts come beside those of the rules, whose own stay byte for byte the same."""

import json
import re

import numpy as np
import pytest

import denizen
from denizen import cli, infer
from denizen.apps import transactions as tx
from denizen.apps.transactions import alerts as output

COUNT = 3000


def some_model(seed=0, *, scale=2.0):
    random = np.random.default_rng(seed)

    def weights(*shape):
        return (scale * random.normal(size=shape) / np.sqrt(shape[-1])).astype("f4")

    features, hidden = len(tx.FEATURES), 6
    ops = (
        infer.Op("lstm", (0,), (weights(4 * hidden, features), weights(4 * hidden, hidden),
                                weights(4 * hidden)), name="lstm"),
        infer.Op("linear", (1,), (weights(1, hidden), np.zeros(1, "f4")), name="head"),
        infer.Op("sigmoid", (2,), name="score"),
    )  # fmt: skip
    return infer.Model((features, hidden, 1, 1), ops, 3)


@pytest.fixture(scope="module")
def made():
    return tx.generate(COUNT, seed=9)


@pytest.fixture(scope="module")
def expected(made):
    reference = tx.Reference()
    reference.put(made[1])
    return reference.feed(made[0])


@pytest.fixture(params=["cpu:2", pytest.param("gpu:0", marks=pytest.mark.gpu)])
def device(request):
    return request.param


def outcomes(made):
    with tx.Stage("cpu:1", keep_outcomes=True) as stage:
        stage.put(made[1])
        stage.feed(made[0])
        stage.drain()
        return stage.take_outcomes()


def row(t, profile, before, limit=1_000_000):
    """A payment's features, written down from what docs/transactions.md says, one at a time."""
    own = int(profile["amount_limit"]) or limit
    cents, country, home = int(t["amount_cents"]), int(t["country"]), int(profile["home"])
    abroad = home > 0 and country > 0 and country != home
    blocked = abroad and not int(profile["allowed"]) >> tx.country_bit(country) & 1
    gap = 0.0
    if before is not None:
        gap = np.log10(1 + max(int(t["ts_ms"]) - before, 0) / 1000) / 4 - 1
    return np.array([
        np.log10(1 + cents / 100) / 3 - 1, np.log10((cents + 1) / own) / 2 + 1, gap, before is None,
        abroad, blocked, bool(profile["flags"] & 1), bool(profile["flags"] & 2),
    ], "f4")  # fmt: skip


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def by_hand(model, made, accepted):
    """The score of each record in double precision, customer by customer; NaN if not accepted."""
    (w, r, b), (v, offset) = (op.weights for op in model.ops[:2])
    hidden = r.shape[1]
    profiles = {int(p["customer"]): p for p in made[1]}
    states, scores = {}, np.full(len(made[0]), np.nan)
    for k in np.flatnonzero(accepted):
        t = made[0][k]
        who = int(t["customer"])
        before, h, c = states.get(who, (None, np.zeros(hidden), np.zeros(hidden)))
        a = w @ row(t, profiles[who], before).astype(float) + r @ h + b
        i, f, g, o = a[:hidden], a[hidden : 2 * hidden], a[2 * hidden : 3 * hidden], a[3 * hidden :]
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        states[who] = int(t["ts_ms"]), h, c
        scores[k] = sigmoid(v @ h + offset)[0]
    return scores


def scored(made, model, device="cpu:1", *, pieces=(), **given):
    with tx.ScoredStage(model, device, keep_scores=True, customers=4096, **given) as stage:
        stage.put(made[1])
        alerts, at = [], 0
        for size in pieces or (len(made[0]),):
            stage.feed(made[0][at : at + size])
            alerts.append(stage.take())
            at += size
        alerts.append(stage.drain())
        return np.concatenate(alerts), stage.take_scores(), stage.counts()


def test_each_accepted_payment_has_the_score_of_its_customers_payments(made, expected, device):
    accepted = outcomes(made) == 0
    wanted = by_hand(some_model(), made, accepted)
    alerts, scores, counts = scored(made, some_model(), device, threshold=0.6)
    assert (~accepted).sum() > 0 and np.array_equal(np.isnan(scores), ~accepted)
    np.testing.assert_allclose(scores[accepted], wanted[accepted], atol=2e-5)
    of_model = alerts["rule"] == 8
    assert alerts[~of_model].tobytes() == expected.tobytes()
    assert counts.alerts == len(alerts)
    mine = alerts[of_model]
    assert mine["sequence"].tolist() == np.flatnonzero(scores >= np.float32(0.6)).tolist()
    assert 100 < len(mine) < accepted.sum()
    records = made[0][mine["sequence"]]
    for name in ("id", "customer", "dest", "amount_cents", "ts_ms", "country"):
        assert np.array_equal(mine[name], records[name])
    np.testing.assert_allclose(mine["value"], wanted[mine["sequence"]] * 1e6, atol=30)
    assert set(mine["limit"].tolist()) == {600_000} and set(mine["rules_version"].tolist()) == {1}
    assert np.array_equal(mine["severity"] == 2, mine["value"] >= 800_000)
    assert np.array_equal(mine["score"], mine["value"] // 10_000)
    places = list(zip(alerts["sequence"].tolist(), alerts["rule"].tolist(), strict=True))
    assert places == sorted(places)


def test_cuts_batches_and_shards_change_nothing(made):
    alerts, scores, _ = scored(made, some_model())
    cut = (1, 2, 700, 1, 96, 1200, 1000)
    again = scored(made, some_model(), "cpu:2", pieces=cut, shards=3, batch=64)
    assert again[0].tobytes() == alerts.tobytes()
    assert again[1].tobytes() == scores.tobytes()


def test_weights_rules_and_profiles_change_at_a_place_of_the_stream(made):
    records, profiles = made
    first, second = some_model(0), some_model(1)
    changed = profiles.copy()
    changed["flags"] = tx.EXPOSED
    with tx.ScoredStage(first, "cpu:1", keep_scores=True, threshold=0.5, customers=4096) as stage:
        stage.put(profiles)
        stage.feed(records[:1000])
        assert stage.swap(second) == 2
        stage.feed(records[1000:2000])
        stage.change(tx.Rules(amount_limit=50_000, version=2))
        stage.put(changed)
        stage.feed(records[2000:])
        alerts, scores = stage.drain(), stage.take_scores()
    whole = scored(made, first)[1]
    assert scores[:1000].tobytes() == whole[:1000].tobytes()
    mine = alerts[alerts["rule"] == 8]
    assert np.array_equal(mine["rules_version"], np.where(mine["sequence"] < 1000, 1, 2))

    # The same by hand: the states go on under other weights, then under other features.
    (v0, v1), states = ((first.ops, second.ops), {})
    accepted = ~np.isnan(scores)
    for k in np.flatnonzero(accepted):
        t, who = records[k], int(records[k]["customer"])
        (w, r, b), (v, offset) = (op.weights for op in (v0 if k < 1000 else v1)[:2])
        before, h, c = states.get(who, (None, np.zeros(6), np.zeros(6)))
        known = (profiles if k < 2000 else changed)[who - 1]
        limit = 1_000_000 if k < 2000 else 50_000
        a = np.split(w @ row(t, known, before, limit).astype(float) + r @ h + b, 4)
        c = sigmoid(a[1]) * c + sigmoid(a[0]) * np.tanh(a[2])
        h = sigmoid(a[3]) * np.tanh(c)
        states[who] = int(t["ts_ms"]), h, c
        assert abs(scores[k] - sigmoid(v @ h + offset)[0]) < 2e-5, k


def test_a_model_that_is_none_is_refused(made):
    features = len(tx.FEATURES)
    wide = infer.Op("linear", (0,), (np.ones((2, features), "f4"), np.zeros(2, "f4")))
    with pytest.raises(denizen.ArgumentError, match=r"takes 8 floats and gives 2; a score needs"):
        tx.ScoredStage(infer.Model((features, 2), (wide,), 1), "cpu:1")
    for name, value, why in (
        ("threshold", 0, "above 0"), ("restore", "x.dzs", "use Stage"),
        ("keep_outcomes", True, "use Stage"),
    ):  # fmt: skip
        with pytest.raises(denizen.ArgumentError, match=why):
            tx.ScoredStage(some_model(), "cpu:1", **{name: value})
    logit = infer.Op("linear", (0,), (np.full((1, features), 9, "f4"), np.zeros(1, "f4")))
    model = infer.Model((features, 1), (logit,), 1)
    with pytest.raises(denizen.ArgumentError, match=r"not 0 to 1; end it with a sigmoid"):
        scored(made, model)
    with tx.ScoredStage(some_model(), "cpu:1", customers=20) as stage:
        with pytest.raises(denizen.errors.ExhaustedError, match=r"a state for 20; .*customers="):
            stage.put(made[1])
        with pytest.raises(denizen.ArgumentError, match="no states of the model"):
            stage.save("x.dzs")


@pytest.fixture(scope="module")
def fitted():
    """Of a small stream with many cases, in some seconds."""
    return tx.fit(*tx.generate(8000, seed=2, share=0.2), rounds=20)


def test_a_fitted_model_finds_what_the_rules_do_not(fitted):
    records, _ = made = tx.generate(20_000, seed=5)
    alerts, scores, _ = scored(made, fitted, threshold=0.8)
    found = tx.detection(alerts, tx.suspicious(records), ~np.isnan(scores))
    assert found["rules"].precision > 0.99 and 0.4 < found["rules"].recall < 0.7
    assert found["model"].precision > 0.9
    assert found["both"].recall > found["rules"].recall + 0.08
    again = tx.fit(*tx.generate(1000, seed=2, share=0.5), rounds=1)
    once_more = tx.fit(*tx.generate(1000, seed=2, share=0.5), rounds=1)
    for one, other in zip(again.ops, once_more.ops, strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(one.weights, other.weights, strict=True))


def test_what_cannot_be_fitted_is_told(made):
    for given, why in (
        ({"labels": np.zeros(COUNT)}, "give bool"),
        ({"labels": np.zeros(COUNT, bool)}, "all of one label"),
        ({"rounds": 0}, "rounds = 0"),
    ):
        with pytest.raises(denizen.ArgumentError, match=why):
            tx.fit(*made, **given)


def test_detection_counts_payments_and_accepted_ones_alone():
    alerts = np.zeros(5, tx.ALERT)
    alerts["sequence"] = [10, 10, 11, 12, 14]
    alerts["rule"] = [1, 2, 8, 2, 8]
    wanted = np.array([True, True, False, True, True])
    accepted = np.array([True, True, True, True, False])
    found = tx.detection(alerts, wanted, accepted, first=10)
    assert found["rules"] == tx.Found(1 / 2, 1 / 3)
    assert found["model"] == tx.Found(1.0, 1 / 3)
    assert found["both"] == tx.Found(2 / 3, 2 / 3)


def test_the_command_fits_a_model_and_scores_with_it(tmp_path, capsys):
    def run(*words):
        try:
            code = cli.main(["run", "transactions", *map(str, words)])
        except SystemExit as ended:
            code = ended.code
        return code, *capsys.readouterr()

    model, lines = tmp_path / "m.npz", tmp_path / "alerts.jsonl"
    code, out, err = run("--generate", 1000, "--seed", 2, "--fit", model)
    assert code == 0, err
    assert "to be found" in out
    assert infer.model_of(model).widths == (len(tx.FEATURES), 16, 1, 1)
    made_by_hand = tmp_path / "h.npz"
    some_model().save(made_by_hand)
    words = ("--generate", COUNT, "--seed", 9, "--device", "cpu:1", "--score", made_by_hand)
    code, out, err = run(*words, "--threshold", 0.6, "--check", "--alerts", lines)
    assert code == 0, err
    assert "the same" in out
    made = tx.generate(COUNT, seed=9)
    alerts, scores, _ = scored(made, some_model(), threshold=0.6)
    for name, found in tx.detection(alerts, tx.suspicious(made[0]), ~np.isnan(scores)).items():
        assert re.search(f"found by {name} .*{re.escape(str(found))}", out), out
    assert [json.loads(line) for line in lines.read_text().splitlines()] == output.objects(alerts)
    for words, why in (
        (("--score", made_by_hand, "--save", "x.dzs"), "no states of a model"),
        (("--score", made_by_hand, "--hosts", 2), "--score is of one host"),
        (("--score", tmp_path / "none.npz"), "cannot be read"),
        (("--score", made_by_hand, "--customers", 3), "make room for more"),
        (("--fit", "m.onnx"), "ends in .npz"),
    ):
        code, _, err = run("--generate", 1000, "--device", "cpu:1", *words)
        assert code != 0 and why in err, (words, err)
        assert len(err.splitlines()) == 1

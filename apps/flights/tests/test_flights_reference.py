# SPDX-License-Identifier: Apache-2.0
"""The reference against pandas, which reads the file and groups it by name on its own."""

import numpy as np
import pytest

from denizen.apps.flights import load, reference
from denizen.apps.flights.load import DataError


@pytest.fixture(scope="module")
def real():
    pandas = pytest.importorskip("pandas")
    try:
        path = load.package_file()
    except DataError as error:
        pytest.skip(str(error))
    frame = pandas.read_csv(path, keep_default_na=True)
    frame["tailnum"] = frame["tailnum"].fillna("")
    flights = load.load(path)
    return frame, flights, reference.compute(flights)


def test_aircraft_agree_with_pandas(real):
    frame, flights, made = real
    groups = frame.groupby("tailnum")
    expected = {
        "flights": groups.size(),
        "cancelled": groups["dep_delay"].agg(lambda column: column.isna().sum()),
        "landed": groups["arr_delay"].count(),
        "minutes": groups["air_time"].sum(),
        "dep_delay": groups["dep_delay"].sum(),
        "arr_delay": groups["arr_delay"].sum(),
        "miles": groups["distance"].sum(),
        "mean_dep_delay": groups["dep_delay"].mean().fillna(0),
        "mean_arr_delay": groups["arr_delay"].mean().fillna(0),
    }
    for figure, column in expected.items():
        wanted = column.reindex(flights.tails).to_numpy()
        assert np.allclose(made.aircraft[figure], wanted, rtol=1e-12, atol=0), figure
    assert made.aircraft.keys() - expected == {"misordered"}


def test_airports_agree_with_pandas(real):
    frame, flights, made = real
    leaving, coming = frame.groupby("origin"), frame.groupby("dest")
    expected = {
        "departures": leaving.size(),
        "cancelled": leaving["dep_delay"].agg(lambda column: column.isna().sum()),
        "dep_delay": leaving["dep_delay"].sum(),
        "arrivals": coming.size(),
        "landed": coming["arr_delay"].count(),
        "arr_delay": coming["arr_delay"].sum(),
        "minutes": leaving["air_time"].sum().add(coming["air_time"].sum(), fill_value=0),
        "mean_dep_delay": leaving["dep_delay"].mean(),
        "mean_arr_delay": coming["arr_delay"].mean(),
    }
    for figure, column in expected.items():
        wanted = column.reindex(flights.airports).fillna(0).to_numpy()
        assert np.allclose(made.airports[figure], wanted, rtol=1e-12, atol=0), figure
    assert made.airports.keys() == expected.keys()


def test_totals_add_up(real):
    frame, _, made = real
    assert made.aircraft["flights"].sum() == len(frame) == 336_776
    assert made.airports["departures"].sum() == made.airports["arrivals"].sum() == len(frame)
    assert made.airports["minutes"].sum() == 2 * made.aircraft["minutes"].sum()


def test_comparison_names_the_first_difference():
    expected = {"flights": np.array([1, 2, 3]), "delay": np.array([-1, 0, 1])}
    found = {
        "flights": np.array([1, 2, 3], dtype=np.uint32),
        "delay": np.array([-1, 5, 6], dtype=np.int32),
    }
    result = reference.compare("aircraft", ["N1", "", "N3"], found, expected)
    assert result.equal.tolist() == [True, False, False]
    assert result.figures == 6
    assert result.first == "delay of aircraft (no tail number) is 5, expected 0"
    same = reference.compare("aircraft", ["N1", "", "N3"], expected, expected)
    assert same.first is None
    assert same.equal.all()


def test_an_unsigned_figure_that_wrapped_is_different():
    expected = {"flights": np.array([-1])}
    found = {"flights": np.array([2**32 - 1], dtype=np.uint32)}
    assert not reference.compare("x", ["a"], found, expected).equal.any()


def test_means_of_nothing_are_zero():
    total, count = np.array([3, 0]), np.array([2, 0])
    assert reference.mean(total, count).tolist() == [1.5, 0.0]

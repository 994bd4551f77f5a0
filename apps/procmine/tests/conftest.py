# SPDX-License-Identifier: Apache-2.0
import gzip
import os
from pathlib import Path

import numpy as np
import pytest
from by_hand import TRACES, columns

from denizen import procmine


@pytest.fixture
def log():
    return procmine.from_columns(*columns(TRACES))


@pytest.fixture
def mined(log):
    return procmine.mine(log)


@pytest.fixture
def make():
    """A log out of traces in the short form of TRACES."""
    return lambda traces: procmine.from_columns(*columns(traces))


REAL = ("02_teleclaims", "07_bpic2013_incidents", "08_receipt")
FOLDER = Path(os.environ.get("DENIZEN_DATA", "nowhere"))
FILES = [FOLDER / f"{name}.xes.gz" for name in REAL]


@pytest.fixture(
    scope="session",
    params=["hand", "made", *(path for path in FILES if path.is_file())],
    ids=lambda log: getattr(log, "name", log),
)
def log_file(request, tmp_path_factory):
    """The path of a log: one by hand, a made one, and the real ones in DENIZEN_DATA's folder."""
    if isinstance(request.param, Path):
        return request.param
    made = (
        procmine.generate(3000, activities=12, seed=5)
        if request.param == "made"
        else procmine.from_columns(*columns(TRACES))
    )
    path = tmp_path_factory.mktemp("logs") / f"{request.param}.xes.gz"
    path.write_bytes(gzip.compress(xes_of(made).encode()))
    return path


def xes_of(log):
    """Its text in XES, in the order of the cases."""
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', '<log xes.version="1.0">']
    for case, name in enumerate(log.cases):
        lines.append(f'<trace><string key="concept:name" value="{name}"/>')
        for event in np.flatnonzero(log.case == case):
            step, time = (
                log.activities[log.activity[event]],
                np.datetime64(int(log.time[event]), "us"),
            )
            lines.append(
                f'<event><string key="concept:name" value="{step}"/>'
                f'<date key="time:timestamp" value="{time}+00:00"/></event>'
            )
        lines.append("</trace>")
    return "\n".join([*lines, "</log>\n"])

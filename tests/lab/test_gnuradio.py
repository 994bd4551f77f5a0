# SPDX-License-Identifier: Apache-2.0
"""The arm of GNU Radio runs where that is, says why it does not elsewhere, and is compared."""

import numpy as np
import pytest

from denizen.lab import cases, gnuradio
from denizen.lab.record import Measured, rows_of


def interpreter(folder, text):
    path = folder / "python3"
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)
    return str(path)


def test_its_rates_are_compared_with_ours(tmp_path, monkeypatch):
    # Arguments: -c, the program, blocks, samples, rounds.
    says = """echo '{"rates": [10, 10, 10], "right": true, "version": "3.10.5"}'"""
    checks = 'case "$2" in *multiply_const_ff*) ;; *) exit 1;; esac; [ $# = 5 ] || exit 1\n'
    monkeypatch.setenv("DENIZEN_GNURADIO_PYTHON", interpreter(tmp_path, checks + says))
    ours = [
        Measured("chain of saxpy", {"blocks": n}, "Msps", np.full(3, 40.0), 3, True)
        for n in (1, 4, 12)
    ]
    theirs = cases.measure("flow", "cpu:1", quick=True, beside=ours)
    assert [item.params["blocks"] for item in theirs] == [1, 4, 12]
    assert all(item.verified for item in theirs)
    rows = rows_of([*ours, *theirs])
    assert [row.ratio_to for row in rows[3:]] == [{"chain of saxpy": 0.25}] * 3


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, "there is no"),
        ("echo \"ModuleNotFoundError: No module named 'gnuradio'\" >&2; exit 1", "No module named"),
    ],
)
def test_without_it_the_reason_is_told(text, why, tmp_path, monkeypatch, capsys):
    path = "/nowhere/python3" if text is None else interpreter(tmp_path, text)
    monkeypatch.setenv("DENIZEN_GNURADIO_PYTHON", path)
    assert gnuradio.chains("cpu:1", quick=True) == []
    assert why in capsys.readouterr().err

# SPDX-License-Identifier: Apache-2.0
"""Draws docs/adsb-detection.svg from a record of ``denizen bench adsb``, by Matplotlib.

Usage: python tools/plot_detection.py benchmarks/results/adsb/DEVICE.json docs/adsb-detection.svg
"""

import json
import sys

import matplotlib as mpl
from matplotlib.figure import Figure

CURVES = {"detection": ("denizen", "#0b62d6"), "detection, dump1090": ("dump1090", "#c2571a")}


def main(path: str, out: str) -> None:
    with open(path, encoding="utf-8") as file:
        rows = json.load(file)["rows"]
    mpl.rcParams["svg.hashsalt"] = "denizen"  # the same record gives the same file
    mpl.rcParams["svg.fonttype"] = "none"
    figure = Figure(figsize=(6.4, 3.6), layout="constrained")
    axes = figure.add_subplot(xlabel="pulses over noise, dB", ylabel="frames found", ylim=(0, 102))
    axes.yaxis.set_major_formatter("{x:.0f} %")
    axes.grid(axis="y", color="#dde2e9")
    axes.spines[["top", "right"]].set_visible(False)
    for case, (name, colour) in CURVES.items():
        found = [row for row in rows if row["case"] == case]
        if not found:
            sys.exit(
                f'plot_detection: {path} has no case "{case}"; name a record that was taken with it'
            )
        levels = [sum(map(float, row["params"]["db"].split(" to "))) / 2 for row in found]
        median = [row["median"] for row in found]
        below = [row["median"] - min(row["samples"]) for row in found]
        above = [max(row["samples"]) - row["median"] for row in found]
        axes.errorbar(
            levels, median, (below, above), fmt="o-", color=colour, markersize=4, label=name
        )
    axes.legend(frameon=False, loc="lower right")
    figure.savefig(out, metadata={"Date": None})


if __name__ == "__main__":
    main(*sys.argv[1:])

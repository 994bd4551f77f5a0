# SPDX-License-Identifier: Apache-2.0
"""Draws docs/adsb-detection.svg from a record of ``denizen bench adsb``.

Usage: python tools/plot_detection.py benchmarks/results/adsb/DEVICE.json > docs/adsb-detection.svg
"""

import json
import sys
from html import escape

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 360, 56, 130, 24, 48
CURVES = {"detection": ("denizen", "#0b62d6"), "detection, dump1090": ("dump1090", "#c2571a")}


def main(path: str) -> None:
    with open(path, encoding="utf-8") as file:
        rows = json.load(file)["rows"]
    curves = {}
    for row in rows:
        if row["case"] in CURVES:
            low, high = map(float, row["params"]["db"].split(" to "))
            samples = sorted(row["samples"])
            points = curves.setdefault(row["case"], [])
            points.append(((low + high) / 2, row["median"], samples[0], samples[-1]))
    levels = [x for points in curves.values() for x, *_ in points]
    least, most = min(levels) - 1.5, max(levels) + 1.5

    def at(db: float, percent: float) -> tuple[float, float]:
        x = LEFT + (db - least) / (most - least) * (WIDTH - LEFT - RIGHT)
        return round(x, 1), round(TOP + (1 - percent / 100) * (HEIGHT - TOP - BOTTOM), 1)

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'font-family="sans-serif" font-size="13">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
    ]
    for percent in range(0, 101, 20):
        (x, y), (end, _) = at(least, percent), at(most, percent)
        out.append(f'<path d="M{x} {y}H{end}" stroke="#dde2e9"/>')
        out.append(f'<text x="{x - 8}" y="{y + 4}" text-anchor="end">{percent} %</text>')
    for db in range(round(least), round(most) + 1, 3):
        x, y = at(db, 0)
        out.append(f'<path d="M{x} {y}v5" stroke="#555"/>')
        out.append(f'<text x="{x}" y="{y + 20}" text-anchor="middle">{db}</text>')
    x, y = at((least + most) / 2, 0)
    out.append(f'<text x="{x}" y="{y + 38}" text-anchor="middle">pulses over noise, dB</text>')
    for case, points in curves.items():
        name, color = CURVES[case]
        line = " ".join("{},{}".format(*at(db, median)) for db, median, _, _ in points)
        out.append(f'<polyline points="{line}" fill="none" stroke="{color}" stroke-width="2"/>')
        for db, median, low, high in points:
            (x, y), (_, top), (_, bottom) = at(db, median), at(db, high), at(db, low)
            out.append(f'<path d="M{x} {bottom}V{top}" stroke="{color}"/>')
            out.append(f'<circle cx="{x}" cy="{y}" r="3.5" fill="{color}"/>')
        x, y = at(points[-1][0], points[-1][1])
        out.append(f'<text x="{x + 16}" y="{y + 4}" fill="{color}">{escape(name)}</text>')
    print("\n".join([*out, "</svg>"]))


if __name__ == "__main__":
    main(*sys.argv[1:])

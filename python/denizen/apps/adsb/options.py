# SPDX-License-Identifier: Apache-2.0
"""The words of ``denizen run adsb``."""

from __future__ import annotations

import argparse

from denizen.arguments import Commands, positive, to_write
from denizen.iq.options import SOURCES, rate


def _range(text: str) -> tuple[float, float]:
    low, _, high = text.partition(":")
    try:
        return float(low), float(high or low)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f'"{text}" is no LOW:HIGH in dB') from error


def _degrees(text: str) -> tuple[float, float]:
    try:
        latitude, longitude = map(float, text.split(","))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f'"{text}" is no LATITUDE,LONGITUDE') from error
    if not (-90 <= latitude <= 90 and -180 <= longitude <= 180):
        raise argparse.ArgumentTypeError(f'"{text}" is no place on earth')
    return latitude, longitude


def add(commands: Commands) -> None:
    adsb = commands.add_parser("adsb", help="aircraft from a 1090 MHz signal (Mode S, ADS-B)")
    adsb.add_argument("file", metavar="FILE", help=f"I/Q at 2 Msps: {SOURCES}")
    adsb.add_argument("--rate", type=rate, metavar="HZ", help="samples a second; 2e6 if not given")
    adsb.add_argument(
        "--format", choices=("u8", "i16", "f32"), help="of I and of Q; u8 if not given"
    )
    adsb.add_argument("--json", action="store_true", help="each message as a line of JSON")
    adsb.add_argument("--map", type=to_write, metavar="HTML", help="write a map, a page by itself")
    adsb.add_argument(
        "--position", type=_degrees, metavar="LAT,LON", help="of the antenna, for traffic on ground"
    )
    adsb.add_argument(
        "--device", metavar="DEVICE", help="resident workers: gpu, gpu:N, cpu, cpu:THREADS"
    )
    adsb.add_argument(
        "--generate", action="store_true", help="write a made signal to FILE instead of reading"
    )
    made = adsb.add_argument_group("with --generate")
    made.add_argument("--seconds", type=positive, default=5.0)
    made.add_argument("--aircraft", type=int, default=12, metavar="N")
    made.add_argument("--snr", type=_range, default=(10.0, 30.0), metavar="LOW:HIGH", help="in dB")
    adsb.set_defaults(run=_run)


def _run(given: argparse.Namespace) -> int:
    from denizen.apps.adsb import command as adsb  # noqa: PLC0415

    if given.generate:
        return adsb.generate(
            given.file,
            seconds=given.seconds,
            aircraft=given.aircraft,
            snr=given.snr,
            form=given.format or "u8",
        )
    return adsb.run(
        given.file,
        form=given.format,
        rate=given.rate,
        lines=given.json,
        page=given.map,
        position=given.position,
        device=given.device,
    )

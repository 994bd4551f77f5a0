# SPDX-License-Identifier: Apache-2.0
"""Mode S frames as aircraft send them, as hexadecimal digits: for tests and made signals.

Formats: ICAO Annex 10 volume IV and RTCA DO-260B. ``icao`` is a number of 24 bits everywhere.
"""

from __future__ import annotations

import math

from denizen import _core
from denizen.radio.mode_s import parity

_CHARACTERS = "#ABCDEFGHIJKLMNOPQRSTUVWXYZ##### ###############0123456789######"


def _packed(*fields: tuple[int, int]) -> int:
    """Fields of (value, bits), the first one highest."""
    packed = 0
    for value, bits in fields:
        if not 0 <= value < 1 << bits:
            raise ValueError(f"{value} does not fit in {bits} bits")
        packed = packed << bits | value
    return packed


def _with_parity(body: int, bits: int, overlay: int = 0) -> str:
    frame = f"{body << 24:0{bits // 4}x}"
    return f"{frame[:-6]}{parity(frame) ^ overlay:06x}"


def extended_squitter(icao: int, payload: int, df: int = 17) -> str:
    """DF17 or DF18 with 56 bits of ``payload``."""
    return _with_parity(_packed((df, 5), (5, 3), (icao, 24), (payload, 56)), 112)


def identification(icao: int, callsign: str, category: int = 3) -> str:
    """DF17, type code 4: up to eight letters, digits and spaces."""
    codes = [(_CHARACTERS.index(c), 6) for c in callsign.ljust(8)]
    return extended_squitter(icao, _packed((4, 5), (category, 3), *codes))


def altitude_code(altitude: int) -> int:
    """12 bits for an altitude of -1000 to 50175 ft, in steps of 25 ft."""
    steps = round((altitude + 1000) / 25)
    return _packed((steps >> 4, 7), (1, 1), (steps & 15, 4))


def airborne_position(
    icao: int, latitude: float, longitude: float, altitude: int, *, odd: bool
) -> str:
    """DF17, type code 11; degrees and feet."""
    lat, lon = _core.radio_encode_position(latitude, longitude, odd, False)
    payload = _packed((11, 5), (0, 3), (altitude_code(altitude), 12), (0, 1))
    return extended_squitter(icao, payload << 35 | _packed((int(odd), 1), (lat, 17), (lon, 17)))


def surface_position(
    icao: int, latitude: float, longitude: float, movement: int, track: float, *, odd: bool
) -> str:
    """DF17, type code 7: ``movement`` is the code of 7 bits for the speed, ``track`` in degrees."""
    lat, lon = _core.radio_encode_position(latitude, longitude, odd, True)
    heading = round(track / 360 * 128) % 128
    payload = _packed((7, 5), (movement, 7), (1, 1), (heading, 7), (0, 1))
    return extended_squitter(icao, payload << 35 | _packed((int(odd), 1), (lat, 17), (lon, 17)))


def velocity(icao: int, groundspeed: float, track: float, vertical_rate: int) -> str:
    """DF17, type code 19, subtype 1: kt below 1000, degrees, ft/min."""
    east = round(groundspeed * math.sin(math.radians(track)))
    north = round(groundspeed * math.cos(math.radians(track)))
    climb = round(vertical_rate / 64)
    payload = _packed(
        (19, 5), (1, 3), (0, 5),
        (int(east < 0), 1), (abs(east) + 1, 10), (int(north < 0), 1), (abs(north) + 1, 10),
        (1, 1), (int(climb < 0), 1), (abs(climb) + 1, 9), (0, 10),
    )  # fmt: skip
    return extended_squitter(icao, payload)


def all_call(icao: int, interrogator: int = 0) -> str:
    """DF11, its parity combined with the interrogator's code of 7 bits."""
    return _with_parity(_packed((11, 5), (5, 3), (icao, 24)), 56, interrogator)


def _squawk_code(squawk: str) -> int:
    a, b, c, d = (int(digit, 8) for digit in squawk)

    def bits(one: int, other: int) -> list[tuple[int, int]]:
        return [bit for k in range(3) for bit in ((one >> k & 1, 1), (other >> k & 1, 1))]

    return _packed(*bits(c, a), (0, 1), *bits(b, d))


def surveillance(df: int, icao: int, *, altitude: int = 0, squawk: str = "0000") -> str:
    """DF0, 4 or 16 with an altitude, DF5 with a squawk, DF20 or 21 with it and an empty register.

    The address is in the parity alone.
    """
    if df in (5, 21):
        code = _squawk_code(squawk)
    else:
        twelve = altitude_code(altitude)
        code = (twelve >> 6) << 7 | (twelve & 63)
    body = _packed((df, 5), (0, 14), (code, 13))
    return _with_parity(body << 56, 112, icao) if df >= 16 else _with_parity(body, 56, icao)

# SPDX-License-Identifier: Apache-2.0
"""Against others: antirez's dump1090 (a second writing of its detector, which is checked by the
program's own findings where its recording is there), PyPI's pymodes on every field."""

import itertools
import math
import os
from collections import Counter
from pathlib import Path

import pytest
from dump1090 import Detector

from denizen.radio import Receiver, decode, frames, modulate, parity

DATA = Path(os.environ.get("DENIZEN_DATA", "nowhere"))


RECORDED = DATA / "modes1.bin"
# dump1090 leaves the last part of a file, up to 256 KiB, unread.
READ = 2 * 262_144


@pytest.fixture(scope="module", params=["made", *(["recorded"] if RECORDED.is_file() else [])])
def heard(request):
    """A signal's messages as the receiver finds them and as dump1090 does, and what was sent.

    The signal is made, or dump1090's own recording: of that nobody knows what was sent.
    """
    if request.param == "recorded":
        signal, sent = RECORDED.read_bytes(), None
        theirs = (DATA / "modes1.dump1090.txt").read_text().split()
        assert Detector().messages(signal[:READ]) == theirs
    else:
        bursts = modulate.traffic(4, 8, (18, 30), seed=2)
        signal = modulate.modulate(bursts, 8_000_000, seed=2).tobytes()
        theirs, sent = Detector().messages(signal), Counter(burst.frame for burst in bursts)
    receiver = Receiver()
    return receiver.feed(signal) + receiver.finish(), theirs, sent


def test_every_message_that_dump1090_finds_is_found(heard):
    messages, theirs, _ = heard
    found = Counter(message["frame"] for message in messages)
    assert len(theirs) > 150
    assert not Counter(theirs) - found


def test_no_message_is_invented(heard):
    """What dump1090 does not find was sent; or has the right parity, all but one as received, and
    fits."""
    messages, expected, sent = heard
    if sent is not None:
        assert len(messages) > len(expected)
        assert not Counter(message["frame"] for message in messages) - sent
        return
    rest = Counter(expected)
    codes = {decode(frame).get("syndrome", 0) for frame in expected}
    extra = []
    for message in messages:
        if rest[message["frame"]] > 0:
            rest[message["frame"]] -= 1
            continue
        extra.append(message)
        said = decode(message["frame"])
        if message["repaired"]:  # one bit, of a velocity that is the one before and after
            assert message["repaired"] == 1
            assert message["groundspeed"] == pytest.approx(376.5, abs=0.5), message
            assert message["track"] == pytest.approx(158, abs=0.2), message
        if message["df"] in (11, 17):
            assert said["syndrome"] in codes, message
        else:  # the only aircraft in the recording
            assert said["icao"] == "4D2023", message
    assert len(extra) > 100
    assert sum(message["repaired"] for message in extra) <= 1
    # A descent without a jump, but for the gaps of the recording.
    heights = [message["altitude"] for message in messages if "altitude" in message]
    assert all(-100 <= a - b <= 500 for a, b in itertools.pairwise(heights))


def test_every_flight_is_one_straight_line(heard):
    messages, _, sent = heard
    flights = {}
    for m in messages:
        if "latitude" in m:
            flights.setdefault(m["icao"], []).append((m["latitude"], m["longitude"]))
    assert len(flights) == (8 if sent else 1)
    assert sum(map(len, flights.values())) > (40 if sent else 80)
    for places in flights.values():
        for (a, b), (c, d) in itertools.pairwise(places):
            assert math.hypot(c - a, d - b) < 0.03


# Our name of a field where pymodes has the same one.
_SAME = (
    "df", "icao", "capability", "squawk", "altitude", "typecode", "subtype", "category",
    "callsign", "surveillance_status", "cpr_format", "cpr_lat", "cpr_lon", "track", "heading",
    "airspeed", "airspeed_type", "vertical_rate", "vr_source", "geo_minus_baro", "nac_v",
    "emergency_state", "cross_link_capability", "sensitivity_level", "reply_information",
)  # fmt: skip
_SHORT = ("flight_status", "downlink_request", "utility_message")  # pymodes: of DF4 and DF5 alone
_TARGET = ("selected_altitude", "baro_pressure_setting", "selected_heading", "nac_p", "sil")


def disagreements(frame):
    """The fields of which pymodes says something else than we do."""
    pymodes = pytest.importorskip("pyModeS")
    ours, theirs = decode(frame), dict(pymodes.decode(frame))
    names = list(_SAME)
    if ours["df"] in (4, 5):
        names += _SHORT
    if ours.get("typecode") == 29 and ours["subtype"] == 1:
        names += _TARGET
    if ours["df"] in (20, 21):  # pymodes guesses which register a reply holds, we do not
        names = ["df", "icao", "squawk", "altitude"]
        if theirs.get("bds") == "2,0":
            names.append("callsign")
    wrong = {}
    for name in names:
        a, b = ours.get(name), theirs.get(name)
        same = a == pytest.approx(b, abs=1e-9) if isinstance(a, float) else a == b
        if not same:
            wrong[name] = a, b
    if ours["df"] == 17:  # pymodes leaves out the fraction of a knot
        a, b = ours.get("groundspeed"), theirs.get("groundspeed")
        if (a is None) != (b is None) or (a is not None and int(a) != int(b)):
            wrong["groundspeed"] = a, b
    if ours["df"] in (0, 16):
        ground = theirs["vertical_status"] == "on-ground"
        if ours["on_ground"] != ground:
            wrong["on_ground"] = ours["on_ground"], ground
    return wrong


def test_fields_agree_with_pymodes(heard):
    messages, *_ = heard
    assert {m["frame"]: d for m in messages if (d := disagreements(m["frame"]))} == {}


@pytest.mark.parametrize("df", [0, 4, 5, 11, 16, 17, 20, 21])
def test_any_bits_decode_as_by_pymodes(df):
    random = modulate.np.random.default_rng(df)
    bits = 56 if df < 16 else 112
    for _ in range(1000):
        rest = int.from_bytes(random.bytes(bits // 8), "big") & ((1 << (bits - 5)) - 1)
        frame = f"{df << (bits - 5) | rest:0{bits // 4}x}"
        if df in (11, 17):
            frame = f"{frame[:-6]}{parity(frame):06x}"
        assert disagreements(frame) == {}, frame


@pytest.mark.parametrize("typecode", range(32))
def test_every_type_code_decodes_as_by_pymodes(typecode):
    random = modulate.np.random.default_rng(typecode)
    for subtype in range(8):
        for _ in range(20):
            rest = int.from_bytes(random.bytes(6), "big")
            payload = typecode << 51 | subtype << 48 | rest
            frame = frames.extended_squitter(0x4840D6, payload)
            assert disagreements(frame) == {}, frame


def test_positions_agree_with_pymodes():
    pymodes = pytest.importorskip("pyModeS")
    bursts = modulate.traffic(3, 6, (25, 30), seed=5)
    receiver = Receiver()
    messages = receiver.feed(modulate.modulate(bursts, 6_000_000)) + receiver.finish()
    compared = 0
    for message in messages:
        if "latitude" in message:
            theirs = pymodes.decode(message["frame"], reference=(50, 8))
            compared += 1
            assert message["latitude"] == pytest.approx(theirs["latitude"], abs=1e-6)
            assert message["longitude"] == pytest.approx(theirs["longitude"], abs=1e-6)
    assert compared > 20

# SPDX-License-Identifier: Apache-2.0
"""Radio: Mode S / ADS-B from I/Q at 2 Msps, and signals made to test it; broadcast FM in
:mod:`denizen.radio.broadcast`.

    import denizen.radio

    receiver = denizen.radio.Receiver()
    with open("modes1.bin", "rb") as file:
        for message in receiver.feed(file.read()) + receiver.finish():
            print(message["icao"], message.get("altitude"))
"""

from __future__ import annotations

from denizen.radio.mode_s import SAMPLE_RATE, Receiver, decode, parity

__all__ = ["SAMPLE_RATE", "Receiver", "decode", "parity"]

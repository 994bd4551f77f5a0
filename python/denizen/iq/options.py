# SPDX-License-Identifier: Apache-2.0
"""What commands that read I/Q samples have in common."""

from __future__ import annotations

import argparse

from denizen.arguments import positive

SOURCES = "raw, SigMF or WAV, udp://, zmq://, soapy://; -: stdin"


def rate(text: str) -> int:
    value = positive(text)
    if value != round(value):
        raise argparse.ArgumentTypeError(f'"{text}" is no whole number of samples a second')
    return round(value)

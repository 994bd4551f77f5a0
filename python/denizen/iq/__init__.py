# SPDX-License-Identifier: Apache-2.0
"""Signals as I/Q: files, networks and receivers, all read and written the same way.

    from denizen import iq

    with iq.open("capture.sigmf-meta") as source:
        print(source.rate, source.form.name)
        for block in source.blocks():  # complex64, full scale being 1
            ...
    with iq.create("out.wav", form="i16", rate=240_000) as sink:
        sink.write(block)

What a name stands for:

=========================================  =========================================================
``-``, any other file                      raw I and Q in turn: u8, i16 or f32 (``form``)
``FILE.sigmf-meta``, ``FILE.sigmf-data``   SigMF: a description in JSON beside raw data
``FILE.wav``                               WAV, RF64 or BW64 with two channels: I left, Q right
``udp://HOST:PORT``                        datagrams, with GNU Radio's header of sequence numbers
``zmq://HOST:PORT``                        ZeroMQ messages of samples, as GNU Radio's blocks send
``soapy://driver=NAME``                    a receiver, through SoapySDR
=========================================  =========================================================

Options follow a question mark: ``udp://:9000?form=i16&rate=2e6``; each module lists its own.
"""

from __future__ import annotations

from denizen.iq.format import FORMATS, DataError, Format
from denizen.iq.names import create
from denizen.iq.names import open_source as open
from denizen.iq.stream import Sink, Source

__all__ = ["FORMATS", "DataError", "Format", "Sink", "Source", "create", "open"]

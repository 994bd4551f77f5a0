# SPDX-License-Identifier: Apache-2.0
"""From a name to the source or the sink that it stands for."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from denizen.errors import ArgumentError
from denizen.files import WholeFile
from denizen.iq import sigmf, soapy, udp, wav, zeromq
from denizen.iq.address import Address, scheme_of
from denizen.iq.format import FORMATS, DataError, Format
from denizen.iq.raw import Raw
from denizen.iq.stream import Sink, Source
from denizen.values import whole

__all__ = ["create", "open_source"]


_OPTIONS: dict[str, dict[str, Callable[[str], Any]]] = {
    "udp": udp.OPTIONS,
    "zmq": zeromq.OPTIONS,
    "soapy": soapy.OPTIONS,
}


def _form(key: str) -> Format:
    if key not in FORMATS:
        raise ArgumentError(f'format is "{key}"; give one of {", ".join(FORMATS)}')
    return FORMATS[key]


def _address(name: str, scheme: str, form: str | None, rate: int | None) -> Address:
    address = Address.of(name, **_OPTIONS[scheme])
    for option, value in (("format", form), ("rate", rate)):
        if value is None:
            continue
        if address.options.setdefault(option, value) != value:
            raise ArgumentError(
                f"{name}: {option} is {address.options[option]} there and {value} beside it; give "
                "it once"
            )
    return address


def open_source(
    name: str, *, form: str | None = None, rate: int | None = None, expected: str = "I/Q"
) -> Source:
    """The source that ``name`` stands for (see :mod:`denizen.iq`).

    ``form`` (u8, i16, f32; u8 if nobody says) and ``rate`` (samples a second) are for what does not
    say them itself; ``expected`` ends the errors' sentence about what should have been given.
    Raises DataError for what cannot be read or is something else, ArgumentError for a wrong name or
    a value that is said twice, MissingPackageError and DeviceError for ZeroMQ and SoapySDR.
    """
    scheme = scheme_of(name)
    suffix = Path(name).suffix.lower()
    rate = _rate(rate)
    if scheme is not None:
        address = _address(name, scheme, form, rate)
        rate = address.options.get("rate")
        if scheme == "soapy":
            return soapy.Soapy(address, rate, expected)
        make = udp.Udp if scheme == "udp" else zeromq.ZeroMq
        return make(address, _form(address.options.get("format", "u8")), rate, expected)
    if suffix in sigmf.SUFFIXES or suffix in wav.SUFFIXES:
        kind = "WAV" if suffix in wav.SUFFIXES else "SigMF"
        if rate is not None or form is not None:
            raise ArgumentError(f"{name}: {kind} says rate and format: leave out --rate, --format")
        return wav.Wav(name, expected) if kind == "WAV" else sigmf.SigMF(name, expected)
    if suffix == ".sigmf":
        raise DataError(
            f"{name}: this is SigMF's archive: unpack it with tar, and give the .sigmf-meta"
        )
    return Raw(name, _form(form or "u8"), rate, expected)


def _rate(given: int | None) -> int | None:
    return None if given is None else whole("rate", given, 2**53, least=1)


def create(name: str, *, form: str = "u8", rate: int | None = None) -> Sink:
    """A sink by the same names; what is there already is overwritten.

    SigMF and WAV need a ``rate``; to a network samples go no faster than it. Raises DataError and
    ArgumentError as :func:`open_source` does.
    """
    scheme = scheme_of(name)
    suffix = Path(name).suffix.lower()
    chosen = _form(form)
    rate = _rate(rate)
    if scheme == "soapy":
        raise ArgumentError(f"{name}: receivers are read from, nothing is sent")
    if scheme is not None:
        address = _address(name, scheme, None, rate)
        chosen = _form(address.options.get("format", form))
        make = udp.create if scheme == "udp" else zeromq.create
        return make(address, chosen, address.options.get("rate"))
    if suffix in sigmf.SUFFIXES or suffix in wav.SUFFIXES:
        if rate is None:
            raise ArgumentError(f"{name}: such a file says its rate: give one")
        write = wav.create if suffix in wav.SUFFIXES else sigmf.create
        return write(name, chosen, rate)
    if name == "-":
        return Sink("stdout", chosen, sys.stdout.buffer.write, sys.stdout.buffer.flush)
    try:
        file = WholeFile(name)
    except OSError as error:
        raise DataError(f"{name}: {error.strerror}") from error
    return Sink(name, chosen, file.write, file.close, file.discard)

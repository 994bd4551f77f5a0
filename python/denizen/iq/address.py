# SPDX-License-Identifier: Apache-2.0
"""``scheme://place?option=value&...``: where a signal comes from or goes to that is no file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from denizen.errors import ArgumentError

__all__ = ["SCHEMES", "Address", "number", "one_of", "scheme_of"]

SCHEMES = ("udp", "zmq", "soapy")


def scheme_of(name: str) -> str | None:
    """What ``name`` begins with, one of :data:`SCHEMES`; None for a file. Raises ArgumentError."""
    if not isinstance(name, str):
        raise ArgumentError(f"{name!r:.60} is no name of signals; use text, such as str(path)")
    scheme, found, _ = name.partition("://")
    if not found or not scheme.isalnum():
        return None
    if scheme not in SCHEMES:
        raise ArgumentError(
            f'{name}: "{scheme}" is no place for signals; give a file, or '
            f"{', '.join(one + '://' for one in SCHEMES)}"
        )
    return scheme


def number(text: str) -> float:
    """A value as a number; raises ValueError if it is none."""
    return float(text)


def one_of(*words: str) -> Callable[[str], str]:
    """Makes a check that a value is one of ``words``."""

    def check(text: str) -> str:
        if text not in words:
            raise ValueError(f"expected one of {', '.join(words)}")
        return text

    return check


@dataclass(frozen=True, slots=True)
class Address:
    """An address taken apart. ``options`` holds those that were given, as what they mean."""

    text: str
    place: str
    options: dict[str, Any]

    @classmethod
    def of(cls, text: str, **known: Callable[[str], Any]) -> Address:
        """Raises ArgumentError for an option that is not among ``known``, or means nothing there.

        Every address knows ``format`` and ``rate``.
        """
        known = {"format": one_of("u8", "i16", "f32"), "rate": number, **known}
        parts = urlsplit(text)
        options: dict[str, Any] = {}
        for name, value in parse_qsl(parts.query, keep_blank_values=True):
            if name not in known:
                raise ArgumentError(f'{text}: no option "{name}"; there are {", ".join(known)}')
            try:
                options[name] = known[name](value)
            except ValueError as error:
                raise ArgumentError(f'{text}: {name} is "{value}": {error}') from error
        rate = options.get("rate")
        if rate is not None:
            if not 0 < rate < 1 << 32 or rate != round(rate):
                raise ArgumentError(
                    f"{text}: rate is {rate}; give a whole number of samples a second"
                )
            options["rate"] = round(rate)
        return cls(text, unquote(parts.netloc), options)

    def host_and_port(self) -> tuple[str, int]:
        """Of "host:port", the host possibly empty or an IPv6 address in brackets."""
        host, _, port = self.place.rpartition(":")
        if not port.isdecimal() or not 0 <= int(port) <= 65535:
            raise ArgumentError(f"{self.text}: expected HOST:PORT, the port from 0 to 65535")
        return host.strip("[]"), int(port)

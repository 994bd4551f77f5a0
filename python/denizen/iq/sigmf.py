# SPDX-License-Identifier: Apache-2.0
"""SigMF recordings (the Signal Metadata Format 1.x): what FILE.sigmf-meta says of FILE.sigmf-data.

Read is one channel of I/Q without headers between: ``core:datatype``, ``core:sample_rate``,
``core:num_channels``, ``core:dataset`` and, if it is there, ``core:sha512``, which must fit the
data. Written is the same, always with the hash.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from denizen.errors import unreadable
from denizen.files import WholeFile, write_text
from denizen.iq.format import FORMATS, DataError, Format
from denizen.iq.raw import Raw
from denizen.iq.stream import Sink

__all__ = ["SUFFIXES", "SigMF", "create"]

SUFFIXES = (".sigmf-meta", ".sigmf-data")
_TYPES = {"cu8": "u8", "ci16_le": "i16", "cf32_le": "f32"}
_VERSION = "1.2.0"  # of the specification that what is written follows


class SigMF(Raw):
    """The recording that either of its two files names. It says format and rate.

    Raises DataError if one is missing, the description is none, it is of another kind of data, or
    the data has another hash.
    """

    def __init__(self, path: str, expected: str) -> None:
        meta = Path(path).with_suffix(SUFFIXES[0])
        said = _described(meta)
        data = meta.with_suffix(SUFFIXES[1])
        if said.dataset is not None:
            data = meta.parent / said.dataset
        try:
            if said.sha512 is not None and _sha512(data) != said.sha512:
                raise DataError(
                    f"{data}: its SHA-512 is not the one that {meta.name} says: the recording was "
                    "changed or cut short; get it again, or remove core:sha512 to read it as it is"
                )
        except OSError as error:
            raise unreadable(data, error, f"the samples that {meta.name} describes") from error
        super().__init__(str(data), FORMATS[said.form], said.rate, expected)


class _Described:
    def __init__(self, meta: Path, told: Any) -> None:
        said = told["global"]
        datatype = str(said["core:datatype"])
        rate = float(said["core:sample_rate"])
        channels = int(said.get("core:num_channels", 1))
        between = int(said.get("core:trailing_bytes", 0))
        between += sum(int(one.get("core:header_bytes", 0)) for one in told.get("captures", []))
        if datatype not in _TYPES:
            raise DataError(
                f'{meta}: core:datatype is "{datatype}", none of {", ".join(_TYPES)}; '
                "convert the recording to one of them"
            )
        if channels != 1:
            raise DataError(f"{meta}: {channels} channels; expected 1")
        if rate != round(rate):
            raise DataError(f"{meta}: core:sample_rate is {rate!r}; expected a whole number of Hz")
        if between:
            raise DataError(
                f"{meta}: {between} bytes of headers or trailers in the data; expected samples "
                "alone: leave them out of the recording"
            )
        self.form, self.rate = _TYPES[datatype], round(rate)
        self.dataset: str | None = said.get("core:dataset")
        self.sha512 = str(said["core:sha512"]).lower() if "core:sha512" in said else None


def _described(meta: Path) -> _Described:
    try:
        return _Described(meta, json.loads(meta.read_bytes()))
    except OSError as error:
        raise unreadable(meta, error, "SigMF's description of a recording") from error
    except KeyError as error:
        raise DataError(f"{meta}: SigMF's field {error} is missing") from error
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise DataError(f"{meta}: this is no description by SigMF: {error}") from error


def _sha512(path: Path) -> str:
    digest = hashlib.sha512()
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def create(path: str, form: Format, rate: int) -> Sink:
    """Both files of a recording; either names it. The description is written at the end."""
    data, meta = (Path(path).with_suffix(suffix) for suffix in reversed(SUFFIXES))
    datatype = next(name for name, key in _TYPES.items() if key == form.key)
    digest = hashlib.sha512()
    try:
        file = WholeFile(data)
    except OSError as error:
        raise DataError(f"{data}: {error.strerror}") from error

    def put(piece: bytes) -> None:
        file.write(piece)
        digest.update(piece)

    def close() -> None:
        file.flush()  # from here on the disk is not full
        meta.unlink(missing_ok=True)  # an old one is of other data
        file.close()
        told = {
            "global": {
                "core:datatype": datatype,
                "core:sample_rate": rate,
                "core:num_channels": 1,
                "core:sha512": digest.hexdigest(),
                "core:version": _VERSION,
                "core:recorder": "denizen",
            },
            "captures": [{"core:sample_start": 0}],
            "annotations": [],
        }
        write_text(meta, json.dumps(told, indent=4) + "\n")

    return Sink(str(data), form, put, close, file.discard)

# SPDX-License-Identifier: Apache-2.0
"""SigMF recordings (the Signal Metadata Format 1.x): what FILE.sigmf-meta says of FILE.sigmf-data.

Only what is needed to read one channel of I/Q: ``core:datatype``, ``core:sample_rate``,
``core:num_channels`` and, if it is there, ``core:sha512``, which must fit the data.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from denizen.apps.iq import DataError

__all__ = ["SUFFIXES", "described"]

SUFFIXES = (".sigmf-meta", ".sigmf-data")
_TYPES = {"cu8": "u8", "ci16_le": "i16", "cf32_le": "f32"}


def described(path: Path) -> tuple[str, str, int]:
    """The data file, its format (a key of iq.FORMATS) and its rate, of either file's ``path``.

    Raises DataError if one is missing, the description is none, it is of another kind of data, or
    the data has another hash.
    """
    meta, data = path.with_suffix(SUFFIXES[0]), path.with_suffix(SUFFIXES[1])
    try:
        said = json.loads(meta.read_bytes())["global"]
        datatype = str(said["core:datatype"])
        rate = float(said["core:sample_rate"])
        channels = int(said.get("core:num_channels", 1))
        sha512 = said.get("core:sha512")
    except OSError as error:
        raise DataError(f"{meta}: {error.strerror}") from error
    except KeyError as error:
        raise DataError(f"{meta}: SigMF's field {error} is missing") from error
    except (ValueError, TypeError, AttributeError) as error:
        raise DataError(f"{meta}: this is no description by SigMF: {error}") from error
    if datatype not in _TYPES:
        raise DataError(f'{meta}: core:datatype is "{datatype}", none of {", ".join(_TYPES)}')
    if channels != 1:
        raise DataError(f"{meta}: {channels} channels; expected 1")
    if rate != round(rate):
        raise DataError(f"{meta}: core:sample_rate is {rate!r}; expected a whole number of Hz")
    try:
        if sha512 is not None and _sha512(data) != str(sha512).lower():
            raise DataError(
                f"{data}: its SHA-512 is not the one that {meta.name} says: the recording was "
                "changed or cut short"
            )
    except OSError as error:
        raise DataError(f"{data}: {error.strerror}") from error
    return str(data), _TYPES[datatype], round(rate)


def _sha512(path: Path) -> str:
    digest = hashlib.sha512()
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()

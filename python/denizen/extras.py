# SPDX-License-Identifier: Apache-2.0
"""What an extra brings, by names that an index has: denizen itself may be in none."""

from __future__ import annotations

import re


def of(extra: str) -> str:
    """Its packages as words for pip, those of extras within it, too. Where the package's metadata
    is not there (a copied folder) it is the extra's name, which a checkout knows."""
    from importlib import metadata  # noqa: PLC0415  (20 ms of each start: for an error alone)

    try:
        told = metadata.requires("denizen") or []
    except metadata.PackageNotFoundError:
        return f"'.[{extra}]' in a checkout"
    return " ".join(f"'{one}'" for one in _named(extra, told))


def _named(extra: str, told: list[str]) -> list[str]:
    found: dict[str, None] = {}
    for one in told:
        requirement, _, marker = one.partition(";")
        if not re.search(rf"""extra == ["']{re.escape(extra)}["']""", marker):
            continue
        requirement = requirement.replace(" ", "")
        within = re.fullmatch(r"denizen\[(.+)\]", requirement)
        for name in within[1].split(",") if within else ():
            found.update(dict.fromkeys(_named(name, told)))
        if not within:
            found[requirement] = None
    return list(found)

# SPDX-License-Identifier: Apache-2.0
"""One look for all pages that commands write: colours of light and dark, type, tables."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.resources import files


def sheet() -> str:
    """What stands in each page's ``style`` element first."""
    return files("denizen").joinpath("style.css").read_text(encoding="utf-8")


def fill(page: str, parts: Mapping[str, str]) -> str:
    """``page`` with each ``@name@`` replaced by its part."""
    return re.sub(r"@([a-z]+)@", lambda found: parts[found[1]], page)

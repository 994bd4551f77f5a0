# SPDX-License-Identifier: Apache-2.0
"""A folder for sockets, which goes with its owner, or with the process if that is not closed."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from pathlib import Path

# A socket's path has 107 bytes; 50 are for names.
_LONGEST = 57


class Folder:
    """Of this user alone; ``of`` is in its name. A child of fork() leaves it alone.

    Where the folder for temporary files has too long a path for sockets it is in /tmp.
    """

    def __init__(self, of: str) -> None:
        within = tempfile.gettempdir() if len(tempfile.gettempdir()) <= _LONGEST else "/tmp"
        self.path = Path(tempfile.mkdtemp(prefix=f"denizen-{of}-", dir=within))
        self._remove = weakref.finalize(self, _remove, self.path, os.getpid())

    def close(self) -> None:
        """Removes it; harmless when called again."""
        self._remove()


def _remove(path: Path, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(path, ignore_errors=True)

# SPDX-License-Identifier: Apache-2.0
"""What is closed when its ``with`` block ends."""

from typing import Self


class Closing:
    """A base of classes with a ``close()``: ``with`` gives the object, and closes it at its end."""

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

# SPDX-License-Identifier: Apache-2.0
"""What is closed when its ``with`` block ends."""

from typing import NoReturn, Self


class Closing:
    """A base of classes with a ``close()``: ``with`` gives the object, and closes it at its end."""

    def close(self) -> None:
        raise NotImplementedError

    def __reduce_ex__(self, _: object) -> NoReturn:
        raise TypeError(
            f"a {type(self).__name__} has threads and memory of its process, and cannot be copied "
            "or sent to another one; make one there"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

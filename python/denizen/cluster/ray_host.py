# SPDX-License-Identifier: Apache-2.0
"""A host in a Ray actor: Ray places it, asks it, and tells when it has died.

Messages go by its links.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from denizen.cluster import control
from denizen.cluster.host import Local, check_version, unpacked
from denizen.cluster.links import this_machine


class RayHost:
    """What the actor is an instance of; two of its methods may run at a time."""

    def __init__(self) -> None:
        self._ended = threading.Event()
        self._local: Local | None = None

    def where(self, word: str, content: str) -> dict[str, Any]:
        """Where Ray has started it; ``word`` is a file that the cluster's process has written."""
        ray = import_module("ray")
        with suppress(OSError):
            same = Path(word).read_text() == content
            return here(ray, same=same)
        return here(ray, same=False)

    def start(self, given: Mapping[str, Any], program: bytes, token: bytes) -> dict[str, Any]:
        """Local.describe() of the runtime that it has now, or why there is none."""
        return control.attempt(self._start, given, program, token)

    def answer(self, method: str, given: Mapping[str, Any]) -> dict[str, Any]:
        assert self._local is not None  # nobody is asked before it is up
        return control.attempt(self._local.answer, method, given)

    def hold(self) -> None:
        """Returns when the host is told to end: until then, or the actor's death, it lives."""
        self._ended.wait()

    def end(self) -> None:
        try:
            if self._local is not None:
                self._local.close(2.0)
        finally:
            self._ended.set()

    def _start(self, given: Mapping[str, Any], program: bytes, token: bytes) -> dict[str, Any]:
        check_version(given)
        # From the process that has started this one, by a call of Ray's.
        self._local = Local(unpacked(program), given, token)
        return self._local.describe()


def here(ray: Any, *, same: bool) -> dict[str, Any]:
    """This process: Ray's node, its address, and its machine; "" if it is not the ``same`` disk."""
    return {
        "node": ray.get_runtime_context().get_node_id(),
        "address": ray.util.get_node_ip_address(),
        "machine": this_machine() if same else "",
    }

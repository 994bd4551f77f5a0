# SPDX-License-Identifier: Apache-2.0
"""Topics of a cluster: who subscribes on one host gets what is published on any.

src/actor/far_topics.cpp has how. Here are the calls, which return once all hosts have taken a
change over.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

import numpy as np

from denizen.cluster.processes import Processes
from denizen.errors import DenizenError, HostLostError
from denizen.life import HOST
from denizen.messaging import Messages
from denizen.values import seconds as _seconds


class Topics:
    """The part of Cluster that is about topics."""

    _hosts: Processes

    def host_of(self, address: int) -> int:
        raise NotImplementedError

    def subscribe(self, address: int, pattern: str, *, timeout: float = 5.0) -> None:
        """From now on an actor gets what any host publishes to a topic.

        Args:
            address: of the actor, or HOST: this process, which gets it by receive().
            pattern: as Runtime.subscribe()'s.

        All hosts that live know of it when the call returns; what is published there after that
        reaches the actor. ExhaustedError, and no subscription, if the table of one has no room for
        the pattern: it has an entry for each subscription there, and one for each pattern of each
        other host.
        """
        self._change("subscribe", address, pattern, timeout)

    def unsubscribe(self, address: int, pattern: str, *, timeout: float = 5.0) -> None:
        """Ends that subscription, if there is one."""
        self._change("unsubscribe", address, pattern, timeout)

    def publish(
        self,
        topic: str,
        message: np.void | Messages | str,
        *,
        timeout: float = 1.0,
        **fields: Any,
    ) -> int:
        """Sends a message to all subscribers of a topic on all hosts, from this process.

        Returns to how many: those on this host, and each host that has others counts once for each
        of its patterns that match. As Runtime.publish() otherwise.
        """
        with self._hosts.here() as local:
            return local.runtime.publish(topic, message, timeout=timeout, **fields)

    def _change(self, verb: str, address: int, pattern: str, timeout: float) -> None:
        at = 0 if address == HOST else self.host_of(address)
        end = time.monotonic() + _seconds(timeout)
        given = {"verb": verb, "address": int(address), "pattern": pattern}
        told = self._hosts.call(at, "topic", timeout, timeout=timeout, **given)
        try:
            for host in self._hosts.living():
                if host == at:
                    continue
                left = max(end - time.monotonic(), 0.0)
                heard = {"host": at, "count": told[host], "pattern": pattern, "timeout": left}
                with suppress(HostLostError):
                    self._hosts.call(host, "hear_topics", left, **heard)
        except DenizenError:
            if verb == "subscribe":
                undo = {**given, "verb": "unsubscribe"}
                self._hosts.call(at, "topic", timeout, timeout=timeout, **undo)
            raise

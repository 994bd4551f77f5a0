# SPDX-License-Identifier: Apache-2.0
"""What a cluster tells of itself: a part of Cluster."""

from __future__ import annotations

from typing import Any

from denizen.cluster.processes import Processes


class Described:
    """The part of Cluster that says what its links go by."""

    _hosts: Processes

    @property
    def transport(self) -> str:
        """Of the links of this host: "rings", "tcp" or "ucx"; "mixed" if they differ."""
        links = self._hosts.local.links
        found = {transport for transport, _ in links.taken().values()} or {links.transport}
        return found.pop() if len(found) == 1 else "mixed"

    @property
    def description(self) -> dict[str, Any]:
        """What it is: the number of "hosts", their "devices", and what each link goes by.

        "links" has for each two hosts that live, by their numbers, the "transport" that was taken
        and "why" it was.
        """
        found = self._hosts.call_living("transports", 10.0)
        return {
            "hosts": len(self._hosts.about),
            "devices": {n: about["device"] for n, about in sorted(self._hosts.about.items())},
            "links": {
                (a, int(b)): {"transport": transport, "why": why}
                for a, of_host in sorted(found.items())
                for b, (transport, why) in of_host.items()
                if a < int(b)
            },
        }

# SPDX-License-Identifier: Apache-2.0
"""Several hosts: one runtime in each process, addresses that mean the same in all of them.

``cluster.py`` has what users call, with ``topics.py``, ``snapshots.py``, ``rolling.py``,
``tracing.py`` and ``described.py``. A host
(``host.py``) is started with the program (``processes.py``), as a subprocess (``child.py``) or by
Ray (``ray_placement.py``, ``ray_host.py``). It listens for the others, and links to them
(``links.py``) once each has shown that it knows the token (``handshake.py``). From then on messages
are the links' business, in C++ (include/denizen/cluster/link.hpp); what is asked of a host as a
whole goes by ``control.py``, or by calls of Ray's.
"""

from denizen.cluster.cluster import Cluster, Host
from denizen.cluster.ray_placement import RayPlacement
from denizen.cluster.snapshots import Restart

__all__ = ["Cluster", "Host", "RayPlacement", "Restart"]

# SPDX-License-Identifier: Apache-2.0
"""Groups: collectives among GPUs, processes or threads of one host, on their tensors.

from denizen import group

g = group.join("/run/user/1000/job.sock", rank, 2, device=f"gpu:{rank}")
g.all_reduce(tensor)                       # PyTorch, CuPy, NumPy
"""

from denizen.group.group import Group, Link, Resident, forbid_multicast, join, local
from denizen.group.tuning import tune

__all__ = ["Group", "Link", "Resident", "forbid_multicast", "join", "local", "tune"]

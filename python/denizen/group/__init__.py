# SPDX-License-Identifier: Apache-2.0
"""Groups: collectives among GPUs of one host or several, processes or threads, on their tensors.

    from denizen import group

    g = group.join("/run/user/1000/job.sock", rank, 2, device=f"gpu:{rank}")
    g.all_reduce(tensor)                       # PyTorch, CuPy, NumPy

Which ranks, which engines and which algorithms there are: docs/group.md.
"""

from denizen.group.group import Group, Link, Resident, join, local
from denizen.group.nccl import forbid_multicast
from denizen.group.tuning import tune

__all__ = ["Group", "Link", "Resident", "forbid_multicast", "join", "local", "tune"]

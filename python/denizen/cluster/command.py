# SPDX-License-Identifier: Apache-2.0
"""``denizen cluster up``: hosts, here or where Ray is, whose actors keep sending to each other.

Each host has a Player for each other one, and each pair of Players keeps some balls going. Kill a
host, or stop it, from another terminal, and see what the others say.
"""

from __future__ import annotations

import time

import numpy as np

from denizen import terminal
from denizen.cluster.cluster import Cluster
from denizen.cluster.ray_placement import RayPlacement
from denizen.errors import ArgumentError, DenizenError
from denizen.message import ADDRESS, message
from denizen.program import Program

_TEXT = """
struct Player {
    uint64_t hits = 0;
    void on(const Ball& m, auto& ctx) {
        ++hits;
        ctx.send(m.other, Ball{ctx.self()});
    }
    void on(const Score&, auto& ctx) { ctx.reply(Hits{hits}); }
};
"""

_BALLS = 64  # of each pair
_ASKS = 50


def program() -> Program:
    """Players."""
    return Program(
        _TEXT,
        actors=["Player"],
        messages=[
            message("Ball", [("other", ADDRESS)]),
            message("Score"),
            message("Hits", [("hits", np.uint64)]),
        ],
        name="players",
    )


def up(
    hosts: int | None,
    device: str,
    transport: str | None,
    deadline: float,
    *,
    ray: str | None = None,
    seconds: float | None = None,
    metrics: bool = False,
) -> int:
    """Starts them and prints a table every second, until Ctrl-C or for so many seconds.

    ``ray``: the address of Ray's cluster, "" for the one that ray.init() takes by itself; there is
    a host on each node then, if ``hosts`` does not say how many. Else there are 3.
    ``metrics``: each host serves its metrics; MissingPackageError without the package for that.
    """
    if hosts is not None and hosts < 2:
        raise ArgumentError(f"--hosts {hosts}; use 2 or more")
    if seconds is not None and not seconds > 0:
        raise ArgumentError(f"--seconds {seconds:g}; use more than 0")
    with terminal.working("starting the hosts"):
        cluster = Cluster(
            program(),
            hosts or (3 if ray is None else "ray"),
            device=device,
            placement=None if ray is None else RayPlacement(address=ray or None),
            transport=transport,
            deadline=deadline,
        )
    with cluster as made:
        hosts = len(made.hosts)
        players = {
            (a, b): int(made.spawn("Player", host=a)[0])
            for a in range(hosts)
            for b in range(hosts)
            if a != b
        }
        for (a, b), player in players.items():
            if a < b:
                for _ in range(_BALLS):
                    made.send(player, "Ball", other=players[b, a])
        if metrics:
            made.serve_metrics()
            print("denizen top --all, from another terminal of this machine, shows its hosts.")
        print(
            f"{hosts} hosts over {made.transport}, {_BALLS} balls between each two. Try, from "
            "another terminal: kill -9 PID, or kill -STOP PID. Ctrl-C ends it."
        )
        ends = None if seconds is None else time.monotonic() + seconds
        before = _handled(made)
        at = time.monotonic()
        while ends is None or time.monotonic() < ends:  # ends by Ctrl-C or the time
            time.sleep(1.0 if ends is None else max(0.0, min(1.0, ends - time.monotonic())))
            now, handled = time.monotonic(), _handled(made)
            _show(made, players, handled, before, now - at)
            before, at = handled, now
    return 0


def _handled(cluster: Cluster) -> dict[int, int]:
    try:
        return {host: int(stats["handled"]) for host, stats in cluster.stats().items()}
    except DenizenError:  # one was lost just now
        return {}


def _show(
    cluster: Cluster,
    players: dict[tuple[int, int], int],
    handled: dict[int, int],
    before: dict[int, int],
    took: float,
) -> None:
    print(f"\n{'host':>4}  {'pid':>8}  {'device':<24} {'messages/s':>12} {'ask, p50':>10}  state")
    for host in cluster.hosts:
        n = host.number
        rate = ask = "-"
        if n in handled and n in before:
            rate = f"{(handled[n] - before[n]) / took:,.0f}"
        if not host.lost:
            ask = _ask(cluster, next(a for (of, _), a in players.items() if of == n))
        state = (host.lost or "up") + (f", node {host.node[:8]}" if host.node else "")
        print(f"{n:>4}  {host.pid:>8}  {host.device[:24]:<24} {rate:>12} {ask:>10}  {state}")


def _ask(cluster: Cluster, player: int) -> str:
    times = []
    try:
        for _ in range(_ASKS):
            begin = time.perf_counter()
            cluster.ask(player, "Score", timeout=5.0)
            times.append(time.perf_counter() - begin)
    except DenizenError:
        return "-"
    return f"{1e6 * float(np.median(times)):,.1f} us"

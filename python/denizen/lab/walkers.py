# SPDX-License-Identifier: Apache-2.0
"""A program whose messages hop from worker to worker for as long as others are measured beside it.

Every token is accounted for: once the walkers are told to stop, each must have ended once.
``python -m denizen.lab.walkers DEVICE`` has them walk, says "walking", and ends when stdin does.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np

import denizen

# So few that no worker's rings fill up: a full ring keeps the host's messages out.
_TOKENS = 64

TOKEN = denizen.message("Token", [("left", "u4")])
STOP = denizen.message("Stop")
QUERY = denizen.message("Query")
TALLY = denizen.message("Tally", [("handled", "u8"), ("ended", "u8")])

_WALKERS = """
struct Walker {
    uint64_t handled = 0;
    uint64_t ended = 0;
    uint32_t stopped = 0;
    void on(const Token& token, auto& ctx) {
        ++handled;
        if (stopped != 0) {
            ++ended;
            return;
        }
        const auto next = (ctx.worker() + 1) % ctx.workers();
        ctx.send(denizen::Address::actor(next, ctx.self().local() % 2), token);
    }
    void on(const Stop&, auto&) { stopped = 1; }
    void on(const Query&, auto& ctx) { ctx.reply(Tally{handled, ended}); }
};
"""


def walking(device: str) -> denizen.Runtime:
    """A runtime of walkers; none is there yet."""
    walkers = denizen.Program(
        _WALKERS, actors=["Walker"], messages=[TOKEN, STOP, QUERY, TALLY], name="walkers"
    )
    return denizen.Runtime(walkers, device=device)


def spawn(rt: denizen.Runtime) -> Any:
    """Two walkers a worker, and the tokens that hop from worker to worker."""
    actors = rt.spawn("Walker", 2 * rt.description["workers"])
    rt.send_many(np.resize(actors, _TOKENS), TOKEN.zeros(_TOKENS))
    return actors


def all_end(rt: denizen.Runtime, actors: Any) -> bool:
    """Stops the walkers; whether each token ended once."""
    rt.broadcast("Walker", STOP())
    rt.drain()
    return int(rt.ask_many(actors, QUERY(), TALLY)["ended"].sum()) == _TOKENS


def _walk(device: str) -> None:
    with walking(device) as rt:
        actors = spawn(rt)
        while rt.ask(actors[0], QUERY())["handled"] == 0:
            time.sleep(0.001)
        print("walking", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    _walk(sys.argv[1])

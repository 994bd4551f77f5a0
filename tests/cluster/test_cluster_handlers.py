# SPDX-License-Identifier: Apache-2.0
"""Handlers in Python on several hosts: their types are sent along."""

import players
import pytest
from players import Player, Score, Serve

import denizen

pytest.importorskip("numba")


@pytest.mark.parametrize("transport", ["tcp", pytest.param("rings", marks=pytest.mark.deep)])
def test_handlers_in_python_send_to_actors_of_other_hosts(transport):
    with denizen.Cluster(Player, hosts=2, transport=transport) as cluster:
        (here,) = cluster.spawn(Player, host=0)
        (there,) = cluster.spawn(Player, host=1)
        cluster.send(there, Serve(here, 99))
        cluster.drain()
        for address in (here, there):
            answer = cluster.ask(address, Score(), timeout=10.0)
            assert (answer["hits"], answer["own"]) == (50, address)


def test_types_of_a_function_are_sent_along():
    message = denizen.message("Mark", [("n", "u4")])

    @denizen.actor
    class Local:
        n: "u4" = 0  # noqa: F821

        def on_mark(self, m: message, ctx):
            self.n += m.n
            ctx.reply(players.Hits(self.n, ctx.self))

    with denizen.Cluster(Local, hosts=2) as cluster:
        (there,) = cluster.spawn(Local, host=1)
        assert cluster.ask(there, message(5), timeout=10.0)["hits"] == 5

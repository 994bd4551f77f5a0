# SPDX-License-Identifier: Apache-2.0
"""One program for actors and tasks: an actor for each board, whose queens are placed by tasks.

    python boards.py [device]

A handler spawns the first task of its board. A task spawns one for every way to go on, whichever
worker then runs it, and what a task finds goes as a message to the actor that has asked. The actor
knows that its board is done: each task says how many it has spawned.
"""

import sys

import numpy as np

import denizen

WAYS = {4: 2, 5: 10, 6: 4, 7: 40, 8: 92}


@denizen.message
class Solve:
    n: np.uint32


@denizen.message
class Placed:
    spawned: np.uint32
    found: np.uint32


@denizen.message
class Ask:
    pass


@denizen.message
class Answer:
    ways: np.uint32
    tasks: np.uint32
    under_way: np.uint32


@denizen.task
class Place:
    free: np.uint32  # columns without a queen, of the whole board
    left: np.uint32  # columns of the next row that are attacked along one diagonal
    right: np.uint32  # along the other

    def run(self, ctx):
        room = self.free & ~(self.left | self.right)
        spawned = 0
        while room != 0:
            queen = room & -room
            room ^= queen
            free = self.free ^ queen
            if not ctx.spawn(Place(free, (self.left | queen) << 1, (self.right | queen) >> 1)):
                ctx.fail(1)  # no room for it
                return
            spawned += 1
        found = 0
        if self.free == 0:
            found = 1
        ctx.send(ctx.self, Placed(spawned, found))


@denizen.actor
class Board:
    ways: np.uint32
    tasks: np.uint32
    under_way: np.int32

    def on_solve(self, m: Solve, ctx):
        self.under_way = 1
        ctx.spawn(Place((1 << m.n) - 1, 0, 0))

    def on_placed(self, m: Placed):
        self.tasks += 1
        self.ways += m.found
        self.under_way += m.spawned - 1

    def on_ask(self, m: Ask, ctx):
        ctx.reply(Answer(self.ways, self.tasks, self.under_way))


def main(device: str = "auto") -> None:
    with denizen.Runtime(Board, device) as rt:
        boards = rt.spawn(Board, len(WAYS))
        for board, n in zip(boards, WAYS, strict=True):
            rt.send(board, Solve(n))
        rt.drain(timeout=60)  # until no message and no task is under way
        for board, (n, known) in zip(boards, WAYS.items(), strict=True):
            answer = rt.ask(board, Ask())
            print(f"{n} queens: {answer['ways']} ways, found by {answer['tasks']:,} tasks")
            if (answer["ways"], answer["under_way"]) != (known, 0):
                sys.exit(f"{n} queens stand in {known} ways, and nothing is under way")


if __name__ == "__main__":
    main(*sys.argv[1:])

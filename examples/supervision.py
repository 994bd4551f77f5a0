# SPDX-License-Identifier: Apache-2.0
"""Supervision: a worker that fails is started anew beside the others, and the host hears of it.

    python supervision.py [device]

The supervisor is an actor too; it decides on the device. The message that the worker failed at is a
dead letter, with the code.
"""

import sys

import numpy as np

import denizen


@denizen.message
class Work:
    number: np.uint32


@denizen.message
class Ask:
    pass


@denizen.message
class Count:
    handled: np.uint32


@denizen.actor
class Worker:
    handled: np.uint32

    def on_work(self, m: Work, ctx):
        if m.number == 13:
            ctx.fail(100)
        else:
            self.handled += 1

    def on_ask(self, m: Ask, ctx):
        ctx.reply(Count(self.handled))


plant = denizen.Program(actors=[Worker], messages=[denizen.DOWN], name="plant")


def main(device: str = "auto") -> None:
    with denizen.Runtime(plant, device) as rt:
        workers = rt.spawn(Worker, 4)
        rt.supervise(workers, "one_for_one", max_restarts=3, window=5)
        rt.watch(denizen.HOST, workers[1])

        work = Work.zeros(20)
        work["number"] = np.arange(20)
        rt.send_many(workers[work["number"] % 4], work)
        rt.drain()

        down = rt.receive(timeout=10)  # the first news of worker 1
        (letter,) = rt.dead_letters()
        counts = rt.ask_many(workers, "Ask", Count)["handled"].tolist()
        lives = [rt.inspect(worker).incarnation for worker in workers]
        print(f"{down.type} with code {down.message['code']}; dead letter: {letter.text}")
        print(f"handled {counts} in lives {lives}")  # worker 1 forgot 1, 5 and 9, and handled 17
        if (counts, lives, letter.code) != ([5, 1, 5, 5], [1, 2, 1, 1], 100):
            sys.exit("worker 1 should have failed at 13 and been restarted, and no other")


if __name__ == "__main__":
    main(*sys.argv[1:])

# SPDX-License-Identifier: Apache-2.0
"""Supervision: a worker that fails is started anew beside the others, and the host hears of it.

    python supervision.py [device]

The supervisor is an actor too; it decides on the device. The message that the worker failed at is a
dead letter, with the code.
"""

import sys

import numpy as np

import denizen

Work = denizen.message("Work", [("number", "u4")])
Ask = denizen.message("Ask")
Count = denizen.message("Count", [("handled", "u4")])

plant = denizen.Program(
    """
    struct Worker {
        static constexpr bool can_fail = true;
        uint32_t handled = 0;
        void on(const Work& m, auto& ctx) {
            if (m.number == 13) ctx.fail(100);
            else ++handled;
        }
        void on(const Ask&, auto& ctx) { ctx.reply(Count{handled}); }
    };
    """,
    actors=["Worker"],
    messages=[Work, Ask, Count, denizen.DOWN],
    name="plant",
)


def main(device: str = "auto") -> None:
    with denizen.Runtime(plant, device) as rt:
        workers = rt.spawn("Worker", 4)
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

# SPDX-License-Identifier: Apache-2.0
"""A training loop that asks an actor at every step: PyTorch's if it is installed, else NumPy's.

    python loop.py [device]

The coach lives in a resident program, beside PyTorch's kernels if both are on a GPU. It hears each
step's loss and answers with the rate for the next.
"""

import sys

import numpy as np

import denizen

try:
    import torch
except ImportError:
    torch = None


@denizen.message
class Loss:
    value: np.float32


@denizen.message
class Advice:
    rate: np.float32
    enough: np.bool_
    steps: np.uint32


@denizen.actor
class Coach:
    last: np.float32 = 3e38
    rate: np.float32 = 8
    steps: np.uint32

    def on_loss(self, m: Loss, ctx):
        if m.value > self.last:  # that step was too long
            self.rate /= 2
        self.last = m.value
        self.steps += 1
        ctx.reply(Advice(self.rate, m.value < 1e-6, self.steps))


def main(device: str = "auto") -> None:
    random = np.random.default_rng(0)
    truth = random.normal(size=8).astype("f4")
    x = random.normal(size=(1000, 8)).astype("f4")
    y, w = x @ truth, np.zeros(8, "f4")
    with denizen.Runtime(Coach, device, breath_us=2000) as rt:
        if torch is not None:
            where = "cuda" if rt.description["on_gpu"] else "cpu"
            x, y, w = (torch.from_numpy(array).to(where) for array in (x, y, w))
        (coach,) = rt.spawn(Coach)
        steps, enough = 0, False
        while not enough and steps < 1000:
            wrong = x @ w - y
            advice = rt.ask(coach, Loss(value=float((wrong * wrong).mean())), timeout=10)
            steps, enough = steps + 1, advice["enough"]
            w = w - float(advice["rate"]) * (x.T @ wrong) / len(y)
    error = np.abs(np.asarray(w if torch is None else w.cpu()) - truth).max()
    print(f"rate {advice['rate']:g} after {steps} steps, weights within {error:.1e}")
    if error > 1e-2 or advice["steps"] != steps:
        sys.exit("the loop should have found the weights, asking at each step")


if __name__ == "__main__":
    main(*sys.argv[1:])

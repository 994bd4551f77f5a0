# SPDX-License-Identifier: Apache-2.0
"""A bank whose accounts are actors written in Python: money moves, and none is lost.

    python handlers.py [device]

Without a device: the first GPU, else CPU threads, for which Numba compiles the handlers
(pip install '.[handlers]' in a checkout). `python` has the interpreter run them, for breakpoints
and print.
"""

import sys

import numpy as np

import denizen


@denizen.message
class Transfer:
    to: denizen.ADDRESS
    cents: np.uint32


@denizen.message
class Deposit:
    cents: np.uint32


@denizen.message
class Ask:
    pass


@denizen.message
class Balance:
    cents: np.uint64
    refused: np.uint32


@denizen.actor
class Account:
    cents: np.uint64 = 1000_00
    refused: np.uint32 = 0

    def on_transfer(self, m: Transfer, ctx):
        if m.cents > self.cents:
            self.refused += 1
        else:
            self.cents -= m.cents
            ctx.send(m.to, Deposit(m.cents))

    def on_deposit(self, m: Deposit):
        self.cents += m.cents

    def on_ask(self, m: Ask, ctx):
        ctx.reply(Balance(self.cents, self.refused))


def main(device: str = "auto") -> None:
    count = 2_000 if device == "python" else 1_000_000
    rng = np.random.default_rng(1)
    with denizen.Runtime(Account, device) as rt:
        accounts = rt.spawn(Account, 1000)
        transfers = Transfer.zeros(count)
        transfers["to"] = rng.choice(accounts, count)
        transfers["cents"] = rng.integers(1, 500_00, count)
        rt.send_many(rng.choice(accounts, count), transfers)
        rt.drain()
        balances = rt.ask_many(accounts, Ask(), Balance)
        total = int(balances["cents"].sum())
        print(f"{count:,} transfers on {rt.description['device']},", end=" ")
        print(f"{balances['refused'].sum():,} refused, {total / 100:,.2f} in all accounts")
        if total != 1000 * 1000_00:
            sys.exit("money was made or lost")


if __name__ == "__main__":
    main(*sys.argv[1:])

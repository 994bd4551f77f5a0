# SPDX-License-Identifier: Apache-2.0
"""Topics: an exchange publishes prices without knowing who listens, from a handler.

python topics.py [device]
"""

import sys

import numpy as np

import denizen


@denizen.message
class Trade:
    price: np.float32


@denizen.message
class Price:
    value: np.float32


@denizen.message
class Ask:
    pass


@denizen.message
class Heard:
    count: np.uint32
    last: np.float32


@denizen.actor
class Exchange:
    def on_trade(self, m: Trade, ctx):
        ctx.publish("market/EURUSD", Price(m.price))


@denizen.actor
class Listener:
    count: np.uint32
    last: np.float32

    def on_price(self, m: Price):
        self.count += 1
        self.last = m.value

    def on_ask(self, m: Ask, ctx):
        ctx.reply(Heard(self.count, self.last))


def main(device: str = "auto") -> None:
    with denizen.Runtime([Exchange, Listener], device) as rt:
        (exchange,) = rt.spawn(Exchange)
        euros, everything, nothing = rt.spawn(Listener, 3)
        rt.subscribe(euros, "market/EURUSD")
        rt.subscribe(everything, "market/*")  # all that begin so

        for price in (1.07, 1.08, 1.09):
            rt.send(exchange, Trade(price=price))
        rt.drain()
        sent = rt.publish("market/GBPUSD", Price(value=1.27))  # the host publishes too
        rt.drain()

        heard = rt.ask_many([euros, everything, nothing], "Ask", Heard)
        print(f"the host's price went to {sent} listener; prices heard: {heard['count'].tolist()}")
        right = heard["count"].tolist() == [3, 4, 0] and np.allclose(heard["last"], [1.09, 1.27, 0])
        if sent != 1 or not right:
            sys.exit("each subscriber should have heard its topics, once")


if __name__ == "__main__":
    main(*sys.argv[1:])

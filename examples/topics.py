# SPDX-License-Identifier: Apache-2.0
"""Topics: an exchange publishes prices without knowing who listens, from a handler.

python topics.py [device]
"""

import sys

import numpy as np

import denizen

Trade = denizen.message("Trade", [("price", "f4")])
Price = denizen.message("Price", [("value", "f4")])
Ask = denizen.message("Ask")
Heard = denizen.message("Heard", [("count", "u4"), ("last", "f4")])

market = denizen.Program(
    """
    struct Exchange {
        void on(const Trade& m, auto& ctx) { ctx.publish("market/EURUSD", Price{m.price}); }
    };
    struct Listener {
        uint32_t count = 0;
        float last = 0;
        void on(const Price& m, auto&) { ++count; last = m.value; }
        void on(const Ask&, auto& ctx) { ctx.reply(Heard{count, last}); }
    };
    """,
    actors=["Exchange", "Listener"],
    messages=[Trade, Price, Ask, Heard],
    name="market",
)


def main(device: str = "auto") -> None:
    with denizen.Runtime(market, device) as rt:
        (exchange,) = rt.spawn("Exchange")
        euros, everything, nothing = rt.spawn("Listener", 3)
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

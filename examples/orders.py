# SPDX-License-Identifier: Apache-2.0
"""An actor for each piece of work: spawned by a handler, asks another actor, for so long.

    python orders.py [device]

A desk spawns a clerk for each order. The clerk asks the shop for the price: the answer comes as a
message like any other. If it has not come in time, what the clerk sent itself for that case has.
Either way it answers the customer, stops, and its place is free for the next clerk.
"""

import sys

import numpy as np

import denizen


@denizen.message
class Order:
    item: np.uint32


@denizen.message
class Offer:
    item: np.uint32
    price: np.uint32  # 0: none in time


@denizen.message
class AskPrice:
    item: np.uint32


@denizen.message
class Price:
    item: np.uint32
    price: np.uint32


@denizen.message
class TooLate:
    pass


@denizen.message
class Open:
    shop: denizen.ADDRESS


def offer(clerk, price, ctx):
    ctx.send(clerk.customer, Offer(clerk.item, price))
    ctx.stop(ctx.self)


@denizen.actor
class Clerk:
    PATIENCE_NS = 50_000_000
    customer: denizen.ADDRESS
    shop: denizen.ADDRESS
    item: np.uint32
    patience: np.uint32  # the timer

    def on_order(self, m: Order, ctx):
        self.item = m.item
        ctx.send(self.shop, AskPrice(m.item))
        self.patience = ctx.send_after(self.PATIENCE_NS, ctx.self, TooLate())

    def on_price(self, m: Price, ctx):
        ctx.cancel(self.patience)
        offer(self, m.price, ctx)

    def on_too_late(self, m: TooLate, ctx):
        offer(self, 0, ctx)


@denizen.actor
class Desk:
    shop: denizen.ADDRESS

    def on_open(self, m: Open):
        self.shop = m.shop

    def on_order(self, m: Order, ctx):
        clerk = ctx.spawn(Clerk(customer=ctx.sender, shop=self.shop))
        if clerk == denizen.NOWHERE:  # no place for one more
            ctx.reply(Offer(m.item, price=0))
        else:
            ctx.send(clerk, m)


@denizen.actor
class Shop:
    def on_ask_price(self, m: AskPrice, ctx):
        if m.item != 13:  # nobody sells that
            ctx.reply(Price(m.item, price=100 + m.item))


def main(device: str = "auto") -> None:
    with denizen.Runtime([Desk, Shop], device) as rt:
        (desk,) = rt.spawn(Desk, name="desk")
        (shop,) = rt.spawn(Shop, name="shop")
        rt.send(rt.find("desk"), Open(shop=shop))

        offers = [rt.ask(desk, Order(item=item), timeout=10) for item in range(20)]
        prices = [int(offer["price"]) for offer in offers]
        rt.drain()

        left = [(actor.type, actor.name) for actor in rt.actors()]
        spawned = rt.telemetry().spawned
        print(f"prices {prices}")
        print(f"{spawned} clerks were spawned; still here: {left}")
        if prices != [0 if item == 13 else 100 + item for item in range(20)]:
            sys.exit("every item but 13 should have its price")
        if spawned != 20 or sorted(left) != [("Desk", "desk"), ("Shop", "shop")]:
            sys.exit("there should have been a clerk for each order, and all should be gone")


if __name__ == "__main__":
    main(*sys.argv[1:])

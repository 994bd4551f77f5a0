# SPDX-License-Identifier: Apache-2.0
"""An actor for each piece of work: spawned by a handler, asks another actor, for so long.

    python orders.py [device]

A desk spawns a clerk for each order. The clerk asks the shop for the price: the answer comes as a
message like any other. If it has not come in time, what the clerk sent itself for that case has.
Either way it answers the customer, stops, and its place is free for the next clerk.
"""

import sys

import denizen

Order = denizen.message("Order", [("item", "u4")])
Offer = denizen.message("Offer", [("item", "u4"), ("price", "u4")])  # price 0: none in time
AskPrice = denizen.message("AskPrice", [("item", "u4")])
Price = denizen.message("Price", [("item", "u4"), ("price", "u4")])
TooLate = denizen.message("TooLate")
Open = denizen.message("Open", [("shop", denizen.ADDRESS)])

trade = denizen.Program(
    """
    struct Clerk {
        static constexpr bool spawned = true;  // by handlers, not by the host
        denizen::Address customer;
        denizen::Address shop;
        uint32_t item = 0;
        denizen::Timer patience;

        void on(const Order& m, auto& ctx) {
            item = m.item;
            ctx.send(shop, AskPrice{item});
            patience = ctx.send_after(50'000'000, ctx.self(), TooLate{});  // ns
        }
        void on(const Price& m, auto& ctx) {
            ctx.cancel(patience);
            offer(m.price, ctx);
        }
        void on(const TooLate&, auto& ctx) { offer(0, ctx); }

        void offer(uint32_t price, auto& ctx) {
            ctx.send(customer, Offer{item, price});
            ctx.stop(ctx.self());
        }
    };
    struct Desk {
        denizen::Address shop;
        void on(const Open& m, auto&) { shop = m.shop; }
        void on(const Order& m, auto& ctx) {
            const denizen::Address clerk = ctx.template spawn<Clerk>(ctx.sender(), shop);
            if (clerk == denizen::nowhere) ctx.reply(Offer{m.item, 0});  // no place for one more
            else ctx.send(clerk, m);
        }
    };
    struct Shop {
        void on(const AskPrice& m, auto& ctx) {
            if (m.item != 13) ctx.reply(Price{m.item, 100 + m.item});  // nobody sells that
        }
    };
    """,
    actors=["Desk", "Clerk", "Shop"],
    messages=[Order, Offer, AskPrice, Price, TooLate, Open],
    name="trade",
)


def main(device: str = "auto") -> None:
    with denizen.Runtime(trade, device) as rt:
        (desk,) = rt.spawn("Desk", name="desk")
        (shop,) = rt.spawn("Shop", name="shop")
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

// SPDX-License-Identifier: Apache-2.0
// An actor for each piece of work: spawned by a handler, asks another actor, and does not wait for
// ever. A desk spawns a clerk for each order; the clerk asks the shop for the price, and what it
// sends itself for the case of no answer comes in time. Either way it answers the customer and
// stops. `orders cpu` takes CPU threads even where there is a GPU.
#include <denizen/actor/runtime.hpp>
#include <denizen/actor/telemetry.hpp>

#include <cstdio>

namespace {

using denizen::Address;

struct Order {
    uint32_t item;
};
struct Offer { // price 0: none in time
    uint32_t item;
    uint32_t price;
};
struct AskPrice {
    uint32_t item;
};
struct Price {
    uint32_t item;
    uint32_t price;
};
struct TooLate {};
struct Open {
    Address shop;
};

struct Clerk {
    static constexpr bool spawned = true; // by handlers, not by the host
    Address customer;
    Address shop;
    uint32_t item = 0;
    denizen::Timer patience;

    DENIZEN_HD void on(const Order& m, auto& ctx)
    {
        item = m.item;
        ctx.send(shop, AskPrice{item});
        patience = ctx.send_after(50'000'000, ctx.self(), TooLate{}); // ns
    }
    DENIZEN_HD void on(const Price& m, auto& ctx)
    {
        ctx.cancel(patience);
        offer(m.price, ctx);
    }
    DENIZEN_HD void on(const TooLate&, auto& ctx) { offer(0, ctx); }

    DENIZEN_HD void offer(uint32_t price, auto& ctx)
    {
        ctx.send(customer, Offer{item, price});
        ctx.stop(ctx.self());
    }
};

struct Desk {
    Address shop;
    DENIZEN_HD void on(const Open& m, auto&) { shop = m.shop; }
    DENIZEN_HD void on(const Order& m, auto& ctx)
    {
        const Address clerk = ctx.template spawn<Clerk>(ctx.sender(), shop);
        if (clerk == denizen::nowhere) {
            ctx.reply(Offer{m.item, 0}); // no place for one more
        } else {
            ctx.send(clerk, m);
        }
    }
};

struct Shop {
    DENIZEN_HD void on(const AskPrice& m, auto& ctx)
    {
        if (m.item != 13) { // nobody sells that
            ctx.reply(Price{m.item, 100 + m.item});
        }
    }
};

using Trade = denizen::Program<denizen::Actors<Desk, Clerk, Shop>,
                               denizen::Messages<Order, Offer, AskPrice, Price, TooLate, Open>>;

} // namespace

int main(int argc, char**)
{
    using namespace std::chrono_literals;
    denizen::Runtime<Trade> rt(argc > 1 ? denizen::Device::cpu() : denizen::Device::automatic());
    rt.spawn<Desk>("desk");
    const Address shop = rt.spawn<Shop>("shop");
    const Address desk = rt.find("desk");
    rt.send(desk, Open{shop});

    uint32_t wrong = 0;
    for (uint32_t item = 0; item < 20; ++item) {
        const uint32_t price = rt.ask<Offer>(desk, Order{item}, 10s).price;
        wrong += price != (item == 13 ? 0 : 100 + item) ? 1 : 0;
    }
    rt.drain();
    const size_t left = rt.actors().size();
    const uint64_t spawned = rt.telemetry().spawned;
    rt.close();
    std::printf("%llu clerks were spawned, %zu actors are left; %u prices are wrong\n",
                static_cast<unsigned long long>(spawned), left, wrong);
    return wrong == 0 && spawned == 20 && left == 2 ? 0 : 1;
}

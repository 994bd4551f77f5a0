// SPDX-License-Identifier: Apache-2.0
// Topics: an exchange publishes prices without knowing who listens, from a handler. `topics cpu`
// takes CPU threads even where there is a GPU.
#include <denizen/actor/runtime.hpp>

#include <cstdio>

namespace {

struct Trade {
    float price;
};
struct Price {
    float value;
};
struct Ask {};
struct Heard {
    uint32_t count;
    float last;
};

struct Exchange {
    DENIZEN_HD void on(const Trade& m, auto& ctx) { ctx.publish("market/EURUSD", Price{m.price}); }
};

struct Listener {
    uint32_t count = 0;
    float last = 0;

    DENIZEN_HD void on(const Price& m, auto&)
    {
        ++count;
        last = m.value;
    }
    DENIZEN_HD void on(const Ask&, auto& ctx) { ctx.reply(Heard{count, last}); }
};

using Market = denizen::Program<denizen::Actors<Exchange, Listener>,
                                denizen::Messages<Trade, Price, Ask, Heard>>;

} // namespace

int main(int argc, char**)
{
    denizen::Runtime<Market> rt(argc > 1 ? denizen::Device::cpu() : denizen::Device::automatic());
    const denizen::Address exchange = rt.spawn<Exchange>();
    const std::vector<denizen::Address> listeners = rt.spawn<Listener>(3);
    rt.subscribe(listeners[0], "market/EURUSD");
    rt.subscribe(listeners[1], "market/*"); // all that begin so

    for (const float price : {1.07f, 1.08f, 1.09f}) {
        rt.send(exchange, Trade{price});
    }
    rt.drain();
    const uint32_t sent = rt.publish("market/GBPUSD", Price{1.27f}); // the host publishes too
    rt.drain();

    const std::vector<Heard> heard = rt.ask_many<Heard>(listeners, Ask{});
    rt.close();
    std::printf("the host's price went to %u listener; prices heard: %u, %u, %u\n", sent,
                heard[0].count, heard[1].count, heard[2].count);
    const bool counts = heard[0].count == 3 && heard[1].count == 4 && heard[2].count == 0;
    return sent == 1 && counts && heard[0].last == 1.09f && heard[1].last == 1.27f ? 0 : 1;
}

// SPDX-License-Identifier: Apache-2.0
// A stranger's program on the installed core: one message through a ring, one through an actor.
#include <denizen/actor/runtime.hpp>
#include <denizen/wire/channel.hpp>

namespace {

struct Add {
    int n;
};
struct Ask {};
struct Sum {
    int n;
};

struct Adder {
    int sum = 0;
    DENIZEN_HD void on(const Add& m, auto&) { sum += m.n; }
    DENIZEN_HD void on(const Ask&, auto& ctx) { ctx.reply(Sum{sum}); }
};

bool through_a_ring()
{
    denizen::Channel<denizen::Spsc> ring("numbers", 16);
    auto sender = ring.sender();
    auto receiver = ring.receiver();
    const int sent = 42;
    int got = 0;
    sender.send({.destination = 1, .sender = 2, .type = 3, .flags = 0, .length = sizeof sent},
                &sent);
    receiver.receive(&got, sizeof got);
    return got == sent;
}

bool through_an_actor()
{
    using Program = denizen::Program<denizen::Actors<Adder>, denizen::Messages<Add, Ask, Sum>>;
    denizen::Runtime<Program> rt(denizen::Device::cpu());
    const denizen::Address adder = rt.spawn<Adder>(1).front();
    rt.send(adder, Add{40});
    rt.send(adder, Add{2});
    const bool right = rt.ask<Sum>(adder, Ask{}).n == 42;
    rt.close();
    return right;
}

} // namespace

int main() { return through_a_ring() && through_an_actor() ? 0 : 1; }

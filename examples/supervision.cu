// SPDX-License-Identifier: Apache-2.0
// Supervision: a worker that fails is started anew beside the others, and the host hears of it. The
// supervisor is an actor too; it decides on the device. `supervision cpu` takes CPU threads even
// where there is a GPU.
#include <denizen/actor/runtime.hpp>

#include <cstdio>

namespace {

struct Work {
    uint32_t number;
};
struct Ask {};
struct Count {
    uint32_t handled;
};

struct Worker {
    static constexpr bool can_fail = true;
    uint32_t handled = 0;

    DENIZEN_HD void on(const Work& m, auto& ctx)
    {
        if (m.number == 13) {
            ctx.fail(100); // the message becomes a dead letter with this code
        } else {
            ++handled;
        }
    }
    DENIZEN_HD void on(const Ask&, auto& ctx) { ctx.reply(Count{handled}); }
};

using Plant =
    denizen::Program<denizen::Actors<Worker>, denizen::Messages<Work, Ask, Count, denizen::Down>>;

} // namespace

int main(int argc, char**)
{
    denizen::Runtime<Plant> rt(argc > 1 ? denizen::Device::cpu() : denizen::Device::automatic());
    const std::vector<denizen::Address> workers = rt.spawn<Worker>(4);
    rt.supervise(workers, denizen::Strategy::one_for_one);
    rt.watch(denizen::host, workers[1]);
    for (uint32_t number = 0; number < 20; ++number) {
        rt.send(workers[number % 4], Work{number});
    }
    rt.drain();

    const denizen::Down down = rt.receive<denizen::Down>(); // the first news of worker 1
    const size_t letters = rt.dead_letters().letters.size();
    const uint32_t life = rt.inspect(workers[1]).incarnation;
    const std::vector<Count> counts = rt.ask_many<Count>(workers, Ask{});
    rt.close();
    std::printf("worker 1 failed with code %u; it lives its life %u and has handled %u\n",
                down.code, life, counts[1].handled);
    const bool others = counts[0].handled == 5 && counts[2].handled == 5 && counts[3].handled == 5;
    return down.code == 100 && letters == 1 && life == 2 && counts[1].handled == 1 && others ? 0
                                                                                             : 1;
}

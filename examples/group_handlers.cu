// SPDX-License-Identifier: Apache-2.0
// Collectives that handlers call: an actor of each rank sums its array with those of the others,
// without a word to the host in between. Each rank is a node of CPU threads here; with
// Device::gpu() for both, and arrays in device memory, it is a GPU.
#define DENIZEN_GROUP_INSIDE_ONLY // no kernels to launch: compiles minutes sooner
#include <denizen/actor/runtime.hpp>
#include <denizen/group/group.hpp>
#include <denizen/group/inside.hpp>

#include <cstdio>
#include <vector>

namespace {

constexpr uint32_t ranks = 3;
constexpr uint32_t numbers = 10'000;

struct Part { // where the handlers of a rank find it
    denizen::GroupRef group;
    float* values;
    float* total;
};
struct Step {
    const Part* part;
};
struct Done {
    uint32_t rank;
    uint32_t good; // 0: a rank did not come, or called something else; the group says which
};

struct Rank {
    static constexpr auto grain = denizen::Grain::warp; // its threads share the work
    DENIZEN_HD void on(const Step& m, auto& ctx)
    {
        const Part& part = *m.part;
        denizen::group::Inside<grain> inside(part.group);
        bool good = inside.all_reduce(part.values, part.total, numbers);
        good = good && inside.broadcast(part.total, part.values, numbers, 0);
        ctx.reply(Done{part.group.rank, good ? 1u : 0u});
    }
};
using Program = denizen::Program<denizen::Actors<Rank>, denizen::Messages<Step, Done>>;

} // namespace

int main()
{
    std::vector<denizen::Group> group = denizen::Group::local(ranks, denizen::Device::cpu());
    denizen::Options options;
    options.nodes = ranks; // a call waits for all ranks: each has a worker of its own
    options.workers = 1;
    denizen::Runtime<Program> rt(denizen::Device::cpu(), options);

    std::vector<std::vector<float>> values(ranks, std::vector<float>(numbers));
    std::vector<std::vector<float>> totals = values;
    std::vector<Part> parts;
    for (uint32_t r = 0; r < ranks; ++r) {
        for (uint32_t i = 0; i < numbers; ++i) values[r][i] = static_cast<float>(i * (r + 1));
        parts.push_back({group[r].ref(), values[r].data(), totals[r].data()});
    }
    for (uint32_t r = 0; r < ranks; ++r) {
        rt.send(rt.spawn<Rank>(1, denizen::on_node(r))[0], Step{&parts[r]});
    }
    uint32_t right = 0;
    for (uint32_t i = 0; i < ranks; ++i) {
        const Done done = rt.receive<Done>(std::chrono::seconds(20));
        bool all = done.good != 0;
        for (uint32_t k = 0; k < numbers; ++k) {
            all = all && totals[done.rank][k] == static_cast<float>(k * 6);
        }
        right += all ? 1 : 0;
    }
    std::printf("the handlers of %u of %u ranks have the right sum\n", right, ranks);
    return right == ranks ? 0 : 1;
}

// SPDX-License-Identifier: Apache-2.0
// Arena: handlers allocate and free on the device. Each actor keeps a list that grows and shrinks.
// `arena cpu` takes CPU threads even where there is a GPU.
#include <denizen/actor/runtime.hpp>

#include <cstdio>

namespace {

struct Push {
    uint32_t value;
};
struct Take {};
struct Taken {
    uint64_t sum;
};

struct Link {
    Link* next;
    uint32_t value;
};

struct List {
    static constexpr bool allocates = true;
    Link* first = nullptr;

    DENIZEN_HD void on(const Push& m, auto& ctx)
    {
        auto* link = static_cast<Link*>(ctx.arena().allocate(sizeof(Link)));
        if (link == nullptr) return; // no room; stats().failed counts it
        *link = {first, m.value};
        first = link;
    }
    DENIZEN_HD void on(const Take&, auto& ctx)
    {
        uint64_t sum = 0;
        while (first != nullptr) { // ends: a list has as many links as it was pushed
            Link* const link = first;
            first = link->next;
            sum += link->value;
            ctx.arena().deallocate(link);
        }
        ctx.reply(Taken{sum});
    }
};

using Lists = denizen::Program<denizen::Actors<List>, denizen::Messages<Push, Take, Taken>>;

} // namespace

int main(int argc, char**)
{
    denizen::Options options;
    options.arena_bytes = 16 << 20;
    denizen::Runtime<Lists> rt(argc > 1 ? denizen::Device::cpu() : denizen::Device::automatic(),
                               options);
    const std::vector<denizen::Address> lists = rt.spawn<List>(100);
    for (uint32_t value = 1; value <= 100; ++value) {
        rt.broadcast<List>(Push{value});
    }
    rt.drain();
    const uint64_t grown = rt.arena().stats().live_blocks;
    bool right = grown == 10'000;
    for (const Taken& t : rt.ask_many<Taken>(lists, Take{})) right = right && t.sum == 5050;
    const uint64_t left = rt.arena().stats().live_blocks;
    rt.close();
    std::printf("%llu blocks allocated by 100 lists, %llu after they were taken\n",
                static_cast<unsigned long long>(grown), static_cast<unsigned long long>(left));
    return right && left == 0 ? 0 : 1;
}

// SPDX-License-Identifier: Apache-2.0
// Buffers: messages that refer to a million numbers instead of carrying them. Eight actors work on
// parts of one array, in memory that the host and the actors both reach; nothing is copied.
// `buffers cpu` takes CPU threads even where there is a GPU.
#include <denizen/actor/runtime.hpp>

#include <cstdio>

namespace {

struct Scale {
    denizen::BufferRef data;
    uint32_t first, count;
    float by;
    DENIZEN_BUFFERS(data)
};
struct Done {};

struct Scaler {
    DENIZEN_HD void on(const Scale& m, auto& ctx)
    {
        const auto data = ctx.template data<float>(m.data);
        for (uint32_t i = m.first; i < m.first + m.count; ++i) data[i] *= m.by;
        ctx.send(denizen::host, Done{}); // who receives it finds what was written
    }
};

using Scaling = denizen::Program<denizen::Actors<Scaler>, denizen::Messages<Scale, Done>>;

constexpr uint32_t numbers = 1'000'000;
constexpr uint32_t actors = 8;

} // namespace

int main(int argc, char**)
{
    denizen::Runtime<Scaling> rt(argc > 1 ? denizen::Device::cpu() : denizen::Device::automatic());
    const std::vector<denizen::Address> scalers = rt.spawn<Scaler>(actors);
    denizen::Buffer buffer = rt.buffer(numbers * sizeof(float), denizen::BufferKind::pinned);
    auto* const x = static_cast<float*>(buffer.cpu());
    for (uint32_t i = 0; i < numbers; ++i) x[i] = static_cast<float>(i);

    constexpr uint32_t part = numbers / actors;
    for (uint32_t i = 0; i < actors; ++i) {
        rt.send(scalers[i], Scale{buffer.ref(), i * part, part, 0.5f});
    }
    for (uint32_t i = 0; i < actors; ++i) rt.receive<Done>(std::chrono::seconds(60));

    uint32_t wrong = 0;
    for (uint32_t i = 0; i < numbers; ++i) wrong += x[i] != static_cast<float>(i) * 0.5f ? 1 : 0;
    buffer.close(); // the memory goes when no message refers to it any more
    rt.close();
    std::printf("%u actors halved %u numbers, %u of them wrong\n", actors, numbers, wrong);
    return wrong == 0 ? 0 : 1;
}

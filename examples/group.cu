// SPDX-License-Identifier: Apache-2.0
// Group: ranks that sum their arrays together, by calls and by messages to a resident group. All
// ranks are threads of this process; Group::join() has a process for each, and Device::gpu() takes
// arrays on GPUs.
#include <denizen/group/group.hpp>
#include <denizen/group/resident.hpp>

#include <atomic>
#include <cstdio>
#include <thread>

namespace {

using denizen::group::Op;
using denizen::group::Type;

constexpr uint32_t ranks = 3;
constexpr uint32_t numbers = 100'000;

// Of one rank; whether its results are right.
bool run(denizen::Group& group)
{
    std::vector<float> mine(numbers);
    std::vector<float> total(numbers);
    std::vector<float> highest(numbers);
    for (uint32_t i = 0; i < numbers; ++i) mine[i] = static_cast<float>(i * (group.rank() + 1));

    group.all_reduce(mine.data(), total.data(), numbers, Type::f32, Op::sum);

    denizen::ResidentGroup resident(group); // workers that stay: a call is a message
    resident.all_reduce(mine.data(), highest.data(), numbers, Type::f32, Op::max);
    resident.wait();

    for (uint32_t i = 0; i < numbers; ++i) {
        if (total[i] != static_cast<float>(i * 6) || highest[i] != static_cast<float>(i * 3)) {
            return false;
        }
    }
    return true;
}

} // namespace

int main()
{
    std::vector<denizen::Group> group = denizen::Group::local(ranks, denizen::Device::cpu());
    std::atomic<uint32_t> right{0};
    std::vector<std::thread> threads;
    for (denizen::Group& rank : group) {
        threads.emplace_back([&rank, &right] { right += run(rank) ? 1 : 0; });
    }
    for (std::thread& thread : threads) thread.join();
    std::printf("%u of %u ranks have the right sum and maximum of %u numbers\n", right.load(),
                ranks, numbers);
    return right == ranks ? 0 : 1;
}

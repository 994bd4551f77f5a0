// SPDX-License-Identifier: Apache-2.0
// The arena on threads of the host, beside malloc and std::pmr's synchronized pool.
#include "arena_arms.hpp"

#include <denizen/memory/arena.hpp>
#include <denizen/memory/arena/resource.hpp>

#include <memory>
#include <memory_resource>
#include <thread>

namespace denizen::bench {
namespace {

struct HostArm {
    const char* name;
    std::function<void*(size_t)> allocate;
    std::function<void(void*, size_t)> deallocate;
};

// `threads` threads, each of which keeps 64 blocks and replaces one in each step. M pairs/s; every
// block's first word is checked.
double host_churn(const HostArm& arm, uint32_t threads, uint32_t steps, size_t bytes, bool& right)
{
    std::vector<std::thread> all;
    std::vector<uint64_t> wrong(threads);
    const uint64_t begin = now_ns();
    for (uint32_t t = 0; t < threads; ++t) {
        all.emplace_back([&, t] {
            constexpr uint32_t kept = 64;
            uint64_t* held[kept] = {};
            uint64_t errors = 0;
            for (uint32_t s = 0; s < steps + kept; ++s) {
                uint64_t*& slot = held[s % kept];
                if (slot != nullptr) {
                    errors += *slot != (uint64_t{t} << 32 | (s - kept)) ? 1 : 0;
                    arm.deallocate(slot, bytes);
                }
                slot = nullptr;
                if (s < steps) {
                    slot = static_cast<uint64_t*>(arm.allocate(bytes));
                    *slot = uint64_t{t} << 32 | s;
                }
            }
            wrong[t] = errors;
        });
    }
    for (std::thread& thread : all) thread.join();
    const uint64_t ns = now_ns() - begin;
    for (const uint64_t errors : wrong) right &= errors == 0;
    return rate(uint64_t{threads} * steps, static_cast<double>(ns) * 1e-3);
}

} // namespace

void arena_on_cpu(bool quick)
{
    Arena arena(Device::cpu(), 256 * mib);
    ArenaResource from_arena(arena.ref());
    std::pmr::synchronized_pool_resource pool;
    const ArenaRef ref = arena.ref();
    const HostArm arms[] = {
        {"churn", [ref](size_t n) { return ref.allocate(n); },
         [ref](void* p, size_t) { ref.deallocate(p); }},
        {"churn, malloc", [](size_t n) { return std::malloc(n); },
         [](void* p, size_t) { std::free(p); }},
        {"churn, std::pmr::synchronized_pool_resource",
         [&pool](size_t n) { return pool.allocate(n); },
         [&pool](void* p, size_t n) { pool.deallocate(p, n); }},
    };
    const uint32_t steps = quick ? 20'000 : 400'000;
    for (const uint32_t threads : {1u, 2u, 4u}) {
        for (const size_t bytes : {size_t{16}, size_t{256}, size_t{4096}}) {
            std::vector<Arm> turns;
            for (const char* again : {"", "A/A"}) {
                for (const HostArm& arm : arms) {
                    if (*again != 0 && &arm != arms) continue;
                    const auto right = std::make_shared<bool>(true);
                    Arm one{
                        Case(arm.name, Json().add("bytes", bytes).add("threads", threads), "M/s"),
                        uint64_t{threads} * steps,
                        [=, &arm] { return host_churn(arm, threads, steps, bytes, *right); },
                        [=] { return *right; }};
                    one.result.arm = again;
                    if (&arm == arms && *again == 0)
                        one.result.ratio_base = {arms[1].name, arms[2].name};
                    turns.push_back(std::move(one));
                }
            }
            take_turns(turns, quick ? 3 : 11);
        }
    }
}

} // namespace denizen::bench

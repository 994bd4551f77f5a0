// SPDX-License-Identifier: Apache-2.0
#include "block_runner.hpp"

#include <denizen/base/clock.hpp>

#include "cores.hpp"

#include <ctime>

namespace denizen::flow {
namespace {

constexpr uint32_t spins = 1024;
constexpr uint32_t turns_at_once = 8; // of a block of a pool, before others have the thread

// The clock of now_ns() to some milliseconds: a coroutine that is suspended after each quantum
// would pay for more.
uint64_t coarse_now_ns()
{
    timespec t{};
    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(t.tv_nsec);
}

} // namespace

void Engine::BlockRunner::run()
{
    pin_to(core_); // start() has looked whether it may
    try {
        uint32_t idle = 0;
        uint64_t since = 0;
        bool soon = true; // work came within own_core_ns when it was last waited for
        for (;;) {        // ends: by the end of the samples, by stop() or by abort()
            if (step()) {
                if (idle >= spins) {
                    soon = now_ns() - since < own_core_ns;
                    woken();
                }
                idle = 0;
            } else if (over()) {
                break;
            } else if (++idle < spins) {
                relax();
            } else if (idle == spins) {
                since = now_ns();
            } else if (core_ >= 0 && soon && now_ns() - since < own_core_ns) {
                sched_yield();
            } else {
                rest();
            }
        }
    } catch (const std::exception& error) {
        failed(error);
    }
    graph_.seat_left();
}

Coroutine Engine::BlockRunner::drive()
{
    try {
        while (!over()) { // ends: as above
            uint32_t turns = 0;
            while (turns < turns_at_once && step()) { // ends: others want the thread too
                ++turns;
            }
            if (turns == turns_at_once) {
                co_await Yield();
            } else if (!over()) {
                if (tell_idle()) {
                    co_await Nap();
                } else {
                    // One block: nothing since the last step, or the word of the parking has
                    // changed. Several: one may have given to one before it, which rings no bell.
                    const bool looked = blocks_.size() == 1;
                    co_await Until(bell_.parking, [this] { return can_step(); }, looked);
                }
                woken();
            }
        }
    } catch (const std::exception& error) {
        failed(error);
    }
    graph_.seat_left();
}

void Engine::BlockRunner::failed(const std::exception& error)
{
    graph_.abort();
    const std::lock_guard lock(graph_.mutex_);
    if (graph_.failure_.empty()) {
        graph_.failure_ = "block \"" + at_->name() + "\" failed: " + error.what();
    }
}

bool Engine::BlockRunner::step()
{
    bool moved = false;
    for (Block* block : blocks_) {
        at_ = block;
        moved |= step(*block);
    }
    return moved;
}

void Engine::BlockRunner::woken()
{
    for (Block* block : blocks_) {
        block->idle_since_.store(0, std::memory_order_relaxed);
    }
}

bool Engine::BlockRunner::over() const
{
    for (const Block* block : blocks_) {
        if (!over(*block)) {
            return false;
        }
    }
    return true;
}

bool Engine::BlockRunner::can_step() const
{
    for (Block* block : blocks_) {
        if (can_step(*block)) {
            return true;
        }
    }
    return over();
}

// Writes down since when, and for what, the blocks wait. True if one waits for something outside
// the graph, which rings no bell, and must be asked again soon: it could work but moved nothing, or
// has handed its quanta to somebody else.
bool Engine::BlockRunner::tell_idle()
{
    const uint64_t now = coarse_now_ns();
    bool outside = false;
    for (Block* block : blocks_) {
        if (block->finished_ || block->passive_) {
            continue;
        }
        outside |= ready(*block) || block->busy();
        block->starved_at_.store(block->busy() ? nullptr : waits_for(*block),
                                 std::memory_order_relaxed);
        if (block->idle_since_.load(std::memory_order_relaxed) == 0) {
            block->idle_since_.store(now, std::memory_order_relaxed);
        }
    }
    return outside;
}

void Engine::BlockRunner::rest()
{
    if (tell_idle()) {
        const timespec nap{0, 50'000};
        nanosleep(&nap, nullptr);
        return;
    }
    while (!can_step()) { // ends: whoever gives it something to do rings the bell
        bell_.bell.sleep(1'000'000'000, [this] { return can_step(); });
    }
}

} // namespace denizen::flow

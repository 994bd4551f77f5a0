// SPDX-License-Identifier: Apache-2.0
#include "seat.hpp"

#include <denizen/base/clock.hpp>

#include <ctime>
#include <sched.h>

namespace denizen::flow {
namespace {

constexpr uint32_t spins = 1024;

} // namespace

void Seat::run()
{
    if (core_ >= 0) { // start() has looked whether it may
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(core_, &one);
        sched_setaffinity(0, sizeof one, &one);
    }
    try {
        uint32_t idle = 0;
        while (!over()) { // ends: by the end of the samples, by stop() or by abort()
            if (step()) {
                if (idle >= spins) {
                    woken();
                }
                idle = 0;
            } else if (++idle < spins) {
                relax();
            } else {
                rest();
            }
        }
    } catch (const std::exception& error) {
        graph_.abort();
        const std::lock_guard lock(graph_.mutex_);
        if (graph_.failure_.empty()) {
            graph_.failure_ = "block \"" + at_->name() + "\" failed: " + error.what();
        }
    }
    graph_.seat_left();
}

bool Seat::step()
{
    bool moved = false;
    for (Block* block : blocks_) {
        at_ = block;
        moved |= block->step();
    }
    return moved;
}

void Seat::woken()
{
    for (Block* block : blocks_) {
        block->idle_since_.store(0, std::memory_order_relaxed);
    }
}

bool Seat::over() const
{
    for (const Block* block : blocks_) {
        if (!block->over()) {
            return false;
        }
    }
    return true;
}

// Sleeps on the bell. A block that could work but moved nothing waits for something outside the
// graph, which rings no bell: it is asked again soon.
void Seat::rest()
{
    const uint64_t now = now_ns();
    bool outside = false;
    for (Block* block : blocks_) {
        if (block->finished_) {
            continue;
        }
        outside |= block->ready();
        block->starved_at_.store(block->waits_for(), std::memory_order_relaxed);
        if (block->idle_since_.load(std::memory_order_relaxed) == 0) {
            block->idle_since_.store(now, std::memory_order_relaxed);
        }
    }
    if (outside) {
        const timespec nap{0, 50'000};
        nanosleep(&nap, nullptr);
    } else {
        const auto anything = [&] {
            for (Block* block : blocks_) {
                if (block->can_step()) {
                    return true;
                }
            }
            return over();
        };
        while (!anything()) { // ends: whoever gives it something to do rings the bell
            bell_.sleep(1'000'000'000, anything);
        }
    }
}

} // namespace denizen::flow

// SPDX-License-Identifier: Apache-2.0
// Who looks for what a link is to carry: its thread, for how long before it sleeps, or a worker.
#pragma once

#include <denizen/base/clock.hpp>
#include <denizen/wire/wait.hpp>

#include <atomic>
#include <cstdint>

namespace denizen::cluster {

// How a thread that found nothing looks on before it sleeps. Where cores are fewer than threads,
// the one it waits for may need this core, so it is offered: now and then, and once before each
// sleep, which costs far more. Others that took it will want it again: if nothing has come
// meanwhile the thread sleeps, and the next time offers it at once.
class Looking {
public:
    explicit Looking(uint64_t spin) : spin_(spin), worked_(now_ns()) {}
    void worked(uint64_t now)
    {
        worked_ = now;
        offered_ = taken_ = false;
    }
    // False: it is to sleep.
    bool again(uint64_t now)
    {
        const bool over = taken_ || now - worked_ >= spin_;
        if (over && offered_) {
            return false;
        }
        if (!over && !crowded_ && ++looks_ % 64 != 0) {
            relax();
            return true;
        }
        offered_ = true;
        const Offered how = offer_core(withheld_);
        taken_ = how != Offered::kept;
        crowded_ = how == Offered::withheld ? crowded_ : taken_;
        return true;
    }

private:
    uint64_t spin_;
    uint64_t worked_;
    uint32_t looks_ = 0;
    uint32_t withheld_ = 0; // how often it is not offered
    bool crowded_ = false;  // when the core was last offered
    bool offered_ = false;  // since there was work
    bool taken_ = false;    // and others took it
};

// Of one direction of a link: whether workers see to it.
struct Turn {
    // One looks, and the thread need not be woken.
    std::atomic<bool> worker{false};
    // By workers, those included that found the thread at it: else it would go on, and they would
    // find it so again.
    std::atomic<uint64_t> looks{0};
    // The thread's, behind the direction's lock: of these, and that it sleeps no longer than a nap.
    uint64_t seen = 0;
    bool naps = false;

    void look()
    {
        looks.store(looks.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    }
    // By the thread, before it sleeps: whether a worker has looked since it asked last.
    bool helped()
    {
        const uint64_t now = looks.load(std::memory_order_relaxed);
        naps = now != seen;
        seen = now;
        return naps;
    }
};

} // namespace denizen::cluster

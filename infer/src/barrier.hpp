// SPDX-License-Identifier: Apache-2.0
// Where the parts of a model wait for each other: each has a word that counts its meetings, and
// waits until no other's is behind: it looks for some tens of microseconds, then sleeps.
#pragma once

#include <denizen/base/atomic.hpp>
#include <denizen/wire/wait.hpp>

#include <memory>

namespace denizen::infer {

class Barrier {
public:
    explicit Barrier(uint32_t parts) : parts_(parts), words_(std::make_unique<Word[]>(parts)) {}

    // `count`: the caller's own count of its meetings, from 0.
    void meet(uint32_t part, uint32_t& count)
    {
        if (parts_ == 1) {
            return;
        }
        ++count;
        // Release: partner of the acquire below; what the part wrote before is seen by all after.
        store<Scope::system, Order::release>(&words_[part].count, count);
        ring_bell(&bell_, &sleeping_);
        for (uint32_t other = 0; other < parts_; ++other) {
            const auto there = [&] {
                const uint32_t met = load<Scope::system, Order::acquire>(&words_[other].count);
                return static_cast<int32_t>(met - count) >= 0;
            };
            // Ends: every part goes through the same meetings, and none waits for anything else
            // within a step.
            for (uint32_t tries = 0; !there(); ++tries) {
                if (tries < 2000) {
                    relax();
                } else { // the other has no core: with more threads than cores it may want this one
                    sleep_on_bell(&bell_, &sleeping_, 10'000'000, there);
                }
            }
        }
    }

private:
    struct alignas(line) Word {
        uint32_t count = 0;
    };

    uint32_t parts_;
    std::unique_ptr<Word[]> words_;
    alignas(line) uint32_t bell_ = 0;
    uint32_t sleeping_ = 0;
};

} // namespace denizen::infer

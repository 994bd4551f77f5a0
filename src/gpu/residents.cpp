// SPDX-License-Identifier: Apache-2.0
#include "residents.hpp"

#include "../backend.hpp"

#include <denizen/base/clock.hpp>

#include <thread>

namespace denizen {

bool without_residents(const std::function<void()>& use)
{
    return gpu::residents().without_any(use);
}

} // namespace denizen

namespace denizen::gpu {

Residents& residents()
{
    static auto* all = new Residents; // outlives every runtime, static ones too
    return *all;
}

bool Residents::without_any(const std::function<void()>& use)
{
    const std::lock_guard guard(mutex);
    for (Resident* r : all_) {
        r->ask_to_leave();
    }
    const uint64_t begin = now_ns();
    bool all_left = true;
    for (Resident* r : all_) {
        // Ends when it has left, has died, or after two seconds.
        while (!r->off() && now_ns() - begin < 2'000'000'000) {
            std::this_thread::yield();
        }
        all_left &= r->off();
    }
    if (all_left) {
        use();
    }
    for (Resident* r : all_) {
        r->let_return();
    }
    return all_left;
}

void Residents::add(Resident* resident)
{
    const std::lock_guard guard(mutex);
    all_.push_back(resident);
}

void Residents::remove(Resident* resident)
{
    const std::lock_guard guard(mutex);
    std::erase(all_, resident);
}

} // namespace denizen::gpu

// SPDX-License-Identifier: Apache-2.0
// Resident programs of this process make way for each other, and for what needs a GPU to itself.
// The registry's mutex is held throughout: no program is launched or comes back meanwhile.
#include <denizen/device/residents.hpp>

#include <denizen/device/driver.hpp>

#include <denizen/base/clock.hpp>
#include <denizen/base/error.hpp>

#include <algorithm>
#include <iterator>
#include <thread>

namespace denizen {

bool gpu_present() { return gpu::driver_present(); }

bool without_residents(const std::function<void()>& use)
{
    return gpu::residents().without_any(use);
}

void off_the_gpu(const std::string& who, const std::function<void()>& use)
{
    if (!without_residents(use)) {
        throw Error(Errc::stuck, who + " has to wait until the programs of this process have left "
                                       "the GPU, and one of their handlers is stuck");
    }
}

} // namespace denizen

namespace denizen::gpu {

Residents& residents()
{
    static auto* all = new Residents; // outlives every runtime, static ones too
    return *all;
}

namespace {

// False if one of them does not leave within two seconds.
bool send_away(const std::vector<Resident*>& who)
{
    for (Resident* r : who) {
        r->ask_to_leave();
    }
    const uint64_t begin = now_ns();
    bool all_left = true;
    for (Resident* r : who) {
        // Ends when it has left, has died, or after two seconds.
        while (!r->off() && now_ns() - begin < 2'000'000'000) {
            std::this_thread::yield();
        }
        all_left &= r->off();
    }
    return all_left;
}

} // namespace

bool Residents::without_any(const std::function<void()>& use)
{
    const std::lock_guard guard(mutex);
    std::vector<Resident*> staying;
    std::copy_if(all_.begin(), all_.end(), std::back_inserter(staying),
                 [](const Resident* r) { return !r->ends_by_itself(); });
    const bool all_left = send_away(staying);
    const auto let_return = [&] {
        for (Resident* r : staying) r->let_return();
    };
    try {
        if (all_left) use();
    } catch (...) { // an error, or Ctrl-C
        let_return();
        throw;
    }
    let_return();
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

bool Residents::beside(const Resident& who)
{
    const std::lock_guard guard(mutex);
    return std::any_of(all_.begin(), all_.end(), [&](const Resident* r) {
        return r != &who && r->ordinal() == who.ordinal();
    });
}

void Residents::renew(int ordinal)
{
    const std::lock_guard guard(mutex);
    const uint64_t begin = now_ns();
    for (Resident* r : all_) {
        const uint32_t old = r->launched();
        // Ends with the old kernels, when it is off, or after ten seconds.
        while (r->ordinal() == ordinal && r->ends_by_itself() && r->ended() < old && !r->off() &&
               now_ns() - begin < 10'000'000'000) {
            std::this_thread::yield();
        }
    }
}

uint32_t Residents::taken(int ordinal) const
{
    uint32_t blocks = 0;
    for (const Resident* r : all_) {
        blocks += r->ordinal() == ordinal ? r->blocks() : 0;
    }
    return blocks;
}

void Residents::seat(const Resident& who, const std::function<void()>& launch,
                     const std::function<bool()>& seated)
{
    std::vector<Resident*> movable;
    std::copy_if(all_.begin(), all_.end(), std::back_inserter(movable), [&](const Resident* r) {
        return r != &who && r->ordinal() == who.ordinal() && r->anywhere();
    });
    const auto let_return = [&] {
        for (Resident* r : movable) {
            r->let_return();
        }
    };
    send_away(movable);
    try {
        launch();
    } catch (...) {
        let_return();
        throw;
    }
    const uint64_t begin = now_ns();
    // Ends when it is there, or after a second: something else may be in the way.
    while (!movable.empty() && !seated() && now_ns() - begin < 1'000'000'000) {
        std::this_thread::yield();
    }
    let_return();
}

} // namespace denizen::gpu

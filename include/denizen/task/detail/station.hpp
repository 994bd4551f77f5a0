// SPDX-License-Identifier: Apache-2.0
// What every part of a worker gets: the shared memory, the worker's number, its Local and its
// counts. worker.hpp makes one Station and passes it to tokens.hpp, settle.hpp, sources.hpp and
// joins.hpp.
#pragma once

#include <denizen/base/lanes.hpp>
#include <denizen/task/detail/local.hpp>
#include <denizen/wire/wait.hpp>

namespace denizen::task {

// What a worker has done since it last wrote its tally. On the device each lane keeps one of the
// counts, so all of them together take one register.
class Counts {
public:
    DENIZEN_HD void add(Count what, uint32_t n)
    {
#if DENIZEN_ON_DEVICE
        mine_ += denizen::lanes::id() == static_cast<uint32_t>(what) ? n : 0;
#else
        all_[static_cast<uint32_t>(what)] += n;
#endif
    }

    // Adds the counts to the tally, whose only writer is this worker. All lanes.
    DENIZEN_HD void tell(Tally& tally)
    {
        for (uint32_t i = denizen::lanes::id(); i < counts; i += denizen::lanes::size) {
#if DENIZEN_ON_DEVICE
            const uint32_t n = mine_;
#else
            const uint32_t n = all_[i];
#endif
            if (n != 0) {
                store<Scope::gpu>(&tally.count[i], load<Scope::gpu>(&tally.count[i]) + n);
            }
        }
        *this = {};
    }

private:
#if DENIZEN_ON_DEVICE
    uint32_t mine_ = 0;
#else
    uint32_t all_[counts] = {};
#endif
};

template <class P>
struct Station {
    const Shared& s;
    uint32_t id;
    Local<P>& local;
    uint32_t random; // for whom to steal from
    Counts done{};

    // CPU: workers and the monitor sleep when they find nothing for long.
    DENIZEN_HD void wake() const
    {
#if DENIZEN_HOSTED && !DENIZEN_ON_DEVICE
        ring_bell(&s.board->bell, &s.board->sleeping);
#endif
    }
    DENIZEN_HD void wake_monitor() const
    {
#if DENIZEN_HOSTED && !DENIZEN_ON_DEVICE
        ring_bell(&s.board->monitor_bell, &s.board->monitor_sleeping);
#endif
    }

    DENIZEN_HD void wake_monitor_of([[maybe_unused]] const Group& group) const
    {
#if DENIZEN_HOSTED && !DENIZEN_ON_DEVICE
        if (static_cast<uint32_t>(load<Scope::gpu>(&group.word)) == 0) { // it may have ended
            wake_monitor();
        }
#endif
    }

    // Others may see in the tally what was done since the last time. All lanes.
    DENIZEN_HD void tell()
    {
        done.add(Count::spilled, local.spilled);
        done.add(Count::joins, local.joined);
        denizen::lanes::sync();
        if (denizen::lanes::id() == 0) {
            local.spilled = local.joined = 0;
        }
        done.tell(s.tally[id]);
        denizen::lanes::sync();
    }
};

} // namespace denizen::task

// SPDX-License-Identifier: Apache-2.0
// A resident group: the teams of one rank stay on its device and do the calls that the host posts,
// without launches. Host only. Every rank has a ResidentGroup, and all post the same calls in the
// same order. While it lives the group is used in no other way.
//
// Post for each rank from a thread of its own. A post may wait for earlier calls, and these wait
// for the other ranks. A thread that posts for several ranks in turn would then wait for a call
// that it has yet to post, and fail with peer_dead at the group's time limit.
//
//   denizen::ResidentGroup resident(group);                  // on every rank
//   uint32_t sum = resident.all_reduce(in, out, count, Type::f32);
//   resident.wait(sum);
#pragma once

#include <denizen/device/detail/breath_option.hpp>
#include <denizen/group/detail/mailbox.hpp>
#include <denizen/group/group.hpp>

#include <optional>

namespace denizen {

class ResidentGroup {
public:
    // `channels`: the number of teams, which are blocks on a GPU (0: 64 on a GPU, 1 on the CPU).
    // The teams leave when nothing was posted for `lease`, and come back with the next call.
    // `breath`: on a GPU no kernel of theirs lasts longer than that and one call, so work that
    // waits for the whole device gets its turn. 0: one kernel for as long as they stay. Not set:
    // default_breath. The group must outlive this object.
    explicit ResidentGroup(Group& group, uint32_t channels = 0,
                           std::chrono::nanoseconds lease = std::chrono::milliseconds(500),
                           std::optional<std::chrono::microseconds> breath = {});
    ~ResidentGroup(); // waits until the teams have left
    ResidentGroup(const ResidentGroup&) = delete;
    ResidentGroup& operator=(const ResidentGroup&) = delete;

    // As Group::run(), without a launch. Returns the call's number. Waits while 16 calls are under
    // way, and for earlier calls whose data this one divides among the teams in another way; at
    // most for the group's time limit. Work that fills `in` must be done: no stream orders it.
    uint32_t post(group::Call call);
    uint32_t all_reduce(const void* in, void* out, uint64_t count, group::Type type,
                        group::Op op = group::Op::sum);

    // Waits until call `number` and all before it are done. Throws if the group is poisoned.
    void wait(uint32_t number);
    void wait() { wait(posted_); }

    uint32_t launches() const; // how often the teams had to come to the device
    // Kernels that have been queued, where none lasts; else as launches().
    uint64_t incarnations() const;

private:
    bool finished(uint32_t number);
    bool follows(const group::Call& call);

    group::Member& member_;
    uint32_t channels_;
    group::Mailbox box_{};
    uint32_t posted_ = 0;
    uint32_t finished_ = 0; // and all before it
    group::Call under_way_[group::posts];
};

} // namespace denizen

// SPDX-License-Identifier: Apache-2.0
// A resident group: one rank's teams stay on its device and do what is posted. Host only. All ranks
// have one, and post the same calls in the same order; meanwhile a group is used in no other way.
//
// Post for each rank from a thread of its own. A post may wait for calls before it, which may wait
// for the other ranks: a thread that posts for several ranks in turn then waits for what it has yet
// to post, and fails with peer_dead at the group's time limit.
//
//   denizen::ResidentGroup resident(group);                  // on every rank
//   uint32_t sum = resident.all_reduce(in, out, count, Type::f32);
//   resident.wait(sum);
#pragma once

#include <denizen/group/detail/mailbox.hpp>
#include <denizen/group/group.hpp>

#include <optional>

namespace denizen {

class ResidentGroup {
public:
    // `channels` teams (blocks of a GPU; 0: 64 on a GPU, 1 on the CPU) stay at most `lease` after
    // the last call; they come back with the next. On a GPU no kernel of theirs lasts longer than
    // `breath` and a call, so that what waits for the whole device gets its turn; 0: one kernel for
    // as long as they stay. Unless it is said: default_breath. The group must outlive it.
    explicit ResidentGroup(Group& group, uint32_t channels = 0,
                           std::chrono::nanoseconds lease = std::chrono::milliseconds(500),
                           std::optional<std::chrono::microseconds> breath = {});
    ~ResidentGroup(); // waits until the teams have left
    ResidentGroup(const ResidentGroup&) = delete;
    ResidentGroup& operator=(const ResidentGroup&) = delete;

    // As Group::run, without a launch. Returns the call's number. Waits, at most for the group's
    // time limit, while 16 are under way, or for calls whose data this one touches otherwise
    // divided among the teams. Work that fills `in` must be done: no stream orders it.
    uint32_t post(group::Call call);
    uint32_t all_reduce(const void* in, void* out, uint64_t count, group::Type type,
                        group::Op op = group::Op::sum);

    // Until call `number` and all before it are done; throws if the group is poisoned.
    void wait(uint32_t number);
    void wait() { wait(posted_); }

    uint32_t launches() const; // how often the teams had to come
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

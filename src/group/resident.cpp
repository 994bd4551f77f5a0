// SPDX-License-Identifier: Apache-2.0
// The host's side of a resident group: calls as messages in a mailbox that all of its teams read.
#include "member.hpp"

#include <denizen/base/clock.hpp>
#include <denizen/base/interrupt.hpp>
#include <denizen/group/resident.hpp>

#include <cstring>

namespace denizen {

using namespace group;

namespace {

constexpr uint64_t spin_ns = 10'000'000; // a call of 3 GB

// All of a message, to memory that may be the device's: stores there leave the core when they like.
void write(Packet* to, const Packet (&message)[post_packets])
{
    // The first packet last: it is looked at first. Partner: take_message().
    for (uint32_t i = post_packets; i-- > 0;) Direct::store(to + i, message[i]);
#if defined(__SSE2__)
    _mm_sfence();
#endif
}

bool reached(uint32_t number, uint32_t goal) { return static_cast<int32_t>(number - goal) >= 0; }

} // namespace

ResidentGroup::ResidentGroup(Group& group, uint32_t channels, std::chrono::nanoseconds lease,
                             std::optional<std::chrono::microseconds> breath)
    : member_(*group.member_), channels_(channels != 0    ? channels
                                         : group.on_gpu() ? 64
                                                          : 1)
{
    if (lease.count() <= 0 || lease > std::chrono::seconds(60)) {
        throw Error(Errc::bad_argument,
                    "a resident group's lease must be above 0 and at most 60 s");
    }
    const uint64_t breath_ns = breath_ns_of(breath);
    channels_ = std::min(channels_, member_.ref.layout.channels);
    box_ = member_.open_mailbox(channels_);
    box_.lease_ns = static_cast<uint64_t>(lease.count());
    try {
        member_.put_on(box_, breath_ns);
    } catch (...) {
        member_.close_mailbox(box_);
        throw;
    }
}

ResidentGroup::~ResidentGroup()
{
    // They leave by themselves at the end of the lease; this is quicker. If one waits for a peer it
    // is done at the group's deadline.
    if (!member_.process.here()) return;
    const Interruptible never(nullptr);
    try {
        if (posted_ >= posts) wait(posted_ + 1 - posts); // the place of the message is free
    } catch (const Error&) { // a poisoned group: every call ends at once
    }
    Packet leave[post_packets] = {};
    const uint32_t number = posted_ + 1;
    for (Packet& p : leave) p = {{leave_kind, 0, 0}, number};
    write(box_.post + number % posts * post_packets, leave);
    member_.close_mailbox(box_);
}

bool ResidentGroup::finished(uint32_t number)
{
    while (!reached(finished_, number)) { // ends: it grows, or a team is not done
        const uint32_t next = finished_ + 1;
        const uint32_t part = std::min(under_way_[next % posts].channels, box_.teams);
        for (uint32_t team = 0; team < part; ++team) {
            // Partner: serve(). A team may be some calls further, but not more than are under way;
            // what it says is older if it had no part in the last ones.
            const uint32_t done = load<Scope::system, Order::acquire>(box_.done + team);
            if (done - next >= posts) return false;
        }
        finished_ = next;
    }
    return true;
}

uint32_t ResidentGroup::launches() const { return member_.launches(); }
uint64_t ResidentGroup::incarnations() const { return member_.incarnations(); }

// Teams do not wait for one another between calls: what one team has written only the same team may
// read next, or write again.
bool ResidentGroup::follows(const Call& call)
{
    struct Range {
        const unsigned char* begin;
        uint64_t bytes;
    };
    const auto range = [&](const Call& c, const void* at, bool of_all) {
        return Range{static_cast<const unsigned char*>(at),
                     c.count * size_of(c.type) * (of_all ? member_.ref.layout.ranks : 1)};
    };
    const auto in = [&](const Call& c) { return range(c, c.in, scatters(c.kind)); };
    const auto out = [&](const Call& c) { return range(c, c.out, gathers(c.kind)); };
    const auto overlap = [](const Range& a, const Range& b) {
        return a.begin < b.begin + b.bytes && b.begin < a.begin + a.bytes;
    };
    for (uint32_t n = posted_; n != 0 && posted_ - n < posts && !finished(n); --n) {
        const Call& before = under_way_[n % posts];
        const bool alike = before.kind == call.kind && before.type == call.type &&
                           before.count == call.count && before.channels == call.channels &&
                           before.algorithm == call.algorithm && before.root == call.root &&
                           (before.in == call.in || before.in == call.out) &&
                           (before.out == call.in || before.out == call.out) &&
                           !gathers(call.kind) && !scatters(call.kind);
        if (alike) continue;
        if (overlap(out(before), in(call)) || overlap(out(before), out(call)) ||
            overlap(in(before), out(call))) {
            return true;
        }
    }
    return false;
}

uint32_t ResidentGroup::post(Call call)
{
    member_.process.check("the group");
    member_.plan(call);
    call.channels = std::min(call.channels, channels_);
    if (is_rare(call)) member_.serve_rare();
    if (posted_ >= posts) wait(posted_ + 1 - posts);
    if (follows(call)) wait(posted_);
    const uint32_t number = ++posted_;
    under_way_[number % posts] = call;
    Packet message[post_packets];
    encode(call, number, message);
    write(box_.post + number % posts * post_packets, message);
    member_.posted(number);
    return number;
}

uint32_t ResidentGroup::all_reduce(const void* in, void* out, uint64_t count, Type type, Op op)
{
    Call call;
    call.kind = Kind::all_reduce;
    call.type = type;
    call.op = op;
    call.algorithm = Algorithm::automatic;
    call.channels = 0;
    call.count = count;
    call.in = in;
    call.out = out;
    return post(call);
}

void ResidentGroup::wait(uint32_t number)
{
    member_.process.check("the group");
    // Each call may wait for its peers, and launching may take a while.
    const uint64_t patience = 2 * member_.ref.timeout_ns + 5'000'000'000;
    uint64_t begin = 0;
    uint64_t deadline = 0;
    for (uint32_t looks = 1; !finished(number); ++looks) { // ends with the call, or the deadline
        if (looks % 64 != 0) continue;
        member_.posted(posted_);
        const uint64_t now = now_ns();
        if (deadline == 0) {
            begin = now;
            deadline = now + patience;
        }
        // The CPU's teams need the core. A GPU's answer is a matter of microseconds: who naps, or
        // yields, finds it late.
        if (!member_.on_gpu || now - begin > spin_ns) Direct::idle(looks);
        check_interrupt();
        if (now > deadline) {
            throw Error(Errc::timeout, "call " + std::to_string(number) +
                                           " of a resident group is not done after " +
                                           denizen::detail::seconds(patience));
        }
    }
    if (Direct::load(box_.failed).sequence != 0) {
        uint32_t word = 0;
        member_.read(&word, &member_.ref.control(member_.ref.rank)->poison, sizeof word);
        throw_verdict(member_, Verdict::of(word));
    }
}

} // namespace denizen

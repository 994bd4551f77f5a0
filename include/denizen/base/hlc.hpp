// SPDX-License-Identifier: Apache-2.0
// A hybrid logical clock in one 64-bit word (Kulkarni, Demirbas, Madappa, Avva, Leone: "Logical
// Physical Clocks", OPODIS 2014): stamps that order causally and stay close to physical time.
// Traced messages carry one.
//
//   stamp   [ microseconds since 2026-01-01 UTC : 48 | logical : 16 ]
//
// The clock's word is the least stamp not drawn yet. It is raised to the physical time, then one is
// added: the word only grows and no two additions find the same value, so the stamps of one word
// are unique however many threads draw. (Time and counter in two words, each atomic, are not
// enough: two threads that find the same time can find the same counter.) Two words can give the
// same stamp; the sender's address tells those apart.
//
// The 65,537th stamp of a microsecond carries into the next one: the clock then runs ahead of
// physical time, still unique and in order, until time catches up. The 48 bits last until
// 2034-12-02; from then on the physical time no longer raises the word, and only the count goes on.
//
// On the device both steps are single instructions, so drawing is wait-free; on a host without an
// atomic maximum the first is a compare-exchange loop that ends at the latest when the other
// threads' clocks have passed this one's.
#pragma once

#include <denizen/base/atomic.hpp>

#if DENIZEN_HOSTED
#include <ctime>
#endif

namespace denizen::hlc {

inline constexpr uint64_t epoch_us = 1'767'225'600'000'000; // 2026-01-01 in Unix time

// How far ahead of this side's physical time a stamp may be and still be taken over: a peer with a
// wrong clock must not drag all others into the future. The same limit as RingKernel's.
inline constexpr uint64_t max_drift_us = 60'000'000;

struct Stamp {
    uint64_t value = 0; // 0: none

    DENIZEN_HD static constexpr Stamp of(uint64_t micros, uint32_t logical)
    {
        return {micros << 16 | (logical & 0xffff)};
    }
    DENIZEN_HD constexpr uint64_t micros() const { return value >> 16; }
    DENIZEN_HD constexpr uint32_t logical() const { return static_cast<uint32_t>(value & 0xffff); }
    DENIZEN_HD constexpr bool operator==(const Stamp& o) const { return value == o.value; }
    DENIZEN_HD constexpr bool operator<(const Stamp& o) const { return value < o.value; }
};

// Draws the stamp of a local event or a send. `now_us`: this side's physical time, in microseconds
// since 2026; it may repeat and even go back. S: who else draws from `word`.
template <Scope S>
DENIZEN_HD inline Stamp tick(uint64_t* word, uint64_t now_us)
{
    fetch_max<S>(word, now_us << 16);
    return {fetch_add<S>(word, uint64_t{1})};
}

// Draws the stamp of a receipt: greater than `remote`, the message's, and than all drawn before
// from this word. False, with word and `drawn` as they were, if `remote` is more than max_drift_us
// ahead of now_us.
template <Scope S>
DENIZEN_HD inline bool update(uint64_t* word, Stamp remote, uint64_t now_us, Stamp& drawn)
{
    if (remote.micros() > now_us + max_drift_us) {
        return false;
    }
    const uint64_t after = remote.value + 1;
    const uint64_t now = now_us << 16;
    fetch_max<S>(word, after < now ? now : after);
    drawn = {fetch_add<S>(word, uint64_t{1})};
    return true;
}

#if DENIZEN_HOSTED
// The host's physical time for tick() and update(); 0 if its clock is set before 2026. A device's
// is its nanosecond clock plus an offset that the host has measured against this one.
inline uint64_t now_us()
{
    timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    const int64_t since_1970 = int64_t{t.tv_sec} * 1'000'000 + t.tv_nsec / 1000;
    const auto us = static_cast<uint64_t>(since_1970);
    return since_1970 > 0 && us > epoch_us ? us - epoch_us : 0;
}
#endif

} // namespace denizen::hlc

// SPDX-License-Identifier: Apache-2.0
// What the tests of the hybrid logical clock run, by threads of a CPU and of a GPU from one text.
#pragma once

#include <denizen/base/hlc.hpp>

namespace denizen::test {

// Draws of many threads from one word. Each stamp owns a bit of `seen`, so one that is drawn twice
// is found whoever drew it. The threads' physical time advances with their own draws: as fast, all
// together, as the drawing moves the word, so that now the one leads and now the other.
struct Draws {
    uint64_t* word;
    uint32_t* seen; // one bit per value from `begin` on
    uint64_t bits;
    uint64_t begin;   // the word's first value
    uint32_t threads; // at most 65,536: a power of two, or few
    uint32_t per_thread;
    uint32_t* repeated; // stamps whose bit was set already
    uint32_t* fell;     // stamps not greater than the same thread's last
    uint32_t* outside;  // stamps out of bounds
};

// Bits that Draws needs. The word moves to a greater physical time or by a draw, no other way.
DENIZEN_HD constexpr uint64_t bits_for(uint32_t threads, uint32_t per_thread)
{
    return 2 * uint64_t{threads} * (per_thread + 2) + 65'536;
}

template <Scope S>
DENIZEN_HD inline void draw(const Draws& d, uint32_t thread)
{
    const uint32_t per_us = 65'536 / d.threads;
    const uint64_t start_us = d.begin >> 16;
    uint64_t last = 0;
    uint32_t repeated = 0;
    uint32_t fell = 0;
    uint32_t outside = 0;
    for (uint32_t i = 0; i < d.per_thread; ++i) {
        // Every other thread's clock goes 3 us late.
        const uint64_t now_us = start_us + i / per_us - (thread % 2) * 3;
        hlc::Stamp stamp;
        if (i % 16 == 15) { // a receipt of an older message
            hlc::update<S>(d.word, hlc::Stamp{last}, now_us, stamp);
        } else {
            stamp = hlc::tick<S>(d.word, now_us);
        }
        fell += stamp.value > last ? 0 : 1;
        last = stamp.value;
        const uint64_t bit = stamp.value - d.begin; // wraps, so is out of bounds, if it is less
        if (bit >= d.bits) {
            ++outside;
            continue;
        }
        const uint32_t mask = 1u << bit % 32;
        // A sum is as good as an "or" while no bit is set twice, and that is reported.
        repeated += (fetch_add<S>(&d.seen[bit / 32], mask) & mask) != 0 ? 1 : 0;
    }
    fetch_add<S>(d.repeated, repeated);
    fetch_add<S>(d.fell, fell);
    fetch_add<S>(d.outside, outside);
}

// A message goes to and fro along five nodes whose clocks are up to 20 s apart, each of which also
// draws stamps of its own. Returns 0, or the number of the first promise that was broken.
DENIZEN_HD inline uint32_t five_nodes(uint32_t trips)
{
    constexpr uint32_t nodes = 5;
    constexpr uint64_t skew_us[nodes] = {7'000'000, 0, 20'000'000, 19'999'999, 4};
    uint64_t word[nodes] = {};
    uint64_t true_us = 1'000'000;
    hlc::Stamp message;
    for (uint32_t step = 0; step < trips * 2 * (nodes - 1); ++step) {
        const uint32_t along = step % (2 * (nodes - 1));
        const uint32_t to = along < nodes - 1 ? along + 1 : 2 * (nodes - 1) - along - 1;
        const uint32_t from = along < nodes - 1 ? along : to + 1;
        true_us += step % 3; // often none passes between cause and effect
        for (uint32_t n = 0; n < nodes; ++n) {
            for (uint32_t own = 0; own < (step + n) % 4; ++own) {
                hlc::tick<Scope::gpu>(&word[n], true_us + skew_us[n]);
            }
        }
        const hlc::Stamp sent = hlc::tick<Scope::gpu>(&word[from], true_us + skew_us[from]);
        if (!(message < sent)) {
            return 1; // the send is later than the receipt that caused it
        }
        const uint64_t before = word[to];
        hlc::Stamp received;
        if (!hlc::update<Scope::gpu>(&word[to], sent, true_us + skew_us[to], received)) {
            return 2; // clocks 20 s apart are within the limit
        }
        if (!(sent < received)) {
            return 3; // the receipt is later than the send, whatever the two clocks show
        }
        if (received.value < before) {
            return 4; // and later than all that its node drew before
        }
        if (received.micros() < true_us + skew_us[to]) {
            return 5; // never behind the node's own time,
        }
        if (received.micros() > true_us + 20'000'000) {
            return 6; // nor ahead of the fastest clock
        }
        message = received;
    }
    return 0;
}

} // namespace denizen::test

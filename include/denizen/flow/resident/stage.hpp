// SPDX-License-Identifier: Apache-2.0
// What a resident worker and its host say to each other about quanta, and about the blocks that the
// worker takes them through. Both sides read it; nothing here waits.
#pragma once

#include <denizen/base/packet.hpp>
#include <denizen/memory/ref.hpp>

namespace denizen::flow::resident {

inline constexpr uint32_t max_stages = 8;

// One block of a chain.
struct Stage {
    uint32_t kind = 0;     // of the program's kinds
    uint32_t in_bytes = 0; // of a sample
    uint32_t out_bytes = 0;
    uint32_t before = 0; // inputs that it needs before the quantum's first
    uint32_t keeps = 0; // outputs that it makes before the quantum's first: the next one's `before`
    uint32_t up = 1;    // outputs per `down` inputs
    uint32_t down = 1;
    uint32_t values_at = 0; // its taps: the first, and how many, of the worker's floats
    uint32_t values = 0;
    float a = 0;
    float b = 0;
};

struct Setup {        // the chain that a worker is for
    BufferRef memory; // its own: [values][one area][other area][area of the second stream], each
                      // aligned to 16 bytes
    uint32_t chain;
    uint32_t stages;
    uint32_t areas_at; // bytes
    uint32_t area;     // bytes of each
    // A second stream that the first stage reads lies in the quantum's buffer, so many bytes behind
    // where the results go; the `before` of it in front of that. 0: there is none.
    uint32_t beside_at;
    uint32_t beside_bytes; // of a sample of it
    Stage stage[max_stages];
    DENIZEN_BUFFERS(memory)
};

struct Values { // taps, from now on
    static constexpr uint32_t most = 56;
    uint32_t stage;
    uint32_t first;
    uint32_t count;
    float value[most];
};

struct Scalars { // a and b, from now on
    uint32_t stage;
    float a;
    float b;
};

struct Job { // take a quantum, or a piece of it, through the chain
    BufferRef quantum;
    uint64_t position; // of its first sample in the stream
    uint32_t offset;   // of that sample, in bytes; the chain's `before` samples lie in front of it
    uint32_t results;  // where they go, in bytes; not where another worker has yet to read
    uint32_t count;
    uint32_t ticket;
    DENIZEN_BUFFERS(quantum)
};
static_assert(sizeof(Job) <= 36); // one slot with its header

struct Done {
    uint32_t chain;
    uint32_t ticket;
    uint32_t failed; // its memory was not there
};

// The first output at or after an input's position: output m is made of inputs up to m * down / up.
DENIZEN_HD constexpr uint64_t first_output(uint64_t position, uint32_t up, uint32_t down)
{
    return (position * up + down - 1) / down;
}

} // namespace denizen::flow::resident

// SPDX-License-Identifier: Apache-2.0
// The wire between one host thread and the GPU, without actors: kernels that stay for one
// repetition and consume or produce a ring's messages by the protocol of wire/slot.hpp, every
// sequence and every payload word checked, every word summed.
//
// One block works on consecutive slots, four neighbouring threads per slot, 16 bytes each, so that
// a warp touches 512 bytes in a row. Each round takes the longest run of whole messages.
#pragma once

#include <denizen/wire/spsc.hpp>

#include "rivals/cuda.cuh"

namespace denizen::bench {

constexpr uint32_t ring_slots = 1u << 14; // 1 MiB
constexpr uint32_t ring_sender = 2;       // what the headers say
constexpr uint32_t ring_type = 3;
constexpr uint32_t ring_messages = 64; // then the payloads repeat
constexpr uint32_t threads = 1024;
constexpr uint32_t rows = threads / 4; // slots that the block touches at once
constexpr uint32_t groups = 4;         // loads under way per thread
constexpr uint64_t repetition_limit_ns = 10'000'000'000;

// Payload bytes of a message that takes `slots` slots.
DENIZEN_HD constexpr uint32_t payload_of(uint32_t slots) { return slots * 48 - 12; }

// Payload word w of message i.
constexpr uint32_t word_step = 2654435761u;
DENIZEN_HD inline uint32_t word_of(uint32_t i, uint32_t w)
{
    return (i % ring_messages * 4099 + w + 1) * word_step;
}

// What a kernel tells, in pinned memory: `started` at once, the rest when it leaves.
struct Tally {
    uint32_t started;
    uint32_t slots;
    uint64_t sum;
    uint64_t wrong;
};

namespace kernels {

// The packet k of slot `ticket`, as it must be (its sequence is checked elsewhere), in messages of
// 2^shift slots. A division by a number of slots would cost more than all the rest of a round.
static __device__ Packet packet_of(uint32_t ticket, uint32_t k, uint32_t shift)
{
    const uint32_t message = ticket >> shift;
    const uint32_t place = (ticket & ((1u << shift) - 1)) * 4 + k;
    if (place == 0) {
        return encode({message, ring_sender, ring_type, 0, payload_of(1u << shift)}, ticket + 1);
    }
    const uint32_t first = word_of(message, 3 * (place - 1));
    return {{first, first + word_step, first + 2 * word_step}, ticket + 1};
}

// Adds up what the threads of the block found and writes it to the tally.
static __device__ void report(Tally* tally, uint32_t slots, uint64_t sum, uint64_t wrong)
{
    __shared__ unsigned long long all[2];
    if (threadIdx.x == 0) all[0] = all[1] = 0;
    __syncthreads();
    atomicAdd(&all[0], sum);
    atomicAdd(&all[1], wrong);
    __syncthreads();
    if (threadIdx.x == 0) {
        tally->slots = slots;
        tally->sum = all[0];
        tally->wrong = all[1];
        __threadfence_system();
    }
}

// Consumes `total` slots, in messages of 2^shift, from ticket `head` on. Ends when it has them, or
// at the time limit.
//
// Per round: the loads of `width` groups are started, then each thread looks at its sequences; the
// first slot with a packet that is not there bounds the run (atomicMin in shared memory). One
// barrier per round: `missing` has three words, so that the word of the next round is reset by
// thread 0 while nobody reads or lowers it any more (its last use is two barriers ago). Every
// decision after the barrier is taken from shared words that are not written before the next one,
// so the block stays together.
static __global__ void __launch_bounds__(threads)
    consume(const Slot* slots, uint32_t mask, uint32_t head, uint32_t total, uint32_t shift,
            RingWords* words, Tally* tally)
{
    __shared__ uint32_t missing[3];
    __shared__ uint32_t late[2];
    const uint32_t row = threadIdx.x / 4;
    const uint32_t k = threadIdx.x % 4;
    const uint64_t deadline = now_ns() + repetition_limit_ns;
    if (threadIdx.x == 0) {
        missing[0] = ~0u;
        store<Scope::system>(&tally->started, 1u);
    }
    __syncthreads();
    uint32_t left = total;
    uint32_t credited = head;
    uint32_t width = groups;
    uint64_t sum = 0;
    uint32_t wrong = 0;
    for (uint32_t round = 0; left != 0; ++round) {
        Packet p[groups];
#pragma unroll
        for (uint32_t g = 0; g < groups; ++g) {
            if (g < width)
                p[g] = load_packet<Scope::system>(&slots[(head + g * rows + row) & mask].packet[k]);
        }
        if (threadIdx.x == 0) {
            missing[(round + 1) % 3] = ~0u;
            late[round % 2] = round % 64 == 63 && now_ns() > deadline ? 1 : 0;
        }
        uint32_t absent = ~0u;
#pragma unroll
        for (uint32_t g = groups; g-- > 0;) {
            if (g < width) {
                const uint32_t bad = __ballot_sync(~0u, p[g].sequence != head + g * rows + row + 1);
                // The ballot's lowest bit is a packet of the warp's first incomplete slot.
                if (bad != 0)
                    absent = g * rows + threadIdx.x / 32 * 8 +
                             (static_cast<uint32_t>(__ffs(static_cast<int>(bad))) - 1) / 4;
            }
        }
        if (absent != ~0u && threadIdx.x % 32 == 0) atomicMin(&missing[round % 3], absent);
        __syncthreads();
        if (late[round % 2] != 0) break;
        uint32_t n = min(min(missing[round % 3], width * rows), left);
        n = n >> shift << shift; // whole messages only
#pragma unroll
        for (uint32_t g = 0; g < groups; ++g) {
            if (g * rows + row < n) {
                const Packet wanted = packet_of(head + g * rows + row, k, shift);
                for (int w = 0; w < 3; ++w) {
                    wrong += p[g].word[w] != wanted.word[w] ? 1 : 0;
                    sum += p[g].word[w];
                }
            }
        }
        // As many again as came, twice as many after a full house: what is read too early is read
        // twice, across PCIe and out of the cache of the core that is writing it.
        width = n == width * rows ? min(2 * width, groups) : max(width / 2, n / rows + 1);
        head += n;
        left -= n;
        // In batches, and whenever nothing came: the host may be waiting for it. The packets of
        // these slots are in registers (their sequences were looked at before the barrier).
        if (threadIdx.x == 0 && left != 0 && head != credited &&
            (n == 0 || head - credited > mask / 8)) {
            store<Scope::system>(&words->credit, head);
            credited = head;
        }
    }
    report(tally, total - left, sum, wrong);
    if (threadIdx.x == 0) store<Scope::system>(&words->credit, head); // the last word: all is done
}

// Produces `total` slots, in messages of 2^shift, from ticket `tail` on. Ends when they are
// written, or at the time limit. Thread 0 reads the credit for the block; one barrier per round,
// two words by turns, as above.
static __global__ void __launch_bounds__(threads)
    produce(Slot* slots, uint32_t mask, uint32_t tail, uint32_t total, uint32_t shift,
            const RingWords* words, Tally* tally)
{
    __shared__ uint32_t credit[2];
    __shared__ uint32_t late[2];
    const uint32_t row = threadIdx.x / 4;
    const uint32_t k = threadIdx.x % 4;
    const uint64_t deadline = now_ns() + repetition_limit_ns;
    if (threadIdx.x == 0) store<Scope::system>(&tally->started, 1u);
    uint32_t left = total;
    uint64_t sum = 0;
    for (uint32_t round = 0; left != 0; ++round) {
        if (threadIdx.x == 0) {
            credit[round % 2] = load<Scope::system>(&words->credit);
            late[round % 2] = round % 64 == 63 && now_ns() > deadline ? 1 : 0;
        }
        __syncthreads();
        if (late[round % 2] != 0) break;
        const uint32_t room = mask + 1 - (tail - credit[round % 2]);
        const uint32_t n = min(min(room, groups * rows), left);
#pragma unroll
        for (uint32_t g = 0; g < groups; ++g) {
            const uint32_t ticket = tail + g * rows + row;
            if (g * rows + row < n) {
                const Packet packet = packet_of(ticket, k, shift);
                store_packet<Scope::system>(&slots[ticket & mask].packet[k], packet);
                for (int w = 0; w < 3; ++w) sum += packet.word[w];
            }
        }
        tail += n;
        left -= n;
    }
    report(tally, total - left, sum, 0);
}

} // namespace kernels
} // namespace denizen::bench

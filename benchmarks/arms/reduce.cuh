// SPDX-License-Identifier: Apache-2.0
// All-reduce (sum, float32) in one stage and in two, by pulling, pushing or packets. Every rank
// adds in the order of ranks, so all results are the same to the bit.
#pragma once

#include "copies.cuh"

namespace denizen::arms {

// Everybody reads all of everybody's input.
template <class Copy>
__device__ bool pull_one_stage(const View& v)
{
    if (!barrier(v)) return false; // the inputs are there
    Sources s{{}, v.ranks};
    for (uint32_t r = 0; r < v.ranks; ++r) s.from[r] = v.input[r];
    Copy::sum(v, s, v.output[v.rank], v.count);
    return barrier(v); // and have been read
}

// Each rank adds its share of the vectors, then everybody reads all shares.
template <class Copy>
__device__ bool pull_two_stages(const View& v)
{
    const uint64_t share = v.count / v.ranks;
    if (!barrier(v)) return false; // the inputs are there, and the last shares have been read
    Sources s{{}, v.ranks};
    for (uint32_t r = 0; r < v.ranks; ++r) s.from[r] = v.input[r] + v.rank * share;
    Copy::sum(v, s, v.scratch[v.rank], share);
    if (!barrier(v)) return false; // the shares are there, and the inputs have been read
    for (uint32_t k = 0; k < v.ranks; ++k) {
        const uint32_t r = (v.rank + k) % v.ranks; // not all from the same rank at once
        const Sources one{{v.scratch[r]}, 1};
        Copy::sum(v, one, v.output[v.rank] + r * share, share);
    }
    return true;
}

// Of two inboxes in turn, rank `from`'s place in that of rank `to`. Nobody writes an inbox before
// all have read what came two operations ago: the barrier of the operation between says so.
__device__ inline float4* place(const View& v, uint32_t to, uint32_t from, uint64_t vectors,
                                uint32_t operation)
{
    return v.inbox[to] + (operation & 1) * v.ranks * v.count + from * vectors;
}

template <class Store>
__device__ bool push_one_stage(const View& v)
{
    const uint32_t operation = v.own().epoch[blockIdx.x];
    Targets d{{}, 0};
    Sources s{{}, v.ranks};
    for (uint32_t k = 1; k < v.ranks; ++k)
        d.to[d.count++] = place(v, (v.rank + k) % v.ranks, v.rank, v.count, operation);
    for (uint32_t r = 0; r < v.ranks; ++r)
        s.from[r] = r == v.rank ? v.input[r] : place(v, v.rank, r, v.count, operation);
    Store::put(v, v.input[v.rank], d, v.count);
    if (!barrier(v)) return false;
    if (threadIdx.x == 0) v.own().epoch[blockIdx.x] = operation + 1;
    Loads<4>::sum(v, s, v.output[v.rank], v.count);
    return true;
}

template <class Store>
__device__ bool push_two_stages(const View& v)
{
    const uint64_t share = v.count / v.ranks;
    const uint32_t operation = v.own().epoch[blockIdx.x];
    Targets all{{}, 0};
    Sources s{{}, v.ranks};
    for (uint32_t k = 1; k < v.ranks; ++k) {
        const uint32_t r = (v.rank + k) % v.ranks;
        const Targets one{{place(v, r, v.rank, share, operation)}, 1};
        Store::put(v, v.input[v.rank] + r * share, one, share);
        all.to[all.count++] = v.output[r] + v.rank * share;
    }
    for (uint32_t r = 0; r < v.ranks; ++r)
        s.from[r] = r == v.rank ? v.input[r] + r * share : place(v, v.rank, r, share, operation);
    if (!barrier(v)) return false;
    if (threadIdx.x == 0) v.own().epoch[blockIdx.x] = operation + 1;
    float4* mine = v.output[v.rank] + v.rank * share;
    Loads<4>::sum(v, s, mine, share);
    __syncthreads(); // a bulk copy reads what other threads of the block wrote
    Store::put(v, mine, all, share);
    return barrier(v); // the outputs are there
}

// --- packets: 8 bytes of data and a flag beside each 4 of them, so that the data says itself when
// it has come. As NCCL's LL; no barrier at all ---

__device__ inline void send_packet(uint4* to, float2 data, uint32_t flag)
{
    asm volatile("st.volatile.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to),
                 "r"(__float_as_uint(data.x)), "r"(flag), "r"(__float_as_uint(data.y)), "r"(flag)
                 : "memory");
}

// False if it has not come in time.
__device__ inline bool take_packet(const View& v, const uint4* at, uint32_t flag, float2& data)
{
    uint32_t x, f, y, g;
    uint64_t begin = 0;
    for (uint32_t tries = 0;; ++tries) { // ends by the packet or the deadline
        asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(x), "=r"(f), "=r"(y), "=r"(g)
                     : "l"(at)
                     : "memory");
        if (f == flag && g == flag) break;
        if ((tries & 1023) == 1023) {
            if (begin == 0) begin = now();
            if (now() - begin > deadline_ns) {
                v.own().late = 1;
                return false;
            }
        }
    }
    data = {__uint_as_float(x), __uint_as_float(y)};
    return true;
}

// Rank `from`'s packets at rank `to`. One stage takes both halves, of two stages each has one.
__device__ inline uint4* packets(const View& v, uint32_t to, uint32_t from, uint64_t each,
                                 uint32_t operation, uint32_t half)
{
    return v.packet[to] + ((operation & 1) * 2 + half) * v.ranks * v.count + from * each;
}

// For each of this thread's pairs: to everybody, then from everybody.
__device__ inline bool packets_one_stage(const View& v)
{
    const uint32_t operation = v.own().packets[blockIdx.x];
    const uint64_t pairs = 2 * v.count;
    const auto* input = reinterpret_cast<const float2*>(v.input[v.rank]);
    auto* output = reinterpret_cast<float2*>(v.output[v.rank]);
    const auto inbox = [&](uint32_t to, uint32_t from) {
        return packets(v, to, from, pairs, operation, 0);
    };
    for (Tiles t(pairs); t.any(); t.next += t.step)
        if (t.at(0) < pairs)
            for (uint32_t k = 1; k < v.ranks; ++k)
                send_packet(inbox((v.rank + k) % v.ranks, v.rank) + t.at(0), input[t.at(0)],
                            operation + 1);
    bool in_time = true;
    for (Tiles t(pairs); t.any() && in_time; t.next += t.step) {
        if (t.at(0) >= pairs) continue;
        float2 total = {0, 0};
        for (uint32_t r = 0; r < v.ranks && in_time; ++r) {
            float2 data = input[t.at(0)];
            if (r != v.rank)
                in_time = take_packet(v, inbox(v.rank, r) + t.at(0), operation + 1, data);
            total = r == 0 ? data : float2{total.x + data.x, total.y + data.y};
        }
        output[t.at(0)] = total;
    }
    in_time = __syncthreads_and(in_time) != 0;
    if (threadIdx.x == 0) v.own().packets[blockIdx.x] = operation + 1;
    return in_time;
}

__device__ inline bool packets_two_stages(const View& v)
{
    const uint32_t operation = v.own().packets[blockIdx.x];
    const uint64_t pairs = 2 * v.count / v.ranks; // of a share
    const auto* input = reinterpret_cast<const float2*>(v.input[v.rank]);
    auto* output = reinterpret_cast<float2*>(v.output[v.rank]);
    const auto inbox = [&](uint32_t to, uint32_t from, uint32_t stage) {
        return packets(v, to, from, pairs, operation, stage);
    };
    for (Tiles t(pairs); t.any(); t.next += t.step)
        if (t.at(0) < pairs)
            for (uint32_t k = 1; k < v.ranks; ++k) {
                const uint32_t r = (v.rank + k) % v.ranks;
                send_packet(inbox(r, v.rank, 0) + t.at(0), input[r * pairs + t.at(0)],
                            operation + 1);
            }
    bool in_time = true;
    for (Tiles t(pairs); t.any() && in_time; t.next += t.step) {
        if (t.at(0) >= pairs) continue;
        float2 total = {0, 0};
        for (uint32_t r = 0; r < v.ranks && in_time; ++r) {
            float2 data = input[v.rank * pairs + t.at(0)];
            if (r != v.rank)
                in_time = take_packet(v, inbox(v.rank, r, 0) + t.at(0), operation + 1, data);
            total = r == 0 ? data : float2{total.x + data.x, total.y + data.y};
        }
        output[v.rank * pairs + t.at(0)] = total;
        for (uint32_t k = 1; k < v.ranks; ++k)
            send_packet(inbox((v.rank + k) % v.ranks, v.rank, 1) + t.at(0), total, operation + 1);
    }
    for (Tiles t(pairs); t.any() && in_time; t.next += t.step) {
        if (t.at(0) >= pairs) continue;
        for (uint32_t r = 0; r < v.ranks && in_time; ++r) {
            float2 data;
            if (r == v.rank) continue;
            in_time = take_packet(v, inbox(v.rank, r, 1) + t.at(0), operation + 1, data);
            output[r * pairs + t.at(0)] = data;
        }
    }
    in_time = __syncthreads_and(in_time) != 0;
    if (threadIdx.x == 0) v.own().packets[blockIdx.x] = operation + 1;
    return in_time;
}

} // namespace denizen::arms

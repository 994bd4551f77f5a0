// SPDX-License-Identifier: Apache-2.0
// The collectives as kernels. group.hpp launches them. It looks up the same names in a cubin that
// was compiled at run time and among the functions that nvcc compiled into a program. One block is
// the team of one channel. Every wait in these kernels ends at the group's deadline.
//
// Text that is compiled at run time may leave types out (detail/perform.hpp). With
// DENIZEN_GROUP_COMMON it has all kernels without the rare types, with DENIZEN_GROUP_RARE only the
// kernel of a launched call, with the rare types alone.
//
// A file whose handlers and tasks alone call (inside.hpp) defines DENIZEN_GROUP_INSIDE_ONLY before
// it includes group.hpp. Of these kernels it has denizen_group_check alone; the others take minutes
// to compile, since they have all types and algorithms.
#pragma once

#include <denizen/group/detail/links.hpp>
#include <denizen/group/detail/mailbox.hpp>
#include <denizen/group/detail/perform.hpp>

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)

#if !defined(DENIZEN_GROUP_INSIDE_ONLY)
// One call, or the same call several times, by one block for each channel.
DENIZEN_GROUP_KERNEL __launch_bounds__(512)
    denizen_group_call(const __grid_constant__ denizen::GroupRef group,
                       const __grid_constant__ denizen::group::Call call)
{
    denizen::group::await_kernel_before();
    denizen::group::Channel<> channel(group, blockIdx.x);
    bool good = true;
    for (uint32_t i = 0; good && i < call.repeat; ++i) good = perform(channel, call);
    denizen::group::let_kernel_behind_launch();
    channel.close();
}
#endif

#if defined(DENIZEN_GROUP_COMMON)
// Never launched: it tells the host that this text has no rare types.
DENIZEN_GROUP_KERNEL denizen_group_common() {}
#endif

#if !defined(DENIZEN_GROUP_RARE)

// With `peer` equal to max_ranks and one block: check_links(). With another `peer`, its own rank
// too, and any number of blocks: they read `bytes` of that rank's memory and say from when until
// when.
DENIZEN_GROUP_KERNEL __launch_bounds__(512)
    denizen_group_check(const __grid_constant__ denizen::GroupRef group, uint32_t peer,
                        unsigned long long bytes, denizen::group::LinkReading* reading)
{
    using namespace denizen::group;
    if (peer == max_ranks) {
        Channel<> channel(group, blockIdx.x);
        const uint32_t bad = check_links(channel);
        if (threadIdx.x == 0) reading->bad = bad;
        channel.close();
        return;
    }
    if (threadIdx.x == 0) atomicMax(&reading->not_begun, ~(0ull + denizen::now_ns()));
    __syncthreads(); // no load before
    constexpr uint32_t unroll = 4;
    const uint64_t vectors = bytes / sizeof(Vector);
    const uint64_t threads = uint64_t{gridDim.x} * blockDim.x;
    uint32_t mix = 0;
    for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < vectors;
         i += unroll * threads) {
        Vector some[unroll] = {};
        DENIZEN_UNROLL
        for (uint32_t u = 0; u < unroll; ++u) {
            if (i + u * threads < vectors) some[u] = vector_at(group.memory[peer], i + u * threads);
        }
        DENIZEN_UNROLL
        for (uint32_t u = 0; u < unroll; ++u) mix ^= some[u].word[0] ^ some[u].word[3];
    }
    if (mix == 0x2545f491u) reading->mixed = mix; // so that the loads are not left out
    __syncthreads();                              // all of them have come
    if (threadIdx.x == 0) atomicMax(&reading->ended, 0ull + denizen::now_ns());
}

#if !defined(DENIZEN_GROUP_INSIDE_ONLY)
// One incarnation of a resident group's teams; see mailbox.hpp. Launched cooperatively.
DENIZEN_GROUP_KERNEL __launch_bounds__(512)
    denizen_group_serve(const __grid_constant__ denizen::GroupRef group,
                        const __grid_constant__ denizen::group::Mailbox box)
{
    using namespace denizen::group;
    if (box.teams == 0) return; // the first launch, which only has the driver make ready
    __shared__ denizen::Packet messages[2 * post_packets];
    Channel<> channel(group, blockIdx.x);
    serve(box, blockIdx.x, gridDim.x, messages,
          [&](const Call& call) { return perform(channel, call); });
    channel.close();
}
#endif

#endif

#endif

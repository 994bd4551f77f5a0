// SPDX-License-Identifier: Apache-2.0
// The collectives as kernels. group.hpp launches them. It looks up the same names in a cubin that
// was compiled at run time and among the functions that nvcc compiled into a program. One block is
// the team of one channel. Every wait in these kernels ends at the group's deadline.
//
// A launched call of a common type is a kernel of its type's own, with nothing called in it that is
// not compiled into it: one kernel for all types took 1.7 of a short call's 5 us. (Kernels with
// larger stacks took longer; that the stack is the cause was not shown.) Rare types share a kernel,
// as nvcc takes 15 s for each.
//
// Text that is compiled at run time leaves out what takes seconds (detail/perform.hpp):
//   DENIZEN_GROUP_COMMON                         the check, and launched calls of common types
//   DENIZEN_GROUP_RARE                           launched calls of the others
//   DENIZEN_GROUP_SERVE                          a resident group's kernel, for all types
//   DENIZEN_GROUP_SERVE, DENIZEN_GROUP_COMMON    for the common ones
//
// A file whose handlers and tasks alone call (inside.hpp) defines DENIZEN_GROUP_INSIDE_ONLY before
// it includes group.hpp. Of these kernels it has denizen_group_check alone; the others take minutes
// to compile, since they have all types and algorithms.
#pragma once

#include <denizen/group/detail/links.hpp>
#include <denizen/group/detail/mailbox.hpp>
#include <denizen/group/detail/perform.hpp>

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)

#if !defined(DENIZEN_GROUP_INSIDE_ONLY) && !defined(DENIZEN_GROUP_SERVE)

namespace denizen::group::detail {

// One launched call, by one block for each channel.
template <class Perform>
__device__ __forceinline__ void launched(const GroupRef& group, const Perform& perform)
{
    await_kernel_before();
    Channel<> channel(group, blockIdx.x);
    perform(channel);
    let_kernel_behind_launch();
    channel.close();
}

// Of type T, or of one that T moves (moved()).
template <class T>
__device__ __forceinline__ void perform_launched(Channel<>& channel, const Call& call)
{
    if (channel.index() >= call.channels || !channel.begin(call)) return;
    if (call.kind == Kind::barrier) {
        channel.meet();
        return;
    }
    perform_on<T>(channel, Narrow<T>::type == Type::i32 ? moved(call) : call);
}

} // namespace denizen::group::detail

#if !defined(DENIZEN_GROUP_RARE)

#define DENIZEN_GROUP_CALL(name, T)                                                                \
    DENIZEN_GROUP_KERNEL __launch_bounds__(512)                                                    \
        denizen_group_call_##name(const __grid_constant__ denizen::GroupRef group,                 \
                                  const __grid_constant__ denizen::group::Call call)               \
    {                                                                                              \
        denizen::group::detail::launched(group, [&](denizen::group::Channel<>& channel) {          \
            denizen::group::detail::perform_launched<T>(channel, call);                            \
        });                                                                                        \
    }
DENIZEN_GROUP_CALL(f32, float)
DENIZEN_GROUP_CALL(f16, denizen::group::Half)
DENIZEN_GROUP_CALL(bf16, denizen::group::BFloat)
DENIZEN_GROUP_CALL(i32, int32_t)
#undef DENIZEN_GROUP_CALL

#endif

#if !defined(DENIZEN_GROUP_COMMON)

DENIZEN_GROUP_KERNEL __launch_bounds__(512)
    denizen_group_call_rare(const __grid_constant__ denizen::GroupRef group,
                            const __grid_constant__ denizen::group::Call call)
{
    denizen::group::detail::launched(
        group, [&](denizen::group::Channel<>& channel) { perform(channel, call); });
}

#endif

#endif

#if !defined(DENIZEN_GROUP_RARE) && !defined(DENIZEN_GROUP_SERVE)

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

#endif

#if !defined(DENIZEN_GROUP_INSIDE_ONLY) && !defined(DENIZEN_GROUP_RARE) &&                         \
    (!defined(DENIZEN_GROUP_COMMON) || defined(DENIZEN_GROUP_SERVE))

#if defined(DENIZEN_GROUP_COMMON)
#define DENIZEN_GROUP_SERVES denizen_group_serve_common
#else
#define DENIZEN_GROUP_SERVES denizen_group_serve
#endif
// One incarnation of a resident group's teams; see mailbox.hpp. Launched cooperatively.
DENIZEN_GROUP_KERNEL __launch_bounds__(512)
    DENIZEN_GROUP_SERVES(const __grid_constant__ denizen::GroupRef group,
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
#undef DENIZEN_GROUP_SERVES

#endif

#endif

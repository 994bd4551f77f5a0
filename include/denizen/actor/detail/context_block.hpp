// SPDX-License-Identifier: Apache-2.0
// What a context does in a handler of a block: the worker's warp acts for all threads. The
// declarations are in actor/context.hpp, which includes this file.
#pragma once

#include <denizen/actor/context.hpp>

#if DENIZEN_ON_DEVICE

namespace denizen {

// Also of handlers of another grain, in programs that have some of a block.
//
// Hazard: the worker's warp goes through `call` as one that runs a whole-warp handler. So nothing
// in there may wait for the block.
template <class P>
template <class Call>
__device__ inline auto Context<P>::once_of_block(const Call& call)
{
    decltype(call()) answer{};
    static_assert(sizeof(answer) <= sizeof(uint32_t));
    const bool in_block = this->in_block;
    const bool touched = touched_;
    if (in_block) {
        // All have come, and have read the answer before this one. What any thread has written to
        // a buffer the message's receiver is to see.
        if constexpr (P::has_buffers) {
            touched_ = detail::block::barrier_any(P::block_threads, touched);
        } else {
            detail::block::barrier(P::block_threads);
        }
    }
    if (!in_block || detail::block::warp() == 0) {
        this->in_block = false;
        answer = call();
        this->in_block = in_block;
    }
    if (in_block) {
        touched_ = touched; // by this thread: it says whether its reads need a fence
        detail::block::Place& place = detail::block::place();
        if (threadIdx.x == 0) {
            copy_bytes(&place.answer, &answer, sizeof(answer));
        }
        detail::block::barrier(P::block_threads);
        copy_bytes(&answer, &place.answer, sizeof(answer));
    }
    return answer;
}

// Warp by warp: it says what its threads send, and the worker's warp sends it.
template <class P>
template <class M>
__device__ inline bool Context<P>::send_each_of_block(Address to, const M& message, bool mine)
{
    bool touched = false;
    if constexpr (P::has_buffers) {
        touched = detail::block::barrier_any(P::block_threads, touched_);
        if (touched && threadIdx.x == 0) {
            detail::buffer_fence(); // the receivers find what was written, by whichever thread
        }
    }
    detail::block::Row& row = detail::block::place().row[denizen::lanes::id()];
    bool sent = true;
    DENIZEN_ROLLED
    for (uint32_t w = 0; w < P::block_threads / denizen::lanes::size; ++w) {
        if (w == detail::block::warp()) {
            row.to = to.value;
            row.mine = mine ? 1 : 0;
            copy_bytes(row.word, &message, sizeof(M));
        }
        detail::block::barrier(P::block_threads); // the rows are there
        if (detail::block::warp() == 0) {
            if (row.mine != 0) {
                row.sent = post(Address{row.to}, from_words<M>(row.word)) ? 1 : 0;
            }
            denizen::lanes::rejoin();
        }
        // The answers are there. They are read before the next warp's are written: behind a barrier
        // to which this one comes, too.
        detail::block::barrier(P::block_threads);
        if (w == detail::block::warp() && mine) {
            sent = row.sent != 0;
        }
    }
    return sent;
}

} // namespace denizen

#endif

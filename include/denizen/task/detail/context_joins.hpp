// SPDX-License-Identifier: Apache-2.0
// How a context makes the counters of when() and fires their continuations. The declarations in
// task/context.hpp, which includes this file, say what each member promises.
#pragma once

#include <denizen/task/context.hpp>

namespace denizen::task {

template <class P>
template <class X>
DENIZEN_HD inline Counter Context<P>::when(uint32_t arrivals, const X& task)
{
    uint32_t sum_at = 0;
    if constexpr (requires { task.sum; }) {
        static_assert(sizeof(task.sum) == 4 || sizeof(task.sum) == 8);
        const auto offset = reinterpret_cast<const unsigned char*>(&task.sum) -
                            reinterpret_cast<const unsigned char*>(&task);
        sum_at = sum_place(static_cast<uint32_t>(offset), sizeof(task.sum));
    }
    return when_raw(arrivals, task, sum_at);
}

template <class P>
template <class X>
DENIZEN_HD inline Counter Context<P>::when_raw(uint32_t arrivals, const X& task, uint32_t sum_at)
{
    const uint32_t index = lane() == 0 ? take_join() : 0;
    if (index == 0) {
        return {};
    }
    joined_ = true;
    Join& join = s_.join[index];
    detail::store_slot<P::slot>(reinterpret_cast<unsigned char*>(join.word),
                                P::encode(task, group_));
    store<Scope::gpu>(&join.sum_at, sum_at);
    // Release on the host; on the device it comes before the arrivals because they come from
    // tasks that are published after this. The caller's own arrivals are on the same SM.
    store<Scope::gpu, on_host(Order::release)>(&join.count,
                                               static_cast<uint64_t>(arrivals) & count_mask);
    return {index};
}

template <class P>
DENIZEN_HD inline uint32_t Context<P>::take_join()
{
    touched_ = true;
    const auto before = static_cast<int32_t>(fetch_add<Scope::block>(&local_.cached, ~0u));
    if (before > 0) {
        return local_.cache[before - 1];
    }
    return fetch_join(s_);
}

template <class P>
DENIZEN_COLD uint32_t Context<P>::fetch_join(const Shared& s)
{
    uint32_t index = 0;
    return index_queue::pop(s.free_joins, index) ? index : 0;
}

template <class P>
DENIZEN_HD inline void Context<P>::fire(uint32_t index, uint64_t sum)
{
    Join& join = s_.join[index];
    Words words;
    detail::load_slot<P::slot>(reinterpret_cast<const unsigned char*>(join.word), words);
    const uint32_t where = load<Scope::gpu>(&join.sum_at);
    sum &= (uint64_t{1} << (64 - count_bits)) - 1;
    // A loop over all words, so that they can stay in registers.
    for (uint32_t w = 1; w < 4 * Words::packets; ++w) {
        if (w == (where & 0xff)) {
            words.word[w] = static_cast<uint32_t>(sum);
        } else if (w == (where & 0xff) + 1 && where >> 8 == 2) {
            words.word[w] = static_cast<uint32_t>(sum >> 32);
        }
    }
    fetch_add<Scope::block>(&local_.joined, 1u);
    if (put(words) != Errc::ok) {
        strand(s_, index, words);
        return;
    }
    const uint32_t at = fetch_add<Scope::block>(&local_.freed, 1u);
    if (at < join_batch) {
        local_.free_join[at] = index;
    } else {
        return_join(s_, index);
    }
}

template <class P>
DENIZEN_COLD void Context<P>::return_join(const Shared& s, uint32_t index)
{
    index_queue::push(s.free_joins, index);
}

template <class P>
DENIZEN_COLD void Context<P>::strand(const Shared& s, uint32_t index, Words words)
{
    count_early(s, group_of(words.word[0]));
    detail::store_slot<P::slot>(reinterpret_cast<unsigned char*>(s.join[index].word), words);
    index_queue::push(s.stranded, index);
}

} // namespace denizen::task

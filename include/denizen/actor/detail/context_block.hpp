// SPDX-License-Identifier: Apache-2.0
// The context of programs in which handlers or tasks take whole blocks. In such a one it is each
// thread's: what is done once the worker's warp does, as in a whole-warp handler, and all threads
// get the answer. In the program's other handlers it is the context of all programs.
//
// actor/context.hpp, which includes this file, says what each member promises.
#pragma once

#include <denizen/actor/context.hpp>
#include <denizen/actor/detail/block.hpp>

namespace denizen {

namespace detail {

// The same program, but for its context.
template <class P>
struct WithoutBlocks : P {
    static constexpr bool has_blocks = false;
};

} // namespace detail

template <class P>
    requires(P::has_blocks)
class Context<P> : public Context<detail::WithoutBlocks<P>> {
    using Base = Context<detail::WithoutBlocks<P>>;

public:
    using Base::Base;

#if DENIZEN_ON_DEVICE
    // From here on this is one thread's of a block, all of whose threads have one. For the runtime.
    __device__ void enter_block() { in_block_ = true; }
#endif

    template <class M>
    DENIZEN_HD bool send(Address to, const M& message)
    {
        return once([&] { return Base::send(to, message); });
    }
    template <class M>
    DENIZEN_HD void reply(const M& message)
    {
        once_for_all([&] { Base::reply(message); });
    }
    template <class M>
    DENIZEN_HD uint32_t publish(const Topic& topic, const M& message)
    {
        return once([&] { return Base::publish(topic, message); });
    }
    template <class M>
    DENIZEN_HD uint32_t publish(const LongTopic& topic, const M& message)
    {
        return once([&] { return Base::publish(topic, message); });
    }
    DENIZEN_HD void subscribe(const TopicPattern& pattern)
    {
        once_for_all([&] { Base::subscribe(pattern); });
    }
    DENIZEN_HD void unsubscribe(const TopicPattern& pattern)
    {
        once_for_all([&] { Base::unsubscribe(pattern); });
    }
    template <class M>
    DENIZEN_HD Timer send_after(uint64_t ns, Address to, const M& message)
    {
        return once([&] { return Base::send_after(ns, to, message); });
    }
    template <class M>
    DENIZEN_HD Timer send_every(uint64_t ns, Address to, const M& message)
    {
        return once([&] { return Base::send_every(ns, to, message); });
    }
    DENIZEN_HD bool cancel(Timer timer)
    {
        return once([&] { return Base::cancel(timer); });
    }
    template <class A, class... Arguments>
    DENIZEN_HD Address spawn(const Arguments&... arguments)
    {
        return once([&] { return Base::template spawn<A>(arguments...); });
    }
    template <class T>
        requires(P::template task_id<T> != no_type)
    DENIZEN_HD bool spawn(const T& task)
    {
        return once([&] { return Base::spawn(task); });
    }
    // All have seen which behaviour is in force before another one is.
    template <class B, class Actor>
    DENIZEN_HD void become(Actor& actor)
    {
        once_for_all([&] { Base::template become<B>(actor); });
    }
    DENIZEN_HD void checkpoint()
    {
        once_for_all([&] { Base::checkpoint(); });
    }
    DENIZEN_HD void watch(Address watched)
    {
        once_for_all([&] { Base::watch(watched); });
    }
    DENIZEN_HD void unwatch(Address watched)
    {
        once_for_all([&] { Base::unwatch(watched); });
    }
    DENIZEN_HD void stop(Address actor)
    {
        once_for_all([&] { Base::stop(actor); });
    }
    DENIZEN_HD void pause(Address actor)
    {
        once_for_all([&] { Base::pause(actor); });
    }
    DENIZEN_HD void resume(Address actor)
    {
        once_for_all([&] { Base::resume(actor); });
    }
    DENIZEN_HD void restart(Address actor)
    {
        once_for_all([&] { Base::restart(actor); });
    }
    DENIZEN_HD void drain(Address actor)
    {
        once_for_all([&] { Base::drain(actor); });
    }
    DENIZEN_HD bool keep(BufferRef ref)
    {
        return once([&] { return Base::keep(ref); });
    }
    DENIZEN_HD void release(BufferRef ref)
    {
        once_for_all([&] { Base::release(ref); });
    }

    template <class M>
    DENIZEN_HD bool send_each(Address to, const M& message, bool mine = true)
    {
#if DENIZEN_ON_DEVICE
        if (in_block_) {
            return send_each_of_block(to, message, mine);
        }
#endif
        return Base::send_each(to, message, mine);
    }
    template <class T>
    DENIZEN_HD BufferSpan<T> data(BufferRef ref)
    {
#if DENIZEN_ON_DEVICE
        if (in_block_ && detail::block::warp() != 0) { // the first one reports what is gone
            if (!this->touched_) {
                detail::buffer_fence();
            }
            this->touched_ = true;
            const detail::Resolved found = detail::resolve(this->shared_, ref, alignof(T));
            return {reinterpret_cast<T*>(found.data), found.bytes / sizeof(T)};
        }
#endif
        return Base::template data<T>(ref);
    }
    DENIZEN_HD uint32_t lane() const
    {
#if DENIZEN_ON_DEVICE
        if (in_block_) {
            return threadIdx.x;
        }
#endif
        return Base::lane();
    }
    DENIZEN_HD uint32_t lanes() const
    {
#if DENIZEN_ON_DEVICE
        if (in_block_) {
            return P::block_threads;
        }
#endif
        return Base::lanes();
    }
    DENIZEN_HD void sync() const
    {
#if DENIZEN_ON_DEVICE
        if (in_block_) {
            detail::block::barrier(P::block_threads);
            return;
        }
#endif
        Base::sync();
    }
    DENIZEN_HD void fence() const
    {
        sync();
        if (lane() < denizen::lanes::size) {
            Base::fence(); // all threads share it by way of sync()
        }
        sync();
    }

private:
    template <class Call>
    DENIZEN_HD void once_for_all(const Call& call)
    {
        once([&] {
            call();
            return true;
        });
    }

    // By the worker's warp for all threads of a block, which get the answer, of at most four bytes;
    // in another handler as that has it.
    //
    // Hazard: nothing in `call` may wait for the block, whose other warps do not make it.
    template <class Call>
    DENIZEN_HD auto once(const Call& call)
    {
        decltype(call()) answer{};
#if DENIZEN_ON_DEVICE
        static_assert(sizeof(answer) <= sizeof(uint32_t));
        const bool touched = this->touched_;
        if (in_block_) {
            // All have come, and have read the answer before this one. What any thread has written
            // to a buffer the message's receiver is to see.
            if constexpr (P::has_buffers) {
                this->touched_ = detail::block::barrier_any(P::block_threads, touched);
            } else {
                detail::block::barrier(P::block_threads);
            }
        }
        if (!in_block_ || detail::block::warp() == 0) {
            answer = call();
        }
        if (in_block_) {
            this->touched_ = touched; // by this thread: it says whether its reads need a fence
            detail::block::Place& place = detail::block::place();
            if (threadIdx.x == 0) {
                copy_bytes(&place.answer, &answer, sizeof(answer));
            }
            detail::block::barrier(P::block_threads);
            copy_bytes(&answer, &place.answer, sizeof(answer));
        }
#else
        answer = call();
#endif
        return answer;
    }

#if DENIZEN_ON_DEVICE
    template <class M>
    __device__ bool send_each_of_block(Address to, const M& message, bool mine);
#endif

    bool in_block_ = false;
};

#if DENIZEN_ON_DEVICE

// Warp by warp: it says what its threads send, and the worker's warp sends it.
template <class P>
    requires(P::has_blocks)
template <class M>
__device__ inline bool Context<P>::send_each_of_block(Address to, const M& message, bool mine)
{
    static_assert(P::template message_id<M> != no_type, "not a message type of this program");
    static_assert(sizeof(M) <= first_payload && !detail::refers<M>,
                  "what lanes send side by side is at most 36 bytes, without buffers");
    if constexpr (P::has_buffers) {
        const bool touched = detail::block::barrier_any(P::block_threads, this->touched_);
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
                row.sent = this->post(Address{row.to}, from_words<M>(row.word)) ? 1 : 0;
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

#endif

} // namespace denizen

// SPDX-License-Identifier: Apache-2.0
// The threads that run one handler or one task together, whatever its grain: one thread, a warp, or
// a block of a GPU; on the CPU one thread. One text runs on all of them:
//
//   static constexpr auto grain = denizen::Grain::warp;
//   DENIZEN_HD void on(const Row& m, auto& ctx)
//   {
//       const denizen::Team team(ctx);
//       float sum = 0;
//       for (uint32_t i = team.rank(); i < m.n; i += team.size()) sum += m.at[i];
//       const float all = team.reduce(sum, denizen::Add{});
//       ctx.reply(Sum{all}); // once
//   }
//
// It is made of a context of actors (actor/context.hpp, actor/tasks.hpp) or of tasks
// (task/context.hpp), and valid as long as that.
//
// Hazard: every thread of the team makes each call of sync(), reduce() and scan(), in the same
// order, or the others wait for ever.
#pragma once

#include <denizen/base/lanes.hpp>

namespace denizen {

// What reduce() and scan() combine by. Any function of two values will do that is associative.
struct Add {
    template <class T>
    DENIZEN_HD T operator()(const T& a, const T& b) const
    {
        return static_cast<T>(a + b);
    }
};
struct Least {
    template <class T>
    DENIZEN_HD T operator()(const T& a, const T& b) const
    {
        return b < a ? b : a;
    }
};
struct Greatest {
    template <class T>
    DENIZEN_HD T operator()(const T& a, const T& b) const
    {
        return a < b ? b : a;
    }
};

template <class C>
class Team {
public:
    DENIZEN_HD explicit Team(const C& ctx) : ctx_(ctx) {}

    DENIZEN_HD uint32_t rank() const { return ctx_.lane(); } // 0 to size() - 1
    DENIZEN_HD uint32_t size() const { return ctx_.lanes(); }
    // A barrier. Afterwards each sees what the others wrote before it.
    DENIZEN_HD void sync() const { ctx_.sync(); }

    // The values of all ranks, combined in the order of ranks; every rank gets it. A T is trivially
    // copyable and has at most 16 bytes.
    template <class T, class Op>
    DENIZEN_HD T reduce(const T& value, const Op& op) const
    {
        check<T>();
#if DENIZEN_ON_DEVICE
        if (size() != 1) {
            const T mine = scan_warp(value, op);
            T all = shuffle(mine, lanes::size - 1);
            if (size() > lanes::size) {
                share(all);
                all = from_warp<T>(0);
                for (uint32_t w = 1; w < size() / lanes::size; ++w) {
                    all = op(all, from_warp<T>(w));
                }
                sync(); // before the next call writes there
            }
            return all;
        }
#endif
        (void)op;
        return value;
    }

    // The values of ranks 0 to this one, combined.
    template <class T, class Op>
    DENIZEN_HD T scan(const T& value, const Op& op) const
    {
        check<T>();
#if DENIZEN_ON_DEVICE
        if (size() != 1) {
            T mine = scan_warp(value, op);
            if (size() > lanes::size) {
                share(shuffle(mine, lanes::size - 1));
                const uint32_t own = rank() / lanes::size;
                if (own != 0) {
                    T before = from_warp<T>(0);
                    for (uint32_t w = 1; w < own; ++w) {
                        before = op(before, from_warp<T>(w));
                    }
                    mine = op(before, mine);
                }
                sync(); // before the next call writes there
            }
            return mine;
        }
#endif
        (void)op;
        return value;
    }

private:
    static constexpr uint32_t most_bytes = 16;

    template <class T>
    static DENIZEN_HD void check()
    {
        static_assert(__is_trivially_copyable(T) && sizeof(T) <= most_bytes,
                      "a team combines trivially copyable values of at most 16 bytes");
    }

#if DENIZEN_ON_DEVICE
    // A block's values, one of each warp.
    struct Shared {
        alignas(16) unsigned char value[32][most_bytes];
    };
    __device__ static Shared& shared()
    {
        __shared__ Shared memory;
        return memory;
    }

    template <class T>
    __device__ static T shuffle(const T& value, uint32_t source)
    {
        uint32_t words[(sizeof(T) + 3) / 4] = {};
        copy_bytes(words, &value, sizeof(T));
        for (uint32_t& word : words) {
            word = lanes::shuffle(word, source);
        }
        return from_words<T>(words);
    }

    // Hillis and Steele's: after step d a lane has the values of itself and of up to 2d - 1 before.
    template <class T, class Op>
    __device__ static T scan_warp(T value, const Op& op)
    {
        DENIZEN_UNROLL
        for (uint32_t d = 1; d < lanes::size; d *= 2) {
            const uint32_t from = lanes::id() >= d ? lanes::id() - d : lanes::id();
            const T before = shuffle(value, from);
            if (lanes::id() >= d) {
                value = op(before, value);
            }
        }
        return value;
    }

    // Each warp's value for all warps of the block.
    template <class T>
    __device__ void share(const T& of_warp) const
    {
        if (lanes::id() == 0) {
            copy_bytes(shared().value[rank() / lanes::size], &of_warp, sizeof(T));
        }
        sync();
    }
    template <class T>
    __device__ static T from_warp(uint32_t w)
    {
        T value;
        copy_bytes(&value, shared().value[w], sizeof(T));
        return value;
    }
#endif

    const C& ctx_;
};

} // namespace denizen

// SPDX-License-Identifier: Apache-2.0
// A program of tasks: the types it is made of, known at compile time.
//
//   struct Fib {
//       uint32_t n;
//       denizen::task::Counter parent;                      // who waits for the result
//       DENIZEN_HD void run(auto& ctx) const
//       {
//           if (n < 2) {
//               ctx.arrive(parent, n);
//           } else {
//               const auto both = ctx.when(2, Sum{parent});  // runs when both have arrived
//               ctx.spawn(Fib{n - 1, both});
//               ctx.spawn(Fib{n - 2, both});
//           }
//       }
//   };
//   using Fibs = denizen::task::Program<Fib, Sum>;
//
// A task is a trivially copyable struct of at most 44 bytes with `run(ctx)`; it runs once, on
//   static constexpr auto grain = denizen::task::Grain::thread;       // or warp, or block
//   static constexpr auto priority = denizen::task::Priority::normal; // or high, or low
// The values above are the defaults. In a warp's or block's task all its threads call run();
// ctx.lane() and ctx.lanes() tell them apart.
//
// A task sees everything that its spawner wrote before it spawned the task. A continuation sees
// everything that was written before its arrivals. A type that exchanges nothing but arguments,
// counts and sums may say `static constexpr bool self_contained = true`, which saves the fences.
#pragma once

#include <denizen/task/detail/deque.hpp>
#include <denizen/task/detail/layout.hpp>

namespace denizen::task {

namespace detail {

template <class, class>
inline constexpr bool same = false;
template <class T>
inline constexpr bool same<T, T> = true;

template <class T>
DENIZEN_HD constexpr Grain grain_of()
{
    if constexpr (requires { T::grain; }) {
        return T::grain;
    } else {
        return Grain::thread;
    }
}

template <class T>
DENIZEN_HD constexpr Priority priority_of()
{
    if constexpr (requires { T::priority; }) {
        return T::priority;
    } else {
        return Priority::normal;
    }
}

template <class T>
DENIZEN_HD constexpr bool self_contained_of()
{
    if constexpr (requires { T::self_contained; }) {
        return T::self_contained;
    } else {
        return false;
    }
}

// The sort key of a class: by priority, then by grain.
DENIZEN_HD constexpr uint32_t key(Priority p, Grain g)
{
    return 3 * static_cast<uint32_t>(p) + static_cast<uint32_t>(g);
}

// An empty struct has no bytes to carry.
template <class T>
inline constexpr uint32_t bytes_of = __is_empty(T) ? 0 : sizeof(T);

} // namespace detail

template <class... T>
struct Program {
    static_assert(sizeof...(T) > 0 && sizeof...(T) <= max_types, "1 to 64 task types");
    static_assert((__is_trivially_copyable(T) && ...), "tasks are copied byte by byte");
    static_assert(((sizeof(T) <= max_arguments) && ...), "a task has at most 44 bytes");
    static_assert(((alignof(T) <= 8) && ...), "a task is aligned to 8 bytes at most");

    static constexpr uint32_t types = sizeof...(T);

    template <class X>
    static DENIZEN_HD constexpr uint32_t id()
    {
        uint32_t index = 0;
        uint32_t found = max_types;
        ((detail::same<X, T> ? void(found = index) : void(), ++index), ...);
        return found;
    }

    // Rank of a (priority, grain) pair among those that occur, high priority first.
    static DENIZEN_HD constexpr uint32_t class_of(Priority p, Grain g)
    {
        uint32_t rank = 0;
        for (uint32_t k = 0; k < detail::key(p, g); ++k) {
            rank += ((detail::key(detail::priority_of<T>(), detail::grain_of<T>()) == k) || ...)
                        ? 1
                        : 0;
        }
        return rank;
    }
    template <class X>
    static DENIZEN_HD constexpr uint32_t class_of()
    {
        return class_of(detail::priority_of<X>(), detail::grain_of<X>());
    }
    static constexpr uint32_t count_classes()
    {
        uint32_t n = 0;
        for (uint32_t k = 0; k < max_classes; ++k) {
            n += ((detail::key(detail::priority_of<T>(), detail::grain_of<T>()) == k) || ...) ? 1
                                                                                              : 0;
        }
        return n;
    }
    static constexpr uint32_t classes = count_classes();

    static DENIZEN_HD constexpr Grain grain_of_class(uint32_t c)
    {
        Grain g = Grain::thread;
        ((class_of<T>() == c ? void(g = detail::grain_of<T>()) : void()), ...);
        return g;
    }

    // The class that a thief tries at `rank`: by priority, then the coarser grain first, because
    // one such task brings more work.
    static DENIZEN_HD constexpr uint32_t steal_order(uint32_t rank)
    {
        uint32_t found = 0;
        uint32_t at = 0;
        for (uint32_t k = 0; k < max_classes; ++k) {
            const auto p = static_cast<Priority>(k / 3);
            const auto g = static_cast<Grain>(2 - k % 3);
            if (((detail::key(detail::priority_of<T>(), detail::grain_of<T>()) ==
                  detail::key(p, g)) ||
                 ...)) {
                found = at == rank ? class_of(p, g) : found;
                ++at;
            }
        }
        return found;
    }

    static constexpr uint32_t longest()
    {
        uint32_t most = 0;
        const uint32_t all[] = {detail::bytes_of<T>...};
        for (const uint32_t bytes : all) {
            most = bytes > most ? bytes : most;
        }
        return most;
    }
    static constexpr uint32_t slot = slot_bytes(longest());
    static constexpr bool has_blocks = ((detail::grain_of<T>() == Grain::block) || ...);
    static constexpr bool has_warps = ((detail::grain_of<T>() == Grain::warp) || ...);
    static constexpr bool has_threads = ((detail::grain_of<T>() == Grain::thread) || ...);
    using Words = task::Words<slot>;

    template <class X>
    static DENIZEN_HD Words encode(const X& task, uint32_t group)
    {
        static_assert(id<X>() < types, "not a task type of this program");
        Words w{};
        w.word[0] = header(id<X>(), group, class_of<X>());
        if constexpr (detail::bytes_of<X> != 0) {
            copy_bytes(w.word + 1, &task, sizeof(X));
        }
        return w;
    }

    static DENIZEN_HD bool self_contained(uint32_t type)
    {
        uint32_t index = 0;
        bool yes = false;
        ((index++ == type ? void(yes = detail::self_contained_of<T>()) : void()), ...);
        return yes;
    }

    // Runs the task that `words` encode, if its grain is G.
    template <Grain G, class Context>
    static DENIZEN_HD void run(const Words& words, Context& ctx)
    {
        uint32_t index = 0;
        // Types are tried in turn until one matches. Lanes with different tasks diverge here once,
        // and no lane waits for the end of another lane's task.
        (void)(run_if<T, G>(index++, words, ctx) || ...);
    }

    static constexpr Table table()
    {
        Table t;
        t.types = types;
        t.classes = classes;
        t.slot = slot;
        t.blocks = has_blocks ? 1 : 0;
        uint32_t i = 0;
        ((t.class_of[i] = class_of<T>(), t.size[i] = detail::bytes_of<T>, ++i), ...);
        return t;
    }

private:
    template <class X, Grain G, class Context>
    static DENIZEN_HD bool run_if(uint32_t index, const Words& words, Context& ctx)
    {
        if constexpr (detail::grain_of<X>() == G) {
            if (type_of(words.word[0]) == index) {
                X task;
                if constexpr (detail::bytes_of<X> != 0) {
                    copy_bytes(&task, words.word + 1, sizeof(X));
                }
                ctx.template begin<X>();
                task.run(ctx);
                return true;
            }
        }
        return false;
    }
};

} // namespace denizen::task

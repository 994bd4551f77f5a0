// SPDX-License-Identifier: Apache-2.0
// The code that all programs have in common, compiled once: what a worker calls seldom, and the
// monitor. It is four fifths of a resident kernel. Program text that is compiled at run time leaves
// it out and is linked with it (python/denizen/common.py); nvcc and the core compile both at once.
//
//   DENIZEN_COMMON   0 or not defined   all of a program is compiled here
//                    1                  this is a program, and the common code another object
//                    2                  this is the common code: kernel.hpp is all of the text
//
// The common code takes any program for AnyProgram, which has all that a program may have. What it
// calls of a program is defined behind that program, by DENIZEN_PROGRAM. Either way it is a call of
// another object, and what the caller needs behind it lies on the stack: no such call is on the way
// of an ordinary message.
#pragma once

#include <denizen/actor/detail/chores.hpp>
#include <denizen/actor/detail/handover.hpp>
#include <denizen/actor/detail/monitor.hpp>

#if DENIZEN_COMMON

namespace denizen::detail {

struct AnyProgram {
    using Common = AnyProgram;
    static constexpr bool has_buffers = true;
    static constexpr bool has_urgent = true;
    static constexpr bool has_warp_actors = true;
    static constexpr bool can_fail = true;
    static constexpr bool drops_oldest = true;

    // As Program's.
    DENIZEN_HD static uint32_t down();
    DENIZEN_HD static Overflow overflow(uint32_t actor);
    DENIZEN_HD static Grain grain(uint32_t actor);
    DENIZEN_HD static void construct(uint32_t actor, void* state);
    DENIZEN_HD static bool checkpoint(uint32_t actor, void* state);
    DENIZEN_HD static bool restore(uint32_t actor, void* state);
    DENIZEN_HD static void keep_buffers(const Shared& s, uint32_t message, const void* payload);
    DENIZEN_HD static void drop_buffers(const Shared& s, uint32_t message, const void* payload);
    DENIZEN_HD static Overflow policy_of(const Shared& s, Address to);
};

template <>
DENIZEN_HD void handle_any<AnyProgram>(const Shared& s, uint32_t id, const ActorEntry& entry,
                                       const Header& h, const void* payload, bool whole,
                                       bool observed);

} // namespace denizen::detail

#if DENIZEN_COMMON == 1
#define DENIZEN_COMMON_PART extern template
#else
#define DENIZEN_COMMON_PART template
#endif

namespace denizen {

DENIZEN_COMMON_PART DENIZEN_HD bool post_raw<>(const Shared&, uint32_t, const Header&, const void*,
                                               Priority, Overflow);
DENIZEN_COMMON_PART DENIZEN_HD void send_system<>(const Shared&, uint32_t, SystemOp, Address,
                                                  uint32_t, const LifeRequest&);
DENIZEN_COMMON_PART DENIZEN_HD void keep_first<>(FirstError&, const ErrorRecord&);
#if DENIZEN_ON_DEVICE || defined(__CUDACC_RTC__)
DENIZEN_COMMON_PART __device__ void run_monitor<>(const Shared&);
#endif

namespace detail {

DENIZEN_COMMON_PART DENIZEN_HD uint32_t acknowledge<>(const BreathRef&, uint32_t, uint32_t);
DENIZEN_COMMON_PART DENIZEN_HD bool pass_gate<>(const BreathRef&, uint32_t);
DENIZEN_COMMON_PART DENIZEN_HD uint32_t look_at_jam<>(const Shared&, uint32_t);
DENIZEN_COMMON_PART DENIZEN_HD bool post_unsent<>(const Shared&, uint32_t, const Header&,
                                                  const uint32_t*, Priority, Overflow,
                                                  const Unsent&);
DENIZEN_COMMON_PART DENIZEN_HD bool post_any<>(const Shared&, uint32_t, const Header&, const void*,
                                               Priority, Overflow);
DENIZEN_COMMON_PART DENIZEN_HD Posted post_by_all<>(const Shared&, uint32_t, const Header&,
                                                    const void*, Priority, Overflow);
DENIZEN_COMMON_PART DENIZEN_HD void write_late<>(const Shared&, uint32_t, uint32_t, const Words&);
DENIZEN_COMMON_PART DENIZEN_HD uint32_t arm<>(const Shared&, uint32_t, uint64_t, const TimerEntry&);
DENIZEN_COMMON_PART DENIZEN_HD bool disarm<>(const Shared&, uint32_t, uint32_t, uint32_t);
DENIZEN_COMMON_PART DENIZEN_HD void mark_subscriber<>(const Shared&, uint32_t);
DENIZEN_COMMON_PART DENIZEN_HD void post_topic<>(const Shared&, uint32_t, uint32_t, SystemOp,
                                                 uint32_t, const TopicRequest&);
DENIZEN_COMMON_PART DENIZEN_HD uint32_t take_place<>(const Shared&, uint32_t);
DENIZEN_COMMON_PART DENIZEN_HD void open_place<>(const Shared&, uint32_t, uint32_t, uint32_t);
DENIZEN_COMMON_PART DENIZEN_HD Receipt take_stamp<>(const Shared&, const Header&, const void*);
DENIZEN_COMMON_PART DENIZEN_HD void trace_handled<>(const Shared&, uint32_t, const ActorEntry&,
                                                    const Header&, const Receipt&);

DENIZEN_COMMON_PART DENIZEN_HD uint32_t do_what_is_rare<AnyProgram>(const Shared&, uint32_t,
                                                                    uint32_t, bool, uint32_t, bool);
DENIZEN_COMMON_PART DENIZEN_HD uint32_t serve_alone<AnyProgram>(const Shared&, uint32_t,
                                                                const Source&, const Words&, bool);
DENIZEN_COMMON_PART DENIZEN_HD void set_aside<AnyProgram>(const Shared&, uint32_t, bool,
                                                          const Header&, const void*);
DENIZEN_COMMON_PART DENIZEN_HD void fire<AnyProgram>(const Shared&, uint32_t, bool, bool);
DENIZEN_COMMON_PART DENIZEN_HD void conclude<AnyProgram>(const Shared&, uint32_t, const ActorEntry&,
                                                         const Header&, const void*, const Outcome&,
                                                         bool);
DENIZEN_COMMON_PART DENIZEN_HD uint32_t publish<AnyProgram>(const Shared&, uint32_t,
                                                            const TopicKey&, const Header&,
                                                            const void*, Priority, bool);

} // namespace detail

} // namespace denizen

#endif

// What the common code calls of a program P.
#if DENIZEN_COMMON == 1
#define DENIZEN_FOR_COMMON(P)                                                                      \
    namespace denizen::detail {                                                                    \
    DENIZEN_HD uint32_t AnyProgram::down() { return P::down(); }                                   \
    DENIZEN_HD Overflow AnyProgram::overflow(uint32_t actor) { return P::overflow(actor); }        \
    DENIZEN_HD Grain AnyProgram::grain(uint32_t actor) { return P::grain(actor); }                 \
    DENIZEN_HD void AnyProgram::construct(uint32_t actor, void* state)                             \
    {                                                                                              \
        P::construct(actor, state);                                                                \
    }                                                                                              \
    DENIZEN_HD bool AnyProgram::checkpoint(uint32_t actor, void* state)                            \
    {                                                                                              \
        return P::checkpoint(actor, state);                                                        \
    }                                                                                              \
    DENIZEN_HD bool AnyProgram::restore(uint32_t actor, void* state)                               \
    {                                                                                              \
        return P::restore(actor, state);                                                           \
    }                                                                                              \
    DENIZEN_HD void AnyProgram::keep_buffers(const Shared& s, uint32_t message, const void* p)     \
    {                                                                                              \
        P::keep_buffers(s, message, p);                                                            \
    }                                                                                              \
    DENIZEN_HD void AnyProgram::drop_buffers(const Shared& s, uint32_t message, const void* p)     \
    {                                                                                              \
        P::drop_buffers(s, message, p);                                                            \
    }                                                                                              \
    DENIZEN_HD Overflow AnyProgram::policy_of(const Shared& s, Address to)                         \
    {                                                                                              \
        return P::policy_of(s, to);                                                                \
    }                                                                                              \
    template <>                                                                                    \
    DENIZEN_HD void handle_any<AnyProgram>(const Shared& s, uint32_t id, const ActorEntry& entry,  \
                                           const Header& h, const void* payload, bool whole,       \
                                           bool observed)                                          \
    {                                                                                              \
        handle_any<P>(s, id, entry, h, payload, whole, observed);                                  \
    }                                                                                              \
    }
#else
#define DENIZEN_FOR_COMMON(P)
#endif

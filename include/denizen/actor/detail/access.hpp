// SPDX-License-Identifier: Apache-2.0
// What a worker does with the references in messages: count those it sends, drop those it has
// handled, and resolve one for a handler. Called by Context and by the worker's loop.
#pragma once

#include <denizen/actor/detail/layout.hpp>
#include <denizen/base/errc.hpp>

namespace denizen::detail {

// Before a message is written. `touched`: the handler may have written to a buffer.
template <class M>
DENIZEN_HD inline void add_references([[maybe_unused]] const Shared& s,
                                      [[maybe_unused]] const M& message, bool touched)
{
    if constexpr (refers<M>) {
        for_each_ref(message,
                     [&s](const BufferRef& ref) { add_reference(s.buffers, s.buffer_count, ref); });
    }
    if (touched) {
        buffer_fence(); // the receiver finds what was written
    }
}

template <class M>
DENIZEN_HD inline void drop_references([[maybe_unused]] const Shared& s,
                                       [[maybe_unused]] const M& message)
{
    if constexpr (refers<M>) {
        for_each_ref(message, [&s](const BufferRef& ref) {
            drop_reference(s.buffers, s.buffer_count, ref);
        });
    }
}

// Calls `use(message)` with the message that lies at `payload`, if it refers to buffers.
template <class M, class Use>
DENIZEN_HD inline void with_payload([[maybe_unused]] const void* payload,
                                    [[maybe_unused]] Use&& use)
{
    if constexpr (!refers<M>) {
        return;
    } else if constexpr (sizeof(M) <= first_payload) {
        M message; // a copy: the packets' words may not be aligned for it
        copy_bytes(&message, payload, sizeof(M));
        use(message);
    } else {
        use(*static_cast<const M*>(payload));
    }
}

template <class M>
DENIZEN_HD inline void drop_payload(const Shared& s, const void* payload)
{
    with_payload<M>(payload, [&s](const M& message) { drop_references(s, message); });
}

template <class M>
DENIZEN_HD inline void keep_payload(const Shared& s, const void* payload)
{
    with_payload<M>(payload, [&s](const M& message) { add_references(s, message, false); });
}

struct Resolved {
    unsigned char* data = nullptr;
    uint64_t bytes = 0;
    Errc code = Errc::stale;
};

// Behind a buffer_fence() of the same handler.
DENIZEN_HD inline Resolved resolve(const Shared& s, BufferRef ref, uint32_t align)
{
    const BufferEntry* entry = find_buffer(s.buffers, s.buffer_count, ref);
    if (entry == nullptr) {
        return {};
    }
    const uint64_t address = load<Scope::gpu>(&entry->address);
    if (address % align != 0) {
        return {nullptr, 0, Errc::bad_argument};
    }
    return {reinterpret_cast<unsigned char*>(address), load<Scope::gpu>(&entry->bytes), Errc::ok};
}

} // namespace denizen::detail

// SPDX-License-Identifier: Apache-2.0
// How a message refers to a buffer: eight bytes that any worker of the program resolves to memory.
// The buffer itself is the host's (memory/buffer.hpp); nothing is copied on the way.
//
//   struct Scale {
//       denizen::BufferRef data;
//       float by;
//       DENIZEN_BUFFERS(data)
//   };
//   void on(const Scale& m, auto& ctx) { for (float& x : ctx.template data<float>(m.data)) x *=
//   m.by; }
//
// A table in each node's memory has an entry per buffer. A buffer lives while its host handle is
// open or a message refers to it, in a ring or in its handler. Two words that only grow count the
// second: `added` before a message is written, `dropped` after its handler has returned. The host
// adds its own sends and frees when all that was added has been dropped. It reads every `dropped`
// before any `added`: if they are equal, they were equal at the moment between, as nobody who holds
// no reference can make one.
//
// A reference that no message carries any more (one kept in a state without ctx.keep()) is not
// counted. It still never reaches freed memory: before the host frees it takes the entry's
// generation away and waits until every worker has left the handlers it was in. What a handler
// resolved stays valid until it returns; a later one finds another generation, which is an error.
#pragma once

#include <denizen/base/atomic.hpp>
#include <denizen/base/fence.hpp>

namespace denizen {

inline constexpr uint32_t max_buffers = 1u << 24;

// generation:40 | index:24. A generation is never given out twice; 0 refers to nothing.
struct BufferRef {
    uint64_t value = 0;

    DENIZEN_HD constexpr uint32_t index() const
    {
        return static_cast<uint32_t>(value & (max_buffers - 1));
    }
    DENIZEN_HD constexpr uint64_t generation() const { return value >> 24; }
    DENIZEN_HD constexpr bool operator==(const BufferRef& o) const { return value == o.value; }
    DENIZEN_HD constexpr explicit operator bool() const { return value != 0; }
};

// The host writes the first three words, this node's workers the other two.
struct alignas(64) BufferEntry {
    uint64_t address = 0;
    uint64_t bytes = 0;
    uint64_t generation = 0; // 0: no buffer
    uint64_t added = 0;      // references in messages that this node's handlers sent, or kept
    uint64_t dropped = 0;    // references in messages that this node has handled, or released
};

// What a reference resolves to; empty if it is stale. Valid until the handler returns.
template <class T>
struct BufferSpan {
    T* data = nullptr;
    uint64_t count = 0; // whole elements

    DENIZEN_HD uint64_t size() const { return count; }
    DENIZEN_HD bool empty() const { return count == 0; }
    DENIZEN_HD explicit operator bool() const { return data != nullptr; }
    DENIZEN_HD T& operator[](uint64_t i) const { return data[i]; }
    DENIZEN_HD T* begin() const { return data; }
    DENIZEN_HD T* end() const { return data + count; }
};

// In a message struct: names its fields of type BufferRef or BufferRef[N]. A field that is not
// named is not counted: its buffer may be gone, which is an error, when the message is handled.
#define DENIZEN_BUFFERS(...)                                                                       \
    using HasBuffers = void;                                                                       \
    template <class Use>                                                                           \
    DENIZEN_HD constexpr void each_buffer(Use&& use) const                                         \
    {                                                                                              \
        use(__VA_ARGS__);                                                                          \
    }

namespace detail {

// Message types that refer to buffers.
template <class M>
concept refers = requires { typename M::HasBuffers; };

template <class Use>
struct EachRef {
    Use& use;

    DENIZEN_HD void one(const BufferRef& ref) const
    {
        if (ref) {
            use(ref);
        }
    }
    template <uint32_t N>
    DENIZEN_HD void one(const BufferRef (&refs)[N]) const
    {
        for (const BufferRef& ref : refs) {
            one(ref);
        }
    }
    template <class... Fields>
    DENIZEN_HD void operator()(const Fields&... fields) const
    {
        (one(fields), ...);
    }
};

// Calls `use` for every reference in a message that is not null.
template <class M, class Use>
DENIZEN_HD void for_each_ref(const M& message, Use use)
{
    message.each_buffer(EachRef<Use>{use});
}

// Where in a message its references lie; returns their number.
template <class M>
DENIZEN_HD uint32_t list_refs(const M& message, uint32_t* offsets)
{
    uint32_t count = 0;
    for_each_ref(message, [&](const BufferRef& ref) {
        offsets[count++] = static_cast<uint32_t>(reinterpret_cast<const unsigned char*>(&ref) -
                                                 reinterpret_cast<const unsigned char*>(&message));
    });
    return count;
}

// Before it: what this handler has written, and that the worker is in a handler at all. After it:
// what others had written before they sent the message.
DENIZEN_HD inline void buffer_fence()
{
#if DENIZEN_ON_DEVICE
    __threadfence_system();
#elif DENIZEN_HOSTED
    light_fence(); // packets order the rest; partner: the heavy_fence() in BufferTable::collect()
#endif
}

// The entry of a reference, or null if that is stale.
DENIZEN_HD inline BufferEntry* find_buffer(BufferEntry* entries, uint32_t count, BufferRef ref)
{
    if (!ref || ref.index() >= count) {
        return nullptr;
    }
    BufferEntry& entry = entries[ref.index()];
    // Acquire on the host: partner of Backend::write(). On the device the callers fence.
    constexpr Order order = DENIZEN_ON_DEVICE ? Order::relaxed : Order::acquire;
    return load<Scope::gpu, order>(&entry.generation) == ref.generation() ? &entry : nullptr;
}

// Before a message that carries the reference is written. The fences: no worker can handle the
// message, and drop it, before the host can see this; and it finds in the buffer what we wrote.
// False if it is stale, and then nothing is counted.
DENIZEN_HD inline bool add_reference(BufferEntry* entries, uint32_t count, BufferRef ref)
{
    buffer_fence();
    BufferEntry* entry = find_buffer(entries, count, ref);
    if (entry != nullptr) {
        fetch_add<Scope::gpu, Order::acq_rel>(&entry->added, uint64_t{1});
    }
    return entry != nullptr;
}

// After its handler. Release: partner of the host's acquire in Backend::read(); what the handler
// did to the buffer comes before.
DENIZEN_HD inline void drop_reference(BufferEntry* entries, uint32_t count, BufferRef ref)
{
    if (BufferEntry* entry = find_buffer(entries, count, ref)) {
        fetch_add<Scope::gpu, Order::release>(&entry->dropped, uint64_t{1});
    }
}

} // namespace detail

} // namespace denizen

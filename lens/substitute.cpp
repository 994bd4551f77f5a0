// SPDX-License-Identifier: Apache-2.0
#include "substitute.hpp"

#include "channels.hpp"
#include "entry.hpp"
#include "guarded.hpp"
#include "log.hpp"
#include "rm.hpp"
#include "session.hpp"

namespace denizen::lens {
namespace {

struct Order {
    uint32_t* words;
    uint32_t count;
    uint32_t capacity;
    uint32_t total;
    int32_t state;
};

// Set by the thread and read by its own fault handler.
thread_local Order order __attribute__((tls_model("initial-exec"))) = {};

int32_t replace(const Channel& c, Order& with)
{
    uint32_t put = 0;
    const uint64_t userd = c.userd.load(std::memory_order_acquire);
    if (!userd || !read_word(put, userd + rm::gp_put) || put >= c.entries) {
        return denizen_lens_unreadable;
    }
    if (put != (c.last_put + 1) % c.entries) {
        return denizen_lens_not_alone;
    }
    uint64_t* place = reinterpret_cast<uint64_t*>(c.gpfifo) + c.last_put;
    Entry theirs{};
    if (denizen_lens_copy(&theirs.raw, place, sizeof theirs.raw) != 0) {
        return denizen_lens_unreadable;
    }
    if (theirs.words() == 0) {
        return denizen_lens_not_alone;
    }
    if (theirs.words() > with.capacity - with.count) {
        return denizen_lens_no_room;
    }
    const auto* from = reinterpret_cast<const void*>(theirs.address() | c.base);
    if (denizen_lens_copy(with.words + with.count, from, theirs.bytes()) != 0) {
        return denizen_lens_unreadable;
    }
    const uint32_t total = with.count + theirs.words();
    const Entry ours = theirs.with(reinterpret_cast<uint64_t>(with.words), total);
    // The guarded copy, since the ring may be mapped for reading alone.
    if (denizen_lens_copy(place, &ours.raw, sizeof ours.raw) != 0) {
        return denizen_lens_not_writable;
    }
    // The ring is write-combined: the entry must have left before the doorbell does.
    __builtin_ia32_mfence();
    with.total = total;
    return denizen_lens_done;
}

} // namespace

void substitute(const Channel* c)
{
    // The fault is synchronous: this thread is in its store to the doorbell, not in the functions
    // below.
    Order& o = order;
    if (o.words == nullptr) {
        return;
    }
    o.state = c == nullptr ? denizen_lens_no_channel : replace(*c, o);
    o.words = nullptr;
}

} // namespace denizen::lens

extern "C" int32_t denizen_lens_substitute(uint32_t* words, uint32_t count, uint32_t capacity)
{
    using namespace denizen::lens;
    if (!session.is_on() || !the_log.is_open()) {
        return denizen_lens_not_capturing;
    }
    const auto begin = reinterpret_cast<uint64_t>(words);
    if (begin == 0 || begin % 4 != 0 || count > capacity || capacity > Entry::most_words ||
        begin + uint64_t{capacity} * 4 > Entry::address_limit) {
        return denizen_lens_bad_buffer;
    }
    order = {words, count, capacity, 0, denizen_lens_pending};
    return denizen_lens_pending;
}

extern "C" int32_t denizen_lens_substituted(uint32_t* total)
{
    const auto& o = denizen::lens::order;
    if (total != nullptr) {
        *total = o.total;
    }
    return o.state;
}

// SPDX-License-Identifier: Apache-2.0
#include "doorbell.hpp"

#include "attribute.hpp"
#include "channels.hpp"
#include "entry.hpp"
#include "guarded.hpp"
#include "log.hpp"
#include "release.hpp"
#include "session.hpp"
#include "substitute.hpp"

#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace denizen::lens {
namespace {

thread_local uint32_t thread_id __attribute__((tls_model("initial-exec"))) = 0;
thread_local uint32_t told_in __attribute__((tls_model("initial-exec"))) = 0; // which log

uint32_t this_thread()
{
    if (thread_id == 0) {
        thread_id = static_cast<uint32_t>(syscall(SYS_gettid));
    }
    if (const uint32_t number = session.log_number(); told_in != number) {
        told_in = number;
        ThreadRecord r{};
        r.tid = thread_id;
        prctl(PR_GET_NAME, r.name);
        the_log.write(Kind::thread, r);
    }
    return thread_id;
}

constexpr uint32_t group = 16; // entries on the stack at a time: it may be a small one

// `n` entries from place `first` of the ring, with wrap.
bool read_entries(const Channel& c, uint32_t first, uint32_t n, uint64_t* to)
{
    const uint32_t before_end = c.entries - first < n ? c.entries - first : n;
    const auto* ring = reinterpret_cast<const uint64_t*>(c.gpfifo);
    return denizen_lens_copy(to, ring + first, before_end * 8) == 0 &&
           denizen_lens_copy(to + before_end, ring, (n - before_end) * 8) == 0;
}

// The segment in pieces, each a record; what the log has no room for or nobody may read ends it.
void log_segment(Channel& c, uint64_t doorbell, uint32_t entry, uint64_t address, uint32_t total)
{
    for (uint32_t offset = 0; offset < total;) {
        const uint32_t left = total - offset;
        const uint32_t length = left < pushbuffer_piece ? left : pushbuffer_piece;
        const size_t n = padded(sizeof(PushbufferRecord) + length);
        auto* r = static_cast<PushbufferRecord*>(the_log.reserve(n));
        if (!r) {
            return; // the losses are counted
        }
        const auto* from = reinterpret_cast<const void*>(address + offset);
        const size_t missing = denizen_lens_copy(r + 1, from, length);
        learn_release(c, reinterpret_cast<const uint32_t*>(r + 1),
                      static_cast<uint32_t>(length - missing) / 4);
        r->doorbell = doorbell;
        r->address = address + offset;
        r->entry = entry;
        r->offset = offset;
        r->length = static_cast<uint32_t>(length - missing);
        r->total = total;
        Log::commit(r, Kind::pushbuffer, missing ? pushbuffer_unreadable : uint16_t{0}, n);
        if (missing) {
            return;
        }
        offset += length;
    }
}

uint64_t sum_bytes(const uint64_t* raw, uint32_t n)
{
    uint64_t bytes = 0;
    for (uint32_t k = 0; k < n; ++k) {
        bytes += Entry{raw[k]}.bytes();
    }
    return bytes;
}

// Under the channel's lock, so that its records are in the order of its doorbells.
void log_entries(Channel& c, DoorbellRecord& d, uint16_t& flags)
{
    uint32_t put = 0;
    const uint64_t userd = c.userd.load(std::memory_order_acquire);
    d.put_old = c.last_put;
    if (!userd || !read_word(put, userd + rm::gp_put)) {
        flags |= doorbell_unreadable;
        put = c.last_put;
    } else if (put >= c.entries) {
        flags |= doorbell_bad_put;
        d.put_new = put;
        put = c.last_put;
    }
    const uint32_t first = c.last_put;
    const uint32_t n = put >= first ? put - first : put + c.entries - first;
    d.put_new = flags & doorbell_bad_put ? d.put_new : put;
    d.sequence = session.totals.doorbells.fetch_add(1, std::memory_order_relaxed);
    c.last_put = put;

    const size_t bytes = sizeof(DoorbellRecord) + size_t{n} * 8;
    auto* record = static_cast<DoorbellRecord*>(the_log.reserve(bytes, true));
    uint64_t* list = record ? reinterpret_cast<uint64_t*>(record + 1) : nullptr;
    d.entries = n;
    if (list) {
        if (!read_entries(c, first, n, list)) {
            flags |= doorbell_unreadable;
        }
        d.bytes = sum_bytes(list, n);
    } else { // for the totals, which are exact even if the log is full
        uint64_t piece[group];
        for (uint32_t k = 0; k < n; k += group) {
            const uint32_t m = n - k < group ? n - k : group;
            if (read_entries(c, (first + k) % c.entries, m, piece)) {
                d.bytes += sum_bytes(piece, m);
            }
        }
    }
    session.totals.entries.fetch_add(n, std::memory_order_relaxed);
    session.totals.bytes.fetch_add(d.bytes, std::memory_order_relaxed);
    if (!record) {
        return;
    }
    __builtin_memcpy(reinterpret_cast<char*>(record) + sizeof(RecordHeader),
                     reinterpret_cast<const char*>(&d) + sizeof(RecordHeader),
                     sizeof d - sizeof(RecordHeader));
    // Before the segments: who waits for room must not hold what the log would have to write first.
    Log::commit(record, Kind::doorbell, flags, bytes);
    if (!session.is_full()) {
        return;
    }
    for (uint32_t k = 0; k < n; k += group) { // read again, since the committed list may be cleared
        const uint32_t m = n - k < group ? n - k : group;
        uint64_t piece[group];
        if (!read_entries(c, (first + k) % c.entries, m, piece)) {
            return;
        }
        for (uint32_t j = 0; j < m; ++j) {
            const Entry e{piece[j]};
            if (e.is_base()) {
                c.base = e.base();
            } else if (e.bytes()) {
                log_segment(c, d.sequence, k + j, e.address() | c.base, e.bytes());
            }
        }
    }
}

} // namespace

void log_doorbell(const Page& page, uint32_t token, const Registers& at)
{
    if (!session.is_on() || !the_log.is_open()) { // at the end, or after a detach
        return;
    }
    // What the thread wrote through write-combining buffers must be in memory before it is read
    // back.
    __builtin_ia32_mfence();
    DoorbellRecord d{};
    uint16_t flags = 0;
    d.time_ns = now_ns();
    d.tid = this_thread();
    d.gpu = page.gpu;
    d.token = token;
    d.page_offset = rm::doorbell_offset;
    d.caller = at.rip;
    const Attribution a = attribute(at);
    d.api = a.api;
    d.api_inner = a.api_inner;
    d.call = a.call;
    d.channel = token == none ? none : channels.find_token(page.gpu, token);
    if (d.channel == none) {
        d.channel = channels.find_moved(page.gpu, token == none);
        flags |= doorbell_inferred;
        if (d.channel != none && token != none) {
            channels.set_token(d.channel, token, true);
        }
    }
    if (d.channel == none) {
        flags &= static_cast<uint16_t>(~doorbell_inferred);
        d.sequence = session.totals.doorbells.fetch_add(1, std::memory_order_relaxed);
        session.totals.unknown_tokens.fetch_add(1, std::memory_order_relaxed);
        substitute(nullptr);
        the_log.write(Kind::doorbell, d, nullptr, 0, flags);
        return;
    }
    Channel& c = channels.at(d.channel);
    const SpinLock held(c.lock);
    substitute(&c);
    if (session.is_full()) {
        log_release(c, d.channel);
    }
    log_entries(c, d, flags);
}

} // namespace denizen::lens

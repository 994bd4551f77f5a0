// SPDX-License-Identifier: Apache-2.0
// What atomic accesses read and write: the calls that -fsanitize=thread puts there.
//
// Memory holds the newest value of everything. Beside it stand the last few stores to each word,
// with what was known to who made them; a load may read any of these that is not older than what
// its thread knows of. A word is kept by address and size; where sizes are mixed only the newest is
// read. A value that memory holds and no store here has made was written by an ordinary access: all
// know of it.
#include "fibers.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <malloc.h>
#include <map>
#include <new>

extern "C" char __executable_start;

namespace simulation {

bool counting = false;
bool planted = false;
bool tracing = std::getenv("DENIZEN_SIMULATION_TRACE") != nullptr;

namespace {

constexpr uint32_t kept = 6;          // stores to a word
constexpr uint32_t buckets = 1 << 16; // of 16-byte pieces of memory

struct Bytes {
    uint64_t low = 0;
    uint64_t high = 0;
    bool operator==(const Bytes&) const = default;
};

struct Store {
    Bytes value;
    uint32_t epoch = 0;
    uint32_t by = 0;
    Clock carried;                   // what who acquires it then knows
    uint32_t read[most_fibers] = {}; // by fiber: when it was first read, + 1
};

// What most loads need lies in its first 64 bytes: a worker that polls reads the same store again.
struct alignas(64) Word {
    uintptr_t at; // 0: it is spare
    Word* next;   // of the same 16 bytes
    Bytes value;  // of the newest store
    uint32_t size;
    uint32_t stores; // all there were
    uint32_t oldest; // the number of the first that is kept
    // Fibers, a bit each, that have read or written the newest store; that have joined what it
    // carries to what they know; and to what they would after a fence.
    uint16_t seen;
    uint16_t acquired;
    uint16_t pending;
    Store last[kept]; // number i is in place i % kept
};
static_assert(most_fibers <= 16);

struct Bucket {
    uintptr_t piece; // 0: free
    Word* words;
};

Bucket table[buckets];
uint32_t taken[buckets]; // which buckets a run has come to
uint32_t used = 0;       // so many
char* arena = nullptr;
size_t arena_at = 0;
Word* spare = nullptr; // words that were forgotten
constexpr size_t arena_bytes = size_t{256} << 20;
uint64_t filter[1024]; // which pieces may be in the table
Word* recent[1024];    // words by address
Clock total;           // of fences that are sequentially consistent

uint32_t hash_of(uintptr_t value)
{
    return static_cast<uint32_t>((value * 0x9e3779b97f4a7c15u) >> 48);
}

// Pieces of one line of 128 bytes lie side by side.
uint32_t place_of(uintptr_t piece)
{
    return (hash_of(piece >> 3) & ~7u) | static_cast<uint32_t>(piece & 7);
}

bool maybe(uintptr_t piece)
{
    const uint32_t h = place_of(piece);
    return (filter[h >> 6] >> (h & 63) & 1) != 0;
}

Bucket& bucket_of(uintptr_t piece)
{
    const uint32_t first = place_of(piece);
    for (uint32_t h = first;; h = (h + 1) % buckets) { // ends: the table is never full
        Bucket& b = table[h];
        if (b.piece == piece) {
            return b;
        }
        if (b.piece == 0) {
            if (used == buckets / 4 * 3) {
                fail("the simulator has no room for so many atomic words");
            }
            taken[used++] = h;
            b = {piece, nullptr};
            filter[first >> 6] |= uint64_t{1} << (first & 63);
            return b;
        }
    }
}

Bytes read_memory(uintptr_t at, uint32_t size)
{
    Bytes b;
    std::memcpy(static_cast<void*>(&b), reinterpret_cast<const void*>(at), size);
    return b;
}

void write_memory(uintptr_t at, uint32_t size, const Bytes& b)
{
    void* const to = reinterpret_cast<void*>(at);
    switch (size) { // a copy of a size that is known is one store
    case 4: std::memcpy(to, &b, 4); break;
    case 8: std::memcpy(to, &b, 8); break;
    case 16: std::memcpy(to, &b, 16); break;
    default: std::memcpy(to, &b, size);
    }
}

// As it is in memory now, and known to all.
void begin_word(Word& w)
{
    w.stores = 1;
    w.oldest = 0;
    w.seen = w.acquired = w.pending = 0xffff;
    w.value = read_memory(w.at, w.size);
    w.last[0].value = w.value;
    w.last[0].carried = Clock{};
    w.last[0].epoch = 0;
    w.last[0].by = 0;
    std::memset(w.last[0].read, 0, sizeof w.last[0].read);
}

const Store& newest_of(const Word& w) { return w.last[(w.stores - 1) % kept]; }

bool overlaps(const Word& w, uintptr_t at, uint32_t size)
{
    return w.at < at + size && at < w.at + w.size;
}

Word& new_word(Bucket& b, uintptr_t at, uint32_t size)
{
    Word* w = spare;
    if (w != nullptr) {
        spare = w->next;
    } else {
        if (arena == nullptr) {
            arena = static_cast<char*>(
                std::aligned_alloc(alignof(Word), arena_bytes)); // pages come as they are used
        }
        if (arena_at + sizeof(Word) > arena_bytes) {
            fail("the simulator has no memory for so many atomic words");
        }
        w = reinterpret_cast<Word*>(arena + arena_at);
        arena_at += sizeof(Word);
    }
    w->at = at;
    w->size = size;
    begin_word(*w);
    for (const Word* other = b.words; other != nullptr; other = other->next) {
        if (overlaps(*other, at, size)) { // who acquires this one knows of what was stored there
            w->last[0].carried.join(newest_of(*other).carried);
            w->acquired = w->pending = 0;
        }
    }
    w->next = b.words;
    b.words = w;
    return *w;
}

// `there`: what memory holds.
Word& word_of(uintptr_t at, uint32_t size, const Bytes& there)
{
    Word*& kept_here = recent[(at >> 2 ^ at >> 12) % std::size(recent)];
    Word* w = kept_here;
    if (w == nullptr || w->at != at || w->size != size) {
        Bucket& b = bucket_of(at >> 4);
        for (w = b.words; w != nullptr && (w->at != at || w->size != size); w = w->next) {
        }
        kept_here = w != nullptr ? w : &new_word(b, at, size);
        w = kept_here;
    }
    if (!(w->value == there)) {
        begin_word(*w);
    }
    return *w;
}

// Another size was used there: who loads may not read what was before.
bool alone(const Bucket& b)
{
    return b.words->next == nullptr || [&] {
        for (const Word* x = b.words; x != nullptr; x = x->next) {
            for (const Word* y = x->next; y != nullptr; y = y->next) {
                if (overlaps(*x, y->at, y->size)) {
                    return false;
                }
            }
        }
        return true;
    }();
}

enum Order : int { relaxed, consume, acquire, release, acq_rel, seq_cst };
bool acquires(int o) { return o == acquire || o == acq_rel || o == seq_cst || o == consume; }
bool releases(int o) { return o == release || o == acq_rel || o == seq_cst; }

uint16_t bit() { return static_cast<uint16_t>(1u << current->id); }

void saw(Word& w, uint32_t number)
{
    if (number == w.stores - 1) {
        w.seen |= bit();
    }
    uint32_t& when = w.last[number % kept].read[current->id];
    when = when == 0 ? current->known.of[current->id] + 1 : when;
}

// Whether the current thread knows of a store, or that somebody has read it.
bool known(const Store& s)
{
    const Clock& known = current->known;
    bool found = s.epoch <= known.of[s.by];
    for (uint32_t f = 0; f < most_fibers && !found; ++f) {
        found = s.read[f] != 0 && s.read[f] <= known.of[f] + 1;
    }
    return found;
}

// The oldest store that the current thread may still read.
uint32_t floor_of(const Word& w)
{
    uint32_t i = w.stores - 1;
    while (i > w.oldest && !known(w.last[i % kept])) { // ends: i shrinks
        --i;
    }
    return i;
}

Bytes load(uintptr_t at, uint32_t size, const Bytes& there, int order, uintptr_t from)
{
    Word& w = word_of(at, size, there);
    uint32_t number = w.stores - 1;
    const uint16_t me = bit();
    if ((w.seen & (acquires(order) ? w.acquired : w.pending) & me) != 0) { // nothing is new
        mix(number << 8 | size);
        return there;
    }
    if (order != seq_cst && number > w.oldest && stale_percent() != 0) {
        if (const uint32_t least = floor_of(w); least < number && alone(bucket_of(at >> 4))) {
            if (const uint32_t age =
                    choose(Choice::older, number - least + 1, stale_percent(), from)) {
                number -= age;
                count_stale();
            }
        }
    }
    const Store& s = w.last[number % kept];
    const bool newest = number == w.stores - 1;
    if (acquires(order)) {
        current->known.join(s.carried);
        w.acquired |= newest ? me : 0;
    } else {
        current->pending.join(s.carried);
        w.pending |= newest ? me : 0;
    }
    saw(w, number);
    mix(number << 8 | size); // not the value: some count over all runs
    return s.value;
}

void push(Word& w, const Bytes& value, const Clock& carried, uint32_t epoch, uint32_t by)
{
    Store& s = w.last[w.stores % kept];
    s.value = value;
    s.carried = carried;
    s.epoch = epoch;
    s.by = by;
    std::memset(s.read, 0, sizeof s.read);
    ++w.stores;
    w.value = value;
    w.seen = w.acquired = w.pending = 0;
    w.oldest = w.stores > kept ? std::max(w.oldest, w.stores - kept) : w.oldest;
}

// `before`: what the store it follows in a release sequence carried.
void store(Word& w, const Bytes& value, int order, const Clock* before)
{
    const uintptr_t at = w.at;
    const uint32_t size = w.size;
    if (!(w.value == value)) {
        ++changes;
    }
    Clock carried = releases(order) ? current->known : current->released;
    if (before != nullptr) {
        carried.join(*before);
    }
    const uint32_t epoch = current->known.of[current->id];
    if (tracing) {
        std::fprintf(stderr, "%llu %u %zx %zx/%u %llx -> %llx\n",
                     static_cast<unsigned long long>(now - 1'000'000'000), current->id,
                     current->at - reinterpret_cast<uintptr_t>(&__executable_start), at, size,
                     static_cast<unsigned long long>(read_memory(at, size).low),
                     static_cast<unsigned long long>(value.low));
    }
    write_memory(at, size, value);
    for (Word* other = bucket_of(at >> 4).words; other != nullptr; other = other->next) {
        if (other != &w && overlaps(*other, at, size)) {
            push(*other, read_memory(other->at, other->size), carried, epoch, current->id);
        }
    }
    push(w, value, carried, epoch, current->id);
    saw(w, w.stores - 1);
    ++current->known.of[current->id];
}

template <class T>
Bytes bytes_of(T value)
{
    Bytes b;
    std::memcpy(static_cast<void*>(&b), &value, sizeof value);
    return b;
}

template <class T>
T value_of(const Bytes& b)
{
    T value;
    std::memcpy(&value, &b, sizeof value);
    return value;
}

std::map<uintptr_t, Plant>& plants()
{
    static auto& all = *new std::map<uintptr_t, Plant>;
    return all;
}

struct Count {
    const char* what;
    uint64_t count;
};
std::map<uintptr_t, Count>& counts()
{
    static auto& all = *new std::map<uintptr_t, Count>;
    return all;
}

// Object to clock: locks, and threads that have ended.
struct Held {
    const void* object;
    uint32_t run;
    Clock clock;
};
constexpr uint32_t most_held = 1 << 12;
Held held[most_held];
uint32_t run_number = 0;

Clock& clock_of(const void* object)
{
    uint32_t h = hash_of(reinterpret_cast<uintptr_t>(object) >> 3) % most_held;
    for (uint32_t i = 0; i < most_held; ++i) {
        Held& x = held[(h + i) % most_held];
        if (x.run != run_number) {
            x.object = object;
            x.run = run_number;
            x.clock = Clock{};
        }
        if (x.object == object) {
            return x.clock;
        }
    }
    fail("the simulator has no room for so many locks");
}

template <class T, class Change>
T change(T* p, int order, uintptr_t from, const char* what, Change&& by)
{
    if (!simulated()) {
        T before = *p;
        *p = by(before);
        return before;
    }
    const Inside inside;
    access(from);
    note_site(from, what);
    if (planted) {
        const Plant plant = planted_at(from);
        if (plant == Plant::dropped) {
            return *p;
        }
        order = plant == Plant::relaxed ? relaxed : order;
    }
    const auto at = reinterpret_cast<uintptr_t>(p);
    Word& w = word_of(at, sizeof(T), bytes_of(*p));
    const Store& last = newest_of(w);
    const Clock before = last.carried;
    if (acquires(order)) {
        current->known.join(before);
    } else {
        current->pending.join(before);
    }
    const T value = value_of<T>(last.value);
    store(w, bytes_of<T>(by(value)), order, &before);
    mix(w.stores);
    return value;
}

template <class T>
T load_at(const volatile T* p, int order, uintptr_t from)
{
    T* const at = const_cast<T*>(p);
    if (!simulated()) {
        return *at;
    }
    const Inside inside;
    access(from);
    note_site(from, acquires(order) ? "load acquire" : "load");
    if (planted && planted_at(from) == Plant::relaxed) {
        order = relaxed;
    }
    return value_of<T>(
        load(reinterpret_cast<uintptr_t>(at), sizeof(T), bytes_of(*at), order, from));
}

template <class T>
void store_at(volatile T* p, T value, int order, uintptr_t from)
{
    T* const at = const_cast<T*>(p);
    if (!simulated()) {
        *at = value;
        return;
    }
    const Inside inside;
    access(from);
    note_site(from, releases(order) ? "store release" : "store");
    if (planted) {
        const Plant plant = planted_at(from);
        if (plant == Plant::dropped) {
            return;
        }
        order = plant == Plant::relaxed ? relaxed : order;
    }
    Word& w = word_of(reinterpret_cast<uintptr_t>(at), sizeof(T), bytes_of(*at));
    store(w, bytes_of<T>(value), order, nullptr);
}

template <class T>
bool exchange_if(T* p, T* expected, T desired, int order, int on_failure, uintptr_t from)
{
    if (!simulated()) {
        if (*p == *expected) {
            *p = desired;
            return true;
        }
        *expected = *p;
        return false;
    }
    const Inside inside;
    access(from);
    note_site(from, releases(order) ? "exchange release" : "exchange");
    if (planted) {
        const Plant plant = planted_at(from);
        if (plant == Plant::dropped) {
            return true;
        }
        if (plant == Plant::relaxed) {
            order = on_failure = relaxed;
        }
    }
    const auto at = reinterpret_cast<uintptr_t>(p);
    Word& w = word_of(at, sizeof(T), bytes_of(*p));
    const Store& last = newest_of(w);
    const Clock before = last.carried;
    const T value = value_of<T>(last.value);
    const bool equal = value == *expected;
    if (acquires(equal ? order : on_failure)) {
        current->known.join(before);
    } else {
        current->pending.join(before);
    }
    if (equal) {
        store(w, bytes_of<T>(desired), order, &before);
    } else {
        saw(w, w.stores - 1);
        *expected = value;
    }
    mix(w.stores);
    return equal;
}

void forget_piece(Bucket& b, uintptr_t from, uintptr_t to)
{
    for (Word** link = &b.words; *link != nullptr;) {
        Word* w = *link;
        if (w->at < to && from < w->at + w->size) {
            *link = w->next;
            w->at = 0;
            w->next = spare;
            spare = w;
        } else {
            link = &w->next;
        }
    }
}

} // namespace

void begin_memory()
{
    ++run_number;
    while (used != 0) {
        table[taken[--used]] = {};
    }
    arena_at = 0;
    spare = nullptr;
    total = Clock{};
    std::memset(filter, 0, sizeof filter);
    std::memset(recent, 0, sizeof recent);
}

// What lies there next is new to all. Its value may be what it was: then the stores before are
// still known as such, and are made to be forgotten here.
void forget(const void* memory, size_t bytes)
{
    const auto from = reinterpret_cast<uintptr_t>(memory);
    const uintptr_t to = from + bytes;
    if (bytes / 16 > used) {
        for (uint32_t i = 0; i < used; ++i) {
            Bucket& b = table[taken[i]];
            if (b.piece >= from >> 4 && b.piece < (to + 15) >> 4) {
                forget_piece(b, from, to);
            }
        }
        return;
    }
    for (uintptr_t piece = from >> 4; piece <= (to - 1) >> 4; ++piece) {
        if (maybe(piece)) {
            forget_piece(bucket_of(piece), from, to);
        }
    }
}

void acquire_from(const void* object) { current->known.join(clock_of(object)); }

void release_to(const void* object)
{
    clock_of(object).join(current->known);
    ++current->known.of[current->id];
}

void fence_all()
{
    Clock all;
    for (const Fiber& f : fibers) { // also of those that have ended
        all.join(f.known);
    }
    every_fiber([&](Fiber& f) {
        f.known.join(all);
        ++f.known.of[f.id];
    });
}

Plant planted_at(uintptr_t at)
{
    const auto found = plants().find(at);
    return found == plants().end() ? Plant::none : found->second;
}

void plant(uintptr_t at, Plant what)
{
    plants()[at] = what;
    planted = true;
}

void count_site(uintptr_t at, const char* what)
{
    Count& c = counts()[at];
    c.what = what;
    ++c.count;
}

void count_sites(bool on) { counting = on; }

std::vector<Site> sites()
{
    std::vector<Site> all;
    for (const auto& [at, c] : counts()) {
        all.push_back({at, c.what, c.count});
    }
    return all;
}

} // namespace simulation

using namespace simulation;

#define HERE reinterpret_cast<uintptr_t>(__builtin_return_address(0))

// ---- atomic accesses
#define ATOMICS(bits, T)                                                                           \
    extern "C" T __tsan_atomic##bits##_load(const volatile T* p, int o)                            \
    {                                                                                              \
        return load_at(p, o, HERE);                                                                \
    }                                                                                              \
    extern "C" void __tsan_atomic##bits##_store(volatile T* p, T v, int o)                         \
    {                                                                                              \
        store_at(p, v, o, HERE);                                                                   \
    }                                                                                              \
    CHANGES(bits, T, exchange, "exchange", v)                                                      \
    CHANGES(bits, T, fetch_add, "add", static_cast<T>(b + v))                                      \
    CHANGES(bits, T, fetch_sub, "subtract", static_cast<T>(b - v))                                 \
    CHANGES(bits, T, fetch_and, "and", static_cast<T>(b & v))                                      \
    CHANGES(bits, T, fetch_or, "or", static_cast<T>(b | v))                                        \
    CHANGES(bits, T, fetch_xor, "xor", static_cast<T>(b ^ v))                                      \
    CHANGES(bits, T, fetch_nand, "nand", static_cast<T>(~(b & v)))                                 \
    extern "C" int __tsan_atomic##bits##_compare_exchange_strong(volatile T* p, T* e, T v, int o,  \
                                                                 int f)                            \
    {                                                                                              \
        return exchange_if(const_cast<T*>(p), e, v, o, f, HERE);                                   \
    }                                                                                              \
    extern "C" int __tsan_atomic##bits##_compare_exchange_weak(volatile T* p, T* e, T v, int o,    \
                                                               int f)                              \
    {                                                                                              \
        return exchange_if(const_cast<T*>(p), e, v, o, f, HERE);                                   \
    }                                                                                              \
    extern "C" T __tsan_atomic##bits##_compare_exchange_val(volatile T* p, T e, T v, int o, int f) \
    {                                                                                              \
        exchange_if(const_cast<T*>(p), &e, v, o, f, HERE);                                         \
        return e;                                                                                  \
    }
#define CHANGES(bits, T, name, what, after)                                                        \
    extern "C" T __tsan_atomic##bits##_##name(volatile T* p, T v, int o)                           \
    {                                                                                              \
        return change(const_cast<T*>(p), o, HERE, releases(o) ? what " release" : what,            \
                      [&]([[maybe_unused]] T b) { return after; });                                \
    }

__extension__ typedef unsigned __int128 Wide;
ATOMICS(8, uint8_t)
ATOMICS(16, uint16_t)
ATOMICS(32, uint32_t)
ATOMICS(64, uint64_t)
ATOMICS(128, Wide)

extern "C" void __tsan_atomic_thread_fence(int order)
{
    if (!simulated()) {
        return;
    }
    const Inside inside;
    access(HERE);
    note_site(HERE, "fence");
    if (planted && planted_at(HERE) != Plant::none) {
        return;
    }
    if (acquires(order)) {
        current->known.join(current->pending);
    }
    if (order == seq_cst) {
        current->known.join(total);
    }
    if (releases(order)) {
        current->released = current->known;
        ++current->known.of[current->id];
    }
    if (order == seq_cst) {
        total.join(current->released);
    }
}
extern "C" void __tsan_atomic_signal_fence(int) {}

// ---- ordinary accesses: a word that one of them writes begins anew
namespace {
[[gnu::noinline]] void forget_words(uintptr_t from, uintptr_t to)
{
    const Inside inside;
    for (uintptr_t piece = from >> 4; piece <= (to - 1) >> 4; ++piece) {
        if (maybe(piece)) {
            forget_piece(bucket_of(piece), from, to);
        }
    }
}
inline void wrote(const void* p, size_t n)
{
    const auto from = reinterpret_cast<uintptr_t>(p);
    if (simulated() && (n > 16 || maybe(from >> 4) || maybe((from + n - 1) >> 4))) {
        forget_words(from, from + n);
    }
}
} // namespace
#define ORDINARY(n)                                                                                \
    extern "C" void __tsan_read##n(void*) {}                                                       \
    extern "C" void __tsan_unaligned_read##n(void*) {}                                             \
    extern "C" void __tsan_volatile_read##n(void*) {}                                              \
    extern "C" void __tsan_unaligned_volatile_read##n(void*) {}                                    \
    extern "C" void __tsan_volatile_write##n(void*) {}                                             \
    extern "C" void __tsan_unaligned_volatile_write##n(void*) {}                                   \
    extern "C" void __tsan_write##n(void* p) { wrote(p, n); }                                      \
    extern "C" void __tsan_unaligned_write##n(void* p) { wrote(p, n); }
ORDINARY(1)
ORDINARY(2)
ORDINARY(4)
ORDINARY(8)
ORDINARY(16)
extern "C" void __tsan_read_range(void*, size_t) {}
extern "C" void __tsan_write_range(void* p, size_t n) { wrote(p, n); }
extern "C" void __tsan_vptr_update(void**, void*) {}
extern "C" void __tsan_vptr_read(void**) {}
extern "C" void __tsan_func_entry(void*) {}
extern "C" void __tsan_func_exit() {}
extern "C" void __tsan_init() {}

// ---- memory that is given back
void operator delete(void* p) noexcept
{
    if (p != nullptr && simulated()) {
        const Inside inside;
        forget(p, malloc_usable_size(p));
    }
    std::free(p);
}
void operator delete(void* p, size_t) noexcept { operator delete(p); }
void operator delete[](void* p) noexcept { operator delete(p); }
void operator delete[](void* p, size_t) noexcept { operator delete(p); }
void operator delete(void* p, std::align_val_t) noexcept { operator delete(p); }
void operator delete(void* p, size_t, std::align_val_t) noexcept { operator delete(p); }

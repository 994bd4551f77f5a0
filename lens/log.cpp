// SPDX-License-Identifier: Apache-2.0
#include "log.hpp"

#include "real.hpp"

#include <cerrno>
#include <fcntl.h>
#include <initializer_list>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

namespace denizen::lens {
namespace {

constexpr uint64_t longest_wait = 2'000'000'000; // ns

void sleep_ns(long ns)
{
    const timespec t{0, ns};
    nanosleep(&t, nullptr);
}

} // namespace

constinit Log the_log;

uint64_t now_ns()
{
    timespec t{};
    clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(t.tv_nsec);
}

const char* Log::open(const char* path, const LogHeader& header, size_t ring_bytes)
{
    forget();
    int memory = -1;
    const auto give_up = [&](const char* wrong) {
        const int e = errno;
        for (int* fd : {&file_, &memory}) {
            if (*fd >= 0) {
                real().close(*fd);
                *fd = -1;
            }
        }
        errno = e;
        return wrong;
    };
    file_ = real().open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (file_ < 0) {
        return give_up("cannot create the file");
    }
    memory = memfd_create("denizen-lens", MFD_CLOEXEC);
    if (memory < 0 || ftruncate(memory, static_cast<off_t>(ring_bytes)) != 0) {
        return give_up("no memory for the log");
    }
    void* whole = real().mmap(nullptr, 2 * ring_bytes, PROT_NONE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (whole == MAP_FAILED) {
        return give_up("no addresses for the log");
    }
    ring_ = static_cast<char*>(whole);
    size_ = ring_bytes;
    for (size_t half = 0; half < 2; ++half) {
        if (real().mmap(ring_ + half * ring_bytes, ring_bytes, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_FIXED, memory, 0) == MAP_FAILED) {
            return give_up("cannot map the log");
        }
    }
    madvise(whole, 2 * ring_bytes, MADV_DONTFORK);
    real().close(memory);
    memory = -1;
    if (!write_file(&header, sizeof header)) {
        return give_up("cannot write the file");
    }
    state_.store(State::on, std::memory_order_release);

    // The program's signals are for its own threads.
    sigset_t all, old;
    sigfillset(&all);
    real().pthread_sigmask(SIG_SETMASK, &all, &old);
    const int e = real().pthread_create(&thread_, nullptr, run, this);
    real().pthread_sigmask(SIG_SETMASK, &old, nullptr);
    if (e != 0) {
        state_.store(State::off, std::memory_order_relaxed);
        errno = e;
        return give_up("cannot start a thread");
    }
    return nullptr;
}

// Of the log before. Its ring stays mapped if a record in it was never committed: whoever has that
// place may still write to it.
void Log::forget()
{
    if (ring_ && tail_.load(std::memory_order_relaxed) == head_.load(std::memory_order_relaxed)) {
        real().munmap(ring_, 2 * size_);
    }
    ring_ = nullptr;
    head_.store(0, std::memory_order_relaxed);
    tail_.store(0, std::memory_order_relaxed);
    is_stuck_.store(false, std::memory_order_relaxed);
    lost_records_.store(0, std::memory_order_relaxed);
    lost_bytes_.store(0, std::memory_order_relaxed);
    lost_doorbells_.store(0, std::memory_order_relaxed);
    waits_.store(0, std::memory_order_relaxed);
    told_records_ = told_bytes_ = told_doorbells_ = 0;
    failed_ = false;
}

void* Log::reserve(size_t n, bool is_doorbell)
{
    if (state_.load(std::memory_order_relaxed) != State::on) {
        return nullptr;
    }
    uint64_t head = head_.load(std::memory_order_relaxed);
    for (;;) { // ends: a failed exchange means that another thread got its place, or there is no
               // room
        if (!has_room(head, n) && !wait_for_room(head, n)) {
            lost_records_.fetch_add(1, std::memory_order_relaxed);
            lost_bytes_.fetch_add(n, std::memory_order_relaxed);
            lost_doorbells_.fetch_add(is_doorbell, std::memory_order_relaxed);
            return nullptr;
        }
        if (head_.compare_exchange_weak(head, head + n, std::memory_order_relaxed)) {
            return ring_ + head % size_;
        }
    }
}

// `head` may be old and the tail beyond it by now: there is room then, and the exchange will fail.
bool Log::has_room(uint64_t head, size_t n) const
{
    // Acquire pairs with drain()'s release: what it gives back has been cleared.
    const auto used = static_cast<int64_t>(head + n - tail_.load(std::memory_order_acquire));
    return used <= static_cast<int64_t>(size_);
}

// False after two seconds without room, and at once while none has come since.
bool Log::wait_for_room(uint64_t head, size_t n)
{
    if (is_stuck_.load(std::memory_order_relaxed)) {
        return false;
    }
    waits_.fetch_add(1, std::memory_order_relaxed);
    const uint64_t start = now_ns();
    while (!has_room(head, n)) { // ends: the deadline
        if (now_ns() - start > longest_wait ||
            state_.load(std::memory_order_relaxed) != State::on) {
            is_stuck_.store(true, std::memory_order_relaxed);
            return false;
        }
        sleep_ns(50'000);
    }
    return true;
}

void Log::commit(void* record, Kind kind, uint16_t flags, size_t n)
{
    auto* header = static_cast<RecordHeader*>(record);
    header->kind = kind;
    header->flags = flags;
    // Release pairs with drain()'s acquire: a length means that the rest is there.
    __atomic_store_n(&header->bytes, static_cast<uint32_t>(n), __ATOMIC_RELEASE);
}

bool Log::write_file(const void* data, size_t bytes)
{
    const char* at = static_cast<const char*>(data);
    while (bytes && !failed_) { // ends: each round writes something or fails
        const ssize_t n = ::write(file_, at, bytes);
        if (n < 0 && errno != EINTR) {
            failed_ = true;
            complain("cannot write the log; what follows is missing in it");
        } else if (n > 0) {
            at += n;
            bytes -= static_cast<size_t>(n);
        }
    }
    return !failed_;
}

// Bytes written, or dropped after an error of the file: the program never waits for a full disk.
size_t Log::drain()
{
    constexpr uint64_t piece = 1 << 20; // room is given back that often
    const uint64_t tail = tail_.load(std::memory_order_relaxed);
    char* start = ring_ + tail % size_;
    uint64_t bytes = 0;
    while (bytes < piece && bytes < size_) { // ends: at the first record not committed
        // At the address where it was committed, not at the second mapping of the same memory.
        const auto* header = reinterpret_cast<const RecordHeader*>(ring_ + (tail + bytes) % size_);
        const uint32_t n = __atomic_load_n(&header->bytes, __ATOMIC_ACQUIRE);
        if (n == 0) {
            break;
        }
        bytes += n;
    }
    if (bytes) {
        if (failed_) {
            lost_bytes_.fetch_add(bytes, std::memory_order_relaxed);
        } else {
            write_file(start, bytes);
        }
        __builtin_memset(start, 0, bytes);
        tail_.store(tail + bytes, std::memory_order_release);
        is_stuck_.store(false, std::memory_order_relaxed);
    }
    return bytes;
}

void Log::tell_losses()
{
    const uint64_t records = lost_records_.load(std::memory_order_relaxed);
    if (records == told_records_) {
        return;
    }
    const uint64_t bytes = lost_bytes_.load(std::memory_order_relaxed);
    const uint64_t doorbells = lost_doorbells_.load(std::memory_order_relaxed);
    LostRecord r{};
    r.header = {sizeof r, Kind::lost, 0};
    r.time_ns = now_ns();
    r.records = records - told_records_;
    r.bytes = bytes - told_bytes_;
    r.doorbells = doorbells - told_doorbells_;
    if (write_file(&r, sizeof r)) {
        told_records_ = records;
        told_bytes_ = bytes;
        told_doorbells_ = doorbells;
    }
}

void* Log::run(void* self)
{
    Log& log = *static_cast<Log*>(self);
    pthread_setname_np(pthread_self(), "denizen-lens");
    // Ends: close(). A record may then still be in the hands of a thread that is stopped or slow:
    // it is waited for during a second.
    for (int idle_at_end = 0; idle_at_end < 1000;) {
        const bool closing = log.state_.load(std::memory_order_acquire) != State::on;
        if (log.drain() == 0) {
            log.tell_losses();
            if (closing && log.tail_.load(std::memory_order_relaxed) ==
                               log.head_.load(std::memory_order_relaxed)) {
                break;
            }
            idle_at_end += closing;
            sleep_ns(1'000'000);
        }
    }
    return nullptr;
}

void Log::flush()
{
    const uint64_t head = head_.load(std::memory_order_relaxed);
    const uint64_t start = now_ns();
    while (is_open() &&
           tail_.load(std::memory_order_acquire) < head && // ends: the thread, or a second
           now_ns() - start < 1'000'000'000) {
        sleep_ns(200'000);
    }
}

void Log::fill_losses(EndRecord& totals) const
{
    totals.lost_records = lost_records_.load(std::memory_order_relaxed);
    totals.lost_bytes = lost_bytes_.load(std::memory_order_relaxed);
    totals.lost_doorbells = lost_doorbells_.load(std::memory_order_relaxed);
    totals.waits = waits_.load(std::memory_order_relaxed);
}

void Log::close(EndRecord& totals)
{
    State expected = State::on;
    if (!state_.compare_exchange_strong(expected, State::closing, std::memory_order_acq_rel)) {
        return;
    }
    pthread_join(thread_, nullptr);
    fill_losses(totals);
    totals.header = {sizeof totals, Kind::end, 0};
    totals.time_ns = now_ns();
    write_file(&totals, sizeof totals);
    real().close(file_);
    file_ = -1;
}

} // namespace denizen::lens

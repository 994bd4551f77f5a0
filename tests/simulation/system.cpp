// SPDX-License-Identifier: Apache-2.0
// What the C library does for threads: make them, block, sleep, tell the time. These functions
// stand in front of the library's own in this program; outside a simulation they do what those do,
// or nothing where a single thread needs nothing.
#include "fibers.hpp"

#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <ctime>
#include <dlfcn.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

using namespace simulation;

#define HERE reinterpret_cast<uintptr_t>(__builtin_return_address(0))

namespace {

constexpr pthread_t first_thread = 0x5100'0000'0000;
constexpr uint64_t epoch_ns = 1'700'000'000'000'000'000; // of the calendar's clock

template <class F>
F real(F function, const char* name)
{
    (void)function;
    return reinterpret_cast<F>(dlsym(RTLD_NEXT, name));
}

uint64_t ns_of(const timespec& t)
{
    return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(t.tv_nsec);
}

uint64_t deadline_of(clockid_t clock, const timespec& t)
{
    const uint64_t ns = ns_of(t);
    return clock == CLOCK_REALTIME ? (ns > epoch_ns ? ns - epoch_ns : 0) : ns;
}

int& word_of(void* lock) { return *static_cast<int*>(lock); }

void lock(pthread_mutex_t* m, uintptr_t at)
{
    access(at);
    if (word_of(m) == static_cast<int>(current->id) + 1) {
        fail("a mutex is locked by who holds it");
    }
    while (word_of(m) != 0) { // ends: its holder unlocks it
        block(m, "a mutex", never, at);
    }
    word_of(m) = static_cast<int>(current->id) + 1;
    ++changes;
    acquire_from(m);
}

void unlock(pthread_mutex_t* m)
{
    release_to(m);
    word_of(m) = 0;
    ++changes;
    wake(m, 1);
}

int await(pthread_cond_t* c, pthread_mutex_t* m, uint64_t deadline, uintptr_t at)
{
    const Inside inside;
    access(at);
    unlock(m);
    const bool spurious = faults().spurious && choose(Choice::refused, 2, 2, at) != 0;
    const bool woken = block(c, "a condition", spurious ? now : deadline, at);
    lock(m, at);
    return woken || spurious ? 0 : ETIMEDOUT;
}

int signal(pthread_cond_t* c, uint32_t most, uintptr_t at)
{
    if (!simulated()) {
        return 0;
    }
    const Inside inside;
    access(at);
    note_site(at, "wake");
    if (planted && planted_at(at) == Plant::dropped) {
        return 0;
    }
    wake(c, most);
    return 0;
}

long futex(uint32_t* word, int op, uint32_t value, const timespec* limit, uintptr_t at)
{
    const Inside inside;
    access(at);
    switch (op & FUTEX_CMD_MASK) {
    case FUTEX_WAIT: {
        if (*word != value) {
            errno = EAGAIN;
            return -1;
        }
        const bool spurious = faults().spurious && choose(Choice::refused, 2, 2, at) != 0;
        const uint64_t deadline = spurious ? now : limit != nullptr ? now + ns_of(*limit) : never;
        if (!block(word, "a futex", deadline, at) && !spurious) {
            errno = ETIMEDOUT;
            return -1;
        }
        return 0;
    }
    case FUTEX_WAKE:
        note_site(at, "wake");
        if (planted && planted_at(at) == Plant::dropped) {
            return 0;
        }
        return wake(word, value);
    default: fail("a futex operation that is not simulated");
    }
}

// Memory of a file that is mapped, at one address however often it is: what is known of a word is
// kept by its address, and two hosts here share words as two processes do.
struct Mapped {
    ino_t file; // 0: this place is free
    void* at;
    size_t bytes;
    uint32_t times;
};
Mapped mapped[8];

Mapped* mapped_at(const void* at)
{
    for (Mapped& m : mapped) {
        if (m.file != 0 && m.at == at) {
            return &m;
        }
    }
    return nullptr;
}

// The place of a file's mapping, or a free one for it.
Mapped& place_for(int fd, size_t bytes)
{
    struct stat about{};
    fstat(fd, &about);
    Mapped* free = nullptr;
    for (Mapped& m : mapped) {
        if (m.file == about.st_ino && m.bytes == bytes) {
            return m;
        }
        free = m.file == 0 ? &m : free;
    }
    if (free == nullptr) {
        fail("more files are mapped than the simulator has room for");
    }
    *free = {about.st_ino, nullptr, bytes, 0};
    return *free;
}

char sockets; // who finds that the other end is closed knows what was done before

} // namespace

extern "C" {

// ---- threads
int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*),
                   void* argument)
{
    if (!simulated()) {
        static const auto create = real(&pthread_create, "pthread_create");
        return create(thread, attributes, start, argument);
    }
    const Inside inside;
    access(HERE);
    if (faults().threads && choose(Choice::refused, 2, 12, HERE) != 0) {
        return EAGAIN;
    }
    Fiber* f = begin(start, argument);
    if (f == nullptr) {
        fail("more threads than the simulator has room for");
    }
    *thread = first_thread + f->number;
    ++changes;
    return 0;
}

int pthread_join(pthread_t thread, void** result)
{
    if (!simulated()) {
        static const auto join = real(&pthread_join, "pthread_join");
        return join(thread, result);
    }
    const Inside inside;
    access(HERE);
    Fiber* f = fiber_of(thread - first_thread);
    if (f == nullptr) {
        return ESRCH;
    }
    while (f->state != State::ended) { // ends: with the thread
        block(f, "a thread to end", never, HERE);
    }
    acquire_from(f);
    if (result != nullptr) {
        *result = f->result;
    }
    free_fiber(*f);
    return 0;
}

int pthread_detach(pthread_t thread)
{
    if (!simulated()) {
        static const auto detach = real(&pthread_detach, "pthread_detach");
        return detach(thread);
    }
    if (Fiber* f = fiber_of(thread - first_thread)) {
        f->detached = true;
        if (f->state == State::ended) {
            free_fiber(*f);
        }
    }
    return 0;
}

// Names are the debugger's, and signals never come.
int pthread_setname_np(pthread_t, const char*) { return 0; }
int pthread_sigmask(int, const sigset_t*, sigset_t*) { return 0; }

pthread_t pthread_self()
{
    if (current != nullptr) {
        return first_thread + current->number;
    }
    static const auto self = real(&pthread_self, "pthread_self");
    return self();
}

// ---- locks: the first word says who holds it
int pthread_mutex_lock(pthread_mutex_t* m)
{
    if (simulated()) {
        const Inside inside;
        lock(m, HERE);
    }
    return 0;
}
int pthread_mutex_trylock(pthread_mutex_t* m)
{
    if (!simulated()) {
        return 0;
    }
    const Inside inside;
    access(HERE);
    if (word_of(m) != 0) {
        return EBUSY;
    }
    lock(m, HERE);
    return 0;
}
int pthread_mutex_unlock(pthread_mutex_t* m)
{
    if (simulated()) {
        const Inside inside;
        unlock(m);
        access(HERE);
    }
    return 0;
}
int pthread_rwlock_rdlock(pthread_rwlock_t* l)
{
    if (simulated()) {
        const Inside inside;
        access(HERE);
        while (word_of(l) < 0) { // ends: the writer unlocks it
            block(l, "a lock to read", never, HERE);
        }
        ++word_of(l);
        acquire_from(l);
    }
    return 0;
}
int pthread_rwlock_wrlock(pthread_rwlock_t* l)
{
    if (simulated()) {
        const Inside inside;
        access(HERE);
        while (word_of(l) != 0) { // ends: all unlock it
            block(l, "a lock to write", never, HERE);
        }
        word_of(l) = -1;
        acquire_from(l);
    }
    return 0;
}
int pthread_rwlock_unlock(pthread_rwlock_t* l)
{
    if (simulated()) {
        const Inside inside;
        release_to(l);
        word_of(l) = word_of(l) < 0 ? 0 : word_of(l) - 1;
        wake(l, most_fibers);
        access(HERE);
    }
    return 0;
}

int pthread_cond_wait(pthread_cond_t* c, pthread_mutex_t* m)
{
    if (!simulated()) {
        fail("a wait outside the simulation");
    }
    return await(c, m, never, HERE);
}
int pthread_cond_timedwait(pthread_cond_t* c, pthread_mutex_t* m, const timespec* until)
{
    return await(c, m, deadline_of(CLOCK_REALTIME, *until), HERE);
}
int pthread_cond_clockwait(pthread_cond_t* c, pthread_mutex_t* m, clockid_t clock,
                           const timespec* until)
{
    return await(c, m, deadline_of(clock, *until), HERE);
}
int pthread_cond_signal(pthread_cond_t* c) { return signal(c, 1, HERE); }
int pthread_cond_broadcast(pthread_cond_t* c) { return signal(c, most_fibers, HERE); }

// ---- time
int clock_gettime(clockid_t clock, timespec* t)
{
    if (current == nullptr) {
        return static_cast<int>(syscall(SYS_clock_gettime, clock, t));
    }
    const uint64_t ns = clock == CLOCK_REALTIME ? now + epoch_ns : now;
    t->tv_sec = static_cast<time_t>(ns / 1'000'000'000);
    t->tv_nsec = static_cast<long>(ns % 1'000'000'000);
    if (simulated()) {
        now += 20; // a loop that waits for time to pass ends
    }
    return 0;
}
int nanosleep(const timespec* t, timespec*)
{
    if (!simulated()) {
        return 0;
    }
    const Inside inside;
    access(HERE);
    block(nullptr, "time", now + ns_of(*t), HERE);
    return 0;
}
int clock_nanosleep(clockid_t clock, int flags, const timespec* t, timespec*)
{
    if (!simulated()) {
        return 0;
    }
    const Inside inside;
    access(HERE);
    block(nullptr, "time", (flags & TIMER_ABSTIME) != 0 ? deadline_of(clock, *t) : now + ns_of(*t),
          HERE);
    return 0;
}
int poll(pollfd* of, nfds_t count, int ms)
{
    static const auto look = real(&poll, "poll");
    if (!simulated() || count != 0) {
        return look(of, count, ms);
    }
    const Inside inside;
    access(HERE);
    block(nullptr, "time", now + static_cast<uint64_t>(ms) * 1'000'000, HERE);
    return 0;
}
int sched_yield()
{
    if (simulated()) {
        const Inside inside;
        yield(HERE);
    }
    return 0;
}

// ---- files: a process may die before or within each of these
#define OR_DIE(call)                                                                               \
    if (simulated()) {                                                                             \
        const Inside inside;                                                                       \
        access(HERE);                                                                              \
        if (faults().dies && choose(Choice::death, 2, 6, HERE) != 0) {                             \
            call;                                                                                  \
            die();                                                                                 \
        }                                                                                          \
    }
ssize_t write(int fd, const void* from, size_t bytes)
{
    static const auto put = real(&write, "write");
    OR_DIE((void)!put(fd, from, bytes / 2))
    return put(fd, from, bytes);
}
int fsync(int fd)
{
    static const auto sync = real(&fsync, "fsync");
    OR_DIE(;)
    return simulated() ? 0 : sync(fd); // the machine stays up
}
int rename(const char* from, const char* to)
{
    static const auto move = real(&rename, "rename");
    OR_DIE(;)
    return move(from, to);
}
int unlink(const char* name)
{
    static const auto remove = real(&unlink, "unlink");
    OR_DIE(;)
    return remove(name);
}

// ---- sockets, of which only the end is looked for
ssize_t recv(int fd, void* to, size_t bytes, int flags)
{
    static const auto get = real(&recv, "recv");
    if (!simulated()) {
        return get(fd, to, bytes, flags);
    }
    const Inside inside;
    access(HERE);
    const ssize_t n = get(fd, to, bytes, flags);
    if (n == 0) {
        acquire_from(&sockets);
    }
    return n;
}
int close(int fd)
{
    static const auto end = real(&close, "close");
    if (simulated()) {
        const Inside inside;
        release_to(&sockets);
    }
    return end(fd);
}

// ---- memory and the rest
void* mmap(void* at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    static const auto map = real(&mmap, "mmap");
    if (simulated() && fd >= 0 && at == nullptr && (flags & MAP_SHARED) != 0) {
        Mapped& m = place_for(fd, bytes);
        if (m.times++ == 0) {
            m.at = map(at, bytes, protection, flags, fd, offset);
        }
        return m.at;
    }
    if (simulated() && faults().memory) {
        const Inside inside;
        access(HERE);
        if (choose(Choice::refused, 2, 12, HERE) != 0) {
            errno = ENOMEM;
            return MAP_FAILED;
        }
    }
    return map(at, bytes, protection, flags, fd, offset);
}
int munmap(void* at, size_t bytes)
{
    static const auto unmap = real(&munmap, "munmap");
    if (Mapped* m = mapped_at(at); m != nullptr) {
        if (--m->times != 0) {
            return 0;
        }
        m->file = 0;
    }
    if (simulated()) {
        const Inside inside;
        forget(at, bytes);
    }
    return unmap(at, bytes);
}

long syscall(long number, ...)
{
    va_list list;
    va_start(list, number);
    long a[6];
    for (long& x : a) {
        x = va_arg(list, long);
    }
    va_end(list);
    if (simulated()) {
        if (number == SYS_futex) {
            return futex(reinterpret_cast<uint32_t*>(a[0]), static_cast<int>(a[1]),
                         static_cast<uint32_t>(a[2]), reinterpret_cast<const timespec*>(a[3]),
                         HERE);
        }
        if (number == SYS_membarrier) {
            const Inside inside;
            access(HERE);
            note_site(HERE, "membarrier");
            if (!planted || planted_at(HERE) == Plant::none) {
                fence_all();
            }
            return 0;
        }
    }
    if (number == SYS_membarrier) {
        return 0; // registered: also where this kernel has none
    }
    static const auto call = real(&syscall, "syscall");
    return call(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

} // extern "C"

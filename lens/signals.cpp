// SPDX-License-Identifier: Apache-2.0
#include "signals.hpp"

#include "log.hpp"
#include "real.hpp"
#include "session.hpp"

#include <atomic>
#include <cerrno>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

namespace denizen::lens {
namespace {

constexpr int taken[] = {SIGSEGV, SIGTRAP, SIGBUS};
constexpr size_t stack_bytes = 64 * 1024;

constinit std::atomic<bool> are_taken{false};
using Handler = bool (*)(int, siginfo_t*, void*);
constinit Handler own_handler = nullptr;
// What the program asked for. Read by a handler while another thread writes: by value under a
// sequence number, which is odd during a change.
constinit struct sigaction program_action[3] = {};
constinit std::atomic<uint32_t> version{0};
constinit pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
thread_local char* own_stack __attribute__((tls_model("initial-exec"))) = nullptr;

int index_of(int signal)
{
    for (int k = 0; k < 3; ++k) {
        if (taken[k] == signal) {
            return k;
        }
    }
    return -1;
}

struct sigaction current(int k)
{
    for (;;) { // ends: changes are rare and short
        const uint32_t before = version.load(std::memory_order_acquire);
        const struct sigaction action = program_action[k];
        // A read-modify-write, so that the copy is not moved behind it (ThreadSanitizer knows no
        // fence).
        if (before % 2 == 0 && version.fetch_add(0, std::memory_order_acq_rel) == before) {
            return action;
        }
    }
}

// As the kernel would have done without the lens: for a fault the instruction is run again with the
// default action, for a signal sent by someone it is sent again.
void default_action(int signal, const siginfo_t* info)
{
    session.end();
    struct sigaction d{};
    d.sa_handler = SIG_DFL;
    real().sigaction(signal, &d, nullptr);
    if (info->si_code <= 0 || signal == SIGTRAP) { // a trap does not come back by itself
        syscall(SYS_tgkill, getpid(), static_cast<pid_t>(syscall(SYS_gettid)), signal);
    }
}

void chain(int signal, siginfo_t* info, void* context)
{
    const int k = index_of(signal);
    const struct sigaction action = current(k);
    const bool was_sent = info->si_code <= 0;
    if (action.sa_handler == SIG_IGN && was_sent) {
        return;
    }
    if (action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN) {
        default_action(signal, info);
        return;
    }
    if (action.sa_flags & SA_RESETHAND) {
        struct sigaction d{};
        program_sigaction(signal, &d, nullptr);
    }
    sigset_t mask = static_cast<const ucontext_t*>(context)->uc_sigmask;
    for (int s = 1; s < 65; ++s) {
        if (sigismember(&action.sa_mask, s) == 1) {
            sigaddset(&mask, s);
        }
    }
    if (!(action.sa_flags & SA_NODEFER)) {
        sigaddset(&mask, signal); // a fault in the program's handler ends the program, as ever
    }
    real().pthread_sigmask(SIG_SETMASK, &mask, nullptr);
    if (action.sa_flags & SA_SIGINFO) {
        action.sa_sigaction(signal, info, context);
    } else {
        action.sa_handler(signal);
    }
}

void on_signal(int signal, siginfo_t* info, void* context)
{
    const int e = errno;
    if (!own_handler(signal, info, context)) {
        errno = e;
        chain(signal, info, context);
    }
    errno = e;
}

} // namespace

bool is_taken() { return are_taken.load(std::memory_order_acquire); }

void take_signals(bool (*handle)(int, siginfo_t*, void*))
{
    pthread_mutex_lock(&mutex);
    if (!are_taken.load(std::memory_order_relaxed)) {
        own_handler = handle;
        struct sigaction own{};
        own.sa_sigaction = on_signal;
        // On the thread's signal stack, as a program's handler of stack overflows needs; nested,
        // since the guarded copy faults inside the handler. Asynchronous signals wait until a
        // doorbell is done.
        own.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER | SA_RESTART;
        sigfillset(&own.sa_mask);
        for (const int s : taken) {
            sigdelset(&own.sa_mask, s);
        }
        are_taken.store(true, std::memory_order_release); // hooks now go to program_action
        for (int k = 0; k < 3; ++k) {
            real().sigaction(taken[k], &own, &program_action[k]);
        }
        sigset_t own_signals;
        sigemptyset(&own_signals);
        for (const int s : taken) {
            sigaddset(&own_signals, s);
        }
        real().pthread_sigmask(SIG_UNBLOCK, &own_signals, nullptr);
    }
    pthread_mutex_unlock(&mutex);
}

bool program_sigaction(int signal, const struct sigaction* action, struct sigaction* old)
{
    const int k = index_of(signal);
    if (k < 0 || !is_taken()) {
        return false;
    }
    if (old) {
        *old = current(k);
    }
    if (action) {
        // All signals blocked: a handler of this thread must not find the number odd.
        const struct sigaction copy = *action;
        sigset_t all, before;
        sigfillset(&all);
        real().pthread_sigmask(SIG_SETMASK, &all, &before);
        pthread_mutex_lock(&mutex);
        version.fetch_add(1, std::memory_order_acq_rel);
        program_action[k] = copy;
        version.fetch_add(1, std::memory_order_release);
        pthread_mutex_unlock(&mutex);
        real().pthread_sigmask(SIG_SETMASK, &before, nullptr);
    }
    return true;
}

void remove_taken(sigset_t& set)
{
    for (const int s : taken) {
        sigdelset(&set, s);
    }
}

void give_alternate_stack()
{
    stack_t now{};
    if (sigaltstack(nullptr, &now) != 0 || !(now.ss_flags & SS_DISABLE)) {
        return;
    }
    void* memory = real().mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        return; // the ordinary stack will do
    }
    const stack_t own{memory, 0, stack_bytes};
    sigaltstack(&own, nullptr);
    own_stack = static_cast<char*>(memory);
}

void take_alternate_stack()
{
    if (!own_stack) {
        return;
    }
    stack_t now{};
    if (sigaltstack(nullptr, &now) == 0 && now.ss_sp == own_stack) {
        const stack_t no_stack{nullptr, SS_DISABLE, 0};
        sigaltstack(&no_stack, nullptr);
    }
    real().munmap(own_stack, stack_bytes);
    own_stack = nullptr;
}

} // namespace denizen::lens

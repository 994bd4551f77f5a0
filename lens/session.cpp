// SPDX-License-Identifier: Apache-2.0
#include "session.hpp"

#include "attach.hpp"
#include "attribute.hpp"
#include "channels.hpp"
#include "environment.hpp"
#include "fault.hpp"
#include "log.hpp"
#include "objects.hpp"
#include "pages.hpp"
#include "real.hpp"
#include "release.hpp"
#include "signals.hpp"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <initializer_list>
#include <sched.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

namespace denizen::lens {
namespace {

constexpr uint64_t longest_end = 3'000'000'000; // ns that the end of a log is waited for

// At most n - 1 bytes of a small file, ended by '\0'.
size_t read_file(const char* path, char* to, size_t n)
{
    const int fd = real().open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        to[0] = '\0';
        return 0;
    }
    size_t total = 0;
    for (ssize_t got = 1; got > 0 && total + 1 < n;
         total += got > 0 ? static_cast<size_t>(got) : 0) {
        got = ::read(fd, to + total, n - 1 - total);
    }
    to[total] = '\0';
    real().close(fd);
    return total;
}

// The log in memory.
uint32_t log_mib(Mode mode)
{
    const uint32_t given = environment().log_mib;
    return given ? given : mode == Mode::full ? 128 : 16;
}

// A control daemon owns the channels then, and this process rings none that it has made.
bool has_mps()
{
    const char* pipe = getenv("CUDA_MPS_PIPE_DIRECTORY");
    char path[512];
    struct stat s;
    const int n = snprintf(path, sizeof path, "%s/control", pipe ? pipe : "/tmp/nvidia-mps");
    return n > 0 && n < static_cast<int>(sizeof path) && stat(path, &s) == 0;
}

} // namespace

constinit Session session;

void Totals::clear()
{
    for (auto* total : {&doorbells, &entries, &bytes, &loads, &other_stores, &unknown_tokens,
                        &unknown_instructions, &timed_doorbells, &handler_ns}) {
        total->store(0, std::memory_order_relaxed);
    }
}

// "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build ..."
bool Session::read_version(LogHeader& header) const
{
    char text[1024];
    read_file(environment().version_file, text, sizeof text);
    for (const char* at = text; *at && *at != '\n'; ++at) {
        unsigned major = 0, minor = 0, patch = 0;
        const bool starts = *at >= '0' && *at <= '9' && (at == text || at[-1] == ' ');
        if (starts && sscanf(at, "%u.%u.%u", &major, &minor, &patch) >= 2 && major >= 100) {
            header.driver[0] = major;
            header.driver[1] = minor;
            header.driver[2] = patch;
            snprintf(header.driver_text, sizeof header.driver_text, "%.*s",
                     static_cast<int>(strcspn(at, " \n")), at);
            return true;
        }
    }
    return false;
}

bool Session::make_header(LogHeader& header, Mode mode)
{
    memcpy(header.magic, log_magic, sizeof header.magic);
    header.version = log_version;
    header.header_bytes = sizeof header;
    header.mode = mode;
    header.pid = static_cast<uint32_t>(pid_);
    header.monotonic_ns = now_ns();
    timespec t{};
    clock_gettime(CLOCK_REALTIME, &t);
    header.realtime_ns =
        static_cast<uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(t.tv_nsec);
    const bool has_version = read_version(header);
    header.forced = !abi_of(header.driver[0]);
    return has_version;
}

const char* Session::start_log(LogHeader& header, const char* directory, char* path,
                               size_t path_bytes)
{
    char command[4096];
    read_file("/proc/self/comm", header.process_name, sizeof header.process_name);
    header.process_name[strcspn(header.process_name, "\n")] = '\0';
    char name[sizeof header.process_name];
    memcpy(name, header.process_name, sizeof name);
    for (char* c = name; *c; ++c) {
        *c = *c == '/' || *c == ' ' ? '_' : *c;
    }
    snprintf(path, path_bytes, "%s/%s.%d.lens", directory, name, pid_);
    for (int again = 2; access(path, F_OK) == 0 && again < 1000;
         ++again) { // after exec the pid is the same
        snprintf(path, path_bytes, "%s/%s.%d-%d.lens", directory, name, pid_, again);
    }
    is_full_.store(header.mode == Mode::full, std::memory_order_relaxed);
    log_number_.fetch_add(1, std::memory_order_relaxed);
    if (const char* wrong = the_log.open(path, header, size_t{log_mib(header.mode)} << 20)) {
        return wrong;
    }
    const size_t n = read_file("/proc/self/cmdline", command, sizeof command);
    ProcessRecord r{};
    r.text_bytes = static_cast<uint32_t>(n);
    the_log.write(Kind::process, r, command, n);
    return nullptr;
}

void Session::begin()
{
    State expected = State::idle;
    if (!environment().is_on || !state_.compare_exchange_strong(expected, State::starting)) {
        return;
    }
    pid_ = getpid();
    LogHeader header{};
    const bool has_version = make_header(header, environment().mode);
    const Abi* abi = abi_of(header.driver[0]);
    if (!abi && !environment().force) {
        complain("NVIDIA driver ", has_version ? header.driver_text : "of unknown version",
                 " is not one of those whose structures are known (580): nothing is captured, the "
                 "program runs on. To try all the same: denizen lens --force");
        state_.store(State::off);
        return;
    }
    if (!__builtin_cpu_supports("sse4.1")) {
        complain("this processor has no SSE4.1: nothing is captured, the program runs on");
        state_.store(State::off);
        return;
    }
    has_mps_ = has_mps();
    the_objects.set_abi(abi ? *abi : abi_table[0]);
    give_alternate_stack();
    if (environment().sockets[0]) {
        state_.store(State::on, std::memory_order_release); // before somebody attaches
        if (!listen_for_attach(pid_)) {
            state_.store(State::off);
        }
        return;
    }
    char path[600];
    if (const char* wrong = start_log(header, environment().directory, path, sizeof path)) {
        complain(path, ": ", wrong, ": ", strerror(errno));
        complain("nothing is captured, the program runs on");
        state_.store(State::off);
        return;
    }
    state_.store(State::on, std::memory_order_release);
    note_start(header);
}

// What a log's reader must know from its start on.
void Session::note_start(const LogHeader& header)
{
    if (const char* early = early_note_.load(std::memory_order_relaxed)) {
        log_note(early);
    }
    if (header.forced) {
        char text[160];
        snprintf(text, sizeof text, "driver %s is not in the table; read as if it were %u",
                 header.driver_text, abi_table[0].major);
        note(text);
    }
    if (has_mps_) {
        note("an MPS control daemon is running: channels that its server made for this process are "
             "not seen, and their doorbells have no channel");
    }
}

const char* Session::attach(Mode mode, const char* directory, char* path, size_t path_bytes)
{
    pthread_mutex_lock(&objects_mutex); // what is learned meanwhile would be in the log twice
    const char* wrong = nullptr;
    LogHeader header{};
    make_header(header, mode);
    totals.clear();
    forget_names();
    if (!is_on()) {
        wrong = "the process is at its end";
    } else if ((wrong = start_log(header, directory, path, path_bytes)) == nullptr) {
        note_start(header);
        take_signals(on_fault); // this thread reads what may not be there
        log_pages();
        the_objects.log_memories();
        channels.begin_late();
        wrong = set_traps(true);
        if (wrong) {
            const int e = errno;
            set_traps(false);
            finish_log();
            errno = e;
        }
    }
    pthread_mutex_unlock(&objects_mutex);
    return wrong;
}

void Session::detach()
{
    pthread_mutex_lock(&objects_mutex);
    set_traps(false);
    pthread_mutex_unlock(&objects_mutex); // the program's own calls do not wait for the log's end
    // A handler that has begun writes to the log; one that waits for room does so for two seconds.
    const uint64_t start = now_ns();
    while (handlers.load(std::memory_order_acquire) && now_ns() - start < longest_end) {
        sched_yield(); // ends: none comes anew
    }
    finish_log();
}

void Session::no_driver(const char* path, int error)
{
    if (environment().is_on && !has_told_ && state_.load() == State::idle) {
        has_told_ = true;
        complain("no NVIDIA driver here (", path, ": ", strerror(error),
                 "): nothing to capture, the program runs on");
    }
}

void Session::note(const char* text)
{
    complain(text);
    if (the_log.is_open()) {
        log_note(text);
    } else {
        early_note_.store(text, std::memory_order_relaxed);
    }
}

void Session::log_note(const char* text)
{
    NoteRecord r{};
    r.time_ns = now_ns();
    r.text_bytes = static_cast<uint32_t>(strlen(text));
    the_log.write(Kind::note, r, text, r.text_bytes);
}

bool Session::is_own_process() const { return getpid() == pid_; }

void Session::end()
{
    State expected = State::on;
    if (!is_own_process() || !state_.compare_exchange_strong(expected, State::off)) {
        return;
    }
    stop_listening();
    finish_log();
}

// Of detach() and end() at once one writes; the other waits for it, since the process may end then.
void Session::finish_log()
{
    // Acquire pairs with the release of who writes.
    if (is_finishing_.exchange(true, std::memory_order_acquire)) {
        const uint64_t start = now_ns();
        while (is_finishing_.load(std::memory_order_acquire) && now_ns() - start < longest_end) {
            usleep(200); // ends: who writes is done, or the time is over
        }
        return;
    }
    if (the_log.is_open()) {
        close_log();
    }
    is_finishing_.store(false, std::memory_order_release); // pairs with who waits
}

void Session::close_log()
{
    if (is_full()) {
        log_last_releases();
    }
    if (const char* gap = the_objects.gap()) {
        note(gap);
    }
    log_api_counts();
    OverheadRecord own{};
    own.doorbells = totals.timed_doorbells.load();
    own.ns = totals.handler_ns.load();
    the_log.write(Kind::overhead, own);
    EndRecord r{};
    r.doorbells = totals.doorbells.load();
    r.entries = totals.entries.load();
    r.bytes = totals.bytes.load();
    r.loads = totals.loads.load();
    r.other_stores = totals.other_stores.load();
    r.unknown_tokens = totals.unknown_tokens.load();
    r.unknown_instructions = totals.unknown_instructions.load();
    the_log.close(r);
}

// A process that has not begun may begin by itself: the parent has no doorbell page then either.
void Session::in_child()
{
    if (state_.load() != State::idle) {
        state_.store(State::off);
        the_log.abandon();
        abandon_listening();
    }
}

} // namespace denizen::lens

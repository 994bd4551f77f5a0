// SPDX-License-Identifier: Apache-2.0
#include "session.hpp"

#include "attribute.hpp"
#include "environment.hpp"
#include "log.hpp"
#include "objects.hpp"
#include "real.hpp"
#include "signals.hpp"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

namespace denizen::lens {
namespace {

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

bool Session::start_log(LogHeader& header)
{
    char path[600], command[4096];
    read_file("/proc/self/comm", header.process_name, sizeof header.process_name);
    header.process_name[strcspn(header.process_name, "\n")] = '\0';
    char name[sizeof header.process_name];
    memcpy(name, header.process_name, sizeof name);
    for (char* c = name; *c; ++c) {
        *c = *c == '/' || *c == ' ' ? '_' : *c;
    }
    snprintf(path, sizeof path, "%s/%s.%d.lens", environment().directory, name, pid_);
    for (int again = 2; access(path, F_OK) == 0 && again < 1000;
         ++again) { // after exec the pid is the same
        snprintf(path, sizeof path, "%s/%s.%d-%d.lens", environment().directory, name, pid_, again);
    }
    if (const char* wrong = the_log.open(path, header, size_t{environment().log_mib} << 20)) {
        complain(path, ": ", wrong, ": ", strerror(errno));
        return false;
    }
    const size_t n = read_file("/proc/self/cmdline", command, sizeof command);
    ProcessRecord r{};
    r.text_bytes = static_cast<uint32_t>(n);
    the_log.write(Kind::process, r, command, n);
    return true;
}

void Session::begin()
{
    State expected = State::idle;
    if (!environment().is_on || !state_.compare_exchange_strong(expected, State::starting)) {
        return;
    }
    LogHeader header{};
    memcpy(header.magic, log_magic, sizeof header.magic);
    header.version = log_version;
    header.header_bytes = sizeof header;
    header.mode = environment().mode;
    pid_ = getpid();
    header.pid = static_cast<uint32_t>(pid_);
    header.monotonic_ns = now_ns();
    timespec t{};
    clock_gettime(CLOCK_REALTIME, &t);
    header.realtime_ns =
        static_cast<uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(t.tv_nsec);

    const bool has_version = read_version(header);
    const Abi* abi = abi_of(header.driver[0]);
    header.forced = !abi;
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
    is_full_ = header.mode == Mode::full;
    if (!start_log(header)) {
        complain("nothing is captured, the program runs on");
        state_.store(State::off);
        return;
    }
    the_objects.set_abi(abi ? *abi : abi_table[0]);
    give_alternate_stack();
    state_.store(State::on, std::memory_order_release);
    if (early_note_) {
        log_note(early_note_);
    }
    if (!abi) {
        char text[160];
        snprintf(text, sizeof text, "driver %s is not in the table; read as if it were %u",
                 header.driver_text, abi_table[0].major);
        note(text);
    }
    if (has_mps()) {
        note("an MPS control daemon is running: channels that its server made for this process are "
             "not "
             "seen, and their doorbells have no channel");
    }
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
        early_note_ = text;
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
    }
}

} // namespace denizen::lens

// SPDX-License-Identifier: Apache-2.0
#include "io/beneath.hpp"
#include "io/desk.hpp"

#include <denizen/base/clock.hpp>
#include <denizen/base/interrupt.hpp>
#include <denizen/wire/wait.hpp>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <pthread.h>

namespace denizen::io {
namespace {

// To the system it would be another name: that before the NUL.
void refuse_nul(const char* what, const std::string& name)
{
    if (const size_t at = name.find('\0'); at != std::string::npos) {
        throw denizen::Error(Errc::bad_argument, std::string(what) + " = \"" + name.substr(0, at) +
                                                     "\\0...\" has a NUL in it; give a name");
    }
}

uint64_t ns(nanoseconds t) { return static_cast<uint64_t>(std::max<int64_t>(t.count(), 0)); }

void check_range(const char* what, uint64_t value, uint64_t most)
{
    if (value < 1 || value > most) {
        throw denizen::Error(Errc::bad_argument, std::string(what) + " = " + std::to_string(value) +
                                                     "; use 1 to " + std::to_string(most));
    }
}

const Options& checked(const Options& o)
{
    check_range("files", o.files, max_files);
    check_range("requests", o.requests, 4096);
    check_range("bytes", o.bytes, uint64_t{1} << 40);
    constexpr uint32_t all =
        mode_read | mode_write | mode_append | mode_create | mode_exclusive | mode_truncate;
    if ((o.modes & ~all) != 0) {
        throw denizen::Error(Errc::bad_argument, "modes = " + std::to_string(o.modes) +
                                                     "; use a sum of 1 (read) to 32 (truncate)");
    }
    return o;
}

// Between two turns that found nothing: soon again at first, twice in a millisecond after a while.
void rest(uint32_t idle)
{
    if (idle < 256) {
        relax();
    } else if (idle < 512) {
        sched_yield();
    } else {
        const timespec nap{0, idle < 1024 ? 20'000 : 500'000};
        nanosleep(&nap, nullptr);
    }
}

} // namespace

Service::Desk::Desk(AnyRuntime& of, Types known, const Options& wanted)
    : runtime(of), options(checked(wanted)), types(std::move(known)), files(options.files)
{
    if (types.done == no_type) {
        throw denizen::Error(Errc::bad_argument, "the program has no message io::Done (Python: "
                                                 "io.Done), by which a service answers");
    }
    if (types.requests.empty()) {
        throw denizen::Error(Errc::bad_argument, "the program has no message that asks a service "
                                                 "for anything, such as io::Open");
    }
    std::sort(types.data.begin(), types.data.end(),
              [](const auto& a, const auto& b) { return a.capacity < b.capacity; });
    request_of.resize(runtime.image().table.messages, {no_type, Op::open, 0});
    std::vector<uint32_t> served;
    for (const Types::Request& r : types.requests) {
        request_of.at(r.type) = r;
        served.push_back(r.type);
    }
    doer = options.engine == Engine::portable
               ? make_portable()
               : make_uring(std::min(options.requests + 2 * options.files + 64, 16384u));
    if (!doer && options.engine == Engine::uring) {
        throw denizen::Error(Errc::bad_argument, "the kernel does not allow io_uring here; use the "
                                                 "engine automatic or portable");
    }
    if (!doer) {
        doer = make_portable();
    }
    for (const std::string& text : options.connect) {
        peers.push_back(peer_of(text));
    }
    if (!options.root.empty()) {
        refuse_nul("root", options.root);
        root.set(::open(options.root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
        if (root.get() < 0) {
            throw denizen::Error(Errc::bad_argument,
                                 "root = \"" + options.root + "\": " + std::strerror(errno));
        }
    }
    for (const std::string& text : options.listen) {
        Peer peer = peer_of(text);
        Listener& l = listeners.emplace_back();
        l.socket.set(listen_at(peer, doer->wants_nonblocking()));
        l.address = text_of(peer);
    }
    live.engine = told.engine = doer->name();
    runtime.serve(served);
    try {
        thread.start(1, "an I/O service's", [this](uint32_t) { run(); });
    } catch (...) {
        runtime.serve({});
        throw;
    }
}

void Service::Desk::run()
{
    // A write beyond RLIMIT_FSIZE or to a socket whose other side is gone is an error, no signal.
    sigset_t these;
    sigemptyset(&these);
    sigaddset(&these, SIGXFSZ);
    sigaddset(&these, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &these, nullptr);
    for (uint32_t idle = 0; !stop.load(std::memory_order_acquire) && !gone;) { // ends by close()
        idle = turn() ? 0 : std::min(idle + 1, 4096u);
        rest(idle);
    }
    // What has been sent is done, until the deadline; then what waits on sockets is cancelled.
    const uint64_t by = stop_by_ns.load(std::memory_order_relaxed);
    for (uint32_t idle = 0; !gone && now_ns() < by && (idle == 0 || !settled());) {
        idle = turn() ? 0 : idle + 1;
        rest(idle);
    }
    cancel_all(settled());
    for (uint32_t idle = 0; !running.empty();) { // ends when the system has ended all of them
        doer->submit();
        Operation* o = doer->finished();
        o != nullptr ? finish(static_cast<Running&>(*o)) : rest(++idle);
        if (o != nullptr) {
            cancel_all(false);
        }
    }
    for (uint32_t tries = 0; !gone && !answers.empty() && tries < 10; ++tries) {
        deliver();
    }
    const std::lock_guard guard(mutex);
    told = live;
    told.open = 0;
    for (Call* call : calls) {
        call->why = "the service is closed";
        call->done = true;
    }
    calls.clear();
    called.notify_all();
    ended.store(true, std::memory_order_release);
}

// False if there was nothing to do.
bool Service::Desk::turn()
{
    answer_calls();
    bool busy = false;
    const bool looks = has_room();
    try {
        busy = take();
    } catch (const denizen::Error&) { // closed, or failed
        gone = true;
        return false;
    }
    for (uint32_t place = 0; busy && place < files.count(); ++place) {
        if (files[place].taken && files[place].fd >= 0) {
            advance(place);
        }
    }
    doer->submit();
    while (Operation* o = doer->finished()) { // ends with the last that is
        finish(static_cast<Running&>(*o));
        busy = true;
    }
    doer->submit();
    busy = deliver() || busy;
    if (busy) {
        live.submissions = doer->submissions();
        live.open = files.open();
        const std::lock_guard guard(mutex);
        told = live;
    } else if (looks && settled()) {
        idle_turns.fetch_add(1, std::memory_order_release);
    }
    return busy;
}

Service::Service(AnyRuntime& runtime, Types types, const Options& options)
    : desk_(std::make_unique<Desk>(runtime, std::move(types), options))
{
}

Service::~Service()
{
    if (!desk_->process.here()) {
        (void)desk_.release(); // its thread is not this process's
        return;
    }
    close();
}

uint32_t Service::open(const std::string& path, uint32_t mode)
{
    refuse_nul("path", path);
    Desk& d = *desk_;
    d.process.check("the I/O service");
    Call call{path, mode, false, 0, {}};
    std::unique_lock lock(d.mutex);
    if (d.ended.load(std::memory_order_acquire)) {
        throw denizen::Error(Errc::closed, "the I/O service is closed");
    }
    d.calls.push_back(&call);
    d.called.wait(lock, [&] { return call.done; }); // ends with the thread's next turn, or its end
    if (!call.why.empty()) {
        throw denizen::Error(Errc::bad_argument, "\"" + path + "\" below \"" + d.options.root +
                                                     "\" in mode " + std::to_string(mode) + ": " +
                                                     call.why);
    }
    return call.file;
}

const std::string& Service::address(size_t place) const
{
    if (place >= desk_->listeners.size()) {
        throw denizen::Error(Errc::bad_argument,
                             "the service listens at " + std::to_string(desk_->listeners.size()) +
                                 " addresses, counted from 0; not at " + std::to_string(place));
    }
    return desk_->listeners[place].address;
}

void Service::drain(nanoseconds deadline)
{
    Desk& d = *desk_;
    d.process.check("the I/O service");
    const uint64_t begin = now_ns();
    // Two turns that found nothing: the second began after this call.
    const uint64_t until = d.idle_turns.load(std::memory_order_acquire) + 2;
    for (uint32_t tries = 0; d.idle_turns.load(std::memory_order_acquire) < until; ++tries) {
        if (d.ended.load(std::memory_order_acquire)) {
            throw denizen::Error(Errc::closed, "the I/O service is closed");
        }
        if (now_ns() - begin > ns(deadline)) {
            const Stats s = stats();
            throw denizen::Error(Errc::timeout, std::to_string(s.requests - s.answered) + " of " +
                                                    std::to_string(s.requests) +
                                                    " requests are not answered after " +
                                                    denizen::detail::seconds(ns(deadline)));
        }
        check_interrupt();
        rest(std::min(tries, 1000u));
    }
}

Stats Service::stats() const
{
    const std::lock_guard guard(desk_->mutex);
    return desk_->told;
}

void Service::close(nanoseconds deadline) noexcept
{
    Desk& d = *desk_;
    if (!d.process.here()) {
        return;
    }
    const std::lock_guard guard(d.close_mutex);
    if (d.thread.empty()) {
        return;
    }
    d.stop_by_ns.store(now_ns() + ns(deadline), std::memory_order_relaxed);
    d.stop.store(true, std::memory_order_release);
    d.thread.join();
    try {
        d.runtime.serve({});
    } catch (const std::exception&) { // it is closed, or of another process
    }
}

} // namespace denizen::io

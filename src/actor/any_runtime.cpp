// SPDX-License-Identifier: Apache-2.0
// AnyRuntime's calls, on top of its core.
#include "core.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace denizen {
AnyRuntime::AnyRuntime(Image image, const Options& options)
    : core_(std::make_unique<Core>(std::move(image), options))
{
}

AnyRuntime::~AnyRuntime()
{
    if (!core_->process.here()) {
        (void)core_.release(); // what its threads hold is not this process's
        return;
    }
    const Interruptible never(nullptr);
    try {
        close(std::chrono::seconds(1));
    } catch (const Error& e) {
        std::fprintf(stderr, "denizen: %s\n", e.what());
    }
}

const Image& AnyRuntime::image() const { return core_->image; }
const Description& AnyRuntime::description() const { return core_->description; }

void AnyRuntime::send(Address to, uint32_t type, const void* payload, uint32_t length,
                      nanoseconds deadline)
{
    core().send_checked(to, type, host.value, payload, length, ns(deadline));
}

void AnyRuntime::send_many(const Address* to, bool to_one, uint32_t type, const void* payloads,
                           uint32_t length, size_t stride, size_t count, nanoseconds deadline)
{
    Core& c = core();
    c.check_message(type, length);
    c.check_alive();
    const auto* bytes = static_cast<const unsigned char*>(payloads);
    if (c.host_trace.on() || c.options.hosts != 0) { // one at a time: its stamp, or its host
        for (size_t i = 0; i < count; ++i) {
            try {
                c.send_checked(to_one ? *to : to[i], type, host.value, bytes + i * stride, length,
                               ns(deadline));
            } catch (const Error& e) {
                throw Error(e.code(), std::string(e.what()) + Core::accepted(i, count));
            }
        }
        return;
    }
    if (!with_length(length, [&]<uint32_t L>() {
            c.send_batch<L>(to, to_one, type, length, bytes, stride, count, ns(deadline));
        })) {
        c.send_batch<first_payload + 1>(to, to_one, type, length, bytes, stride, count,
                                        ns(deadline));
    }
}

void AnyRuntime::broadcast(uint32_t actor_type, uint32_t type, const void* payload, uint32_t length,
                           nanoseconds deadline)
{
    Core& c = core();
    c.check_message(type, length);
    c.check_alive();
    if (actor_type >= c.image.table.actors || !c.image.table.can_handle(actor_type, type)) {
        throw Error(Errc::wrong_type, (actor_type < c.image.table.actors
                                           ? "actor " + c.actor_name(actor_type)
                                           : "actor type " + std::to_string(actor_type)) +
                                          " has no handler for " + c.message_name(type));
    }
    for (uint32_t node = 0; node < c.nodes.size(); ++node) {
        for (uint32_t w = 0; w < c.workers; ++w) {
            const Address all = Address::actor(w, actor_type, node);
            HeldBuffers held = c.hold(type, payload, length, 1); // each worker's copy counts
            c.send_header(c.port_of(type), {all.value, host.value, type, flag_broadcast, length},
                          payload, ns(deadline));
            held.sent();
        }
    }
}

Address AnyRuntime::ask_begin(Address to, uint32_t type, const void* payload, uint32_t length,
                              nanoseconds deadline)
{
    const Address ticket = core().take_cell(ns(deadline));
    try {
        core().send_checked(to, type, ticket.value, payload, length, ns(deadline));
    } catch (...) {
        core().cells.give_back(ticket);
        throw;
    }
    return ticket;
}

bool AnyRuntime::ask_ready(Address ticket) const
{
    Header h;
    return core().cells.arrived(ticket, h);
}

Header AnyRuntime::ask_end(Address ticket, void* reply, uint32_t room, nanoseconds deadline)
{
    return core().wait_reply(ticket, reply, room, ns(deadline),
                             [] { return std::string("an ask"); });
}

void AnyRuntime::ask_abandon(Address ticket)
{
    if (core_->process.here()) {
        core_->cells.abandon(ticket);
    }
}

std::string AnyRuntime::error_name(Address actor) const { return core().describe(actor); }

Header AnyRuntime::ask(Address to, uint32_t type, const void* payload, uint32_t length, void* reply,
                       uint32_t room, nanoseconds deadline)
{
    Core& c = core();
    const Address ticket = ask_begin(to, type, payload, length, deadline);
    return c.wait_reply(ticket, reply, room, ns(deadline),
                        [&] { return "ask " + c.message_name(type) + " to " + c.describe(to); });
}

void AnyRuntime::ask_many(const Address* to, bool to_one, uint32_t type, const void* payloads,
                          uint32_t length, size_t stride, size_t count, uint32_t reply_type,
                          void* replies, uint32_t reply_length, size_t reply_stride,
                          nanoseconds deadline)
{
    Core& c = core();
    c.check_message(reply_type, reply_length);
    const auto* bytes = static_cast<const unsigned char*>(payloads);
    auto* out = static_cast<unsigned char*>(replies);
    std::deque<Address> open;
    size_t sent = 0;
    size_t answered = 0;
    // Half of the cells at the most: other threads ask too.
    const size_t most = std::max<size_t>(1, c.cells.count() / 2);
    try {
        while (answered < count) {
            while (sent < count && open.size() < most) {
                open.push_back(ask_begin(to_one ? *to : to[sent], type, bytes + sent * stride,
                                         length, deadline));
                ++sent;
            }
            const Address asked = to_one ? *to : to[answered];
            const Address ticket = open.front();
            open.pop_front();
            const Header h = c.wait_reply(
                ticket, out + answered * reply_stride, reply_length, ns(deadline),
                [&] { return "ask " + c.message_name(type) + " to " + c.describe(asked); });
            if (h.type != reply_type) {
                throw Error(Errc::wrong_type, c.describe(asked) + " answered with " +
                                                  c.message_name(h.type) + ", not " +
                                                  c.message_name(reply_type));
            }
            ++answered;
        }
    } catch (...) { // a cell is given back when its late answer comes
        for (const Address ticket : open) {
            c.cells.abandon(ticket);
        }
        throw;
    }
}

Message AnyRuntime::receive(nanoseconds deadline)
{
    Core& c = core();
    Message m;
    const uint64_t begin = now_ns();
    Backoff wait;
    while (!c.try_receive(m)) { // ends by a message, failure or the deadline
        c.check_alive();
        if (now_ns() - begin > ns(deadline)) {
            throw Error(Errc::timeout,
                        "no actor sent a message to the host within " + seconds(ns(deadline)));
        }
        check_interrupt();
        wait.pause();
    }
    return m;
}

size_t AnyRuntime::receive_many(uint32_t type, void* payloads, uint32_t length, size_t stride,
                                size_t count, Address* senders)
{
    Core& c = core();
    c.check_message(type, length);
    auto* out = static_cast<unsigned char*>(payloads);
    std::vector<unsigned char> bytes;
    const std::lock_guard guard(c.egress_lock);
    size_t n = 0;
    for (; n < count && !c.backlog.empty() && c.backlog.front().header.type == type; ++n) {
        std::memcpy(out + n * stride, c.backlog.front().payload.data(), length);
        if (senders != nullptr) {
            senders[n] = {c.backlog.front().header.sender};
        }
        c.backlog.pop_front();
        c.arrived(type, out + n * stride);
    }
    if (!c.backlog.empty()) { // of another type, and older than all in the rings
        return n;
    }
    const bool refers = !c.refs(type).empty();
    const auto took = [&](const Header& h) {
        if (senders != nullptr) {
            senders[n] = {h.sender};
        }
        if (refers) {
            c.arrived(type, out + n * stride);
        }
        ++n;
    };
    for (size_t i = 0; i < c.nodes.size() && n < count; ++i) { // each node's in turn
        c.next_egress = (c.next_egress + 1) % c.nodes.size();
        Node& node = c.nodes[c.next_egress];
        // One of any length, with or without a stamp.
        const auto take_any = [&] {
            Header h;
            if (!node.egress.peek(h) || h.type != type) {
                return false;
            }
            if (h.length == length) { // without a stamp: straight to where it is wanted
                if (node.egress.try_receive(h, out + n * stride, length) != Errc::ok) {
                    return false;
                }
            } else {
                if (!c.take_egress(node, h, bytes, length)) {
                    return false;
                }
                std::memcpy(out + n * stride, bytes.data(), length);
            }
            took(h);
            return true;
        };
        for (;;) { // ends with the ring's last message of the type, or `count`
            Errc found = Errc::wrong_type;
            if (!refers) { // else one at a time: what counts the buffers may throw
                with_length(length, [&]<uint32_t L>() {
                    node.egress.receive_short_batch<L>(
                        type, static_cast<uint32_t>(std::min<size_t>(count - n, UINT32_MAX)), found,
                        [&](const Header& h, const unsigned char* payload) {
                            std::memcpy(out + n * stride, payload, L);
                            took(h);
                        });
                });
            }
            if (n == count || found != Errc::wrong_type || !take_any()) {
                break;
            }
        }
    }
    return n;
}

void AnyRuntime::serve(const std::vector<uint32_t>& types) { core().serve(types); }

bool AnyRuntime::served(Message& message, std::vector<std::shared_ptr<Storage>>& memory)
{
    if (core().try_serve(message, memory)) {
        return true;
    }
    core().check_alive();
    return false;
}

Buffer AnyRuntime::buffer(uint64_t bytes, BufferKind kind)
{
    core().check_alive();
    return core().buffers->allocate(bytes, kind);
}

Buffer AnyRuntime::wrap(void* pointer, uint64_t bytes, std::shared_ptr<void> owner)
{
    core().check_alive();
    return core().buffers->wrap(pointer, bytes, std::move(owner));
}

BufferStats AnyRuntime::buffers() { return core().buffers->stats(); }

const Gate* AnyRuntime::gate(uint32_t node) const
{
    if (core().options.idle.count() != 0) {
        throw Error(Errc::bad_argument,
                    "idle = " + std::to_string(core().options.idle.count()) +
                        " ms: who sends from outside does not bring a program back that has left; "
                        "use idle = 0");
    }
    core().check_node(node);
    return core().nodes[node].gate;
}

const Arena& AnyRuntime::arena(uint32_t node) const
{
    if (core().image.table.allocates == 0) {
        throw Error(Errc::bad_argument,
                    "no actor of the program allocates, so it has no arena: one whose handlers "
                    "call ctx.arena() declares `static constexpr bool allocates = true`");
    }
    core().check_node(node);
    return *core().nodes[node].arena;
}

void AnyRuntime::drain(nanoseconds deadline)
{
    Core& c = core();
    if (!c.drained(ns(deadline))) {
        const std::string who = c.stuck(ns(deadline) / 2);
        throw Error(Errc::timeout, "messages are still being handled after " +
                                       seconds(ns(deadline)) + (who.empty() ? "" : ": " + who));
    }
    c.buffers->collect();
}

void AnyRuntime::pause(nanoseconds deadline)
{
    Core& c = core();
    c.check_alive();
    c.command(Command::pause);
    // One that has left its GPU handles nothing, and stays off until it is resumed.
    if (!c.parked() && !c.wait_until(ns(deadline), [&] { return c.in_mode(Mode::paused, true); })) {
        const std::string who = c.who_is_not(Mode::paused);
        throw Error(Errc::timeout,
                    "not paused after " + seconds(ns(deadline)) + (who.empty() ? "" : ": " + who));
    }
}

void AnyRuntime::resume()
{
    core().check_alive();
    core().command(Command::run);
}

void AnyRuntime::park(nanoseconds deadline)
{
    Core& c = core();
    c.check_alive();
    if (!c.on_gpu) {
        return;
    }
    c.command(Command::leave);
    const uint64_t begin = now_ns();
    for (uint64_t told = begin; !c.parked();) { // ends when all have left, or by the deadline
        c.check_alive();
        if (now_ns() - begin > ns(deadline)) {
            const std::string who = c.who_is_not(Mode::left);
            c.command(c.nodes[0].backend->commanded()); // else it would leave later, unasked
            throw Error(Errc::timeout, "the program did not leave the GPU within " +
                                           seconds(ns(deadline)) +
                                           (who.empty() ? "; it still has work" : ": " + who));
        }
        // A node that had work, or left before another one was told, has come back because of it.
        if (now_ns() - told > 2'000'000) {
            c.command(Command::leave);
            told = now_ns();
        }
        try {
            check_interrupt();
        } catch (...) {
            c.command(c.nodes[0].backend->commanded());
            throw;
        }
        relax();
    }
}

void AnyRuntime::exchange(const Image& image) { core().exchange(image); }

bool AnyRuntime::parked() const { return !core().closed && core().parked(); }

Stats AnyRuntime::stats()
{
    Core& c = core();
    if (!c.closed) {
        c.refresh(100'000'000);
    }
    Stats s;
    s.mode = c.mode();
    s.launches = c.nodes[0].backend->launches();
    s.incarnations = c.nodes[0].backend->incarnations();
    s.handovers = c.handovers();
    std::vector<Status> told(c.workers);
    for (const Node& node : c.nodes) {
        s.errors += load<Scope::system>(&node.control->errors);
        if (s.first_error.empty()) {
            s.first_error = c.text_of(node, node.control->first);
        }
        for (uint32_t w = 0; w < c.workers; ++w) {
            s.handled_by_worker.push_back(load<Scope::system>(&node.reports[w].handled));
            s.handled += s.handled_by_worker.back();
            s.dead_letters += load<Scope::system>(&node.reports[w].dead_letters);
            s.stashed += load<Scope::system>(&node.reports[w].stashed);
            for (uint32_t r = 0; r < reasons; ++r) {
                s.dead_letters_by_reason[r] +=
                    load<Scope::system>(&node.reports[w].dead_by_reason[r]);
            }
        }
        if (node.backend->read(told.data(), node.shared.status, c.workers * sizeof(Status))) {
            for (const Status& status : told) {
                for (uint32_t route = 0; route < routes; ++route) {
                    s.sent_by_route[route] += status.sent[route];
                }
            }
        }
    }
    const std::lock_guard far_guard(c.far.letters_lock);
    for (uint32_t r = 0; r < reasons; ++r) {
        s.dead_letters += c.far.buried[r];
        s.dead_letters_by_reason[r] += c.far.buried[r];
    }
    return s;
}

std::string AnyRuntime::stuck(nanoseconds at_least)
{
    std::string who = core().stuck(ns(at_least));
    if (who.empty()) {
        std::string breath = core().unfinished_breath(ns(at_least));
        if (!breath.empty()) {
            who = core().stuck(ns(at_least)); // a handler may be what it waits for
            return who.empty() ? breath : who;
        }
    }
    return who;
}

void AnyRuntime::save(const std::string& path, nanoseconds deadline)
{
    core().save(path, ns(deadline));
}

void AnyRuntime::hold(nanoseconds deadline) { core().hold_workers(ns(deadline)); }

void AnyRuntime::let_go() { core().let_workers_go(); }

void AnyRuntime::save_actor(Address actor, const std::string& path, nanoseconds deadline)
{
    core().save_actor(actor, path, ns(deadline));
}

void AnyRuntime::load_actor(Address actor, const std::string& path, nanoseconds deadline)
{
    core().load_actor(actor, path, ns(deadline));
}

void AnyRuntime::close(nanoseconds timeout)
{
    if (core_->process.here()) { // a forked child has nothing to close
        core_->close(ns(timeout));
    }
}

} // namespace denizen

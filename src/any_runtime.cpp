// SPDX-License-Identifier: Apache-2.0
// AnyRuntime's calls, on top of its core.
#include "core.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace denizen {
namespace {

uint64_t ns(nanoseconds deadline)
{
    return deadline.count() < 0 ? 0 : static_cast<uint64_t>(deadline.count());
}

} // namespace

AnyRuntime::AnyRuntime(Image image, const Options& options)
    : core_(std::make_unique<Core>(std::move(image), options))
{
}

AnyRuntime::~AnyRuntime()
{
    try {
        close(std::chrono::seconds(1));
    } catch (const Error& e) {
        std::fprintf(stderr, "denizen: %s\n", e.what());
    }
}

const Image& AnyRuntime::image() const { return core_->image; }
const Description& AnyRuntime::description() const { return core_->description; }

std::vector<Address> AnyRuntime::spawn(uint32_t actor_type, uint32_t count, nanoseconds deadline)
{
    Core& c = *core_;
    c.check_alive();
    if (actor_type >= c.image.table.actors) {
        throw Error(Errc::bad_argument, "actor type " + std::to_string(actor_type) +
                                            " is not one of the program's " +
                                            std::to_string(c.image.table.actors));
    }
    const ActorInfo& info = c.image.table.actor[actor_type];
    const uint64_t stride = round_up(info.size, std::max(info.align, 16u));
    const std::lock_guard guard(c.spawn_mutex);
    uint64_t heap = round_up(c.heap_used, 256);
    if (heap + stride * count > c.options.state_bytes) {
        throw Error(
            Errc::exhausted,
            std::to_string(count) + " actors " + c.actor_name(actor_type) + " need " +
                std::to_string(stride * count) + " bytes of state, " +
                std::to_string(c.options.state_bytes - std::min(heap, c.options.state_bytes)) +
                " are left; raise state_bytes");
    }
    std::vector<uint32_t> share(c.workers, count / c.workers);
    for (uint32_t i = 0; i < count % c.workers; ++i) {
        ++share[(c.next_worker + i) % c.workers];
    }
    for (uint32_t w = 0; w < c.workers; ++w) {
        if (c.next_local[w] + share[w] > c.shared.actors_per_worker) {
            throw Error(Errc::exhausted, std::to_string(count) + " actors " +
                                             c.actor_name(actor_type) + " exceed max_actors = " +
                                             std::to_string(c.options.max_actors) + "; raise it");
        }
    }
    std::vector<Address> addresses(count);
    for (uint32_t i = 0; i < count; ++i) {
        const uint32_t w = (c.next_worker + i) % c.workers;
        addresses[i] = Address::actor(w, c.next_local[w] + i / c.workers);
    }
    std::vector<Address> tickets;
    for (uint32_t w = 0; w < c.workers; ++w) {
        if (share[w] == 0) {
            continue;
        }
        const SpawnRequest r{actor_type, share[w], c.next_local[w], static_cast<uint32_t>(stride),
                             heap};
        heap += stride * share[w];
        // A program with few reply cells collects answers as it goes.
        Address ticket;
        while (!c.cells.take(ticket)) { // ends: each answer frees a cell
            if (tickets.empty()) {
                ticket = c.take_cell(ns(deadline));
                break;
            }
            c.wait_reply(tickets.back(), nullptr, 0, ns(deadline),
                         [] { return std::string("spawn"); });
            tickets.pop_back();
        }
        tickets.push_back(ticket);
        c.send_header(w,
                      {Address::actor(w, 0).value, ticket.value,
                       static_cast<uint32_t>(SystemOp::spawn), flag_system, sizeof r},
                      &r, ns(deadline));
    }
    for (const Address ticket : tickets) {
        c.wait_reply(ticket, nullptr, 0, ns(deadline), [&] {
            return "spawning " + std::to_string(count) + " actors " + c.actor_name(actor_type);
        });
    }
    for (const Address a : addresses) {
        c.set_type(c.index(a), actor_type + 1);
    }
    for (uint32_t w = 0; w < c.workers; ++w) {
        c.next_local[w] += share[w];
    }
    c.heap_used = heap;
    c.next_worker = (c.next_worker + count) % c.workers;
    return addresses;
}

void AnyRuntime::stop(Address actor, nanoseconds deadline)
{
    Core& c = *core_;
    c.check_alive();
    if (actor.node() != 0 || actor.worker() >= c.workers ||
        actor.local() >= c.shared.actors_per_worker || c.type_at(c.index(actor)) == 0) {
        c.refuse(actor, 0);
    }
    const Address ticket = c.take_cell(ns(deadline));
    const StopRequest r{actor.local()};
    c.send_header(
        actor.worker(),
        {actor.value, ticket.value, static_cast<uint32_t>(SystemOp::stop), flag_system, sizeof r},
        &r, ns(deadline));
    c.wait_reply(ticket, nullptr, 0, ns(deadline), [&] { return "stopping " + c.describe(actor); });
    c.set_type(c.index(actor), 0);
}

void AnyRuntime::send(Address to, uint32_t type, const void* payload, uint32_t length,
                      nanoseconds deadline)
{
    core_->send_checked(to, type, host.value, payload, length, ns(deadline));
}

void AnyRuntime::send_many(const Address* to, bool to_one, uint32_t type, const void* payloads,
                           uint32_t length, size_t stride, size_t count, nanoseconds deadline)
{
    Core& c = *core_;
    c.check_message(type, length);
    c.check_alive();
    const auto* bytes = static_cast<const unsigned char*>(payloads);
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
    Core& c = *core_;
    c.check_message(type, length);
    c.check_alive();
    if (actor_type >= c.image.table.actors || !c.image.table.can_handle(actor_type, type)) {
        throw Error(Errc::wrong_type, (actor_type < c.image.table.actors
                                           ? "actor " + c.actor_name(actor_type)
                                           : "actor type " + std::to_string(actor_type)) +
                                          " has no handler for " + c.message_name(type));
    }
    for (uint32_t w = 0; w < c.workers; ++w) {
        HeldBuffers held = c.hold(type, payload, length, 1); // each worker's copy counts
        c.send_header(
            w, {Address::actor(w, actor_type).value, host.value, type, flag_broadcast, length},
            payload, ns(deadline));
        held.sent();
    }
}

Address AnyRuntime::ask_begin(Address to, uint32_t type, const void* payload, uint32_t length,
                              nanoseconds deadline)
{
    const Address ticket = core_->take_cell(ns(deadline));
    try {
        core_->send_checked(to, type, ticket.value, payload, length, ns(deadline));
    } catch (...) {
        core_->cells.give_back(ticket);
        throw;
    }
    return ticket;
}

bool AnyRuntime::ask_ready(Address ticket) const
{
    Header h;
    return core_->cells.arrived(ticket, h);
}

Header AnyRuntime::ask_end(Address ticket, void* reply, uint32_t room, nanoseconds deadline)
{
    return core_->wait_reply(ticket, reply, room, ns(deadline),
                             [] { return std::string("an ask"); });
}

void AnyRuntime::ask_abandon(Address ticket) { core_->cells.abandon(ticket); }

Header AnyRuntime::ask(Address to, uint32_t type, const void* payload, uint32_t length, void* reply,
                       uint32_t room, nanoseconds deadline)
{
    Core& c = *core_;
    const Address ticket = ask_begin(to, type, payload, length, deadline);
    return c.wait_reply(ticket, reply, room, ns(deadline),
                        [&] { return "ask " + c.message_name(type) + " to " + c.describe(to); });
}

void AnyRuntime::ask_many(const Address* to, bool to_one, uint32_t type, const void* payloads,
                          uint32_t length, size_t stride, size_t count, uint32_t reply_type,
                          void* replies, uint32_t reply_length, size_t reply_stride,
                          nanoseconds deadline)
{
    Core& c = *core_;
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
    } catch (...) {
        for (const Address ticket : open) {
            c.cells.abandon(ticket);
        }
        throw;
    }
}

Message AnyRuntime::receive(nanoseconds deadline)
{
    Core& c = *core_;
    Message m;
    const uint64_t begin = now_ns();
    Backoff wait;
    while (!c.try_receive(m)) { // ends by a message, failure or the deadline
        c.check_alive();
        if (now_ns() - begin > ns(deadline)) {
            throw Error(Errc::timeout,
                        "no actor sent a message to the host within " + seconds(ns(deadline)));
        }
        wait.pause();
    }
    return m;
}

size_t AnyRuntime::receive_many(uint32_t type, void* payloads, uint32_t length, size_t stride,
                                size_t count, Address* senders)
{
    Core& c = *core_;
    c.check_message(type, length);
    auto* out = static_cast<unsigned char*>(payloads);
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
    if (!c.backlog.empty()) {
        return n;
    }
    const auto take = [&](auto&& next) {
        Header h;
        while (n < count && next(h, out + n * stride)) {
            if (senders != nullptr) {
                senders[n] = {h.sender};
            }
            c.arrived(type, out + n * stride);
            ++n;
        }
    };
    if (!with_length(length, [&]<uint32_t L>() {
            take([&](Header& h, void* to) {
                return c.egress.try_receive_short<L>(type, h, to) == Errc::ok;
            });
        })) {
        take([&](Header& h, void* to) {
            return c.egress.peek(h) && h.type == type &&
                   c.egress.try_receive(h, to, length) == Errc::ok;
        });
    }
    return n;
}

Buffer AnyRuntime::buffer(uint64_t bytes, BufferKind kind)
{
    core_->check_alive();
    return core_->buffers->allocate(bytes, kind);
}

Buffer AnyRuntime::wrap(void* pointer, uint64_t bytes, std::shared_ptr<void> owner)
{
    core_->check_alive();
    return core_->buffers->wrap(pointer, bytes, std::move(owner));
}

BufferStats AnyRuntime::buffers() { return core_->buffers->stats(); }

void AnyRuntime::drain(nanoseconds deadline)
{
    Core& c = *core_;
    if (!c.drained(ns(deadline))) {
        const std::string who = c.stuck(ns(deadline) / 2);
        throw Error(Errc::timeout, "messages are still being handled after " +
                                       seconds(ns(deadline)) + (who.empty() ? "" : ": " + who));
    }
    c.buffers->collect();
}

void AnyRuntime::pause(nanoseconds deadline)
{
    Core& c = *core_;
    c.check_alive();
    c.backend->command(Command::pause);
    if (c.backend->parked()) {
        return;
    }
    if (!c.wait_until(ns(deadline), [&] {
            for (uint32_t w = 0; w < c.workers; ++w) {
                if (load<Scope::system>(&c.reports[w].mode) !=
                    static_cast<uint32_t>(Mode::paused)) {
                    return false;
                }
            }
            return true;
        })) {
        const std::string who = c.stuck(0);
        throw Error(Errc::timeout,
                    "not paused after " + seconds(ns(deadline)) + (who.empty() ? "" : ": " + who));
    }
}

void AnyRuntime::resume()
{
    core_->check_alive();
    core_->backend->command(Command::run);
}

void AnyRuntime::park(nanoseconds deadline)
{
    Core& c = *core_;
    c.check_alive();
    if (!c.on_gpu) {
        return;
    }
    c.backend->command(Command::leave);
    const uint64_t begin = now_ns();
    while (!c.backend->parked()) { // ends when the program has left, or by the deadline
        c.check_alive();
        if (now_ns() - begin > ns(deadline)) {
            c.backend->command(c.backend->commanded());
            throw Error(Errc::timeout, "the program did not leave the GPU within " +
                                           seconds(ns(deadline)) + "; it still has work");
        }
        relax();
    }
}

bool AnyRuntime::parked() const { return !core_->closed && core_->backend->parked(); }

Stats AnyRuntime::stats()
{
    Core& c = *core_;
    if (!c.closed) {
        c.backend->refresh(100'000'000);
    }
    Stats s;
    s.mode = static_cast<Mode>(load<Scope::system>(&c.control->mode));
    s.errors = load<Scope::system>(&c.control->errors);
    s.first_error = c.text_of(c.control->first);
    s.launches = c.backend->launches();
    for (uint32_t w = 0; w < c.workers; ++w) {
        s.handled_by_worker.push_back(load<Scope::system>(&c.reports[w].handled));
        s.handled += s.handled_by_worker.back();
        s.dead_letters += load<Scope::system>(&c.reports[w].dead_letters);
    }
    return s;
}

std::string AnyRuntime::stuck(nanoseconds at_least) { return core_->stuck(ns(at_least)); }

void AnyRuntime::close(nanoseconds timeout) { core_->close(ns(timeout)); }

} // namespace denizen

// SPDX-License-Identifier: Apache-2.0
// Operations: which of a lane's requests begin, and what becomes of them.
#include "io/beneath.hpp"
#include "io/desk.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace denizen::io {
namespace {

constexpr size_t most_parts = 64;
constexpr uint64_t most_bytes = 1 << 20; // of several requests together

using Kind = Operation::Kind;

} // namespace

// The first requests of each lane begin, as far as those that go on let them.
void Service::Desk::advance(uint32_t place)
{
    File& file = files[place];
    for (Lane& lane : file.lanes) {
        advance(file, place, lane);
    }
    close_if_idle(place);
}

void Service::Desk::advance(File& file, uint32_t place, Lane& lane)
{
    while (!lane.waiting.empty() && !lane.alone) { // ends with the first that must wait
        Request& first = *lane.waiting.front();
        const bool beside = file.begins_beside(first);
        if (!beside && lane.running != 0) {
            return;
        }
        if (first.length == 0 && first.op != Op::sync) {
            answer(first, Error::none);
            lane.waiting.pop_front();
            continue;
        }
        lane.alone = !beside;
        begin(file, place, lane);
    }
}

// The first request, with the writes that follow it.
void Service::Desk::begin(File& file, uint32_t place, Lane& lane)
{
    auto o = std::make_unique<Running>();
    o->place = place;
    o->fd = file.fd;
    const auto take_next = [&] {
        Request& r = *lane.waiting.front();
        o->parts.push_back({r.data + r.done, r.left()});
        o->requests.push_back(std::move(lane.waiting.front()));
        lane.waiting.pop_front();
    };
    take_next();
    const Request& first = *o->requests.front();
    o->offset = (first.offset == next ? file.position : first.offset + first.done);
    if (first.op == Op::sync) {
        o->kind = Kind::sync;
    } else if (first.reads()) {
        o->kind = file.socket ? Kind::receive : Kind::read;
    } else {
        o->kind = file.socket ? Kind::send : Kind::write;
        for (uint64_t bytes_of_all = first.left(); !lane.waiting.empty();) { // ends with the lane
            const Request& r = *lane.waiting.front();
            bytes_of_all += r.length;
            if (!file.continues(*o->requests.back(), r) || r.length == 0 ||
                o->parts.size() == most_parts || bytes_of_all > most_bytes) {
                break;
            }
            take_next();
        }
    }
    ++lane.running;
    start(std::move(o));
}

void Service::Desk::start(std::unique_ptr<Running> o)
{
    o->message = {};
    o->message.msg_iov = o->parts.data();
    o->message.msg_iovlen = o->parts.size();
    ++live.operations;
    running.push_back(std::move(o));
    doer->start(*running.back());
}

void Service::Desk::finish(Running& finished)
{
    const auto found = std::find_if(running.begin(), running.end(),
                                    [&](const auto& o) { return o.get() == &finished; });
    const std::unique_ptr<Running> o = std::move(*found);
    *found = std::move(running.back());
    running.pop_back();
    if (o->kind == Kind::accept || o->kind == Kind::connect) {
        finish_socket(*o);
        return;
    }
    File& file = files[o->place];
    Lane& lane = file.lane_of(*o->requests.front());
    --lane.running;
    lane.alone = false;
    finish_transfer(*o, file, lane);
    advance(o->place);
}

// What was done is the requests' in their order. One that has not all of it goes on, at the head of
// its lane.
void Service::Desk::finish_transfer(Running& o, File& file, Lane& lane)
{
    Requests& requests = o.requests;
    const bool reads = requests.front()->reads();
    if (o.result < 0 || o.kind == Kind::sync || reads) {
        Request& r = *requests.front();
        const auto number = static_cast<int>(o.result < 0 ? -o.result : 0);
        const auto n = static_cast<uint64_t>(o.result < 0 ? 0 : o.result);
        r.done += n;
        if (reads) {
            live.bytes_read += n;
            file.position += r.offset == next ? n : 0;
        }
        const bool goes_on = reads && !file.socket && n != 0 && r.left() != 0;
        if (!goes_on) {
            const bool shut = file.socket && file.closing && reads && n == 0;
            answer(r, shut ? Error::ended : error_of(number), number);
            requests.pop_front();
        }
    } else {
        auto n = static_cast<uint64_t>(o.result);
        live.bytes_written += n;
        const bool none = n == 0;
        while (!requests.empty() && (n != 0 || none)) { // ends with what was written
            Request& r = *requests.front();
            const uint64_t part = std::min(n, r.left());
            r.done += part;
            n -= part;
            file.position += r.offset == next ? part : 0;
            if (r.left() != 0 && !none) {
                break;
            }
            answer(r, none ? Error::failed : Error::none, none ? EIO : 0);
            requests.pop_front();
            if (none) {
                break;
            }
        }
    }
    while (!requests.empty()) { // ends with the last: those that go on or have not begun
        lane.waiting.push_front(std::move(requests.back()));
        requests.pop_back();
    }
}

void Service::Desk::finish_socket(Running& o)
{
    Request& r = *o.requests.front();
    const bool accepts = o.kind == Kind::accept;
    const auto number = static_cast<int>(o.result < 0 ? -o.result : 0);
    const uint32_t listener = o.place;
    uint32_t place = o.place;
    if (accepts) {
        listeners[listener].running = false;
        place = number == 0 ? files.take() : files.count();
        o.fd = static_cast<int>(o.result);
    }
    if (number != 0 || place == files.count()) {
        if (!accepts) {
            files.give_back(place);
        }
        if (number == 0 || !accepts) {
            ::close(o.fd);
        }
        answer(r, number != 0 ? error_of(number) : Error::limit, number);
    } else {
        files[place].fd = o.fd;
        files[place].mode = mode_read | mode_write;
        files[place].socket = true;
        r.file = files.number_of(place);
        answer(r, Error::none);
    }
    if (accepts) {
        next_accept(listener);
    }
}

void Service::Desk::next_accept(uint32_t place)
{
    Listener& listener = listeners[place];
    if (listener.running || listener.waiting.empty()) {
        return;
    }
    listener.running = true;
    auto o = std::make_unique<Running>();
    o->kind = Kind::accept;
    o->fd = listener.socket.get();
    o->place = place;
    o->requests.push_back(std::move(listener.waiting.front()));
    listener.waiting.pop_front();
    start(std::move(o));
}

void Service::Desk::close_if_idle(uint32_t place)
{
    File& file = files[place];
    if (file.closing && file.idle()) {
        const std::unique_ptr<Request> r = std::move(file.closing);
        const int number = ::close(std::exchange(file.fd, -1)) == 0 ? 0 : errno;
        files.give_back(place);
        answer(*r, error_of(number), number);
    }
}

void Service::Desk::answer(Request& r, Error error, int number)
{
    const auto counted = std::exchange(r.counted, Request::Counted::not_at_all);
    if (counted == Request::Counted::under_way) {
        --under_way;
        bytes -= r.length;
    } else if (counted == Request::Counted::socket_write) {
        --socket_writes;
    }
    ++live.answered;
    live.failed += error != Error::none ? 1 : 0;
    const auto code = static_cast<uint32_t>(error);
    if (!r.answer.empty()) {
        const uint32_t head[] = {r.file, r.tag, code, static_cast<uint32_t>(r.done)};
        std::memcpy(r.answer.data(), head, sizeof head);
        answers.push_back({r.from, r.answer_type, std::move(r.answer)});
        return;
    }
    const Done done{
        r.file, r.tag, code, static_cast<uint32_t>(number), r.done, static_cast<uint32_t>(r.op), 0};
    const auto* begin = reinterpret_cast<const unsigned char*>(&done);
    answers.push_back({r.from, types.done, {begin, begin + sizeof done}});
}

// Sends the answers that there are; false if there was none. One that finds no room is tried again
// in the next turn, and those behind it wait.
bool Service::Desk::deliver()
{
    bool any = false;
    while (!answers.empty()) { // ends with the first that finds no room
        const Answer& a = answers.front();
        try {
            runtime.send(a.to, a.type, a.bytes.data(), static_cast<uint32_t>(a.bytes.size()),
                         std::chrono::milliseconds(100));
        } catch (const denizen::Error& e) {
            if (e.code() == Errc::full) {
                return any;
            }
            ++live.undelivered;
            if (live.first_undelivered.empty()) {
                live.first_undelivered = e.what();
            }
        }
        answers.pop_front();
        any = true;
    }
    return any;
}

void Service::Desk::cancel_all(bool sockets_only)
{
    for (uint32_t place = 0; place < files.count(); ++place) {
        File& file = files[place];
        if (file.taken && (file.socket || !sockets_only)) {
            for (Lane& lane : file.lanes) {
                for (const auto& r : std::exchange(lane.waiting, {})) {
                    answer(*r, Error::cancelled);
                }
            }
        }
    }
    for (Listener& listener : listeners) {
        for (const auto& r : std::exchange(listener.waiting, {})) {
            answer(*r, Error::cancelled);
        }
    }
    for (const auto& o : running) {
        const bool file = o->kind == Kind::read || o->kind == Kind::write || o->kind == Kind::sync;
        if (!sockets_only || !file) {
            doer->cancel(*o);
        }
    }
}

} // namespace denizen::io

// SPDX-License-Identifier: Apache-2.0
// Requests as they come: what they ask for is checked, and they wait in their file's lane.
#include "io/beneath.hpp"
#include "io/desk.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace denizen::io {
namespace {

constexpr uint32_t batch = 64; // requests of one turn
constexpr uint32_t waiting_writes = 64;

template <class M>
M message_of(const Request& r)
{
    M m;
    std::memcpy(&m, r.message.payload.data(), sizeof m);
    return m;
}

} // namespace

bool Service::Desk::take()
{
    std::vector<std::shared_ptr<Storage>> memory;
    uint32_t taken = 0;
    for (Message message; taken < batch && has_room() && runtime.served(message, memory); ++taken) {
        ++live.requests;
        handle(std::move(message), memory);
        message = {};
    }
    return taken != 0;
}

void Service::Desk::handle(Message&& message, const std::vector<std::shared_ptr<Storage>>& memory)
{
    auto r = std::make_unique<Request>();
    r->message = std::move(message);
    r->op = request_of[r->message.header.type].op;
    r->from = Address{r->message.header.sender};
    r->memory = memory.empty() ? nullptr : memory[0];
    // Most begin with file and tag; those that open have a tag, and a place or mode.
    uint32_t first = 0;
    uint32_t second = 0;
    std::memcpy(&first, r->message.payload.data(), sizeof first);
    std::memcpy(&second, r->message.payload.data() + sizeof first, sizeof second);
    switch (r->op) {
    case Op::open: r->tag = first; return open(std::move(r));
    case Op::connect: r->tag = first; return connect(std::move(r), second);
    case Op::accept: r->tag = first; return accept(std::move(r), second);
    default: break;
    }
    r->file = first;
    r->tag = second;
    r->op == Op::close ? close(std::move(r)) : transfer(std::move(r));
}

uint32_t Service::Desk::open_file(const std::string& path, uint32_t mode, Error& error, int& number,
                                  uint64_t& length)
{
    constexpr uint32_t writing = mode_write | mode_append;
    const bool senseless = (mode & (mode_read | writing)) == 0 ||
                           ((mode & mode_truncate) != 0 && (mode & writing) == 0);
    if (root.get() < 0 || (mode & ~options.modes) != 0 || senseless) {
        error = Error::denied;
        return 0;
    }
    const uint32_t place = files.take();
    if (place == files.count()) {
        error = Error::limit;
        return 0;
    }
    const Opened opened = open_beneath(root.get(), path, mode, options.engine == Engine::portable);
    error = opened.error;
    number = opened.number;
    length = opened.bytes;
    if (opened.fd < 0) {
        files.give_back(place);
        return 0;
    }
    files[place].fd = opened.fd;
    files[place].mode = mode;
    return files.number_of(place);
}

void Service::Desk::open(std::unique_ptr<Request> r)
{
    const auto m = message_of<Open>(*r);
    const auto* text = reinterpret_cast<const char*>(m.path);
    Error error = Error::none;
    int number = 0;
    r->file =
        open_file(std::string(text, strnlen(text, path_bytes)), m.mode, error, number, r->done);
    answer(*r, error, number);
}

void Service::Desk::connect(std::unique_ptr<Request> r, uint32_t place)
{
    if (place >= peers.size()) {
        return answer(*r, Error::denied);
    }
    const uint32_t taken = files.take();
    if (taken == files.count()) {
        return answer(*r, Error::limit);
    }
    const Peer& peer = peers[place];
    const int flags = SOCK_STREAM | SOCK_CLOEXEC | (doer->wants_nonblocking() ? SOCK_NONBLOCK : 0);
    auto o = std::make_unique<Running>();
    o->kind = Operation::Kind::connect;
    o->fd = ::socket(peer.address.ss_family, flags, 0);
    if (o->fd < 0) {
        const int number = errno;
        files.give_back(taken);
        return answer(*r, error_of(number), number);
    }
    o->peer = peer.address;
    o->peer_bytes = peer.bytes;
    o->place = taken;
    o->requests.push_back(std::move(r));
    start(std::move(o));
}

void Service::Desk::accept(std::unique_ptr<Request> r, uint32_t place)
{
    if (place >= listeners.size()) {
        return answer(*r, Error::denied);
    }
    if (listeners[place].waiting.size() >= waiting_reads) {
        return answer(*r, Error::limit);
    }
    listeners[place].waiting.push_back(std::move(r));
    next_accept(place);
}

// Where its data is. What is wrong with it.
Error Service::Desk::fill(Request& r, const File& file)
{
    const uint32_t needed = r.reads() ? mode_read : uint32_t{mode_write | mode_append};
    if (r.op == Op::sync) {
        return file.socket ? Error::bad_file : Error::none;
    }
    if ((file.mode & needed) == 0) {
        return Error::bad_file;
    }
    if (r.op == Op::read) {
        const auto m = message_of<Read>(r);
        r.length = m.length;
        r.offset = m.offset;
        if (r.answer_type == no_type) {
            return Error::bad_range;
        }
        r.data = r.answer.data() + offsetof(Data<1>, bytes);
        return Error::none;
    }
    if (r.op == Op::write) {
        const auto m = message_of<Write<1>>(r);
        r.length = m.length;
        r.offset = m.offset;
        r.data = r.message.payload.data() + offsetof(Write<1>, bytes);
        return m.length <= request_of[r.message.header.type].capacity ? Error::none
                                                                      : Error::bad_range;
    }
    const auto m = message_of<ReadInto>(r);
    static_assert(sizeof(ReadInto) == sizeof(WriteFrom));
    r.length = m.length;
    r.offset = m.offset;
    if (!r.memory) {
        return Error::stale;
    }
    unsigned char* cpu = r.memory->cpu;
    if (cpu == nullptr) {
        return Error::unreachable;
    }
    if (m.begin > r.memory->bytes || m.length > r.memory->bytes - m.begin) {
        return Error::bad_range;
    }
    r.data = cpu + m.begin;
    return Error::none;
}

void Service::Desk::transfer(std::unique_ptr<Request> r)
{
    if (r->op == Op::read) { // an answer of that kind, whatever becomes of it
        const auto wanted = message_of<Read>(*r).length;
        const auto fits = std::find_if(types.data.begin(), types.data.end(),
                                       [&](const auto& d) { return d.capacity >= wanted; });
        r->answer_type = fits != types.data.end() ? fits->type : no_type;
        if (r->answer_type != no_type) {
            r->answer.resize(runtime.image().table.message[r->answer_type].size);
        }
    }
    const uint32_t place = files.find(r->file);
    if (place == files.count()) {
        return answer(*r, Error::bad_file);
    }
    File& file = files[place];
    if (const Error error = fill(*r, file); error != Error::none) {
        r->length = 0;
        return answer(*r, error);
    }
    Lane& lane = file.lane_of(*r);
    if (!file.socket) {
        r->counted = Request::Counted::under_way;
        ++under_way;
        bytes += r->length;
    } else if (lane.waiting.size() >= (r->reads() ? waiting_reads : waiting_writes)) {
        return answer(*r, Error::limit);
    } else if (r->writes()) {
        r->counted = Request::Counted::socket_write;
        ++socket_writes;
    }
    lane.waiting.push_back(std::move(r));
}

void Service::Desk::close(std::unique_ptr<Request> r)
{
    const uint32_t place = files.find(r->file);
    if (place == files.count()) {
        return answer(*r, Error::bad_file);
    }
    File& file = files[place];
    file.closing = std::move(r);
    if (file.socket) { // what it was to send is sent; what it was to read does not come
        ::shutdown(file.fd, SHUT_RD);
        for (const auto& waits : std::exchange(file.lanes[0].waiting, {})) {
            answer(*waits, Error::ended);
        }
    }
    close_if_idle(place);
}

void Service::Desk::answer_calls()
{
    const std::lock_guard guard(mutex);
    for (Call* call : calls) {
        Error error = Error::none;
        int number = 0;
        uint64_t length = 0;
        call->file = open_file(call->path, call->mode, error, number, length);
        if (error != Error::none) {
            call->why = to_string(error);
            if (number != 0) {
                call->why += std::string(" (") + std::strerror(number) + ")";
            }
        }
        call->done = true;
    }
    if (!calls.empty()) {
        calls.clear();
        called.notify_all();
    }
}

} // namespace denizen::io

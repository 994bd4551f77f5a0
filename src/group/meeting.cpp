// SPDX-License-Identifier: Apache-2.0
#include "meeting.hpp"

#include <denizen/base/clock.hpp>
#include <denizen/base/interrupt.hpp>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <memory>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <utility>

namespace denizen::group {
namespace {

struct Challenge {
    uint32_t magic = Visit{}.magic;
    Digest nonce = {};
};

struct Reply {
    uint32_t magic = Visit{}.magic;
    uint32_t code = 0; // Errc
    char text[512] = {};
    Decision decision;
    Digest proof = {}; // over what stands before it, and the names that follow
};
using Name = char[64];

class Socket {
public:
    explicit Socket(int fd = -1) : fd_(fd) {}
    ~Socket()
    {
        if (fd_ >= 0) ::close(fd_);
    }
    Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    Socket& operator=(Socket&& other) noexcept
    {
        std::swap(fd_, other.fd_);
        return *this;
    }
    int get() const { return fd_; }
    explicit operator bool() const { return fd_ >= 0; }

private:
    int fd_;
};

constexpr uint64_t slice_ms = 100; // between two looks at an interrupt

class Deadline {
public:
    explicit Deadline(std::chrono::nanoseconds time)
        : at_(now_ns() + static_cast<uint64_t>(time.count()))
    {
    }
    bool passed() const { return now_ns() >= at_; }
    // Until then or until the next look at an interrupt.
    int ms_left() const
    {
        const uint64_t now = now_ns();
        return now >= at_
                   ? 0
                   : static_cast<int>(std::min<uint64_t>((at_ - now) / 1'000'000 + 1, slice_ms));
    }
    // False if it has passed before the event.
    bool ready(int fd, short events) const
    {
        for (;;) { // ends with the event or in time
            pollfd entry{fd, events, 0};
            const int found = poll(&entry, 1, ms_left());
            if (found > 0) return true;
            if (found == 0 && passed()) return false;
            if (found < 0 && errno != EINTR) return false;
            check_interrupt();
        }
    }

private:
    uint64_t at_;
};

// All of it, or false: the other end is gone, or it took too long.
bool send_bytes(int fd, const void* from, size_t bytes, const Deadline& deadline)
{
    for (size_t done = 0; done < bytes;) { // ends: each turn sends some, or the deadline passes
        const ssize_t n = send(fd, static_cast<const char*>(from) + done, bytes - done,
                               MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n > 0) {
            done += static_cast<size_t>(n);
        } else if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            if (!deadline.ready(fd, POLLOUT)) return false;
        } else {
            return false;
        }
    }
    return true;
}

bool receive_bytes(int fd, void* to, size_t bytes, const Deadline& deadline)
{
    for (size_t done = 0; done < bytes;) { // ends: each turn gets some, or the deadline passes
        const ssize_t n = recv(fd, static_cast<char*>(to) + done, bytes - done, MSG_DONTWAIT);
        if (n > 0) {
            done += static_cast<size_t>(n);
        } else if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            if (!deadline.ready(fd, POLLIN)) return false;
        } else {
            return false;
        }
    }
    return true;
}

struct FreeAddresses {
    void operator()(addrinfo* list) const { freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

// tcp://HOST:PORT, where HOST may be [an IPv6 address].
Addresses resolve(const std::string& address)
{
    const std::string rest = address.substr(6);
    const size_t colon = rest.rfind(':');
    std::string host = rest.substr(0, colon == std::string::npos ? 0 : colon);
    const std::string port = colon == std::string::npos ? "" : rest.substr(colon + 1);
    if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
        host = host.substr(1, host.size() - 2);
    }
    const bool number =
        !port.empty() && port.size() <= 5 &&
        std::all_of(port.begin(), port.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (host.empty() || host.find('\0') != std::string::npos || !number || std::stoi(port) < 1 ||
        std::stoi(port) > 65535) {
        throw Error(Errc::bad_argument, std::string("\"") + address.c_str() +
                                            "\" is no address for a group: give tcp://HOST:PORT, "
                                            "rank 0's host and a free port from 1 to 65535");
    }
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* list = nullptr;
    if (const int error = getaddrinfo(host.c_str(), port.c_str(), &hints, &list); error != 0) {
        throw Error(Errc::bad_argument,
                    "the host of " + address + " is not known: " + gai_strerror(error));
    }
    return Addresses(list);
}

template <class Message>
std::string_view said(const Message& m)
{
    return {reinterpret_cast<const char*>(&m), offsetof(Message, proof)};
}

Digest proof_of(const std::string& token, const Digest& challenge, const Visit& v)
{
    return hmac(token, {"denizen visit", view_of(challenge), said(v)});
}

// `names`: the hash of what follows the reply. `nonces`: the challenge's and the visit's.
Digest proof_of(const std::string& token, const std::string& nonces, const Reply& r,
                const Digest& names)
{
    return hmac(token, {"denizen reply", nonces, said(r), view_of(names)});
}

std::string both(const Digest& challenge, const Digest& visit)
{
    return std::string(view_of(challenge)) + std::string(view_of(visit));
}

std::string seconds_of(std::chrono::nanoseconds time)
{
    return denizen::detail::seconds(static_cast<uint64_t>(time.count()));
}

// Rank 0's end.
class Listener {
public:
    Listener(const std::string& address, const Visit& mine, const std::string& token,
             std::chrono::nanoseconds timeout)
        : address_(address), mine_(mine), token_(token), timeout_(timeout), deadline_(timeout),
          lines_(mine.ranks), visits_(mine.ranks)
    {
        const Addresses list = resolve(address);
        std::string why;
        for (const addrinfo* a = list.get(); a != nullptr && !listener_; a = a->ai_next) {
            Socket one(socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
            const int yes = 1;
            setsockopt(one.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
            if (bind(one.get(), a->ai_addr, a->ai_addrlen) == 0 && listen(one.get(), 128) == 0) {
                listener_ = std::move(one);
            } else {
                why = std::strerror(errno);
            }
        }
        if (!listener_) {
            throw Error(Errc::bad_argument, "rank 0 cannot listen at " + address + ": " + why +
                                                "; name the host where rank 0 runs, and a free "
                                                "port");
        }
        visits_[0] = mine;
    }

    Meeting serve(const std::function<Decision(const std::vector<Visit>&)>& decide)
    {
        Reply reply;
        try {
            while (missing() != 0) take_some(); // ends when all are there, or in time
            reply.decision = decide(visits_);
        } catch (const Error& error) {
            reply.code = static_cast<uint32_t>(error.code());
            std::strncpy(reply.text, error.what(), sizeof reply.text - 1);
            const Deadline short_one(std::chrono::seconds(1));
            for (const auto* lines : {&lines_, &refused_}) {
                for (const Line& line : *lines) {
                    if (line.socket) answer(line, reply, sha256({}), short_one);
                }
            }
            throw;
        }
        std::vector<char> names;
        for (const Visit& v : visits_) names.insert(names.end(), v.device, std::end(v.device));
        const Deadline deadline(timeout_);
        const Digest hash = sha256({{names.data(), names.size()}});
        for (uint32_t r = 1; r < mine_.ranks; ++r) {
            if (!answer(lines_[r], reply, hash, deadline) ||
                !send_bytes(lines_[r].socket.get(), names.data(), names.size(), deadline)) {
                throw Error(Errc::peer_dead,
                            "rank " + std::to_string(r) + " left during the group's start");
            }
        }
        Meeting meeting{reply.decision, {}};
        for (const Visit& v : visits_) meeting.devices.emplace_back(v.device);
        return meeting;
    }

private:
    // Somebody who has come, and not yet said everything.
    struct Guest {
        Socket line;
        Digest challenge = {};
        Visit visit = {};
        size_t got = 0;
    };
    // Somebody who has proved to be one of us.
    struct Line {
        Socket socket;
        std::string nonces;
    };

    bool answer(const Line& line, Reply reply, const Digest& names, const Deadline& deadline) const
    {
        reply.proof = proof_of(token_, line.nonces, reply, names);
        return send_bytes(line.socket.get(), &reply, sizeof reply, deadline);
    }

    uint32_t missing() const
    {
        uint32_t n = 0;
        for (uint32_t r = 1; r < mine_.ranks; ++r) n += lines_[r].socket ? 0 : 1;
        return n;
    }

    void take_some()
    {
        std::vector<pollfd> entries{{listener_.get(), POLLIN, 0}};
        for (const Guest& g : guests_) entries.push_back({g.line.get(), POLLIN, 0});
        const int found = poll(entries.data(), entries.size(), deadline_.ms_left());
        if (found <= 0) {
            if (deadline_.passed()) throw late();
            check_interrupt();
            return;
        }
        for (size_t i = guests_.size(); i-- > 0;) { // from the end: they may go
            if (entries[i + 1].revents == 0 || listen_to(guests_[i])) continue;
            guests_.erase(guests_.begin() + static_cast<std::ptrdiff_t>(i));
        }
        if (entries[0].revents == 0) return;
        Socket line(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (!line) return;
        if (guests_.size() >= mine_.ranks + 64) guests_.erase(guests_.begin()); // who says nothing
        const Challenge challenge{Visit{}.magic, nonce()};
        // What has just come has room for so little.
        if (!send_bytes(line.get(), &challenge, sizeof challenge, Deadline({}))) return;
        guests_.push_back({std::move(line), challenge.nonce, {}, 0});
    }

    // False if there is no more to hear.
    bool listen_to(Guest& guest)
    {
        auto* const to = reinterpret_cast<char*>(&guest.visit) + guest.got;
        const ssize_t n = recv(guest.line.get(), to, sizeof guest.visit - guest.got, MSG_DONTWAIT);
        if (n < 0) return errno == EAGAIN || errno == EINTR;
        if (n == 0) return false;
        guest.got += static_cast<size_t>(n);
        if (guest.visit.magic != mine_.magic && guest.got >= sizeof guest.visit.magic) return false;
        if (guest.got < sizeof guest.visit) return true;
        receive(guest);
        return false;
    }

    void receive(Guest& guest)
    {
        Visit& v = guest.visit;
        if (!same(v.proof, proof_of(token_, guest.challenge, v))) {
            // Not one of us: it hears so, the others need not. It cannot check who says it.
            ++strangers_;
            Reply reply;
            reply.code = static_cast<uint32_t>(Errc::bad_argument);
            const std::string text = "rank 0 at " + address_ + " has another token";
            std::strncpy(reply.text, text.c_str(), sizeof reply.text - 1);
            send_bytes(guest.line.get(), &reply, sizeof reply,
                       Deadline(std::chrono::milliseconds(100)));
            return;
        }
        v.host[sizeof v.host - 1] = v.device[sizeof v.device - 1] = '\0';
        Line line{std::move(guest.line), both(guest.challenge, v.nonce)};
        const std::string name = "rank " + std::to_string(v.rank);
        const bool fits = v.ranks == mine_.ranks && v.rank > 0 && v.rank < v.ranks;
        const bool again = fits && lines_[v.rank].socket;
        if (!fits || again || v.engine != mine_.engine || v.on_gpu != mine_.on_gpu) {
            refused_.push_back(std::move(line));
            throw Error(Errc::bad_argument,
                        !fits   ? name + " of " + std::to_string(v.ranks) + " came to a group of " +
                                      std::to_string(mine_.ranks)
                        : again ? name + " came twice to a group of " + std::to_string(mine_.ranks)
                                : name + " has other options (or another kind of device) than rank "
                                         "0: give all ranks the same");
        }
        visits_[v.rank] = v;
        lines_[v.rank] = std::move(line);
    }

    Error late() const
    {
        std::string who;
        uint32_t told = 0;
        for (uint32_t r = 1; r < mine_.ranks; ++r) {
            if (lines_[r].socket) continue;
            if (++told <= 16) who += (who.empty() ? "" : ", ") + std::to_string(r);
        }
        if (told > 16) who += " and " + std::to_string(told - 16) + " more";
        return {Errc::timeout,
                "rank " + who + " of " + std::to_string(mine_.ranks) + " did not come to " +
                    address_ + " within " + seconds_of(timeout_) +
                    (strangers_ != 0
                         ? "; " + std::to_string(strangers_) + " came with another token"
                         : "")};
    }

    std::string address_;
    Visit mine_;
    std::string token_;
    std::chrono::nanoseconds timeout_;
    Deadline deadline_;
    Socket listener_;
    std::vector<Guest> guests_;
    std::vector<Line> lines_; // by rank
    std::vector<Line> refused_;
    std::vector<Visit> visits_;
    uint32_t strangers_ = 0;
};

Socket connect_to(const std::string& address, const Deadline& deadline)
{
    const Addresses list = resolve(address);
    for (;;) { // ends when rank 0 is there, or in time
        for (const addrinfo* a = list.get(); a != nullptr; a = a->ai_next) {
            Socket line(socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
            if (connect(line.get(), a->ai_addr, a->ai_addrlen) != 0) {
                if (errno != EINPROGRESS || !deadline.ready(line.get(), POLLOUT)) continue;
                int error = 0;
                socklen_t size = sizeof error;
                getsockopt(line.get(), SOL_SOCKET, SO_ERROR, &error, &size);
                if (error != 0) continue;
            }
            return line;
        }
        if (deadline.passed()) return Socket();
        check_interrupt();
        const timespec nap{0, 5'000'000};
        nanosleep(&nap, nullptr);
    }
}

Meeting visit(const std::string& address, Visit mine, const std::string& token,
              std::chrono::nanoseconds timeout)
{
    const Deadline deadline(timeout);
    const Socket line = connect_to(address, deadline);
    if (!line) {
        throw Error(Errc::timeout,
                    "rank 0 did not listen at " + address + " within " + seconds_of(timeout));
    }
    const Error left(Errc::peer_dead, "rank 0 left during the group's start (" + address + ")");
    const Error silent(Errc::timeout,
                       "rank 0 did not answer at " + address + " within " + seconds_of(timeout));
    Challenge challenge;
    if (!receive_bytes(line.get(), &challenge, sizeof challenge, deadline)) {
        throw deadline.passed() ? silent : left;
    }
    if (challenge.magic != mine.magic) {
        throw Error(Errc::bad_argument, "who listens at " + address +
                                            " is no rank 0 of this version; choose a free port");
    }
    mine.nonce = nonce();
    mine.proof = proof_of(token, challenge.nonce, mine);
    if (!send_bytes(line.get(), &mine, sizeof mine, deadline)) throw left;
    // Rank 0 gives up at its own deadline and says so: that is the better error.
    const Deadline answer(timeout + std::chrono::seconds(1));
    Reply reply;
    if (!receive_bytes(line.get(), &reply, sizeof reply, answer) || reply.magic != mine.magic) {
        throw answer.passed() ? silent : left;
    }
    std::vector<char> names(reply.code == 0 ? mine.ranks * sizeof(Name) : 0);
    if (!receive_bytes(line.get(), names.data(), names.size(), answer)) throw left;
    const Digest hash = sha256({{names.data(), names.size()}});
    if (!same(reply.proof, proof_of(token, both(challenge.nonce, mine.nonce), reply, hash))) {
        throw Error(Errc::bad_argument,
                    "who answers at " + address + " has another token: give all ranks the same");
    }
    reply.text[sizeof reply.text - 1] = '\0';
    if (reply.code != 0) throw told_error(reply.code, reply.text);
    if (reply.decision.engine != Engine::memory && reply.decision.engine != Engine::nccl) {
        throw Error(Errc::bad_argument, "rank 0 at " + address +
                                            " decided for no engine that this "
                                            "version has");
    }
    reply.decision.start[sizeof reply.decision.start - 1] = '\0';
    Meeting meeting{reply.decision, {}};
    for (uint32_t r = 0; r < mine.ranks; ++r) {
        names[(r + 1) * sizeof(Name) - 1] = '\0';
        meeting.devices.emplace_back(names.data() + r * sizeof(Name));
    }
    return meeting;
}

} // namespace

bool is_network_address(const std::string& address) { return address.rfind("tcp://", 0) == 0; }

std::string host_name()
{
    if (const char* const given = std::getenv("DENIZEN_GROUP_HOST"); given != nullptr) return given;
    std::string boot;
    std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
    char space[64] = {};
    const ssize_t n = readlink("/proc/self/ns/mnt", space, sizeof space - 1);
    return boot + " " + std::string(space, n > 0 ? static_cast<size_t>(n) : 0);
}

Meeting meet_over_network(const std::string& address, const Visit& mine, const std::string& token,
                          std::chrono::nanoseconds timeout,
                          const std::function<Decision(const std::vector<Visit>&)>& decide)
{
    if (mine.rank != 0) return visit(address, mine, token, timeout);
    return Listener(address, mine, token, timeout).serve(decide);
}

} // namespace denizen::group

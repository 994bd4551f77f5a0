// SPDX-License-Identifier: Apache-2.0
// How processes become the ranks of a group. Rank 0 makes a Unix socket that only its owner can
// open; the others connect, each sends a greeting and the descriptor of its memory (SCM_RIGHTS),
// and when all have come each gets all of them. Both ends ask the kernel whose process the other
// is. Every step has the same deadline, and nothing is left in the file system.
#include "member.hpp"

#include <denizen/base/clock.hpp>
#include <denizen/base/interrupt.hpp>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
#include <utility>

namespace denizen::group {
namespace {

class Descriptor {
public:
    explicit Descriptor(int fd = -1) : fd_(fd) {}
    ~Descriptor()
    {
        if (fd_ >= 0) ::close(fd_);
    }
    Descriptor(Descriptor&& other) noexcept : fd_(other.release()) {}
    Descriptor& operator=(Descriptor&& other) noexcept
    {
        std::swap(fd_, other.fd_);
        return *this;
    }
    int get() const { return fd_; }
    int release() { return std::exchange(fd_, -1); }

private:
    int fd_;
};

struct Answer {
    uint32_t code = 0; // Errc
    char text[512] = {};
    Hello hello[max_ranks];
};

std::string why(const char* call, const std::string& path)
{
    return std::string(call) + "(" + path + "): " + std::strerror(errno);
}

sockaddr_un address_of(const std::string& path)
{
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.empty() || path[0] == '\0' || path[0] == '@') {
        throw Error(
            Errc::bad_argument,
            "a group's socket needs a path in the file system: an abstract one has no owner");
    }
    if (path.find('\0') != std::string::npos) { // it would be another file's to the system
        throw Error(Errc::bad_argument, "the path of the group's socket, \"" +
                                            path.substr(0, path.find('\0')) +
                                            "\\0...\", has a NUL in it");
    }
    if (path.size() >= sizeof address.sun_path) {
        throw Error(Errc::bad_argument, "the path of the group's socket has " +
                                            std::to_string(path.size()) + " bytes; at most " +
                                            std::to_string(sizeof address.sun_path - 1) + " fit");
    }
    std::memcpy(address.sun_path, path.data(), path.size());
    return address;
}

// Whether a greeting is one that `rank` of mine's group could have sent: nothing that is read later
// leads out of it.
bool sound(const Hello& hello, const Hello& mine, uint32_t rank)
{
    const auto known = [](const Choice& c) {
        return c.algorithm != Algorithm::automatic &&
               static_cast<uint32_t>(c.algorithm) < algorithms && c.channels != 0 &&
               static_cast<uint32_t>(c.kind) < kinds;
    };
    const auto is_main = [](const Choice& c) { return c.kind == Kind::all_reduce; };
    return hello.magic == mine.magic && hello.rank == rank && hello.on_gpu == mine.on_gpu &&
           hello.layout == mine.layout && hello.bytes >= mine.layout.bytes() &&
           hello.choices <= max_rows &&
           std::all_of(hello.table, hello.table + hello.choices, known) &&
           std::any_of(hello.table, hello.table + hello.choices, is_main) &&
           std::count_if(hello.table, hello.table + hello.choices, is_main) <= max_choices &&
           std::memchr(hello.device, 0, sizeof hello.device) != nullptr;
}

constexpr uint64_t slice_ms = 100; // between two looks at an interrupt

// Waits for one of them; false at the deadline.
bool ready(std::vector<pollfd>& entries, uint64_t deadline)
{
    for (;;) { // ends with the event or at the deadline
        const uint64_t now = now_ns();
        if (now >= deadline) return false;
        const uint64_t ms = std::min<uint64_t>((deadline - now) / 1'000'000 + 1, slice_ms);
        const int found = poll(entries.data(), entries.size(), static_cast<int>(ms));
        check_interrupt();
        if (found > 0) return true;
        if (found < 0 && errno != EINTR) throw Error(Errc::failed, why("poll", "group"));
    }
}

bool ready(int fd, short events, uint64_t deadline)
{
    std::vector<pollfd> one{{fd, events, 0}};
    return ready(one, deadline);
}

bool same_user(int fd)
{
    ucred who{};
    socklen_t size = sizeof who;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 && who.uid == geteuid();
}

template <class T>
bool send_all(int fd, const T& message, const std::vector<int>& descriptors)
{
    iovec part{const_cast<T*>(&message), sizeof message};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * max_ranks)] = {};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    if (!descriptors.empty()) {
        header.msg_control = control;
        header.msg_controllen = CMSG_SPACE(sizeof(int) * descriptors.size());
        cmsghdr* const c = CMSG_FIRSTHDR(&header);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int) * descriptors.size());
        std::memcpy(CMSG_DATA(c), descriptors.data(), sizeof(int) * descriptors.size());
    }
    return sendmsg(fd, &header, MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof message);
}

// Its descriptors; a message of another length is none.
template <class T>
bool receive_all(int fd, T& message, std::vector<Descriptor>& descriptors)
{
    iovec part{&message, sizeof message};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * max_ranks)] = {};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof control;
    const ssize_t got = recvmsg(fd, &header, MSG_CMSG_CLOEXEC);
    for (cmsghdr* c = got < 0 ? nullptr : CMSG_FIRSTHDR(&header); c != nullptr;
         c = CMSG_NXTHDR(&header, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
        for (size_t i = 0; i < (c->cmsg_len - CMSG_LEN(0)) / sizeof(int); ++i) {
            int one = -1;
            std::memcpy(&one, CMSG_DATA(c) + i * sizeof(int), sizeof one);
            descriptors.emplace_back(one);
        }
    }
    return got == static_cast<ssize_t>(sizeof message);
}

std::string seconds_of(std::chrono::nanoseconds time)
{
    return denizen::detail::seconds(static_cast<uint64_t>(time.count()));
}

// Rank 0's end.
class Host {
public:
    Host(const std::string& path, const Hello& mine, std::chrono::nanoseconds timeout)
        : path_(path), mine_(mine), timeout_(timeout),
          deadline_(now_ns() + static_cast<uint64_t>(timeout.count())), lines_(mine.layout.ranks),
          hello_(mine.layout.ranks), memory_(mine.layout.ranks)
    {
        const sockaddr_un address = address_of(path);
        listener_ = Descriptor(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
        if (listener_.get() < 0) throw Error(Errc::failed, why("socket", path));
        fchmod(listener_.get(), 0600); // what bind() gives the file; nobody can come before
        const auto* const where = reinterpret_cast<const sockaddr*>(&address);
        if (bind(listener_.get(), where, sizeof address) != 0) {
            const Descriptor probe(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
            if (errno != EADDRINUSE || connect(probe.get(), where, sizeof address) == 0 ||
                errno != ECONNREFUSED) {
                throw Error(Errc::bad_argument, "the group's socket " + path + " cannot be made: " +
                                                    std::strerror(errno) + "; choose another path");
            }
            unlink(path.c_str()); // left by a process that died
            if (bind(listener_.get(), where, sizeof address) != 0) {
                throw Error(Errc::bad_argument, why("bind", path));
            }
        }
        struct stat file{};
        if (lstat(path.c_str(), &file) != 0 || (file.st_mode & 077) != 0) {
            unlink(path.c_str());
            throw Error(Errc::failed, "the group's socket " + path +
                                          " could not be kept from others; choose a folder on a "
                                          "file system that has modes");
        }
        if (listen(listener_.get(), max_ranks) != 0) throw Error(Errc::failed, why("listen", path));
    }
    ~Host() { unlink(path_.c_str()); }
    Host(const Host&) = delete;
    Host& operator=(const Host&) = delete;

    Peers serve(int memory)
    {
        try {
            for (uint32_t missing = mine_.layout.ranks - 1; missing > 0;) {
                if (take_one()) --missing; // ends when all are there, or at the deadline
            }
        } catch (const Error& error) {
            refuse(error);
            throw;
        }
        Answer answer;
        std::vector<int> all(mine_.layout.ranks);
        hello_[0] = mine_;
        for (uint32_t r = 0; r < mine_.layout.ranks; ++r) {
            answer.hello[r] = hello_[r];
            all[r] = r == 0 ? memory : memory_[r].get();
        }
        for (uint32_t r = 1; r < mine_.layout.ranks; ++r) {
            if (!send_all(lines_[r].get(), answer, all)) throw left(r);
        }
        Peers peers{hello_, {}};
        for (uint32_t r = 0; r < mine_.layout.ranks; ++r) {
            peers.memory.push_back(r == 0 ? dup(memory) : memory_[r].release());
        }
        return peers;
    }

private:
    static Error left(uint32_t r)
    {
        return {Errc::peer_dead, "rank " + std::to_string(r) + " left during the group's start"};
    }

    // Hears who has come and says something; who says nothing holds up nobody.
    bool take_one()
    {
        std::vector<pollfd> entries{{listener_.get(), POLLIN, 0}};
        for (const Descriptor& guest : guests_) entries.push_back({guest.get(), POLLIN, 0});
        if (!ready(entries, deadline_)) {
            std::string who;
            for (uint32_t r = 1; r < mine_.layout.ranks; ++r) {
                if (lines_[r].get() < 0) who += (who.empty() ? "" : ", ") + std::to_string(r);
            }
            throw Error(Errc::timeout, "rank " + who + " of " + std::to_string(mine_.layout.ranks) +
                                           " did not come to " + path_ + " within " +
                                           seconds_of(timeout_));
        }
        for (size_t i = 0; i < guests_.size(); ++i) {
            if (entries[i + 1].revents == 0) continue;
            const auto at = guests_.begin() + static_cast<std::ptrdiff_t>(i);
            Descriptor line = std::move(*at);
            guests_.erase(at);
            return hear(std::move(line));
        }
        Descriptor line(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
        if (line.get() < 0 || !same_user(line.get())) return false;
        if (guests_.size() >= mine_.layout.ranks + 64) guests_.erase(guests_.begin());
        guests_.push_back(std::move(line));
        return false;
    }

    // Whether it is a rank that was missing; its message is there.
    bool hear(Descriptor line)
    {
        Hello hello;
        std::vector<Descriptor> memory;
        if (!receive_all(line.get(), hello, memory) || hello.magic != mine_.magic ||
            memory.size() != 1) {
            return false; // who is no rank is not waited for again
        }
        const Layout& l = mine_.layout;
        const std::string name = "rank " + std::to_string(hello.rank);
        if (hello.layout.ranks == l.ranks && hello.rank > 0 && hello.rank < l.ranks &&
            lines_[hello.rank].get() < 0) {
            lines_[hello.rank] = std::move(line);
        } else {
            strangers_.push_back(std::move(line));
            throw Error(Errc::bad_argument,
                        name + " of " + std::to_string(hello.layout.ranks) +
                            " came to a group of " + std::to_string(l.ranks) +
                            (hello.rank < l.ranks && hello.layout.ranks == l.ranks
                                 ? ", where it was already"
                                 : ""));
        }
        if (!sound(hello, mine_, hello.rank)) {
            throw Error(Errc::bad_argument,
                        name + " has other options (or another kind of device) than rank 0: give "
                               "all ranks the same");
        }
        hello_[hello.rank] = hello;
        memory_[hello.rank] = std::move(memory[0]);
        return true;
    }

    void refuse(const Error& error)
    {
        Answer answer;
        answer.code = static_cast<uint32_t>(error.code());
        std::strncpy(answer.text, error.what(), sizeof answer.text - 1);
        for (const auto* lines : {&lines_, &strangers_}) {
            for (const Descriptor& line : *lines) {
                if (line.get() >= 0) send_all(line.get(), answer, {});
            }
        }
    }

    std::string path_;
    Hello mine_;
    std::chrono::nanoseconds timeout_;
    uint64_t deadline_;
    Descriptor listener_;
    std::vector<Descriptor> guests_; // who has come, and not yet said who it is
    std::vector<Descriptor> lines_;  // by rank
    std::vector<Descriptor> strangers_;
    std::vector<Hello> hello_;
    std::vector<Descriptor> memory_;
};

Peers visit(const std::string& path, const Hello& mine, int memory,
            std::chrono::nanoseconds timeout)
{
    const sockaddr_un address = address_of(path);
    const uint64_t deadline = now_ns() + static_cast<uint64_t>(timeout.count());
    Descriptor line;
    for (;;) { // ends when rank 0 is there, or at the deadline
        struct stat file{};
        if (lstat(path.c_str(), &file) == 0 &&
            (!S_ISSOCK(file.st_mode) || file.st_uid != geteuid() || (file.st_mode & 077) != 0)) {
            throw Error(Errc::bad_argument, path + " is no socket that only this user can open; "
                                                   "choose a path in a folder of your own");
        }
        line = Descriptor(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
        if (connect(line.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
            break;
        }
        if (errno != ENOENT && errno != ECONNREFUSED) {
            throw Error(Errc::bad_argument, why("connect", path));
        }
        if (now_ns() > deadline) {
            throw Error(Errc::timeout, "rank 0 did not make the group's socket " + path +
                                           " within " + seconds_of(timeout));
        }
        check_interrupt();
        const timespec nap{0, 1'000'000};
        nanosleep(&nap, nullptr);
    }
    if (!same_user(line.get())) {
        throw Error(Errc::bad_argument, path + " is another user's socket");
    }
    Answer answer;
    std::vector<Descriptor> descriptors;
    const Error left(Errc::peer_dead, "rank 0 left during the group's start (" + path + ")");
    if (!send_all(line.get(), mine, {memory})) throw left;
    // Rank 0 gives up at its own deadline and says so: that is the better error.
    if (!ready(line.get(), POLLIN, deadline + 1'000'000'000)) {
        throw Error(Errc::timeout,
                    "rank 0 did not answer at " + path + " within " + seconds_of(timeout));
    }
    if (!receive_all(line.get(), answer, descriptors)) throw left;
    answer.text[sizeof answer.text - 1] = '\0';
    if (answer.code != 0) throw told_error(answer.code, answer.text);
    for (uint32_t r = 0; r < mine.layout.ranks; ++r) {
        if (descriptors.size() != mine.layout.ranks || !sound(answer.hello[r], mine, r)) {
            throw Error(Errc::bad_argument, "who answers at " + path +
                                                " is no rank 0 of this group; choose another path");
        }
    }
    Peers peers;
    peers.hello.assign(answer.hello, answer.hello + mine.layout.ranks);
    for (Descriptor& d : descriptors) peers.memory.push_back(d.release());
    return peers;
}

} // namespace

Peers meet_peers(const std::string& path, const Hello& mine, int memory,
                 std::chrono::nanoseconds timeout)
{
    if (mine.rank != 0) return visit(path, mine, memory, timeout);
    return Host(path, mine, timeout).serve(memory);
}

} // namespace denizen::group

// SPDX-License-Identifier: Apache-2.0
// What comes to rank 0 of a group over its Unix socket, and what a rank gets from rank 0: greetings
// and answers with one field or another changed, cut, with too few descriptors or too many. Each
// end has met the others, or has a named error, in time.
//
// The messages are of bootstrap.cpp alone, so its text is part of this one.
#include "group/bootstrap.cpp"

#include "fuzz/pieces.hpp"

#include <cstdlib>
#include <string>
#include <sys/mman.h>
#include <thread>

using namespace denizen;
using namespace denizen::group;
using namespace denizen::fuzz;

namespace {

constexpr auto patience = std::chrono::milliseconds(15);

struct Folder {
    Folder()
    {
        char name[] = "/tmp/denizen-fuzz-XXXXXX";
        path = std::string(mkdtemp(name)) + "/socket";
    }
    std::string path;
};

Hello hello_of(uint32_t rank, uint32_t ranks)
{
    Hello h;
    h.rank = rank;
    h.layout.ranks = ranks;
    h.bytes = h.layout.bytes();
    h.choices = 1;
    h.table[0].channels = 1;
    return h;
}

template <class Call>
void ends(Call&& call)
{
    const uint64_t begin = now_ns();
    try {
        const Peers peers = call();
        trap_unless(peers.hello.size() == peers.memory.size());
        for (const int fd : peers.memory) trap_unless(fd >= 0 && close(fd) == 0);
        for (const Hello& hello : peers.hello) { // what a group reads of it
            trap_unless(hello.choices <= max_rows);
            trap_unless(std::memchr(hello.device, 0, sizeof hello.device) != nullptr);
        }
    } catch (const Error& error) {
        trap_unless(error.what()[0] != '\0');
        trap_unless(std::string(to_string(error.code())) != "unknown");
    }
    trap_unless(now_ns() - begin < 10'000'000'000);
}

// As send_all(), of any length.
template <class Message>
void send_some(int fd, const Message& message, size_t bytes, const std::vector<int>& descriptors)
{
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * 250)] = {};
    iovec part{const_cast<Message*>(&message), bytes};
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
    sendmsg(fd, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
}

// So many descriptors as there ought to be, or not.
std::vector<int> descriptors(int memory, uint32_t count, Input& in)
{
    const uint8_t how = in.byte();
    return std::vector<int>(how % 4 == 1 ? in.byte() % 250 : count, memory);
}

void to_rank_0(const std::string& path, int memory, Input& in)
{
    const uint32_t ranks = 2 + in.byte() % 3;
    std::thread rank_0(
        [&] { ends([&] { return meet_peers(path, hello_of(0, ranks), memory, patience); }); });
    std::vector<group::Descriptor> guests;
    const sockaddr_un at = address_of(path);
    for (uint32_t i = 0; i < 4 && in.size != 0; ++i) {
        group::Descriptor line;
        const uint64_t until = now_ns() + patience.count() * 1'000'000;
        do { // ends when rank 0 listens, or in time
            line = group::Descriptor(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
        } while (connect(line.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0 &&
                 now_ns() < until);
        Hello h = hello_of(1 + i, ranks);
        change(h, in);
        const size_t bytes = cut(sizeof h, in);
        send_some(line.get(), h, bytes, descriptors(memory, 1, in));
        guests.push_back(std::move(line));
    }
    rank_0.join();
}

void from_rank_0(const std::string& path, int memory, Input& in)
{
    const uint32_t ranks = 2 + in.byte() % 3;
    const sockaddr_un at = address_of(path);
    const group::Descriptor listener(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    fchmod(listener.get(), 0600);
    unlink(path.c_str());
    trap_unless(bind(listener.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0);
    trap_unless(listen(listener.get(), 4) == 0);
    std::thread rank_1(
        [&] { ends([&] { return meet_peers(path, hello_of(1, ranks), memory, patience); }); });
    {
        const group::Descriptor line(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
        Answer answer;
        for (uint32_t r = 0; r < ranks; ++r) answer.hello[r] = hello_of(r, ranks);
        change(answer, in);
        const size_t bytes = cut(sizeof answer, in);
        send_some(line.get(), answer, bytes, descriptors(memory, ranks, in));
    }
    rank_1.join();
    unlink(path.c_str());
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size)
{
    static const Folder folder;
    static const int memory = memfd_create("fuzz", MFD_CLOEXEC);
    Input in{data, size};
    in.byte() % 2 == 0 ? to_rank_0(folder.path, memory, in) : from_rank_0(folder.path, memory, in);
    return 0;
}

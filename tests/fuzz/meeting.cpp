// SPDX-License-Identifier: Apache-2.0
// What comes to rank 0 of a group over TCP, and what a rank gets from who says to be rank 0: the
// messages of a meeting with one field or another changed, before their proof is made or behind it,
// cut anywhere. Each end has met the others, or has a named error, in time.
//
// The messages are of meeting.cpp alone, so its text is part of this one.
#include "group/meeting.cpp"

#include "fuzz/pieces.hpp"

#include <arpa/inet.h>
#include <thread>

using namespace denizen;
using namespace denizen::group;
using namespace denizen::fuzz;

namespace {

constexpr auto patience = std::chrono::milliseconds(15);
const std::string token = "a token of the group";

sockaddr_in place()
{
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(static_cast<uint16_t>(20'000 + getpid() % 10'000));
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return at;
}

std::string address() { return "tcp://127.0.0.1:" + std::to_string(ntohs(place().sin_port)); }

Visit visit_of(uint32_t rank, uint32_t ranks)
{
    Visit v;
    v.rank = rank;
    v.ranks = ranks;
    std::strcpy(v.host, "the host");
    std::strcpy(v.device, "CPU");
    return v;
}

// What it has met, or a named error; it is done in time.
template <class Call>
void ends(Call&& call)
{
    const uint64_t begin = now_ns();
    try {
        const Meeting meeting = call();
        for (const std::string& device : meeting.devices) trap_unless(device.size() < 64);
        trap_unless(meeting.decision.engine <= Engine::nccl);
        trap_unless(std::strlen(meeting.decision.start) < sizeof meeting.decision.start);
    } catch (const Error& error) {
        trap_unless(error.what()[0] != '\0');
        trap_unless(std::string(to_string(error.code())) != "unknown");
    }
    trap_unless(now_ns() - begin < 10'000'000'000);
}

void to_rank_0(Input& in)
{
    const uint32_t ranks = 2 + in.byte() % 3;
    std::thread rank_0([&] {
        ends([&] {
            return meet_over_network(address(), visit_of(0, ranks), token, patience,
                                     [](const auto&) { return Decision(); });
        });
    });
    std::vector<Socket> guests;
    const sockaddr_in at = place();
    for (uint32_t i = 0; i < 4 && in.size != 0; ++i) {
        Socket line;
        const Deadline deadline(patience);
        do { // ends when rank 0 listens, or in time
            line = Socket(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        } while (connect(line.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0 &&
                 !deadline.passed());
        Challenge challenge;
        if (!receive_bytes(line.get(), &challenge, sizeof challenge, deadline)) break;
        Visit v = visit_of(1 + i, ranks);
        change(v, in);
        v.proof = proof_of(token, challenge.nonce, v);
        change(v, in);
        send_bytes(line.get(), &v, cut(sizeof v, in), deadline);
        guests.push_back(std::move(line));
    }
    rank_0.join();
}

void from_rank_0(Input& in)
{
    const uint32_t ranks = 2 + in.byte() % 3;
    const Socket listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_in at = place();
    const int yes = 1;
    setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(listener.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0) return;
    listen(listener.get(), 4);
    std::thread rank_1([&] {
        ends([&] { return meet_over_network(address(), visit_of(1, ranks), token, patience, {}); });
    });
    const Deadline deadline(patience);
    Socket line(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    Challenge challenge{Visit{}.magic, nonce()};
    change(challenge, in);
    Visit v;
    if (send_bytes(line.get(), &challenge, cut(sizeof challenge, in), deadline) &&
        receive_bytes(line.get(), &v, sizeof v, deadline)) {
        Reply reply;
        change(reply, in);
        std::vector<char> names(ranks * sizeof(Name), static_cast<char>(in.byte()));
        reply.proof = proof_of(token, both(challenge.nonce, v.nonce), reply,
                               sha256({{names.data(), reply.code == 0 ? names.size() : 0}}));
        change(reply, in);
        send_bytes(line.get(), &reply, cut(sizeof reply, in), deadline);
        send_bytes(line.get(), names.data(), cut(names.size(), in), deadline);
    }
    line = Socket();
    rank_1.join();
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size)
{
    Input in{data, size};
    in.byte() % 2 == 0 ? to_rank_0(in) : from_rank_0(in);
    return 0;
}

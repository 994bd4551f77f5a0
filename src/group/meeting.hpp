// SPDX-License-Identifier: Apache-2.0
// How ranks of several hosts find one another: rank 0 listens at a TCP address that the user names,
// the others come there, say who they are and on which host, and get its decision: which engine,
// and what that needs to start. Nothing stays open behind it. Both ends prove that they know the
// token (proof.hpp), and what they say with it:
//   1. rank 0 sends a Challenge to who has come;
//   2. the rank sends its Visit, with a nonce and a proof over both nonces and the Visit;
//   3. rank 0 sends its Reply, with a proof over both nonces, the Reply and what follows it.
// Who does not know the token is turned away and changes nothing. The line is not encrypted.
#pragma once

#include "member.hpp"
#include "proof.hpp"

#include <functional>

namespace denizen::group {

// What a rank tells. Plain data: it goes through a socket.
struct Visit {
    uint32_t magic = 0x647a6e03; // and version
    uint32_t rank = 0;
    uint32_t ranks = 0;
    uint32_t engine = 0; // Engine
    uint32_t on_gpu = 0;
    char host[76] = {}; // host_name()
    char device[64] = {};
    Digest nonce = {};
    Digest proof = {}; // over what stands before it
};

struct Decision {
    Engine engine = Engine::memory;
    char start[256] = {}; // memory: the path of a socket; nccl: its unique id
};

struct Meeting {
    Decision decision;
    std::vector<std::string> devices; // by rank
};

inline constexpr size_t most_token = 127; // bytes
inline constexpr uint32_t most_ranks = 65536;

bool is_network_address(const std::string& address); // tcp://...

// What is the same for processes that can share memory and a path, and else is not: the kernel's
// boot and the mount namespace; or the variable DENIZEN_GROUP_HOST.
std::string host_name();

// Rank 0 decides, once all are there. Errc::timeout names who is missing; bad_argument.
Meeting meet_over_network(const std::string& address, const Visit& mine, const std::string& token,
                          std::chrono::nanoseconds timeout,
                          const std::function<Decision(const std::vector<Visit>&)>& decide);

} // namespace denizen::group

// SPDX-License-Identifier: Apache-2.0
// How ranks of several hosts find one another: rank 0 listens at a TCP address that the user names,
// the others come there, say who they are and on which host, and get its decision: which engine,
// and what that needs to start. Nothing stays open behind it. Who does not know the token is turned
// away and changes nothing; the line is not encrypted.
#pragma once

#include "seat.hpp"

#include <functional>

namespace denizen::group {

// What a rank tells. Plain data: it goes through a socket.
struct Visit {
    uint32_t magic = 0x647a6e02; // and version
    uint32_t rank = 0;
    uint32_t ranks = 0;
    uint32_t engine = 0; // Engine
    uint32_t on_gpu = 0;
    char host[76] = {}; // host_name()
    char device[64] = {};
    char token[128] = {};
};

struct Decision {
    Engine engine = Engine::memory;
    char start[256] = {}; // memory: the path of a socket; nccl: its unique id
};

struct Meeting {
    Decision decision;
    std::vector<std::string> devices; // by rank
};

inline constexpr uint32_t most_ranks = 65536;

bool is_network_address(const std::string& address); // tcp://...

// What is the same for processes that can share memory and a path, and else is not: the kernel's
// boot and the mount namespace; or the variable DENIZEN_GROUP_HOST.
std::string host_name();

// Rank 0 decides, once all are there. Errc::timeout names who is missing; bad_argument.
Meeting meet_over_network(const std::string& address, const Visit& mine,
                          std::chrono::nanoseconds timeout,
                          const std::function<Decision(const std::vector<Visit>&)>& decide);

} // namespace denizen::group

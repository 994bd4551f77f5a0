// SPDX-License-Identifier: Apache-2.0
// Addresses of sockets as people write them, and sockets that listen there.
#pragma once

#include <string>
#include <sys/socket.h>

namespace denizen::io {

struct Peer {
    sockaddr_storage address{};
    socklen_t bytes = 0;
};

// "127.0.0.1:9000", "[::1]:9000", "name:9000". Errc::bad_argument if it is none, or is not found.
Peer peer_of(const std::string& text);
std::string text_of(const Peer& peer);

// A socket that listens there; `peer` becomes where it does, with its port. Errc::failed.
int listen_at(Peer& peer, bool nonblocking);

} // namespace denizen::io

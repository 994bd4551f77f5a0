// SPDX-License-Identifier: Apache-2.0
#include "io/network.hpp"

#include <denizen/base/error.hpp>

#include <cerrno>
#include <cstring>
#include <netdb.h>
#include <unistd.h>

namespace denizen::io {

Peer peer_of(const std::string& text)
{
    const size_t colon = text.rfind(':');
    std::string name = text.substr(0, colon == std::string::npos ? 0 : colon);
    const bool brackets = name.size() > 2 && name.front() == '[' && name.back() == ']';
    if (brackets) {
        name = name.substr(1, name.size() - 2);
    }
    const std::string port = colon == std::string::npos ? "" : text.substr(colon + 1);
    const bool digits = !port.empty() && port.find_first_not_of("0123456789") == std::string::npos;
    if (name.empty() || name.find('\0') != std::string::npos || !digits ||
        (!brackets && name.find(':') != std::string::npos)) {
        throw denizen::Error(Errc::bad_argument,
                             std::string("\"") + text.c_str() +
                                 "\" is no address; use name:port, as 127.0.0.1:9000 or "
                                 "[::1]:9000");
    }
    addrinfo wanted{};
    wanted.ai_family = AF_UNSPEC;
    wanted.ai_socktype = SOCK_STREAM;
    wanted.ai_flags = AI_NUMERICSERV;
    addrinfo* found = nullptr;
    const int failed = getaddrinfo(name.c_str(), port.c_str(), &wanted, &found);
    if (failed != 0) {
        throw denizen::Error(Errc::bad_argument,
                             "the address \"" + text + "\" is not found: " + gai_strerror(failed));
    }
    Peer peer;
    peer.bytes = found->ai_addrlen;
    std::memcpy(&peer.address, found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    return peer;
}

std::string text_of(const Peer& peer)
{
    char name[NI_MAXHOST];
    char port[NI_MAXSERV];
    if (getnameinfo(reinterpret_cast<const sockaddr*>(&peer.address), peer.bytes, name, sizeof name,
                    port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
        return "?";
    }
    const std::string host =
        peer.address.ss_family == AF_INET6 ? "[" + std::string(name) + "]" : std::string(name);
    return host + ":" + port;
}

int listen_at(Peer& peer, bool nonblocking)
{
    const int fd = ::socket(peer.address.ss_family,
                            SOCK_STREAM | SOCK_CLOEXEC | (nonblocking ? SOCK_NONBLOCK : 0), 0);
    const int on = 1;
    auto* address = reinterpret_cast<sockaddr*>(&peer.address);
    socklen_t bytes = sizeof peer.address;
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        bind(fd, address, peer.bytes) != 0 || listen(fd, SOMAXCONN) != 0 ||
        getsockname(fd, address, &bytes) != 0) {
        const int error = errno;
        const std::string where = text_of(peer);
        if (fd >= 0) {
            ::close(fd);
        }
        throw denizen::Error(Errc::failed,
                             "cannot listen at " + where + ": " + std::strerror(error));
    }
    peer.bytes = bytes;
    return fd;
}

} // namespace denizen::io

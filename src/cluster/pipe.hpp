// SPDX-License-Identifier: Apache-2.0
// What carries a stream's bytes (stream.cpp): a socket (socket_pipe.cpp), or UCX (ucx.cpp). One
// thread sends, one receives. That bytes were taken says nothing of their arrival.
#pragma once

#include <denizen/cluster/ucx.hpp>

#include <memory>
#include <string>
#include <sys/types.h>
#include <sys/uio.h>

namespace denizen::cluster {

class Pipe {
public:
    virtual ~Pipe() = default;
    // How many of the bytes it has taken, from the first; 0: none now; -1: it has ended.
    virtual ssize_t send(const iovec* parts, int count) = 0;
    virtual ssize_t receive(void* to, size_t room) = 0;
    // Until something may have come, at most so long.
    virtual void wait(int ms) = 0;
    virtual void end() = 0;
};

// Over a connected socket, which stays its owner's.
std::unique_ptr<Pipe> make_socket_pipe(int socket);
// Beside one. `peer`: the other side's address.
std::unique_ptr<Pipe> make_ucx_pipe(int socket, std::shared_ptr<UcxEnd> end,
                                    const std::string& peer);

} // namespace denizen::cluster

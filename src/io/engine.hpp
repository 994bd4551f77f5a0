// SPDX-License-Identifier: Apache-2.0
// What does the operations of a service: io_uring, or the calling thread. One thread uses it.
#pragma once

#include <cstdint>
#include <memory>
#include <sys/socket.h>
#include <sys/uio.h>
#include <vector>

namespace denizen::io {

struct Operation {
    enum class Kind : uint8_t { read, write, receive, send, sync, accept, connect };

    Kind kind = Kind::read;
    int fd = -1;
    uint64_t offset = 0;      // of read and write
    std::vector<iovec> parts; // where to, where from; of a read one
    msghdr message{};         // of a send
    sockaddr_storage peer{};  // of a connect
    socklen_t peer_bytes = 0;
    // Once it is finished: bytes or a descriptor, or a negative errno. It may be fewer bytes than
    // asked for.
    int64_t result = 0;
};

class Doer {
public:
    virtual ~Doer() = default;
    virtual const char* name() const = 0;
    // It is the engine's until finished() gives it back.
    virtual void start(Operation& operation) = 0;
    // Begins what was started since the last call.
    virtual void submit() = 0;
    // The next that is finished, in any order; null if none is. Does not wait.
    virtual Operation* finished() = 0;
    // It is finished soon, with -ECANCELED unless it was done before.
    virtual void cancel(Operation& operation) = 0;
    virtual uint64_t submissions() const { return 0; }
    // Whether sockets must not block.
    virtual bool wants_nonblocking() const = 0;
};

// Null where the kernel has no io_uring, or not with these operations, or does not allow it.
std::unique_ptr<Doer> make_uring(uint32_t operations);
std::unique_ptr<Doer> make_portable();

} // namespace denizen::io

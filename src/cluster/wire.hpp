// SPDX-License-Identifier: Apache-2.0
// What carries a link's messages. One thread sends, one receives (link.cpp).
#pragma once

#include "ahead.hpp"

#include <denizen/actor/detail/system_op.hpp>
#include <denizen/cluster/link.hpp>
#include <denizen/wire/slot.hpp>

#include <functional>
#include <memory>
#include <string>
#include <unistd.h>

namespace denizen::cluster {

inline constexpr uint32_t longest_payload = max_length + stamp_bytes; // of a message that is traced

// Closes it at its end.
class Descriptor {
public:
    explicit Descriptor(int fd) : fd_(fd) {}
    ~Descriptor()
    {
        if (fd_ >= 0) {
            ::close(fd_);
        }
    }
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    int get() const { return fd_; }
    int release()
    {
        const int fd = fd_;
        fd_ = -1;
        return fd;
    }
    void reset(int fd)
    {
        if (fd_ >= 0) {
            ::close(fd_);
        }
        fd_ = fd;
    }

private:
    int fd_;
};

enum class End {
    open,
    broken,  // can be taken up again
    gone,    // the other process has ended
    left,    // the other side has given us up
    garbage, // it has sent what is no message
};

class Wire {
public:
    virtual ~Wire() = default;

    // ---- the sender's

    // False: no room now; flush() all the same. `urgent`: it may have the last of the room.
    virtual bool send(const Header& h, const void* payload, bool urgent) = 0;
    // Makes what was sent be on its way; false if some of it has to wait.
    virtual bool flush() = 0;
    // A sign of life, every now and then.
    virtual void beat() = 0;
    // How long the sender may sleep at most, in ns.
    virtual uint64_t longest_sleep() const = 0;
    // Messages that the other side has taken over, and whether these are all that were sent.
    virtual uint64_t acknowledged() const = 0;
    virtual bool all_acknowledged() const = 0;
    // After the end: what has not been; the same each time.
    using Use = std::function<void(const Header&, const void*)>;
    virtual void unacknowledged(const Use& use) = 0;

    // ---- the receiver's

    // The next message, if it has come and is not urgent; `payload` has `room` bytes.
    virtual bool receive(Header& h, void* payload, uint32_t room) = 0;
    // The one that receive() gave has been delivered.
    virtual void done() = 0;
    // The next urgent one that has come, out of its turn, and that it has been delivered. Also
    // while the one of receive() is not done().
    virtual bool receive_urgent(Header& h, void* payload, uint32_t room) = 0;
    virtual void done_urgent() = 0;
    // True: the sender should be woken, to say how far we are.
    virtual bool should_tell() { return false; }
    // While a message cannot be delivered: sees to what else comes.
    virtual void pump() {}
    // Before rest(), and with what excludes other receivers: `armed`: what comes ends the rest.
    // False: something has come.
    virtual bool lie_down(bool armed) = 0;
    // Waits until something may have come, or so long; at most some ms. Others may receive.
    virtual void rest(uint64_t ns) = 0;
    // Others who receive while this thread rests: what comes is to end the rest, or need not any
    // more. False: something has come already.
    virtual bool arm() = 0;
    virtual void disarm() = 0;
    // Changes with every sign of life.
    virtual uint64_t signs() const = 0;
    // Looks whether the other side is there.
    virtual End end() = 0;

    // ---- either's

    virtual void give_up() = 0; // tells the other side that it is lost to us
    virtual uint64_t halt() { return 0; }
    virtual void resume(int, uint64_t, uint64_t, std::shared_ptr<UcxEnd>, const std::string&) {}
};

// `urgent`: which messages are; nothing if none are.
std::unique_ptr<Wire> make_rings(int memory, int socket, bool first, IsUrgent urgent);
std::unique_ptr<Wire> make_stream(int socket, uint64_t nonce, std::shared_ptr<UcxEnd> ucx,
                                  const std::string& address, IsUrgent urgent);

} // namespace denizen::cluster

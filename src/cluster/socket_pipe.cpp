// SPDX-License-Identifier: Apache-2.0
// A stream's bytes over a connected socket.
#include "pipe.hpp"

#include <cerrno>
#include <poll.h>
#include <sys/socket.h>

namespace denizen::cluster {
namespace {

class SocketPipe : public Pipe {
public:
    explicit SocketPipe(int socket) : socket_(socket) {}
    ssize_t send(const iovec* parts, int count) override
    {
        msghdr message{};
        message.msg_iov = const_cast<iovec*>(parts);
        message.msg_iovlen = static_cast<size_t>(count);
        const ssize_t n = sendmsg(socket_, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
        return n >= 0 ? n : none_or_ended();
    }
    ssize_t receive(void* to, size_t room) override
    {
        const ssize_t n = recv(socket_, to, room, MSG_DONTWAIT);
        return n > 0 ? n : n == 0 ? -1 : none_or_ended();
    }
    void wait(int ms) override
    {
        pollfd one{socket_, POLLIN, 0};
        poll(&one, 1, ms);
    }
    void end() override { shutdown(socket_, SHUT_RDWR); }

private:
    static ssize_t none_or_ended() { return errno == EAGAIN || errno == EINTR ? 0 : -1; }

    int socket_;
};

} // namespace

std::unique_ptr<Pipe> make_socket_pipe(int socket) { return std::make_unique<SocketPipe>(socket); }

} // namespace denizen::cluster

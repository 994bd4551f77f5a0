// SPDX-License-Identifier: Apache-2.0
// Operations by the calling thread: those on files at once, those on sockets when poll() says that
// they do not block.
#include "io/engine.hpp"

#include <algorithm>
#include <cerrno>
#include <deque>
#include <poll.h>
#include <unistd.h>

namespace denizen::io {
namespace {

class Portable final : public Doer {
public:
    const char* name() const override { return "portable"; }
    bool wants_nonblocking() const override { return true; }

    void start(Operation& o) override
    {
        if (o.kind == Operation::Kind::connect) {
            const auto* peer = reinterpret_cast<const sockaddr*>(&o.peer);
            o.result = ::connect(o.fd, peer, o.peer_bytes) == 0 ? 0 : -errno;
            if (o.result == -EINPROGRESS) {
                waiting_.push_back(&o);
            } else {
                done_.push_back(&o);
            }
        } else if (attempt(o)) {
            done_.push_back(&o);
        } else {
            waiting_.push_back(&o);
        }
    }

    void submit() override {}

    Operation* finished() override
    {
        if (done_.empty() && !waiting_.empty()) {
            look();
        }
        if (done_.empty()) {
            return nullptr;
        }
        Operation* o = done_.front();
        done_.pop_front();
        return o;
    }

    void cancel(Operation& o) override
    {
        const auto found = std::find(waiting_.begin(), waiting_.end(), &o);
        if (found != waiting_.end()) {
            waiting_.erase(found);
            o.result = -ECANCELED;
            done_.push_back(&o);
        }
    }

private:
    // False: it would block.
    static bool attempt(Operation& o)
    {
        do { // ends with the first call that no signal interrupts
            o.result = attempt_once(o);
        } while (o.result == -EINTR);
        return o.result != -EAGAIN;
    }

    static int64_t attempt_once(Operation& o)
    {
        const int parts = static_cast<int>(o.parts.size());
        int64_t n = -1;
        switch (o.kind) {
        case Operation::Kind::read:
            n = preadv(o.fd, o.parts.data(), parts, static_cast<off_t>(o.offset));
            break;
        case Operation::Kind::write:
            n = pwritev(o.fd, o.parts.data(), parts, static_cast<off_t>(o.offset));
            break;
        case Operation::Kind::receive:
            n = recv(o.fd, o.parts[0].iov_base, o.parts[0].iov_len, MSG_DONTWAIT);
            break;
        case Operation::Kind::send:
            n = sendmsg(o.fd, &o.message, MSG_DONTWAIT | MSG_NOSIGNAL);
            break;
        case Operation::Kind::sync: n = fdatasync(o.fd); break;
        case Operation::Kind::accept: n = accept4(o.fd, nullptr, nullptr, SOCK_CLOEXEC); break;
        case Operation::Kind::connect: {
            int error = 0;
            socklen_t bytes = sizeof error;
            getsockopt(o.fd, SOL_SOCKET, SO_ERROR, &error, &bytes);
            return -error;
        }
        }
        return n < 0 ? -errno : n;
    }

    void look()
    {
        polled_.clear();
        for (const Operation* o : waiting_) {
            const bool out =
                o->kind == Operation::Kind::send || o->kind == Operation::Kind::connect;
            polled_.push_back({o->fd, static_cast<short>(out ? POLLOUT : POLLIN), 0});
        }
        if (poll(polled_.data(), polled_.size(), 0) <= 0) {
            return;
        }
        std::vector<Operation*> still;
        for (size_t i = 0; i < waiting_.size(); ++i) {
            const bool done = polled_[i].revents != 0 && attempt(*waiting_[i]);
            if (done) {
                done_.push_back(waiting_[i]);
            } else {
                still.push_back(waiting_[i]);
            }
        }
        waiting_ = std::move(still);
    }

    std::vector<Operation*> waiting_;
    std::vector<pollfd> polled_;
    std::deque<Operation*> done_;
};

} // namespace

std::unique_ptr<Doer> make_portable() { return std::make_unique<Portable>(); }

} // namespace denizen::io

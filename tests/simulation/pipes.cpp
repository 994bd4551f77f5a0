// SPDX-License-Identifier: Apache-2.0
#include "pipes.hpp"

#include "simulator.hpp"

#include <cluster/pipe.hpp>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <sys/socket.h>

namespace simulation {
namespace {

constexpr size_t most_under_way = 200; // bytes: about two of the longer messages

struct Cable {
    struct Way {
        std::deque<unsigned char> bytes;
        std::condition_variable come;
    };
    std::mutex lock;
    Way to[2]; // this side
    bool ended = false;

    void end()
    {
        const std::lock_guard guard(lock);
        if (ended) {
            return;
        }
        ended = true;
        for (Way& w : to) {
            w.bytes.resize(draw(static_cast<uint32_t>(w.bytes.size()) + 1));
            w.come.notify_all();
        }
    }
};

std::mutex ends_lock;
std::map<int, std::pair<std::shared_ptr<Cable>, uint32_t>> ends; // that nobody has taken yet

class CablePipe : public denizen::cluster::Pipe {
public:
    CablePipe(std::shared_ptr<Cable> cable, uint32_t side) : cable_(std::move(cable)), side_(side)
    {
    }
    ~CablePipe() override { cable_->end(); }
    CablePipe(const CablePipe&) = delete;
    CablePipe& operator=(const CablePipe&) = delete;

    ssize_t send(const iovec* parts, int count) override
    {
        const std::lock_guard guard(cable_->lock);
        if (cable_->ended) {
            return -1;
        }
        Cable::Way& way = cable_->to[1 - side_];
        size_t n = some_of(most_under_way - way.bytes.size());
        ssize_t taken = 0;
        for (int i = 0; i < count && n != 0; ++i) {
            const auto* bytes = static_cast<const unsigned char*>(parts[i].iov_base);
            const size_t part = std::min(n, parts[i].iov_len);
            way.bytes.insert(way.bytes.end(), bytes, bytes + part);
            taken += static_cast<ssize_t>(part);
            n -= part;
        }
        way.come.notify_all();
        return taken;
    }
    ssize_t receive(void* to, size_t room) override
    {
        const std::lock_guard guard(cable_->lock);
        std::deque<unsigned char>& bytes = cable_->to[side_].bytes;
        if (bytes.empty()) {
            return cable_->ended ? -1 : 0;
        }
        const auto n = static_cast<ptrdiff_t>(some_of(std::min(room, bytes.size())));
        std::copy_n(bytes.begin(), n, static_cast<unsigned char*>(to));
        bytes.erase(bytes.begin(), bytes.begin() + n);
        return n;
    }
    void wait(int ms) override
    {
        std::unique_lock guard(cable_->lock);
        Cable::Way& way = cable_->to[side_];
        way.come.wait_for(guard, std::chrono::milliseconds(ms),
                          [&] { return cable_->ended || !way.bytes.empty(); });
    }
    void end() override { cable_->end(); }

private:
    // Most often all, else less.
    static size_t some_of(size_t n)
    {
        return n == 0 || draw(4) != 1 ? n : draw(static_cast<uint32_t>(n) + 1);
    }

    std::shared_ptr<Cable> cable_;
    uint32_t side_;
};

} // namespace

void connect(int (&sockets)[2])
{
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) != 0) {
        fail("no sockets for a link");
    }
    const auto cable = std::make_shared<Cable>();
    const std::lock_guard guard(ends_lock);
    for (uint32_t side = 0; side < 2; ++side) {
        ends[sockets[side]] = {cable, side};
    }
}

} // namespace simulation

namespace denizen::cluster {

uint64_t row_bytes = 512; // row.hpp

std::unique_ptr<Pipe> make_socket_pipe(int socket)
{
    const std::lock_guard guard(simulation::ends_lock);
    const auto [cable, side] = simulation::ends.extract(socket).mapped();
    return std::make_unique<simulation::CablePipe>(cable, side);
}

} // namespace denizen::cluster

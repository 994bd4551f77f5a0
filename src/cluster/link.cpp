// SPDX-License-Identifier: Apache-2.0
// What a program, and its workers, ask of a link (pair.hpp); and links over each of the wires.
#include "pair.hpp"
#include "quiet_thread.hpp"

#include <atomic>
#include <mutex>
#include <thread>

namespace denizen {

void Link::resume(int socket, uint64_t, uint64_t, std::shared_ptr<UcxEnd>, const std::string&)
{
    const cluster::Descriptor closes(socket);
    throw Error(Errc::bad_argument, "only a stream is taken up again");
}

namespace cluster {
namespace {

uint64_t ns_of(std::chrono::nanoseconds t) { return static_cast<uint64_t>(t.count()); }

} // namespace

Pair::Pair(AnyRuntime& runtime, uint32_t peer, std::unique_ptr<Wire> wire,
           const LinkOptions& options)
    : door_(runtime.far()), host_(peer), wire_(std::move(wire)), urgent_(door_.has_urgent()),
      deadline_(ns_of(options.deadline)), silence_(deadline_ - deadline_ / 32),
      spin_(ns_of(options.spin)), out_data_(door_.room()), out_hurried_(door_.room()),
      in_data_(door_.room()), in_hurried_(door_.room()), helps_in_(spin_ >= nap_ns)
{
    if (peer >= door_.hosts() || peer == door_.own()) {
        throw Error(Errc::bad_argument, "a link of host " + std::to_string(door_.own()) +
                                            " to host " + std::to_string(peer) + " of " +
                                            std::to_string(door_.hosts()));
    }
    if (deadline_ == 0) {
        throw Error(Errc::bad_argument, "a link's deadline is 0 ms; use 1 or more");
    }
    in_ = quiet_thread("denizen in", [this] { receive(); });
    out_ = quiet_thread("denizen out", [this] { send(); });
    door_.lend(host_, this);
}

Pair::~Pair() { Pair::close(); }

std::string Pair::why() const
{
    const std::lock_guard guard(lock_);
    return why_;
}

LinkCounts Pair::counts() const
{
    const FarCounts c = door_.counts(host_);
    // Of a lost host's: all but what is buried. The sender says when it has seen to that.
    const uint64_t acknowledged =
        settled_.load(std::memory_order_acquire) ? c.taken - c.lost : wire_->acknowledged();
    const uint64_t looks = out_turn_.looks.load(std::memory_order_relaxed);
    return {c.taken, acknowledged, c.delivered, c.refused, c.lost, resumed_, by_workers_, looks};
}

bool Pair::idle()
{
    if (!door_.empty(host_) || holds_.load(std::memory_order_acquire) || !door_.none_aside(host_)) {
        return false;
    }
    return state() == State::lost
               ? settled_.load(std::memory_order_acquire)
               : wire_->all_acknowledged() && !undelivered_.load(std::memory_order_acquire);
}

bool Pair::settled() const
{
    return settled_.load(std::memory_order_acquire) && heard_.load(std::memory_order_acquire);
}

void Pair::lose(const std::string& why)
{
    const std::lock_guard guard(lock_);
    if (told_.empty()) {
        told_ = why; // the receiver ends it: what it has taken by then is acknowledged
        told_now_.store(true, std::memory_order_release);
    }
}

void Pair::pause(bool on)
{
    {
        const std::lock_guard mine(out_lock_);
        pause_.store(on, std::memory_order_release);
        pauses_.store(false, std::memory_order_release); // until a batch sees it
    }
    door_.wake(host_);
}

bool Pair::paused()
{
    return pauses_.load(std::memory_order_acquire) && wire_->all_acknowledged() &&
           !undelivered_.load(std::memory_order_acquire);
}

void Pair::resume(int socket, uint64_t nonce, uint64_t arrived, std::shared_ptr<UcxEnd> ucx,
                  const std::string& address)
{
    Descriptor closes(socket);
    const std::lock_guard guard(lock_);
    if (state_ == State::lost) {
        throw Error(Errc::host_lost, why_);
    }
    wire_->resume(closes.release(), nonce, arrived, std::move(ucx), address);
    state_.store(State::up, std::memory_order_release);
    ++resumed_;
    door_.wake(host_);
}

void Pair::close()
{
    door_.lend(host_, nullptr);
    stop_.store(true, std::memory_order_release);
    door_.wake(host_);
    for (std::thread* t : {&in_, &out_}) {
        if (t->joinable()) {
            t->join();
        }
    }
}

bool Pair::look()
{
    if (stop_.load(std::memory_order_relaxed) || state() == State::lost) {
        return false;
    }
    uint32_t n = 0;
    if (helps_in_ || lent_.load(std::memory_order_relaxed)) {
        in_turn_.look();
        in_turn_.worker.store(true, std::memory_order_relaxed);
        if (const std::unique_lock mine(in_lock_, std::try_to_lock); mine) {
            if (state() == State::lost) {
                return false;
            }
            if (in_turn_.naps) {
                wire_->disarm();
            }
            if (!in_data_.holds || urgent_ || ++vain_looks_ % looks_per_try == 0) {
                n = deliver_batch(true);
                by_workers_ += n;
                if ((in_data_.holds || in_hurried_.holds) && vain_looks_ % looks_per_pump == 0) {
                    wire_->pump();
                }
            }
        }
    }
    out_turn_.look();
    if (const std::unique_lock mine(out_lock_, std::try_to_lock); mine) {
        if (state() == State::lost) {
            return false;
        }
        const uint32_t sent = send_batch().n;
        by_workers_ += sent;
        if (n + sent != 0) {
            worked_ = now_ns();
            looks_on_ = true;
        } else if (looks_on_ && ++asked_ % 16 == 0) {
            looks_on_ = now_ns() - worked_ < spin_;
        }
        return looks_on_;
    }
    return false;
}

} // namespace cluster

namespace {

cluster::IsUrgent urgent_of(AnyRuntime& runtime)
{
    FarDoor& door = runtime.far();
    return door.has_urgent() ? [&door](const Header& h) { return door.urgent(h); }
                             : cluster::IsUrgent();
}

} // namespace

std::unique_ptr<Link> Link::rings(AnyRuntime& runtime, uint32_t peer, int memory, int socket,
                                  bool first, const LinkOptions& options)
{
    return std::make_unique<cluster::Pair>(
        runtime, peer, cluster::make_rings(memory, socket, first, urgent_of(runtime)), options);
}

std::unique_ptr<Link> Link::stream(AnyRuntime& runtime, uint32_t peer, int socket, uint64_t nonce,
                                   const LinkOptions& options, std::shared_ptr<UcxEnd> ucx,
                                   const std::string& address)
{
    return std::make_unique<cluster::Pair>(
        runtime, peer,
        cluster::make_stream(socket, nonce, std::move(ucx), address, urgent_of(runtime)), options);
}

} // namespace denizen

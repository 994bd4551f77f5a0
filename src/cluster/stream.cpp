// SPDX-License-Identifier: Apache-2.0
// The wire over a stream of bytes: a socket, or UCX beside one (pipe.hpp). What one side sends is
// one long row of messages, and a position is a byte of it: the sequence number of a message is
// where it begins. Frames (frame.hpp) cut the row, each with whole messages.
// A message keeps its place in `kept` until it is acknowledged. If the stream breaks and is taken
// up again, it goes on from where the other side says that it is: nothing is lost, nothing comes
// twice. A receiver lets the other side send a window ahead of what it has delivered, and keeps
// that much.
#include "frame.hpp"
#include "pipe.hpp"
#include "row.hpp"
#include "wire.hpp"

#include <denizen/base/clock.hpp>
#include <denizen/wire/wait.hpp>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <poll.h>
#include <sys/uio.h>
#include <vector>

namespace denizen::cluster {
namespace {

constexpr uint64_t reserve = window / 8; // of the sender's: for urgent messages
constexpr uint64_t tell_ns = 10'000'000; // how late an acknowledgement may be
constexpr int nap_ms = 5;

std::unique_ptr<Pipe> make_pipe(int socket, std::shared_ptr<UcxEnd> ucx, const std::string& address)
{
    if (ucx) {
        return make_ucx_pipe(socket, std::move(ucx), address);
    }
    return make_socket_pipe(socket);
}

class Stream : public Wire {
public:
    Stream(int socket, uint64_t nonce, std::shared_ptr<UcxEnd> ucx, const std::string& address,
           IsUrgent urgent)
        : urgent_(std::move(urgent)), socket_(std::make_shared<Descriptor>(socket)),
          pipe_(make_pipe(socket, std::move(ucx), address)), nonce_(nonce),
          in_(std::make_unique_for_overwrite<unsigned char[]>(room_in))
    {
    }

    // ---- out

    bool send(const Header& h, const void* payload, bool urgent) override
    {
        const uint32_t size = size_of(h.length);
        // Acquire: partners of the releases in take_frame(): what was acknowledged may be
        // overwritten.
        const uint64_t until = std::min(limit_.load(std::memory_order_acquire),
                                        acknowledged_.load(std::memory_order_acquire) + window);
        if (written_ + size + (urgent_ && !urgent ? reserve : 0) > until) {
            return false;
        }
        const Head head{h.destination, h.sender, h.type | h.flags << 10 | h.length << 15, 0};
        const uint32_t pad = 0;
        kept_.write(written_, &head, sizeof head);
        kept_.write(written_ + sizeof head, payload, h.length);
        kept_.write(written_ + sizeof head + h.length, &pad, size - sizeof head - h.length);
        written_ += size;
        // Release: partner of the acquire in whole_until(), behind which the receiver reads these
        // heads.
        written_told_.store(written_, std::memory_order_release);
        unflushed_ += size;
        if (unflushed_ >= most) {
            flush();
        }
        return true;
    }
    bool flush() override
    {
        unflushed_ = 0;
        const std::lock_guard guard(out_lock_);
        return write_out(false);
    }
    void beat() override
    {
        const std::lock_guard guard(out_lock_);
        write_out(true);
    }
    uint64_t longest_sleep() const override { return tell_ns; }
    bool all_acknowledged() const override
    {
        return acknowledged_.load(std::memory_order_acquire) ==
               written_told_.load(std::memory_order_relaxed);
    }
    uint64_t acknowledged() const override { return acknowledged_messages_; }
    void unacknowledged(const Use& use) override
    {
        std::vector<unsigned char> payload(longest_payload);
        for (uint64_t at = acknowledged_; at != written_;) { // ends: at grows by whole messages
            Head head{};
            kept_.read(at, &head, sizeof head);
            const Header h = header_of(head);
            kept_.read(at + sizeof head, payload.data(), h.length);
            use(h, payload.data());
            at += size_of(h.length);
        }
    }

    // ---- in

    bool receive(Header& h, void* payload, uint32_t room) override
    {
        for (;;) { // ends: what has arrived
            if (next_ == arrived_) {
                pump();
                if (next_ == arrived_) {
                    return false;
                }
            }
            const uint64_t at = next_;
            if (!read(at, h, payload, room)) {
                return false;
            }
            const bool hurried = urgent_ && urgent_(h);
            if (hurried && !ahead_.pass(at)) {
                return false;
            }
            next_ += size_of(h.length);
            if (!hurried) {
                return true;
            }
            delivered_.store(next_, std::memory_order_relaxed);
        }
    }
    void done() override { delivered_.store(next_, std::memory_order_relaxed); }
    bool receive_urgent(Header& h, void* payload, uint32_t room) override
    {
        pump();
        const uint64_t end = arrived_;
        for (uint64_t at = ahead_.from(next_); at != end && !ahead_.any();) { // ends: at grows
            Head head{};
            row_.read(at, &head, sizeof head);
            const uint64_t next = at + size_of(head.kind >> 15);
            ahead_.see(at, next, urgent_(header_of(head)));
            at = next;
        }
        if (!ahead_.any() || !read(ahead_.first(), h, payload, room)) {
            return false;
        }
        ahead_.take_first();
        return true;
    }
    void done_urgent() override {} // that is told when its turn comes
    bool should_tell() override
    {
        return delivered_.load(std::memory_order_relaxed) - told_.load(std::memory_order_relaxed) >
               window / 8;
    }
    void pump() override
    {
        const std::lock_guard guard(in_lock_);
        if (broken_ || garbage_) {
            return;
        }
        const ssize_t n = pipe_->receive(in_.get() + filled_, room_in - filled_);
        if (n > 0) {
            filled_ += static_cast<size_t>(n);
            take_frames();
        } else if (n < 0) {
            broken_ = true;
        }
    }
    bool lie_down(bool armed) override
    {
        armed_ = armed;
        seen_ = load<Scope::system, Order::acquire>(&rung_); // partner: arm()
        return true;
    }
    void rest(uint64_t ns) override
    {
        if (!armed_) {
            futex_wait(&rung_, seen_, ns);
            return;
        }
        std::shared_ptr<Descriptor> socket; // for as long as this waits for it
        std::shared_ptr<Pipe> pipe;
        {
            const std::lock_guard guard(in_lock_);
            socket = socket_;
            pipe = pipe_;
        }
        if (broken_) {
            poll(nullptr, 0, 1);
            return;
        }
        pipe->wait(nap_ms);
    }
    // What comes ends only a rest that waits for the socket: another one is ended now.
    bool arm() override
    {
        fetch_add<Scope::system, Order::release>(&rung_, 1u); // partner: lie_down()
        futex_wake_all(&rung_);
        return true;
    }
    void disarm() override {}
    uint64_t signs() const override { return signs_.load(std::memory_order_relaxed); }
    End end() override { return garbage_ ? End::garbage : broken_ ? End::broken : End::open; }

    // ---- either

    void give_up() override
    {
        const std::scoped_lock guard(out_lock_, in_lock_);
        pipe_->end();
        broken_ = true;
    }
    uint64_t halt() override
    {
        give_up();
        return arrived_.load(std::memory_order_acquire);
    }
    void resume(int socket, uint64_t nonce, uint64_t arrived, std::shared_ptr<UcxEnd> ucx,
                const std::string& address) override
    {
        Descriptor fresh(socket);
        auto pipe = make_pipe(socket, std::move(ucx), address);
        const std::scoped_lock guard(out_lock_, in_lock_);
        if (uint64_t messages = 0; !whole_until(arrived, messages)) {
            throw Error(Errc::bad_argument,
                        "the other side says that " + std::to_string(arrived) +
                            " bytes have arrived; " + std::to_string(acknowledged_) +
                            " were acknowledged and " + std::to_string(written_told_) +
                            " written, and a message begins there");
        }
        pipe_ = std::move(pipe);
        socket_ = std::make_shared<Descriptor>(fresh.release());
        nonce_ = nonce;
        framed_ = arrived;
        frame_left_ = 0;
        filled_ = 0;
        told_ = 0;
        signs_.fetch_add(1, std::memory_order_relaxed);
        broken_ = false;
    }

private:
    // A message that has arrived; false: it is longer than any there is.
    bool read(uint64_t at, Header& h, void* payload, uint32_t room)
    {
        Head head{};
        row_.read(at, &head, sizeof head);
        h = header_of(head);
        if (h.length > room) {
            garbage_ = true;
            return false;
        }
        row_.read(at + sizeof head, payload, h.length);
        return true;
    }

    // With out_lock_: writes what the socket takes. True: nothing is left.
    bool write_out(bool sign)
    {
        for (;;) { // ends: when all is written, or the socket takes no more
            if (broken_) {
                return true; // what is kept waits for resume()
            }
            if (frame_left_ == 0 && !cut_frame(sign)) {
                return true;
            }
            sign = false;
            iovec parts[3];
            int count = 0;
            const size_t whole = sizeof(Frame) + frame_.bytes;
            size_t from = whole - frame_left_;
            if (from < sizeof(Frame)) {
                parts[count++] = {reinterpret_cast<unsigned char*>(&frame_) + from,
                                  sizeof(Frame) - from};
                from = sizeof(Frame);
            }
            kept_.each(frame_.position + (from - sizeof(Frame)), whole - from,
                       [&](unsigned char* p, size_t n) { parts[count++] = {p, n}; });
            const ssize_t n = pipe_->send(parts, count);
            if (n == 0) {
                return false;
            }
            if (n < 0) {
                broken_ = true;
                return true;
            }
            frame_left_ -= static_cast<size_t>(n);
        }
    }

    // The next frame, if there is something to say.
    bool cut_frame(bool sign)
    {
        const uint64_t delivered = delivered_.load(std::memory_order_relaxed);
        const uint64_t told = told_.load(std::memory_order_relaxed);
        if (framed_ == written_ && !sign && delivered == told) {
            return false;
        }
        const uint64_t now = now_ns();
        const bool late =
            delivered != told && (now - told_at_ >= tell_ns || delivered - told > window / 8);
        if (framed_ == written_ && !sign && !late) {
            return false;
        }
        uint32_t count = 0;
        uint64_t end = framed_;
        while (end != written_) { // ends: end grows by whole messages
            Head head{};
            kept_.read(end, &head, sizeof head);
            const uint32_t size = size_of(head.kind >> 15);
            if (count != 0 && end + size - framed_ > most) {
                break;
            }
            end += size;
            ++count;
        }
        frame_ = {frame_magic,
                  count,
                  nonce_,
                  framed_,
                  delivered,
                  delivered + window,
                  static_cast<uint32_t>(end - framed_),
                  0};
        framed_ = end;
        frame_left_ = sizeof(Frame) + frame_.bytes;
        told_.store(delivered, std::memory_order_relaxed);
        told_at_ = now;
        return true;
    }

    // With in_lock_: all whole frames that have come.
    void take_frames()
    {
        size_t at = 0;
        while (filled_ - at >= sizeof(Frame)) { // ends: each frame has a head
            Frame f;
            std::memcpy(&f, in_.get() + at, sizeof f);
            if (f.magic != frame_magic || f.nonce != nonce_ || f.zero != 0 ||
                f.bytes > most + longest || f.position != arrived_ || f.arrived < acknowledged_ ||
                f.limit < f.arrived || f.limit > f.arrived + window ||
                f.position + f.bytes > delivered_ + window) {
                garbage_ = true;
                return;
            }
            if (filled_ - at < sizeof f + f.bytes) {
                break;
            }
            if (!whole_messages(in_.get() + at + sizeof f, f)) {
                garbage_ = true;
                return;
            }
            uint64_t messages = 0;
            if (!whole_until(f.arrived, messages)) {
                garbage_ = true;
                return;
            }
            row_.write(arrived_, in_.get() + at + sizeof f, f.bytes);
            // Release: partner of position().
            arrived_.store(arrived_ + f.bytes, std::memory_order_release);
            // In front of the release: who sees that all bytes are acknowledged sees this count,
            // too.
            acknowledged_messages_.fetch_add(messages, std::memory_order_relaxed);
            // Releases: partners of the acquires in send() and all_acknowledged().
            acknowledged_.store(f.arrived, std::memory_order_release);
            limit_.store(f.limit, std::memory_order_release);
            signs_.fetch_add(1, std::memory_order_relaxed);
            at += sizeof f + f.bytes;
        }
        std::memmove(in_.get(), in_.get() + at, filled_ - at);
        filled_ -= at;
    }

    // With in_lock_: whether `position` is where a message of our row begins or the row ends, and
    // how many there are from what was acknowledged before until there. Elsewhere the bytes of a
    // payload would be taken for a head.
    bool whole_until(uint64_t position, uint64_t& messages)
    {
        const uint64_t end = written_told_.load(std::memory_order_acquire); // partner: send()
        uint64_t at = acknowledged_.load(std::memory_order_relaxed);
        if (position > end) {
            return false;
        }
        for (messages = 0; at < position; ++messages) { // ends: at grows by whole messages
            Head head{};
            kept_.read(at, &head, sizeof head);
            at += size_of(head.kind >> 15);
        }
        return at == position;
    }

    IsUrgent urgent_;                    // or none are
    std::shared_ptr<Descriptor> socket_; // lives longer than the pipe over it
    std::shared_ptr<Pipe> pipe_;
    uint64_t nonce_;
    std::atomic<bool> broken_{false};
    std::atomic<bool> garbage_{false};

    // The sender's: what it has put into the row, and how much of that is in frames.
    std::mutex out_lock_; // of the socket's sending side
    Row kept_;
    uint64_t written_ = 0;
    uint64_t framed_ = 0;
    uint32_t unflushed_ = 0; // bytes since the last flush()
    Frame frame_;
    size_t frame_left_ = 0;
    uint64_t told_at_ = 0;
    std::atomic<uint64_t> written_told_{0};
    std::atomic<uint64_t> told_{0}; // of what was delivered

    // The receiver's.
    uint32_t rung_ = 0; // by arm()
    uint32_t seen_ = 0; // of that, by the thread that rests
    bool armed_ = true;
    std::mutex in_lock_;                  // of the socket's receiving side
    std::unique_ptr<unsigned char[]> in_; // room_in
    size_t filled_ = 0;
    Row row_;
    uint64_t next_ = 0;
    Ahead<uint64_t> ahead_;
    std::atomic<uint64_t> arrived_{0};
    std::atomic<uint64_t> delivered_{0};
    std::atomic<uint64_t> signs_{0};

    // What the receiver has been told of our row.
    std::atomic<uint64_t> acknowledged_{0};
    std::atomic<uint64_t> limit_{window};
    std::atomic<uint64_t> acknowledged_messages_{0};
};

} // namespace

std::unique_ptr<Wire> make_stream(int socket, uint64_t nonce, std::shared_ptr<UcxEnd> ucx,
                                  const std::string& address, IsUrgent urgent)
{
    return std::make_unique<Stream>(socket, nonce, std::move(ucx), address, std::move(urgent));
}

} // namespace denizen::cluster

// SPDX-License-Identifier: Apache-2.0
// Operations through io_uring, by its system calls: the two rings of queue entries that the kernel
// and this thread share. What is started between two calls of submit() takes one system call
// together.
//
// Writes into the page cache are this thread's own. Where a file system takes none without waiting
// (ext4), io_uring hands each to a thread of the kernel, and the way there and back takes longer
// than the write.
#include "io/engine.hpp"

#if __has_include(<linux/io_uring.h>)
#include <denizen/base/clock.hpp>

#include <cerrno>
#include <cstring>
#include <deque>
#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace denizen::io {
namespace {

// A mapping of the kernel's memory.
class Mapping {
public:
    Mapping(int ring, size_t bytes, uint64_t what)
        : bytes_(bytes), data_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                                    MAP_SHARED | MAP_POPULATE, ring, static_cast<off_t>(what)))
    {
    }
    ~Mapping()
    {
        if (ok()) {
            munmap(data_, bytes_);
        }
    }
    Mapping(const Mapping&) = delete;
    Mapping& operator=(const Mapping&) = delete;

    bool ok() const { return data_ != MAP_FAILED; }
    template <class T>
    T* at(uint32_t offset) const
    {
        return reinterpret_cast<T*>(static_cast<unsigned char*>(data_) + offset);
    }

private:
    size_t bytes_;
    void* data_;
};

int enter(int ring, uint32_t submit)
{
    return static_cast<int>(syscall(SYS_io_uring_enter, ring, submit, 0u, 0u, nullptr, size_t{0}));
}

// A write of more bytes is the kernel's threads'; so are the next ones after one that took so long:
// it has waited for the medium, and this thread has others' operations to do.
constexpr size_t most_at_once = 1 << 20;
constexpr uint64_t slow_ns = 1'000'000;
constexpr uint32_t after_slow = 64;

size_t bytes_of(const Operation& o)
{
    size_t bytes = 0;
    for (const iovec& part : o.parts) {
        bytes += part.iov_len;
    }
    return bytes;
}

constexpr uint8_t codes[] = {IORING_OP_READV, IORING_OP_WRITEV, IORING_OP_RECV,   IORING_OP_SENDMSG,
                             IORING_OP_FSYNC, IORING_OP_ACCEPT, IORING_OP_CONNECT};

class Uring final : public Doer {
public:
    Uring(int ring, const io_uring_params& p)
        : ring_(ring),
          queue_(ring, p.sq_off.array + p.sq_entries * sizeof(uint32_t), IORING_OFF_SQ_RING),
          entries_(ring, p.sq_entries * sizeof(io_uring_sqe), IORING_OFF_SQES),
          completions_(ring, p.cq_off.cqes + p.cq_entries * sizeof(io_uring_cqe),
                       IORING_OFF_CQ_RING),
          room_(p.sq_entries)
    {
        if (!ok()) {
            return;
        }
        head_ = queue_.at<uint32_t>(p.sq_off.head);
        tail_ = queue_.at<uint32_t>(p.sq_off.tail);
        mask_ = *queue_.at<uint32_t>(p.sq_off.ring_mask);
        array_ = queue_.at<uint32_t>(p.sq_off.array);
        sqes_ = entries_.at<io_uring_sqe>(0);
        done_head_ = completions_.at<uint32_t>(p.cq_off.head);
        done_tail_ = completions_.at<uint32_t>(p.cq_off.tail);
        done_mask_ = *completions_.at<uint32_t>(p.cq_off.ring_mask);
        cqes_ = completions_.at<io_uring_cqe>(p.cq_off.cqes);
    }
    ~Uring() override { ::close(ring_); }

    bool ok() const { return queue_.ok() && entries_.ok() && completions_.ok(); }
    // Whether the kernel knows all operations.
    bool knows() const
    {
        alignas(io_uring_probe) unsigned char
            room[sizeof(io_uring_probe) + 256 * sizeof(io_uring_probe_op)] = {};
        auto* probe = reinterpret_cast<io_uring_probe*>(room);
        if (syscall(SYS_io_uring_register, ring_, IORING_REGISTER_PROBE, probe, 256u) != 0) {
            return false;
        }
        bool all = IORING_OP_ASYNC_CANCEL <= probe->last_op;
        for (const uint8_t code : codes) {
            all = all && code <= probe->last_op &&
                  (probe->ops[code].flags & IO_URING_OP_SUPPORTED) != 0;
        }
        return all;
    }

    const char* name() const override { return "io_uring"; }
    bool wants_nonblocking() const override { return false; }
    uint64_t submissions() const override { return submissions_; }

    void start(Operation& o) override
    {
        if (o.kind == Operation::Kind::write && write_at_once(o)) {
            return;
        }
        io_uring_sqe& e = entry();
        e.opcode = codes[static_cast<size_t>(o.kind)];
        e.fd = o.fd;
        e.user_data = reinterpret_cast<uint64_t>(&o);
        switch (o.kind) {
        case Operation::Kind::read:
        case Operation::Kind::write:
            e.off = o.offset;
            e.addr = reinterpret_cast<uint64_t>(o.parts.data());
            e.len = static_cast<uint32_t>(o.parts.size());
            break;
        case Operation::Kind::receive:
            e.addr = reinterpret_cast<uint64_t>(o.parts[0].iov_base);
            e.len = static_cast<uint32_t>(o.parts[0].iov_len);
            break;
        case Operation::Kind::send:
            e.addr = reinterpret_cast<uint64_t>(&o.message);
            e.len = 1;
            e.msg_flags = MSG_NOSIGNAL;
            break;
        case Operation::Kind::sync: e.fsync_flags = IORING_FSYNC_DATASYNC; break;
        case Operation::Kind::accept: e.accept_flags = SOCK_CLOEXEC; break;
        case Operation::Kind::connect:
            e.addr = reinterpret_cast<uint64_t>(&o.peer);
            e.off = o.peer_bytes;
            break;
        }
    }

    void cancel(Operation& o) override
    {
        io_uring_sqe& e = entry();
        e.opcode = IORING_OP_ASYNC_CANCEL;
        e.addr = reinterpret_cast<uint64_t>(&o); // its own completion has user_data 0
    }

    void submit() override
    {
        while (filled_ != 0) { // ends when the kernel has taken all
            const int taken = enter(ring_, filled_);
            if (taken < 0 && errno != EINTR && errno != EAGAIN && errno != EBUSY) {
                return;
            }
            if (taken > 0) {
                filled_ -= static_cast<uint32_t>(taken);
                ++submissions_;
            }
        }
    }

    Operation* finished() override
    {
        if (!written_.empty()) {
            Operation* o = written_.front();
            written_.pop_front();
            return o;
        }
        uint32_t head = *done_head_;
        // Acquire: partner of the kernel's release of the tail.
        while (head != __atomic_load_n(done_tail_, __ATOMIC_ACQUIRE)) { // ends with the last one
            const io_uring_cqe& c = cqes_[head & done_mask_];
            auto* o = reinterpret_cast<Operation*>(c.user_data);
            const int64_t result = c.res;
            ++head;
            // Release: the kernel may write the entry again from here on.
            __atomic_store_n(done_head_, head, __ATOMIC_RELEASE);
            if (o == nullptr) {
                continue;
            }
            if (result == -EINTR || result == -EAGAIN) {
                start(*o);
                submit();
                continue;
            }
            o->result = result;
            return o;
        }
        return nullptr;
    }

private:
    // False: it is to go through the rings.
    bool write_at_once(Operation& o)
    {
        if (withheld_ != 0 || bytes_of(o) > most_at_once) {
            withheld_ -= withheld_ != 0 ? 1 : 0;
            return false;
        }
        const uint64_t begin = now_ns();
        const ssize_t n = pwritev(o.fd, o.parts.data(), static_cast<int>(o.parts.size()),
                                  static_cast<off_t>(o.offset));
        if (n < 0 && (errno == EINTR || errno == EAGAIN)) {
            return false;
        }
        o.result = n < 0 ? -errno : n;
        withheld_ = now_ns() - begin > slow_ns ? after_slow : 0;
        written_.push_back(&o);
        return true;
    }

    io_uring_sqe& entry()
    {
        // Acquire: partner of the kernel's release of the head: it has read the entry.
        if (*tail_ - __atomic_load_n(head_, __ATOMIC_ACQUIRE) == room_) {
            submit();
        }
        const uint32_t place = *tail_ & mask_;
        io_uring_sqe& e = sqes_[place];
        std::memset(&e, 0, sizeof e);
        array_[place] = place;
        // Release: whatever is written into the entry is read by the call of enter(), not before.
        __atomic_store_n(tail_, *tail_ + 1, __ATOMIC_RELEASE);
        ++filled_;
        return e;
    }

    int ring_;
    Mapping queue_;
    Mapping entries_;
    Mapping completions_;
    uint32_t room_;
    uint32_t mask_ = 0;
    uint32_t done_mask_ = 0;
    uint32_t filled_ = 0;
    uint32_t withheld_ = 0; // so many writes more go through the rings
    uint64_t submissions_ = 0;
    std::deque<Operation*> written_;
    uint32_t* head_ = nullptr;
    uint32_t* tail_ = nullptr;
    uint32_t* array_ = nullptr;
    io_uring_sqe* sqes_ = nullptr;
    uint32_t* done_head_ = nullptr;
    uint32_t* done_tail_ = nullptr;
    io_uring_cqe* cqes_ = nullptr;
};

} // namespace

std::unique_ptr<Doer> make_uring(uint32_t operations)
{
    io_uring_params p{};
    uint32_t entries = 64;
    while (entries < operations) { // ends at a power of two: 4096 at the most
        entries *= 2;
    }
    const auto ring = static_cast<int>(syscall(SYS_io_uring_setup, entries, &p));
    if (ring < 0) {
        return nullptr;
    }
    auto made = std::make_unique<Uring>(ring, p);
    // NODROP: a completion for which there is no room is kept.
    return made->ok() && made->knows() && (p.features & IORING_FEAT_NODROP) != 0 ? std::move(made)
                                                                                 : nullptr;
}

} // namespace denizen::io
#else
namespace denizen::io {
std::unique_ptr<Doer> make_uring(uint32_t) { return nullptr; }
} // namespace denizen::io
#endif

// SPDX-License-Identifier: Apache-2.0
// The wire between two processes of one machine: a ring each way (wire/spsc.hpp) in a memfd. The
// rings' tickets are the sequence numbers, their credits the acknowledgements and the bound. A Unix
// socket stays open beside them: it ends with the process that held it, however that ended.
#include "wire.hpp"

#include <denizen/wire/lengths.hpp>
#include <denizen/wire/spsc.hpp>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

namespace denizen::cluster {
namespace {

constexpr uint32_t slots = 8192;
constexpr uint64_t nap_ns = 5'000'000; // how late the end of the other process is seen
constexpr uint64_t look_ns = 1'000'000;
constexpr uint64_t credit_every = 128; // messages: a sender that finds no room waits for no more

// What one side writes.
struct Side {
    RingWords words;                  // of the ring that it sends on
    alignas(line) uint64_t beat;      // counts
    alignas(line) uint64_t delivered; // messages of the other's ring
    uint32_t left;                    // 1: it has given the other up
    alignas(line) uint32_t bell;      // of the side that receives: rung by the sender
    uint32_t sleeping;
};

struct Memory {
    alignas(4096) unsigned char reserved[4096];
    struct Half {
        alignas(4096) Side side;
        alignas(4096) Slot slot[slots];
    } half[2];
};
static_assert(sizeof(Memory) == Link::memory_bytes);
static_assert(sizeof(Side) <= 4096);

// These words lie in two processes: no private futex.
void wait_shared(uint32_t* word, uint32_t expected, uint64_t ns)
{
    const timespec limit{static_cast<time_t>(ns / 1'000'000'000),
                         static_cast<long>(ns % 1'000'000'000)};
    syscall(SYS_futex, word, FUTEX_WAIT, expected, &limit, nullptr, 0);
}

void wake_shared(uint32_t* word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, 0x7fffffff, nullptr, nullptr, 0);
}

class Rings : public Wire {
public:
    Rings(int memory, int socket, bool first, IsUrgent urgent)
        : memory_(memory), socket_(socket), urgent_(std::move(urgent))
    {
        struct stat about{};
        const int seals = fcntl(memory, F_GET_SEALS);
        if (fstat(memory, &about) != 0 || static_cast<size_t>(about.st_size) != sizeof(Memory) ||
            seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
            throw Error(Errc::bad_argument, "the rings' memory is no memfd of " +
                                                std::to_string(sizeof(Memory)) +
                                                " bytes that is sealed against shrinking");
        }
        void* at = mmap(nullptr, sizeof(Memory), PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
        if (at == MAP_FAILED) {
            throw Error(Errc::exhausted,
                        std::string("the rings' memory cannot be mapped: ") + std::strerror(errno));
        }
        map_ = static_cast<Memory*>(at);
        out_ = &map_->half[first ? 0 : 1];
        in_ = &map_->half[first ? 1 : 0];
        sender_ = SpscSender<Scope::system>({out_->slot, slots - 1, 0, &out_->side.words});
        receiver_ = SpscReceiver<Scope::system>({in_->slot, slots - 1, 0, &in_->side.words});
    }
    ~Rings() override { munmap(map_, sizeof(Memory)); }
    Rings(const Rings&) = delete;
    Rings& operator=(const Rings&) = delete;

    bool send(const Header& h, const void* payload, bool urgent) override
    {
        if (urgent_ && !urgent && !leaves_room(slots_for(h.length))) {
            return false;
        }
        const bool sent = send_one(h, payload) == Errc::ok;
        if (sent) {
            unrung_ = true;
            tail_.store(sender_.position(), std::memory_order_relaxed);
        }
        return sent;
    }
    bool flush() override
    {
        if (!unrung_) {
            return true;
        }
        unrung_ = false;
        // Partner: the fence in arm(). One of the two sees the other's store.
        denizen::detail::full_fence();
        Side& side = out_->side;
        // The first to see it rings: one that has been woken, and is on its way, is rung for once.
        if (load<Scope::system>(&side.sleeping) != 0 &&
            exchange<Scope::system>(&side.sleeping, 0u) != 0) {
            fetch_add<Scope::system, Order::release>(&side.bell, 1u);
            wake_shared(&side.bell);
        }
        return true;
    }
    void beat() override { store<Scope::system>(&out_->side.beat, ++beats_); }
    uint64_t longest_sleep() const override { return 50'000'000; }
    bool all_acknowledged() const override
    {
        return load<Scope::system, Order::acquire>(&out_->side.words.credit) ==
               tail_.load(std::memory_order_relaxed);
    }
    uint64_t acknowledged() const override { return load<Scope::system>(&in_->side.delivered); }
    void unacknowledged(const Use& use) override
    {
        if (!ended_) { // the other side may go on with it, and what it says later is not believed
            ended_ = true;
            credit_then_ = load<Scope::system, Order::acquire>(&out_->side.words.credit);
        }
        uint32_t head = credit_then_;
        const uint32_t tail = sender_.position();
        std::vector<unsigned char> payload(longest_payload);
        // The credit is the other side's to write, and may be nonsense.
        while (head != tail && tail - head <= slots) { // ends: a ring's slots
            const Header h = decode(out_->slot[head & (slots - 1)].packet[0]);
            if (h.length > longest_payload ||
                !load_payload<Scope::system>(out_->slot, slots - 1, head, h.length,
                                             payload.data())) {
                return;
            }
            use(h, payload.data());
            head += slots_for(h.length);
        }
    }

    bool receive(Header& h, void* payload, uint32_t room) override
    {
        for (;;) { // ends: a ring's slots
            bool hurried = false;
            if (urgent_) {
                if (!receiver_.peek(h)) { // what comes from now on may be urgent
                    receiver_.give_credit();
                    return false;
                }
                hurried = urgent_(h);
                if (hurried && !ahead_.pass(receiver_.position())) {
                    return false;
                }
            }
            const Errc found = receive_one(h, payload, room);
            garbage_ |= found == Errc::oversize;
            if (!hurried || found != Errc::ok) {
                return found == Errc::ok;
            }
        }
    }
    void done() override
    {
        store<Scope::system>(&out_->side.delivered, ++delivered_);
        if (delivered_ % credit_every == 0) {
            receiver_.give_credit();
        }
    }
    bool receive_urgent(Header& h, void* payload, uint32_t room) override
    {
        const uint32_t begin = receiver_.position();
        uint32_t at = ahead_.from(begin);
        while (!ahead_.any() && at - begin < slots) { // ends: a ring's slots
            const Packet first = load_packet<Scope::system>(&in_->slot[at & (slots - 1)].packet[0]);
            const Header found = decode(first);
            if (first.sequence != at + 1) {
                return false;
            }
            if (found.length > room) {
                garbage_ = true;
                return false;
            }
            const uint32_t end = at + slots_for(found.length);
            ahead_.see(at, end, urgent_(found));
            at = end;
        }
        if (!ahead_.any()) {
            return false;
        }
        const uint32_t place = ahead_.first();
        h = decode(load_packet<Scope::system>(&in_->slot[place & (slots - 1)].packet[0]));
        if (h.length > room ||
            !load_payload<Scope::system>(in_->slot, slots - 1, place, h.length, payload)) {
            return false; // its end is still on its way
        }
        ahead_.take_first();
        return true;
    }
    void done_urgent() override { done(); }
    bool lie_down(bool armed) override
    {
        seen_ = load<Scope::system, Order::acquire>(&in_->side.bell);
        return !armed || arm();
    }
    void rest(uint64_t ns) override { wait_shared(&in_->side.bell, seen_, std::min(ns, nap_ns)); }
    bool arm() override
    {
        store<Scope::system>(&in_->side.sleeping, 1u);
        denizen::detail::full_fence(); // partner: flush()
        Header h;
        return !receiver_.peek(h);
    }
    void disarm() override
    {
        if (load<Scope::system>(&in_->side.sleeping) != 0) {
            store<Scope::system>(&in_->side.sleeping, 0u);
        }
    }
    uint64_t signs() const override { return load<Scope::system>(&in_->side.beat); }
    End end() override
    {
        if (garbage_) {
            return End::garbage;
        }
        if (load<Scope::system, Order::acquire>(&in_->side.left) != 0) {
            return End::left;
        }
        const uint64_t now = now_ns();
        if (now - looked_ < look_ns) {
            return End::open;
        }
        looked_ = now;
        char byte = 0;
        const ssize_t n = recv(socket_.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
        const bool open = n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
        return open ? End::open : End::gone;
    }
    void give_up() override
    {
        receiver_.give_credit();
        // Release: partner of the acquire in end().
        store<Scope::system, Order::release>(&out_->side.left, 1u);
    }

private:
    // For urgent messages: more than the longest takes.
    static constexpr uint32_t reserve = 2048;
    static_assert(slots_for(longest_payload) <= reserve);

    // Most messages are of lengths that the compiler knows.
    Errc send_one(const Header& h, const void* payload)
    {
        Errc sent = Errc::ok;
        const bool known = with_length(
            h.length, [&]<uint32_t L>() { sent = sender_.try_send_short<L>(h, payload); });
        return known ? sent : sender_.try_send(h, payload);
    }
    Errc receive_one(Header& h, void* payload, uint32_t room)
    {
        Errc found = Errc::wrong_type;
        if (receiver_.peek(h)) {
            with_length(h.length, [&]<uint32_t L>() {
                found = L > room ? Errc::wrong_type
                                 : receiver_.try_receive_short<L>(h.type, h, payload);
            });
        }
        return found == Errc::ok ? found : receiver_.try_receive(h, payload, room);
    }

    bool leaves_room(uint32_t n) const
    {
        const uint32_t credit = load<Scope::system, Order::acquire>(&out_->side.words.credit);
        return sender_.position() + n - credit <= slots - reserve;
    }

    Descriptor memory_;
    Descriptor socket_;
    Memory* map_ = nullptr;
    Memory::Half* out_ = nullptr;
    Memory::Half* in_ = nullptr;
    SpscSender<Scope::system> sender_;
    SpscReceiver<Scope::system> receiver_;
    std::atomic<uint32_t> tail_{0};
    bool unrung_ = false; // something was sent since the last flush()
    uint64_t beats_ = 0;
    uint64_t delivered_ = 0;
    uint64_t looked_ = 0;
    bool ended_ = false; // unacknowledged() was asked for
    uint32_t credit_then_ = 0;
    uint32_t seen_ = 0; // of the bell, by the thread that rests
    bool garbage_ = false;
    IsUrgent urgent_; // or none are
    Ahead<uint32_t> ahead_;
};

} // namespace

std::unique_ptr<Wire> make_rings(int memory, int socket, bool first, IsUrgent urgent)
{
    return std::make_unique<Rings>(memory, socket, first, std::move(urgent));
}

} // namespace denizen::cluster

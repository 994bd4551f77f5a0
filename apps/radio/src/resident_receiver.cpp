// SPDX-License-Identifier: Apache-2.0
#include <denizen/radio/resident_receiver.hpp>

#include "scan.hpp"

#include <denizen/base/error.hpp>
#include <denizen/base/interrupt.hpp>
#include <denizen/base/threads.hpp>
#include <denizen/radio/detail/candidates.hpp>

#include <algorithm>
#include <cstring>
#include <thread>

namespace denizen::radio {
namespace {

constexpr uint64_t patience_ns = 30'000'000'000;                    // for a block to be scanned
constexpr size_t window_bytes = 2 * (lead + block_samples + reach); // bytes that a block needs
constexpr size_t copy_bytes = (window_bytes + 127) / 128 * 128;     // of a copy of them
constexpr size_t alignment = 16;                                    // of a block, see load_block()

struct OneThread {
    uint32_t rank() const { return 0; }
    uint32_t size() const { return 1; }
    void sync() const {}
    uint32_t count(bool member) const { return member; }
    uint32_t take(uint32_t& counter) const { return counter++; }
    void await_predecessor() const {}
    void let_successor_begin() const {}
};

class Threads final : public ScanWorkers {
public:
    explicit Threads(uint32_t count)
        : count_(count != 0 ? count : std::max(1u, std::thread::hardware_concurrency())),
          name_("cpu:" + std::to_string(count_))
    {
    }
    ~Threads() override { join(); }

    uint32_t size() const override { return count_; }

    void* memory(size_t bytes) override
    {
        memory_.push_back(std::make_unique<Line[]>(bytes / sizeof(Line) + 1));
        return memory_.back().get();
    }

    bool reaches(const void*, size_t) override { return true; }

    void start(ScanRing ring) override
    {
        ring.tickets = &tickets_;
        ring.limit = ~0ull; // a thread that naps costs nothing
        ring.term.state = &term_;
        ring.term.words = &words_;
        ring.term.blocks = count_;
        threads_.start(count_, "scanning", [ring](uint32_t number) {
            const auto scan = std::make_unique<ScanMemory>();
            OneThread team;
            ScanTurn turn{};
            scan_ring(team, ring, number, *scan, turn);
        });
    }

    void wake() override {} // they never leave
    void join() override
    {
        store<Scope::system>(&words_.command, static_cast<uint32_t>(Command::stop));
        threads_.join();
    }
    const std::string& device() const override { return name_; }

private:
    struct alignas(128) Line {
        unsigned char bytes[128] = {};
    };
    uint32_t count_;
    std::string name_;
    ScanTickets tickets_{};
    Term term_;
    ResidentWords words_;
    std::vector<std::unique_ptr<Line[]>> memory_;
    denizen::Threads threads_;
};

} // namespace

std::unique_ptr<ScanWorkers> scan_on_cpu(uint32_t threads)
{
    if (threads > 1024)
        throw Error(Errc::bad_argument, std::to_string(threads) + " threads; give at most 1024");
    return std::make_unique<Threads>(threads);
}

ResidentReceiver::ResidentReceiver(std::unique_ptr<ScanWorkers> workers,
                                   std::optional<Position> receiver)
    : workers_(std::move(workers)), iq_(window_bytes), airspace_(receiver)
{
    // A few for each team, so that none waits for the host; 256 are 8 s of signal and 50 MB.
    const uint32_t slots = std::clamp(4 * workers_->size(), 16u, 256u);
    begin_.resize(slots);
    const auto take = [&](auto*& to, size_t count) {
        using T = std::remove_cvref_t<decltype(*to)>;
        to = static_cast<T*>(workers_->memory(count * sizeof(T)));
    };
    take(copies_, slots * copy_bytes);
    take(slot_, slots);
    take(ring_.out, size_t{slots} * slot_room);
    take(ring_.counts, slots);
    take(ring_.published, 1);
    take(ring_.taken, 1);
    ring_.slot = slot_;
    ring_.slots = slots;
    workers_->start(ring_);
}

ResidentReceiver::~ResidentReceiver() { workers_->join(); }

void ResidentReceiver::feed(const uint8_t* iq, size_t bytes, const Sink& sink)
{
    const uint8_t* const end = iq + bytes;
    while (iq != end) stage(iq, end, sink); // ends: each takes some
    collect(0, sink);
}

void ResidentReceiver::feed_in_place(const uint8_t* iq, size_t bytes, const Sink& sink)
{
    if (bytes > 0 && !workers_->reaches(iq, bytes))
        throw Error(Errc::bad_argument,
                    "samples in memory that " + device() +
                        " does not reach; give pinned memory, or copies by feed()");
    const uint8_t* const begin = iq;
    const uint8_t* const end = iq + bytes;
    while (iq != end) { // ends: each turn takes some bytes, or hands over the next block
        // The block that is being filled began so far before `iq`, and needs the lead before it.
        const size_t staged = filled_ - 2 * lead;
        const size_t behind = staged + (position_ == 0 ? 0 : 2 * lead);
        const bool here = static_cast<size_t>(iq - begin) >= behind &&
                          static_cast<size_t>(end - iq) + staged >= window_bytes - 2 * lead &&
                          reinterpret_cast<uintptr_t>(iq - staged) % alignment == 0;
        if (!here) {
            stage(iq, end, sink);
            continue;
        }
        const uint8_t* const block = iq - staged;
        hand_over(free_slot(sink), block, block_samples, block_samples + reach);
        iq = block + 2 * block_samples;
        std::copy_n(iq - 2 * lead, 2 * lead, iq_.begin());
        filled_ = 2 * lead;
    }
    collect(0, sink);
}

uint64_t ResidentReceiver::released() const
{
    if (collected_ == published_) return fed(); // what is not published is a copy
    const uint64_t block = begin_[collected_ % ring_.slots];
    return block - std::min<uint64_t>(block, lead);
}

// Copies what is missing of the block that is being filled, as far as it is there.
void ResidentReceiver::stage(const uint8_t*& iq, const uint8_t* end, const Sink& sink)
{
    const size_t n = std::min(static_cast<size_t>(end - iq), iq_.size() - filled_);
    std::copy_n(iq, n, iq_.begin() + static_cast<ptrdiff_t>(filled_));
    filled_ += n;
    iq += n;
    if (filled_ == iq_.size()) publish(block_samples, sink);
}

void ResidentReceiver::finish(const Sink& sink)
{
    filled_ -= filled_ % 2; // an I without its Q
    while (filled_ > 2 * lead) publish(std::min<size_t>(filled_ / 2 - lead, block_samples), sink);
    collect(published_, sink);
}

// Hands over the first `count` samples of the block that is being filled, in a copy.
void ResidentReceiver::publish(size_t count, const Sink& sink)
{
    const uint32_t slot = free_slot(sink);
    uint8_t* const copy = copies_ + slot * copy_bytes;
    std::copy_n(iq_.begin(), filled_, copy);
    hand_over(slot, copy + 2 * lead, count, filled_ / 2 - lead);
    std::copy(iq_.begin() + static_cast<ptrdiff_t>(2 * count),
              iq_.begin() + static_cast<ptrdiff_t>(filled_), iq_.begin());
    filled_ -= 2 * count;
}

uint32_t ResidentReceiver::free_slot(const Sink& sink)
{
    if (published_ - collected_ == ring_.slots) collect(collected_ + 1, sink);
    return static_cast<uint32_t>(published_ % ring_.slots);
}

void ResidentReceiver::hand_over(uint32_t at, const uint8_t* iq, size_t count, size_t available)
{
    slot_[at].iq = iq;
    slot_[at].before = position_ == 0 ? 0 : lead;
    slot_[at].count = static_cast<uint32_t>(count);
    slot_[at].available = static_cast<uint32_t>(available);
    begin_[at] = position_;
    store<Scope::system>(ring_.counts + at, 0u);
    published_ += 1;
    // Release: with the slot; its partner is the acquire in take_turn().
    store<Scope::system, Order::release>(ring_.published, published_);
    counts_.samples += count;
    position_ += count;
    workers_->wake();
}

// Takes what has been found, waiting for all blocks before `until`.
void ResidentReceiver::collect(uint64_t until, const Sink& sink)
{
    for (; collected_ < published_; ++collected_) {
        const auto at = static_cast<uint32_t>(collected_ % ring_.slots);
        // Acquire: with the candidates; its partner is the release in scan_ring().
        uint32_t found = load<Scope::system, Order::acquire>(ring_.counts + at);
        if (found == 0) {
            if (collected_ >= until) {
                workers_->wake(); // throws if they are lost
                return;
            }
            wait_for(at);
            found = load<Scope::system, Order::acquire>(ring_.counts + at);
        }
        std::vector<Candidate> here;
        std::span<Candidate> candidates(ring_.out + size_t{at} * slot_room,
                                        std::min(found - 1, slot_room));
        if (found == ~0u || found - 1 > slot_room) {
            here = scan_here(at);
            candidates = here;
        }
        believe(candidates, begin_[at], airspace_, free_, [&](const Message& m) {
            counts_.messages += 1;
            counts_.repaired += m.repaired != 0;
            sink(m);
        });
    }
}

void ResidentReceiver::wait_for(uint32_t slot)
{
    const uint64_t begin = now_ns();
    // Ends when the block has been scanned, or after `patience_ns`.
    while (load<Scope::system, Order::acquire>(ring_.counts + slot) == 0) {
        workers_->wake();
        if (now_ns() - begin > patience_ns)
            throw Error(Errc::timeout, "the workers on " + device() +
                                           " have not scanned a block of 65,536 samples in 30 s");
        check_interrupt();
        std::this_thread::yield();
    }
}

// More positions than a team keeps, or candidates than a slot: the receiver's loops do what it
// would have done.
std::vector<Candidate> ResidentReceiver::scan_here(uint32_t slot)
{
    const ScanSlot& said = slot_[slot];
    std::vector<uint16_t> all(lead + block_samples + reach);
    const size_t first = said.before == 0 ? lead : 0;
    scan::magnitudes(said.iq - 2 * (lead - first), all.data() + first,
                     lead + said.available - first);
    std::vector<uint8_t> marks(block_samples);
    std::vector<uint32_t> found(block_samples);
    const uint16_t* m = all.data() + lead;
    const uint32_t floor = scan::floor(m, said.count, found.data());
    const size_t n = scan::positions(m, said.count, thresholds(floor), marks.data(), found.data());
    std::vector<Candidate> out;
    for (size_t i = 0; i < n; ++i) {
        Candidate c;
        const uint16_t* at = m + found[i];
        if (!scan::first(at, floor, c.reading[0])) continue;
        c.offset = found[i];
        c.pulse = static_cast<uint16_t>(pulses_at(at) / 2);
        c.readings = 1;
        if (scan::again(at, floor, c.reading[0], c.reading[1])) c.readings = 2;
        out.push_back(c);
    }
    return out;
}

} // namespace denizen::radio

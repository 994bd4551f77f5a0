// SPDX-License-Identifier: Apache-2.0
// Resident workers on threads of the CPU find what the receiver finds, however the stream is cut,
// also when blocks hold more than a worker keeps, and after a pause in which they have left.
#include "signal.hpp"

#include <denizen/base/error.hpp>
#include <denizen/radio/resident_receiver.hpp>

#include <atomic>
#include <chrono>
#include <gtest/gtest.h>
#include <memory>
#include <random>
#include <thread>

namespace denizen::radio {
namespace {

using test::Signal;

struct OneThread {
    uint32_t rank() const { return 0; }
    uint32_t size() const { return 1; }
    void sync() const {}
    uint32_t count(bool member) const { return member; }
    uint32_t take(uint32_t& counter) const { return counter++; }
    void await_predecessor() const {}
    void let_successor_begin() const {}
};

struct Heard {
    std::string frame;
    uint64_t position;
    uint32_t repaired;
    double level;
    bool operator==(const Heard&) const = default;
};

void PrintTo(const Heard& h, std::ostream* out) { *out << h.frame << " at " << h.position; }

Receiver::Sink into(std::vector<Heard>& to)
{
    return [&to](const Message& m) {
        to.push_back({to_hex(m.frame), m.position, m.repaired, m.level});
    };
}

template <class R>
std::vector<Heard> all_of(R& receiver, const std::vector<uint8_t>& iq, uint32_t seed)
{
    std::vector<Heard> out;
    const Receiver::Sink sink = into(out);
    std::mt19937 random(seed);
    for (size_t at = 0; at < iq.size();) {
        const size_t n = std::min<size_t>(iq.size() - at, random() % (random() % 3 ? 9 : 400'000));
        const std::vector<uint8_t> piece(iq.begin() + static_cast<ptrdiff_t>(at),
                                         iq.begin() + static_cast<ptrdiff_t>(at + n));
        receiver.feed(piece.data(), n, sink);
        at += n;
    }
    receiver.finish(sink);
    return out;
}

std::vector<uint8_t> crowded(uint32_t samples, uint32_t frames)
{
    Signal signal(samples, 5);
    std::uniform_real_distribution<> at(0, samples);
    std::uniform_real_distribution<> snr(6, 32);
    for (uint32_t k = 0; k < frames; ++k)
        signal.add(test::squitter(0x400000 + signal.random()() % 16, signal.random()()),
                   at(signal.random()), snr(signal.random()));
    for (const double border : {1.0, 2.0, 3.0})
        for (const double from : {-700.0, -100.0, 200.0})
            signal.add(test::all_call(0x400001), border * block_samples + from, 28);
    return signal.bytes();
}

void check(const std::vector<uint8_t>& iq, uint32_t threads, size_t least)
{
    Receiver receiver;
    const std::vector<Heard> expected = all_of(receiver, iq, 1);
    EXPECT_GE(expected.size(), least);
    ResidentReceiver resident(scan_on_cpu(threads));
    EXPECT_EQ(all_of(resident, iq, 2), expected);
    EXPECT_EQ(resident.counts().samples, receiver.counts().samples);
    EXPECT_EQ(resident.counts().messages, receiver.counts().messages);
    EXPECT_EQ(resident.counts().repaired, receiver.counts().repaired);
    EXPECT_EQ(resident.airspace().aircraft().size(), receiver.airspace().aircraft().size());
    // A gap in the stream, and on.
    const std::vector<uint8_t> more(iq.begin(), iq.begin() + 200'000);
    EXPECT_EQ(all_of(resident, more, 3), all_of(receiver, more, 4));
}

TEST(ResidentReceiver, FindsWhatTheReceiverFinds)
{
    const std::vector<uint8_t> iq = crowded(3 * block_samples + 20'000, 300);
    check(iq, 1, 150);
    check(iq, 3, 150);
}

TEST(ResidentReceiver, TakesShortStreams)
{
    for (const size_t bytes : {0u, 1u, 30u, 1001u, 40'000u}) {
        std::vector<uint8_t> iq = crowded(20'000, 20);
        iq.resize(bytes);
        Receiver receiver;
        ResidentReceiver resident(scan_on_cpu(2));
        EXPECT_EQ(all_of(resident, iq, 2), all_of(receiver, iq, 1)) << bytes;
    }
}

TEST(ResidentReceiver, GoesRoundItsRing)
{
    // More blocks than slots, handed over at once: feed() has to wait for the workers.
    const std::vector<uint8_t> once = crowded(2 * block_samples, 60);
    std::vector<uint8_t> iq;
    for (int k = 0; k < 20; ++k) iq.insert(iq.end(), once.begin(), once.end());
    Receiver receiver;
    ResidentReceiver resident(scan_on_cpu(2));
    std::vector<Heard> expected;
    std::vector<Heard> got;
    receiver.feed(iq.data(), iq.size(), into(expected));
    receiver.finish(into(expected));
    resident.feed(iq.data(), iq.size(), into(got));
    resident.finish(into(got));
    EXPECT_GT(expected.size(), 400u);
    EXPECT_EQ(got, expected);
}

// Preambles and the bits of a format, over and over: what a frame would be begins at 1800 places.
TEST(ResidentReceiver, ScansACrowdedBlockItself)
{
    std::vector<uint8_t> iq = crowded(2 * block_samples, 40);
    for (const uint32_t from : {3000u, block_samples + 3000u}) {
        for (uint32_t begin = from; begin < from + 57'600; begin += 32) {
            for (const uint32_t at : {0u, 2u, 7u, 9u}) iq[2 * (begin + at)] = 220;
            const bool format4[8] = {false, false, true, false, false, true, false, true};
            for (uint32_t bit = 0; bit < 8; ++bit)
                iq[2 * (begin + 16 + 2 * bit + (format4[bit] ? 0 : 1))] = 220;
        }
    }
    OneThread team;
    const auto memory = std::make_unique<ScanMemory>();
    std::vector<Candidate> out(slot_room);
    struct alignas(16) Aligned {
        uint8_t iq[2 * (block_samples + reach)];
    };
    const auto copy = std::make_unique<Aligned>();
    std::copy_n(iq.begin(), sizeof copy->iq, copy->iq);
    EXPECT_GT(scan_block(team, copy->iq, 0, block_samples, block_samples + reach, *memory,
                         out.data(), slot_room),
              slot_room);
    check(iq, 2, 3);
}

// Workers as those of a GPU, with a thread for each block of threads, and the keeper's part: they
// leave with each breath and the successor takes over, worker by worker; and when there is nothing
// to do for a millisecond, until they are waked.
class Breathing final : public ScanWorkers {
public:
    static constexpr uint32_t blocks = 3;

    Breathing(uint64_t breath_ns, uint32_t& launches, uint32_t& incarnations)
        : breath_ns_(breath_ns), launches_(launches), incarnations_(incarnations),
          memory_(scan_on_cpu(1))
    {
    }
    ~Breathing() override { join(); }
    uint32_t size() const override { return blocks; }
    void* memory(size_t bytes) override { return memory_->memory(bytes); }
    bool reaches(const void*, size_t) override { return true; }
    void start(ScanRing ring) override
    {
        ring_ = ring;
        ring_.tickets = &tickets_;
        ring_.limit = 1'000'000;
        ring_.term = {breath_ns_, &term_, &words_, blocks, 0, 0};
        keeper_ = std::jthread([this] { keep(); });
    }
    void wake() override {} // the keeper looks all the time
    void join() override
    {
        store<Scope::system>(&words_.command, static_cast<uint32_t>(Command::stop));
        store<Scope::system>(&stop_, 1u);
        if (keeper_.joinable()) keeper_.join();
    }
    const std::string& device() const override { return memory_->device(); }
    uint32_t rests() const { return rests_; }
    void await_rest(uint32_t before) const
    {
        while (rests_ == before) std::this_thread::yield(); // ends: nobody publishes meanwhile
    }

private:
    // One incarnation's team of one.
    struct Block : OneThread {
        Block(Breathing& all, uint32_t incarnation) : workers(all), number(incarnation) {}
        void await_predecessor() const { workers.await(number - 1); }
        void let_successor_begin() const
        {
            await_predecessor();
            say();
        }
        void say() const
        {
            if (!std::exchange(said, true)) workers.said_[number % 4] += 1;
        }
        Breathing& workers;
        uint32_t number;
        mutable bool said = false;
    };

    void await(uint32_t number) const // ends: as its workers leave
    {
        while (number > base_ && gone_[number % 4] < blocks) std::this_thread::yield();
    }
    void run(uint32_t number, bool successor)
    {
        ScanRing ring = ring_;
        ring.term.incarnation = number;
        ring.term.successor = successor ? 1 : 0;
        said_[number % 4] = gone_[number % 4] = 0;
        threads_[number % 4].clear(); // have ended long ago
        for (uint32_t b = 0; b < blocks; ++b) {
            threads_[number % 4].emplace_back([this, ring, number, b] {
                const auto memory = std::make_unique<ScanMemory>();
                Block team(*this, number);
                ScanTurn turn{};
                scan_ring(team, ring, b, *memory, turn);
                gone_[number % 4] += 1;
                team.say();
            });
        }
    }
    Mode mode() const
    {
        return static_cast<Mode>(load<Scope::system, Order::acquire>(&words_.mode));
    }
    void keep()
    {
        uint32_t number = 0;
        while (load<Scope::system>(&stop_) == 0) { // ends by join()
            base_ = number;
            term_.over = 0;
            store<Scope::system>(&words_.mode, static_cast<uint32_t>(Mode::starting));
            launches_ += 1;
            for (bool successor = false;; successor = true) { // ends as they leave
                number += 1;
                const bool left = mode() == Mode::left;
                run(number, successor);
                if (left) break; // that one has come too late
                // The next may begin when all have said so or have left, and the one before is
                // gone.
                while (said_[number % 4] < blocks) std::this_thread::yield();
            }
            await(number);
            EXPECT_EQ(load<Scope::system>(&words_.ended), number);
            incarnations_ = number;
            rests_ += 1;
            // Ends by join(), or when something is published.
            while (load<Scope::system>(&stop_) == 0 &&
                   load<Scope::system, Order::acquire>(ring_.published) <= *ring_.taken)
                std::this_thread::yield();
        }
    }

    uint64_t breath_ns_;
    uint32_t& launches_;
    uint32_t& incarnations_;
    std::unique_ptr<ScanWorkers> memory_;
    ScanRing ring_{};
    ScanTickets tickets_{};
    Term term_;
    ResidentWords words_;
    uint32_t stop_ = 0;
    std::atomic<uint32_t> rests_ = 0;    // how often nobody was there for lack of samples
    std::atomic<uint32_t> base_ = 0;     // incarnations before this launch
    std::atomic<uint32_t> said_[4] = {}; // workers that let the successor begin, by incarnation
    std::atomic<uint32_t> gone_[4] = {}; // and that have left
    std::vector<std::jthread> threads_[4];
    std::jthread keeper_;
};

TEST(ResidentReceiver, GoesOnInTheNextIncarnation)
{
    const std::vector<uint8_t> iq = crowded(3 * block_samples, 100);
    // A part of a block's time, a few blocks, and no breath.
    for (const uint64_t breath_ns : {uint64_t{300'000}, uint64_t{20'000'000}, uint64_t{0}}) {
        std::vector<Heard> expected;
        std::vector<Heard> got;
        Receiver receiver;
        uint32_t launches = 0;
        uint32_t incarnations = 0;
        {
            auto place = std::make_unique<Breathing>(breath_ns, launches, incarnations);
            const Breathing& breathing = *place;
            ResidentReceiver resident(std::move(place));
            for (int k = 0; k < 3; ++k) {
                const uint32_t rests = breathing.rests();
                for (int times = 0; times < 2; ++times) {
                    receiver.feed(iq.data(), iq.size(), into(expected));
                    resident.feed(iq.data(), iq.size(), into(got));
                }
                breathing.await_rest(rests);
            }
            receiver.finish(into(expected));
            resident.finish(into(got));
        }
        EXPECT_EQ(got, expected) << breath_ns;
        EXPECT_GT(launches, 2u) << breath_ns;
        if (breath_ns != 0) {
            EXPECT_GT(incarnations, launches + 2) << breath_ns;
        }
    }
}

// By pieces of any size at any address: some blocks are read in place, some lie over a border, some
// begin where a worker cannot read them.
TEST(ResidentReceiver, ReadsSamplesInPlace)
{
    const std::vector<uint8_t> once = crowded(5 * block_samples + 30'000, 300);
    Receiver receiver;
    const std::vector<Heard> expected = all_of(receiver, once, 1);
    EXPECT_GE(expected.size(), 150u);
    std::mt19937 random(4);
    for (int round = 0; round < 8; ++round) {
        ResidentReceiver resident(scan_on_cpu(2));
        std::vector<std::unique_ptr<std::vector<uint8_t>>> pieces;
        std::vector<uint64_t> ends;
        std::vector<Heard> got;
        for (size_t at = 0; at < once.size();) {
            // All at once, at multiples of 16 bytes, then at any address.
            const size_t any = round == 0 ? once.size() : random() % 600'000;
            const size_t n = std::min(once.size() - at, round < 4 ? (any + 15) / 16 * 16 : any);
            pieces.push_back(std::make_unique<std::vector<uint8_t>>(
                once.begin() + static_cast<ptrdiff_t>(at),
                once.begin() + static_cast<ptrdiff_t>(at + n)));
            at += n;
            resident.feed_in_place(pieces.back()->data(), n, into(got));
            ends.push_back(at / 2);
            ASSERT_EQ(resident.fed(), at / 2);
            // What has been released may be overwritten.
            for (size_t k = 0; k < ends.size(); ++k)
                if (ends[k] <= resident.released()) std::ranges::fill(*pieces[k], 255);
        }
        resident.finish(into(got));
        EXPECT_EQ(got, expected) << round;
        EXPECT_EQ(resident.released(), once.size() / 2);
    }
}

// Workers that never come: all blocks but those over a border are where they were, and nothing of
// them is released.
TEST(ResidentReceiver, CopiesOnlyWhatLiesOverABorder)
{
    struct Absent final : ScanWorkers {
        explicit Absent(ScanRing& to) : ring(to) {}
        uint32_t size() const override { return 1; }
        void* memory(size_t bytes) override { return threads->memory(bytes); }
        bool reaches(const void*, size_t) override { return true; }
        void start(ScanRing started) override { ring = started; }
        void wake() override {}
        void join() override {}
        const std::string& device() const override { return threads->device(); }
        ScanRing& ring;
        std::unique_ptr<ScanWorkers> threads = scan_on_cpu(1);
    };
    const std::vector<uint8_t> iq(6 * 2 * block_samples + 8192, 127);
    const auto nothing = [](const Message&) { FAIL(); };
    const auto in_place = [&](const std::vector<size_t>& pieces, bool copied) {
        ScanRing ring{};
        ResidentReceiver receiver(std::make_unique<Absent>(ring));
        size_t at = 0;
        for (const size_t piece : pieces) {
            if (copied) {
                receiver.feed(iq.data() + at, piece, nothing);
            } else {
                receiver.feed_in_place(iq.data() + at, piece, nothing);
            }
            at += piece;
        }
        EXPECT_EQ(receiver.fed(), at / 2);
        EXPECT_EQ(receiver.released(), 0u);
        std::vector<bool> there;
        for (uint32_t b = 0; b < *ring.published; ++b)
            there.push_back(ring.slot[b].iq == iq.data() + size_t{b} * 2 * block_samples);
        return there;
    };
    EXPECT_EQ(in_place({iq.size()}, false), std::vector<bool>(6, true));
    EXPECT_EQ(in_place({iq.size()}, true), std::vector<bool>(6, false));
    EXPECT_EQ(in_place({300'000, iq.size() - 300'000}, false),
              (std::vector<bool>{true, true, false, true, true, true}));
}

TEST(ResidentReceiver, RefusesThousandsOfThreads) { EXPECT_THROW(scan_on_cpu(5000), Error); }

} // namespace
} // namespace denizen::radio

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

// Workers that leave whenever they have nothing to do, as those of a GPU do after two seconds.
class Leaving final : public ScanWorkers {
public:
    explicit Leaving(uint32_t& launches) : launches_(launches), threads_(scan_on_cpu(1)) {}
    uint32_t size() const override { return 2; }
    void* memory(size_t bytes) override { return threads_->memory(bytes); }
    void launch(ScanRing ring, uint64_t from) override
    {
        launches_ += 1;
        on_ = 2;
        tickets_ = {from, 0};
        ring.tickets = &tickets_;
        ring.limit = 1'000'000;
        const auto work = [this, ring] {
            OneThread team;
            const auto memory = std::make_unique<ScanMemory>();
            ScanTurn turn{};
            scan_ring(team, ring, *memory, turn);
            on_ -= 1;
        };
        workers_.clear();
        workers_.emplace_back(work);
        workers_.emplace_back(work);
    }
    bool reaches(const void*, size_t) override { return true; }
    bool on() override { return on_ > 0; }
    void join() override { workers_.clear(); }
    const std::string& device() const override { return threads_->device(); }

private:
    uint32_t& launches_;
    std::unique_ptr<ScanWorkers> threads_;
    std::atomic<int> on_ = 0;
    ScanTickets tickets_{};
    std::vector<std::jthread> workers_;
};

TEST(ResidentReceiver, BringsWorkersBackThatHaveLeft)
{
    const std::vector<uint8_t> iq = crowded(3 * block_samples, 100);
    std::vector<Heard> expected;
    std::vector<Heard> got;
    Receiver receiver;
    uint32_t launches = 0;
    ResidentReceiver resident(std::make_unique<Leaving>(launches));
    for (int k = 0; k < 6; ++k) {
        receiver.feed(iq.data(), iq.size(), into(expected));
        resident.feed(iq.data(), iq.size(), into(got));
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    receiver.finish(into(expected));
    resident.finish(into(got));
    EXPECT_EQ(got, expected);
    EXPECT_GT(launches, 2u);
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
        void launch(ScanRing launched, uint64_t) override { ring = launched; }
        bool on() override { return true; }
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

// SPDX-License-Identifier: Apache-2.0
#include "crossing.hpp"
#include "refuse.hpp"

#include "base/round_up.hpp"

#include <denizen/base/clock.hpp>

#include <bit>

namespace denizen::flow {
namespace {

// Samples, or outputs where those are more, that one worker gets: enough that a job's message is a
// small part of the work, few enough that a quantum keeps several workers busy.
constexpr uint32_t at_once = 1024;

constexpr uint64_t most_bytes = 64 << 20; // of slots

// Not less than the past, which each job brings along: then that is half of the copying at most.
uint32_t samples_of_job(uint32_t before, uint32_t up, uint32_t down, uint32_t frame)
{
    const uint32_t some = up > down ? at_once * down / up : std::max(at_once, (down + up - 1) / up);
    return static_cast<uint32_t>(round_up(std::max({some, before, 1u}), frame));
}

} // namespace

void Engine::ResidentCrossing::start(const std::vector<std::unique_ptr<Block>>& blocks)
{
    for (const auto& block : blocks) {
        if (auto* bridge = dynamic_cast<ResidentBridge*>(block.get())) {
            bridge->crossing_ = std::make_unique<ResidentCrossing>(*bridge);
        }
    }
}

Engine::ResidentCrossing::ResidentCrossing(ResidentBridge& block)
    : block_(block), shape_(block.shape()),
      most_(samples_of_job(shape_.before, shape_.up, shape_.down, shape_.frame)),
      workers_(block.resident_, [this](const resident::Done& message) { done(message); })
{
    const uint64_t outputs = uint64_t{most_} * shape_.up / shape_.down + 1;
    const uint64_t past = uint64_t{shape_.before} * block.in_bytes_;
    const uint64_t samples = uint64_t{most_} * block.in_bytes_;
    // A worker reads whole 16 bytes: some in front and behind.
    lead_ = static_cast<uint32_t>(round_up(past + 16, 64));
    results_ = static_cast<uint32_t>(round_up(lead_ + samples + 16, 64));
    const uint64_t end = results_ + shape_.streams * outputs * block.out_bytes_;
    const uint64_t past_beside = uint64_t{shape_.before} * shape_.beside;
    const uint64_t samples_beside = uint64_t{most_} * shape_.beside;
    beside_ = static_cast<uint32_t>(round_up(end + past_beside + 16, 64));
    slot_ = static_cast<uint32_t>(shape_.beside == 0 ? round_up(end, 64)
                                                     : round_up(beside_ + samples_beside + 16, 64));
    const uint32_t workers = block.resident_.chain_workers();
    // The next job of each worker is there when it is done, if the slots are not too large for
    // that.
    const uint64_t fit = std::max<uint64_t>(4, most_bytes / slot_);
    mask_ = std::bit_floor(
                std::min<uint32_t>(std::bit_ceil(2 * workers + 1), static_cast<uint32_t>(fit))) -
            1;
    memory_ = block.resident_.runtime_.buffer(uint64_t{mask_ + 1} * slot_, BufferKind::pinned);
    begin_ = static_cast<std::byte*>(memory_.cpu());
    std::memset(begin_, 0, lead_); // before the stream there are zeros
    std::memset(beside(0) - past_beside, 0, past_beside);
    flights_ = std::make_unique<Flight[]>(mask_ + 1);

    resident::Setup setup{};
    resident::Stage& stage = setup.stage[0];
    stage.kind = block.kind_;
    stage.in_bytes = block.in_bytes_;
    stage.out_bytes = block.out_bytes_;
    stage.before = shape_.before;
    stage.up = shape_.up;
    stage.down = shape_.down;
    stage.values = static_cast<uint32_t>(shape_.values.size());
    stage.a = shape_.a;
    stage.b = shape_.b;
    setup.stages = 1;
    setup.areas_at = static_cast<uint32_t>(round_up(shape_.values.size() * sizeof(float), 16));
    setup.area = static_cast<uint32_t>(round_up(
        std::max({past + samples, past_beside + samples_beside, outputs * shape_.scratch}) + 64,
        16));
    if (shape_.beside != 0) {
        setup.beside_at = beside_ - results_;
        setup.beside_bytes = shape_.beside;
    }
    workers_.start(workers, setup);
    workers_.set(0, shape_.values);
}

uint32_t Engine::ResidentCrossing::due() const
{
    return static_cast<uint32_t>(
        resident::first_output(position_ + whole(), shape_.up, shape_.down) -
        resident::first_output(position_, shape_.up, shape_.down));
}

void Engine::ResidentCrossing::work()
{
    while (may_send()) { // ends: each turn takes samples, and a full slot gives an output
        const size_t n =
            block_.take(samples(sent_) + uint64_t{filled_} * block_.in_bytes_,
                        beside(sent_) + uint64_t{filled_} * shape_.beside, most_ - filled_);
        filled_ += static_cast<uint32_t>(n);
        if (filled_ == most_) {
            send();
        } else if (n == 0) {
            break;
        }
    }
    if (due() != 0 && may_send()) {
        send();
    }
}

// The slot being filled goes to a worker. What is left of it, and the past of that, begins the next
// one.
void Engine::ResidentCrossing::send()
{
    const uint32_t count = whole();
    const auto begin_next = [&](std::byte* next, const std::byte* from, uint64_t each) {
        std::memcpy(next - shape_.before * each,
                    from + (int64_t{count} - shape_.before) * static_cast<int64_t>(each),
                    (shape_.before + filled_ - count) * each);
    };
    std::byte* from = samples(sent_);
    begin_next(samples(sent_ + 1), from, block_.in_bytes_);
    if (shape_.beside != 0) {
        begin_next(beside(sent_ + 1), beside(sent_), shape_.beside);
    }
    Flight& flight = flights_[sent_ & mask_];
    flight.made = due();
    flight.given = 0;
    flight.done.store(false, std::memory_order_relaxed);
    if (!away()) {
        waits_since_ = now_ns();
    }
    resident::Job job{};
    job.quantum = memory_.ref();
    job.position = position_;
    job.offset = static_cast<uint32_t>(from - begin_);
    job.results = job.offset - lead_ + results_;
    job.count = count;
    job.ticket = sent_;
    workers_.send(job);
    position_ += count;
    filled_ -= count;
    sent_ += 1;
}

void Engine::ResidentCrossing::set(const std::vector<float>& values)
{
    if (values.size() != shape_.values.size()) {
        refuse("block \"" + block_.name() + "\": " + std::to_string(values.size()) +
               " values where there were " + std::to_string(shape_.values.size()) +
               ": give as many");
    }
    workers_.set(0, values);
}

void Engine::ResidentCrossing::done(const resident::Done& message)
{
    Flight& flight = flights_[message.ticket & mask_];
    flight.failed.store(message.failed != 0, std::memory_order_relaxed);
    flight.done.store(true, std::memory_order_release); // partner: give()
}

// What the oldest slot has for the circuits, as far as there is room. True: something moved.
bool Engine::ResidentCrossing::give()
{
    Flight& flight = flights_[returned_ & mask_];
    if (!flight.done.load(std::memory_order_acquire)) { // partner: done()
        return false;
    }
    if (flight.failed.load(std::memory_order_relaxed)) {
        throw Error(Errc::stale, "the resident worker did not find its memory");
    }
    const size_t room = block_.room();
    const size_t left = flight.made - flight.given;
    const size_t count = std::min(room - room % shape_.frame, left);
    if (count == 0) {
        if (room != 0) { // less than a frame's
            block_.flush();
        }
        return room != 0;
    }
    const std::byte* results = samples(returned_) - lead_ + results_;
    block_.give(results + uint64_t{flight.given} * block_.out_bytes_,
                size_t{flight.made} * block_.out_bytes_, count);
    flight.given += static_cast<uint32_t>(count);
    if (flight.given == flight.made) {
        returned_ += 1;
    }
    return true;
}

bool Engine::ResidentCrossing::poll()
{
    if (!busy()) {
        return false;
    }
    bool moved = false;
    block_.resident_.collect();
    while (away() && give()) { // ends: by what is not done, or has no room
        moved = true;
    }
    if (due() != 0 && may_send()) {
        send();
        moved = true;
    }
    // A slot that is done waits for room, which whoever reads the circuits has.
    if (moved || !away() || flights_[returned_ & mask_].done.load(std::memory_order_relaxed)) {
        waits_since_ = now_ns();
    } else {
        workers_.check_patience("samples have", waits_since_);
    }
    return moved;
}

ResidentBridge::ResidentBridge(std::string name, Resident& resident, const std::string& kind,
                               size_t in_bytes, size_t out_bytes)
    : Block(std::move(name)), resident_(resident), kind_(resident.kind(kind)),
      in_bytes_(static_cast<uint32_t>(in_bytes)), out_bytes_(static_cast<uint32_t>(out_bytes))
{
}

ResidentBridge::~ResidentBridge() = default;

void ResidentBridge::set(const std::vector<float>& values) { crossing_->set(values); }

void ResidentBridge::work() { crossing_->work(); }

bool ResidentBridge::poll() { return crossing_->poll(); }

bool ResidentBridge::busy() const { return crossing_ != nullptr && crossing_->busy(); }

} // namespace denizen::flow

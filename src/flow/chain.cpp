// SPDX-License-Identifier: Apache-2.0
#include "chain.hpp"
#include "refuse.hpp"

#include "base/round_up.hpp"

#include <denizen/base/clock.hpp>

#include <bit>
#include <cstring>
#include <limits>

namespace denizen::flow {
namespace {

using resident::Stage;

// Of a quantum that is cut. Each piece costs the host a message there and one back, and the worker
// what it reads of its past.
constexpr uint32_t most_pieces = 8;
constexpr size_t least_piece = 128; // samples

} // namespace

std::vector<std::unique_ptr<Engine::ResidentChain>>
Engine::ResidentChain::build(const std::vector<std::unique_ptr<Block>>& blocks,
                             const Engine::Plan& plan)
{
    std::vector<std::unique_ptr<Engine::ResidentChain>> chains;
    const auto resident = [](const Port& port) {
        return dynamic_cast<ResidentBlock*>(&port.block());
    };
    // The resident block of the same runtime that alone reads this one, and reads nothing else.
    // One of two streams is where a chain begins, one with state is a chain.
    const auto next = [&](const ResidentBlock& block) -> ResidentBlock* {
        const auto& readers = block.port_->out_.readers_;
        ResidentBlock* reader = readers.size() == 1 ? resident(*readers[0].port) : nullptr;
        return reader != nullptr && &reader->resident_ == &block.resident_ &&
                       reader->port_->writers_.size() == 1 && reader->beside_ == nullptr &&
                       !reader->stateful_ && !block.stateful_ && readers[0].port == reader->port_
                   ? reader
                   : nullptr;
    };
    std::set<const ResidentBlock*> followers;
    for (const auto& block : blocks) {
        if (const auto* one = dynamic_cast<ResidentBlock*>(block.get())) {
            followers.insert(next(*one));
        }
    }
    std::map<const Circuit*, std::vector<Engine::ResidentChain*>> passing;
    for (const auto& block : blocks) {
        auto* one = dynamic_cast<ResidentBlock*>(block.get());
        if (one == nullptr || followers.contains(one)) {
            continue;
        }
        // A chain that is too long goes on as another one.
        while (one != nullptr) {
            std::vector<ResidentBlock*> chain;
            for (; one != nullptr && chain.size() < resident::max_stages; one = next(*one)) {
                chain.push_back(one);
            }
            chains.push_back(std::make_unique<Engine::ResidentChain>(std::move(chain)));
            for (const Circuit* circuit : plan.at(chains.back()->port(0))) {
                passing[circuit].push_back(chains.back().get());
            }
        }
    }
    uint64_t lead = 0; // the same for all
    uint64_t largest = 0;
    for (const auto& [circuit, through] : passing) {
        largest = std::max<uint64_t>(largest, circuit->bytes());
        for (const Engine::ResidentChain* chain : through) {
            lead = std::max(lead, chain->lead());
        }
    }
    // A worker reads whole 16 bytes: some in front and behind.
    lead = round_up(lead + 16, 64);
    const uint64_t beside_at = round_up(largest, 64) + lead;
    for (const auto& [circuit, through] : passing) {
        uint64_t beside = 0;
        for (const Engine::ResidentChain* chain : through) {
            beside = std::max(beside, chain->beside(*circuit));
            if (&chain->resident_ != &through[0]->resident_) {
                refuse("circuit \"" + circuit->name() + "\" passes block \"" +
                       through[0]->head().name() + "\" of one resident runtime and block \"" +
                       chain->head().name() + "\" of another: give both the same");
            }
        }
        const auto memory = pinned(*circuit, through[0]->resident_, lead, beside_at, beside);
        for (Engine::ResidentChain* chain : through) {
            chain->memory_[circuit] = memory;
        }
    }
    for (const auto& chain : chains) {
        chain->start(plan.at(chain->port(0)), beside_at);
    }
    return chains;
}

Engine::ResidentChain::ResidentChain(std::vector<ResidentBlock*> blocks)
    : resident_(blocks.front()->resident_), blocks_(std::move(blocks)),
      workers_(resident_, [this](const resident::Done& message) { done(message); })
{
    plan_stages();
}

// What each block must make of the time before a quantum, so that the next has what it needs.
void Engine::ResidentChain::plan_stages()
{
    uint64_t keeps = 0;
    for (size_t s = blocks_.size(); s-- > 0;) {
        Stage& stage = blocks_[s]->stage_;
        stage.in_bytes = static_cast<uint32_t>(port(static_cast<uint32_t>(s)).type().bytes);
        stage.out_bytes = static_cast<uint32_t>(port(static_cast<uint32_t>(s)).out_.type().bytes);
        stage.keeps = static_cast<uint32_t>(keeps);
        keeps = keeps * stage.down + blocks_[s]->before_;
        if (keeps * stage.in_bytes > std::numeric_limits<uint32_t>::max() / 4) {
            refuse("block \"" + blocks_[s]->name() + "\" and those after it need " +
                   std::to_string(keeps) + " samples of the past: that is too much");
        }
        stage.before = static_cast<uint32_t>(keeps);
    }
    before_ = static_cast<uint32_t>(keeps * blocks_[0]->stage_.in_bytes);
    past_.assign(before_, std::byte{0});
    beside_before_ = static_cast<uint32_t>(keeps * head().beside_bytes_);
    beside_past_.assign(beside_before_, std::byte{0});
}

uint64_t Engine::ResidentChain::beside(const Circuit& circuit) const
{
    return circuit.bytes() / head().stage_.in_bytes * head().beside_bytes_;
}

std::shared_ptr<Engine::ResidentChain::Memory>
Engine::ResidentChain::pinned(const Circuit& circuit, Resident& resident, uint64_t lead,
                              uint64_t beside_at, uint64_t beside)
{
    auto memory = std::make_shared<Memory>();
    const uint64_t place =
        lead + (beside == 0 ? round_up(circuit.bytes(), 64) : beside_at + round_up(beside, 64));
    const uint64_t bytes = 2 * place + 64;
    if (bytes > std::numeric_limits<uint32_t>::max()) {
        refuse("circuit \"" + circuit.name() + "\" has buffers of " +
               std::to_string(circuit.bytes()) + " bytes; for resident blocks, less than 2 GiB");
    }
    memory->lead = static_cast<uint32_t>(lead);
    memory->apart = static_cast<uint32_t>(place);
    for (const auto& cell : circuit.cells_) {
        auto buffer = std::make_shared<Buffer>(resident.runtime_.buffer(bytes, BufferKind::pinned));
        auto* begin = static_cast<std::byte*>(buffer->cpu());
        memory->cells[cell.get()] = {buffer->ref(), begin};
        cell->memory = std::shared_ptr<std::byte>(std::move(buffer), begin + lead);
    }
    return memory;
}

void Engine::ResidentChain::start(const std::set<const Circuit*>& circuits, uint64_t beside_at)
{
    uint64_t capacity = 0; // samples that arrive at once
    uint32_t quanta = 0;
    for (const Circuit* circuit : circuits) {
        capacity = std::max<uint64_t>(capacity, circuit->bytes() / head().stage_.in_bytes);
        quanta += circuit->quanta();
    }
    flight_mask_ = std::bit_ceil(quanta) - 1;
    flights_ = std::make_unique<Flight[]>(flight_mask_ + 1);

    resident::Setup setup{};
    uint64_t values = 0;                // floats
    uint64_t area = 32 * sizeof(float); // a word for each lane, at least
    uint64_t arrive = capacity;
    for (size_t s = 0; s < blocks_.size(); ++s) {
        ResidentBlock& block = *blocks_[s];
        Stage& stage = block.stage_;
        stage.values_at = static_cast<uint32_t>(values);
        stage.values = static_cast<uint32_t>(block.values_.size());
        values += round_up(stage.values, 4);
        area = std::max(area, (stage.before + arrive) * stage.in_bytes);
        arrive = arrive / stage.down + 1;
        area = std::max(area, (stage.keeps + arrive) * stage.out_bytes);
        setup.stage[s] = stage;
        if (stage.out_bytes > stage.in_bytes * stage.down) {
            refuse("block \"" + block.name() +
                   "\" makes more bytes than it gets, and a quantum "
                   "keeps its size");
        }
    }
    if (head().beside_ != nullptr) {
        beside_at_ = beside_at;
        setup.beside_at = static_cast<uint32_t>(beside_at);
        setup.beside_bytes = head().beside_bytes_;
        area = std::max(area, (head().stage_.before + capacity) * head().beside_bytes_);
    }
    setup.stages = static_cast<uint32_t>(blocks_.size());
    setup.areas_at = static_cast<uint32_t>(round_up(values * sizeof(float), 16));
    setup.area = static_cast<uint32_t>(round_up(area + 64, 16));

    workers_.start(head().stateful_ ? 1 : resident_.chain_workers_, setup);
    for (size_t s = 0; s < blocks_.size(); ++s) {
        blocks_[s]->chain_ = this;
        blocks_[s]->place_ = static_cast<uint32_t>(s);
        static_cast<Block&>(*blocks_[s]).passive_ = s > 0;
        set(static_cast<uint32_t>(s), blocks_[s]->values_);
    }
}

// Puts what has come of the second stream, if there is one, beside the head's current quantum, and
// sends that when it is complete.
void Engine::ResidentChain::work()
{
    ResidentBlock& block = head();
    if (block.beside_ != nullptr) {
        detail::Cell* cell = port(0).current_;
        paired_ += block.take(cell->memory.get() + beside_at_ + paired_ * block.beside_bytes_,
                              cell->size() - paired_, paired_, cell->tags);
        if (paired_ < cell->size()) {
            return;
        }
        paired_ = 0;
    }
    submit();
}

namespace {

// The samples at `first` get their past in front of them, and leave theirs.
void put_past(std::vector<std::byte>& past, std::byte* first, size_t bytes)
{
    const size_t before = past.size();
    if (before == 0) {
        return;
    }
    std::memcpy(first - before, past.data(), before);
    if (bytes >= before) {
        std::memcpy(past.data(), first + bytes - before, before);
    } else {
        std::memmove(past.data(), past.data() + bytes, before - bytes);
        std::memcpy(past.data() + before - bytes, first, bytes);
    }
}

} // namespace

// In how many pieces a quantum goes to the workers. One that finds all of them idle is cut, as
// nothing else needs the workers: it is back the sooner. In a stream that keeps them busy each
// quantum is whole, which costs the host and the bus the least.
uint32_t Engine::ResidentChain::pieces_of(size_t count) const
{
    if (away() || head().beside_ != nullptr) {
        return 1;
    }
    const size_t least = std::max<size_t>(least_piece, 2 * size_t{head().stage_.before});
    const size_t most = std::min<size_t>(most_pieces, workers_.count());
    return static_cast<uint32_t>(std::clamp<size_t>(count / least, 1, most));
}

// How many of the chain's outputs belong to the inputs before `position`.
uint64_t Engine::ResidentChain::outputs_before(uint64_t position) const
{
    for (const ResidentBlock* block : blocks_) {
        position = resident::first_output(position, block->stage_.up, block->stage_.down);
    }
    return position;
}

// The head's current quantum goes to the workers. Its tags and its window are those of the results
// from now on: how many there will be is known.
void Engine::ResidentChain::submit()
{
    detail::Cell* cell = port(0).detach();
    port(0).moved();
    const Memory& memory = *memory_.at(cell->circuit);
    const Memory::Places& places = memory.cells.at(cell);
    const uint32_t bytes_each = head().stage_.in_bytes;
    const size_t inputs = cell->size();
    const uint64_t first = port(0).position();
    std::byte* samples = cell->memory.get() + cell->begin * bytes_each;
    // Hazard: the past is read before the worker may write to the quantum.
    put_past(past_, samples, inputs * bytes_each);
    put_past(beside_past_, cell->memory.get() + beside_at_, inputs * head().beside_bytes_);

    const auto offset = static_cast<uint32_t>(samples - places.begin);
    const uint32_t pieces = pieces_of(inputs);
    auto results = static_cast<uint32_t>(cell->memory.get() - places.begin);
    if (pieces > 1) {
        // Hazard: a worker that is done may not write where another one still reads. A whole
        // quantum's worker has read all of it before it writes.
        results = results == memory.lead ? results + memory.apart : memory.lead;
        cell->memory = {cell->memory, places.begin + results};
    }

    size_t count = inputs;
    for (uint32_t s = 0; s < blocks_.size(); ++s) {
        InPlacePort& at = port(s);
        const Stage& stage = blocks_[s]->stage_;
        if (s > 0) {
            for (TagCarry* follower : at.followers_) {
                follower->arrive(at.position_, cell->tags);
            }
            if (!at.carry_.empty()) {
                cell->tags.clear();
            }
        }
        const uint64_t position = at.position_;
        const uint64_t made = resident::first_output(position + count, stage.up, stage.down) -
                              resident::first_output(position, stage.up, stage.down);
        cell->begin = 0;
        cell->end = made;
        cell->capacity = cell->circuit->bytes() / stage.out_bytes;
        at.cross(*cell, count);
        count = made;
    }
    Flight& flight = flights_[sent_ & flight_mask_];
    flight.cell = cell;
    flight.pieces.store(pieces, std::memory_order_relaxed);
    flight.failed.store(false, std::memory_order_relaxed);
    if (!away()) {
        waits_since_ = now_ns();
    }
    const uint32_t ticket = sent_++;
    for (uint32_t p = 0; p < pieces; ++p) {
        const uint64_t begin = inputs * p / pieces;
        resident::Job job{};
        job.quantum = places.buffer;
        job.position = first + begin;
        job.offset = offset + static_cast<uint32_t>(begin * bytes_each);
        job.results = results + static_cast<uint32_t>(
                                    (outputs_before(first + begin) - outputs_before(first)) *
                                    blocks_.back()->stage_.out_bytes);
        job.count = static_cast<uint32_t>(inputs * (p + 1) / pieces - begin);
        job.ticket = ticket;
        workers_.send(job);
    }
}

void Engine::ResidentChain::done(const resident::Done& message)
{
    Flight& flight = flights_[message.ticket & flight_mask_];
    if (message.failed != 0) {
        flight.failed.store(true, std::memory_order_relaxed);
    }
    flight.pieces.fetch_sub(1, std::memory_order_release); // partner: poll()
}

bool Engine::ResidentChain::poll()
{
    if (!busy()) {
        return false;
    }
    bool moved = false;
    if (unpaired()) { // what has a partner is the stream's end
        detail::Cell* cell = port(0).current_;
        cell->trim(0, cell->size() - std::exchange(paired_, 0));
        submit();
        moved = true;
    }
    resident_.collect();
    while (away()) { // ends: in order, up to one that is not done
        Flight& flight = flights_[returned_ & flight_mask_];
        if (flight.pieces.load(std::memory_order_acquire) != 0) { // partner: done(), of each piece
            break;
        }
        if (flight.failed.load(std::memory_order_relaxed)) {
            throw Error(Errc::stale, "the resident worker did not find its memory");
        }
        returned_ += 1;
        waits_since_ = now_ns();
        blocks_.back()->port_->leave_with(flight.cell);
        moved = true;
    }
    if (!moved && away()) {
        workers_.check_patience("a quantum has", waits_since_);
    }
    return moved;
}

} // namespace denizen::flow

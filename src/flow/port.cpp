// SPDX-License-Identifier: Apache-2.0
// What happens at the ends of a block. All of it runs on the block's thread, except what a comment
// says otherwise of; quanta and word of the end cross to other threads by the rings alone.
#include <denizen/flow/block.hpp>

#include "refuse.hpp"

#include <cstdlib>
#include <cxxabi.h>

namespace denizen::flow {

std::string SampleType::name() const
{
    const std::unique_ptr<char, decltype(&std::free)> text(
        abi::__cxa_demangle(id.name(), nullptr, nullptr, nullptr), &std::free);
    return text ? text.get() : id.name();
}

// --- what ports tell their block ---

void Engine::refuse_late(const Block& block, const std::string& what)
{
    if (block.run_ != nullptr && block.run_->started.load(std::memory_order_relaxed)) {
        refuse(what + " comes too late: the graph has started");
    }
}

void Engine::enlist(Block& block, InputPort& port)
{
    refuse_late(block, "port \"" + port.label() + '"');
    block.inputs_.push_back(&port);
}
void Engine::enlist(Block& block, OutputPort& port)
{
    refuse_late(block, "port \"" + port.label() + '"');
    block.outputs_.push_back(&port);
}
void Engine::enlist(Block& block, SourcePort& port) { block.sources_.push_back(&port); }
void Engine::enlist(Block& block, MessagePort& port)
{
    refuse_late(block, "message port \"" + port.label() + '"');
    block.messages_.push_back(&port);
}

void Engine::moved(Block& block) { block.moved_ = true; }

void Engine::reader_left(Block& block)
{
    block.reader_left_.store(true, std::memory_order_release); // partner: may_end()
    ring(block);
}

void Engine::ring(Block& block)
{
    if (Doorbell* bell =
            block.bell_.load(std::memory_order_acquire)) { // partner: Flowgraph::start()
        bell->ring();
    }
}

// --- all ports ---

std::string Port::label() const { return block_.name() + '.' + name_; }

void Port::moved() const { Engine::moved(block_); }

void Port::refuse_late(const char* what) const
{
    Engine::refuse_late(block_, "port \"" + label() + "\": " + what);
}

// --- inputs ---

InputPort::InputPort(Block& block, std::string name, SampleType type, bool reads_only)
    : Port(block, std::move(name), type), reads_only_(reads_only)
{
    Engine::enlist(block, *this);
}

detail::Cell* InputPort::detach() { return std::exchange(current_, nullptr); }

void InputPort::give_back(detail::Cell* cell)
{
    // Acquire: when the others' releases are seen, so are the ends of their reads, and the source
    // may write the quantum again. Release: this reader's reads are over before it counts down. A
    // quantum that only one still reads needs no read-modify-write.
    if (cell->readers.load(std::memory_order_acquire) != 1 &&
        cell->readers.fetch_sub(1, std::memory_order_acq_rel) != 1) {
        return;
    }
    cell->where.store(nullptr, std::memory_order_relaxed);
    // A port may be passed by several circuits: a quantum goes back to the source of its own.
    const Circuit* circuit = cell->circuit;
    for (const auto& [home, way] : homes_) {
        if (home == circuit) {
            way.send(cell);
            return;
        }
    }
}

bool InputPort::load_next()
{
    do { // ends: by a quantum that is not empty, or when none is there
        detail::Cell* cell = nullptr;
        if (!arrivals_.try_receive(cell)) {
            return false;
        }
        if (cell->size() == 0) { // work() is not called for nothing
            give_back(cell);
            continue;
        }
        current_ = cell;
    } while (current_ == nullptr);
    for (TagCarry* follower : followers_) {
        follower->arrive(position_, current_->tags);
    }
    loaded();
    return true;
}

void InputPort::leave()
{
    if (current_ != nullptr) {
        give_back(detach());
    }
    left_.store(true, std::memory_order_release); // partner: left()
    for (const OutputPort* writer : writers_) {
        Engine::reader_left(writer->block());
    }
}

// --- outputs ---

OutputPort::OutputPort(Block& block, std::string name, SampleType type, InputPort* from)
    : Port(block, std::move(name), type), from_(from)
{
    Engine::enlist(block, *this);
}

void OutputPort::send(detail::Cell* cell)
{
    // The rings' releases publish both words. The quantum is not touched after the last send: its
    // readers may have given it back by then.
    cell->readers.store(static_cast<uint32_t>(readers_.size()), std::memory_order_relaxed);
    cell->where.store(readers_.size() == 1 ? static_cast<const Port*>(readers_[0].port) : this,
                      std::memory_order_relaxed);
    for (const Reader& reader : readers_) {
        reader.way.send(cell);
    }
}

bool OutputPort::wanted() const
{
    return std::any_of(readers_.begin(), readers_.end(),
                       [](const Reader& reader) { return !reader.port->left(); });
}

void OutputPort::close()
{
    for (const Reader& reader : readers_) {
        reader.way.ring->close();
        Engine::ring(reader.port->block());
    }
}

// --- sources ---

SourcePort::SourcePort(Block& block, std::string name, SampleType type)
    : OutputPort(block, std::move(name), type, nullptr)
{
    Engine::enlist(block, *this);
}

void SourcePort::follow(InputPort& input, Rate rate)
{
    refuse_late("follow()");
    input.follow_with(carries_.emplace_back(rate));
}

void SourcePort::tag(uint64_t ahead, std::string key, Value value)
{
    current_->tags.push_back({current_->size() + ahead, std::move(key), std::move(value)});
}

void SourcePort::produce(size_t samples)
{
    const size_t room = current_->capacity - current_->end;
    if (samples > room) {
        throw Error(Errc::bad_argument, "port \"" + label() + "\": " + std::to_string(samples) +
                                            " samples produced in room for " +
                                            std::to_string(room));
    }
    current_->end += samples;
    moved();
    if (samples == room) {
        flush();
    }
}

void SourcePort::flush()
{
    if (current_ == nullptr || current_->size() == 0) {
        return;
    }
    detail::Cell* cell = std::exchange(current_, nullptr);
    for (TagCarry& carry : carries_) {
        carry.leave(first_, cell->size(), cell->tags);
    }
    if (cell->tags.size() > 1) { // followed inputs and tag() put theirs in one after the other
        std::stable_sort(cell->tags.begin(), cell->tags.end(),
                         [](const Tag& a, const Tag& b) { return a.sample < b.sample; });
    }
    first_ += cell->size();
    moved();
    send(cell);
}

bool SourcePort::load_next()
{
    if (!circuit_->idle_.empty()) {
        current_ = circuit_->idle_.back();
        circuit_->idle_.pop_back();
    } else if (!circuit_->returned_.try_receive(current_)) {
        return false;
    }
    current_->begin = current_->end = margin_;
    if (current_->capacity != circuit_->samples()) { // a Transform counts in other samples
        current_->capacity = circuit_->samples();
    }
    current_->tags.clear();
    return true;
}

void SourcePort::finish()
{
    flush();
    if (current_ != nullptr) {
        circuit_->idle_.push_back(std::exchange(current_, nullptr));
    }
}

// --- in place ---

InPlacePort::InPlacePort(Block& block, std::string name, SampleType type, SampleType becomes)
    : InputPort(block, name, type, false), out_(block, name, becomes, this)
{
}

void InPlacePort::rate(Rate r)
{
    refuse_late("rate()");
    follow_with(carry_.emplace_back(r));
}

void InPlacePort::loaded()
{
    arrived_ = current()->size();
    if (!carry_.empty()) {
        current()->tags.clear(); // on their way in carry_
    }
}

void InPlacePort::pass()
{
    detail::Cell* cell = detach();
    cross(*cell, arrived_);
    moved();
    leave_with(cell);
}

// The tags' way over the block, for a window of `arrived` samples that the block has changed.
void InPlacePort::cross(detail::Cell& cell, size_t arrived)
{
    skip(arrived);
    if (!carry_.empty()) {
        carry_.front().leave(sent_, cell.size(), cell.tags);
    }
    sent_ += cell.size();
}

void InPlacePort::leave_with(detail::Cell* cell)
{
    if (cell->size() == 0) {
        give_back(cell);
    } else {
        out_.send(cell);
    }
}

void InPlacePort::become(size_t samples)
{
    detail::Cell& cell = *current();
    cell.capacity = cell.circuit->bytes() / out_.type().bytes;
    if (samples > cell.capacity) {
        throw Error(Errc::bad_argument, "port \"" + label() + "\": " + std::to_string(samples) +
                                            " samples in room for " +
                                            std::to_string(cell.capacity));
    }
    cell.begin = 0;
    cell.end = samples;
}

} // namespace denizen::flow

// SPDX-License-Identifier: Apache-2.0
// The window of a quantum, and circuits: their buffers, and where each of their quanta is.
#include "base/round_up.hpp"

#include <denizen/flow/port.hpp>

#include <map>

namespace denizen::flow {
namespace detail {

void Cell::trim(size_t left, size_t right)
{
    if (left > size() || right > size() - left) {
        throw Error(Errc::bad_argument, "trim: " + std::to_string(left) + " and " +
                                            std::to_string(right) + " samples from a window of " +
                                            std::to_string(size()));
    }
    begin += left;
    end -= right;
    std::erase_if(tags, [&](const Tag& t) { return t.sample < left || t.sample - left >= size(); });
    for (Tag& tag : tags) {
        tag.sample -= left;
    }
}

void Cell::grow(size_t left, size_t right)
{
    if (left > begin || right > capacity - end) {
        throw Error(Errc::bad_argument, "grow: by " + std::to_string(left) + " and " +
                                            std::to_string(right) + " samples; the margins have " +
                                            std::to_string(begin) + " and " +
                                            std::to_string(capacity - end));
    }
    begin -= left;
    end += right;
    for (Tag& tag : tags) {
        tag.sample += left;
    }
}

} // namespace detail

Circuit::Circuit(std::string name, SourcePort& source, uint32_t quanta, size_t samples)
    : name_(std::move(name)), source_(&source), samples_(samples)
{
    // Whole cache lines: the last samples of one quantum share none with what lies behind.
    const size_t bytes = round_up(samples * source.type().bytes, 64);
    for (uint32_t i = 0; i < quanta; ++i) {
        auto cell = std::make_unique<detail::Cell>();
        cell->memory.reset(static_cast<std::byte*>(::operator new[](bytes, std::align_val_t{64})),
                           [](std::byte* p) { ::operator delete[](p, std::align_val_t{64}); });
        cell->capacity = samples;
        cell->circuit = this;
        idle_.push_back(cell.get());
        cells_.push_back(std::move(cell));
    }
}

size_t Circuit::bytes() const { return samples_ * source_->type().bytes; }

uint32_t Circuit::at_home()
{
    detail::Cell* cell = nullptr;
    while (returned_.try_receive(cell)) { // ends: nobody sends any more
        idle_.push_back(cell);
    }
    return static_cast<uint32_t>(idle_.size());
}

std::string Circuit::whereabouts() const
{
    std::map<std::string, int> at;
    for (const auto& cell : cells_) {
        const Port* port = cell->where.load(std::memory_order_relaxed);
        at[port == nullptr ? "at home" : "at \"" + port->label() + '"'] += 1;
    }
    std::string text = "circuit \"" + name_ + "\" (" + std::to_string(quanta()) + " quanta of " +
                       std::to_string(samples_) + " samples):";
    const char* separator = " ";
    for (const auto& [place, count] : at) {
        text += separator + std::to_string(count) + ' ' + place;
        separator = ", ";
    }
    return text;
}

} // namespace denizen::flow

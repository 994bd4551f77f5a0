// SPDX-License-Identifier: Apache-2.0
// A quantum: a buffer of samples on a cache line's boundary, with a window on the part in use, and
// the tags of the samples in it. And the circuit that owns a fixed number of them.
#pragma once

#include <denizen/base/error.hpp>
#include <denizen/flow/channel.hpp>
#include <denizen/flow/detail/engine.hpp>
#include <denizen/flow/detail/parking.hpp>
#include <denizen/flow/tag.hpp>

#include <atomic>
#include <memory>
#include <new>
#include <span>

namespace denizen::flow {

class Circuit;
class Port;
class InputPort;
class SourcePort;

namespace detail {

// What travels is a pointer to one of these. It belongs to one block at a time; after a broadcast
// to several that only read it.
struct alignas(line) Cell {
    // One cache line, which goes from core to core with the quantum.
    size_t begin = 0;
    size_t end = 0;
    std::vector<Tag> tags; // by sample, counted from `begin`
    std::atomic<uint32_t> readers{0};
    std::atomic<const Port*> where{nullptr}; // the port it was last sent to, for diagnosis
    // And one that is hardly ever written.
    alignas(line) size_t capacity = 0; // samples of the port that it is at, as are begin and end
    std::shared_ptr<std::byte> memory; // aligned to 64 bytes
    Circuit* circuit = nullptr;

    size_t size() const { return end - begin; }
    // Samples leave the window with their tags. Throws bad_argument beyond its ends.
    void trim(size_t left, size_t right);
    // Takes margins back into the window; what lies there is what was last written there.
    void grow(size_t left, size_t right);
};

} // namespace detail

// A number of quanta that begin at one source port and come back to it. Made by
// Flowgraph::circuit().
class Circuit {
public:
    Circuit(std::string name, SourcePort& source, uint32_t quanta, size_t samples);

    const std::string& name() const { return name_; }
    uint32_t quanta() const { return static_cast<uint32_t>(cells_.size()); }
    size_t samples() const { return samples_; }
    size_t bytes() const; // of a buffer
    SourcePort& source() const { return *source_; }

    // How many quanta are back. After the graph has ended, and not before: all of them.
    uint32_t at_home();

    // `circuit "iq" (4 quanta of 4096 samples): 3 at "delay.in", 1 at home`
    std::string whereabouts() const;

private:
    friend class detail::Engine;
    friend class Flowgraph;
    friend class SourcePort;

    std::string name_;
    SourcePort* source_;
    size_t samples_;
    std::vector<std::unique_ptr<detail::Cell>> cells_;
    std::vector<detail::Cell*> idle_;        // at the source, not yet filled
    UncheckedRings<detail::Cell*> returned_; // one ring per port that gives back
};

} // namespace denizen::flow

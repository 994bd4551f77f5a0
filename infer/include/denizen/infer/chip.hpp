// SPDX-License-Identifier: Apache-2.0
// Where the blocks of a resident model run, and the memory that they share with the host: a GPU
// (gpu.hpp), or, in tests, threads that run the kernel's text. Who makes an Engine gives it one.
// Host only.
#pragma once

#include <denizen/infer/detail/block_op.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace denizen::infer {

class Chip {
public:
    // What the host writes and the blocks read.
    struct Slots {
        Packet* host = nullptr;
        const Packet* blocks = nullptr; // the same, where the blocks find it
        bool near_blocks = false;       // every block may look for requests there
    };

    virtual ~Chip() = default;
    // For a copy of the model beside it.
    virtual std::unique_ptr<Chip> another() const = 0;

    virtual const std::string& name() const = 0;
    virtual uint32_t most_blocks() = 0;      // on SMs that no other program of the process has
    virtual size_t shared_bytes() const = 0; // of a block, at most
    // How many clusters of as many blocks there can be at a time.
    virtual uint32_t clusters(Format format, uint32_t blocks, size_t shared_bytes) = 0;

    // Zero-filled, for as long as this lives. Throws exhausted; `what` has no place.
    virtual void* device(size_t bytes, const std::string& what) = 0;
    virtual void* host(size_t bytes) = 0; // that the blocks reach at the same address
    virtual Slots slots(size_t bytes) = 0;
    // Until the bytes are there. Device memory that the blocks do not use meanwhile. Throws
    // peer_dead.
    virtual void write(void* device, const void* from, size_t bytes) = 0;
    virtual void read(void* to, const void* device, size_t bytes) = 0;

    // Puts the blocks on, once. `model.term` is filled in.
    virtual void start(const detail::ResidentModel& model, Format format, bool clusters) = 0;
    // They leave, and stay away until let_go(). Throws stuck or peer_dead.
    virtual void hold() = 0;
    virtual void let_go() = 0;
    // Between the two: what they go on with.
    virtual void change(const detail::ResidentModel& model) = 0;
    virtual void stop() = 0;
    virtual bool failed(std::string* why) const = 0; // they will not come back
};

} // namespace denizen::infer

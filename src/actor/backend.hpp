// SPDX-License-Identifier: Apache-2.0
// The processor that a node of a program lives on, as the core sees it: memory, a way on and off,
// commands, and fresh reports. Two of them: CPU threads (cpu_backend.cpp) and a GPU
// (gpu_backend.cpp).
#pragma once

#include "device/copy.hpp"
#include "geometry.hpp"

#include <denizen/device/residents.hpp>

#include <cstddef>
#include <memory>
#include <span>

namespace denizen {

struct Regions {
    std::byte* host = nullptr;         // the host and all nodes reach it at this address
    std::byte* device = nullptr;       // near the workers; zero-filled; the CPU may not reach it
    std::byte* rings_host = nullptr;   // the host rings' slots as the host writes them
    std::byte* rings_device = nullptr; // and as the workers read them
};

class Backend {
public:
    virtual ~Backend() = default;

    virtual const Geometry& geometry() const = 0;
    // From now on this node's workers may write into `peer`'s device memory. Before any launch.
    virtual void reach(const Backend& peer) = 0;
    // Called once. All regions are zero-filled and aligned to 256 bytes.
    virtual Regions allocate(size_t host_bytes, size_t device_bytes, size_t ring_bytes) = 0;
    // What the workers will be given; for every node before the first launch.
    virtual void wire(const Shared& shared) = 0;
    // Puts the node's workers on the processor and returns.
    virtual void launch() = 0;
    // From the next incarnation on the workers run this code, which is of the same program. Throws,
    // and then they go on with what they have.
    virtual void exchange(const Image& image) = 0;
    virtual void command(Command c) = 0;
    virtual Command commanded() const = 0;
    // Makes Control and Report tell a state not older than this call. False if that did not happen
    // within `patience_ns` (a program that has left is up to date).
    virtual bool refresh(uint64_t patience_ns) = 0;
    // The same of what Control tells of a check alone (detail/quiet.hpp), which takes less time.
    virtual bool check_quiet(uint64_t patience_ns) = 0;
    // Errc::ok, or why the program can never go on, with the reason in `text`.
    virtual Errc failure(std::string& text) = 0;
    // After publishing to worker w's host ring, one light_fence() after the last of several.
    virtual void wake(uint32_t worker) = 0;
    virtual bool parked() const = 0;
    virtual uint64_t launches() const = 0;
    // With a breath: incarnations that have begun or are queued; else as launches().
    virtual uint64_t incarnations() const = 0;
    // Copies device memory while the program runs, word by word: aligned words of 8 bytes are not
    // torn. On the CPU reads are acquires and writes releases (partners: what handlers do to the
    // buffer table, and the end of their turns); on a GPU one call is done before the next. False
    // if the processor is lost.
    virtual bool read(void* to, const void* device_memory, size_t bytes) = 0;
    virtual bool write(void* device_memory, const void* from, size_t bytes) = 0;
    // Many at once, in their order: on a GPU far cheaper than one by one.
    virtual bool read(std::span<const Copy> copies) = 0;
    virtual bool write(std::span<const Copy> copies) = 0;
    // Takes the workers off between two messages, whatever is commanded meanwhile, and lets them
    // come back. held(): all of them are off, and what they know is in memory.
    virtual void hold() = 0;
    virtual bool held() = 0;
    virtual void let_go() = 0;
    // Takes the node off; it has been told to stop. False if a handler does not return by then.
    virtual bool join(uint64_t patience_ns) = 0;
    // When join failed, on this node or another: gives up the processor so that the process can go
    // on. Memory stays, for whoever still writes there.
    virtual void abandon() = 0;
    // True if stores to the host rings stay in write-combining buffers until a store fence.
    virtual bool write_combined() const = 0;
    // Fills in the device's name and kind, and adds the bytes that this node takes.
    virtual void describe(Description& d) const = 0;
};

// What a GPU node that has left its GPU asks and tells the core.
struct Return {
    std::function<bool()> needed; // whether there is a reason to go back
    std::function<void()> made;   // it has gone back
};

std::unique_ptr<Backend> make_cpu_backend(const Image& image, const Options& options);
std::unique_ptr<Backend> make_gpu_backend(const Image& image, const Options& options, int ordinal,
                                          Return back);

} // namespace denizen

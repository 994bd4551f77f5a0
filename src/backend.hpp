// SPDX-License-Identifier: Apache-2.0
// The processor a program lives on, as the core sees it: memory, a way on and off, commands, and
// fresh reports. Two of them: CPU threads (cpu_backend.cpp) and a GPU (gpu/backend.cpp).
#pragma once

#include <denizen/any_runtime.hpp>

#include <cstddef>
#include <memory>

namespace denizen {

struct Regions {
    std::byte* host = nullptr;         // both sides reach it at this address
    std::byte* device = nullptr;       // near the workers; zero-filled; the CPU may not reach it
    std::byte* lanes_host = nullptr;   // the host lanes' slots as the host writes them
    std::byte* lanes_device = nullptr; // and as the workers read them
};

class Backend {
public:
    virtual ~Backend() = default;

    // Called once, before launch. All regions are zero-filled and aligned to 256 bytes.
    virtual Regions allocate(size_t host_bytes, size_t device_bytes, size_t lane_bytes) = 0;
    // Puts the program on the processor and returns.
    virtual void launch(const Shared& shared) = 0;
    virtual void command(Command c) = 0;
    virtual Command commanded() const = 0;
    // Makes Control and Report tell a state not older than this call. False if that did not happen
    // within `patience_ns` (a program that has left is up to date).
    virtual bool refresh(uint64_t patience_ns) = 0;
    // Errc::ok, or why the program can never go on, with the reason in `text`.
    virtual Errc failure(std::string& text) = 0;
    // After publishing to worker w's lane, one light_fence() after the last of several.
    virtual void wake(uint32_t worker) = 0;
    virtual bool parked() const = 0;
    virtual uint64_t launches() const = 0;
    // Takes the program off; it has been told to stop. False if a handler does not return by then.
    virtual bool join(uint64_t patience_ns) = 0;
    // When join failed: gives up the processor so that the process can go on.
    virtual void abandon() = 0;
    // True if stores to the lanes stay in write-combining buffers until a store fence.
    virtual bool write_combined() const = 0;
    virtual void describe(Description& d) const = 0;
};

// Tells the backend which lanes hold messages that no worker has taken yet: the GPU backend asks
// before it lets a parked program sleep.
using Pending = std::function<bool()>;

std::unique_ptr<Backend> make_cpu_backend(const Image& image, const Options& options,
                                          uint32_t& workers);
std::unique_ptr<Backend> make_gpu_backend(const Image& image, const Options& options,
                                          uint32_t& workers, Pending pending);
bool gpu_present();

// Runs `use`, which may wait for everything on a GPU, while no program of this process is on one.
// False, without running it, if one does not leave within two seconds.
bool without_residents(const std::function<void()>& use);

} // namespace denizen

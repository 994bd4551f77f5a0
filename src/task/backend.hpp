// SPDX-License-Identifier: Apache-2.0
// The processor that a program of tasks lives on, as TaskRuntime's core sees it: CPU threads
// (cpu_backend.cpp) or a GPU (gpu_backend.cpp).
#pragma once

#include <denizen/task/task_runtime.hpp>

namespace denizen::task {

struct Regions {
    std::byte* host = nullptr;   // the host and the processor reach it at this address
    std::byte* device = nullptr; // near the workers; the CPU may not reach it
};

class Backend {
public:
    virtual ~Backend() = default;

    virtual uint32_t workers() const = 0;
    virtual uint32_t per_block() const = 0;
    virtual const std::string& device() const = 0;
    // Called once. Zero-filled and aligned to 256 bytes.
    virtual Regions allocate(size_t host_bytes, size_t device_bytes) = 0;
    // Before the launch: writes device memory.
    virtual void fill(void* device_memory, const void* from, size_t bytes) = 0;
    virtual void launch(const Shared& shared) = 0;
    // Copies device memory beside the running program. False if the processor is lost.
    virtual bool read(void* to, const void* device_memory, size_t bytes) = 0;
    // The host has changed what the monitor looks at.
    virtual void wake_monitor() = 0;
    // Errc::ok, or why the program can never go on, with the reason in `text`.
    virtual Errc failure(std::string& text) = 0;
    virtual uint64_t launches() const = 0;
    // With a breath: incarnations that have begun or are queued; else as launches().
    virtual uint64_t incarnations() const = 0;
    // Stops the program. False if a task does not return by then: the processor is given up.
    virtual bool stop(uint64_t patience_ns) = 0;
};

std::unique_ptr<Backend> make_cpu_backend(const Image& image, const Options& options);
std::unique_ptr<Backend> make_gpu_backend(const Image& image, const Options& options);

} // namespace denizen::task

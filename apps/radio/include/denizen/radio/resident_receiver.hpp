// SPDX-License-Identifier: Apache-2.0
// Mode S as the Receiver finds it, by resident workers (scan_ring.hpp) on a GPU or on threads of
// the CPU: bytes in, the same messages out, only a block or a few later. One thread at a time.
#pragma once

#include <denizen/base/code.hpp>
#include <denizen/device/detail/breath_option.hpp>
#include <denizen/radio/receiver.hpp>
#include <denizen/radio/scan_ring.hpp>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace denizen::radio {

// The scan's kernel, as nvcc compiled it into this file; none elsewhere.
#if defined(__CUDACC__)
namespace detail {

static inline void* scan_kernel(const std::string& name)
{
    const denizen::detail::NamedKernel kernels[] = {
        {"scan_ring", reinterpret_cast<const void*>(&denizen_radio_scan_ring)},
    };
    return denizen::detail::function_of(kernels, name, "the scan");
}

} // namespace detail

static inline Code compiled_code() { return {{}, &detail::scan_kernel}; }
#else
inline Code compiled_code() { return {}; }
#endif

// Where the workers are, and the memory that they share with the host.
class ScanWorkers {
public:
    virtual ~ScanWorkers() = default;
    // How many blocks can be scanned at a time.
    virtual uint32_t size() const = 0;
    // Zero-filled memory that the host and the workers reach at the same address, for as long as
    // this lives.
    virtual void* memory(size_t bytes) = 0;
    // Whether they reach somebody else's memory at the host's address.
    virtual bool reaches(const void* memory, size_t bytes) = 0;
    // Puts the workers on, once. `ring.tickets`, `ring.limit` and `ring.term` are filled in.
    virtual void start(ScanRing ring) = 0;
    // A block has been published: if the workers have left they come back. Throws if they cannot.
    virtual void wake() = 0;
    // Tells them to leave, and returns when they have.
    virtual void join() = 0;
    virtual const std::string& device() const = 0;
};

// `threads` of the CPU, 0: as many as it has cores.
std::unique_ptr<ScanWorkers> scan_on_cpu(uint32_t threads);
// One block of threads on each SM of the GPU. `code`: the kernel denizen_radio_scan_ring, which a
// file compiled by nvcc has. No kernel lasts longer than `breath` and a block of the stream, so
// that what waits for the whole device gets its turn; 0: one kernel for as long as they stay.
// Unless it is said: default_breath. Throws Errc::no_device, bad_argument.
std::unique_ptr<ScanWorkers> scan_on_gpu(int ordinal, const Code& code = compiled_code(),
                                         std::optional<std::chrono::microseconds> breath = {});

class ResidentReceiver {
public:
    using Sink = Receiver::Sink;

    explicit ResidentReceiver(std::unique_ptr<ScanWorkers> workers,
                              std::optional<Position> receiver = {});
    ~ResidentReceiver();

    // As Receiver's. A message comes when its block has been scanned and there is a further call.
    void feed(const uint8_t* iq, size_t bytes, const Sink& sink);
    // The same, and the workers read the samples where they are instead of in a copy: in memory
    // that a GPU's workers reach (a Buffer of kind pinned, cudaHostAlloc()), in any on the CPU. It
    // must stay as it is until released(). Blocks that lie over the border of two calls, or begin
    // at an address that is no multiple of 16, are copied. Throws Errc::bad_argument for memory
    // that the workers do not reach.
    void feed_in_place(const uint8_t* iq, size_t bytes, const Sink& sink);
    // How many samples were fed, and how many of them are not read any more, so that their memory
    // may be used again: all after finish().
    uint64_t fed() const { return position_ + filled_ / 2 - lead; }
    uint64_t released() const;
    // Waits for what is still being scanned.
    void finish(const Sink& sink);

    // Without preambles and readings, which are not known here.
    const Counts& counts() const { return counts_; }
    const Airspace& airspace() const { return airspace_; }
    const std::string& device() const { return workers_->device(); }

private:
    void stage(const uint8_t*& iq, const uint8_t* end, const Sink& sink);
    void publish(size_t count, const Sink& sink);
    void hand_over(uint32_t slot, const uint8_t* iq, size_t count, size_t available);
    uint32_t free_slot(const Sink& sink);
    void collect(uint64_t until, const Sink& sink);
    void wait_for(uint32_t slot);
    std::vector<Candidate> scan_here(uint32_t slot);

    std::unique_ptr<ScanWorkers> workers_;
    ScanRing ring_{};
    uint8_t* copies_;          // of the blocks that are not read in place: one for each slot
    ScanSlot* slot_;           // ring_.slot, to write
    uint64_t published_ = 0;   // blocks
    uint64_t collected_ = 0;   // of these
    std::vector<uint8_t> iq_;  // `lead` samples before the block that is being filled, and on
    size_t filled_ = 2 * lead; // bytes of iq_
    Airspace airspace_;
    Counts counts_;
    std::vector<uint64_t> begin_; // of each slot's block, the position in the stream
    uint64_t position_ = 0;       // of the block that is being filled
    uint64_t free_ = 0;           // after the last message
};

} // namespace denizen::radio

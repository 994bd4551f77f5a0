// SPDX-License-Identifier: Apache-2.0
// Mode S as the Receiver finds it, by resident workers (scan_ring.hpp) on a GPU or on threads of
// the CPU: bytes in, the same messages out, only a block or a few later. One thread at a time.
#pragma once

#include <denizen/radio/receiver.hpp>
#include <denizen/radio/scan_ring.hpp>

#include <memory>
#include <string>
#include <vector>

namespace denizen::radio {

// Where the workers are, and the memory that they share with the host.
class ScanWorkers {
public:
    virtual ~ScanWorkers() = default;
    // How many blocks can be scanned at a time.
    virtual uint32_t size() const = 0;
    // Zero-filled memory that the host and the workers reach at the same address, for as long as
    // this lives.
    virtual void* memory(size_t bytes) = 0;
    // Puts the workers on, to begin with block `from`. `ring.tickets` and `ring.limit` are
    // filled in.
    virtual void launch(ScanRing ring, uint64_t from) = 0;
    // Whether any may still be at work. Throws if the device is lost.
    virtual bool on() = 0;
    // Returns when all have left: `*ring.stop` is set, or they leave by themselves.
    virtual void join() = 0;
    virtual const std::string& device() const = 0;
};

// `threads` of the CPU, 0: as many as it has cores.
std::unique_ptr<ScanWorkers> scan_on_cpu(uint32_t threads);
// One block on each SM of the GPU, of the kernel denizen_radio_scan_ring in `cubin`. Throws
// Errc::no_device.
std::unique_ptr<ScanWorkers> scan_on_gpu(int ordinal, const std::vector<char>& cubin);

class ResidentReceiver {
public:
    using Sink = Receiver::Sink;

    explicit ResidentReceiver(std::unique_ptr<ScanWorkers> workers,
                              std::optional<Position> receiver = {});
    ~ResidentReceiver();

    // As Receiver's. A message comes when its block has been scanned and there is a further call.
    void feed(const uint8_t* iq, size_t bytes, const Sink& sink);
    // Waits for what is still being scanned.
    void finish(const Sink& sink);

    // Without preambles and readings, which are not known here.
    const Counts& counts() const { return counts_; }
    const Airspace& airspace() const { return airspace_; }
    const std::string& device() const { return workers_->device(); }

private:
    void publish(size_t count, const Sink& sink);
    void collect(uint64_t until, const Sink& sink);
    void wait_for(uint32_t slot);
    std::vector<Candidate> scan_here(uint32_t slot);

    std::unique_ptr<ScanWorkers> workers_;
    ScanRing ring_{};
    uint8_t* slots_;           // ring_.iq, to write
    ScanSlot* slot_;           // and ring_.slot
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

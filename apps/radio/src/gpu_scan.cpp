// SPDX-License-Identifier: Apache-2.0
// The resident scan on a GPU, through the driver; its keeper keeps it there. Taking and freeing
// memory and loading code wait for what is resident: it happens while the programs of this process
// are off the GPU.
#include <denizen/radio/resident_receiver.hpp>

#include <denizen/device/chip.hpp>
#include <denizen/device/keeper.hpp>

#include <utility>

namespace denizen::radio {
namespace {

using namespace gpu;

constexpr uint64_t limit_ns = 2'000'000'000;    // without a block, after which the kernel leaves
constexpr unsigned threads = 512;               // ring_threads
constexpr uint64_t patience_ns = 5'000'000'000; // for the workers to leave: milliseconds

class Gpu final : public ScanWorkers {
public:
    Gpu(int ordinal, const Code& code, uint64_t breath_ns)
        : info_(device_info(ordinal)), breath_ns_(breath_ns)
    {
        if (!code.runs_on_gpu())
            throw Error(Errc::no_device, "the scan was not compiled for a GPU: call scan_on_gpu() "
                                         "from a file compiled by nvcc, or give it a cubin");
        if (info_.shared_bytes < sizeof(ScanMemory) + 1024)
            throw Error(Errc::no_device, info_.name + " gives a block " +
                                             std::to_string(info_.shared_bytes >> 10) +
                                             " KiB of shared memory; the scan needs " +
                                             std::to_string(sizeof(ScanMemory) >> 10));
        off_the_gpu("the scan", [&] {
            Chip::open(chip_, info_, "the scan", StreamPriority::ordinary, [&] { open(code); });
        });
    }

    ~Gpu() override
    {
        join();
        Chip::close(chip_);
    }

    uint32_t size() const override { return static_cast<uint32_t>(info_.sm_count); }

    void* memory(size_t bytes) override
    {
        void* p = nullptr;
        off_the_gpu("the scan", [&] {
            const ContextScope scope(chip_->context());
            p = chip_->take_host(bytes);
        });
        return p;
    }

    bool reaches(const void* memory, size_t bytes) override
    {
        const ContextScope scope(chip_->context());
        const auto same = [&](const void* p) {
            const auto address = reinterpret_cast<DevicePtr>(p);
            DevicePtr there = 0;
            return driver().pointer_get_attribute(&there, pointer_on_device, address) == success &&
                   there == address;
        };
        return same(memory) && same(static_cast<const std::byte*>(memory) + bytes - 1);
    }

    void start(ScanRing ring) override
    {
        ring_ = ring;
        ring_.tickets = &near()->tickets;
        ring_.limit = limit_ns;
        ring_.term.ns = breath_ns_;
        ring_.term.state = &near()->term;
        ring_.term.words = words_;
        ring_.term.blocks = size();
        Kept kept(*chip_, shape(false));
        kept.name = "the resident scan";
        kept.breath_ns = breath_ns_;
        kept.ends_by_itself = true; // after the limit
        kept.words = words_;
        kept.command = reinterpret_cast<DevicePtr>(&near()->term.over);
        kept.launch = by_term(ring_, [this](const ScanRing& next) { launch_kernel(next); });
        kept.needed = [this] { // see wake()
            return load<Scope::system>(ring_.published) > load<Scope::system>(ring_.taken);
        };
        keeper_.start(std::move(kept));
    }

    void wake() override
    {
        keeper_.wake(); // has a fence behind what was published; partner: the keeper's
        std::string text;
        if (const Errc why = keeper_.failure(text); why != Errc::ok) throw Error(why, text);
    }

    void join() override { keeper_.end(patience_ns); }

    const std::string& device() const override { return info_.name; }

private:
    struct Near { // device memory
        Term term;
        ScanTickets tickets;
    };
    Near* near() const { return reinterpret_cast<Near*>(near_); }

    // A successor's blocks begin as its predecessor's say so or leave; see scan_ring.hpp.
    Shape shape(bool successor) const
    {
        return {.blocks = {size(), 1, 1},
                .threads = {threads, 1},
                .shared_bytes = sizeof(ScanMemory),
                .early = successor && info_.major >= 9};
    }
    void launch_kernel(const ScanRing& ring) const
    {
        launch(chip_->function("scan_ring"), shape(ring.term.successor != 0), chip_->stream(),
               "denizen_radio_scan_ring", ring);
    }

    void open(const Code& code)
    {
        chip_->load(code, "denizen_radio_", {"scan_ring"}, "the scan's cubin");
        chip_->allow_shared("scan_ring", sizeof(ScanMemory));
        words_ = static_cast<ResidentWords*>(chip_->take_host(sizeof(ResidentWords)));
        check(chip_->try_take(near_, sizeof(Near)), "cuMemAlloc");
        chip_->set(near(), 0, sizeof(Near));
        // Once for nothing, while nobody is here who stays: a kernel's first launch may load code,
        // which waits for all that runs.
        launch_kernel(ScanRing{});
        chip_->wait();
    }

    DeviceInfo info_;
    std::unique_ptr<Chip> chip_;
    DevicePtr near_ = 0;
    ResidentWords* words_ = nullptr;
    ScanRing ring_{};
    uint64_t breath_ns_;
    Keeper keeper_;
};

} // namespace

std::unique_ptr<ScanWorkers> scan_on_gpu(int ordinal, const Code& code,
                                         std::optional<std::chrono::microseconds> breath)
{
    return std::make_unique<Gpu>(ordinal, code, breath_ns_of(breath));
}

} // namespace denizen::radio

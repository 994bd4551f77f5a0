// SPDX-License-Identifier: Apache-2.0
// The resident scan on a GPU, through the driver; its keeper keeps it there. Taking and freeing
// memory and loading code wait for what is resident: it happens while the programs of this process
// are off the GPU.
#include <denizen/radio/resident_receiver.hpp>

#include <denizen/device/functions.hpp>
#include <denizen/device/keeper.hpp>
#include <denizen/device/primary_context.hpp>
#include <denizen/device/residents.hpp>

#include <cstring>
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
        : driver_(driver()), info_(device_info(ordinal)), breath_ns_(breath_ns)
    {
        if (!code.runs_on_gpu())
            throw Error(Errc::no_device, "the scan was not compiled for a GPU: call scan_on_gpu() "
                                         "from a file compiled by nvcc, or give it a cubin");
        if (info_.shared_bytes < sizeof(ScanMemory) + 1024)
            throw Error(Errc::no_device, info_.name + " gives a block " +
                                             std::to_string(info_.shared_bytes >> 10) +
                                             " KiB of shared memory; the scan needs " +
                                             std::to_string(sizeof(ScanMemory) >> 10));
        off_the_gpu("the scan", [&] { open(code); });
    }

    ~Gpu() override
    {
        join();
        try { // if a program is stuck, what we have stays taken: better than to wait for ever
            without_residents([this] { give_back(); });
        } catch (const Error&) { // or a dead context: nothing is left to give back
            context_.abandon();
        }
    }

    uint32_t size() const override { return static_cast<uint32_t>(info_.sm_count); }

    void* memory(size_t bytes) override
    {
        void* p = nullptr;
        off_the_gpu("the scan", [&] { p = take(bytes); });
        return p;
    }

    bool reaches(const void* memory, size_t bytes) override
    {
        const ContextScope scope(context_);
        const auto same = [&](const void* p) {
            const auto address = reinterpret_cast<DevicePtr>(p);
            DevicePtr there = 0;
            return driver_.pointer_get_attribute(&there, pointer_on_device, address) == success &&
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
        Kept kept;
        kept.name = "the resident scan";
        kept.grid =
            std::to_string(size()) + " blocks of " + std::to_string(threads / 32) + " warps";
        kept.blocks = size();
        kept.breath_ns = breath_ns_;
        kept.ends_by_itself = true; // after the limit
        kept.tick_ns = 2'000'000;
        kept.words = words_;
        kept.command = reinterpret_cast<DevicePtr>(&near()->term.over);
        kept.stream = stream_;
        kept.context = &context_;
        kept.info = info_;
        kept.launch = [this](uint32_t number, bool successor) {
            ScanRing next = ring_;
            next.term.incarnation = number;
            next.term.successor = successor ? 1 : 0;
            launch_kernel(next);
        };
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

    void join() override
    {
        if (!keeper_.resident()) return;
        keeper_.command(Command::stop);
        try {
            if (keeper_.join(patience_ns)) return;
        } catch (const Error&) { // a dead context
        }
        keeper_.abandon();
    }

    const std::string& device() const override { return info_.name; }

private:
    struct Near { // device memory
        Term term;
        ScanTickets tickets;
    };
    Near* near() const { return reinterpret_cast<Near*>(near_); }

    // Zero-filled.
    void* take(size_t bytes)
    {
        const ContextScope scope(context_);
        void* p = nullptr;
        check(driver_.mem_host_alloc(&p, bytes, host_alloc_portable | host_alloc_device_map),
              "cuMemHostAlloc");
        memory_.push_back(p);
        std::memset(p, 0, bytes);
        return p;
    }

    void launch_kernel(ScanRing ring)
    {
        // A successor's blocks begin as its predecessor's say so or leave; see scan_ring.hpp.
        LaunchAttribute early;
        early.id = launch_programmatic_serialization;
        early.value.programmatic_serialization = 1;
        LaunchConfig config;
        config.grid[0] = size();
        config.block[0] = threads;
        config.shared_bytes = sizeof(ScanMemory);
        config.stream = stream_;
        config.attributes = &early;
        config.attribute_count = ring.term.successor != 0 && info_.major >= 9 ? 1 : 0;
        void* arguments[] = {&ring};
        check(driver_.launch_kernel_ex(&config, kernel_, arguments, nullptr), "cuLaunchKernelEx",
              "denizen_radio_scan_ring");
    }

    void open(const Code& code)
    {
        context_ = PrimaryContext(info_);
        try {
            const ContextScope scope(context_);
            check(driver_.stream_create_with_priority(&stream_, stream_non_blocking, 0),
                  "cuStreamCreateWithPriority");
            kernel_ = load_functions(code, module_, "denizen_radio_", {"scan_ring"}, "the scan's")
                          .at("scan_ring");
            check(driver_.func_set_attribute(kernel_, func_max_dynamic_shared,
                                             static_cast<int>(sizeof(ScanMemory))),
                  "cuFuncSetAttribute", "dynamic shared memory");
            words_ = static_cast<ResidentWords*>(take(sizeof(ResidentWords)));
            check(driver_.mem_alloc(&near_, sizeof(Near)), "cuMemAlloc");
            check(driver_.memset_d8_async(near_, 0, sizeof(Near), stream_), "cuMemsetD8Async");
            // Once for nothing, while nobody is here who stays: a kernel's first launch may load
            // code, which waits for all that runs.
            launch_kernel(ScanRing{});
            check(driver_.stream_synchronize(stream_), "cuStreamSynchronize");
        } catch (...) {
            give_back();
            throw;
        }
    }

    void give_back()
    {
        {
            const ContextScope scope(context_);
            for (void* p : memory_) driver_.mem_free_host(p);
            if (near_ != 0) driver_.mem_free(near_);
            if (module_ != nullptr) driver_.module_unload(module_);
            if (stream_ != nullptr) driver_.stream_destroy(stream_);
        }
        context_.release();
    }

    const Driver& driver_;
    DeviceInfo info_;
    PrimaryContext context_;
    Stream stream_ = nullptr;
    Module module_ = nullptr;
    Function kernel_ = nullptr;
    DevicePtr near_ = 0;
    ResidentWords* words_ = nullptr;
    std::vector<void*> memory_;
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

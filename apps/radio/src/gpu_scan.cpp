// SPDX-License-Identifier: Apache-2.0
// The resident scan on a GPU, through the driver. Taking and freeing memory and loading code wait
// for what is resident: it happens while the programs of this process are off the GPU.
#include <denizen/radio/resident_receiver.hpp>

#include <denizen/device/functions.hpp>
#include <denizen/device/primary_context.hpp>
#include <denizen/device/residents.hpp>

#include <cstring>

namespace denizen::radio {
namespace {

using namespace gpu;

constexpr uint64_t limit_ns = 2'000'000'000; // without a block, after which the kernel leaves
constexpr unsigned threads = 512;            // ring_threads

class Gpu final : public ScanWorkers {
public:
    Gpu(int ordinal, const Code& code) : driver_(driver()), info_(device_info(ordinal))
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
        off_the_gpu("the scan", [&] {
            const ContextScope scope(context_);
            check(driver_.mem_host_alloc(&p, bytes, host_alloc_portable | host_alloc_device_map),
                  "cuMemHostAlloc");
            memory_.push_back(p);
        });
        std::memset(p, 0, bytes);
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

    void launch(ScanRing ring, uint64_t from) override
    {
        const ContextScope scope(context_);
        ring.tickets = reinterpret_cast<ScanTickets*>(tickets_);
        ring.limit = limit_ns;
        const ScanTickets fresh{from, 0};
        check(driver_.memcpy_htod_async(tickets_, &fresh, sizeof fresh, stream_),
              "cuMemcpyHtoDAsync");
        check(driver_.stream_synchronize(stream_), "cuStreamSynchronize");
        void* arguments[] = {&ring};
        check(driver_.launch_kernel(kernel_, static_cast<unsigned>(info_.sm_count), 1, 1, threads,
                                    1, 1, sizeof(ScanMemory), stream_, arguments, nullptr),
              "cuLaunchKernel", "denizen_radio_scan_ring");
    }

    bool on() override
    {
        const ContextScope scope(context_);
        const Result result = driver_.stream_query(stream_);
        if (result == error_not_ready) return true;
        check(result, "cuStreamQuery", "the resident scan");
        return false;
    }

    void join() override
    {
        const ContextScope scope(context_);
        driver_.stream_synchronize(stream_); // ends: workers see `stop`
    }

    const std::string& device() const override { return info_.name; }

private:
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
            check(driver_.mem_alloc(&tickets_, sizeof(ScanTickets)), "cuMemAlloc");
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
            if (tickets_ != 0) driver_.mem_free(tickets_);
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
    DevicePtr tickets_ = 0;
    std::vector<void*> memory_;
};

} // namespace

std::unique_ptr<ScanWorkers> scan_on_gpu(int ordinal, const Code& code)
{
    return std::make_unique<Gpu>(ordinal, code);
}

} // namespace denizen::radio

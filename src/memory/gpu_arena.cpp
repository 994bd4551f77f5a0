// SPDX-License-Identifier: Apache-2.0
// A GPU's memory for an arena. Taken and given back while no program of this process is resident,
// as both may wait for all that runs; read and written on a stream of its own.
#include "arena_memory.hpp"
#include <denizen/device/primary_context.hpp>
#include <denizen/device/residents.hpp>

#include <denizen/base/error.hpp>

#include <string>
#include <vector>

namespace denizen {
namespace {

using namespace gpu;

DevicePtr address(const void* p) { return reinterpret_cast<DevicePtr>(p); }

class GpuArenaMemory final : public ArenaMemory {
public:
    explicit GpuArenaMemory(int ordinal) : info_(device_info(ordinal)), context_(info_)
    {
        const ContextScope scope(context_);
        check(driver_.stream_create_with_priority(&stream_, stream_non_blocking, 0),
              "cuStreamCreateWithPriority");
    }

    ~GpuArenaMemory() override
    {
        // If a program is stuck, or the context is dead, the memory stays: better than to wait.
        try {
            without_residents([this] {
                const ContextScope scope(context_);
                for (const DevicePtr part : parts_) {
                    driver_.mem_free(part);
                }
                driver_.stream_destroy(stream_);
            });
        } catch (const Error&) {
            context_.abandon();
        }
    }

    uint32_t processors() const override { return static_cast<uint32_t>(info_.sm_count); }

    unsigned char* allocate(uint64_t bytes, uint64_t align) override
    {
        DevicePtr part = 0;
        Result result = success;
        off_the_gpu("an arena", [&] {
            const ContextScope scope(context_);
            result = driver_.mem_alloc(&part, bytes + align);
        });
        if (result == error_out_of_memory) {
            throw Error(Errc::exhausted, "no device memory for an arena of " +
                                             std::to_string(bytes) + " bytes on " + info_.name);
        }
        check(result, "cuMemAlloc", std::to_string(bytes) + " bytes");
        parts_.push_back(part);
        return reinterpret_cast<unsigned char*>((part + align - 1) / align * align);
    }

    void read(void* to, const void* from, uint64_t bytes) const override
    {
        run([&] { return driver_.memcpy_dtoh_async(to, address(from), bytes, stream_); },
            "cuMemcpyDtoHAsync");
    }
    void write(void* to, const void* from, uint64_t bytes) const override
    {
        run([&] { return driver_.memcpy_htod_async(address(to), from, bytes, stream_); },
            "cuMemcpyHtoDAsync");
    }
    void clear(void* at, uint64_t bytes) const override
    {
        run([&] { return driver_.memset_d8_async(address(at), 0, bytes, stream_); },
            "cuMemsetD8Async");
    }

private:
    template <class Enqueue>
    void run(Enqueue&& enqueue, const char* call) const
    {
        const ContextScope scope(context_);
        check(enqueue(), call, info_.name);
        check(driver_.stream_synchronize(stream_), "cuStreamSynchronize", info_.name);
    }

    const Driver& driver_ = driver();
    DeviceInfo info_;
    PrimaryContext context_;
    Stream stream_ = nullptr;
    std::vector<DevicePtr> parts_;
};

} // namespace

std::unique_ptr<ArenaMemory> make_gpu_arena_memory(int ordinal)
{
    return std::make_unique<GpuArenaMemory>(ordinal);
}

} // namespace denizen

// SPDX-License-Identifier: Apache-2.0
// A GPU's memory for an arena. Taken and given back while no program of this process is resident,
// as both may wait for all that runs; read and written on the chip's stream.
#include "arena_memory.hpp"
#include <denizen/device/chip.hpp>

#include <denizen/base/error.hpp>

#include <string>

namespace denizen {
namespace {

using namespace gpu;

class GpuArenaMemory final : public ArenaMemory {
public:
    explicit GpuArenaMemory(int ordinal)
        : chip_(std::make_unique<Chip>(device_info(ordinal), "an arena"))
    {
    }
    ~GpuArenaMemory() override { Chip::close(chip_); }

    uint32_t processors() const override { return chip_->sms(); }

    unsigned char* allocate(uint64_t bytes, uint64_t align) override
    {
        DevicePtr part = 0;
        Result result = success;
        off_the_gpu("an arena", [&] {
            const ContextScope scope(chip_->context());
            result = chip_->try_take(part, bytes + align);
        });
        if (result == error_out_of_memory) {
            throw Error(Errc::exhausted, "no device memory for an arena of " +
                                             std::to_string(bytes) + " bytes on " +
                                             chip_->info().name);
        }
        check(result, "cuMemAlloc", std::to_string(bytes) + " bytes");
        return reinterpret_cast<unsigned char*>((part + align - 1) / align * align);
    }

    void read(void* to, const void* from, uint64_t bytes) const override
    {
        const ContextScope scope(chip_->context());
        chip_->fetch(static_cast<unsigned char*>(to), static_cast<const unsigned char*>(from),
                     bytes);
    }
    void write(void* to, const void* from, uint64_t bytes) const override
    {
        const ContextScope scope(chip_->context());
        chip_->put(static_cast<unsigned char*>(to), static_cast<const unsigned char*>(from), bytes);
    }
    void clear(void* at, uint64_t bytes) const override
    {
        const ContextScope scope(chip_->context());
        chip_->set(at, 0, bytes);
        chip_->wait();
    }

private:
    std::unique_ptr<Chip> chip_;
};

} // namespace

std::unique_ptr<ArenaMemory> make_gpu_arena_memory(int ordinal)
{
    return std::make_unique<GpuArenaMemory>(ordinal);
}

} // namespace denizen

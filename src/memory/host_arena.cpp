// SPDX-License-Identifier: Apache-2.0
// Ordinary memory for an arena of CPU threads. Pages that are never touched are never there.
#include "arena_memory.hpp"

#include <denizen/base/atomic.hpp>
#include <denizen/base/error.hpp>

#include <algorithm>
#include <cstring>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <vector>

namespace denizen {
namespace {

class HostArenaMemory final : public ArenaMemory {
public:
    ~HostArenaMemory() override
    {
        for (const auto& [at, bytes] : parts_) {
            munmap(at, bytes);
        }
    }

    uint32_t processors() const override
    {
        return std::clamp(std::thread::hardware_concurrency(), 1u, 256u);
    }

    unsigned char* allocate(uint64_t bytes, uint64_t align) override
    {
        const uint64_t all = bytes + align;
        void* at = mmap(nullptr, all, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (at == MAP_FAILED) {
            throw Error(Errc::exhausted,
                        "no memory for an arena of " + std::to_string(bytes) + " bytes");
        }
        parts_.emplace_back(at, all);
        const auto address = reinterpret_cast<uint64_t>(at);
        return reinterpret_cast<unsigned char*>((address + align - 1) / align * align);
    }

    void read(void* to, const void* from, uint64_t bytes) const override
    {
        auto* out = static_cast<unsigned char*>(to);
        const auto* in = static_cast<const unsigned char*>(from);
        uint64_t done = 0;
        for (; done + 8 <= bytes; done += 8) {
            const auto word =
                load<Scope::gpu, Order::acquire>(reinterpret_cast<const uint64_t*>(in + done));
            std::memcpy(out + done, &word, 8);
        }
        if (done < bytes) {
            std::memcpy(out + done, in + done, bytes - done);
        }
    }
    void write(void* to, const void* from, uint64_t bytes) const override
    {
        std::memcpy(to, from, bytes);
    }
    void clear(void* at, uint64_t bytes) const override { std::memset(at, 0, bytes); }

private:
    std::vector<std::pair<void*, uint64_t>> parts_;
};

} // namespace

std::unique_ptr<ArenaMemory> make_host_arena_memory()
{
    return std::make_unique<HostArenaMemory>();
}

} // namespace denizen

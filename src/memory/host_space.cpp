// SPDX-License-Identifier: Apache-2.0
// Buffers of a program on CPU threads: ordinary memory, whatever kind was asked for.
#include "space.hpp"

#include <denizen/base/error.hpp>

#include <cstdlib>

namespace denizen {
namespace {

class HostSpace final : public Space {
public:
    std::shared_ptr<Storage> allocate(uint64_t bytes, BufferKind) override
    {
        constexpr uint64_t align = 256;
        void* p = std::aligned_alloc(align, (bytes + align - 1) / align * align);
        if (p == nullptr) {
            throw Error(Errc::exhausted,
                        "no memory for a buffer of " + std::to_string(bytes) + " bytes");
        }
        auto storage = std::make_shared<Storage>();
        storage->owner = {p, std::free};
        storage->data = storage->cpu = static_cast<unsigned char*>(p);
        storage->bytes = bytes;
        storage->kind = BufferKind::ordinary;
        return storage;
    }
};

} // namespace

std::shared_ptr<Space> make_host_space() { return std::make_shared<HostSpace>(); }

} // namespace denizen

// SPDX-License-Identifier: Apache-2.0
// Where a runtime's buffers come from: ordinary memory (host_space.cpp), or a GPU's pools
// (gpu/space.cpp). The buffer table uses it for its entries too.
#pragma once

#include <denizen/memory/buffer.hpp>

#include <cstddef>
#include <memory>

namespace denizen {

class Space : public std::enable_shared_from_this<Space> {
public:
    virtual ~Space() = default;

    // Memory of at least `bytes` > 0, aligned to 256. Its content is undefined. Errc::exhausted if
    // there is not as much, Errc::bad_argument for a kind that this space does not have.
    virtual std::shared_ptr<Storage> allocate(uint64_t bytes, BufferKind kind) = 0;

    // Copies words to and from the workers' memory beside whatever runs there, and returns when that
    // is done. Reads `count` words that lie `stride` bytes apart, a multiple of 8.
    virtual void write(uint64_t* to, const uint64_t* from, size_t count) = 0;
    virtual void read(uint64_t* to, const uint64_t* from, size_t count, size_t stride) = 0;
};

std::shared_ptr<Space> make_host_space();
std::shared_ptr<Space> make_gpu_space(int ordinal, uint64_t reserve_bytes);

} // namespace denizen

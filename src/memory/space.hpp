// SPDX-License-Identifier: Apache-2.0
// Where a runtime's buffers come from: ordinary memory (host_space.cpp), or a GPU's pools
// (gpu_space.cpp). Asked by the buffer table.
#pragma once

#include <denizen/memory/buffer.hpp>

#include <memory>

namespace denizen {

class Space : public std::enable_shared_from_this<Space> {
public:
    virtual ~Space() = default;

    // Memory of at least `bytes` > 0, aligned to 256. Its content is undefined. Errc::exhausted if
    // there is not as much, Errc::bad_argument for a kind that this space does not have.
    virtual std::shared_ptr<Storage> allocate(uint64_t bytes, BufferKind kind) = 0;
};

std::shared_ptr<Space> make_host_space();
// Of GPU `ordinal`, for the `count` GPUs from there on. The pool takes `reserve_bytes` at once.
std::shared_ptr<Space> make_gpu_space(int ordinal, int count, uint64_t reserve_bytes);

} // namespace denizen

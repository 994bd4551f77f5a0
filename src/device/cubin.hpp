// SPDX-License-Identifier: Apache-2.0
// Reads a global's initial value out of a cubin (an ELF file) without a GPU: the tables that actors
// and tasks leave in their programs.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

namespace denizen::gpu {

// The initial value of the global `name` of `bytes` bytes, or nothing if there is none of that
// size. Throws Error(Errc::compile) if the file is no cubin or ends early.
std::optional<std::vector<char>> initial_value(const std::vector<char>& cubin,
                                               const std::string& name, uint64_t bytes);

template <class T>
std::optional<T> global_of(const std::vector<char>& cubin, const std::string& name)
{
    const auto bytes = initial_value(cubin, name, sizeof(T));
    if (!bytes) {
        return std::nullopt;
    }
    T value;
    std::memcpy(&value, bytes->data(), sizeof(T));
    return value;
}

} // namespace denizen::gpu

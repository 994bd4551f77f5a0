// SPDX-License-Identifier: Apache-2.0
// std::mt19937, whose numbers are of 32 bits.
#pragma once

#include <cstdint>
#include <random>

namespace denizen::group {

class Random {
public:
    using result_type = uint32_t;
    explicit Random(uint32_t seed) : engine_(seed) {}
    uint32_t operator()() { return static_cast<uint32_t>(engine_()); }
    static constexpr uint32_t min() { return 0; }
    static constexpr uint32_t max() { return ~0u; }

private:
    std::mt19937 engine_;
};

} // namespace denizen::group

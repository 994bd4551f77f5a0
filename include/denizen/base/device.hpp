// SPDX-License-Identifier: Apache-2.0
// Where a program runs or an arena lies. Host only; named by whoever makes one.
#pragma once

namespace denizen {

struct Device {
    enum class Kind { automatic, cpu, gpu } kind = Kind::automatic;
    int ordinal = 0; // which GPU

    // The first GPU if there is one that the program was compiled for, else the CPU.
    static Device automatic() { return {}; }
    static Device cpu() { return {Kind::cpu, 0}; }
    static Device gpu(int ordinal = 0) { return {Kind::gpu, ordinal}; }
};

} // namespace denizen

// SPDX-License-Identifier: Apache-2.0
// nvJitLink, the linker of LTO-IR as a library, loaded at run time. Makes one cubin of what NVRTC
// and Numba have compiled apart; needs neither a GPU nor a driver. Found as cuda_library.hpp says,
// with DENIZEN_NVJITLINK. It must be of NVRTC's major version, and not older.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace denizen::gpu {

struct LinkInput {
    std::string name; // for messages
    std::string_view code;
};

int nvjitlink_version();                // 13000 for 13.0
const std::string& nvjitlink_library(); // the file in use

// `options` choose the architecture: -arch=sm_90. All three throw Error(Errc::compile): no library
// fits, or what nvJitLink says.
std::vector<char> link_cubin(const std::vector<LinkInput>& parts,
                             const std::vector<std::string>& options);

} // namespace denizen::gpu

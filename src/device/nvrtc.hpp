// SPDX-License-Identifier: Apache-2.0
// NVRTC, the CUDA compiler as a library, loaded at run time. Compiles a program's text to a cubin
// for one real architecture; needs neither a GPU nor a driver. Called by the program cache; never
// links, never caches, never includes a CUDA header.
//
// It is found as cuda_library.hpp says, with DENIZEN_NVRTC, as libnvrtc.so.13 or .12.
// Versions before 12.9 are passed over: 12.8 refuses a compare-exchange in a template, older ones
// lack the scoped atomic built-ins.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace denizen::gpu {

struct Compiled {
    std::vector<char> code;
    std::string log; // warnings; empty if there are none
};

// The three below load the library and throw Error(Errc::compile) if none fits; the message lists
// each place tried with the reason, and what to install.
int nvrtc_version();                           // 13000 for 13.0
const std::string& nvrtc_library();            // the file in use
const std::vector<int>& nvrtc_architectures(); // ascending: 75, 80, ..., 90, ...

// `name` stands in diagnostics for lines before the first #line directive of `source`; where the
// caller's #line directives name the user's file, the log shows the user's file and line.
// `options` must choose a real architecture (--gpu-architecture=sm_90). Throws Error(Errc::compile)
// with NVRTC's log. Thread-safe; about 0.3 to 2 s per call.
Compiled compile_cubin(std::string_view source, std::string_view name,
                       const std::vector<std::string>& options);

// The same to LTO-IR, for link_cubin() (nvjitlink.hpp): the options have -dlto.
Compiled compile_ltoir(std::string_view source, std::string_view name,
                       const std::vector<std::string>& options);

} // namespace denizen::gpu

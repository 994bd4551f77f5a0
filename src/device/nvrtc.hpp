// SPDX-License-Identifier: Apache-2.0
// NVRTC, the CUDA compiler as a library, loaded at run time. Compiles a program's text to a cubin
// for one real architecture; needs neither a GPU nor a driver. Called by the program cache; never
// links, never caches, never includes a CUDA header.
//
// Where it is looked for, first that fits wins:
//   1. DENIZEN_NVRTC: a library, or a folder that holds one. If set, nothing else is tried.
//   2. the folders given to set_nvrtc_folders (Python passes site-packages/nvidia/*/lib)
//   3. the loader's path (libnvrtc.so.13, .12)
//   4. /usr/local/cuda/lib64
// Versions before 12.9 are passed over: 12.8 refuses a compare-exchange in a template, older ones
// lack the scoped atomic built-ins.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace denizen::gpu {

struct Compiled {
    std::vector<char> cubin;
    std::string log; // warnings; empty if there are none
};

// Folders to search, in order. Call before the first use: the library is loaded once per process.
void set_nvrtc_folders(std::vector<std::string> folders);

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

} // namespace denizen::gpu

// SPDX-License-Identifier: Apache-2.0
// Where CUDA's compiler libraries are looked for, first that fits wins:
//   1. an environment variable: a library, or a folder that holds one. If set, nothing else is
//   tried.
//   2. the folders given to set_cuda_folders (Python passes site-packages/nvidia/*/lib)
//   3. the loader's path
//   4. /usr/local/cuda/lib64
#pragma once

#include <dlfcn.h>

#include <initializer_list>
#include <string>
#include <vector>

namespace denizen::gpu {

// Folders to search, in order. Call before the first use: each library is loaded once per process.
void set_cuda_folders(std::vector<std::string> folders);

std::vector<std::string> cuda_library_paths(const char* variable,
                                            std::initializer_list<const char*> names);

template <class Entry>
bool load_symbol(void* handle, Entry& entry, const char* symbol)
{
    entry = reinterpret_cast<Entry>(dlsym(handle, symbol));
    return entry != nullptr;
}

} // namespace denizen::gpu

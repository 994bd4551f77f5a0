// SPDX-License-Identifier: Apache-2.0
// Where CUDA's compiler libraries are looked for, first that fits wins:
//   1. an environment variable: a library, or a folder that holds one. If set, nothing else is
//   tried.
//   2. the folders given to set_cuda_folders (Python passes site-packages/nvidia/*/lib)
//   3. the loader's path
//   4. /usr/local/cuda/lib64
#pragma once

#include <denizen/base/error.hpp>

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

// Loads a file; null, and why in `problem`, if it cannot be.
void* open_cuda_library(const std::string& path, std::string& problem);

// The file that a function of a library lies in; `otherwise`, if that is not known.
std::string file_of(void* function, const std::string& otherwise);

// The first of those paths that fits: `try_library(path, library)` returns an empty string, or why
// it does not. Throws Error(Errc::compile), which begins with `missing` and lists each with the
// reason.
template <class Library>
Library find_cuda_library(const char* variable, std::initializer_list<const char*> names,
                          std::string (*try_library)(const std::string&, Library&),
                          const std::string& missing)
{
    std::string tried;
    for (const std::string& path : cuda_library_paths(variable, names)) {
        Library library;
        const std::string problem = try_library(path, library);
        if (problem.empty()) return library;
        tried += "\n  " + problem;
    }
    throw Error(Errc::compile, missing + "; tried:" + tried);
}

} // namespace denizen::gpu

// SPDX-License-Identifier: Apache-2.0
#include "cuda_library.hpp"

#include <sys/stat.h>

#include <cstdlib>
#include <mutex>

namespace denizen::gpu {
namespace {

std::mutex folders_mutex;
std::vector<std::string>& folders()
{
    static std::vector<std::string> instance;
    return instance;
}

bool is_folder(const std::string& path)
{
    struct stat status{};
    return stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

} // namespace

void set_cuda_folders(std::vector<std::string> list)
{
    const std::lock_guard lock(folders_mutex);
    folders() = std::move(list);
}

std::vector<std::string> cuda_library_paths(const char* variable,
                                            std::initializer_list<const char*> names)
{
    std::vector<std::string> paths;
    const auto add_folder = [&](const std::string& folder) {
        for (const char* name : names) {
            paths.push_back(folder + "/" + name);
        }
    };
    if (const char* chosen = std::getenv(variable); chosen != nullptr && *chosen != '\0') {
        if (is_folder(chosen)) {
            add_folder(chosen);
        } else {
            paths.emplace_back(chosen);
        }
        return paths;
    }
    {
        const std::lock_guard lock(folders_mutex);
        for (const std::string& folder : folders()) {
            add_folder(folder);
        }
    }
    for (const char* name : names) {
        paths.emplace_back(name);
    }
    add_folder("/usr/local/cuda/lib64");
    return paths;
}

void* open_cuda_library(const std::string& path, std::string& problem)
{
    void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
        const char* why = dlerror();
        problem = why != nullptr ? why : path + " cannot be loaded";
    }
    return handle;
}

std::string file_of(void* function, const std::string& otherwise)
{
    Dl_info info{};
    return dladdr(function, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : otherwise;
}

} // namespace denizen::gpu

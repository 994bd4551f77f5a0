// SPDX-License-Identifier: Apache-2.0
// NCCL, loaded at run time: the library that DENIZEN_NCCL names (denizen bench finds the one in
// PyTorch's wheels), else libnccl.so.2. Its multicast is switched off before it is loaded.
#pragma once

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

namespace denizen::bench {

class Nccl {
public:
    explicit Nccl(int ranks)
    {
        setenv("NCCL_NVLS_ENABLE", "0", 1);
        const char* const named = std::getenv("DENIZEN_NCCL");
        void* const library =
            dlopen(named != nullptr ? named : "libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
        if (library == nullptr) throw std::runtime_error(std::string("no NCCL: ") + dlerror());
        const auto load = [&](auto& entry, const char* name) {
            entry =
                reinterpret_cast<std::remove_reference_t<decltype(entry)>>(dlsym(library, name));
            if (entry == nullptr) throw std::runtime_error(std::string("NCCL lacks ") + name);
        };
        load(all_reduce_, "ncclAllReduce");
        load(destroy_, "ncclCommDestroy");
        load(describe_, "ncclGetErrorString");
        load(version_, "ncclGetVersion");
        int (*init)(void**, int, const int*) = nullptr;
        load(init, "ncclCommInitAll");
        communicators_.resize(static_cast<size_t>(ranks));
        check(init(communicators_.data(), ranks, nullptr), "ncclCommInitAll");
    }
    ~Nccl()
    {
        for (void* c : communicators_) destroy_(c);
    }
    Nccl(const Nccl&) = delete;
    Nccl& operator=(const Nccl&) = delete;

    // Sum of f32; by a thread of the rank's own.
    void all_reduce(int rank, const void* in, void* out, size_t count, cudaStream_t stream)
    {
        constexpr int float32 = 7, sum = 0;
        check(all_reduce_(in, out, count, float32, sum, communicators_[static_cast<size_t>(rank)],
                          stream),
              "ncclAllReduce");
    }
    std::string version() const
    {
        int v = 0;
        version_(&v);
        return std::to_string(v / 10000) + "." + std::to_string(v / 100 % 100) + "." +
               std::to_string(v % 100);
    }

private:
    void check(int result, const char* call) const
    {
        if (result != 0) throw std::runtime_error(std::string(call) + ": " + describe_(result));
    }

    int (*all_reduce_)(const void*, void*, size_t, int, int, void*, cudaStream_t) = nullptr;
    int (*destroy_)(void*) = nullptr;
    const char* (*describe_)(int) = nullptr;
    int (*version_)(int*) = nullptr;
    std::vector<void*> communicators_;
};

} // namespace denizen::bench

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
        load(reduce_scatter_, "ncclReduceScatter");
        load(all_gather_, "ncclAllGather");
        load(broadcast_, "ncclBroadcast");
        load(send_, "ncclSend");
        load(recv_, "ncclRecv");
        load(group_start_, "ncclGroupStart");
        load(group_end_, "ncclGroupEnd");
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

    // Of f32, sums; by a thread of the rank's own. `count` as in group::Kind.
    void all_reduce(int rank, const void* in, void* out, size_t count, cudaStream_t stream)
    {
        check(all_reduce_(in, out, count, float32, sum, of(rank), stream), "ncclAllReduce");
    }
    void reduce_scatter(int rank, const void* in, void* out, size_t count, cudaStream_t stream)
    {
        check(reduce_scatter_(in, out, count, float32, sum, of(rank), stream), "ncclReduceScatter");
    }
    void all_gather(int rank, const void* in, void* out, size_t count, cudaStream_t stream)
    {
        check(all_gather_(in, out, count, float32, of(rank), stream), "ncclAllGather");
    }
    void broadcast(int rank, const void* in, void* out, size_t count, cudaStream_t stream)
    {
        check(broadcast_(in, out, count, float32, 0, of(rank), stream), "ncclBroadcast");
    }
    void all_to_all(int rank, const float* in, float* out, size_t count, cudaStream_t stream)
    {
        check(group_start_(), "ncclGroupStart");
        for (size_t r = 0; r < communicators_.size(); ++r) {
            const auto peer = static_cast<int>(r);
            check(send_(in + r * count, count, float32, peer, of(rank), stream), "ncclSend");
            check(recv_(out + r * count, count, float32, peer, of(rank), stream), "ncclRecv");
        }
        check(group_end_(), "ncclGroupEnd");
    }
    std::string version() const
    {
        int v = 0;
        version_(&v);
        return std::to_string(v / 10000) + "." + std::to_string(v / 100 % 100) + "." +
               std::to_string(v % 100);
    }

private:
    static constexpr int float32 = 7;
    static constexpr int sum = 0;

    void* of(int rank) const { return communicators_[static_cast<size_t>(rank)]; }
    void check(int result, const char* call) const
    {
        if (result != 0) throw std::runtime_error(std::string(call) + ": " + describe_(result));
    }

    int (*all_reduce_)(const void*, void*, size_t, int, int, void*, cudaStream_t) = nullptr;
    int (*reduce_scatter_)(const void*, void*, size_t, int, int, void*, cudaStream_t) = nullptr;
    int (*all_gather_)(const void*, void*, size_t, int, void*, cudaStream_t) = nullptr;
    int (*broadcast_)(const void*, void*, size_t, int, int, void*, cudaStream_t) = nullptr;
    int (*send_)(const void*, size_t, int, int, void*, cudaStream_t) = nullptr;
    int (*recv_)(void*, size_t, int, int, void*, cudaStream_t) = nullptr;
    int (*group_start_)() = nullptr;
    int (*group_end_)() = nullptr;
    int (*destroy_)(void*) = nullptr;
    const char* (*describe_)(int) = nullptr;
    int (*version_)(int*) = nullptr;
    std::vector<void*> communicators_;
};

} // namespace denizen::bench

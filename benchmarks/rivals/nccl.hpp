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
        // Newer ones (2.27) have windows.
        const auto may_load = [&](auto& entry, const char* name) {
            entry =
                reinterpret_cast<std::remove_reference_t<decltype(entry)>>(dlsym(library, name));
        };
        may_load(allocate_, "ncclMemAlloc");
        may_load(free_, "ncclMemFree");
        may_load(open_window_, "ncclCommWindowRegister");
        may_load(close_window_, "ncclCommWindowDeregister");
        communicators_.resize(static_cast<size_t>(ranks));
        check(init(communicators_.data(), ranks, nullptr), "ncclCommInitAll");
    }
    ~Nccl()
    {
        for (const Window& w : windows_) {
            cudaSetDevice(w.rank);
            if (w.handle != nullptr) close_window_(of(w.rank), w.handle);
            free_(w.memory);
        }
        for (void* c : communicators_) destroy_(c);
    }
    Nccl(const Nccl&) = delete;
    Nccl& operator=(const Nccl&) = delete;

    // Memory of each rank, of so many bytes, in a window that all ranks share: NCCL's kernels read
    // and write it as it is, without a copy through buffers of their own. Empty where this NCCL has
    // none. For all ranks by one thread.
    std::vector<void*> window(size_t bytes)
    {
        if (allocate_ == nullptr || free_ == nullptr || open_window_ == nullptr ||
            close_window_ == nullptr)
            return {};
        const auto ranks = static_cast<int>(communicators_.size());
        const size_t first = windows_.size();
        std::vector<void*> memory;
        for (int r = 0; r < ranks; ++r) {
            cudaSetDevice(r);
            void* one = nullptr;
            check(allocate_(&one, bytes), "ncclMemAlloc");
            windows_.push_back({r, one, nullptr});
            memory.push_back(one);
        }
        check(group_start_(), "ncclGroupStart");
        for (int r = 0; r < ranks; ++r) {
            cudaSetDevice(r);
            Window& w = windows_[first + static_cast<size_t>(r)];
            check(open_window_(of(r), w.memory, bytes, &w.handle, symmetric),
                  "ncclCommWindowRegister");
        }
        check(group_end_(), "ncclGroupEnd");
        return memory;
    }

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
    static constexpr int symmetric = 1; // all ranks give theirs in the same call
    struct Window {
        int rank;
        void* memory;
        void* handle;
    };

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
    int (*allocate_)(void**, size_t) = nullptr;
    int (*free_)(void*) = nullptr;
    int (*open_window_)(void*, void*, size_t, void**, int) = nullptr;
    int (*close_window_)(void*, void*) = nullptr;
    std::vector<Window> windows_;
    std::vector<void*> communicators_;
};

} // namespace denizen::bench

// SPDX-License-Identifier: Apache-2.0
// vLLM's custom all-reduce for ranks that are threads of this process: from vllm_all_reduce.so
// (vllm.cu), where it lies beside this program. Sums of f32, from its own memory to its own memory.
#pragma once

#include "cuda.cuh"
#include "vllm_calls.hpp"

#include <cstdio>
#include <dlfcn.h>
#include <filesystem>
#include <vector>

namespace denizen::bench {

class Vllm {
public:
    // Before any rank's kernel runs: it allocates on all devices.
    explicit Vllm(uint32_t ranks)
    {
        const auto path =
            std::filesystem::read_symlink("/proc/self/exe").parent_path() / "vllm_all_reduce.so";
        if (!std::filesystem::exists(path)) {
            std::fprintf(stderr, "no vLLM: %s is not there; tools/rivals vllm says how\n",
                         path.c_str());
            return;
        }
        void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (library == nullptr) throw std::runtime_error(std::string("vLLM: ") + dlerror());
        const auto load = [&](auto& entry, const char* name) {
            entry =
                reinterpret_cast<std::remove_reference_t<decltype(entry)>>(dlsym(library, name));
            if (entry == nullptr)
                throw std::runtime_error(path.string() + " is of another version: no " + name);
        };
        load(error_, "denizen_vllm_error");
        load(most_, "denizen_vllm_most");
        load(open_, "denizen_vllm_open");
        load(close_, "denizen_vllm_close");
        load(connect_, "denizen_vllm_connect_here");
        load(all_reduce_, "denizen_vllm_all_reduce");
        load(register_, "denizen_vllm_register_here");
        for (uint32_t r = 0; r < ranks; ++r) {
            const auto device = static_cast<int>(r);
            DenizenVllm* const one = open_(device, device, static_cast<int>(ranks));
            if (one == nullptr) fail();
            ranks_.push_back(one);
            check_cuda(cudaSetDevice(device), "cudaSetDevice");
            for (std::vector<void*>* of : {&inputs_, &outputs_}) {
                void* memory = nullptr;
                check_cuda(cudaMalloc(&memory, most()), "cudaMalloc");
                of->push_back(memory);
            }
        }
        check(connect_(ranks_.data(), static_cast<int>(ranks)));
    }
    ~Vllm()
    {
        for (DenizenVllm* one : ranks_) close_(one);
        for (void* one : inputs_) cudaFree(one);
        for (void* one : outputs_) cudaFree(one);
    }
    Vllm(const Vllm&) = delete;
    Vllm& operator=(const Vllm&) = delete;

    bool here() const { return !ranks_.empty(); }
    uint64_t most() const { return most_(); }
    // As vLLM's users' calls of this size would come to it.
    bool takes(uint64_t bytes) const { return here() && bytes < most() && bytes % 16 == 0; }
    void* in(uint32_t rank) const { return inputs_[rank]; }
    const std::vector<void*>& outputs() const { return outputs_; }

    void all_reduce(uint32_t rank, uint64_t count, cudaStream_t stream)
    {
        check(all_reduce_(ranks_[rank], denizen_vllm_f32, inputs_[rank], outputs_[rank], count,
                          stream));
    }
    // Behind a capture, before its launch.
    void captured(uint32_t rank) { check(register_(ranks_[rank], inputs_.data())); }

private:
    [[noreturn]] void fail() const { throw std::runtime_error(std::string("vLLM: ") + error_()); }
    void check(int status) const
    {
        if (status < 0) fail();
    }

    decltype(&denizen_vllm_error) error_ = nullptr;
    decltype(&denizen_vllm_most) most_ = nullptr;
    decltype(&denizen_vllm_open) open_ = nullptr;
    decltype(&denizen_vllm_close) close_ = nullptr;
    decltype(&denizen_vllm_connect_here) connect_ = nullptr;
    decltype(&denizen_vllm_all_reduce) all_reduce_ = nullptr;
    decltype(&denizen_vllm_register_here) register_ = nullptr;
    std::vector<DenizenVllm*> ranks_;
    std::vector<void*> inputs_, outputs_; // by rank
};

} // namespace denizen::bench

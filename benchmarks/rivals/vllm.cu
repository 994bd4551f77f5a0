// SPDX-License-Identifier: Apache-2.0
// vLLM's custom all-reduce (github.com/vllm-project/vllm, version 0.33.0) without its Python: its
// class chooses the kernel and launches it, and here is what its users' process does around that,
// by the calls of vllm_calls.hpp. It is no part of this project: configure with -DDENIZEN_VLLM=its
// checkout, and vllm_all_reduce.so is built. Plain device memory of cudaMalloc, no multicast.
//
// A kernel of it spins until all ranks have launched theirs, without a deadline: who measures it
// has one for the whole program. A failed CUDA call inside of vLLM's class ends the process.
#include "vllm_calls.hpp"

#include <custom_all_reduce.cuh>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

// vLLM's class asks the driver for an allocation's start. The driver is found at run time, so that
// this library loads where there is none.
extern "C" __attribute__((visibility("hidden"))) CUresult CUDAAPI
cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr pointer)
{
    void* entry = nullptr;
    cudaDriverEntryPointQueryResult found{};
    const cudaError_t status = cudaGetDriverEntryPointByVersion("cuPointerGetAttribute", &entry,
                                                                12000, cudaEnableDefault, &found);
    if (status != cudaSuccess || entry == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
    using Call = CUresult(CUDAAPI*)(void*, CUpointer_attribute, CUdeviceptr);
    return reinterpret_cast<Call>(entry)(data, attribute, pointer);
}

namespace {

thread_local std::string last_error;

void check(cudaError_t status, const char* what)
{
    if (status == cudaSuccess) return;
    cudaGetLastError(); // the next call is not to find it
    throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(status));
}

template <class Body>
int guarded(Body body)
{
    try {
        return body();
    } catch (const std::exception& error) {
        last_error = error.what();
        return -1;
    }
}

// max_size and rank_data of vLLM's Python class.
constexpr uint64_t most = uint64_t{8192} * 1024;
constexpr uint64_t rank_data_bytes = uint64_t{8} << 20;

// Kernels are loaded before any rank's runs: loading may wait for the device.
template <class T, int ranks>
void preload()
{
    cudaFuncAttributes attributes{};
    check(cudaFuncGetAttributes(&attributes, vllm::cross_device_reduce_1stage<T, ranks>),
          "loading of a kernel");
    check(cudaFuncGetAttributes(&attributes, vllm::cross_device_reduce_2stage<T, ranks>),
          "loading of a kernel");
}

template <class T>
void preload(int ranks)
{
    switch (ranks) {
    case 2: return preload<T, 2>();
    case 4: return preload<T, 4>();
    case 6: return preload<T, 6>();
    case 8: return preload<T, 8>();
    default: throw std::runtime_error("vLLM's all-reduce is for 2, 4, 6 or 8 ranks");
    }
}

} // namespace

struct DenizenVllm {
    DenizenVllm(int on, int own, int all) : device(on), rank(own), ranks(all)
    {
        if (own < 0 || own >= all) throw std::runtime_error("no such rank");
        check(cudaSetDevice(device), "cudaSetDevice");
        preload<float>(ranks);
        preload<nv_bfloat16>(ranks);
        const uint64_t bytes[] = {sizeof(vllm::Signal) + most, most, rank_data_bytes};
        for (int i = 0; i < 3; ++i) {
            check(cudaMalloc(&memory[i], bytes[i]), "cudaMalloc");
            check(cudaMemset(memory[i], 0, bytes[i]), "cudaMemset"); // signals count from 0
        }
        check(cudaDeviceSynchronize(), "cudaMemset");
    }
    ~DenizenVllm()
    {
        cudaSetDevice(device);
        summed.reset();
        for (void* one : opened) cudaIpcCloseMemHandle(one);
        for (void* one : memory) cudaFree(one);
    }
    DenizenVllm(const DenizenVllm&) = delete;
    DenizenVllm& operator=(const DenizenVllm&) = delete;

    // `signals` and `buffers` of all ranks, as this rank's device reaches them.
    void connect(std::vector<void*> signals, std::vector<void*> buffers)
    {
        std::vector<vllm::Signal*> typed;
        for (void* one : signals) typed.push_back(static_cast<vllm::Signal*>(one));
        summed = std::make_unique<vllm::CustomAllreduce>(typed.data(), memory[2], rank_data_bytes,
                                                         rank, ranks);
        summed->register_buffer(buffers.data());
    }
    void* open(const DenizenVllmPlace& place)
    {
        cudaIpcMemHandle_t handle;
        static_assert(sizeof handle == sizeof place.handle);
        std::memcpy(&handle, place.handle, sizeof handle);
        void* at = nullptr;
        check(cudaIpcOpenMemHandle(&at, handle, cudaIpcMemLazyEnablePeerAccess),
              "cudaIpcOpenMemHandle");
        opened.push_back(at);
        return static_cast<char*>(at) + place.offset;
    }
    vllm::CustomAllreduce& connected() const
    {
        if (summed == nullptr) throw std::runtime_error("the ranks are not connected");
        return *summed;
    }
    void use() const { check(cudaSetDevice(device), "cudaSetDevice"); }

    int device, rank, ranks;
    void* memory[3] = {}; // signals and what two stages write; the buffer; addresses for kernels
    std::vector<void*> opened;
    std::unique_ptr<vllm::CustomAllreduce> summed;
};

#define DENIZEN_VLLM_CALL extern "C" __attribute__((visibility("default")))

DENIZEN_VLLM_CALL const char* denizen_vllm_error() { return last_error.c_str(); }
DENIZEN_VLLM_CALL uint64_t denizen_vllm_most() { return most; }

DENIZEN_VLLM_CALL DenizenVllm* denizen_vllm_open(int device, int rank, int ranks)
{
    std::unique_ptr<DenizenVllm> made;
    guarded([&] {
        made = std::make_unique<DenizenVllm>(device, rank, ranks);
        return 0;
    });
    return made.release();
}
DENIZEN_VLLM_CALL void denizen_vllm_close(DenizenVllm* of) { delete of; }

DENIZEN_VLLM_CALL int denizen_vllm_places(DenizenVllm* of, DenizenVllmPlace* two)
{
    return guarded([&] {
        of->use();
        for (int i = 0; i < 2; ++i) {
            cudaIpcMemHandle_t handle;
            check(cudaIpcGetMemHandle(&handle, of->memory[i]), "cudaIpcGetMemHandle");
            std::memcpy(two[i].handle, &handle, sizeof handle);
            two[i].offset = 0;
        }
        return 0;
    });
}

DENIZEN_VLLM_CALL int denizen_vllm_connect(DenizenVllm* of, const DenizenVllmPlace* two_of_each)
{
    return guarded([&] {
        of->use();
        std::vector<void*> found[2];
        for (int r = 0; r < of->ranks; ++r) {
            for (int i = 0; i < 2; ++i)
                found[i].push_back(r == of->rank ? of->memory[i]
                                                 : of->open(two_of_each[2 * r + i]));
        }
        of->connect(found[0], found[1]);
        return 0;
    });
}

DENIZEN_VLLM_CALL int denizen_vllm_connect_here(DenizenVllm* const* all, int ranks)
{
    return guarded([&] {
        std::vector<void*> found[2];
        for (int r = 0; r < ranks; ++r) {
            for (int i = 0; i < 2; ++i) found[i].push_back(all[r]->memory[i]);
        }
        for (int r = 0; r < ranks; ++r) {
            all[r]->use();
            for (int peer = 0; peer < ranks; ++peer) {
                if (peer == r) continue;
                const cudaError_t status = cudaDeviceEnablePeerAccess(all[peer]->device, 0);
                if (status == cudaErrorPeerAccessAlreadyEnabled) {
                    cudaGetLastError();
                } else {
                    check(status, "cudaDeviceEnablePeerAccess");
                }
            }
            all[r]->connect(found[0], found[1]);
        }
        return 0;
    });
}

DENIZEN_VLLM_CALL int denizen_vllm_all_reduce(DenizenVllm* of, int type, void* in, void* out,
                                              uint64_t count, void* on)
{
    return guarded([&] {
        of->use();
        vllm::CustomAllreduce& sum = of->connected();
        const auto stream = static_cast<cudaStream_t>(on);
        const uint64_t bytes = count * (type == denizen_vllm_f32 ? 4 : 2);
        if (bytes >= most)
            throw std::runtime_error("vLLM leaves " + std::to_string(bytes) + " bytes to NCCL");
        cudaStreamCaptureStatus status{};
        check(cudaStreamIsCapturing(stream, &status), "cudaStreamIsCapturing");
        if (status != cudaStreamCaptureStatusActive) {
            check(cudaMemcpyAsync(of->memory[1], in, bytes, cudaMemcpyDeviceToDevice, stream),
                  "cudaMemcpyAsync");
            in = of->memory[1];
        }
        const auto sized = static_cast<int>(count);
        if (type == denizen_vllm_f32) {
            sum.allreduce(stream, static_cast<float*>(in), static_cast<float*>(out), sized);
        } else {
            sum.allreduce(stream, static_cast<nv_bfloat16*>(in), static_cast<nv_bfloat16*>(out),
                          sized);
        }
        check(cudaGetLastError(), "the launch of vLLM's kernel");
        return 0;
    });
}

DENIZEN_VLLM_CALL int denizen_vllm_captured(DenizenVllm* of, DenizenVllmPlace* places)
{
    return guarded([&] {
        of->use();
        const auto count = of->connected().graph_unreg_buffers_.size();
        if (places != nullptr) {
            const auto [handles, offsets] = of->connected().get_graph_buffer_ipc_meta();
            for (size_t i = 0; i < count; ++i) {
                constexpr size_t bytes = sizeof places[i].handle;
                std::memcpy(places[i].handle, handles.data() + i * bytes, bytes);
                places[i].offset = offsets[i];
            }
        }
        return static_cast<int>(count);
    });
}

DENIZEN_VLLM_CALL int denizen_vllm_register(DenizenVllm* of, const DenizenVllmPlace* of_each)
{
    return guarded([&] {
        of->use();
        const auto count = of->connected().graph_unreg_buffers_.size();
        const auto ranks = static_cast<size_t>(of->ranks);
        std::vector<std::string> handles(ranks);
        std::vector<std::vector<int64_t>> offsets(ranks);
        for (size_t i = 0; i < ranks * count; ++i) {
            const auto* bytes = reinterpret_cast<const char*>(of_each[i].handle);
            handles[i / count].append(bytes, sizeof of_each[i].handle);
            offsets[i / count].push_back(of_each[i].offset);
        }
        of->connected().register_graph_buffers(handles, offsets);
        return 0;
    });
}

// What vLLM's register_graph_buffers() does, with addresses in place of handles: a process cannot
// open its own.
DENIZEN_VLLM_CALL int denizen_vllm_register_here(DenizenVllm* of, void* const* inputs)
{
    return guarded([&] {
        of->use();
        vllm::CustomAllreduce& sum = of->connected();
        const size_t count = sum.graph_unreg_buffers_.size();
        sum.check_rank_data_capacity(count);
        vllm::RankData one{};
        for (int r = 0; r < of->ranks; ++r) one.ptrs[r] = inputs[r];
        const std::vector<vllm::RankData> all(count, one);
        check(cudaMemcpy(sum.d_rank_data_base_, all.data(), count * sizeof one,
                         cudaMemcpyHostToDevice),
              "cudaMemcpy");
        sum.d_rank_data_base_ += count;
        sum.graph_unreg_buffers_.clear();
        return 0;
    });
}

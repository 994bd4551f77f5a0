// SPDX-License-Identifier: Apache-2.0
// A stand-in for vLLM's header and for the CUDA runtime under it, so that benchmarks/rivals/vllm.cu
// runs as it is on a CPU: devices are numbers, memory is the host's, a stream is a list of work that
// the test runs on all ranks in step. Of vLLM's there are the names that vllm.cu uses, and none of
// its text. It refuses what CUDA refuses: a handle of anything but an allocation's start, one's own
// handle, an input without registration.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#define CUDAAPI

// --- the CUDA runtime ---
enum cudaError_t {
    cudaSuccess,
    cudaErrorInvalidValue,
    cudaErrorMemoryAllocation,
    cudaErrorPeerAccessAlreadyEnabled
};
enum CUresult { CUDA_SUCCESS, CUDA_ERROR_NOT_INITIALIZED, CUDA_ERROR_INVALID_VALUE };
enum CUpointer_attribute { CU_POINTER_ATTRIBUTE_RANGE_START_ADDR };
enum cudaMemcpyKind { cudaMemcpyHostToDevice, cudaMemcpyDeviceToDevice };
enum cudaStreamCaptureStatus { cudaStreamCaptureStatusNone, cudaStreamCaptureStatusActive };
enum cudaDriverEntryPointQueryResult { cudaDriverEntryPointSuccess };
enum { cudaIpcMemLazyEnablePeerAccess = 1, cudaEnableDefault = 0 };
using CUdeviceptr = unsigned long long;
struct cudaFuncAttributes {};
struct cudaIpcMemHandle_t {
    char reserved[64];
};
struct Stream {
    bool capturing = false;
    std::vector<std::function<void()>> work;
};
using cudaStream_t = Stream*;

namespace standin {

struct Allocation {
    uint64_t bytes;
    int device;
};
inline std::map<char*, Allocation> allocations;
inline thread_local int current = 0;

inline char* start_of(const void* address)
{
    const auto at = static_cast<char*>(const_cast<void*>(address));
    for (const auto& [start, one] : allocations) {
        if (at >= start && at < start + one.bytes) return start;
    }
    return nullptr;
}

inline CUresult pointer_attribute(void* data, CUpointer_attribute, CUdeviceptr pointer)
{
    void* const start = start_of(reinterpret_cast<void*>(pointer));
    std::memcpy(data, &start, sizeof start);
    return start == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

} // namespace standin

inline const char* cudaGetErrorString(cudaError_t) { return "the stand-in refused it"; }
inline cudaError_t cudaGetLastError() { return cudaSuccess; }
inline cudaError_t cudaSetDevice(int device)
{
    standin::current = device;
    return cudaSuccess;
}
inline cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
inline cudaError_t cudaDeviceEnablePeerAccess(int device, int)
{
    return device == standin::current ? cudaErrorInvalidValue : cudaErrorPeerAccessAlreadyEnabled;
}
inline cudaError_t cudaMalloc(void** memory, uint64_t bytes)
{
    auto* const made = new char[bytes];
    standin::allocations[made] = {bytes, standin::current};
    *memory = made;
    return cudaSuccess;
}
inline cudaError_t cudaFree(void* memory)
{
    if (standin::allocations.erase(static_cast<char*>(memory)) != 1) return cudaErrorInvalidValue;
    delete[] static_cast<char*>(memory);
    return cudaSuccess;
}
inline cudaError_t cudaMemset(void* memory, int value, uint64_t bytes)
{
    std::memset(memory, value, bytes);
    return cudaSuccess;
}
inline cudaError_t cudaMemcpy(void* to, const void* from, uint64_t bytes, cudaMemcpyKind)
{
    std::memcpy(to, from, bytes);
    return cudaSuccess;
}
inline cudaError_t cudaMemcpyAsync(void* to, const void* from, uint64_t bytes, cudaMemcpyKind,
                                   cudaStream_t stream)
{
    stream->work.push_back([=] { std::memcpy(to, from, bytes); });
    return cudaSuccess;
}
inline cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status)
{
    *status = stream->capturing ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    return cudaSuccess;
}
template <class Kernel>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes*, Kernel*)
{
    return cudaSuccess;
}
inline cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* memory)
{
    if (standin::start_of(memory) != memory) return cudaErrorInvalidValue;
    std::memcpy(handle->reserved, &memory, sizeof memory);
    return cudaSuccess;
}
inline cudaError_t cudaIpcOpenMemHandle(void** memory, cudaIpcMemHandle_t handle, unsigned)
{
    std::memcpy(memory, handle.reserved, sizeof *memory);
    const auto found = standin::allocations.find(static_cast<char*>(*memory));
    if (found == standin::allocations.end() || found->second.device == standin::current)
        return cudaErrorInvalidValue;
    return cudaSuccess;
}
inline cudaError_t cudaIpcCloseMemHandle(void*) { return cudaSuccess; }
inline cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** entry, unsigned, int,
                                                    cudaDriverEntryPointQueryResult*)
{
    if (std::string(name) != "cuPointerGetAttribute") return cudaErrorInvalidValue;
    *entry = reinterpret_cast<void*>(&standin::pointer_attribute);
    return cudaSuccess;
}
extern "C" CUresult cuPointerGetAttribute(void*, CUpointer_attribute, CUdeviceptr); // vllm.cu's

struct nv_bfloat16 {
    uint16_t bits;
    explicit operator float() const
    {
        const uint32_t wide = uint32_t{bits} << 16;
        float value;
        std::memcpy(&value, &wide, sizeof value);
        return value;
    }
    explicit nv_bfloat16(float value) // those of the tests have no further bits
    {
        uint32_t wide;
        std::memcpy(&wide, &value, sizeof wide);
        bits = static_cast<uint16_t>(wide >> 16);
    }
};

// --- what of vLLM's is used ---
namespace vllm {

struct Signal {
    uint32_t counts[256];
};
struct RankData {
    const void* ptrs[8];
};
template <class T, int ranks>
void cross_device_reduce_1stage(T*)
{
}
template <class T, int ranks>
void cross_device_reduce_2stage(T*)
{
}

class CustomAllreduce {
public:
    CustomAllreduce(Signal** signals, void* rank_data, uint64_t bytes, int rank, int ranks)
        : d_rank_data_base_(static_cast<RankData*>(rank_data)),
          end_(d_rank_data_base_ + bytes / sizeof(RankData)), rank_(rank), ranks_(ranks)
    {
        for (int r = 0; r < ranks; ++r) {
            if (signals[r]->counts[0] != 0) throw std::runtime_error("signals are not zeroed");
        }
    }
    void register_buffer(void** pointers)
    {
        check_rank_data_capacity(1);
        RankData* const made = d_rank_data_base_++;
        for (int r = 0; r < ranks_; ++r) made->ptrs[r] = pointers[r];
        known_[pointers[rank_]] = made;
    }
    void check_rank_data_capacity(uint64_t count)
    {
        if (d_rank_data_base_ + count > end_) throw std::runtime_error("no room for addresses");
    }
    std::pair<std::string, std::vector<int64_t>> get_graph_buffer_ipc_meta()
    {
        std::pair<std::string, std::vector<int64_t>> made;
        for (void* one : graph_unreg_buffers_) {
            void* start = nullptr;
            cudaIpcMemHandle_t handle{};
            if (cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                      reinterpret_cast<CUdeviceptr>(one)) != CUDA_SUCCESS ||
                cudaIpcGetMemHandle(&handle, start) != cudaSuccess)
                throw std::runtime_error("no device memory");
            made.first.append(handle.reserved, sizeof handle);
            made.second.push_back(static_cast<char*>(one) - static_cast<char*>(start));
        }
        return made;
    }
    void register_graph_buffers(const std::vector<std::string>& handles,
                                const std::vector<std::vector<int64_t>>& offsets)
    {
        for (size_t i = 0; i < graph_unreg_buffers_.size(); ++i) {
            RankData* const made = d_rank_data_base_++;
            for (size_t r = 0; r < handles.size(); ++r) {
                cudaIpcMemHandle_t handle;
                void* at = graph_unreg_buffers_[i];
                if (static_cast<int>(r) != rank_) {
                    std::memcpy(&handle, handles[r].data() + i * sizeof handle, sizeof handle);
                    if (cudaIpcOpenMemHandle(&at, handle, 0) != cudaSuccess)
                        throw std::runtime_error("no handle");
                    at = static_cast<char*>(at) + offsets[r][i];
                }
                made->ptrs[r] = at;
            }
        }
        graph_unreg_buffers_.clear();
    }
    template <class T>
    void allreduce(cudaStream_t stream, T* in, T* out, int count)
    {
        const RankData* data = nullptr;
        if (stream->capturing) {
            data = d_rank_data_base_ + graph_unreg_buffers_.size();
            graph_unreg_buffers_.push_back(in);
        } else if (known_.contains(in)) {
            data = known_[in];
        } else {
            throw std::runtime_error("the input is not registered");
        }
        stream->work.push_back([=, ranks = ranks_] {
            for (int i = 0; i < count; ++i) {
                float sum = 0;
                for (int r = 0; r < ranks; ++r)
                    sum += static_cast<float>(static_cast<const T*>(data->ptrs[r])[i]);
                out[i] = T(sum);
            }
        });
    }

    RankData* d_rank_data_base_;
    std::vector<void*> graph_unreg_buffers_;

private:
    RankData* end_;
    int rank_, ranks_;
    std::map<void*, RankData*> known_;
};

} // namespace vllm

// --- for the test ---
extern "C" inline __attribute__((used)) void* standin_allocate(int device, uint64_t bytes)
{
    void* memory = nullptr;
    cudaSetDevice(device);
    cudaMalloc(&memory, bytes);
    return memory;
}
extern "C" inline __attribute__((used)) Stream* standin_stream(int capturing)
{
    return new Stream{capturing != 0, {}};
}
// All ranks' work in step, as often as the test likes.
extern "C" inline __attribute__((used)) void standin_run(Stream** streams, int ranks)
{
    for (size_t i = 0; i < streams[0]->work.size(); ++i) {
        for (int r = 0; r < ranks; ++r) streams[r]->work[i]();
    }
}

// SPDX-License-Identifier: Apache-2.0
// The little of the CUDA runtime that the rivals share: checked calls and owners. Rivals are
// written with the runtime API on purpose: they are what a user would write instead of denizen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cuda_runtime.h>
#include <stdexcept>
#include <string>
#include <utility>

namespace denizen::bench {

inline void check_cuda(cudaError_t status, const char* what)
{
    if (status != cudaSuccess)
        throw std::runtime_error(std::string(what) + ": " + cudaGetErrorName(status) + " (" +
                                 cudaGetErrorString(status) + ")");
}

// Loads a kernel now. CUDA loads lazily, and loading may wait for the whole device: the first
// launch of a kernel beside a resident one would hang until that leaves.
template <class Kernel>
void preload(Kernel* kernel)
{
    cudaFuncAttributes attributes{};
    check_cuda(cudaFuncGetAttributes(&attributes, kernel), "loading of a kernel");
}

// Owns one stream that has no implicit ordering with any other.
class OwnStream {
public:
    OwnStream()
    {
        check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "stream");
    }
    ~OwnStream() { cudaStreamDestroy(stream_); }
    OwnStream(const OwnStream&) = delete;
    OwnStream& operator=(const OwnStream&) = delete;

    operator cudaStream_t() const { return stream_; }
    void synchronize() const
    {
        check_cuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
    }

private:
    cudaStream_t stream_ = nullptr;
};

// Zeroed memory of `count` elements: on the device, or pinned on the host (same address on both).
enum class Place { device, pinned };

template <class T, Place P>
class Buffer {
public:
    explicit Buffer(std::size_t count) : count_(count)
    {
        void* memory = nullptr;
        if constexpr (P == Place::device) {
            check_cuda(cudaMalloc(&memory, count * sizeof(T)), "cudaMalloc");
            check_cuda(cudaMemset(memory, 0, count * sizeof(T)), "cudaMemset");
            check_cuda(cudaStreamSynchronize(nullptr), "cudaMemset");
        } else {
            check_cuda(cudaHostAlloc(&memory, count * sizeof(T), cudaHostAllocMapped),
                       "cudaHostAlloc");
            for (std::size_t i = 0; i < count; ++i) static_cast<T*>(memory)[i] = T{};
        }
        data_ = static_cast<T*>(memory);
    }
    // cudaFree waits for everything on the device, resident kernels included: destroy the rivals
    // after those have left, and construct them before those start.
    ~Buffer()
    {
        if constexpr (P == Place::device) {
            cudaFree(data_);
        } else {
            cudaFreeHost(data_);
        }
    }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;

    T* get() const { return data_; }
    T& operator[](std::size_t i) const { return data_[i]; }
    std::size_t size() const { return count_; }

private:
    T* data_ = nullptr;
    std::size_t count_ = 0;
};

template <class T>
using DeviceBuffer = Buffer<T, Place::device>;
template <class T>
using PinnedBuffer = Buffer<T, Place::pinned>;

// Records what `enqueue(stream)` enqueues, once, as an executable graph that is already on the
// device.
class Graph {
public:
    template <class Enqueue>
    Graph(const OwnStream& stream, Enqueue enqueue, unsigned long long flags = 0)
    {
        check_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
        enqueue(stream);
        check_cuda(cudaStreamEndCapture(stream, &graph_), "cudaStreamEndCapture");
        check_cuda(cudaGraphInstantiate(&exec_, graph_, flags), "cudaGraphInstantiate");
        check_cuda(cudaGraphUpload(exec_, stream), "cudaGraphUpload");
        stream.synchronize();
    }
    ~Graph()
    {
        if (exec_ != nullptr) cudaGraphExecDestroy(exec_);
        if (graph_ != nullptr) cudaGraphDestroy(graph_);
    }
    Graph(const Graph&) = delete;
    Graph& operator=(const Graph&) = delete;
    Graph(Graph&& other) noexcept
        : graph_(std::exchange(other.graph_, nullptr)), exec_(std::exchange(other.exec_, nullptr))
    {
    }

    void launch(cudaStream_t stream) const
    {
        check_cuda(cudaGraphLaunch(exec_, stream), "cudaGraphLaunch");
    }
    cudaGraphExec_t exec() const { return exec_; }

private:
    cudaGraph_t graph_ = nullptr;
    cudaGraphExec_t exec_ = nullptr;
};

// A resident rival's kernel leaves by itself after this long, whatever the host does.
constexpr uint64_t kernel_limit_ns = 20'000'000'000;

} // namespace denizen::bench

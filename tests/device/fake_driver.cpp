// SPDX-License-Identifier: Apache-2.0
// A driver without a GPU, for tests of who gives back what: a library that answers to the name
// libcuda.so.1 once it is loaded. Device memory is the host's, kernels do nothing, and everything
// is done when its call returns. Any call that takes or does something can be told to fail; giving
// back never fails.
#include "fake_driver.hpp"

#include <denizen/device/driver.hpp>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#define FAKE extern "C" __attribute__((visibility("default")))

using namespace denizen::gpu;

namespace {

constexpr int launch_failed = 719;
constexpr unsigned sms = 4;
constexpr unsigned partitioned_by = 2;

FakeDriver seen;
thread_local int current = 0; // contexts on the thread's stack

// What a call that can fail begins with.
bool fails(FakeGpu::Call call = FakeGpu::Call::other)
{
    return ++seen.calls == seen.fail_at || (seen.gpu != nullptr && seen.gpu->refuses(call));
}
bool fails_in_context(FakeGpu::Call call = FakeGpu::Call::other)
{
    seen.out_of_context += current == 0 ? 1 : 0;
    return fails(call);
}

template <class T>
int take(T* object, size_t bytes = 64)
{
    if (fails_in_context(FakeGpu::Call::take)) return error_out_of_memory;
    *object = (T)std::aligned_alloc(256, (bytes + 255) / 256 * 256); // a pointer or an address
    seen.held += 1;
    return success;
}

template <class T>
int give_back(T object)
{
    seen.late += seen.contexts == 0 ? 1 : 0;
    seen.held -= 1;
    if (seen.gpu != nullptr) seen.gpu->wrote((void*)object, 0);
    std::free((void*)object);
    return success;
}

int done() { return fails_in_context() ? launch_failed : success; }

template <class T>
int tell(T* value, T answer)
{
    if (fails()) return launch_failed;
    *value = answer;
    return success;
}

} // namespace

FAKE FakeDriver* fake_driver() { return &seen; }

FAKE int cuInit(unsigned) { return success; }
FAKE int cuDriverGetVersion(int* version) { return tell(version, 13000); }
FAKE int cuGetErrorName(int, const char** text)
{
    *text = "CUDA_ERROR_FAKE";
    return success;
}
FAKE int cuGetErrorString(int, const char** text)
{
    *text = "as the test wishes";
    return success;
}
FAKE int cuDeviceGet(int* device, int ordinal) { return tell(device, ordinal); }
FAKE int cuDeviceGetCount(int* count)
{
    *count = 2;
    return success;
}
FAKE int cuDeviceGetName(char* name, int length, int)
{
    std::strncpy(name, "Fake GPU", static_cast<size_t>(length));
    return success;
}
FAKE int cuDeviceGetAttribute(int* value, int attribute, int)
{
    switch (attribute) {
    case attr_capability_major: return tell(value, 9);
    case attr_sm_count: return tell(value, static_cast<int>(sms));
    case attr_max_shared_optin: return tell(value, 227 << 10);
    default: return tell(value, 1);
    }
}
FAKE int cuDeviceGetUuid_v2(Uuid*, int) { return success; }
FAKE int cuDeviceTotalMem_v2(size_t* bytes, int) { return tell(bytes, size_t{1} << 30); }
FAKE int cuDeviceCanAccessPeer(int* can, int, int) { return tell(can, 1); }
FAKE int cuDeviceGetP2PAttribute(int* can, int, int, int) { return tell(can, 1); }

FAKE int cuCtxEnablePeerAccess(Context, unsigned) { return done(); }

FAKE int cuDevicePrimaryCtxRetain(Context* context, int device)
{
    if (fails()) return error_out_of_memory;
    seen.contexts += 1;
    *context = reinterpret_cast<Context>(intptr_t{device} + 1);
    return success;
}
FAKE int cuDevicePrimaryCtxRelease_v2(int)
{
    seen.contexts -= 1;
    return success;
}
FAKE int cuCtxPushCurrent_v2(Context)
{
    if (seen.dead) return launch_failed;
    current += 1;
    return success;
}
FAKE int cuCtxPopCurrent_v2(Context*)
{
    current -= 1;
    return success;
}
FAKE int cuCtxGetStreamPriorityRange(int* least, int* greatest)
{
    *greatest = -5;
    return tell(least, 0);
}

FAKE int cuModuleLoadData(Module* module, const void*) { return take(module); }
FAKE int cuModuleUnload(Module module) { return give_back(module); }
FAKE int cuModuleGetFunction(Function* function, Module module, const char*)
{
    return tell(function, reinterpret_cast<Function>(module));
}
FAKE int cuFuncGetAttribute(int* value, int, Function) { return tell(value, 90); }
FAKE int cuFuncSetAttribute(Function, int, int) { return done(); }
FAKE int cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, Function, int, size_t)
{
    return tell(blocks, 2);
}
FAKE int cuOccupancyMaxActiveClusters(int* clusters, Function, const LaunchConfig*)
{
    return tell(clusters, 1);
}
FAKE int cuLaunchKernelEx(const LaunchConfig* config, Function function, void** parameters, void**)
{
    if (fails_in_context(FakeGpu::Call::launch)) return launch_failed;
    seen.busy = seen.endless;
    if (seen.gpu != nullptr) seen.gpu->launch(config->stream, function, parameters);
    return success;
}

FAKE int cuThreadExchangeStreamCaptureMode(int* mode)
{
    *mode = std::atomic_ref<int>(seen.capture_mode).exchange(*mode); // a keeper has one, too
    return success;
}

FAKE int cuStreamCreateWithPriority(Stream* stream, unsigned, int) { return take(stream); }
FAKE int cuStreamDestroy_v2(Stream stream) { return give_back(stream); }
FAKE int cuStreamSynchronize(Stream stream)
{
    const int result = done();
    if (result == success && seen.gpu != nullptr) seen.gpu->synchronize(stream);
    return result;
}
FAKE int cuStreamQuery(Stream stream)
{
    const bool busy = seen.gpu != nullptr ? seen.gpu->busy(stream) : seen.busy;
    return busy ? error_not_ready : done();
}

// A descriptor is the SMs it stands for, a bit for each of both GPUs, and so is a green context's
// first word.
FAKE int cuDeviceGetDevResource(int device, DevResource* all, int)
{
    all->of.sm_count = sms;
    all->internal[0] = static_cast<unsigned char>(((1u << sms) - 1) << sms * device);
    return done();
}
FAKE int cuDevSmResourceSplitByCount(DevResource* groups, unsigned* count, const DevResource* all,
                                     DevResource*, unsigned, unsigned)
{
    *count = sms / partitioned_by;
    for (unsigned i = 0; groups != nullptr && i < *count; ++i) {
        const unsigned of_group = ((1u << partitioned_by) - 1) * 0b10001u << i * partitioned_by;
        groups[i].of.sm_count = partitioned_by;
        groups[i].internal[0] = static_cast<unsigned char>(all->internal[0] & of_group);
    }
    return done();
}
FAKE int cuDevResourceGenerateDesc(ResourceDesc* description, DevResource* groups, unsigned count)
{
    uintptr_t all = 0;
    for (unsigned i = 0; i < count; ++i) all |= groups[i].internal[0];
    *description = reinterpret_cast<ResourceDesc>(all);
    return done();
}
FAKE int cuGreenCtxCreate(GreenContext* context, ResourceDesc description, int, unsigned)
{
    const int result = take(context);
    if (result != success) return result;
    const auto all = static_cast<unsigned>(reinterpret_cast<uintptr_t>(description));
    *reinterpret_cast<unsigned*>(*context) = all;
    seen.shared_sms |= seen.partitioned_sms & all;
    seen.partitioned_sms |= all;
    return success;
}
FAKE int cuGreenCtxDestroy(GreenContext context)
{
    seen.partitioned_sms &= ~*reinterpret_cast<unsigned*>(context);
    return give_back(context);
}
FAKE int cuGreenCtxStreamCreate(Stream* stream, GreenContext, unsigned, int)
{
    return take(stream);
}

FAKE int cuMemAlloc_v2(DevicePtr* at, size_t bytes) { return take(at, bytes); }
FAKE int cuMemFree_v2(DevicePtr at) { return give_back(at); }
FAKE int cuMemHostAlloc(void** at, size_t bytes, unsigned) { return take(at, bytes); }
FAKE int cuMemFreeHost(void* at) { return give_back(at); }
FAKE int cuMemPoolCreate(MemPool* pool, const MemPoolProps*) { return take(pool); }
FAKE int cuMemPoolDestroy(MemPool pool) { return give_back(pool); }
FAKE int cuMemPoolSetAttribute(MemPool, int, void*) { return done(); }
FAKE int cuMemPoolSetAccess(MemPool, const MemAccess*, size_t) { return done(); }
FAKE int cuMemPoolGetAttribute(MemPool, int, uint64_t* value)
{
    return tell(value, uint64_t{1} << 30);
}
FAKE int cuMemAllocFromPoolAsync(DevicePtr* at, size_t, MemPool, Stream) { return take(at); }
FAKE int cuMemFreeAsync(DevicePtr at, Stream) { return give_back(at); }
FAKE int cuMemGetAllocationGranularity(size_t* bytes, const MemProps*, int)
{
    return tell(bytes, size_t{4096});
}
FAKE int cuMemCreate(MemHandle* handle, size_t, const MemProps*, unsigned long long)
{
    return take(handle);
}
FAKE int cuMemRelease(MemHandle handle) { return give_back(handle); }
FAKE int cuMemAddressReserve(DevicePtr* at, size_t bytes, size_t, DevicePtr, unsigned long long)
{
    return take(at, bytes);
}
FAKE int cuMemAddressFree(DevicePtr at, size_t) { return give_back(at); }
FAKE int cuMemMap(DevicePtr, size_t, size_t, MemHandle, unsigned long long) { return done(); }
FAKE int cuMemUnmap(DevicePtr, size_t) { return success; }
FAKE int cuMemSetAccess(DevicePtr, size_t, const MemAccess*, size_t) { return done(); }
FAKE int cuMemcpyHtoDAsync_v2(DevicePtr to, const void* from, size_t bytes, Stream)
{
    const int result = done();
    if (result == success) std::memcpy(reinterpret_cast<void*>(to), from, bytes);
    if (result == success && seen.gpu != nullptr) {
        seen.gpu->wrote(reinterpret_cast<void*>(to), bytes);
    }
    if (bytes == sizeof(uint32_t)) seen.busy = false;
    return result;
}
FAKE int cuMemcpyDtoHAsync_v2(void* to, DevicePtr from, size_t bytes, Stream)
{
    const int result = done();
    if (result == success) std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
    return result;
}
FAKE int cuMemsetD32Async(DevicePtr at, unsigned value, size_t, Stream stream)
{
    const int result = done();
    if (result == success && seen.gpu != nullptr) seen.gpu->set(stream, at, value);
    return result;
}
FAKE int cuMemsetD8Async(DevicePtr at, unsigned char value, size_t bytes, Stream)
{
    const int result = done();
    if (result == success) std::memset(reinterpret_cast<void*>(at), value, bytes);
    return result;
}

// SPDX-License-Identifier: Apache-2.0
// The CUDA driver as a table of functions, loaded at run time from libcuda.so.1. Nothing is linked
// and no CUDA header is needed, so the CPU-only build and machines without CUDA compile the same
// text. The types and constants below are the driver's binary interface (tests compare them with
// cuda.h). Called by everything in src/device and by who launches kernels; never from device
// code.
//
// Hazards beside a resident kernel: mem_free, mem_free_host and module_unload may wait for all work
// of the context, which a resident kernel never ends. Stop it first.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

// The driver's own tag names: a CUstream or cudaStream_t of the user is the same type as Stream.
struct CUctx_st;
struct CUmod_st;
struct CUfunc_st;
struct CUstream_st;
struct CUextMemory_st;
struct CUmemPoolHandle_st;
struct CUgraph_st;
struct CUgraphExec_st;
struct CUgraphNode_st;
struct CUgreenCtx_st;
struct CUdevResourceDesc_st;

namespace denizen::gpu {

using Result = int; // CUresult
using Device = int; // CUdevice
using DevicePtr = unsigned long long;
using Context = ::CUctx_st*;
using Module = ::CUmod_st*;
using Function = ::CUfunc_st*;
using Stream = ::CUstream_st*;
using ExternalMemory = ::CUextMemory_st*;
using MemPool = ::CUmemPoolHandle_st*;
using MemHandle = unsigned long long; // CUmemGenericAllocationHandle
using Graph = ::CUgraph_st*;
using GraphExec = ::CUgraphExec_st*;
using GraphNode = ::CUgraphNode_st*;
using GraphCondition = unsigned long long; // CUgraphConditionalHandle
using GreenContext = ::CUgreenCtx_st*;
using ResourceDesc = ::CUdevResourceDesc_st*;

inline constexpr Result success = 0;
inline constexpr Result error_out_of_memory = 2;
inline constexpr Result error_no_device = 100;
inline constexpr Result error_not_ready = 600;
inline constexpr Result error_peer_access_already_enabled = 704;

inline constexpr unsigned stream_non_blocking = 1;   // no implicit ordering with the NULL stream
inline constexpr unsigned host_alloc_portable = 1;   // pinned for all contexts
inline constexpr unsigned host_alloc_device_map = 2; // mapped into the device's address space
inline constexpr unsigned external_opaque_fd = 1;    // CUexternalMemoryHandleType

// CUdevice_attribute
inline constexpr int attr_clock_rate_khz = 13;
inline constexpr int attr_sm_count = 16;
inline constexpr int attr_max_threads_per_sm = 39;
inline constexpr int attr_capability_major = 75;
inline constexpr int attr_capability_minor = 76;
inline constexpr int attr_cooperative_launch = 95;
inline constexpr int attr_max_shared_optin = 97;

// CUfunction_attribute
inline constexpr int func_max_threads = 0;
inline constexpr int func_shared_bytes = 1;
inline constexpr int func_local_bytes = 3;
inline constexpr int func_registers = 4;
inline constexpr int func_ptx_version = 5; // 90 for 9.0: what the code was compiled for
inline constexpr int func_max_dynamic_shared = 8;
inline constexpr int func_shared_carveout = 9; // per cent of the SM's memory that is shared memory
inline constexpr int func_non_portable_cluster = 14;

// CUstreamCaptureMode
inline constexpr int capture_relaxed = 2;

// CUgraphNodeType, CUgraphConditionalNodeType
inline constexpr int node_kernel = 0;
inline constexpr int node_conditional = 13;
inline constexpr int while_not_zero = 1;
inline constexpr unsigned condition_assigned = 1; // the default value, at each launch

// CUlaunchAttributeID
inline constexpr unsigned launch_cooperative = 2;
inline constexpr unsigned launch_cluster_dimension = 4;
inline constexpr unsigned launch_programmatic_serialization = 6;

// CUdevice_P2PAttribute
inline constexpr int p2p_access = 2;
inline constexpr int p2p_native_atomics = 3;

inline constexpr int resource_sm = 1;                   // CUdevResourceType
inline constexpr unsigned green_ctx_default_stream = 1; // CUgreenCtxCreate_flags

inline constexpr int pointer_on_device = 3; // CUpointer_attribute: where kernels find the memory

inline constexpr int handle_posix_fd = 1; // CUmemAllocationHandleType

// CUmemPool_attribute
inline constexpr int pool_internal_dependencies = 3; // int
inline constexpr int pool_release_threshold = 4;     // uint64_t, bytes
inline constexpr int pool_reserved = 5;              // uint64_t, bytes

struct Uuid {
    std::array<unsigned char, 16> bytes{};
    bool operator==(const Uuid&) const = default;
    std::string text() const; // as nvidia-smi -L prints it: GPU-00112233-4455-...
};

struct ExternalMemoryHandleDesc { // CUDA_EXTERNAL_MEMORY_HANDLE_DESC
    unsigned type = external_opaque_fd;
    union {
        int fd;
        struct {
            void* handle;
            const void* name;
        } win32; // never used here; it fixes the size of the union
    } handle{-1};
    unsigned long long size = 0;
    unsigned flags = 0;
    unsigned reserved[16] = {};
};

struct ExternalMemoryBufferDesc { // CUDA_EXTERNAL_MEMORY_BUFFER_DESC
    unsigned long long offset = 0;
    unsigned long long size = 0;
    unsigned flags = 0;
    unsigned reserved[16] = {};
};

struct MemLocation { // CUmemLocation
    int type = 1;    // a device
    int id = 0;      // its ordinal
};

struct MemAccess { // CUmemAccessDesc
    MemLocation location;
    int flags = 3; // read and write
};

struct MemProps { // CUmemAllocationProp
    int type = 1; // CU_MEM_ALLOCATION_TYPE_PINNED
    int handle_types = 0;
    MemLocation location;
    void* security_attributes = nullptr;
    unsigned char flags[8] = {}; // no compression, no RDMA
};

struct MemPoolProps { // CUmemPoolProps
    int type = 1;     // CU_MEM_ALLOCATION_TYPE_PINNED
    int handle_types = 0;
    MemLocation location;
    void* security_attributes = nullptr;
    std::size_t max_size = 0;
    unsigned short usage = 0;
    unsigned char reserved[54] = {};
};

struct LaunchAttribute { // CUlaunchAttribute
    unsigned id = 0;
    unsigned reserved = 0;
    union {
        char size[64];
        int cooperative;
        unsigned cluster[3]; // blocks in x, y, z
        int programmatic_serialization;
    } value{};
};

struct LaunchConfig { // CUlaunchConfig
    unsigned grid[3] = {1, 1, 1};
    unsigned block[3] = {1, 1, 1};
    unsigned shared_bytes = 0;
    Stream stream = nullptr;
    LaunchAttribute* attributes = nullptr;
    unsigned attribute_count = 0;
};

struct KernelNode { // CUDA_KERNEL_NODE_PARAMS
    Function function = nullptr;
    unsigned grid[3] = {1, 1, 1};
    unsigned block[3] = {1, 1, 1};
    unsigned shared_bytes = 0;
    void** params = nullptr;
    void** extra = nullptr;
    void* kernel = nullptr; // looked at where there is no function
    Context context = nullptr;
};

struct ConditionalNode { // CUDA_CONDITIONAL_NODE_PARAMS
    GraphCondition condition = 0;
    int type = while_not_zero;
    unsigned bodies = 1;
    Graph* body = nullptr; // the driver points it to as many, empty ones
    Context context = nullptr;
};

struct GraphNodeParams { // CUgraphNodeParams
    int type = node_kernel;
    int reserved0[3] = {};
    union {
        long long size[29];
        KernelNode kernel;
        ConditionalNode conditional;
    } of{};
    long long reserved1 = 0;
};

struct DevResource { // CUdevResource
    int type = resource_sm;
    unsigned char internal[92] = {};
    union {
        unsigned sm_count;
        unsigned long long size[6];
    } of{};
};

// Members are named after the entry without "cu"; the exact symbol (with its _v2) is in driver.cpp.
struct Driver {
    Result (*get_error_name)(Result, const char**);
    Result (*get_error_string)(Result, const char**);
    Result (*init)(unsigned flags);
    Result (*driver_get_version)(int*);
    Result (*device_get)(Device*, int ordinal);
    Result (*device_get_count)(int*);
    Result (*device_get_name)(char*, int length, Device);
    Result (*device_get_attribute)(int*, int attribute, Device);
    Result (*device_get_uuid)(Uuid*, Device);
    Result (*device_total_mem)(std::size_t*, Device);
    Result (*device_can_access_peer)(int*, Device, Device peer);
    Result (*device_get_p2p_attribute)(int*, int attribute, Device from, Device to);
    Result (*primary_ctx_retain)(Context*, Device);
    Result (*primary_ctx_release)(Device);
    Result (*ctx_set_current)(Context);
    Result (*ctx_get_current)(Context*);
    Result (*ctx_push_current)(Context);
    Result (*ctx_pop_current)(Context*);
    Result (*ctx_get_stream_priority_range)(int* least, int* greatest);
    Result (*ctx_enable_peer_access)(Context peer, unsigned flags);
    Result (*module_load_data)(Module*, const void* image);
    Result (*module_load_data_ex)(Module*, const void* image, unsigned n, int* options,
                                  void** values);
    Result (*module_unload)(Module);
    Result (*module_get_function)(Function*, Module, const char* name);
    Result (*module_get_global)(DevicePtr*, std::size_t* bytes, Module, const char* name);
    Result (*func_get_attribute)(int*, int attribute, Function);
    Result (*func_set_attribute)(Function, int attribute, int value);
    Result (*mem_get_info)(std::size_t* free, std::size_t* total);
    Result (*mem_alloc)(DevicePtr*, std::size_t bytes);
    Result (*mem_free)(DevicePtr);
    Result (*mem_host_alloc)(void**, std::size_t bytes, unsigned flags);
    Result (*mem_free_host)(void*);
    Result (*pointer_get_attribute)(void* value, int attribute, DevicePtr);
    Result (*mem_pool_create)(MemPool*, const MemPoolProps*);
    Result (*mem_pool_destroy)(MemPool);
    Result (*mem_pool_set_attribute)(MemPool, int attribute, void* value);
    Result (*mem_pool_set_access)(MemPool, const MemAccess*, std::size_t count);
    Result (*mem_pool_get_attribute)(MemPool, int attribute, void* value);
    Result (*mem_alloc_from_pool_async)(DevicePtr*, std::size_t bytes, MemPool, Stream);
    Result (*mem_free_async)(DevicePtr, Stream);
    Result (*mem_get_allocation_granularity)(std::size_t*, const MemProps*, int option);
    Result (*mem_create)(MemHandle*, std::size_t bytes, const MemProps*, unsigned long long flags);
    Result (*mem_release)(MemHandle);
    Result (*mem_address_reserve)(DevicePtr*, std::size_t bytes, std::size_t alignment, DevicePtr,
                                  unsigned long long flags);
    Result (*mem_address_free)(DevicePtr, std::size_t bytes);
    Result (*mem_map)(DevicePtr, std::size_t bytes, std::size_t offset, MemHandle,
                      unsigned long long flags);
    Result (*mem_unmap)(DevicePtr, std::size_t bytes);
    Result (*mem_set_access)(DevicePtr, std::size_t bytes, const MemAccess*, std::size_t count);
    Result (*mem_export_to_shareable_handle)(void* handle, MemHandle, int type,
                                             unsigned long long flags);
    Result (*mem_import_from_shareable_handle)(MemHandle*, void* handle, int type);
    Result (*memcpy_htod_async)(DevicePtr, const void*, std::size_t bytes, Stream);
    Result (*memcpy_dtoh_async)(void*, DevicePtr, std::size_t bytes, Stream);
    Result (*memset_d8_async)(DevicePtr, unsigned char value, std::size_t count, Stream);
    Result (*memset_d32_async)(DevicePtr, unsigned value, std::size_t count, Stream);
    Result (*stream_create_with_priority)(Stream*, unsigned flags, int priority);
    Result (*stream_destroy)(Stream);
    Result (*stream_query)(Stream);
    Result (*stream_synchronize)(Stream);
    Result (*thread_exchange_capture_mode)(int* mode); // this thread's; gives the one before
    Result (*stream_begin_capture)(Stream, int mode);
    Result (*stream_end_capture)(Stream, Graph*);
    Result (*graph_instantiate)(GraphExec*, Graph, unsigned long long flags);
    Result (*graph_create)(Graph*, unsigned flags);
    // Null where the driver is older than CUDA 12.4.
    Result (*graph_add_node)(GraphNode*, Graph, const GraphNode* after, const void* edges,
                             std::size_t count, GraphNodeParams*);
    Result (*graph_condition_create)(GraphCondition*, Graph, Context, unsigned value,
                                     unsigned flags);
    Result (*graph_launch)(GraphExec, Stream);
    Result (*graph_exec_destroy)(GraphExec);
    Result (*graph_destroy)(Graph);
    Result (*launch_kernel)(Function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                            unsigned by, unsigned bz, unsigned shared_bytes, Stream, void** params,
                            void** extra);
    Result (*launch_kernel_ex)(const LaunchConfig*, Function, void** params, void** extra);
    Result (*occupancy_max_active_blocks)(int*, Function, int block_size, std::size_t shared_bytes);
    Result (*occupancy_max_active_clusters)(int*, Function, const LaunchConfig*);
    Result (*import_external_memory)(ExternalMemory*, const ExternalMemoryHandleDesc*);
    Result (*external_memory_get_mapped_buffer)(DevicePtr*, ExternalMemory,
                                                const ExternalMemoryBufferDesc*);
    Result (*destroy_external_memory)(ExternalMemory);
    // Null where the driver is older than CUDA 12.5; all but the last, than 12.4.
    Result (*device_get_dev_resource)(Device, DevResource*, int type);
    Result (*dev_sm_resource_split_by_count)(DevResource* groups, unsigned* count,
                                             const DevResource* of, DevResource* rest,
                                             unsigned flags, unsigned least);
    Result (*dev_resource_generate_desc)(ResourceDesc*, DevResource*, unsigned count);
    Result (*green_ctx_create)(GreenContext*, ResourceDesc, Device, unsigned flags);
    Result (*green_ctx_destroy)(GreenContext);
    Result (*green_ctx_stream_create)(Stream*, GreenContext, unsigned flags, int priority);
};

// The driver, loaded and initialised (cuInit) on the first call of the process. Throws Error with
// Errc::no_device if there is no driver, it is too old, or it sees no device; the message says
// which and what to do. Thread-safe. A child made by fork() cannot use it (the driver refuses with
// CUDA_ERROR_NOT_INITIALIZED): start processes by exec.
const Driver& driver();

// Whether driver() would succeed and at least one device is there.
bool driver_present() noexcept;

// Why not, in one line; empty when driver_present().
const std::string& driver_problem() noexcept;

// Whether compute-sanitizer is in this process.
bool under_sanitizer();

// Fills `table` from a library; an empty string, or what is missing. driver() calls it once.
std::string load_driver(const char* library, Driver& table);

[[noreturn]] void fail(Result, const char* call, std::string_view context);

// Throws Error(Errc::driver): "cuMemAlloc(64 MiB): CUDA_ERROR_OUT_OF_MEMORY (out of memory)".
inline void check(Result result, const char* call, std::string_view context = {})
{
    if (result != success) [[unlikely]]
        fail(result, call, context);
}

struct DeviceInfo {
    int ordinal = 0;
    std::string name;
    Uuid uuid;
    int major = 0, minor = 0; // compute capability
    int sm_count = 0;
    bool cooperative_launch = false;
    std::size_t shared_bytes = 0; // that a block may ask for
    std::size_t total_bytes = 0;
    int driver_cuda_version = 0; // newest CUDA the driver supports: 13000 is 13.0
};

int device_count();
DeviceInfo device_info(int ordinal); // Errc::no_device if there is no such ordinal

// Makes a context current for the calling thread until the end of the scope.
class ContextScope {
public:
    explicit ContextScope(Context context);
    ~ContextScope();
    ContextScope(const ContextScope&) = delete;
    ContextScope& operator=(const ContextScope&) = delete;

private:
    int mode_ = capture_relaxed; // the thread's own meanwhile, to be given back
};

} // namespace denizen::gpu

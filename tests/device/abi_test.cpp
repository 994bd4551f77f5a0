// SPDX-License-Identifier: Apache-2.0
// The hand-written driver and Vulkan declarations against the official headers, where those are
// installed. Everything is decided at compile time; the tests below report what was compared.
#include "device/vulkan_abi.hpp"
#include "group/nccl.hpp"
#include <denizen/device/driver.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <type_traits>

#if __has_include(<cuda.h>)
#include <cuda.h>
#define DENIZEN_TEST_CUDA_H 1
#else
#define DENIZEN_TEST_CUDA_H 0
#endif

#if __has_include(<vulkan/vulkan.h>)
#include <vulkan/vulkan.h>
#define DENIZEN_TEST_VULKAN_H 1
#else
#define DENIZEN_TEST_VULKAN_H 0
#endif

// The header of the wheel nvidia-nccl-cu13, if its folder is on the compiler's path (CPATH).
#if __has_include(<nccl.h>) && __has_include(<cuda_runtime.h>)
#include <nccl.h>
#define DENIZEN_TEST_NCCL_H 1
#else
#define DENIZEN_TEST_NCCL_H 0
#endif

namespace {

namespace gpu = denizen::gpu;
namespace nccl = denizen::group::nccl;
namespace vk = denizen::gpu::vk;

#if DENIZEN_TEST_CUDA_H
static_assert(std::is_same_v<gpu::Context, CUcontext>);
static_assert(std::is_same_v<gpu::Module, CUmodule>);
static_assert(std::is_same_v<gpu::Function, CUfunction>);
static_assert(std::is_same_v<gpu::Stream, CUstream>);
static_assert(std::is_same_v<gpu::GraphNode, CUgraphNode>);
static_assert(sizeof(gpu::GraphCondition) == sizeof(CUgraphConditionalHandle));
static_assert(std::is_same_v<gpu::ExternalMemory, CUexternalMemory>);
static_assert(std::is_same_v<gpu::DevicePtr, CUdeviceptr>);
static_assert(std::is_same_v<gpu::Device, CUdevice>);
static_assert(sizeof(gpu::Result) == sizeof(CUresult));
static_assert(sizeof(gpu::Uuid) == sizeof(CUuuid));
static_assert(gpu::success == CUDA_SUCCESS);
static_assert(gpu::error_out_of_memory == CUDA_ERROR_OUT_OF_MEMORY);
static_assert(gpu::error_no_device == CUDA_ERROR_NO_DEVICE);
static_assert(gpu::error_not_ready == CUDA_ERROR_NOT_READY);
static_assert(gpu::error_peer_access_already_enabled == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
static_assert(gpu::stream_non_blocking == CU_STREAM_NON_BLOCKING);
static_assert(gpu::host_alloc_portable == CU_MEMHOSTALLOC_PORTABLE);
static_assert(gpu::host_alloc_device_map == CU_MEMHOSTALLOC_DEVICEMAP);
static_assert(gpu::external_opaque_fd == CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD);
static_assert(gpu::attr_clock_rate_khz == CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
static_assert(gpu::attr_sm_count == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
static_assert(gpu::attr_max_threads_per_sm == CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
static_assert(gpu::attr_capability_major == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
static_assert(gpu::attr_capability_minor == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
static_assert(gpu::attr_cooperative_launch == CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH);
static_assert(gpu::attr_max_shared_optin == CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
static_assert(gpu::func_max_threads == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
static_assert(gpu::func_shared_bytes == CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
static_assert(gpu::func_local_bytes == CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
static_assert(gpu::func_registers == CU_FUNC_ATTRIBUTE_NUM_REGS);
static_assert(gpu::func_ptx_version == CU_FUNC_ATTRIBUTE_PTX_VERSION);
static_assert(gpu::func_non_portable_cluster ==
              CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED);
static_assert(gpu::pointer_on_device == CU_POINTER_ATTRIBUTE_DEVICE_POINTER);
static_assert(gpu::capture_relaxed == CU_STREAM_CAPTURE_MODE_RELAXED);
static_assert(gpu::node_kernel == CU_GRAPH_NODE_TYPE_KERNEL);
static_assert(gpu::node_conditional == CU_GRAPH_NODE_TYPE_CONDITIONAL);
static_assert(gpu::while_not_zero == CU_GRAPH_COND_TYPE_WHILE);
static_assert(gpu::condition_assigned == CU_GRAPH_COND_ASSIGN_DEFAULT);
static_assert(gpu::launch_cooperative == CU_LAUNCH_ATTRIBUTE_COOPERATIVE);
static_assert(gpu::launch_cluster_dimension == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
static_assert(gpu::launch_programmatic_serialization ==
              CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
static_assert(gpu::func_shared_carveout == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT);
static_assert(gpu::func_max_dynamic_shared == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);

static_assert(std::is_same_v<gpu::MemPool, CUmemoryPool>);
static_assert(gpu::pool_internal_dependencies == CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES);
static_assert(gpu::pool_release_threshold == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD);
static_assert(gpu::pool_reserved == CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
static_assert(gpu::MemPoolProps{}.type == CU_MEM_ALLOCATION_TYPE_PINNED);
static_assert(gpu::MemLocation{}.type == CU_MEM_LOCATION_TYPE_DEVICE);
static_assert(gpu::MemAccess{}.flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
static_assert(sizeof(gpu::MemAccess) == sizeof(CUmemAccessDesc));
static_assert(gpu::p2p_access == CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED);
static_assert(gpu::p2p_native_atomics == CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED);
static_assert(gpu::handle_posix_fd == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
static_assert(std::is_same_v<gpu::MemHandle, CUmemGenericAllocationHandle>);
static_assert(sizeof(gpu::MemProps) == sizeof(CUmemAllocationProp));
static_assert(offsetof(gpu::MemProps, location) == offsetof(CUmemAllocationProp, location));
static_assert(sizeof(gpu::MemPoolProps) == sizeof(CUmemPoolProps));
static_assert(offsetof(gpu::MemPoolProps, location) == offsetof(CUmemPoolProps, location));
static_assert(offsetof(gpu::MemPoolProps, security_attributes) ==
              offsetof(CUmemPoolProps, win32SecurityAttributes));

static_assert(sizeof(gpu::ExternalMemoryHandleDesc) == sizeof(CUDA_EXTERNAL_MEMORY_HANDLE_DESC));
static_assert(offsetof(gpu::ExternalMemoryHandleDesc, handle) ==
              offsetof(CUDA_EXTERNAL_MEMORY_HANDLE_DESC, handle));
static_assert(offsetof(gpu::ExternalMemoryHandleDesc, size) ==
              offsetof(CUDA_EXTERNAL_MEMORY_HANDLE_DESC, size));
static_assert(offsetof(gpu::ExternalMemoryHandleDesc, flags) ==
              offsetof(CUDA_EXTERNAL_MEMORY_HANDLE_DESC, flags));
static_assert(sizeof(gpu::ExternalMemoryBufferDesc) == sizeof(CUDA_EXTERNAL_MEMORY_BUFFER_DESC));
static_assert(offsetof(gpu::ExternalMemoryBufferDesc, size) ==
              offsetof(CUDA_EXTERNAL_MEMORY_BUFFER_DESC, size));
static_assert(offsetof(gpu::ExternalMemoryBufferDesc, flags) ==
              offsetof(CUDA_EXTERNAL_MEMORY_BUFFER_DESC, flags));

static_assert(sizeof(gpu::LaunchAttribute) == sizeof(CUlaunchAttribute));
static_assert(sizeof(gpu::LaunchAttribute::id) == sizeof(CUlaunchAttributeID));
static_assert(offsetof(gpu::LaunchAttribute, value) == offsetof(CUlaunchAttribute, value));
static_assert(sizeof(gpu::LaunchAttribute::value) == sizeof(CUlaunchAttributeValue));
static_assert(sizeof(gpu::LaunchAttribute{}.value.cluster) ==
              sizeof(CUlaunchAttributeValue::clusterDim));
static_assert(sizeof(gpu::LaunchConfig) == sizeof(CUlaunchConfig));
static_assert(offsetof(gpu::LaunchConfig, block) == offsetof(CUlaunchConfig, blockDimX));
static_assert(offsetof(gpu::LaunchConfig, shared_bytes) ==
              offsetof(CUlaunchConfig, sharedMemBytes));
static_assert(offsetof(gpu::LaunchConfig, stream) == offsetof(CUlaunchConfig, hStream));
static_assert(offsetof(gpu::LaunchConfig, attributes) == offsetof(CUlaunchConfig, attrs));
static_assert(offsetof(gpu::LaunchConfig, attribute_count) == offsetof(CUlaunchConfig, numAttrs));

static_assert(sizeof(gpu::GraphNodeParams) == sizeof(CUgraphNodeParams));
static_assert(offsetof(gpu::GraphNodeParams, of) == offsetof(CUgraphNodeParams, kernel));
static_assert(offsetof(gpu::GraphNodeParams, of) == offsetof(CUgraphNodeParams, conditional));
static_assert(sizeof(gpu::KernelNode) == sizeof(CUDA_KERNEL_NODE_PARAMS));
static_assert(offsetof(gpu::KernelNode, block) == offsetof(CUDA_KERNEL_NODE_PARAMS, blockDimX));
static_assert(offsetof(gpu::KernelNode, shared_bytes) ==
              offsetof(CUDA_KERNEL_NODE_PARAMS, sharedMemBytes));
static_assert(offsetof(gpu::KernelNode, params) == offsetof(CUDA_KERNEL_NODE_PARAMS, kernelParams));
static_assert(offsetof(gpu::KernelNode, context) == offsetof(CUDA_KERNEL_NODE_PARAMS, ctx));
static_assert(sizeof(gpu::ConditionalNode) == sizeof(CUDA_CONDITIONAL_NODE_PARAMS));
static_assert(offsetof(gpu::ConditionalNode, type) == offsetof(CUDA_CONDITIONAL_NODE_PARAMS, type));
static_assert(offsetof(gpu::ConditionalNode, body) ==
              offsetof(CUDA_CONDITIONAL_NODE_PARAMS, phGraph_out));
static_assert(offsetof(gpu::ConditionalNode, context) ==
              offsetof(CUDA_CONDITIONAL_NODE_PARAMS, ctx));

static_assert(std::is_same_v<gpu::GreenContext, CUgreenCtx>);
static_assert(std::is_same_v<gpu::ResourceDesc, CUdevResourceDesc>);
static_assert(gpu::resource_sm == CU_DEV_RESOURCE_TYPE_SM);
static_assert(gpu::green_ctx_default_stream == CU_GREEN_CTX_DEFAULT_STREAM);
static_assert(sizeof(gpu::DevResource) == sizeof(CUdevResource));
static_assert(offsetof(gpu::DevResource, of) == offsetof(CUdevResource, sm.smCount));

// An entry of the table takes what the official prototype takes: the same number of arguments, each
// either the same type or one of the same size and kind (an enum for an int, Uuid* for CUuuid*).
template <class Ours, class Theirs>
constexpr bool same_argument =
    std::is_same_v<Ours, Theirs> ||
    (sizeof(Ours) == sizeof(Theirs) && std::is_pointer_v<Ours> == std::is_pointer_v<Theirs>);

template <class Ours, class Theirs>
struct Agree : std::false_type {};
template <class... Ours, class... Theirs>
    requires(sizeof...(Ours) == sizeof...(Theirs))
struct Agree<gpu::Result (*)(Ours...), CUresult (*)(Theirs...)>
    : std::bool_constant<(same_argument<Ours, Theirs> && ...)> {};

#define DENIZEN_AGREE(member, entry)                                                               \
    static_assert(Agree<decltype(gpu::Driver::member), decltype(&entry)>::value)

DENIZEN_AGREE(get_error_name, cuGetErrorName);
DENIZEN_AGREE(get_error_string, cuGetErrorString);
DENIZEN_AGREE(init, cuInit);
DENIZEN_AGREE(driver_get_version, cuDriverGetVersion);
DENIZEN_AGREE(device_get, cuDeviceGet);
DENIZEN_AGREE(device_get_count, cuDeviceGetCount);
DENIZEN_AGREE(device_get_name, cuDeviceGetName);
DENIZEN_AGREE(device_get_attribute, cuDeviceGetAttribute);
DENIZEN_AGREE(device_get_uuid, cuDeviceGetUuid);
DENIZEN_AGREE(device_total_mem, cuDeviceTotalMem);
DENIZEN_AGREE(device_can_access_peer, cuDeviceCanAccessPeer);
DENIZEN_AGREE(device_get_p2p_attribute, cuDeviceGetP2PAttribute);
DENIZEN_AGREE(primary_ctx_retain, cuDevicePrimaryCtxRetain);
DENIZEN_AGREE(primary_ctx_release, cuDevicePrimaryCtxRelease);
DENIZEN_AGREE(ctx_set_current, cuCtxSetCurrent);
DENIZEN_AGREE(ctx_get_current, cuCtxGetCurrent);
DENIZEN_AGREE(ctx_push_current, cuCtxPushCurrent);
DENIZEN_AGREE(ctx_pop_current, cuCtxPopCurrent);
DENIZEN_AGREE(ctx_get_stream_priority_range, cuCtxGetStreamPriorityRange);
DENIZEN_AGREE(ctx_enable_peer_access, cuCtxEnablePeerAccess);
DENIZEN_AGREE(module_load_data, cuModuleLoadData);
DENIZEN_AGREE(module_load_data_ex, cuModuleLoadDataEx);
DENIZEN_AGREE(module_unload, cuModuleUnload);
DENIZEN_AGREE(module_get_function, cuModuleGetFunction);
DENIZEN_AGREE(module_get_global, cuModuleGetGlobal);
DENIZEN_AGREE(func_get_attribute, cuFuncGetAttribute);
DENIZEN_AGREE(func_set_attribute, cuFuncSetAttribute);
DENIZEN_AGREE(mem_get_info, cuMemGetInfo);
DENIZEN_AGREE(mem_alloc, cuMemAlloc);
DENIZEN_AGREE(mem_free, cuMemFree);
DENIZEN_AGREE(mem_host_alloc, cuMemHostAlloc);
DENIZEN_AGREE(mem_free_host, cuMemFreeHost);
DENIZEN_AGREE(pointer_get_attribute, cuPointerGetAttribute);
DENIZEN_AGREE(mem_pool_create, cuMemPoolCreate);
DENIZEN_AGREE(mem_pool_destroy, cuMemPoolDestroy);
DENIZEN_AGREE(mem_pool_set_attribute, cuMemPoolSetAttribute);
DENIZEN_AGREE(mem_pool_set_access, cuMemPoolSetAccess);
DENIZEN_AGREE(mem_pool_get_attribute, cuMemPoolGetAttribute);
DENIZEN_AGREE(mem_alloc_from_pool_async, cuMemAllocFromPoolAsync);
DENIZEN_AGREE(mem_free_async, cuMemFreeAsync);
DENIZEN_AGREE(mem_get_allocation_granularity, cuMemGetAllocationGranularity);
DENIZEN_AGREE(mem_create, cuMemCreate);
DENIZEN_AGREE(mem_release, cuMemRelease);
DENIZEN_AGREE(mem_address_reserve, cuMemAddressReserve);
DENIZEN_AGREE(mem_address_free, cuMemAddressFree);
DENIZEN_AGREE(mem_map, cuMemMap);
DENIZEN_AGREE(mem_unmap, cuMemUnmap);
DENIZEN_AGREE(mem_set_access, cuMemSetAccess);
DENIZEN_AGREE(mem_export_to_shareable_handle, cuMemExportToShareableHandle);
DENIZEN_AGREE(mem_import_from_shareable_handle, cuMemImportFromShareableHandle);
DENIZEN_AGREE(memcpy_htod_async, cuMemcpyHtoDAsync);
DENIZEN_AGREE(memcpy_dtoh_async, cuMemcpyDtoHAsync);
DENIZEN_AGREE(memset_d8_async, cuMemsetD8Async);
DENIZEN_AGREE(memset_d32_async, cuMemsetD32Async);
DENIZEN_AGREE(stream_create_with_priority, cuStreamCreateWithPriority);
DENIZEN_AGREE(stream_destroy, cuStreamDestroy);
DENIZEN_AGREE(stream_query, cuStreamQuery);
DENIZEN_AGREE(stream_synchronize, cuStreamSynchronize);
DENIZEN_AGREE(thread_exchange_capture_mode, cuThreadExchangeStreamCaptureMode);
DENIZEN_AGREE(stream_begin_capture, cuStreamBeginCapture);
DENIZEN_AGREE(stream_end_capture, cuStreamEndCapture);
DENIZEN_AGREE(graph_instantiate, cuGraphInstantiateWithFlags);
DENIZEN_AGREE(graph_create, cuGraphCreate);
DENIZEN_AGREE(graph_add_node, cuGraphAddNode);
DENIZEN_AGREE(graph_condition_create, cuGraphConditionalHandleCreate);
DENIZEN_AGREE(graph_launch, cuGraphLaunch);
DENIZEN_AGREE(graph_exec_destroy, cuGraphExecDestroy);
DENIZEN_AGREE(graph_destroy, cuGraphDestroy);
DENIZEN_AGREE(launch_kernel, cuLaunchKernel);
DENIZEN_AGREE(occupancy_max_active_blocks, cuOccupancyMaxActiveBlocksPerMultiprocessor);
DENIZEN_AGREE(launch_kernel_ex, cuLaunchKernelEx);
DENIZEN_AGREE(occupancy_max_active_clusters, cuOccupancyMaxActiveClusters);
DENIZEN_AGREE(import_external_memory, cuImportExternalMemory);
DENIZEN_AGREE(external_memory_get_mapped_buffer, cuExternalMemoryGetMappedBuffer);
DENIZEN_AGREE(destroy_external_memory, cuDestroyExternalMemory);
DENIZEN_AGREE(device_get_dev_resource, cuDeviceGetDevResource);
DENIZEN_AGREE(dev_sm_resource_split_by_count, cuDevSmResourceSplitByCount);
DENIZEN_AGREE(dev_resource_generate_desc, cuDevResourceGenerateDesc);
DENIZEN_AGREE(green_ctx_create, cuGreenCtxCreate);
DENIZEN_AGREE(green_ctx_destroy, cuGreenCtxDestroy);
DENIZEN_AGREE(green_ctx_stream_create, cuGreenCtxStreamCreate);
#endif

#if DENIZEN_TEST_NCCL_H
static_assert(std::is_same_v<nccl::Comm, ncclComm_t>);
static_assert(sizeof(nccl::Result) == sizeof(ncclResult_t));
static_assert(nccl::success == ncclSuccess);
static_assert(nccl::remote_error == ncclRemoteError);
static_assert(nccl::in_progress == ncclInProgress);
static_assert(nccl::int32 == ncclInt32 && nccl::float16 == ncclFloat16);
static_assert(nccl::float32 == ncclFloat32 && nccl::bfloat16 == ncclBfloat16);
static_assert(nccl::sum == ncclSum && nccl::max == ncclMax && nccl::min == ncclMin);
static_assert(nccl::avg == ncclAvg);
static_assert(sizeof(nccl::UniqueId) == sizeof(ncclUniqueId));
static_assert(sizeof(nccl::Config) <= sizeof(ncclConfig_t));
constexpr ncclConfig_t nccl_initial = NCCL_CONFIG_INITIALIZER;
static_assert(nccl::Config{}.magic == nccl_initial.magic);
static_assert(nccl::Config{}.version <= NCCL_VERSION_CODE);
static_assert(nccl::Config{}.min_ctas == NCCL_CONFIG_UNDEF_INT);
static_assert(offsetof(nccl::Config, magic) == offsetof(ncclConfig_t, magic));
static_assert(offsetof(nccl::Config, version) == offsetof(ncclConfig_t, version));
static_assert(offsetof(nccl::Config, blocking) == offsetof(ncclConfig_t, blocking));
static_assert(offsetof(nccl::Config, cluster_size) == offsetof(ncclConfig_t, cgaClusterSize));
static_assert(offsetof(nccl::Config, min_ctas) == offsetof(ncclConfig_t, minCTAs));
static_assert(offsetof(nccl::Config, max_ctas) == offsetof(ncclConfig_t, maxCTAs));
static_assert(offsetof(nccl::Config, net_name) == offsetof(ncclConfig_t, netName));

// Enums and ints, CUstream and cudaStream_t: as above, not the same types but of the same kind.
template <class Ours, class Theirs>
constexpr bool same_nccl = false;
template <class R, class... A, class S, class... B>
constexpr bool same_nccl<R (*)(A...), S(B...)> =
    sizeof(R) == sizeof(S) &&
    ((sizeof(A) == sizeof(B) && std::is_pointer_v<A> == std::is_pointer_v<B> &&
      std::is_class_v<A> == std::is_class_v<B>) &&
     ...);
#define SAME(member, name) static_assert(same_nccl<decltype(nccl::Library::member), decltype(name)>)
SAME(get_version, ncclGetVersion);
SAME(get_error_string, ncclGetErrorString);
SAME(get_last_error, ncclGetLastError);
SAME(get_unique_id, ncclGetUniqueId);
SAME(comm_init_rank_config, ncclCommInitRankConfig);
SAME(comm_get_async_error, ncclCommGetAsyncError);
SAME(comm_finalize, ncclCommFinalize);
SAME(comm_destroy, ncclCommDestroy);
SAME(comm_abort, ncclCommAbort);
SAME(all_reduce, ncclAllReduce);
SAME(reduce_scatter, ncclReduceScatter);
SAME(all_gather, ncclAllGather);
SAME(broadcast, ncclBroadcast);
SAME(send, ncclSend);
SAME(recv, ncclRecv);
SAME(group_start, ncclGroupStart);
SAME(group_end, ncclGroupEnd);
#undef SAME
#endif

TEST(abi, the_driver_declarations_agree_with_cuda_h)
{
    if (!DENIZEN_TEST_CUDA_H) GTEST_SKIP() << "no cuda.h here";
    constexpr std::size_t entries = 81; // one DENIZEN_AGREE line for each member
    EXPECT_EQ(sizeof(gpu::Driver), entries * sizeof(void*));
}

#if DENIZEN_TEST_VULKAN_H
static_assert(vk::ok == VK_SUCCESS && vk::incomplete == VK_INCOMPLETE);
static_assert(vk::version_1_1 == VK_API_VERSION_1_1);
static_assert(vk::memory_device_local == VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT);
static_assert(vk::memory_host_visible == VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT);
static_assert(vk::memory_host_coherent == VK_MEMORY_PROPERTY_HOST_COHERENT_BIT);
static_assert(vk::handle_opaque_fd == VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT);
static_assert(sizeof(vk::Result) == sizeof(VkResult) &&
              sizeof(vk::Type) == sizeof(VkStructureType));
static_assert(sizeof(vk::DeviceMemory) == sizeof(VkDeviceMemory));

constexpr bool is(vk::Type ours, VkStructureType theirs)
{
    return static_cast<int>(ours) == static_cast<int>(theirs);
}
static_assert(is(vk::Type::application_info, VK_STRUCTURE_TYPE_APPLICATION_INFO));
static_assert(is(vk::Type::instance_create_info, VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO));
static_assert(is(vk::Type::device_queue_create_info, VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO));
static_assert(is(vk::Type::device_create_info, VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO));
static_assert(is(vk::Type::memory_allocate_info, VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO));
static_assert(is(vk::Type::physical_device_properties_2,
                 VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2));
static_assert(is(vk::Type::physical_device_id_properties,
                 VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES));
static_assert(is(vk::Type::export_memory_allocate_info,
                 VK_STRUCTURE_TYPE_EXPORT_MEMORY_ALLOCATE_INFO));
static_assert(is(vk::Type::memory_get_fd_info, VK_STRUCTURE_TYPE_MEMORY_GET_FD_INFO_KHR));

#define DENIZEN_SAME_SIZE(ours, theirs) static_assert(sizeof(vk::ours) == sizeof(theirs))
#define DENIZEN_SAME_PLACE(ours, our_member, theirs, their_member)                                 \
    static_assert(offsetof(vk::ours, our_member) == offsetof(theirs, their_member))

DENIZEN_SAME_SIZE(ApplicationInfo, VkApplicationInfo);
DENIZEN_SAME_PLACE(ApplicationInfo, api_version, VkApplicationInfo, apiVersion);
DENIZEN_SAME_SIZE(InstanceCreateInfo, VkInstanceCreateInfo);
DENIZEN_SAME_PLACE(InstanceCreateInfo, application, VkInstanceCreateInfo, pApplicationInfo);
DENIZEN_SAME_PLACE(InstanceCreateInfo, layer_count, VkInstanceCreateInfo, enabledLayerCount);
DENIZEN_SAME_PLACE(InstanceCreateInfo, extensions, VkInstanceCreateInfo, ppEnabledExtensionNames);
DENIZEN_SAME_SIZE(PhysicalDeviceIDProperties, VkPhysicalDeviceIDProperties);
DENIZEN_SAME_PLACE(PhysicalDeviceIDProperties, device_uuid, VkPhysicalDeviceIDProperties,
                   deviceUUID);
DENIZEN_SAME_SIZE(PhysicalDeviceProperties2, VkPhysicalDeviceProperties2);
DENIZEN_SAME_PLACE(PhysicalDeviceProperties2, api_version, VkPhysicalDeviceProperties2, properties);
DENIZEN_SAME_PLACE(PhysicalDeviceProperties2, device_name, VkPhysicalDeviceProperties2,
                   properties.deviceName);
DENIZEN_SAME_PLACE(PhysicalDeviceProperties2, limits, VkPhysicalDeviceProperties2,
                   properties.limits);
DENIZEN_SAME_PLACE(PhysicalDeviceProperties2, sparse_properties, VkPhysicalDeviceProperties2,
                   properties.sparseProperties);
DENIZEN_SAME_SIZE(PhysicalDeviceMemoryProperties, VkPhysicalDeviceMemoryProperties);
DENIZEN_SAME_PLACE(PhysicalDeviceMemoryProperties, types, VkPhysicalDeviceMemoryProperties,
                   memoryTypes);
DENIZEN_SAME_PLACE(PhysicalDeviceMemoryProperties, heap_count, VkPhysicalDeviceMemoryProperties,
                   memoryHeapCount);
DENIZEN_SAME_PLACE(PhysicalDeviceMemoryProperties, heaps, VkPhysicalDeviceMemoryProperties,
                   memoryHeaps);
DENIZEN_SAME_PLACE(MemoryType, heap, VkMemoryType, heapIndex);
DENIZEN_SAME_PLACE(MemoryHeap, flags, VkMemoryHeap, flags);
DENIZEN_SAME_SIZE(DeviceQueueCreateInfo, VkDeviceQueueCreateInfo);
DENIZEN_SAME_PLACE(DeviceQueueCreateInfo, count, VkDeviceQueueCreateInfo, queueCount);
DENIZEN_SAME_PLACE(DeviceQueueCreateInfo, priorities, VkDeviceQueueCreateInfo, pQueuePriorities);
DENIZEN_SAME_SIZE(DeviceCreateInfo, VkDeviceCreateInfo);
DENIZEN_SAME_PLACE(DeviceCreateInfo, queues, VkDeviceCreateInfo, pQueueCreateInfos);
DENIZEN_SAME_PLACE(DeviceCreateInfo, extensions, VkDeviceCreateInfo, ppEnabledExtensionNames);
DENIZEN_SAME_PLACE(DeviceCreateInfo, features, VkDeviceCreateInfo, pEnabledFeatures);
DENIZEN_SAME_SIZE(ExportMemoryAllocateInfo, VkExportMemoryAllocateInfo);
DENIZEN_SAME_PLACE(ExportMemoryAllocateInfo, handle_types, VkExportMemoryAllocateInfo, handleTypes);
DENIZEN_SAME_SIZE(MemoryAllocateInfo, VkMemoryAllocateInfo);
DENIZEN_SAME_PLACE(MemoryAllocateInfo, size, VkMemoryAllocateInfo, allocationSize);
DENIZEN_SAME_PLACE(MemoryAllocateInfo, type_index, VkMemoryAllocateInfo, memoryTypeIndex);
DENIZEN_SAME_SIZE(MemoryGetFdInfo, VkMemoryGetFdInfoKHR);
DENIZEN_SAME_PLACE(MemoryGetFdInfo, memory, VkMemoryGetFdInfoKHR, memory);
DENIZEN_SAME_PLACE(MemoryGetFdInfo, handle_type, VkMemoryGetFdInfoKHR, handleType);
#endif

TEST(abi, the_vulkan_declarations_agree_with_vulkan_h)
{
    if (!DENIZEN_TEST_VULKAN_H) GTEST_SKIP() << "no vulkan/vulkan.h here";
#if DENIZEN_TEST_VULKAN_H
    EXPECT_STREQ(vk::external_memory_fd, VK_KHR_EXTERNAL_MEMORY_FD_EXTENSION_NAME);
#endif
}

TEST(abi, the_nccl_declarations_agree_with_nccl_h)
{
    if (!DENIZEN_TEST_NCCL_H) GTEST_SKIP() << "no nccl.h here";
    EXPECT_EQ(sizeof(nccl::Library), 17 * sizeof(void*)); // one SAME line for each member
}

} // namespace

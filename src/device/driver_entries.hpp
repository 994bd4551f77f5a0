// SPDX-License-Identifier: Apache-2.0
// The driver's entries: each as a member of Driver, and the name that libcuda.so.1 exports. For the
// loader, and for what stands in for a driver in tests.
#pragma once

// clang-format off
#define DENIZEN_DRIVER_ENTRIES(X) \
    X(get_error_name, cuGetErrorName) \
    X(get_error_string, cuGetErrorString) \
    X(init, cuInit) \
    X(driver_get_version, cuDriverGetVersion) \
    X(device_get, cuDeviceGet) \
    X(device_get_count, cuDeviceGetCount) \
    X(device_get_name, cuDeviceGetName) \
    X(device_get_attribute, cuDeviceGetAttribute) \
    X(device_get_uuid, cuDeviceGetUuid_v2) \
    X(device_total_mem, cuDeviceTotalMem_v2) \
    X(device_can_access_peer, cuDeviceCanAccessPeer) \
    X(device_get_p2p_attribute, cuDeviceGetP2PAttribute) \
    X(primary_ctx_retain, cuDevicePrimaryCtxRetain) \
    X(primary_ctx_release, cuDevicePrimaryCtxRelease_v2) \
    X(ctx_set_current, cuCtxSetCurrent) \
    X(ctx_get_current, cuCtxGetCurrent) \
    X(ctx_push_current, cuCtxPushCurrent_v2) \
    X(ctx_pop_current, cuCtxPopCurrent_v2) \
    X(ctx_get_stream_priority_range, cuCtxGetStreamPriorityRange) \
    X(ctx_enable_peer_access, cuCtxEnablePeerAccess) \
    X(module_load_data, cuModuleLoadData) \
    X(module_load_data_ex, cuModuleLoadDataEx) \
    X(module_unload, cuModuleUnload) \
    X(module_get_function, cuModuleGetFunction) \
    X(module_get_global, cuModuleGetGlobal_v2) \
    X(func_get_attribute, cuFuncGetAttribute) \
    X(func_set_attribute, cuFuncSetAttribute) \
    X(mem_get_info, cuMemGetInfo_v2) \
    X(mem_alloc, cuMemAlloc_v2) \
    X(mem_free, cuMemFree_v2) \
    X(mem_host_alloc, cuMemHostAlloc) \
    X(mem_free_host, cuMemFreeHost) \
    X(pointer_get_attribute, cuPointerGetAttribute) \
    X(mem_pool_create, cuMemPoolCreate) \
    X(mem_pool_destroy, cuMemPoolDestroy) \
    X(mem_pool_set_attribute, cuMemPoolSetAttribute) \
    X(mem_pool_set_access, cuMemPoolSetAccess) \
    X(mem_pool_get_attribute, cuMemPoolGetAttribute) \
    X(mem_alloc_from_pool_async, cuMemAllocFromPoolAsync) \
    X(mem_free_async, cuMemFreeAsync) \
    X(mem_get_allocation_granularity, cuMemGetAllocationGranularity) \
    X(mem_create, cuMemCreate) \
    X(mem_release, cuMemRelease) \
    X(mem_address_reserve, cuMemAddressReserve) \
    X(mem_address_free, cuMemAddressFree) \
    X(mem_map, cuMemMap) \
    X(mem_unmap, cuMemUnmap) \
    X(mem_set_access, cuMemSetAccess) \
    X(mem_export_to_shareable_handle, cuMemExportToShareableHandle) \
    X(mem_import_from_shareable_handle, cuMemImportFromShareableHandle) \
    X(memcpy_htod_async, cuMemcpyHtoDAsync_v2) \
    X(memcpy_dtoh_async, cuMemcpyDtoHAsync_v2) \
    X(memset_d8_async, cuMemsetD8Async) \
    X(memset_d32_async, cuMemsetD32Async) \
    X(stream_create_with_priority, cuStreamCreateWithPriority) \
    X(stream_destroy, cuStreamDestroy_v2) \
    X(stream_query, cuStreamQuery) \
    X(stream_synchronize, cuStreamSynchronize) \
    X(thread_exchange_capture_mode, cuThreadExchangeStreamCaptureMode) \
    X(stream_begin_capture, cuStreamBeginCapture_v2) \
    X(stream_end_capture, cuStreamEndCapture) \
    X(graph_instantiate, cuGraphInstantiateWithFlags) \
    X(graph_create, cuGraphCreate) \
    X(graph_launch, cuGraphLaunch) \
    X(graph_exec_destroy, cuGraphExecDestroy) \
    X(graph_destroy, cuGraphDestroy) \
    X(launch_kernel, cuLaunchKernel) \
    X(launch_kernel_ex, cuLaunchKernelEx) \
    X(occupancy_max_active_blocks, cuOccupancyMaxActiveBlocksPerMultiprocessor) \
    X(occupancy_max_active_clusters, cuOccupancyMaxActiveClusters) \
    X(import_external_memory, cuImportExternalMemory) \
    X(external_memory_get_mapped_buffer, cuExternalMemoryGetMappedBuffer) \
    X(destroy_external_memory, cuDestroyExternalMemory)

// Null where the driver does not have them: whoever calls them looks.
#define DENIZEN_NEWER_DRIVER_ENTRIES(X) \
    X(graph_add_node, cuGraphAddNode_v2) \
    X(graph_condition_create, cuGraphConditionalHandleCreate)
// clang-format on

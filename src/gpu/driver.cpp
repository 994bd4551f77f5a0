// SPDX-License-Identifier: Apache-2.0
#include "driver.hpp"

#include <dlfcn.h>

#include <cstdio>

#include <denizen/base/error.hpp>

namespace denizen::gpu {
namespace {

struct Loader {
    void* library;
    std::string missing;

    template <class Entry>
    void operator()(Entry& entry, const char* symbol)
    {
        // POSIX: the void* that dlsym returns for a function is convertible to its pointer type.
        entry = reinterpret_cast<Entry>(dlsym(library, symbol));
        if (entry == nullptr) missing += (missing.empty() ? "" : ", ") + std::string(symbol);
    }

    // Null where the driver does not have it: whoever calls it looks.
    template <class Entry>
    void if_there(Entry& entry, const char* symbol)
    {
        entry = reinterpret_cast<Entry>(dlsym(library, symbol));
    }
};

struct State {
    Driver table{};
    std::string problem;
};

std::string describe(const Driver& table, Result result)
{
    const char* name = nullptr;
    const char* text = nullptr;
    if (table.get_error_name != nullptr) table.get_error_name(result, &name);
    if (table.get_error_string != nullptr) table.get_error_string(result, &text);
    if (name == nullptr) return "CUDA error " + std::to_string(result);
    return std::string(name) + " (" + (text != nullptr ? text : "no description") + ")";
}

State start()
{
    State state;
    state.problem = load_driver("libcuda.so.1", state.table);
    if (!state.problem.empty()) return state;
    if (const Result result = state.table.init(0); result != success) {
        state.problem = "cuInit: " + describe(state.table, result) +
                        "; see nvidia-smi and CUDA_VISIBLE_DEVICES, or run on CPU threads";
        return state;
    }
    int count = 0;
    if (const Result result = state.table.device_get_count(&count); result != success) {
        state.problem = "cuDeviceGetCount: " + describe(state.table, result);
    } else if (count == 0) {
        state.problem = "the NVIDIA driver is there but shows no GPU; see nvidia-smi and "
                        "CUDA_VISIBLE_DEVICES, or run on CPU threads";
    }
    return state;
}

const State& state()
{
    // Never destroyed: owners with static storage may still free through the table at exit.
    static const State& instance = *new State(start());
    return instance;
}

int attribute(Device device, int which)
{
    int value = 0;
    check(driver().device_get_attribute(&value, which, device), "cuDeviceGetAttribute",
          std::to_string(which));
    return value;
}

} // namespace

std::string load_driver(const char* library, Driver& table)
{
    void* handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
        const char* why = dlerror();
        return std::string("no NVIDIA driver: ") + (why != nullptr ? why : library) +
               "; install the NVIDIA driver, or run on CPU threads";
    }
    Loader load{handle, {}};
    load(table.get_error_name, "cuGetErrorName");
    load(table.get_error_string, "cuGetErrorString");
    load(table.init, "cuInit");
    load(table.driver_get_version, "cuDriverGetVersion");
    load(table.device_get, "cuDeviceGet");
    load(table.device_get_count, "cuDeviceGetCount");
    load(table.device_get_name, "cuDeviceGetName");
    load(table.device_get_attribute, "cuDeviceGetAttribute");
    load(table.device_get_uuid, "cuDeviceGetUuid_v2");
    load(table.device_total_mem, "cuDeviceTotalMem_v2");
    load(table.device_can_access_peer, "cuDeviceCanAccessPeer");
    load(table.device_get_p2p_attribute, "cuDeviceGetP2PAttribute");
    load(table.primary_ctx_retain, "cuDevicePrimaryCtxRetain");
    load(table.primary_ctx_release, "cuDevicePrimaryCtxRelease_v2");
    load(table.ctx_set_current, "cuCtxSetCurrent");
    load(table.ctx_get_current, "cuCtxGetCurrent");
    load(table.ctx_push_current, "cuCtxPushCurrent_v2");
    load(table.ctx_pop_current, "cuCtxPopCurrent_v2");
    load(table.ctx_get_stream_priority_range, "cuCtxGetStreamPriorityRange");
    load(table.ctx_enable_peer_access, "cuCtxEnablePeerAccess");
    load(table.module_load_data, "cuModuleLoadData");
    load(table.module_load_data_ex, "cuModuleLoadDataEx");
    load(table.module_unload, "cuModuleUnload");
    load(table.module_get_function, "cuModuleGetFunction");
    load(table.module_get_global, "cuModuleGetGlobal_v2");
    load(table.func_get_attribute, "cuFuncGetAttribute");
    load(table.func_set_attribute, "cuFuncSetAttribute");
    load(table.mem_get_info, "cuMemGetInfo_v2");
    load(table.mem_alloc, "cuMemAlloc_v2");
    load(table.mem_free, "cuMemFree_v2");
    load(table.mem_host_alloc, "cuMemHostAlloc");
    load(table.mem_free_host, "cuMemFreeHost");
    load(table.pointer_get_attribute, "cuPointerGetAttribute");
    load(table.mem_pool_create, "cuMemPoolCreate");
    load(table.mem_pool_destroy, "cuMemPoolDestroy");
    load(table.mem_pool_set_attribute, "cuMemPoolSetAttribute");
    load(table.mem_pool_set_access, "cuMemPoolSetAccess");
    load(table.mem_pool_get_attribute, "cuMemPoolGetAttribute");
    load(table.mem_alloc_from_pool_async, "cuMemAllocFromPoolAsync");
    load(table.mem_free_async, "cuMemFreeAsync");
    load(table.mem_get_allocation_granularity, "cuMemGetAllocationGranularity");
    load(table.mem_create, "cuMemCreate");
    load(table.mem_release, "cuMemRelease");
    load(table.mem_address_reserve, "cuMemAddressReserve");
    load(table.mem_address_free, "cuMemAddressFree");
    load(table.mem_map, "cuMemMap");
    load(table.mem_unmap, "cuMemUnmap");
    load(table.mem_set_access, "cuMemSetAccess");
    load(table.mem_export_to_shareable_handle, "cuMemExportToShareableHandle");
    load(table.mem_import_from_shareable_handle, "cuMemImportFromShareableHandle");
    load(table.memcpy_htod_async, "cuMemcpyHtoDAsync_v2");
    load(table.memcpy_dtoh_async, "cuMemcpyDtoHAsync_v2");
    load(table.memset_d8_async, "cuMemsetD8Async");
    load(table.memset_d32_async, "cuMemsetD32Async");
    load(table.stream_create_with_priority, "cuStreamCreateWithPriority");
    load(table.stream_destroy, "cuStreamDestroy_v2");
    load(table.stream_query, "cuStreamQuery");
    load(table.stream_synchronize, "cuStreamSynchronize");
    load(table.stream_begin_capture, "cuStreamBeginCapture_v2");
    load(table.stream_end_capture, "cuStreamEndCapture");
    load(table.graph_instantiate, "cuGraphInstantiateWithFlags");
    load(table.graph_create, "cuGraphCreate");
    load.if_there(table.graph_add_node, "cuGraphAddNode_v2");
    load.if_there(table.graph_condition_create, "cuGraphConditionalHandleCreate");
    load(table.graph_launch, "cuGraphLaunch");
    load(table.graph_exec_destroy, "cuGraphExecDestroy");
    load(table.graph_destroy, "cuGraphDestroy");
    load(table.launch_kernel, "cuLaunchKernel");
    load(table.launch_kernel_ex, "cuLaunchKernelEx");
    load(table.occupancy_max_active_blocks, "cuOccupancyMaxActiveBlocksPerMultiprocessor");
    load(table.occupancy_max_active_clusters, "cuOccupancyMaxActiveClusters");
    load(table.import_external_memory, "cuImportExternalMemory");
    load(table.external_memory_get_mapped_buffer, "cuExternalMemoryGetMappedBuffer");
    load(table.destroy_external_memory, "cuDestroyExternalMemory");
    if (load.missing.empty()) return {};
    return std::string("the NVIDIA driver is too old: ") + library + " lacks " + load.missing +
           "; install driver 525 or newer, or run on CPU threads";
}

const Driver& driver()
{
    const State& loaded = state();
    if (!loaded.problem.empty()) [[unlikely]]
        throw Error(Errc::no_device, loaded.problem);
    return loaded.table;
}

bool driver_present() noexcept { return driver_problem().empty(); }

const std::string& driver_problem() noexcept { return state().problem; }

void fail(Result result, const char* call, std::string_view context)
{
    throw Error(Errc::driver, std::string(call) + "(" + std::string(context) +
                                  "): " + describe(state().table, result));
}

std::string Uuid::text() const
{
    std::string out = "GPU";
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        char digits[3];
        std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned>(bytes[i]));
        if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) out += '-';
        out += digits;
    }
    return out;
}

int device_count()
{
    int count = 0;
    check(driver().device_get_count(&count), "cuDeviceGetCount");
    return count;
}

DeviceInfo device_info(int ordinal)
{
    const Driver& cu = driver();
    const int count = device_count();
    if (ordinal < 0 || ordinal >= count) {
        throw Error(Errc::no_device, "no GPU " + std::to_string(ordinal) + ": this process sees " +
                                         std::to_string(count) +
                                         " (numbered from 0; see CUDA_VISIBLE_DEVICES)");
    }
    DeviceInfo info;
    info.ordinal = ordinal;
    const std::string context = "device " + std::to_string(ordinal);
    Device device = 0;
    check(cu.device_get(&device, ordinal), "cuDeviceGet", context);
    char name[256] = {};
    check(cu.device_get_name(name, sizeof name, device), "cuDeviceGetName", context);
    info.name = name;
    check(cu.device_get_uuid(&info.uuid, device), "cuDeviceGetUuid", context);
    check(cu.device_total_mem(&info.total_bytes, device), "cuDeviceTotalMem", context);
    check(cu.driver_get_version(&info.driver_cuda_version), "cuDriverGetVersion");
    info.major = attribute(device, attr_capability_major);
    info.minor = attribute(device, attr_capability_minor);
    info.sm_count = attribute(device, attr_sm_count);
    info.cooperative_launch = attribute(device, attr_cooperative_launch) != 0;
    info.shared_bytes = static_cast<std::size_t>(attribute(device, attr_max_shared_optin));
    return info;
}

ContextScope::ContextScope(Context context)
{
    check(driver().ctx_push_current(context), "cuCtxPushCurrent");
}

ContextScope::~ContextScope()
{
    Context popped = nullptr;
    driver().ctx_pop_current(&popped); // may fail if the context was torn down meanwhile: no harm
}

} // namespace denizen::gpu

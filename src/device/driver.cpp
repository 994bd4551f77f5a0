// SPDX-License-Identifier: Apache-2.0
// The driver's functions, found at run time: one build of the library runs with and without a GPU.
#include "driver_entries.hpp"
#include <denizen/device/driver.hpp>

#include <dlfcn.h>

#include <cstdio>
#include <fstream>

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
#define DENIZEN_LOAD(member, symbol) load(table.member, #symbol);
#define DENIZEN_LOAD_NEWER(member, symbol) load.if_there(table.member, #symbol);
    DENIZEN_DRIVER_ENTRIES(DENIZEN_LOAD)
    DENIZEN_NEWER_DRIVER_ENTRIES(DENIZEN_LOAD_NEWER)
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

bool under_sanitizer()
{
    static const bool under = [] {
        std::ifstream maps("/proc/self/maps");
        for (std::string line; std::getline(maps, line);) { // ends with the list
            if (line.find("sanitizer-collection") != std::string::npos) {
                return true;
            }
        }
        return false;
    }();
    return under;
}

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
    // Another thread may be capturing a graph in its default mode, which forbids to everybody what
    // might wait for the captured work. Ours never does.
    driver().thread_exchange_capture_mode(&mode_);
}

ContextScope::~ContextScope()
{
    driver().thread_exchange_capture_mode(&mode_);
    Context popped = nullptr;
    driver().ctx_pop_current(&popped); // may fail if the context was torn down meanwhile: no harm
}

} // namespace denizen::gpu

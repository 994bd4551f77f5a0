// SPDX-License-Identifier: Apache-2.0
#include "nvjitlink.hpp"

#include "cuda_library.hpp"

#include <denizen/base/error.hpp>

#include <cstdint>

namespace denizen::gpu {
namespace {

using Handle = void*;
using Status = int;     // nvJitLinkResult, 0 is success
constexpr int any = 10; // NVJITLINK_INPUT_ANY: LTO-IR or a relocatable cubin, as it begins

struct Table {
    Status (*version)(unsigned* major, unsigned* minor);
    Status (*create)(Handle*, uint32_t options, const char** option_text);
    Status (*destroy)(Handle*);
    Status (*add_data)(Handle, int type, const void* data, std::size_t size, const char* name);
    Status (*complete)(Handle);
    Status (*cubin_size)(Handle, std::size_t*);
    Status (*cubin)(Handle, void*);
    Status (*log_size)(Handle, std::size_t*);
    Status (*log)(Handle, char*);
};

struct Library {
    Table table{};
    std::string path;
    int version = 0;
};

bool load_table(void* handle, Table& table)
{
    return load_symbol(handle, table.version, "nvJitLinkVersion") &&
           load_symbol(handle, table.create, "nvJitLinkCreate") &&
           load_symbol(handle, table.destroy, "nvJitLinkDestroy") &&
           load_symbol(handle, table.add_data, "nvJitLinkAddData") &&
           load_symbol(handle, table.complete, "nvJitLinkComplete") &&
           load_symbol(handle, table.cubin_size, "nvJitLinkGetLinkedCubinSize") &&
           load_symbol(handle, table.cubin, "nvJitLinkGetLinkedCubin") &&
           load_symbol(handle, table.log_size, "nvJitLinkGetErrorLogSize") &&
           load_symbol(handle, table.log, "nvJitLinkGetErrorLog");
}

// Loads one candidate; an empty string, or why it does not fit.
std::string try_library(const std::string& path, Library& library)
{
    std::string problem;
    void* handle = open_cuda_library(path, problem);
    if (handle == nullptr) {
        return problem;
    }
    unsigned major = 0;
    unsigned minor = 0;
    if (!load_table(handle, library.table) || library.table.version(&major, &minor) != 0) {
        dlclose(handle);
        return path + " is no nvJitLink of CUDA 12 or 13";
    }
    library.path = file_of(reinterpret_cast<void*>(library.table.create), path);
    library.version = static_cast<int>(major * 1000 + minor * 10);
    return {};
}

Library open_library()
{
    return find_cuda_library<Library>(
        "DENIZEN_NVJITLINK", {"libnvJitLink.so.13", "libnvJitLink.so.12"}, try_library,
        "no nvJitLink to link handlers in Python for the GPU: pip install nvidia-nvjitlink, or set "
        "DENIZEN_NVJITLINK to the library or its folder");
}

const Library& library()
{
    // Throws again, after searching again, until one is found. Never unloaded.
    static const Library& instance = *new Library(open_library());
    return instance;
}

struct Link {
    const Table& table;
    Handle handle = nullptr;

    explicit Link(const Table& functions) : table(functions) {}
    Link(const Link&) = delete;
    Link& operator=(const Link&) = delete;
    ~Link()
    {
        if (handle != nullptr) {
            table.destroy(&handle);
        }
    }

    void check(Status status, const std::string& doing) const
    {
        if (status == 0) {
            return;
        }
        std::string text;
        std::size_t size = 0;
        if (handle != nullptr && table.log_size(handle, &size) == 0 && size > 1) {
            text.resize(size);
            if (table.log(handle, text.data()) != 0) {
                text.clear();
            }
            while (!text.empty() && text.back() == '\0') {
                text.pop_back();
            }
        }
        throw Error(Errc::compile, "nvJitLink cannot " + doing + " (" + std::to_string(status) +
                                       ")" + (text.empty() ? "" : ":\n" + text));
    }
};

} // namespace

int nvjitlink_version() { return library().version; }

const std::string& nvjitlink_library() { return library().path; }

std::vector<char> link_cubin(const std::vector<LinkInput>& parts,
                             const std::vector<std::string>& options)
{
    const Table& table = library().table;
    std::vector<const char*> arguments;
    for (const std::string& option : options) {
        arguments.push_back(option.c_str());
    }
    Link link(table);
    link.check(
        table.create(&link.handle, static_cast<uint32_t>(arguments.size()), arguments.data()),
        "begin with these options");
    for (const LinkInput& part : parts) {
        link.check(
            table.add_data(link.handle, any, part.code.data(), part.code.size(), part.name.c_str()),
            "take " + part.name);
    }
    link.check(table.complete(link.handle), "link the program");
    std::size_t size = 0;
    link.check(table.cubin_size(link.handle, &size), "make a cubin");
    std::vector<char> cubin(size);
    link.check(table.cubin(link.handle, cubin.data()), "make a cubin");
    return cubin;
}

} // namespace denizen::gpu

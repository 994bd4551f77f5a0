// SPDX-License-Identifier: Apache-2.0
#include "nvrtc.hpp"

#include "cuda_library.hpp"

#include <denizen/base/error.hpp>

struct _nvrtcProgram; // the library's own tag name

namespace denizen::gpu {
namespace {

constexpr int oldest_version = 12090;

using Handle = ::_nvrtcProgram*;
using Status = int; // nvrtcResult, 0 is success

struct Table {
    const char* (*get_error_string)(Status);
    Status (*version)(int* major, int* minor);
    Status (*get_num_supported_archs)(int*);
    Status (*get_supported_archs)(int*);
    Status (*create_program)(Handle*, const char* source, const char* name, int headers,
                             const char* const* header_text, const char* const* header_names);
    Status (*destroy_program)(Handle*);
    Status (*compile_program)(Handle, int options, const char* const* option_text);
    Status (*get_cubin_size)(Handle, std::size_t*);
    Status (*get_cubin)(Handle, char*);
    Status (*get_ltoir_size)(Handle, std::size_t*);
    Status (*get_ltoir)(Handle, char*);
    Status (*get_program_log_size)(Handle, std::size_t*);
    Status (*get_program_log)(Handle, char*);
};

struct Library {
    Table table{};
    std::string path;
    std::vector<int> architectures;
    int version = 0;
};

bool load_table(void* handle, Table& table)
{
    return load_symbol(handle, table.get_error_string, "nvrtcGetErrorString") &&
           load_symbol(handle, table.version, "nvrtcVersion") &&
           load_symbol(handle, table.get_num_supported_archs, "nvrtcGetNumSupportedArchs") &&
           load_symbol(handle, table.get_supported_archs, "nvrtcGetSupportedArchs") &&
           load_symbol(handle, table.create_program, "nvrtcCreateProgram") &&
           load_symbol(handle, table.destroy_program, "nvrtcDestroyProgram") &&
           load_symbol(handle, table.compile_program, "nvrtcCompileProgram") &&
           load_symbol(handle, table.get_cubin_size, "nvrtcGetCUBINSize") &&
           load_symbol(handle, table.get_cubin, "nvrtcGetCUBIN") &&
           load_symbol(handle, table.get_ltoir_size, "nvrtcGetLTOIRSize") &&
           load_symbol(handle, table.get_ltoir, "nvrtcGetLTOIR") &&
           load_symbol(handle, table.get_program_log_size, "nvrtcGetProgramLogSize") &&
           load_symbol(handle, table.get_program_log, "nvrtcGetProgramLog");
}

// Loads one candidate; an empty string, or why it does not fit.
std::string try_library(const std::string& path, Library& library)
{
    std::string problem;
    void* handle = open_cuda_library(path, problem);
    if (handle == nullptr) return problem;
    int major = 0;
    int minor = 0;
    if (!load_table(handle, library.table)) {
        problem = path + " is not an NVRTC library";
    } else if (library.table.version(&major, &minor) != 0) {
        problem = path + " does not tell its version";
    } else if (library.version = major * 1000 + minor * 10; library.version < oldest_version) {
        problem = path + " is NVRTC " + std::to_string(major) + "." + std::to_string(minor) +
                  ", older than 12.9";
    }
    int count = 0;
    if (problem.empty() && library.table.get_num_supported_archs(&count) == 0 && count > 0) {
        library.architectures.resize(static_cast<std::size_t>(count));
        library.table.get_supported_archs(library.architectures.data());
    }
    if (!problem.empty()) {
        dlclose(handle);
        return problem;
    }
    library.path = file_of(reinterpret_cast<void*>(library.table.version), path);
    // At its first compilation NVRTC opens its built-ins by their bare name, which a folder outside
    // the loader's path does not answer; loaded here beforehand, they are found by that name. Where
    // this fails, NVRTC's own message names the file.
    const std::size_t slash = library.path.rfind('/');
    const std::string folder = slash == std::string::npos ? "" : library.path.substr(0, slash + 1);
    dlopen((folder + "libnvrtc-builtins.so." + std::to_string(major) + "." + std::to_string(minor))
               .c_str(),
           RTLD_NOW | RTLD_LOCAL);
    return {};
}

Library open_library()
{
    return find_cuda_library<Library>(
        "DENIZEN_NVRTC", {"libnvrtc.so.13", "libnvrtc.so.12"}, try_library,
        "no NVRTC (12.9 or newer) to compile for the GPU: pip install nvidia-cuda-nvrtc, or set "
        "DENIZEN_NVRTC to the library or its folder");
}

const Library& library()
{
    // Throws again, after searching again, until one is found. Never unloaded.
    static const Library& instance = *new Library(open_library());
    return instance;
}

struct Program {
    const Table& table;
    Handle handle = nullptr;

    explicit Program(const Table& functions) : table(functions) {}
    Program(const Program&) = delete;
    Program& operator=(const Program&) = delete;
    ~Program()
    {
        if (handle != nullptr) table.destroy_program(&handle);
    }

    std::string log() const
    {
        std::size_t size = 0;
        if (table.get_program_log_size(handle, &size) != 0 || size <= 1) return {};
        std::string text(size, '\0');
        if (table.get_program_log(handle, text.data()) != 0) return {};
        text.resize(size - 1); // the size counts the final NUL
        return text;
    }
};

[[noreturn]] void refuse(const Table& table, Status status, std::string_view name,
                         const std::string& log)
{
    throw Error(Errc::compile, "NVRTC cannot compile \"" + std::string(name) + "\" (" +
                                   table.get_error_string(status) + ")" +
                                   (log.empty() ? "" : ":\n" + log));
}

} // namespace

int nvrtc_version() { return library().version; }

const std::string& nvrtc_library() { return library().path; }

const std::vector<int>& nvrtc_architectures() { return library().architectures; }

namespace {

// What is taken of a program that has been compiled, and how.
struct Product {
    Status (*Table::*size)(Handle, std::size_t*);
    Status (*Table::*get)(Handle, char*);
    const char* missing; // why there may be none
};

Compiled compile(std::string_view source, std::string_view name,
                 const std::vector<std::string>& options, const Product& product)
{
    const Table& nvrtc = library().table;
    const std::string text(source); // NVRTC wants NUL-terminated strings
    const std::string title(name);
    std::vector<const char*> arguments;
    arguments.reserve(options.size());
    for (const std::string& option : options) arguments.push_back(option.c_str());

    Program program(nvrtc);
    Status status =
        nvrtc.create_program(&program.handle, text.c_str(), title.c_str(), 0, nullptr, nullptr);
    if (status != 0) refuse(nvrtc, status, name, {});
    status =
        nvrtc.compile_program(program.handle, static_cast<int>(arguments.size()), arguments.data());
    Compiled result;
    result.log = program.log();
    if (status != 0) refuse(nvrtc, status, name, result.log);
    std::size_t size = 0;
    status = (nvrtc.*product.size)(program.handle, &size);
    if (status != 0) refuse(nvrtc, status, name, result.log);
    if (size == 0) {
        throw Error(Errc::compile, "NVRTC made nothing of \"" + title + "\": " + product.missing);
    }
    result.code.resize(size);
    status = (nvrtc.*product.get)(program.handle, result.code.data());
    if (status != 0) refuse(nvrtc, status, name, result.log);
    return result;
}

} // namespace

Compiled compile_cubin(std::string_view source, std::string_view name,
                       const std::vector<std::string>& options)
{
    return compile(source, name, options,
                   {&Table::get_cubin_size, &Table::get_cubin,
                    "the options name no real architecture (--gpu-architecture=sm_90)"});
}

Compiled compile_ltoir(std::string_view source, std::string_view name,
                       const std::vector<std::string>& options)
{
    return compile(source, name, options,
                   {&Table::get_ltoir_size, &Table::get_ltoir, "the options lack -dlto"});
}

} // namespace denizen::gpu

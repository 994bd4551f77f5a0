// SPDX-License-Identifier: Apache-2.0
// What the package asks of the driver, and NVRTC and nvJitLink, which make GPU programs.
#include "bind.hpp"
#include "device/cuda_library.hpp"
#include "device/nvjitlink.hpp"
#include "device/nvrtc.hpp"
#include "device/opening.hpp"

#include <denizen/device/driver.hpp>

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;

namespace denizen::bind {

void compilers(nb::module_& m)
{
    m.def("gpu_count", [] { return gpu::driver_present() ? gpu::device_count() : 0; });
    m.def("gpu_problem", [] { return gpu::driver_problem(); });
    m.def("gpu_info", [](int ordinal) {
        const gpu::DeviceInfo info = gpu::device_info(ordinal);
        return nb::make_tuple(info.name, info.major, info.minor, info.sm_count,
                              info.driver_cuda_version);
    });
    nb::class_<gpu::Opening>(m, "Opening")
        .def(nb::init<int, int, bool>())
        .def("end", [](gpu::Opening& opening) {
            const Unlocked unlocked;
            opening.end();
        });
    m.def("set_cuda_folders", &gpu::set_cuda_folders);
    m.def("nvrtc_version", &gpu::nvrtc_version);
    m.def("nvrtc_architectures", &gpu::nvrtc_architectures);
    m.def("compile_cubin", [](const std::string& source, const std::string& name,
                              const std::vector<std::string>& options) {
        gpu::Compiled out;
        {
            const Unlocked unlocked;
            out = gpu::compile_cubin(source, name, options);
        }
        return nb::make_tuple(nb::bytes(out.code.data(), out.code.size()), out.log);
    });
    m.def("compile_ltoir", [](const std::string& source, const std::string& name,
                              const std::vector<std::string>& options) {
        gpu::Compiled out;
        {
            const Unlocked unlocked;
            out = gpu::compile_ltoir(source, name, options);
        }
        return nb::bytes(out.code.data(), out.code.size());
    });
    m.def("nvjitlink_version", &gpu::nvjitlink_version);
    m.def("link_cubin", [](const std::vector<std::pair<std::string, nb::bytes>>& parts,
                           const std::vector<std::string>& options) {
        std::vector<gpu::LinkInput> inputs;
        for (const auto& [name, code] : parts) {
            inputs.push_back({name, {code.c_str(), code.size()}});
        }
        std::vector<char> cubin;
        {
            const Unlocked unlocked;
            cubin = gpu::link_cubin(inputs, options);
        }
        return nb::bytes(cubin.data(), cubin.size());
    });
}

} // namespace denizen::bind

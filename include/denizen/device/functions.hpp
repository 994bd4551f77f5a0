// SPDX-License-Identifier: Apache-2.0
// Kernels by name, out of a cubin or out of the program itself: for parts that launch several.
#pragma once

#include <denizen/device/driver.hpp>

#include <denizen/base/code.hpp>

#include <map>
#include <string>
#include <vector>

namespace denizen::gpu {

using Functions = std::map<std::string, Function>;

// In the current context. Where `code` has a cubin, `module` becomes its module, which the caller
// unloads, and a kernel is called `prefix` + name there. `whose`: names the kernels in an error.
inline Functions load_functions(const Code& code, Module& module, const std::string& prefix,
                                const std::vector<std::string>& names, const std::string& whose)
{
    Functions functions;
    if (!code.cubin.empty()) {
        check(driver().module_load_data(&module, code.cubin.data()), "cuModuleLoadData",
              whose + " cubin");
    }
    for (const std::string& name : names) {
        Function function = nullptr;
        if (code.cubin.empty()) {
            function = static_cast<Function>(code.function(name));
        } else {
            check(driver().module_get_function(&function, module, (prefix + name).c_str()),
                  "cuModuleGetFunction", prefix + name);
        }
        functions[name] = function;
    }
    return functions;
}

} // namespace denizen::gpu

// SPDX-License-Identifier: Apache-2.0
// A cubin of any bytes: the table is found in it, or it is refused by name.
#include <device/cubin.hpp>

#include <denizen/base/error.hpp>

using namespace denizen;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size)
{
    const std::vector<char> cubin(data, data + size);
    try {
        gpu::initial_value(cubin, "denizen_table", 16);
    } catch (const Error& e) {
        if (e.code() != Errc::compile) {
            throw;
        }
    }
    return 0;
}

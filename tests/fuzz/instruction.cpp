// SPDX-License-Identifier: Apache-2.0
// Machine code of any bytes, as the lens's fault handler may meet it.
#include <lens/instruction.hpp>

#include <vector>

using namespace denizen::lens;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size)
{
    // Of its own length, so that a read behind it is seen.
    const std::vector<uint8_t> code(data, data + (size < 15 ? size : 15));
    Instruction out;
    if (decode(code.data(), code.size(), out) && (out.length == 0 || out.length > code.size())) {
        __builtin_trap();
    }
    return 0;
}

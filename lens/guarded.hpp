// SPDX-License-Identifier: Apache-2.0
// A copy that may fail: reads memory that may not be readable without ending the process. For the
// fault handler, which must read rings and pushbuffers of which it knows only the address.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {
// Copies `bytes` (rounded down to a multiple of 4, `from` 4-byte aligned) and returns how many it
// did not copy. Reads 16 bytes at a time without using the cache: the memory is write-combined, and
// an ordinary load there costs a bus round trip for each 4 bytes. Needs SSE4.1.
size_t denizen_lens_copy(void* to, const void* from, size_t bytes);

// A fault at an address in [begin, end) is resumed at `fault` by the handler of SIGSEGV and SIGBUS.
extern const char denizen_lens_copy_begin[];
extern const char denizen_lens_copy_end[];
extern const char denizen_lens_copy_fault[];
}

namespace denizen::lens {

// Where to resume, or 0: `rip` is not in the copy.
inline uint64_t resume_copy(uint64_t rip)
{
    const auto begin = reinterpret_cast<uint64_t>(denizen_lens_copy_begin);
    const auto end = reinterpret_cast<uint64_t>(denizen_lens_copy_end);
    return rip >= begin && rip < end ? reinterpret_cast<uint64_t>(denizen_lens_copy_fault) : 0;
}

inline bool read_word(uint32_t& value, uint64_t address)
{
    return denizen_lens_copy(&value, reinterpret_cast<const void*>(address), sizeof value) == 0;
}

} // namespace denizen::lens

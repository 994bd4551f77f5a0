// SPDX-License-Identifier: Apache-2.0
// CRC-32C (Castagnoli), the checksum of iSCSI and of most file formats that have one: polynomial
// 0x1EDC6F41, reflected. Snapshots carry one for each section. Test vectors: RFC 3720, B.4.
#pragma once

#include <cstddef>
#include <cstdint>

namespace denizen {

// The checksum of `n` bytes behind those whose checksum is `before` (0: of none).
uint32_t crc32c(const void* bytes, size_t n, uint32_t before = 0);

// From the definition, by a table of 256 entries: what crc32c() is where there is no instruction
// for it, and what the tests hold the instruction against.
uint32_t crc32c_by_table(const void* bytes, size_t n, uint32_t before = 0);

} // namespace denizen

// SPDX-License-Identifier: Apache-2.0
// Where a message goes, in 32 bits:
//   node:3 | worker:11 | local:18    an actor: its index on its worker
//   7:3    | 0:29                    the host: the egress ring
//   7:3    | 1:1 | lap:12 | cell:16  the host: the reply cell of one `ask`
//   7:3    | 0:1 | host, place       on a host of a cluster: see detail/far.hpp
#pragma once

#include <denizen/base/target.hpp>

namespace denizen {

inline constexpr uint32_t host_node = 7;
inline constexpr uint32_t max_workers = 1u << 11;
inline constexpr uint32_t max_actors_per_worker = 1u << 18;
inline constexpr uint32_t max_cells = 1u << 16;

struct Address {
    uint32_t value = host_node << 29;

    DENIZEN_HD constexpr uint32_t node() const { return value >> 29; }
    DENIZEN_HD constexpr uint32_t worker() const { return value >> 18 & (max_workers - 1); }
    DENIZEN_HD constexpr uint32_t local() const { return value & (max_actors_per_worker - 1); }
    DENIZEN_HD constexpr bool is_host() const { return node() == host_node; }
    DENIZEN_HD constexpr bool is_reply_cell() const { return is_host() && (value >> 28 & 1) != 0; }
    // On a host of a cluster, maybe this one.
    DENIZEN_HD constexpr bool is_far() const
    {
        return (value >> 28) == 2 * host_node && (value << 4) != 0;
    }
    DENIZEN_HD constexpr uint32_t cell() const { return value & (max_cells - 1); }
    DENIZEN_HD constexpr bool operator==(Address o) const { return value == o.value; }

    DENIZEN_HD static constexpr Address actor(uint32_t worker, uint32_t local, uint32_t node = 0)
    {
        return {node << 29 | worker << 18 | local};
    }
    DENIZEN_HD static constexpr Address reply_cell(uint32_t cell, uint32_t lap)
    {
        return {host_node << 29 | 1u << 28 | (lap & 0xfff) << 16 | cell};
    }
};

inline constexpr Address host{};

// No actor's, on no node of any program: what is sent there is a dead letter.
inline constexpr Address nowhere{(host_node - 1) << 29};

} // namespace denizen

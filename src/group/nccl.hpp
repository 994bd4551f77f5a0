// SPDX-License-Identifier: Apache-2.0
// NCCL as a group's engine: the library's binary interface, as far as it is used here, loaded at
// run time (tests compare it with nccl.h). The library is the one that the variable DENIZEN_NCCL
// names (Python sets it to the wheel's that PyTorch uses), else libnccl.so.2. Its multicast is
// switched off before it is loaded.
#pragma once

#include "member.hpp"

#include <denizen/device/driver.hpp>

#include <climits>
#include <cstddef>

struct ncclComm;

namespace denizen::group::nccl {

using Result = int; // ncclResult_t
using Comm = ::ncclComm*;
using gpu::Stream;

inline constexpr Result success = 0;
inline constexpr Result remote_error = 6;
inline constexpr Result in_progress = 7;

// ncclDataType_t
inline constexpr int uint8 = 1;
inline constexpr int int32 = 2;
inline constexpr int int64 = 4;
inline constexpr int float16 = 6;
inline constexpr int float32 = 7;
inline constexpr int float64 = 8;
inline constexpr int bfloat16 = 9;
inline constexpr int float8_e4m3 = 10; // these two since 2.24
inline constexpr int float8_e5m2 = 11;
inline constexpr int with_float8 = 22400;

// ncclRedOp_t
inline constexpr int sum = 0;
inline constexpr int max = 2;
inline constexpr int min = 3;
inline constexpr int avg = 4;

struct UniqueId { // ncclUniqueId
    char bytes[128] = {};
};

// ncclConfig_t as NCCL 2.17 knew it: newer ones take what is missing for undefined, by `version`.
struct Config {
    std::size_t size = sizeof(Config);
    unsigned magic = 0xcafebeef;
    unsigned version = 21700;
    int blocking = 0;
    int cluster_size = INT_MIN; // undefined: NCCL decides
    int min_ctas = INT_MIN;
    int max_ctas = INT_MIN;
    const char* net_name = nullptr;
};
inline constexpr int oldest = 21800; // NCCL that is taken: 2.18.0

struct Library {
    Result (*get_version)(int*);
    const char* (*get_error_string)(Result);
    const char* (*get_last_error)(Comm);
    Result (*get_unique_id)(UniqueId*);
    Result (*comm_init_rank_config)(Comm*, int ranks, UniqueId, int rank, Config*);
    Result (*comm_get_async_error)(Comm, Result*);
    Result (*comm_finalize)(Comm);
    Result (*comm_destroy)(Comm);
    Result (*comm_abort)(Comm);
    Result (*all_reduce)(const void*, void*, std::size_t, int type, int op, Comm, Stream);
    Result (*reduce_scatter)(const void*, void*, std::size_t, int type, int op, Comm, Stream);
    Result (*all_gather)(const void*, void*, std::size_t, int type, Comm, Stream);
    Result (*broadcast)(const void*, void*, std::size_t, int type, int root, Comm, Stream);
    Result (*send)(const void*, std::size_t, int type, int peer, Comm, Stream);
    Result (*recv)(void*, std::size_t, int type, int peer, Comm, Stream);
    Result (*group_start)();
    Result (*group_end)();
};

// Errc::no_device if it is not there or too old, bad_argument if its multicast is on.
const Library& library();

UniqueId new_id();

} // namespace denizen::group::nccl

namespace denizen::group {

// One rank; all ranks come here with the same id within the time limit. Errc::timeout.
std::unique_ptr<Member> join_nccl(const nccl::UniqueId& id, uint32_t rank, uint32_t ranks,
                                  int ordinal, const GroupOptions& options);

} // namespace denizen::group

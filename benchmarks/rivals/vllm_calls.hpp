// SPDX-License-Identifier: Apache-2.0
// The C interface of vllm_all_reduce.so (vllm.cu), which `layer` loads by ctypes and bench_group by
// dlopen. A rank has an object of its own, and one thread at a time calls it. What fails gives null
// or -1, and denizen_vllm_error() says why to the thread that called.
#pragma once

#include <cstdint>

extern "C" {

struct DenizenVllm; // a rank

// Where memory of a rank lies: CUDA's IPC handle of its allocation, and how far behind its start.
struct DenizenVllmPlace {
    unsigned char handle[64];
    int64_t offset;
};

const char* denizen_vllm_error();
// vLLM takes calls of fewer bytes than these; others go to NCCL in its users' programs.
uint64_t denizen_vllm_most();

// The memory of `rank` on `device`: signals with what two stages write behind them, and a buffer.
DenizenVllm* denizen_vllm_open(int device, int rank, int ranks);
void denizen_vllm_close(DenizenVllm* of);

// Ranks in processes: each gives its two places, and gets those of all, by rank.
int denizen_vllm_places(DenizenVllm* of, DenizenVllmPlace* two);
int denizen_vllm_connect(DenizenVllm* of, const DenizenVllmPlace* two_of_each);
// Ranks in one process.
int denizen_vllm_connect_here(DenizenVllm* const* all, int ranks);

enum DenizenVllmType { denizen_vllm_f32, denizen_vllm_bf16 };
// On the stream. Not captured: the input is copied to the rank's buffer first, as vLLM does it.
// Captured: the peers read the input where it is, once the capture has been registered.
int denizen_vllm_all_reduce(DenizenVllm* of, int type, void* in, void* out, uint64_t count,
                            void* stream);

// How many inputs were captured and not registered; their places, unless null.
int denizen_vllm_captured(DenizenVllm* of, DenizenVllmPlace* places);
// Those of all ranks, by rank and then by call: before the graph is launched.
int denizen_vllm_register(DenizenVllm* of, const DenizenVllmPlace* of_each);
// Ranks in one process, of which each captured calls of one input alone: those inputs, by rank.
int denizen_vllm_register_here(DenizenVllm* of, void* const* inputs);
}

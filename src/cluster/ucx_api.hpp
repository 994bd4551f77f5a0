// SPDX-License-Identifier: Apache-2.0
// The binary interface of UCX (libucp, since 1.12), as far as it is used here.
#pragma once

#include <cstddef>
#include <cstdint>

namespace denizen::cluster::ucx {

using Status = int8_t; // ucs_status_t is packed
inline constexpr Status ok = 0;
inline constexpr Status in_progress = 1;
inline constexpr Status busy = -15;

struct Context;
struct Worker;
struct Endpoint;
struct Config;
struct Address;

struct Params { // ucp_params_t
    uint64_t fields;
    uint64_t features;
    size_t request_size;
    void* request_init;
    void* request_cleanup;
    uint64_t tag_sender_mask;
    int workers_shared;
    size_t endpoints;
    size_t per_node;
    const char* name;
    size_t node_local_id;
};
inline constexpr uint64_t has_features = 1u << 0;
inline constexpr uint64_t wakeup = 1u << 4;
inline constexpr uint64_t stream = 1u << 5;

struct WorkerParams { // ucp_worker_params_t
    uint64_t fields;
    int thread_mode;
    uint64_t cpu_mask[1024 / 64];
    unsigned events;
    void* user_data;
    int event_fd;
    uint64_t flags;
    const char* name;
    size_t am_alignment;
    uint64_t client_id;
};
inline constexpr uint64_t has_thread_mode = 1u << 0;
inline constexpr int serialized = 1; // several threads, one at a time

struct EndpointParams { // ucp_ep_params_t
    uint64_t fields;
    const Address* address;
    int error_mode;
    void (*on_error)(void* with, Endpoint* endpoint, Status status);
    void* with;
    void* user_data;
    unsigned flags;
    const void* remote_socket[2]; // ucs_sock_addr_t: address, length
    void* request;
    const char* name;
    const void* local_socket[2];
};
inline constexpr uint64_t has_address = 1u << 0;
inline constexpr uint64_t has_error_mode = 1u << 1;
inline constexpr uint64_t has_error_handler = 1u << 2;
inline constexpr int peer_errors = 1;

struct RequestParams { // ucp_request_param_t
    uint32_t fields;
    uint32_t flags;
    void* request;
    void* callback;
    uint64_t datatype;
    void* user_data;
    void* reply_buffer;
    int memory_type;
    void* length;
    void* memory;
    uint64_t remote_datatype;
    const void* remote;
    size_t remote_count;
};
inline constexpr uint32_t has_flags = 1u << 4;
inline constexpr uint32_t close_by_force = 1;

// A pointer that some calls return: null, a request, or a status.
inline bool is_error(const void* p) { return reinterpret_cast<uintptr_t>(p) >= uintptr_t(-100); }
inline bool is_request(const void* p) { return p != nullptr && !is_error(p); }

struct Api {
    void (*version)(unsigned*, unsigned*, unsigned*);
    Status (*config_read)(const char*, const char*, Config**);
    Status (*config_modify)(Config*, const char*, const char*);
    void (*config_release)(Config*);
    Status (*init)(unsigned, unsigned, const Params*, const Config*, Context**);
    Status (*worker_create)(Context*, const WorkerParams*, Worker**);
    void (*worker_destroy)(Worker*);
    Status (*worker_address)(Worker*, Address**, size_t*);
    void (*release_address)(Worker*, Address*);
    unsigned (*progress)(Worker*);
    Status (*event_fd)(Worker*, int*);
    Status (*arm)(Worker*);
    Status (*endpoint_create)(Worker*, const EndpointParams*, Endpoint**);
    void* (*endpoint_close)(Endpoint*, const RequestParams*);
    void* (*send)(Endpoint*, const void*, size_t, const RequestParams*);
    void* (*receive)(Endpoint*, size_t*);
    void (*release)(Endpoint*, void*);
    Status (*check)(void*);
    void (*free_request)(void*);
};

} // namespace denizen::cluster::ucx

// SPDX-License-Identifier: Apache-2.0
// The little of CUPTI's callback interface that the lens uses (cupti_callbacks.h of CUDA 12 and 13,
// whose binary interface is stable), declared here so that building needs no CUPTI and running asks
// for it by dlopen.
#pragma once

#include <cstdint>

namespace denizen::lens::cupti {

inline constexpr uint32_t driver_api = 1, runtime_api = 2; // CUpti_CallbackDomain
inline constexpr uint32_t enter = 0, leave = 1;            // CUpti_ApiCallbackSite

struct CallbackData { // CUpti_CallbackData
    uint32_t site;
    const char* function_name;
    const void* function_params;
    void* function_return_value;
    const char* symbol_name;
    void* context;
    uint32_t context_uid;
    uint64_t* correlation_data;
    uint32_t correlation_id;
};

using Callback = void (*)(void* user, uint32_t domain, uint32_t number, const CallbackData* data);
using Subscribe = int (*)(void** subscriber, Callback callback, void* user);
using EnableDomain = int (*)(uint32_t enable, void* subscriber, uint32_t domain);

} // namespace denizen::lens::cupti

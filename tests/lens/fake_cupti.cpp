// SPDX-License-Identifier: Apache-2.0
// A libcupti that knows one subscriber and lets the program play both sides: fake_api() is what the
// CUDA runtime does around each call.
#include "lens/cupti.hpp"

#include <atomic>

using namespace denizen::lens;

namespace {

cupti::Callback callback;
void* user;
uint32_t domains;
std::atomic<uint32_t> correlation{0};

} // namespace

extern "C" int cuptiSubscribe(void** subscriber, cupti::Callback c, void* u)
{
    if (callback) {
        return 39;
    }
    callback = c;
    user = u;
    *subscriber = &callback;
    return 0;
}

extern "C" int cuptiEnableDomain(uint32_t enable, void* subscriber, uint32_t domain)
{
    domains |= enable << domain;
    return subscriber == &callback ? 0 : 1;
}

// Tells of a call's start or end, if the domain is on.
extern "C" void fake_api(uint32_t domain, uint32_t number, const char* name, uint32_t site)
{
    cupti::CallbackData data{};
    data.site = site;
    data.function_name = name;
    data.correlation_id = site == cupti::enter ? ++correlation : correlation.load();
    if (callback && domains >> domain & 1) {
        callback(user, domain, number, &data);
    }
}

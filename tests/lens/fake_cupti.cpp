// SPDX-License-Identifier: Apache-2.0
// A libcupti that knows one subscriber and lets the program play both sides: fake_api() is what the
// CUDA runtime does around each call, fake_kernel() what the device does with each kernel.
#include "lens/cupti.hpp"

#include <atomic>
#include <cstddef>

using namespace denizen::lens;

namespace {

cupti::Callback callback;
void* user;
uint32_t domains;
std::atomic<uint32_t> correlation{0};

constexpr int concurrent_kernel = 10;
struct Record { // begins as CUpti_Activity does
    int kind;
    char rest[140];
};
using Give = void (*)(uint8_t** buffer, size_t* bytes, size_t* most_records);
using Take = void (*)(void* context, uint32_t stream, uint8_t* buffer, size_t bytes, size_t valid);
Give give;
Take take;
bool is_recording;
uint8_t* buffer;
size_t capacity, used;

void hand_over()
{
    if (buffer) {
        take(nullptr, 0, buffer, capacity, used);
    }
    buffer = nullptr;
    used = 0;
}

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

extern "C" int cuptiUnsubscribe(void* subscriber)
{
    const bool known = callback && subscriber == &callback;
    callback = nullptr;
    domains = 0;
    return known ? 0 : 1;
}

extern "C" int cuptiFinalize() { return callback || is_recording ? 1 : 0; }

extern "C" int cuptiActivityRegisterCallbacks(Give g, Take t)
{
    give = g;
    take = t;
    return g && t ? 0 : 1;
}

extern "C" int cuptiActivityEnable(int kind)
{
    is_recording = kind == concurrent_kernel && give;
    return is_recording ? 0 : 1;
}

extern "C" int cuptiActivityDisable(int kind)
{
    is_recording = false;
    return kind == concurrent_kernel ? 0 : 1;
}

extern "C" int cuptiActivityFlushAll(uint32_t)
{
    hand_over();
    return 0;
}

extern "C" int cuptiActivityGetNextRecord(uint8_t* from, size_t valid, void** record)
{
    uint8_t* const next = *record ? static_cast<uint8_t*>(*record) + sizeof(Record) : from;
    *record = next;
    return next + sizeof(Record) <= from + valid ? 0 : 12; // CUPTI_ERROR_MAX_LIMIT_REACHED
}

extern "C" void fake_kernel()
{
    if (!is_recording) {
        return;
    }
    if (buffer && used + sizeof(Record) > capacity) {
        hand_over();
    }
    if (!buffer) {
        size_t most = 0;
        give(&buffer, &capacity, &most);
    }
    auto* record = reinterpret_cast<Record*>(buffer + used);
    record->kind = concurrent_kernel;
    used += sizeof(Record);
}

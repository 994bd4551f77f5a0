// SPDX-License-Identifier: Apache-2.0
#include "attribute.hpp"

#include "cupti.hpp"
#include "environment.hpp"
#include "log.hpp"
#include "symbols.hpp"

#include <atomic>
#include <cstring>
#include <dlfcn.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace denizen::lens {
namespace {

constexpr uint32_t deepest = 8;

// The calls that a thread is in. Written by the thread, read by the fault handler on the same
// thread.
struct Calls {
    uint32_t depth; // may be more than `deepest`
    uint32_t api[deepest];
    uint32_t doorbells;
    uint32_t correlation;
    uint64_t call;
    uint64_t begin_ns;
};
thread_local Calls calls __attribute__((tls_model("initial-exec")));

constexpr uint32_t highest_number = 4096; // of CUPTI's callback numbers; below 1000 as of CUDA 13
constinit std::atomic<uint64_t> counts[2][highest_number] = {};
constinit std::atomic<bool> has_name[2][highest_number] = {};
constinit pthread_mutex_t name_mutex = PTHREAD_MUTEX_INITIALIZER;
constinit std::atomic<uint64_t> last_call{0};
constinit std::atomic<bool> is_subscribed{false};

void write_name(uint32_t api, const char* name)
{
    ApiNameRecord r{};
    r.api = api;
    r.text_bytes = static_cast<uint32_t>(strlen(name));
    the_log.write(Kind::api_name, r, name, r.text_bytes);
}

void enter(uint32_t domain, uint32_t number, const cupti::CallbackData& data)
{
    const uint32_t api = api_number(static_cast<ApiDomain>(domain), number);
    if (number < highest_number) {
        counts[domain - 1][number].fetch_add(1, std::memory_order_relaxed);
        // The name before any doorbell of the call: who comes second waits for who comes first.
        if (!has_name[domain - 1][number].load(std::memory_order_acquire)) {
            pthread_mutex_lock(&name_mutex);
            if (!has_name[domain - 1][number].load(std::memory_order_relaxed)) {
                write_name(api, data.function_name ? data.function_name : "?");
                has_name[domain - 1][number].store(true, std::memory_order_release);
            }
            pthread_mutex_unlock(&name_mutex);
        }
    }
    Calls& c = calls;
    if (c.depth == 0) {
        c.call = last_call.fetch_add(1, std::memory_order_relaxed) + 1;
        c.doorbells = 0;
        c.correlation = data.correlation_id;
        c.begin_ns = now_ns();
    }
    if (c.depth < deepest) {
        c.api[c.depth] = api;
    }
    ++c.depth;
}

void leave()
{
    Calls& c = calls;
    if (c.depth == 0 || --c.depth != 0) { // 0: the call began before the subscription
        return;
    }
    if (c.doorbells) {
        ApiCallRecord r{};
        r.call = c.call;
        r.begin_ns = c.begin_ns;
        r.end_ns = now_ns();
        r.tid = static_cast<uint32_t>(syscall(SYS_gettid));
        r.api = c.api[0];
        r.doorbells = c.doorbells;
        r.correlation = c.correlation;
        the_log.write(Kind::api_call, r);
    }
}

void on_callback(void*, uint32_t domain, uint32_t number, const cupti::CallbackData* data)
{
    if ((domain != cupti::driver_api && domain != cupti::runtime_api) || !the_log.is_open()) {
        return;
    }
    if (data->site == cupti::enter) {
        enter(domain, number, *data);
    } else {
        leave();
    }
}

} // namespace

Attribution attribute(const Registers& at)
{
    Calls& c = calls;
    if (c.depth) {
        ++c.doorbells;
        const uint32_t inner = c.depth < deepest ? c.depth : deepest;
        return {c.api[0], c.api[inner - 1], c.call};
    }
    if (is_subscribed.load(std::memory_order_relaxed)) {
        return {0, 0, 0};
    }
    const uint32_t found = driver_symbols.find_entry(at.rip, at.general[4], at.general[5]);
    if (found == none) {
        return {0, 0, 0};
    }
    const uint32_t api = api_number(ApiDomain::symbol, found + 1);
    if (driver_symbols.is_first_use(found)) {
        write_name(api, driver_symbols.name(found));
    }
    return {api, api, 0};
}

void learn_driver_library(const void* address) { driver_symbols.learn(address); }

bool subscribe(const char*& why)
{
    const char* own = environment().cupti;
    const char* names[] = {own, "libcupti.so.13", "libcupti.so.12", "libcupti.so"};
    void* library = nullptr;
    for (const char* name : names) {
        if (*name && !library) {
            library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
        }
    }
    if (!library) {
        why = "no libcupti; API calls are taken from the stack";
        return false;
    }
    const auto subscribe = reinterpret_cast<cupti::Subscribe>(dlsym(library, "cuptiSubscribe"));
    const auto enable = reinterpret_cast<cupti::EnableDomain>(dlsym(library, "cuptiEnableDomain"));
    void* subscriber = nullptr;
    if (!subscribe || !enable || subscribe(&subscriber, on_callback, nullptr) != 0) {
        why = "CUPTI refused a subscriber (another profiler has it?); API calls are guessed from "
              "the stack";
        return false;
    }
    if (enable(1, subscriber, cupti::driver_api) != 0 ||
        enable(1, subscriber, cupti::runtime_api) != 0) {
        why = "CUPTI refused to tell of API calls; they are taken from the stack";
        return false;
    }
    is_subscribed.store(true, std::memory_order_relaxed);
    return true;
}

void forget_names()
{
    driver_symbols.forget_uses();
    for (uint32_t domain = 0; domain < 2; ++domain) {
        for (uint32_t number = 0; number < highest_number; ++number) {
            counts[domain][number].store(0, std::memory_order_relaxed);
            has_name[domain][number].store(false, std::memory_order_release);
        }
    }
}

void log_api_counts()
{
    for (uint32_t domain = 1; domain <= 2; ++domain) {
        for (uint32_t number = 0; number < highest_number; ++number) {
            ApiCountRecord r{};
            r.api = api_number(static_cast<ApiDomain>(domain), number);
            r.calls = counts[domain - 1][number].load(std::memory_order_relaxed);
            if (r.calls) {
                the_log.write(Kind::api_count, r);
            }
        }
    }
}

} // namespace denizen::lens

// SPDX-License-Identifier: Apache-2.0
// Where a test body of the runtime runs: on 1, 2 and 3 CPU threads always, and on a GPU where the
// file was compiled by nvcc and there is one (skipped with a line otherwise).
#pragma once

#include <denizen/actor/runtime.hpp>

#include <chrono>
#include <cstdlib>
#include <deque>
#include <gtest/gtest.h>
#include <ostream>
#include <regex.h>
#include <spawn.h>
#include <string>
#include <support/scaled.hpp>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

namespace denizen::test {

struct Place {
    const char* name;
    Device device;
    uint32_t workers; // 0: as many as the runtime takes
    bool mapped;      // the host's messages in CPU-mapped device memory
    uint32_t nodes = 1;
};

inline void PrintTo(const Place& p, std::ostream* out) { *out << p.name; }

inline uint32_t gpus_here()
{
    int devices = 0;
#if defined(__CUDACC__)
    if (cudaGetDeviceCount(&devices) != cudaSuccess) {
        devices = 0;
    }
#endif
    return static_cast<uint32_t>(devices);
}

inline bool gpu_here() { return gpus_here() > 0; }

inline std::vector<Place> places()
{
    return {
        {"cpu1", Device::cpu(), 1, false}, {"cpu2", Device::cpu(), 2, false},
        {"cpu3", Device::cpu(), 3, false},
#if defined(__CUDACC__)
        {"gpu", Device::gpu(), 0, true},   {"gpu2", Device::gpu(), 2, false},
#endif
    };
}

// Where a test of several nodes runs; on GPUs where there are so many.
inline std::vector<Place> places_of_nodes()
{
    return {
        {"cpu2x2", Device::cpu(), 2, false, 2},
        {"cpu1x3", Device::cpu(), 1, false, 3},
#if defined(__CUDACC__)
        {"gpu2x2", Device::gpu(), 2, false, 2},
#endif
    };
}

class AtEveryPlace : public testing::TestWithParam<Place> {
protected:
    void SetUp() override
    {
        if (on_gpu() && gpus_here() < GetParam().nodes) {
            GTEST_SKIP() << "this machine has " << gpus_here() << " CUDA devices";
        }
    }

    static bool on_gpu() { return GetParam().device.kind == Device::Kind::gpu; }
    static Device device() { return GetParam().device; }
    static Options options()
    {
        Options o;
        o.workers = GetParam().workers;
        o.mapped = GetParam().mapped;
        o.nodes = GetParam().nodes;
        if (const char* us = std::getenv("DENIZEN_TEST_BREATH")) { // of tests that choose none
            o.breath = std::chrono::microseconds(std::atoi(us));
        }
        return o;
    }
};

// The smallest rings there are. Handlers that send one message for each they get can have as many
// alive as the inboxes hold and the workers let in at once, and on up to four workers half an
// outbox more (detail::jams_itself()); an outbox with room for them all (where each is bound for
// one worker) is what makes it certain that the program does not run out of room.
inline Options small_rings(Options o)
{
    const uint32_t workers = o.workers != 0 ? o.workers : 512;
    o.host_ring_slots = o.inbox_slots = o.egress_slots = 2;
    o.local_slots = o.near_slots = o.urgent_slots = 2;
    o.outbox_slots = 2 * ((workers - 1) * o.inbox_slots + workers * o.host_ring_slots);
    return o;
}

#define DENIZEN_AT_PLACES(suite, list)                                                             \
    INSTANTIATE_TEST_SUITE_P(at, suite, testing::ValuesIn(list), [](const auto& instance) {        \
        return std::string(instance.param.name);                                                   \
    })
#define DENIZEN_AT_EVERY_PLACE(suite) DENIZEN_AT_PLACES(suite, denizen::test::places())
#define DENIZEN_ON_SEVERAL_NODES(suite) DENIZEN_AT_PLACES(suite, denizen::test::places_of_nodes())

// The error that `call` throws.
template <class Call>
Error error_of(Call&& call)
{
    try {
        call();
    } catch (const Error& e) {
        return e;
    }
    return Error(Errc::ok, "no error was thrown");
}

// `call` throws an error of this code, with exactly this text.
template <class Call>
void expect_error(Errc code, const std::string& text, Call&& call)
{
    const Error e = error_of(call);
    EXPECT_STREQ(to_string(e.code()), to_string(code));
    EXPECT_EQ(e.what(), text);
}

// True if the whole text is what the POSIX extended regular expression says; `group` becomes its
// first parenthesised part.
inline bool matches(const std::string& text, const std::string& pattern,
                    std::string* group = nullptr)
{
    regex_t compiled; // std::regex does not compile without warnings under AddressSanitizer
    if (regcomp(&compiled, ("^" + pattern + "$").c_str(), REG_EXTENDED) != 0) {
        return false;
    }
    regmatch_t found[2];
    const bool yes = regexec(&compiled, text.c_str(), 2, found, 0) == 0;
    regfree(&compiled);
    if (yes && group != nullptr && found[1].rm_so >= 0) {
        *group = text.substr(static_cast<size_t>(found[1].rm_so),
                             static_cast<size_t>(found[1].rm_eo - found[1].rm_so));
    }
    return yes;
}

// As expect_error for a text with seconds or counts in it.
template <class Call>
void expect_error_like(Errc code, const std::string& pattern, Call&& call)
{
    const Error e = error_of(call);
    EXPECT_STREQ(to_string(e.code()), to_string(code));
    EXPECT_TRUE(matches(e.what(), pattern)) << "text:    " << e.what() << "\npattern: " << pattern;
}

// "actor Counter #17 of worker 3", as errors name it.
inline std::string named(const std::string& type, Address a)
{
    return "actor " + (type.empty() ? "" : type + " ") + "#" + std::to_string(a.local()) +
           " of worker " + std::to_string(a.worker());
}

// A test that leaves its process unusable (a GPU context that is torn down) runs in one of its own.
// True in that process; else runs this very test there, checks that it passed, and returns false.
inline bool in_a_process_of_its_own()
{
    if (std::getenv("DENIZEN_TEST_ALONE") != nullptr) {
        return true;
    }
    const testing::TestInfo& test = *testing::UnitTest::GetInstance()->current_test_info();
    const std::string filter =
        std::string("--gtest_filter=") + test.test_suite_name() + '.' + test.name();
    const char* arguments[] = {"alone", filter.c_str(), nullptr};
    pid_t child = 0;
    setenv("DENIZEN_TEST_ALONE", "1", 1);
    EXPECT_EQ(posix_spawn(&child, "/proc/self/exe", nullptr, nullptr,
                          const_cast<char* const*>(arguments), environ),
              0);
    unsetenv("DENIZEN_TEST_ALONE");
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0) << "its output is above";
    return false;
}

// Waits until `done()`; false if that has not happened after a time that no correct program takes.
template <class Done>
bool eventually(Done&& done, nanoseconds limit = 20s)
{
    const uint64_t begin = now_ns();
    while (!done()) {
        if (now_ns() - begin > static_cast<uint64_t>(limit.count())) {
            return false;
        }
        std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    return true;
}

// A word that handlers and the host both reach.
class SharedWord {
public:
    explicit SharedWord(bool on_gpu)
    {
#if defined(__CUDACC__)
        if (on_gpu) {
            void* p = nullptr;
            EXPECT_EQ(cudaHostAlloc(&p, sizeof(uint32_t), cudaHostAllocPortable), cudaSuccess);
            word_ = static_cast<uint32_t*>(p);
            *word_ = 0;
            return;
        }
#endif
        EXPECT_FALSE(on_gpu);
        // Never destroyed: a thread that was left behind may still look at its word.
        static auto& all = *new std::deque<uint32_t>;
        word_ = &all.emplace_back(0);
    }
    SharedWord(const SharedWord&) = delete;
    SharedWord& operator=(const SharedWord&) = delete;
    // Pinned memory is left to the process's end: freeing it would wait for the resident program.

    uint32_t get() const { return load<Scope::system, Order::acquire>(word_); }
    void set(uint32_t value) { store<Scope::system, Order::release>(word_, value); }
    uint64_t address() const { return reinterpret_cast<uint64_t>(word_); }

private:
    uint32_t* word_ = nullptr;
};

} // namespace denizen::test

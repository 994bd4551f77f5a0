// SPDX-License-Identifier: Apache-2.0
// What the tests of tasks share: options for a place, and arrays that tasks and host both reach.
#pragma once

#include "../actor/places.hpp"

#include <denizen/task/runtime.hpp>

namespace denizen::test {

class TasksAtEveryPlace : public AtEveryPlace {
protected:
    static task::Options options()
    {
        task::Options o;
        o.workers = GetParam().workers;
        o.sms = GetParam().workers;                                // the small place on a GPU
        if (const char* us = std::getenv("DENIZEN_TEST_BREATH")) { // of tests that choose none
            o.breath = std::chrono::microseconds(std::atoi(us));
        }
        return o;
    }
};

#define DENIZEN_TASKS_AT_EVERY_PLACE(suite) DENIZEN_AT_EVERY_PLACE(suite)

// For the text of a failure.
inline std::string said(const task::Stats& s)
{
    uint64_t busiest = 0;
    for (const uint64_t n : s.run_by_worker) {
        busiest = n > busiest ? n : busiest;
    }
    return "run " + std::to_string(s.run) + " (at most " + std::to_string(busiest) +
           " by a worker) in " + std::to_string(s.batches) + " batches, steals " +
           std::to_string(s.steals) + ", crates " + std::to_string(s.crates) + ", letters " +
           std::to_string(s.letters) + ", spilled " + std::to_string(s.spilled) + ", looks " +
           std::to_string(s.looks) + ", launches " + std::to_string(s.launches);
}

// Zeroed. On a GPU pinned memory, left to the process's end: freeing it would wait for the program.
template <class T>
class Array {
public:
    Array(bool on_gpu, size_t count) : count_(count)
    {
#if defined(__CUDACC__)
        if (on_gpu) {
            void* p = nullptr;
            EXPECT_EQ(cudaHostAlloc(&p, count * sizeof(T), cudaHostAllocPortable), cudaSuccess);
            data_ = static_cast<T*>(p);
            std::fill_n(data_, count, T{});
            return;
        }
#endif
        EXPECT_FALSE(on_gpu);
        own_.resize(count);
        data_ = own_.data();
    }

    T* data() const { return data_; }
    size_t size() const { return count_; }
    // Behind wait(): what the tasks have done is seen.
    const T& operator[](size_t i) const { return data_[i]; }
    T& operator[](size_t i) { return data_[i]; }

private:
    size_t count_;
    std::vector<T> own_;
    T* data_ = nullptr;
};

} // namespace denizen::test

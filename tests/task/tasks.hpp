// SPDX-License-Identifier: Apache-2.0
// What the tests of tasks share: options for a place, and arrays that tasks and host both reach.
#pragma once

#include "../resident/places.hpp"

#include <denizen/task/runtime.hpp>

namespace denizen::test {

class TasksAtEveryPlace : public AtEveryPlace {
protected:
    static task::Options options()
    {
        task::Options o;
        o.workers = GetParam().workers;
        o.sms = GetParam().workers; // the small place on a GPU
        return o;
    }
};

#define DENIZEN_TASKS_AT_EVERY_PLACE(suite)                                                        \
    INSTANTIATE_TEST_SUITE_P(                                                                      \
        at, suite, testing::ValuesIn(denizen::test::places()),                                     \
        [](const auto& instance) { return std::string(instance.param.name); })

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

// SPDX-License-Identifier: Apache-2.0
// The hybrid logical clock on a GPU: the cases of tests/base/hlc_test.cpp, with 65,536 threads on
// one word.
#include <base/hlc_cases.hpp>

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <vector>

namespace denizen::test {

__global__ void draw_all(Draws d)
{
    const uint32_t thread = blockIdx.x * blockDim.x + threadIdx.x;
    if (thread < d.threads) {
        draw<Scope::gpu>(d, thread);
    }
}

__global__ void walk_five_nodes(uint32_t trips, uint32_t* broken) { *broken = five_nodes(trips); }

__global__ void refuse(uint64_t* word, hlc::Stamp remote, uint64_t now_us, uint32_t* taken)
{
    hlc::Stamp drawn;
    *taken = hlc::update<Scope::gpu>(word, remote, now_us, drawn) ? 1 : 0;
}

namespace {

// Zeroed device memory.
template <class T>
class DeviceArray {
public:
    explicit DeviceArray(size_t n) : n_(n)
    {
        EXPECT_EQ(cudaMalloc(&data_, n * sizeof(T)), cudaSuccess);
        EXPECT_EQ(cudaMemset(data_, 0, n * sizeof(T)), cudaSuccess);
    }
    DeviceArray(const DeviceArray&) = delete;
    DeviceArray& operator=(const DeviceArray&) = delete;
    ~DeviceArray() { cudaFree(data_); }

    T* data() const { return data_; }
    void set(T value) { cudaMemcpy(data_, &value, sizeof value, cudaMemcpyHostToDevice); }
    std::vector<T> get() const
    {
        std::vector<T> copy(n_);
        EXPECT_EQ(cudaMemcpy(copy.data(), data_, n_ * sizeof(T), cudaMemcpyDeviceToHost),
                  cudaSuccess);
        return copy;
    }

private:
    size_t n_;
    T* data_ = nullptr;
};

TEST(hlc, no_stamp_is_drawn_twice)
{
    constexpr uint32_t threads = 65'536;
    constexpr uint32_t per_thread = 100'000'000 / threads + 1;
    constexpr uint64_t bits = bits_for(threads, per_thread);
    const uint64_t begin = uint64_t{1'000'000} << 16;
    DeviceArray<uint64_t> word(1);
    word.set(begin);
    DeviceArray<uint32_t> seen(bits / 32 + 1);
    DeviceArray<uint32_t> wrong(3); // repeated, fell, outside
    const Draws draws{word.data(),  seen.data(),      bits,
                      begin,        threads,          per_thread,
                      wrong.data(), &wrong.data()[1], &wrong.data()[2]};
    draw_all<<<threads / 256, 256>>>(draws);
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_EQ(wrong.get(), std::vector<uint32_t>(3, 0));
    uint64_t drawn = 0;
    for (uint32_t of_32 : seen.get()) {
        drawn += static_cast<uint32_t>(__builtin_popcount(of_32));
    }
    EXPECT_EQ(drawn, uint64_t{threads} * per_thread);
}

TEST(hlc, cause_comes_before_effect_along_five_nodes)
{
    DeviceArray<uint32_t> broken(1);
    walk_five_nodes<<<1, 1>>>(1000, broken.data());
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_EQ(broken.get()[0], 0u);
}

TEST(hlc, a_stamp_too_far_ahead_is_refused_and_changes_nothing)
{
    DeviceArray<uint64_t> word(1);
    word.set(7);
    DeviceArray<uint32_t> taken(1);
    refuse<<<1, 1>>>(word.data(), hlc::Stamp::of(1001 + hlc::max_drift_us, 0), 1000, taken.data());
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_EQ(taken.get()[0], 0u);
    EXPECT_EQ(word.get()[0], 7u);
    refuse<<<1, 1>>>(word.data(), hlc::Stamp::of(1000 + hlc::max_drift_us, 0), 1000, taken.data());
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_EQ(taken.get()[0], 1u);
}

} // namespace
} // namespace denizen::test

// SPDX-License-Identifier: Apache-2.0
// CPU-mapped device memory: the reasons for doing without, and, with a GPU, the bytes themselves.
#include "device/mapped.hpp"
#include "device/vulkan.hpp"
#include <denizen/device/primary_context.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace {

using namespace denizen::gpu;

std::string write_manifest(const std::string& text)
{
    const std::string path = testing::TempDir() + "denizen_icd.json";
    std::ofstream(path) << text;
    return path;
}

TEST(mapped, a_manifest_names_its_library)
{
    const std::string folder = testing::TempDir();
    EXPECT_EQ(icd_library(write_manifest("{\"file_format_version\":\"1.0.0\",\"ICD\":{"
                                         "\"library_path\" : \"libGLX_nvidia.so.0\","
                                         "\"api_version\":\"1.3\"}}")),
              "libGLX_nvidia.so.0");
    EXPECT_EQ(icd_library(write_manifest("{\"ICD\":{\"library_path\":\"/opt/libx.so\"}}")),
              "/opt/libx.so");
    EXPECT_EQ(icd_library(write_manifest("{\"ICD\":{\"library_path\":\"../lib/libx.so\"}}")),
              folder + "../lib/libx.so");
    EXPECT_EQ(icd_library(write_manifest("{\"ICD\":{\"library_path\":\"cut off")), "");
    EXPECT_EQ(icd_library(write_manifest("{\"ICD\":{}}")), "");
    EXPECT_EQ(icd_library(folder + "denizen_no_such.json"), "");
    std::remove((folder + "denizen_icd.json").c_str());
}

TEST(mapped, can_be_switched_off)
{
    setenv("DENIZEN_MAPPED", "0", 1);
    std::string why;
    EXPECT_FALSE(MappedMemory::try_create(0, Uuid{}, 4096, &why).has_value());
    unsetenv("DENIZEN_MAPPED");
    EXPECT_EQ(why, "switched off by DENIZEN_MAPPED=0");
}

TEST(mapped, without_a_driver_the_reason_is_the_drivers)
{
    if (driver_present()) GTEST_SKIP() << "this machine has a GPU";
    std::string why;
    EXPECT_FALSE(MappedMemory::try_create(0, Uuid{}, 4096, &why).has_value());
    EXPECT_EQ(why, driver_problem());
    EXPECT_FALSE(MappedMemory::try_create(0, Uuid{}, 4096, nullptr).has_value());
}

TEST(mapped, a_gpu_that_vulkan_does_not_see_is_named)
{
    if (!driver_present()) GTEST_SKIP() << driver_problem();
    std::string why;
    EXPECT_FALSE(MappedMemory::try_create(0, Uuid{}, 4096, &why).has_value());
    EXPECT_NE(why.find("Vulkan"), std::string::npos) << why;
    EXPECT_EQ(why.find('\n'), std::string::npos) << why;
}

TEST(mapped, what_the_cpu_stores_the_gpu_finds)
{
    if (!driver_present()) GTEST_SKIP() << driver_problem();
    const Driver& cu = driver();
    std::string why;
    auto made = MappedMemory::try_create(0, device_info(0).uuid, (2u << 20) + 1, &why);
    if (!made) GTEST_SKIP() << why;
    MappedMemory memory = std::move(*made);
    ASSERT_EQ(memory.size(), std::size_t{4} << 20);
    ASSERT_NE(memory.host(), nullptr);

    const PrimaryContext context(device_info(0));
    {
        const ContextScope scope(context);
        Stream stream = nullptr;
        check(cu.stream_create_with_priority(&stream, stream_non_blocking, 0), "cuStreamCreate");
        std::vector<unsigned char> found(memory.size(), 0xff);
        check(cu.memcpy_dtoh_async(found.data(), memory.device(), found.size(), stream), "copy");
        check(cu.stream_synchronize(stream), "cuStreamSynchronize");
        EXPECT_EQ(found, std::vector<unsigned char>(memory.size(), 0)) << "not zero at first";

        const std::uint64_t value = 0x0123456789abcdef;
        const std::size_t last = memory.size() - sizeof value;
        std::memcpy(memory.host() + last, &value, sizeof value);
#if defined(__x86_64__)
        _mm_sfence();
#endif
        std::uint64_t seen = 0;
        check(cu.memcpy_dtoh_async(&seen, memory.device() + last, sizeof seen, stream), "copy");
        check(cu.stream_synchronize(stream), "cuStreamSynchronize");
        EXPECT_EQ(seen, value);

        // The other way round: what the GPU stores the CPU finds.
        check(cu.memset_d32_async(memory.device(), 0xdeadbeef, 1, stream), "cuMemsetD32Async");
        check(cu.stream_synchronize(stream), "cuStreamSynchronize");
        std::uint32_t back = 0;
        std::memcpy(&back, memory.host(), sizeof back);
        EXPECT_EQ(back, 0xdeadbeef);
        check(cu.stream_destroy(stream), "cuStreamDestroy");
    }
}

TEST(mapped, can_be_made_again_and_again)
{
    if (!driver_present()) GTEST_SKIP() << driver_problem();
    for (int round = 0; round < 3; ++round) {
        std::string why;
        auto memory = MappedMemory::try_create(0, device_info(0).uuid, 4096, &why);
        if (!memory) GTEST_SKIP() << why;
        EXPECT_NE(memory->device(), 0u);
    }
}

} // namespace

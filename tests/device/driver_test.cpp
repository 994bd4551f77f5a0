// SPDX-License-Identifier: Apache-2.0
// What the driver table says where there is no driver, and what it finds where there is one.
#include <denizen/device/primary_context.hpp>

#include <denizen/base/error.hpp>
#include <gtest/gtest.h>

#include <string>

namespace {

using namespace denizen::gpu;
using testing::Test;

bool contains(const std::string& text, const char* part)
{
    return text.find(part) != std::string::npos;
}

TEST(driver, a_missing_library_is_named_with_the_way_out)
{
    Driver table{};
    const std::string problem = load_driver("libdenizen-no-such-driver.so.1", table);
    EXPECT_TRUE(contains(problem, "no NVIDIA driver")) << problem;
    EXPECT_TRUE(contains(problem, "libdenizen-no-such-driver.so.1")) << problem;
    EXPECT_TRUE(contains(problem, "CPU threads")) << problem;
    EXPECT_FALSE(contains(problem, "\n")) << problem;
}

TEST(driver, a_library_without_the_entries_is_too_old)
{
    Driver table{};
    const std::string problem = load_driver("libc.so.6", table);
    EXPECT_TRUE(contains(problem, "too old")) << problem;
    EXPECT_TRUE(contains(problem, "cuImportExternalMemory")) << problem;
    EXPECT_EQ(table.init, nullptr);
}

TEST(driver, absence_is_a_typed_error_and_always_the_same)
{
    if (driver_present()) GTEST_SKIP() << "this machine has a GPU";
    EXPECT_FALSE(driver_problem().empty());
    for (int attempt = 0; attempt < 2; ++attempt) {
        try {
            driver();
            FAIL() << "driver() returned without a driver";
        } catch (const denizen::Error& error) {
            EXPECT_EQ(error.code(), denizen::Errc::no_device);
            EXPECT_EQ(error.what(), driver_problem());
        }
    }
    EXPECT_THROW(device_count(), denizen::Error);
    EXPECT_THROW(device_info(0), denizen::Error);
}

TEST(driver, a_failed_call_names_the_call_and_its_argument)
{
    EXPECT_NO_THROW(check(success, "cuMemAlloc", "64 MiB"));
    try {
        check(error_out_of_memory, "cuMemAlloc", "64 MiB");
        FAIL() << "check() let an error pass";
    } catch (const denizen::Error& error) {
        EXPECT_EQ(error.code(), denizen::Errc::driver);
        // The driver's own words where there is a driver, the number where there is none.
        const std::string expected = driver_present()
                                         ? "cuMemAlloc(64 MiB): CUDA_ERROR_OUT_OF_MEMORY "
                                           "(out of memory)"
                                         : "cuMemAlloc(64 MiB): CUDA error 2";
        EXPECT_EQ(error.what(), expected);
    }
}

TEST(driver, a_uuid_prints_as_nvidia_smi_prints_it)
{
    Uuid uuid;
    for (std::size_t i = 0; i < uuid.bytes.size(); ++i)
        uuid.bytes[i] = static_cast<unsigned char>(0x11 * i);
    EXPECT_EQ(uuid.text(), "GPU-00112233-4455-6677-8899-aabbccddeeff");
    EXPECT_NE(uuid, Uuid{});
}

TEST(driver, describes_the_first_gpu)
{
    if (!driver_present()) GTEST_SKIP() << driver_problem();
    ASSERT_GE(device_count(), 1);
    const DeviceInfo info = device_info(0);
    EXPECT_FALSE(info.name.empty());
    EXPECT_NE(info.uuid, Uuid{});
    EXPECT_GE(info.major, 5);
    EXPECT_GT(info.sm_count, 0);
    EXPECT_GT(info.total_bytes, std::size_t{1} << 30);
    EXPECT_GE(info.driver_cuda_version, 12000);
    try {
        device_info(device_count());
        FAIL() << "an ordinal past the last was accepted";
    } catch (const denizen::Error& error) {
        EXPECT_EQ(error.code(), denizen::Errc::no_device);
        EXPECT_TRUE(contains(error.what(), "CUDA_VISIBLE_DEVICES")) << error.what();
    }
}

TEST(driver, a_context_scope_restores_what_was_current)
{
    if (!driver_present()) GTEST_SKIP() << driver_problem();
    const Driver& cu = driver();
    Context before = nullptr;
    check(cu.ctx_get_current(&before), "cuCtxGetCurrent");
    const PrimaryContext primary(device_info(0));
    {
        const ContextScope scope(primary);
        Context inside = nullptr;
        check(cu.ctx_get_current(&inside), "cuCtxGetCurrent");
        EXPECT_EQ(inside, static_cast<Context>(primary));
    }
    Context after = nullptr;
    check(cu.ctx_get_current(&after), "cuCtxGetCurrent");
    EXPECT_EQ(after, before);
}

} // namespace

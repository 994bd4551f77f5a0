// SPDX-License-Identifier: Apache-2.0
// NVRTC compiles for real here, without a GPU or a driver. DENIZEN_TEST_NVRTC_DIR is the folder of
// the library, or empty where the build found none; then what is tested is the message.
#include "device/cuda_library.hpp"
#include "device/nvrtc.hpp"

#include <denizen/base/error.hpp>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#ifndef DENIZEN_TEST_NVRTC_DIR
#define DENIZEN_TEST_NVRTC_DIR ""
#endif

namespace {

using namespace denizen::gpu;

const char* const packet_kernel = R"(
extern "C" __global__ void probe(const void* slot, unsigned long long* out)
{
    unsigned long long low, high;
    asm volatile("{ .reg .b128 t; ld.relaxed.sys.b128 t, [%2]; mov.b128 {%0, %1}, t; }"
                 : "=l"(low), "=l"(high) : "l"(slot) : "memory");
    out[0] = low;
    out[1] = high;
    __nv_atomic_fetch_add(out + 2, 1ull, __NV_ATOMIC_RELAXED, __NV_THREAD_SCOPE_SYSTEM);
}
)";

bool contains(const std::string& text, const char* part)
{
    return text.find(part) != std::string::npos;
}

std::string error_of(const std::string& source, const std::vector<std::string>& options)
{
    try {
        compile_cubin(source, "program.cu", options);
    } catch (const denizen::Error& error) {
        EXPECT_EQ(error.code(), denizen::Errc::compile);
        return error.what();
    }
    return {};
}

class nvrtc : public testing::Test {
protected:
    void SetUp() override
    {
        set_cuda_folders({"/nonexistent/denizen", DENIZEN_TEST_NVRTC_DIR});
        try {
            nvrtc_version();
        } catch (const denizen::Error& error) {
            GTEST_SKIP() << error.what();
        }
    }
};

// First in the file: the library is loaded once per process and this needs it not to be.
TEST(nvrtc_absence, every_place_tried_is_named)
{
    setenv("DENIZEN_NVRTC", "/nonexistent/denizen/libnvrtc.so.13", 1);
    try {
        nvrtc_version();
        FAIL() << "found NVRTC where there is none";
    } catch (const denizen::Error& error) {
        const std::string what = error.what();
        EXPECT_EQ(error.code(), denizen::Errc::compile);
        EXPECT_TRUE(contains(what, "/nonexistent/denizen/libnvrtc.so.13")) << what;
        EXPECT_TRUE(contains(what, "pip install nvidia-cuda-nvrtc")) << what;
    }
    setenv("DENIZEN_NVRTC", "libc.so.6", 1);
    try {
        nvrtc_version();
        FAIL() << "took libc for NVRTC";
    } catch (const denizen::Error& error) {
        EXPECT_TRUE(contains(error.what(), "libc.so.6 is not an NVRTC library")) << error.what();
    }
    unsetenv("DENIZEN_NVRTC");
}

TEST_F(nvrtc, tells_what_it_is)
{
    EXPECT_GE(nvrtc_version(), 12090);
    EXPECT_TRUE(contains(nvrtc_library(), "libnvrtc"));
    const std::vector<int>& known = nvrtc_architectures();
    EXPECT_TRUE(std::is_sorted(known.begin(), known.end()));
    EXPECT_TRUE(std::binary_search(known.begin(), known.end(), 90));
}

TEST_F(nvrtc, compiles_packet_access_and_scoped_atomics_to_a_cubin)
{
    for (const char* architecture : {"sm_80", "sm_90"}) {
        const Compiled compiled = compile_cubin(
            packet_kernel, "program.cu", {std::string("--gpu-architecture=") + architecture});
        ASSERT_GT(compiled.code.size(), 4u);
        EXPECT_EQ(std::string(compiled.code.data(), 4), "\x7f"
                                                        "ELF");
        const std::string image(compiled.code.begin(), compiled.code.end());
        EXPECT_TRUE(contains(image, ".text.probe")) << architecture;
        EXPECT_EQ(compiled.log, "");
    }
}

TEST_F(nvrtc, an_error_is_reported_with_the_line_of_the_user)
{
    const std::string source = "// the runtime's own prologue\n"
                               "struct Prologue {};\n"
                               "#line 1 \"user.cu\"\n"
                               "extern \"C\" __global__ void fine() {}\n"
                               "__device__ int broken() { return undeclared_name; }\n";
    const std::string what = error_of(source, {"--gpu-architecture=sm_90"});
    EXPECT_TRUE(contains(what, "user.cu(2)")) << what;
    EXPECT_TRUE(contains(what, "undeclared_name")) << what;
    EXPECT_TRUE(contains(what, "program.cu")) << what;
}

TEST_F(nvrtc, a_warning_is_kept_beside_the_cubin)
{
    const Compiled compiled =
        compile_cubin("#line 7 \"user.cu\"\n"
                      "extern \"C\" __global__ void k() { int unused_one; }\n",
                      "program.cu", {"--gpu-architecture=sm_90"});
    EXPECT_FALSE(compiled.code.empty());
    EXPECT_TRUE(contains(compiled.log, "user.cu(7)")) << compiled.log;
}

TEST_F(nvrtc, a_bad_option_and_a_virtual_architecture_are_refused)
{
    EXPECT_TRUE(contains(error_of(packet_kernel, {"--no-such-option"}), "no-such-option"));
    const std::string what = error_of(packet_kernel, {"--gpu-architecture=compute_90"});
    EXPECT_TRUE(contains(what, "real architecture")) << what;
}

} // namespace

// SPDX-License-Identifier: Apache-2.0
// The functions of a loaded library by address: the C library stands for the driver's.
#include "lens/symbols.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <string>

using denizen::lens::none;
using denizen::lens::Symbols;

TEST(Symbols, OfTheCLibrary)
{
    void* library = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
    ASSERT_TRUE(library);
    for (const char* name : {"gnu_get_libc_version", "getauxval", "fseeko"}) {
        static Symbols s;
        const auto address = reinterpret_cast<uint64_t>(dlsym(library, name));
        ASSERT_NE(address, 0u);
        s.learn(reinterpret_cast<const void*>(address));
        ASSERT_TRUE(s.is_ready());
        const uint32_t found = s.find(address);
        ASSERT_NE(found, none) << name;
        EXPECT_EQ(s.find(address + 1), found);
        // Another name of the same function may come first.
        Dl_info info;
        ASSERT_TRUE(dladdr(reinterpret_cast<const void*>(address), &info));
        EXPECT_EQ(dlsym(library, s.name(found)), reinterpret_cast<void*>(address)) << s.name(found);
        EXPECT_TRUE(s.is_first_use(found));
        EXPECT_FALSE(s.is_first_use(found));
        EXPECT_EQ(s.find(1), none);
    }
}

TEST(Symbols, OfNothing)
{
    static Symbols s;
    int here = 0;
    s.learn(&here); // on the stack
    EXPECT_FALSE(s.is_ready());
}

// SPDX-License-Identifier: Apache-2.0
// Copying device memory from outside while workers use it.
#include "actor/backend.hpp"

#include <gtest/gtest.h>
#include <vector>

namespace denizen {
namespace {

TEST(backend, reads_what_was_written_at_every_offset_and_length)
{
    Image image;
    image.run_worker = [](const Shared&, uint32_t) {};
    Options options;
    options.workers = 1;
    const auto cpu = make_cpu_backend(image, options);
    std::byte* device = cpu->allocate(4096, 4096, 4096).device;
    for (size_t offset = 0; offset < 9; ++offset) {
        for (size_t length = 0; length < 40; ++length) {
            std::vector<unsigned char> in(length + offset);
            std::vector<unsigned char> out(length + 2, 0xee);
            for (size_t i = 0; i < in.size(); ++i) {
                in[i] = static_cast<unsigned char>(i * 7 + length);
            }
            EXPECT_TRUE(cpu->write(device + offset, in.data() + offset, length));
            EXPECT_TRUE(cpu->read(out.data() + 1, device + offset, length));
            EXPECT_EQ(out.front(), 0xee);
            EXPECT_EQ(out.back(), 0xee);
            EXPECT_TRUE(std::equal(out.begin() + 1, out.end() - 1,
                                   in.begin() + static_cast<std::ptrdiff_t>(offset)));
        }
    }
}

} // namespace
} // namespace denizen

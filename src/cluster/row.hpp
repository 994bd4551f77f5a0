// SPDX-License-Identifier: Apache-2.0
// What one side of a stream has sent, byte by byte (stream.cpp).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

namespace denizen::cluster {

constexpr uint64_t window = 4u << 20; // bytes that are kept, on either side

// Bytes by position, of which the last `window` are there.
class Row {
public:
    // What was not written is not read: pages come as they are used.
    Row() : bytes_(std::make_unique_for_overwrite<unsigned char[]>(window)) {}

    void write(uint64_t at, const void* from, size_t n)
    {
        each(at, n,
             [&, p = static_cast<const unsigned char*>(from)](unsigned char* to,
                                                              size_t part) mutable {
                 std::memcpy(to, p, part);
                 p += part;
             });
    }
    void read(uint64_t at, void* to, size_t n)
    {
        each(at, n,
             [p = static_cast<unsigned char*>(to)](unsigned char* from, size_t part) mutable {
                 std::memcpy(p, from, part);
                 p += part;
             });
    }
    template <class Use>
    void each(uint64_t at, size_t n, Use&& use)
    {
        while (n != 0) { // ends: n shrinks
            const size_t place = at % window;
            const size_t part = std::min<size_t>(n, window - place);
            use(bytes_.get() + place, part);
            at += part;
            n -= part;
        }
    }

private:
    std::unique_ptr<unsigned char[]> bytes_;
};

} // namespace denizen::cluster

// SPDX-License-Identifier: Apache-2.0
// Zeros at an address that is a multiple of 64, as vectors want them.
#pragma once

#include <denizen/base/error.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>

namespace denizen::infer {

template <class T>
class Aligned {
public:
    Aligned() = default;
    // Throws exhausted; `what` is what has no place: "the states of 32 streams".
    Aligned(size_t count, const std::string& what) : size_(count)
    {
        // calloc() takes large blocks from fresh pages, which cost nothing before they are used.
        size_t bytes = 0;
        if (!__builtin_mul_overflow(count, sizeof(T), &bytes) && bytes < SIZE_MAX - 64) {
            memory_.reset(std::calloc(bytes + 64, 1));
        }
        if (!memory_) {
            throw Error(Errc::exhausted, "there is no memory for " + what + ": " +
                                             std::to_string(count) + " times " +
                                             std::to_string(sizeof(T)) + " bytes");
        }
        const auto at = reinterpret_cast<uintptr_t>(memory_.get());
        begin_ = reinterpret_cast<T*>((at + 63) / 64 * 64);
    }

    T* data() const { return begin_; }
    size_t size() const { return size_; }
    size_t bytes() const { return size_ * sizeof(T); }

private:
    struct Free {
        void operator()(void* p) const { std::free(p); }
    };
    std::unique_ptr<void, Free> memory_;
    T* begin_ = nullptr;
    size_t size_ = 0;
};

} // namespace denizen::infer

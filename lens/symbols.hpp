// SPDX-License-Identifier: Apache-2.0
// The functions that one shared library exports, sorted by address, and its call frames, for
// look-ups inside a signal handler.
#pragma once

#include "format.hpp"
#include "unwind.hpp"

#include <atomic>

namespace denizen::lens {

class Symbols {
public:
    // Reads the dynamic symbols of the loaded library that holds `address`; nothing after the first
    // time.
    void learn(const void* address);

    bool is_ready() const { return is_ready_.load(std::memory_order_acquire); }
    uint32_t find(uint64_t address) const; // number of the function, or `none`
    // The function through which this thread came into the library, or `none`.
    uint32_t find_entry(uint64_t rip, uint64_t rsp, uint64_t rbp);
    const char* name(uint32_t number) const { return functions_[number].name; }
    bool is_first_use(uint32_t number) { return !is_used_[number].exchange(true); }
    void forget_uses();

private:
    struct Function {
        uint64_t start;
        uint64_t bytes;
        const char* name;
    };
    std::atomic<bool> is_ready_{false};
    std::atomic<bool> is_taken_{false};
    Unwinder unwinder_;
    Function* functions_ = nullptr;
    std::atomic<bool>* is_used_ = nullptr;
    uint32_t count_ = 0;
};

extern Symbols driver_symbols;

} // namespace denizen::lens

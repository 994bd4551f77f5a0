// SPDX-License-Identifier: Apache-2.0
// A value that lies on the stack while a function is called that is compiled elsewhere. On a GPU
// such a call leaves its caller some 120 registers. What is live across it beyond these, the
// compiler would keep in memory for good, and read from there in the middle of the hot path. What
// is put away so is there for the call alone.
//
//   const OnStack<Row> away(row);
//   call(away.value());              // may go to the function, too
//   away.restore(row);
//
// It does nothing where all of a program is compiled at once: the compiler knows which registers
// the function leaves alone.
#pragma once

#include <denizen/base/target.hpp>

namespace denizen {

template <class T>
class OnStack {
public:
#if DENIZEN_ON_DEVICE && DENIZEN_COMMON
    __device__ explicit OnStack(const T& of)
    {
        uint32_t words[sizeof(T) / 4];
        copy_bytes(words, &of, sizeof(T));
        DENIZEN_UNROLL
        for (uint32_t i = 0; i < sizeof(T) / 4; ++i) {
            words_[i] = words[i];
        }
    }
    __device__ const T& value() const
    {
        return *reinterpret_cast<const T*>(const_cast<const uint32_t*>(words_));
    }
    __device__ void restore(T& to) const
    {
        uint32_t words[sizeof(T) / 4];
        DENIZEN_UNROLL
        for (uint32_t i = 0; i < sizeof(T) / 4; ++i) {
            words[i] = words_[i];
        }
        copy_bytes(&to, words, sizeof(T));
    }

private:
    static_assert(sizeof(T) % 4 == 0);

    alignas(16) volatile uint32_t words_[sizeof(T) / 4]; // volatile: not the value's one place
#else
    DENIZEN_HD explicit OnStack(const T& of) : of_(of) {}
    DENIZEN_HD const T& value() const { return of_; }
    DENIZEN_HD void restore(T&) const {}

private:
    const T& of_;
#endif
};

} // namespace denizen

// SPDX-License-Identifier: Apache-2.0
// A place on the stack for a value while a function is called that is compiled elsewhere. On a GPU
// such a call leaves its caller some 120 registers. What is live across it beyond these, the
// compiler would keep in memory for good, and read from there in the middle of the hot path. What
// is put away so is there for the call alone.
//
//   OnStack<Row> away;
//   const Row& there = away.put(row); // `there` may go to the function, too
//   call(there);
//   away.get(row);
//
// Nothing is copied where all of a program is compiled at once: the compiler knows which registers
// the function leaves alone.
#pragma once

#include <denizen/base/target.hpp>

namespace denizen {

template <class T>
class OnStack {
public:
#if DENIZEN_ON_DEVICE && DENIZEN_COMMON
    __device__ const T& put(const T& value)
    {
        uint32_t words[count];
        copy_bytes(words, &value, sizeof(T));
        DENIZEN_UNROLL
        for (uint32_t i = 0; i < count; ++i) {
            words_[i] = words[i];
        }
        hide();
        return *reinterpret_cast<const T*>(words_);
    }
    __device__ void get(T& value) const
    {
        hide();
        uint32_t words[count];
        DENIZEN_UNROLL
        for (uint32_t i = 0; i < count; ++i) {
            words[i] = words_[i];
        }
        copy_bytes(&value, words, sizeof(T));
    }

private:
    static_assert(sizeof(T) % 4 == 0);
    static constexpr uint32_t count = sizeof(T) / 4;

    // Who knows what else reads and writes it: else it could become the value's one place.
    __device__ void hide() const { asm volatile("" ::"l"(words_) : "memory"); }

    alignas(16) uint32_t words_[count];
#else
    DENIZEN_HD const T& put(const T& value) { return value; }
    DENIZEN_HD void get(T&) const {}
#endif
};

} // namespace denizen

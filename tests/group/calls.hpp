// SPDX-License-Identifier: Apache-2.0
// Data for collectives of any type, and what must come out: sums in Narrow<T>::Wide in the order of
// the ranks, rounded once, to the last bit.
#pragma once

#include <denizen/group/call.hpp>

#include <gtest/gtest.h>

#include "group/random.hpp"
#include <cstring>
#include <string>
#include <vector>

namespace denizen::group {

using Bytes = std::vector<unsigned char>;

template <class T>
T element(const unsigned char* from, uint64_t i)
{
    T value;
    std::memcpy(&value, from + i * sizeof(T), sizeof(T));
    return value;
}

template <class T>
void put(unsigned char* to, uint64_t i, T value)
{
    std::memcpy(to + i * sizeof(T), &value, sizeof(T));
}

inline uint64_t in_elements(Kind kind, uint64_t count, uint32_t ranks)
{
    return count * (scatters(kind) ? ranks : 1);
}
inline uint64_t out_elements(Kind kind, uint64_t count, uint32_t ranks)
{
    return count * (gathers(kind) ? ranks : 1);
}

// What rank `rank` gives: of all magnitudes, so that the order of addition can be seen.
template <class T>
Bytes input(uint32_t rank, uint64_t elements, uint32_t seed)
{
    Random random(seed * 31 + rank);
    std::normal_distribution<float> normal(0, 1);
    Bytes bytes(elements * sizeof(T));
    for (uint64_t i = 0; i < elements; ++i) {
        // Few of the sums are too large for the smallest type.
        const float large = sizeof(T) == 1 ? 60.0f : 1000.0f;
        const float value = normal(random) * (i % 3 == 0 ? large : 0.01f);
        if constexpr (std::is_integral_v<T>) {
            put(bytes.data(), i, static_cast<T>(uint64_t{random()} << 32 | random()));
        } else {
            put(bytes.data(), i, Narrow<T>::of(value));
        }
    }
    return bytes;
}

// What rank `me` must have in its output.
template <class T>
Bytes expected(const Call& call, const std::vector<Bytes>& in, uint32_t me)
{
    const auto ranks = static_cast<uint32_t>(in.size());
    Bytes out(out_elements(call.kind, call.count, ranks) * sizeof(T));
    const uint64_t part = scatters(call.kind) ? me * call.count : 0;
    for (uint64_t i = 0; i < call.count; ++i) {
        if (reduces(call.kind)) {
            auto sum = widen(element<T>(in[0].data(), part + i));
            for (uint32_t r = 1; r < ranks; ++r) {
                sum = combine(call.op, sum, widen(element<T>(in[r].data(), part + i)));
            }
            put(out.data(), i, Narrow<T>::of(conclude(call.op, sum, ranks)));
            continue;
        }
        for (uint32_t r = 0; r < ranks; ++r) {
            if (call.kind == Kind::broadcast && r != call.root) continue;
            put(out.data(), (gathers(call.kind) ? r * call.count : 0) + i,
                element<T>(in[r].data(), part + i));
        }
    }
    return out;
}

// Calls `use` with a value of the element type.
template <class Use>
void with_type(Type type, Use use)
{
    switch (type) {
    case Type::f32: use(float{}); break;
    case Type::f16: use(Half{}); break;
    case Type::bf16: use(BFloat{}); break;
    case Type::i32: use(int32_t{}); break;
    case Type::f64: use(double{}); break;
    case Type::i64: use(int64_t{}); break;
    case Type::u8: use(uint8_t{}); break;
    case Type::f8e4m3: use(Float8E4M3{}); break;
    case Type::f8e5m2: use(Float8E5M2{}); break;
    }
}

inline Bytes input(Type type, uint32_t rank, uint64_t elements, uint32_t seed)
{
    Bytes bytes;
    with_type(type, [&](auto t) { bytes = input<decltype(t)>(rank, elements, seed); });
    return bytes;
}
inline Bytes expected(const Call& call, const std::vector<Bytes>& in, uint32_t me)
{
    Bytes bytes;
    with_type(call.type, [&](auto t) { bytes = expected<decltype(t)>(call, in, me); });
    return bytes;
}

inline std::string describe(const Call& call, uint32_t ranks)
{
    return std::string(to_string(call.kind)) + " " + to_string(call.type) + " " +
           to_string(call.op) + " " + to_string(call.algorithm) + " count " +
           std::to_string(call.count) + " channels " + std::to_string(call.channels) + " ranks " +
           std::to_string(ranks);
}

// Every kind with every algorithm that it has.
inline std::vector<Call> all_calls()
{
    std::vector<Call> calls;
    for (const Kind kind : every_collective) {
        for (const Algorithm algorithm : every_algorithm) {
            if (only_for(kind, Type::f32, algorithm) != algorithm) continue;
            Call call;
            call.kind = kind;
            call.algorithm = algorithm;
            calls.push_back(call);
        }
    }
    return calls;
}

} // namespace denizen::group

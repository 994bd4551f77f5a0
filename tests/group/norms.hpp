// SPDX-License-Identifier: Apache-2.0
// Data for all_reduce_norm, and what must come out: the sums to the last bit, the norms as near as
// the order in which squares are added up lets them be.
#pragma once

#include "group/calls.hpp"

#include <denizen/group/group.hpp>

#include <cmath>

namespace denizen::group {

struct NormCase {
    Type type;
    uint32_t ranks;
    uint64_t rows;
    uint32_t width;

    uint64_t elements() const { return rows * width; }
    uint64_t bytes() const { return elements() * size_of(type); }
    std::string text() const
    {
        return std::to_string(rows) + " x " + std::to_string(width) + " " + to_string(type) +
               " among " + std::to_string(ranks);
    }
};

struct NormData {
    std::vector<Bytes> in;
    Bytes residual, weight;
    static constexpr float eps = 1e-3f;

    template <class T>
    static Bytes of(uint64_t elements, uint32_t seed)
    {
        Random random(seed);
        std::normal_distribution<float> normal(0, 1);
        Bytes bytes(elements * sizeof(T));
        for (uint64_t i = 0; i < elements; ++i) put(bytes.data(), i, Narrow<T>::of(normal(random)));
        return bytes;
    }

    template <class T>
    static NormData make(const NormCase& c, uint32_t seed)
    {
        NormData data;
        for (uint32_t r = 0; r < c.ranks; ++r) {
            data.in.push_back(of<T>(c.elements(), 100 * seed + r));
        }
        data.residual = of<T>(c.elements(), 100 * seed + 50);
        data.weight = of<T>(c.width, 100 * seed + 51);
        return data;
    }

    template <class T>
    void check(const NormCase& c, const Bytes& sum, const Bytes& out) const
    {
        const double step = sizeof(T) == 4 ? 1e-5 : c.type == Type::f16 ? 1e-3 : 1e-2;
        for (uint64_t row = 0; row < c.rows; ++row) {
            double squares = 0;
            for (uint64_t i = row * c.width; i < (row + 1) * c.width; ++i) {
                float whole = 0;
                for (const Bytes& of : in) whole += widen(element<T>(of.data(), i));
                const T wanted = Narrow<T>::of(widen(element<T>(residual.data(), i)) + whole);
                const T got = element<T>(sum.data(), i);
                ASSERT_EQ(std::memcmp(&got, &wanted, sizeof(T)), 0)
                    << c.text() << ": the sum at " << i;
                squares += double{widen(wanted)} * double{widen(wanted)};
            }
            const double scale = 1 / std::sqrt(squares / c.width + double{eps});
            for (uint64_t i = row * c.width; i < (row + 1) * c.width; ++i) {
                const double wanted = double{widen(element<T>(sum.data(), i))} * scale *
                                      double{widen(element<T>(weight.data(), i - row * c.width))};
                ASSERT_NEAR(double{widen(element<T>(out.data(), i))}, wanted,
                            step * (std::abs(wanted) + 1e-3))
                    << c.text() << ": the norm at " << i;
            }
        }
    }
};

// f(T{}) for the element types that can be normed.
template <class F>
void with_norm_type(Type type, F f)
{
    if (type == Type::f32) return f(float{});
    if (type == Type::f16) return f(Half{});
    return f(BFloat{});
}

} // namespace denizen::group

// SPDX-License-Identifier: Apache-2.0
// A signal that is the same in every run.
#pragma once

#include <complex>
#include <cstddef>
#include <random>
#include <vector>

namespace denizen::test {

inline std::vector<std::complex<float>> noise(size_t n)
{
    std::minstd_rand engine(7);
    std::uniform_real_distribution<float> level(-1, 1);
    std::vector<std::complex<float>> samples(n);
    for (std::complex<float>& x : samples) x = {level(engine), level(engine)};
    return samples;
}

} // namespace denizen::test

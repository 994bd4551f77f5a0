// SPDX-License-Identifier: Apache-2.0
// A stranger's program on all that is installed: the kit's transform, and an application beside it.
#include <denizen/dsp/fft.hpp>
#include <denizen/graph/generate.hpp>

#include <cmath>

int main()
{
    const std::complex<float> impulse[4] = {1.0F, 0.0F, 0.0F, 0.0F};
    std::complex<float> flat[4];
    denizen::dsp::Fft(4).forward(impulse, flat, 1);
    for (const std::complex<float>& bin : flat) {
        if (std::abs(bin - 1.0F) > 1e-6F) {
            return 1;
        }
    }
    return denizen::graph::chain(5).vertices() == 5 ? 0 : 1;
}

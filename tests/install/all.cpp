// SPDX-License-Identifier: Apache-2.0
// A stranger's program on all that is installed: the kit's transform and resident model,
// and an application beside it.
#include <denizen/dsp/fft.hpp>
#include <denizen/graph/generate.hpp>
#include <denizen/infer/engine.hpp>

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
    denizen::infer::Model relu;
    relu.widths = {1, 1};
    relu.ops = {{denizen::infer::OpKind::relu, {0}, {}, {}, "relu"}};
    relu.output = 1;
    denizen::infer::Engine resident(relu, {});
    const float below = -1;
    float answer = below;
    resident.step(0, std::as_bytes(std::span(&below, 1)), std::span(&answer, 1));
    if (answer != 0) {
        return 1;
    }
    return denizen::graph::chain(5).vertices() == 5 ? 0 : 1;
}

// SPDX-License-Identifier: Apache-2.0
#include <denizen/base/error.hpp>
#include <denizen/dsp/fir.hpp>

#include <cmath>
#include <numbers>
#include <string>

namespace denizen::dsp {
namespace {

double kaiser_beta(double attenuation)
{
    if (attenuation > 50) return 0.1102 * (attenuation - 8.7);
    if (attenuation > 21)
        return 0.5842 * std::pow(attenuation - 21, 0.4) + 0.07886 * (attenuation - 21);
    return 0;
}

} // namespace

std::vector<float> low_pass(double cutoff, double transition, double attenuation)
{
    const auto check = [](const char* name, double value, double least, double most) {
        if (value >= least && value <= most) return;
        throw Error(Errc::bad_argument, std::string(name) + " is " + std::to_string(value) +
                                            "; give " + std::to_string(least) + " to " +
                                            std::to_string(most));
    };
    check("cutoff", cutoff, 1e-6, 0.5);
    check("transition", transition, 1e-6, 1);
    check("attenuation", attenuation, 20, 150);
    constexpr double pi = std::numbers::pi;
    const double beta = kaiser_beta(attenuation);
    const auto half =
        static_cast<size_t>(std::ceil((attenuation - 7.95) / (2.285 * 2 * pi * transition) / 2));
    std::vector<double> exact(2 * half + 1);
    double sum = 0;
    for (size_t k = 0; k < exact.size(); ++k) {
        const double at = static_cast<double>(k) - static_cast<double>(half);
        const double x = at / static_cast<double>(half);
        const double window =
            std::cyl_bessel_i(0.0, beta * std::sqrt(1 - x * x)) / std::cyl_bessel_i(0.0, beta);
        const double sinc = at == 0 ? 2 * cutoff : std::sin(2 * pi * cutoff * at) / (pi * at);
        exact[k] = sinc * window;
        sum += exact[k];
    }
    std::vector<float> taps(exact.size());
    for (size_t k = 0; k < taps.size(); ++k) taps[k] = static_cast<float>(exact[k] / sum);
    return taps;
}

} // namespace denizen::dsp

// SPDX-License-Identifier: Apache-2.0
#include <denizen/radio/cpr.hpp>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace denizen::radio {
namespace {

constexpr double units = 131072; // 2^17
constexpr double zones = 60;     // of latitude, around the whole meridian, in the even grid

// Remainder with the sign of the divisor.
double modulo(double a, double b) { return a - b * std::floor(a / b); }

double whole(const Encoded& e) { return e.surface ? 90 : 360; }

double latitude_zone(const Encoded& e) { return whole(e) / (zones - e.odd); }

double longitude_zone(const Encoded& e, double latitude)
{
    return whole(e) / std::max(longitude_zones(latitude) - e.odd, 1);
}

// The angle, `size` periodic, nearest to `reference`.
double nearest(double angle, double size, double reference)
{
    return angle + size * std::floor((reference - angle) / size + 0.5);
}

} // namespace

int longitude_zones(double latitude)
{
    const double at = std::abs(latitude);
    if (at < 1e-9) return 59;
    if (at > 87) return 1;
    if (at == 87) return 2;
    using std::numbers::pi;
    const double across = std::cos(pi / 180 * at);
    const double least = 1 - std::cos(pi / (2 * 15)); // 15 zones from the equator to a pole
    return static_cast<int>(std::floor(2 * pi / std::acos(1 - least / (across * across))));
}

std::optional<Position> position_of_pair(const Encoded& earlier, const Encoded& later,
                                         const std::optional<Position>& reference)
{
    if (earlier.odd == later.odd || earlier.surface != later.surface) return {};
    if (later.surface && !reference) return {};
    const Encoded& even = later.odd ? earlier : later;
    const Encoded& odd = later.odd ? later : earlier;
    const double index =
        std::floor(((zones - 1) * even.latitude - zones * odd.latitude) / units + 0.5);
    double of_even = latitude_zone(even) * (modulo(index, zones) + even.latitude / units);
    double of_odd = latitude_zone(odd) * (modulo(index, zones - 1) + odd.latitude / units);
    if (later.surface) { // north or south, whichever is nearer
        of_even = nearest(of_even, 90, reference->latitude);
        of_odd = nearest(of_odd, 90, reference->latitude);
    } else {
        of_even = of_even >= 270 ? of_even - 360 : of_even;
        of_odd = of_odd >= 270 ? of_odd - 360 : of_odd;
    }
    if (std::abs(of_even) > 90 || std::abs(of_odd) > 90) return {};
    const int belt = longitude_zones(of_even);
    if (belt != longitude_zones(of_odd)) return {};
    Position out;
    out.latitude = later.odd ? of_odd : of_even;
    const double turn = std::floor(
        (even.longitude * (belt - 1.0) - odd.longitude * static_cast<double>(belt)) / units + 0.5);
    const int count = std::max(belt - later.odd, 1);
    out.longitude =
        longitude_zone(later, out.latitude) * (modulo(turn, count) + later.longitude / units);
    out.longitude = later.surface ? nearest(out.longitude, 90, reference->longitude)
                                  : nearest(out.longitude, 360, 0);
    return out;
}

Position position_near(const Encoded& e, const Position& reference)
{
    Position out;
    const double height = latitude_zone(e);
    out.latitude = nearest(height * e.latitude / units, height, reference.latitude);
    const double width = longitude_zone(e, out.latitude);
    out.longitude = nearest(width * e.longitude / units, width, reference.longitude);
    return out;
}

Encoded encode(const Position& position, bool odd, bool surface)
{
    Encoded out{0, 0, odd, surface};
    const auto within = [](double angle, double size) {
        return static_cast<int>(std::floor(units * modulo(angle, size) / size + 0.5));
    };
    const double height = latitude_zone(out);
    const int latitude = within(position.latitude, height);
    // The belt is that of the latitude which the receiver will see.
    const double seen = height * (latitude / units + std::floor(position.latitude / height));
    const int longitude = within(position.longitude, longitude_zone(out, seen));
    out.latitude = latitude & 0x1FFFF;
    out.longitude = longitude & 0x1FFFF;
    return out;
}

} // namespace denizen::radio

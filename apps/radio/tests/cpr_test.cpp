// SPDX-License-Identifier: Apache-2.0
#include <denizen/radio/cpr.hpp>

#include <cmath>
#include <gtest/gtest.h>
#include <random>

namespace denizen::radio {
namespace {

double apart(double a, double b) { return std::abs(std::remainder(a - b, 360)); }

TEST(Cpr, ZonesShrinkTowardsThePoles)
{
    EXPECT_EQ(longitude_zones(0), 59);
    EXPECT_EQ(longitude_zones(10.47), 59); // the standard's table: 10.47047130
    EXPECT_EQ(longitude_zones(10.48), 58);
    EXPECT_EQ(longitude_zones(-52.2), 36);
    EXPECT_EQ(longitude_zones(86.5), 3);
    EXPECT_EQ(longitude_zones(87), 2);
    EXPECT_EQ(longitude_zones(89), 1);
    for (double at = 0.1; at < 90; at += 0.1)
        EXPECT_LE(longitude_zones(at), longitude_zones(at - 0.1));
}

TEST(Cpr, PairsGiveBackThePositionEverywhere)
{
    std::mt19937 random(1);
    std::uniform_real_distribution<> latitude(-89.9, 89.9);
    std::uniform_real_distribution<> longitude(-180, 180);
    int found = 0;
    for (int i = 0; i < 20000; ++i) {
        const Position p{latitude(random), longitude(random)};
        const bool odd = i % 2 == 1;
        for (const bool surface : {false, true}) {
            const Encoded a = encode(p, !odd, surface);
            const Encoded b = encode(p, odd, surface);
            EXPECT_TRUE(a.latitude >= 0 && a.latitude < 131072);
            const Position near{p.latitude + 0.2, p.longitude + 0.2};
            const auto q = position_of_pair(a, b, near);
            const double coarse = surface ? 90.0 / 59 / 131072 : 360.0 / 59 / 131072;
            if (q) {
                ++found;
                const double wide = coarse * 59 / std::max(longitude_zones(p.latitude) - odd, 1);
                EXPECT_LT(apart(q->latitude, p.latitude), coarse) << p.latitude;
                EXPECT_LT(apart(q->longitude, p.longitude), 2 * wide) << p.latitude << p.longitude;
            }
            const Position r = position_near(b, near);
            EXPECT_LT(apart(r.latitude, p.latitude), coarse);
        }
    }
    // None only where the two lie on either side of a limit of zones.
    EXPECT_GT(found, 39800);
}

TEST(Cpr, PairsThatAreNoneGiveNothing)
{
    const Position here{50, 8};
    const Encoded even = encode(here, false, false);
    EXPECT_FALSE(position_of_pair(even, even, {}));
    EXPECT_FALSE(position_of_pair(even, encode(here, true, true), here));
    // On the surface, several places on earth fit.
    EXPECT_FALSE(position_of_pair(encode(here, false, true), encode(here, true, true), {}));
    // On either side of a limit of zones, near 10.4705 degrees.
    const Encoded below = encode({10.4700, 8}, false, false);
    const Encoded above = encode({10.4712, 8}, true, false);
    EXPECT_FALSE(position_of_pair(below, above, {}));
}

} // namespace
} // namespace denizen::radio

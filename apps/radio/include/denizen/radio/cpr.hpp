// SPDX-License-Identifier: Apache-2.0
// Compact position reporting (RTCA DO-260B, 2.2.3.2.3.7 and appendix A.1.7): a position is sent as
// its place inside a zone of latitude and of longitude, 17 bits each, by turns in two grids, even
// and odd, of which one has a zone less. Two messages of both kinds tell the zone; so does one,
// beside a position that is known to be near.
#pragma once

#include <optional>

namespace denizen::radio {

struct Position {
    double latitude = 0; // degrees, north positive
    double longitude = 0;
};

// As sent, in units of 2^-17 of a zone.
struct Encoded {
    int latitude = 0;
    int longitude = 0;
    bool odd = false;
    bool surface = false; // zones a quarter as large: four places on earth fit, eight by longitude
};

// The position of the later of an even and an odd message. Empty if they lie in different belts of
// longitude zones (the aircraft crossed a limit in between) or fit no position. On the surface the
// solution nearest to `reference` is meant, and without one there is none.
std::optional<Position> position_of_pair(const Encoded& earlier, const Encoded& later,
                                         const std::optional<Position>& reference);

// The position within half a zone of `reference`: 180 nautical miles in the air, 45 on the surface.
Position position_near(const Encoded& encoded, const Position& reference);

// The message that an aircraft at `position` sends.
Encoded encode(const Position& position, bool odd, bool surface);

// How many zones of longitude there are at a latitude, from 59 at the equator to 1 at the poles.
int longitude_zones(double latitude);

} // namespace denizen::radio

// SPDX-License-Identifier: Apache-2.0
// The aircraft that have been heard: which frames to believe, and what the believed ones add up to.
// Called by the receiver in the order of the stream; the outcome depends on nothing else.
#pragma once

#include <denizen/radio/cpr.hpp>
#include <denizen/radio/detail/demodulate.hpp>
#include <denizen/radio/message.hpp>

#include <array>
#include <unordered_map>
#include <vector>

namespace denizen::radio {

// The latest of everything that an aircraft has said.
struct Aircraft {
    uint32_t icao = 0;
    uint64_t messages = 0;
    double first_seen = 0; // seconds since the stream began
    double last_seen = 0;
    double level = 0; // dB of full scale, of the last message
    std::optional<std::string> callsign;
    std::optional<std::string> squawk;
    std::optional<int> altitude;       // ft
    std::optional<double> groundspeed; // kt
    std::optional<double> track;       // degrees
    std::optional<int> vertical_rate;  // ft/min
    std::optional<bool> on_ground;
    std::optional<Position> position;
    double position_seen = 0;

    bool confirmed = false; // by a frame with its own address and the right parity, unrepaired
    struct Half {           // of a pair of positions: the last even one, the last odd one
        Encoded encoded;
        double seen = 0;
        bool valid = false;
    } half[2];
};

class Airspace {
public:
    // `receiver`: where the antenna is; it settles which of several places on earth a first
    // position on the ground means.
    explicit Airspace(std::optional<Position> receiver = {});

    // The message in a reading whose preamble began at sample `position` with pulses of magnitude
    // `pulse`, or none if its parity does not vouch for it:
    // - DF17 and DF18 need the right parity, DF11 may have an interrogator's code in it;
    // - one or two wrong bits are repaired if the address is then that of a confirmed aircraft, and
    //   for any address if they were among the most doubtful bits;
    // - all other formats need the address of an aircraft that was confirmed, at most a minute ago.
    std::optional<Message> believe(const Reading& reading, uint64_t position, uint32_t pulse);

    // In the order of addresses.
    std::vector<Aircraft> aircraft() const;

private:
    bool known(uint32_t icao, double now) const;
    void add(Message& message, bool confirms);
    void locate(Message& message, Aircraft& of);

    std::optional<Position> receiver_;
    std::unordered_map<uint32_t, Aircraft> aircraft_;
    std::array<double, 80>
        codes_; // when each interrogator's code was last heard: 16 and 64 of them
};

} // namespace denizen::radio

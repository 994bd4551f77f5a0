// SPDX-License-Identifier: Apache-2.0
// What a Mode S frame says: its fields in feet, knots, degrees and seconds. Formats are those of
// ICAO Annex 10 volume IV and of RTCA DO-260B; the names follow PyPI's pymodes, which the tests
// compare with. A field that the frame does not have, or marks as not available, is empty.
#pragma once

#include <denizen/radio/detail/frame.hpp>

#include <optional>
#include <string>

namespace denizen::radio {

inline constexpr double sample_rate = 2e6; // samples per second

struct Message {
    Frame frame;           // after repair
    uint64_t position = 0; // of the sample in the stream at which its preamble begins
    uint32_t icao = 0;     // the aircraft's 24-bit address
    uint32_t repaired = 0; // how many bits were
    double level = 0;      // of its pulses, in dB of full scale

    double time() const { return static_cast<double>(position) / sample_rate; } // seconds

    // DF11
    std::optional<int> capability;
    std::optional<int> interrogator;
    // DF0, 4, 5, 16, 20, 21
    std::optional<int> flight_status;
    std::optional<int> downlink_request;
    std::optional<int> utility_message;
    std::optional<bool> on_ground; // also of DF17 positions
    std::optional<int> cross_link_capability;
    std::optional<int> sensitivity_level;
    std::optional<int> reply_information;
    std::optional<std::string> squawk; // four octal digits
    std::optional<int> altitude;       // ft: barometric, but by GNSS in type codes 20 to 22
    // DF17 and 18
    std::optional<int> typecode;
    std::optional<int> subtype;
    std::optional<int> category;
    std::optional<std::string> callsign; // of DF20 and 21 too, where they name it
    std::optional<int> surveillance_status;
    std::optional<int> cpr_format; // 0 even, 1 odd
    std::optional<int> cpr_lat;
    std::optional<int> cpr_lon;
    std::optional<double> latitude; // degrees, once two messages or an earlier position settle it
    std::optional<double> longitude;
    std::optional<double> groundspeed;        // kt
    std::optional<double> track;              // degrees from true north
    std::optional<double> heading;            // degrees
    std::optional<int> airspeed;              // kt
    std::optional<std::string> airspeed_type; // IAS, TAS
    std::optional<int> vertical_rate;         // ft/min
    std::optional<std::string> vr_source;     // GNSS, BARO
    std::optional<int> geo_minus_baro;        // ft
    std::optional<int> nac_v;
    std::optional<int> nac_p;
    std::optional<int> sil;
    std::optional<int> version; // of ADS-B
    std::optional<int> emergency_state;
    std::optional<int> selected_altitude; // ft
    std::optional<std::string> selected_altitude_source;
    std::optional<double> baro_pressure_setting; // hPa
    std::optional<double> selected_heading;      // degrees
};

// Calls `visit(name, value)` for every field that a message may have, in the order above.
template <class M, class Visit>
void each_field(M& m, Visit visit)
{
    visit("capability", m.capability);
    visit("interrogator", m.interrogator);
    visit("flight_status", m.flight_status);
    visit("downlink_request", m.downlink_request);
    visit("utility_message", m.utility_message);
    visit("on_ground", m.on_ground);
    visit("cross_link_capability", m.cross_link_capability);
    visit("sensitivity_level", m.sensitivity_level);
    visit("reply_information", m.reply_information);
    visit("squawk", m.squawk);
    visit("altitude", m.altitude);
    visit("typecode", m.typecode);
    visit("subtype", m.subtype);
    visit("category", m.category);
    visit("callsign", m.callsign);
    visit("surveillance_status", m.surveillance_status);
    visit("cpr_format", m.cpr_format);
    visit("cpr_lat", m.cpr_lat);
    visit("cpr_lon", m.cpr_lon);
    visit("latitude", m.latitude);
    visit("longitude", m.longitude);
    visit("groundspeed", m.groundspeed);
    visit("track", m.track);
    visit("heading", m.heading);
    visit("airspeed", m.airspeed);
    visit("airspeed_type", m.airspeed_type);
    visit("vertical_rate", m.vertical_rate);
    visit("vr_source", m.vr_source);
    visit("geo_minus_baro", m.geo_minus_baro);
    visit("nac_v", m.nac_v);
    visit("nac_p", m.nac_p);
    visit("sil", m.sil);
    visit("version", m.version);
    visit("emergency_state", m.emergency_state);
    visit("selected_altitude", m.selected_altitude);
    visit("selected_altitude_source", m.selected_altitude_source);
    visit("baro_pressure_setting", m.baro_pressure_setting);
    visit("selected_heading", m.selected_heading);
}

// All that the frame of the aircraft with address `icao` says by itself: positions stay encoded.
Message decode(const Frame& frame, uint32_t icao);

// The frame as hexadecimal digits, 14 or 28 of them.
std::string to_hex(const Frame& frame);
// The frame of such digits. Throws Error(bad_argument) for anything else.
Frame frame_of(const std::string& hex);

} // namespace denizen::radio

// SPDX-License-Identifier: Apache-2.0
#include <denizen/base/error.hpp>
#include <denizen/radio/message.hpp>

#include <cmath>
#include <cstdio>
#include <numbers>

namespace denizen::radio {
namespace {

std::optional<int> unless_zero(uint32_t value, int offset, int scale)
{
    if (value == 0) return {};
    return (static_cast<int>(value) - offset) * scale;
}

// Binary from reflected binary.
uint32_t from_gray(uint32_t code)
{
    for (uint32_t shift = 1; shift < 16; shift *= 2) code ^= code >> shift;
    return code;
}

// Altitude in feet from the 13 bits C1 A1 C2 A2 C4 A4 M B1 Q B2 D2 B4 D4. Metric altitudes (M) are
// allowed by the standard and sent by nobody: none.
std::optional<int> altitude_of(uint32_t code)
{
    if (code == 0 || (code & 0x40) != 0) return {};
    if ((code & 0x10) != 0) { // Q: steps of 25 ft
        const uint32_t n = (code >> 2 & 0x7E0) | (code >> 1 & 0x10) | (code & 0xF);
        return static_cast<int>(n) * 25 - 1000;
    }
    // Gillham's code: 500 ft in Gray code over D2 D4 A1 A2 A4 B1 B2 B4, 100 ft over C1 C2 C4.
    const auto bit = [code](uint32_t n) { return code >> (12 - n) & 1; };
    const uint32_t coarse = from_gray(bit(10) << 7 | bit(12) << 6 | bit(1) << 5 | bit(3) << 4 |
                                      bit(5) << 3 | bit(7) << 2 | bit(9) << 1 | bit(11));
    uint32_t fine = from_gray(bit(0) << 2 | bit(2) << 1 | bit(4));
    if (fine == 0 || fine == 5 || fine == 6) return {};
    if (fine == 7) fine = 5;
    if (coarse % 2 == 1) fine = 6 - fine;
    return static_cast<int>(coarse * 500 + fine * 100) - 1300;
}

// Four octal digits from the 13 bits C1 A1 C2 A2 C4 A4 0 B1 D1 B2 D2 B4 D4.
std::string squawk_of(uint32_t code)
{
    const auto digit = [code](uint32_t one, uint32_t two, uint32_t four) {
        const auto bit = [code](uint32_t n) { return code >> (12 - n) & 1; };
        return static_cast<char>('0' + bit(one) + 2 * bit(two) + 4 * bit(four));
    };
    return {digit(1, 3, 5), digit(7, 9, 11), digit(0, 2, 4), digit(8, 10, 12)};
}

// Eight characters of six bits from bit `first` on, without the spaces around them. Codes that
// stand for no character become '#'.
std::string callsign_of(const Frame& frame, uint32_t first)
{
    std::string text;
    for (uint32_t n = first; n < first + 48; n += 6) {
        const uint32_t c = frame.part(n, n + 5);
        const bool letter = c >= 1 && c <= 26;
        const bool digit = c >= 48 && c <= 57;
        text += letter      ? static_cast<char>('A' + c - 1)
                : digit     ? static_cast<char>('0' + c - 48)
                : c == 0x20 ? ' '
                            : '#';
    }
    const size_t begin = text.find_first_not_of(' ');
    if (begin == std::string::npos) return {};
    return text.substr(begin, text.find_last_not_of(' ') - begin + 1);
}

// Knots from the 7 bits of movement on the ground, coded finer the slower it is.
std::optional<double> ground_speed_of(uint32_t code)
{
    struct Part {
        uint32_t first;
        double knots;
        double step;
    };
    constexpr Part parts[] = {{124, 175, 0}, {109, 100, 5}, {94, 70, 2},       {39, 15, 1},
                              {13, 2, 0.5},  {9, 1, 0.25},  {2, 0.125, 0.125}, {1, 0, 0}};
    if (code > 124) return {};
    for (const Part& part : parts)
        if (code >= part.first) return part.knots + (code - part.first) * part.step;
    return {};
}

void position(const Frame& f, Message& m)
{
    m.cpr_format = static_cast<int>(f.bit(54));
    m.cpr_lat = static_cast<int>(f.part(55, 71));
    m.cpr_lon = static_cast<int>(f.part(72, 88));
}

void surface_position(const Frame& f, Message& m)
{
    m.on_ground = true;
    m.groundspeed = ground_speed_of(f.part(38, 44));
    if (f.bit(45)) m.track = f.part(46, 52) * 360 / 128.0;
    position(f, m);
}

void airborne_position(const Frame& f, Message& m)
{
    m.on_ground = false;
    m.surveillance_status = static_cast<int>(f.part(38, 39));
    const uint32_t code = f.part(41, 52);
    if (*m.typecode >= 20)
        m.altitude = static_cast<int>(code * 3.28084); // metres by GNSS
    else
        m.altitude = altitude_of((code >> 6) << 7 | (code & 0x3F)); // the code lacks M
    position(f, m);
}

void velocity(const Frame& f, Message& m)
{
    m.subtype = static_cast<int>(f.part(38, 40));
    m.nac_v = static_cast<int>(f.part(43, 45));
    const int scale = *m.subtype % 2 == 0 ? 4 : 1; // supersonic
    if (*m.subtype == 1 || *m.subtype == 2) {
        const std::optional<int> east = unless_zero(f.part(47, 56), 1, f.bit(46) ? -scale : scale);
        const std::optional<int> north = unless_zero(f.part(58, 67), 1, f.bit(57) ? -scale : scale);
        if (east && north) {
            m.groundspeed = std::hypot(*east, *north);
            const double angle = std::atan2(*east, *north) * 180 / std::numbers::pi;
            m.track = angle < 0 ? angle + 360 : angle;
        }
    } else if (*m.subtype == 3 || *m.subtype == 4) {
        if (f.bit(46)) m.heading = f.part(47, 56) * 360 / 1024.0;
        m.airspeed = unless_zero(f.part(58, 67), 1, scale);
        m.airspeed_type = f.bit(57) ? "TAS" : "IAS";
    }
    m.vr_source = f.bit(68) ? "BARO" : "GNSS";
    m.vertical_rate = unless_zero(f.part(70, 78), 1, f.bit(69) ? -64 : 64);
    const uint32_t difference = f.part(82, 88);
    if (difference != 127) m.geo_minus_baro = unless_zero(difference, 1, f.bit(81) ? -25 : 25);
}

// Type code 28, subtype 1.
void status(const Frame& f, Message& m)
{
    m.subtype = static_cast<int>(f.part(38, 40));
    if (*m.subtype != 1) return;
    m.emergency_state = static_cast<int>(f.part(41, 43));
    m.squawk = squawk_of(f.part(44, 56));
}

// Type code 29, subtype 1.
void target(const Frame& f, Message& m)
{
    m.subtype = static_cast<int>(f.part(38, 39));
    if (*m.subtype != 1) return;
    if (const uint32_t code = f.part(42, 52); code != 0) {
        m.selected_altitude = static_cast<int>(code - 1) * 32;
        m.selected_altitude_source = f.bit(41) ? "FMS" : "MCP/FCU";
    }
    if (const uint32_t code = f.part(53, 61); code != 0)
        m.baro_pressure_setting = 800 + (code - 1) * 0.8;
    if (f.bit(62)) m.selected_heading = f.part(63, 71) * 360 / 512.0;
    m.nac_p = static_cast<int>(f.part(72, 75));
    m.sil = static_cast<int>(f.part(77, 78));
}

// Type code 31.
void operation(const Frame& f, Message& m)
{
    m.subtype = static_cast<int>(f.part(38, 40));
    m.version = static_cast<int>(f.part(73, 75));
    if (*m.version == 0) return;
    m.nac_p = static_cast<int>(f.part(77, 80));
    m.sil = static_cast<int>(f.part(83, 84));
}

void extended_squitter(const Frame& f, Message& m)
{
    m.typecode = static_cast<int>(f.part(33, 37));
    const int type = *m.typecode;
    if (type >= 1 && type <= 4) {
        m.category = static_cast<int>(f.part(38, 40));
        m.callsign = callsign_of(f, 41);
    } else if (type >= 5 && type <= 8) {
        surface_position(f, m);
    } else if ((type >= 9 && type <= 18) || (type >= 20 && type <= 22)) {
        airborne_position(f, m);
    } else if (type == 19) {
        velocity(f, m);
    } else if (type == 28) {
        status(f, m);
    } else if (type == 29) {
        target(f, m);
    } else if (type == 31) {
        operation(f, m);
    }
}

void surveillance(const Frame& f, Message& m)
{
    m.flight_status = static_cast<int>(f.part(6, 8));
    m.downlink_request = static_cast<int>(f.part(9, 13));
    m.utility_message = static_cast<int>(f.part(14, 19));
    if (*m.flight_status <= 3) m.on_ground = *m.flight_status % 2 == 1;
    if (f.format() % 2 == 0)
        m.altitude = altitude_of(f.part(20, 32));
    else
        m.squawk = squawk_of(f.part(20, 32));
    // Of the registers that a long reply may hold only this one names itself. Its number may stand
    // at the head of another by chance: then hardly all characters are ones that exist.
    if (f.bits() == long_bits && f.part(33, 40) == 0x20) {
        const std::string name = callsign_of(f, 41);
        if (name.find('#') == std::string::npos) m.callsign = name;
    }
}

void air_to_air(const Frame& f, Message& m)
{
    m.on_ground = f.bit(6) == 1;
    m.cross_link_capability = static_cast<int>(f.bit(7));
    m.sensitivity_level = static_cast<int>(f.part(9, 11));
    m.reply_information = static_cast<int>(f.part(14, 17));
    m.altitude = altitude_of(f.part(20, 32));
}

} // namespace

Message decode(const Frame& frame, uint32_t icao)
{
    Message m;
    m.frame = frame;
    m.icao = icao;
    switch (frame.format()) {
    case 0:
    case 16: air_to_air(frame, m); break;
    case 4:
    case 5:
    case 20:
    case 21: surveillance(frame, m); break;
    case 11: m.capability = static_cast<int>(frame.part(6, 8)); break;
    case 17: extended_squitter(frame, m); break;
    case 18: // by its control field: ADS-B without a transponder, or rebroadcast
        if (frame.part(6, 8) <= 1 || frame.part(6, 8) == 6) extended_squitter(frame, m);
        break;
    default: break;
    }
    return m;
}

std::string to_hex(const Frame& frame)
{
    char text[32];
    const auto head = static_cast<unsigned long long>(frame.head);
    const auto tail = static_cast<unsigned long long>(frame.tail);
    if (frame.bits() == long_bits)
        std::snprintf(text, sizeof text, "%014llx%014llx", head, tail);
    else
        std::snprintf(text, sizeof text, "%014llx", head);
    return text;
}

Frame frame_of(const std::string& hex)
{
    const bool digits = hex.find_first_not_of("0123456789abcdefABCDEF") == std::string::npos;
    Frame frame;
    if (digits && (hex.size() == 14 || hex.size() == 28)) {
        frame.head = std::stoull(hex.substr(0, 14), nullptr, 16);
        if (hex.size() == 28) frame.tail = std::stoull(hex.substr(14), nullptr, 16);
        if (frame.bits() == 4 * hex.size()) return frame;
    }
    throw Error(Errc::bad_argument,
                "\"" + hex +
                    "\" is no Mode S frame; give 14 hexadecimal digits, or 28 if the first " +
                    "is 8 or more");
}

} // namespace denizen::radio

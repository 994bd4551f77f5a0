// SPDX-License-Identifier: Apache-2.0
#include <denizen/radio/airspace.hpp>

#include <algorithm>
#include <cmath>

namespace denizen::radio {
namespace {

constexpr double forgotten = 60;    // seconds after which an address vouches for no frame
constexpr double pair_air = 10;     // seconds between two messages that are one position
constexpr double pair_surface = 25; // (on the ground it changes little)
constexpr double near_enough =
    300; // seconds that a position may serve as the reference of the next
// Among so many of the most doubtful bits one, or two, may be repaired without knowing the
// aircraft: 8 and 3 ways to be wrong, of 2^24, where repairing any bit has 107.
constexpr uint32_t doubtful[] = {8, 3};
constexpr uint32_t doubtful_codes = 2;

} // namespace

Airspace::Airspace(std::optional<Position> receiver) : receiver_(receiver)
{
    codes_.fill(-2 * forgotten);
}

bool Airspace::known(uint32_t icao, double now) const
{
    const auto found = aircraft_.find(icao);
    return found != aircraft_.end() && found->second.confirmed &&
           now - found->second.last_seen <= forgotten;
}

std::optional<Message> Airspace::believe(const Reading& r, uint64_t position, uint32_t pulse)
{
    const double now = static_cast<double>(position) / sample_rate;
    const uint32_t format = r.frame.format();
    Frame frame = r.frame;
    uint32_t icao = r.syndrome;
    uint32_t repaired = 0;
    std::optional<int> interrogator;
    if (plain_parity(format)) {
        icao = frame.part(9, 32);
        // Wrong bits among the last seven look like an interrogator's code. So they must fit well
        // and without doubt, or be a code that was heard so lately.
        const bool code = format == 11 && r.syndrome < codes_.size() && known(icao, now);
        const bool sound = r.clear && (r.error[0] == 0 || r.doubt >= doubtful_codes);
        if (code && r.syndrome != 0 && sound) codes_[r.syndrome] = now;
        if ((format == 11 && r.syndrome == 0) || (code && now - codes_[r.syndrome] <= forgotten)) {
            interrogator = static_cast<int>(r.syndrome);
        } else if (r.syndrome != 0) {
            if (r.error[0] == 0) return {};
            for (const uint8_t n : r.error) {
                if (n == 0) continue;
                frame.flip(n);
                repaired += 1;
            }
            icao = frame.part(9, 32);
            if (!known(icao, now) && r.doubt >= doubtful[repaired - 1]) return {};
            if (format == 11) interrogator = 0;
        }
    } else if (!known(icao, now)) {
        return {};
    }
    Message m = decode(frame, icao);
    m.position = position;
    m.repaired = repaired;
    m.interrogator = interrogator;
    m.level = 20 * std::log10(std::max(pulse, 1u) / (127.5 * magnitude_scale));
    const bool confirms = plain_parity(format) && r.syndrome == 0;
    add(m, confirms);
    return m;
}

void Airspace::add(Message& m, bool confirms)
{
    Aircraft& a = aircraft_[m.icao];
    if (a.messages == 0) {
        a.icao = m.icao;
        a.first_seen = m.time();
    }
    a.messages += 1;
    a.last_seen = m.time();
    a.level = m.level;
    a.confirmed |= confirms;
    const auto take = [](auto& to, const auto& from) {
        if (from) to = from;
    };
    take(a.callsign, m.callsign);
    take(a.squawk, m.squawk);
    take(a.altitude, m.altitude);
    take(a.groundspeed, m.groundspeed);
    take(a.track, m.track);
    take(a.vertical_rate, m.vertical_rate);
    take(a.on_ground, m.on_ground);
    if (m.cpr_format) locate(m, a);
}

void Airspace::locate(Message& m, Aircraft& a)
{
    const double now = m.time();
    const Encoded later{*m.cpr_lat, *m.cpr_lon, *m.cpr_format == 1, m.on_ground.value_or(false)};
    a.half[later.odd] = {later, now, true};
    const Aircraft::Half& earlier = a.half[!later.odd];
    std::optional<Position> reference = receiver_;
    const bool placed = a.position && now - a.position_seen <= near_enough;
    if (placed) reference = a.position;
    std::optional<Position> found;
    if (earlier.valid && now - earlier.seen <= (later.surface ? pair_surface : pair_air))
        found = position_of_pair(earlier.encoded, later, reference);
    if (!found && placed) found = position_near(later, *a.position);
    if (!found) return;
    m.latitude = found->latitude;
    m.longitude = found->longitude;
    a.position = found;
    a.position_seen = now;
}

std::vector<Aircraft> Airspace::aircraft() const
{
    std::vector<Aircraft> out;
    out.reserve(aircraft_.size());
    for (const auto& [icao, a] : aircraft_) out.push_back(a);
    std::ranges::sort(out, {}, &Aircraft::icao);
    return out;
}

} // namespace denizen::radio

// SPDX-License-Identifier: Apache-2.0
// The actors of the flights program. The message structs come from app.py; every sum is an integer,
// so that the result does not depend on the order in which airports hear from aircraft.

inline constexpr int32_t missing = -2147483647 - 1; // an empty field of the data

struct Aircraft {
    AircraftReport seen{};
    uint32_t last_minute = 0;

    void on(const Flight& flight, auto& ctx)
    {
        seen.flights += 1;
        seen.misordered += flight.minute < last_minute;
        last_minute = flight.minute;
        seen.miles += flight.distance;
        if (flight.dep_delay == missing) {
            seen.cancelled += 1;
        } else {
            seen.dep_delay += flight.dep_delay;
        }
        if (flight.arr_delay != missing) {
            seen.landed += 1;
            seen.arr_delay += flight.arr_delay;
        }
        const int32_t minutes = flight.air_time == missing ? 0 : flight.air_time;
        seen.minutes += minutes;
        ctx.send(denizen::Address{flight.origin}, Departure{flight.dep_delay, minutes});
        ctx.send(denizen::Address{flight.dest}, Arrival{flight.arr_delay, minutes});
    }

    void on(const Query&, auto& ctx) { ctx.reply(seen); }
};

struct Airport {
    AirportReport seen{};

    void on(const Departure& flight, auto&)
    {
        seen.departures += 1;
        seen.minutes += flight.minutes;
        if (flight.delay == missing) {
            seen.cancelled += 1;
        } else {
            seen.dep_delay += flight.delay;
        }
    }

    void on(const Arrival& flight, auto&)
    {
        seen.arrivals += 1;
        seen.minutes += flight.minutes;
        if (flight.delay != missing) {
            seen.landed += 1;
            seen.arr_delay += flight.delay;
        }
    }

    void on(const Query&, auto& ctx) { ctx.reply(seen); }
};

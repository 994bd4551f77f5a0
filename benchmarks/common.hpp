// SPDX-License-Identifier: Apache-2.0
// What every benchmark program shares: a vector of samples, a core to stay on, and the one way to
// print a result. A program prints one JSON object per line on stdout and nothing else; statistics
// are made by the reader (denizen.lab), never here.
#pragma once

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <sched.h>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <denizen/base/clock.hpp>

namespace denizen::bench {

// One JSON object under construction. Numbers that JSON cannot hold (NaN, infinity) throw: they are
// never a measurement.
class Json {
public:
    template <class T>
    Json& add(std::string_view key, const T& value)
    {
        text_ += text_.empty() ? "" : ", ";
        append(key);
        text_ += ": ";
        append(value);
        return *this;
    }

    std::string str() const { return "{" + text_ + "}"; }

private:
    void append(std::string_view value)
    {
        text_ += '"';
        for (const char c : value) {
            if (c == '"' || c == '\\') text_ += '\\';
            if (static_cast<unsigned char>(c) < 0x20) {
                char escaped[8];
                std::snprintf(escaped, sizeof escaped, "\\u%04x", static_cast<unsigned>(c));
                text_ += escaped;
            } else {
                text_ += c;
            }
        }
        text_ += '"';
    }
    void append(const std::string& value) { append(std::string_view(value)); }
    void append(const char* value) { append(std::string_view(value)); }
    void append(bool value) { text_ += value ? "true" : "false"; }
    void append(const Json& value) { text_ += value.str(); }

    template <class T>
        requires std::is_arithmetic_v<T>
    void append(T value)
    {
        char digits[32];
        std::to_chars_result end{};
        if constexpr (std::is_floating_point_v<T>) {
            if (!std::isfinite(value)) throw std::runtime_error("a result is not a finite number");
            end =
                std::to_chars(digits, digits + sizeof digits, value, std::chars_format::general, 7);
        } else {
            end = std::to_chars(digits, digits + sizeof digits, value);
        }
        text_.append(digits, end.ptr);
    }

    template <class T>
    void append(const std::vector<T>& values)
    {
        text_ += '[';
        for (std::size_t i = 0; i < values.size(); ++i) {
            if (i != 0) text_ += ',';
            append(values[i]);
        }
        text_ += ']';
    }

    template <class... T>
    void append(const std::tuple<T...>& values)
    {
        const char* separator = "[";
        std::apply(
            [&](const T&... each) {
                ((text_ += std::exchange(separator, ","), append(each)), ...);
            },
            values);
        text_ += ']';
    }

    std::string text_;
};

// The number of the round that interleaved() is at, 0 outside of one.
inline uint64_t round_under_way = 0;

// Measurements of one case, in `unit`, in the order taken. Reserve what you will add: growing
// inside a timed loop is itself measured. They know the rounds of interleaved() they were added in:
// neighbours within one are alike, and an interval counts the round as one.
class Samples {
public:
    explicit Samples(std::size_t expected) { values_.reserve(expected); }

    void add(double value)
    {
        if (round_ != round_under_way) {
            round_ = round_under_way;
            begins_.push_back(values_.size());
        }
        values_.push_back(value);
    }
    void add_ns_as_us(uint64_t ns) { add(static_cast<double>(ns) * 1e-3); }
    std::size_t size() const { return values_.size(); }
    const std::vector<double>& values() const { return values_; }

    // How many rounds they come in, each with as many; 0 where they do not.
    std::size_t rounds() const
    {
        const std::size_t count = begins_.size();
        if (count == 0 || values_.size() % count != 0) return 0;
        for (std::size_t i = 0; i < count; ++i)
            if (begins_[i] != i * (values_.size() / count)) return 0;
        return count;
    }

    // At most `limit` of them, evenly spread over time, as many of each round, the largest always
    // among them (a maximum that thinning lost would be a lie).
    std::vector<double> thinned(std::size_t limit = 20000) const
    {
        if (values_.size() <= limit) return values_;
        if (rounds() != 0) limit = std::max(limit / rounds(), std::size_t{1}) * rounds();
        const auto largest = static_cast<std::size_t>(
            std::max_element(values_.begin(), values_.end()) - values_.begin());
        std::vector<double> kept(limit);
        for (std::size_t i = 0; i < limit; ++i) {
            const std::size_t begin = i * values_.size() / limit;
            const std::size_t end = (i + 1) * values_.size() / limit;
            kept[i] = values_[begin <= largest && largest < end ? largest : begin];
        }
        return kept;
    }

private:
    std::vector<double> values_;
    std::vector<std::size_t> begins_; // of the rounds
    uint64_t round_ = 0;
};

// One finished case. `n` is the number of events behind the samples (round trips, messages, tasks).
struct Case {
    Case() = default;
    explicit Case(std::string case_name, Json with = {}, std::string in_unit = "us")
        : name(std::move(case_name)), params(std::move(with)), unit(std::move(in_unit))
    {
    }

    std::string name;
    Json params;
    std::string unit = "us";
    uint64_t n = 0;
    bool verified = false;               // the work's result was checked, outside the timed region
    std::vector<std::string> ratio_base; // names of the cases to compare with
    std::string arm;                     // "A/A" for the second measurement of the same case

    // The name and the parameters, for people: `streamed memory pinned, warps 264`.
    std::string title() const
    {
        std::string words = name + " " + params.str();
        std::erase_if(words, [](char c) { return c == '{' || c == '}' || c == '"' || c == ':'; });
        return words;
    }

    void print(const Samples& samples) const
    {
        Json line;
        line.add("case", name).add("params", params).add("unit", unit);
        line.add("n", n).add("verified", verified);
        if (!ratio_base.empty()) line.add("ratio_base", ratio_base);
        if (!arm.empty()) line.add("arm", arm);
        if (samples.rounds() != 0) line.add("rounds", samples.rounds());
        line.add("samples", samples.thinned());
        std::printf("%s\n", line.str().c_str());
        std::fflush(stdout);
    }
};

inline void print_environment(const Json& environment)
{
    std::printf("%s\n", Json().add("environment", environment).str().c_str());
    std::fflush(stdout);
}

// The cores this process may use, ascending.
inline std::vector<int> allowed_cores()
{
    std::vector<int> cores;
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) != 0) return cores;
    for (int core = 0; core < CPU_SETSIZE; ++core)
        if (CPU_ISSET(core, &set)) cores.push_back(core);
    return cores;
}

// Keeps the calling thread, and those it starts, on these cores. False where the system refuses.
inline bool keep_on(const std::vector<int>& cores)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    for (const int core : cores) CPU_SET(core, &set);
    return sched_setaffinity(0, sizeof set, &set) == 0;
}

// On one core. A result taken without it must say so.
inline bool pin_to_core(int core) { return keep_on({core}); }

// Calls `turn(i)` for every i below `count`, forwards in even rounds and backwards in odd ones:
// what drifts with time then falls on all of them alike. The samples added meanwhile know their
// round. By one thread at a time. `budget`: seconds, after which no round
// begins but the first three.
template <class Turn>
void interleaved(uint32_t rounds, size_t count, Turn turn,
                 double budget = std::numeric_limits<double>::infinity())
{
    constexpr uint32_t least = 3;
    static uint64_t number = 0; // of each round of the program
    const uint64_t begin = now_ns();
    for (uint32_t round = 0; round < rounds; ++round) {
        if (round >= least && static_cast<double>(now_ns() - begin) * 1e-9 > budget) break;
        round_under_way = ++number;
        for (size_t k = 0; k < count; ++k) turn(round % 2 == 0 ? k : count - 1 - k);
    }
    round_under_way = 0;
}

} // namespace denizen::bench

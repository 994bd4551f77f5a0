// SPDX-License-Identifier: Apache-2.0
// The simulation as a plain loop in double precision: kinds of neighbours are asked for in every
// cell and step, with nothing of the code that it is compared with but the settings.
#pragma once

#include <denizen/group/group.hpp>
#include <denizen/wave/simulation.hpp>

#include <denizen/device/residents.hpp>

#include <chrono>
#include <cmath>
#include <string>
#include <vector>

namespace denizen::wave {

struct Place {
    const char* name;
    Device device;
    uint32_t threads;
    uint32_t slabs = 1;
    std::chrono::microseconds breath{0}; // 0: as is usual there
};

#if defined(__CUDACC__)
inline int gpus()
{
    int count = 0;
    return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}
#endif

inline Simulation simulation_of(const Settings& room, const Place& at)
{
#if defined(__CUDACC__)
    const Code group_code = group::compiled_code();
#else
    const Code group_code;
#endif
    Settings with = room;
    if (at.breath.count() != 0) with.breath = at.breath;
    return Simulation(with, at.device, compiled_code(), at.threads, at.slabs, group_code);
}

inline std::vector<Place> places()
{
    std::vector<Place> all{{"cpu1", Device::cpu(), 1},
                           {"cpu3", Device::cpu(), 3},
                           {"cpu2x2", Device::cpu(), 4, 2},
                           {"cpu3x1", Device::cpu(), 3, 3},
                           {"cpu_breath", Device::cpu(), 1, 1, std::chrono::microseconds(100)}};
#if defined(__CUDACC__)
    if (gpu_present()) {
        all.push_back({"gpu", Device::gpu(), 0});
        all.push_back({"gpu_breath", Device::gpu(), 0, 1, std::chrono::microseconds(20)});
    }
    if (gpus() > 1) all.push_back({"gpu2", Device::gpu(), 0, 2});
#endif
    return all;
}

inline std::vector<Method> methods_of(const Place& place)
{
    if (place.breath.count() != 0) return {Method::tiles, Method::deep}; // the others have none
    if (place.slabs > 1 && place.device.kind == Device::Kind::gpu) {
        return {Method::launches, Method::graph, Method::pass2, Method::pass4};
    }
    if (place.device.kind == Device::Kind::gpu) {
        return {Method::launches, Method::graph, Method::tiles,
                Method::deep,     Method::pass2, Method::pass4};
    }
    if (place.slabs > 1) return {Method::threads, Method::pass2, Method::pass4};
    if (place.threads == 1) {
        return {Method::threads, Method::tiles, Method::deep, Method::pass2, Method::pass4};
    }
    return {Method::threads};
}

class Reference {
public:
    explicit Reference(const Settings& with) : s(with)
    {
        const size_t cells = size_t{s.cells[0]} * s.cells[1] * s.cells[2];
        now.assign(cells, 0);
        before.assign(cells, 0);
        if (s.kinds.empty()) s.kinds.assign(cells, 0);
        dt = s.dt == 0 ? s.spacing / (2 * s.speed) : s.dt;
    }

    size_t index(int x, int y, int z) const
    {
        return (static_cast<size_t>(z) * s.cells[1] + static_cast<size_t>(y)) * s.cells[0] +
               static_cast<size_t>(x);
    }

    void step()
    {
        std::vector<double> next(now.size());
        const double courant = s.speed * dt / s.spacing;
        const int n[3] = {static_cast<int>(s.cells[0]), static_cast<int>(s.cells[1]),
                          static_cast<int>(s.cells[2])};
        for (int z = 0; z < n[2]; ++z) {
            for (int y = 0; y < n[1]; ++y) {
                for (int x = 0; x < n[0]; ++x) {
                    const size_t i = index(x, y, z);
                    if (s.kinds[i] >= 2) continue;
                    double laplacian = 0;
                    double loss = s.damping * dt + (s.kinds[i] == 1 ? s.absorber * dt : 0);
                    for (int side = 0; side < 6; ++side) {
                        int at[3] = {x, y, z};
                        const int axis = side / 2;
                        at[axis] += side % 2 == 0 ? -1 : 1;
                        if (at[axis] < 0 || at[axis] >= n[axis]) {
                            if (s.boundary[axis] == Boundary::absorbing) loss += courant / 2;
                            if (s.boundary[axis] != Boundary::periodic) continue;
                            at[axis] = (at[axis] + n[axis]) % n[axis];
                        }
                        const size_t beside = index(at[0], at[1], at[2]);
                        if (s.kinds[beside] == 2) continue; // rigid: as loud as this cell
                        laplacian += now[beside] - now[i];
                    }
                    next[i] =
                        (2 * now[i] - (1 - loss) * before[i] + courant * courant * laplacian) /
                        (1 + loss);
                }
            }
        }
        for (const Source& source : sources) {
            const size_t i = index(source.at[0], source.at[1], source.at[2]);
            if (s.kinds[i] < 2) next[i] += pushed(source);
        }
        before = now;
        now = next;
        ++steps;
    }

    double pushed(const Source& source) const
    {
        if (steps < source.begin) return 0;
        const auto n = static_cast<double>(steps - source.begin);
        const double a = std::acos(-1.0) * source.frequency * (n - source.delay);
        switch (source.shape) {
        case Shape::impulse: return n == 0 ? source.amplitude : 0;
        case Shape::ricker: return source.amplitude * (1 - 2 * a * a) * std::exp(-a * a);
        case Shape::sine:
            return source.amplitude *
                   std::sin(2 * std::acos(-1.0) * (source.frequency * n + source.delay));
        default: return 0;
        }
    }

    void fill(const Box& box, uint8_t kind)
    {
        for (int z = box.low[2]; z < box.high[2]; ++z) {
            for (int y = box.low[1]; y < box.high[1]; ++y) {
                for (int x = box.low[0]; x < box.high[0]; ++x) {
                    s.kinds[index(x, y, z)] = kind;
                    if (kind >= 2) now[index(x, y, z)] = before[index(x, y, z)] = 0;
                }
            }
        }
    }

    Settings s;
    double dt;
    uint64_t steps = 0;
    std::vector<double> now, before;
    std::vector<Source> sources;
};

// The largest difference, as a share of the largest value.
inline double difference(const std::vector<double>& a, const std::vector<double>& b)
{
    double most = 0;
    double apart = a.size() == b.size() ? 0 : 1e300;
    for (size_t i = 0; i < a.size() && i < b.size(); ++i) {
        most = std::max(most, std::abs(b[i]));
        apart = std::max(apart, std::isfinite(a[i]) ? std::abs(a[i] - b[i]) : 1e300);
    }
    return most == 0 ? apart : apart / most;
}

} // namespace denizen::wave

// SPDX-License-Identifier: Apache-2.0
// The simulation as kernels. simulation.hpp launches them; the same names are looked up in a cubin
// that was compiled at run time and among the functions that nvcc compiled into a program.
#pragma once

#include <denizen/wave/detail/pass.hpp>
#include <denizen/wave/detail/sweep.hpp>
#include <denizen/wave/detail/tile.hpp>

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)

namespace denizen::wave {

extern __shared__ __align__(128) unsigned char tile_memory[];

// Four cells side by side for each thread, plane after plane: what is above becomes what is here.
// What the next plane needs of the memory is asked for before this one is made.
template <class T>
__device__ inline void sweep(const Sweep<T>& w)
{
    using F = Four<T>;
    const Slab<T>& s = w.slab;
    const uint32_t x = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
    const uint32_t y = blockIdx.y * blockDim.y + threadIdx.y;
    const uint32_t first = blockIdx.z * w.planes;
    const uint32_t last = first + w.planes < s.layout.n[2] ? first + w.planes : s.layout.n[2];
    if (x >= s.layout.n[0] || y >= s.layout.n[1]) return;
    const uint32_t count = s.layout.n[0] - x < 4 ? s.layout.n[0] - x : 4;
    const auto row = static_cast<int32_t>(y);
    const auto four = [](const T* from) { return *reinterpret_cast<const F*>(from); };
    F below = four(s.row(row, static_cast<int32_t>(first) - 1) + x);
    F here = four(s.row(row, static_cast<int32_t>(first)) + x);
    F above = four(s.row(row, static_cast<int32_t>(first) + 1) + x);
    F old = four(s.before + s.layout.index(x, y, first));
    const Coefficients<T> usual = s.table[plain];
    for (uint32_t k = first; k < last; ++k) {
        const auto z = static_cast<int32_t>(k);
        const uint8_t kind =
            s.segments[(uint64_t{k} * s.layout.n[1] + y) * segments_in(s.layout.n[0]) +
                       x / segment];
        const bool more = k + 1 < last;
        const F coming = more ? four(s.row(row, z + 2) + x) : F{};
        const F coming_old = more ? four(s.before + s.layout.index(x, y, k + 1)) : F{};
        const F south = four(s.row(row - 1, z) + x);
        const F north = four(s.row(row + 1, z) + x);
        const T* const line_of = s.row(row, z);
        const T left = line_of[static_cast<int64_t>(x) - 1];
        const T right = line_of[x + 4]; // beyond the row there is room, and nobody uses it
        T* const to = s.before + s.layout.index(0, y, k);
        const uint8_t* const kinds =
            s.kinds + (uint64_t{k} * s.layout.n[1] + y) * s.layout.n[0] + x;
        const auto of = [&](uint32_t i) {
            Coefficients<T> c = usual;
            if (kind != plain) {
                c = s.table[kind != mixed ? kind : i < count ? kinds[i] : rigid];
            }
            return c;
        };
        const F result = next_four(of, here, below, above, south, north, left, right, old);
        if (count == 4) {
            *reinterpret_cast<F*>(to + x) = result;
        } else {
            for (uint32_t i = 0; i < count; ++i) to[x + i] = result.v[i];
        }
        below = here;
        here = above;
        above = coming;
        old = coming_old;
    }
    // By the thread that wrote the cell.
    const uint64_t step = *w.clock + w.after;
    const auto mine = [&](const int32_t at[3]) {
        const int32_t z = at[2] - static_cast<int32_t>(w.first_plane);
        return static_cast<uint32_t>(at[0]) / 4 == x / 4 && at[1] == row &&
               z >= static_cast<int32_t>(first) && z < static_cast<int32_t>(last);
    };
    for (uint32_t i = 0; i < w.source_count; ++i) {
        const int32_t* const at = w.sources[i].at;
        if (!mine(at)) continue;
        const uint32_t z = static_cast<uint32_t>(at[2]) - w.first_plane;
        const uint64_t cell =
            (uint64_t{z} * s.layout.n[1] + y) * s.layout.n[0] + static_cast<uint64_t>(at[0]);
        if (s.kinds[cell] <= soft) continue;
        s.before[s.layout.index(static_cast<uint32_t>(at[0]), y, z)] +=
            drive<T>(w.sources[i], step, w.pool);
    }
    for (uint32_t i = 0; i < w.receiver_count; ++i) {
        const int32_t* const at = w.receivers[i];
        if (!mine(at)) continue;
        w.traces[uint64_t{i} * w.trace_steps + (step - *w.begun)] = s.before[s.layout.index(
            static_cast<uint32_t>(at[0]), y, static_cast<uint32_t>(at[2]) - w.first_plane)];
    }
    if (s.periodic_x) { // the ghosts
        for (uint32_t k = first; k < last; ++k) {
            T* const to = s.before + s.layout.index(0, y, k);
            if (x == 0) to[s.layout.n[0]] = to[0];
            if (x + count == s.layout.n[0]) to[-1] = to[s.layout.n[0] - 1];
        }
    }
}

template <class T, class S>
__device__ inline void pass(const Pass<T>& p)
{
    Strip<T, S> strip;
    Column<T, S>(p, *reinterpret_cast<PassMemory<T, S>*>(tile_memory), blockIdx.x, blockIdx.y,
                 blockIdx.z)
        .run(&strip);
}

template <class T, class S>
__device__ inline void tile(const TileRun<T>& run, const Leading& leading)
{
    const Checkpoint& checkpoint = leading.control->checkpoint;
    if (checkpoint.over != 0) return; // queued before that was known
    if (blockIdx.x == leading.tiles) {
        Porch& porch = *reinterpret_cast<Porch*>(tile_memory);
        if (threadIdx.x == 0) porch = porch_of(checkpoint);
        __syncthreads();
        const bool open = leading.ahead != 0;
        if (threadIdx.x == 0) Conductor(leading, open ? &porch : nullptr).lead();
        if (threadIdx.x == 32 && open) { // of another warp
            carry(Orders(ring_from(leading.in, checkpoint.orders)), porch);
        }
        return;
    }
    Tile<T, S>(run, *reinterpret_cast<TileMemory<T, S>*>(tile_memory), blockIdx.x).run();
}

} // namespace denizen::wave

// clang-format off
#if defined(__CUDACC_RTC__)
#define DENIZEN_WAVE_KERNEL extern "C" __global__ void
#else
#define DENIZEN_WAVE_KERNEL static __global__ void
#endif
// Launched cooperatively, with one block more than there are tiles.
#define DENIZEN_WAVE_TILE(name, T, S)                                                              \
    DENIZEN_WAVE_KERNEL __launch_bounds__(denizen::wave::S::threads, 1)                            \
        denizen_wave_##name(const __grid_constant__ denizen::wave::TileRun<T> run,                 \
                            const __grid_constant__ denizen::wave::Leading leading)         \
    {                                                                                              \
        denizen::wave::tile<T, denizen::wave::S>(run, leading);                                    \
    }
// `blocks`: on an SM, for which a thread's registers must suffice.
#define DENIZEN_WAVE_PASS(name, T, S, blocks)                                                      \
    DENIZEN_WAVE_KERNEL __launch_bounds__(denizen::wave::S::threads, blocks)                       \
        denizen_wave_##name(const __grid_constant__ denizen::wave::Pass<T> p)                      \
    {                                                                                              \
        denizen::wave::pass<T, denizen::wave::S>(p);                                               \
    }
// clang-format on

// The last node of a captured graph of `steps` launches.
DENIZEN_WAVE_KERNEL denizen_wave_tick(unsigned long long* clock, uint32_t steps)
{
    *clock += steps;
}

// Who compiles at run time needs one precision, and waits half as long.
#if !defined(DENIZEN_WAVE_TWOFOLD)
DENIZEN_WAVE_KERNEL __launch_bounds__(256) denizen_wave_sweep_f32(denizen::wave::Sweep<float> s)
{
    denizen::wave::sweep(s);
}
DENIZEN_WAVE_PASS(pass2_f32, float, Pass2, 2)
DENIZEN_WAVE_PASS(pass4_f32, float, Pass4, 1)
DENIZEN_WAVE_TILE(small_f32, float, SmallTile)
DENIZEN_WAVE_TILE(medium_f32, float, MediumTile)
DENIZEN_WAVE_TILE(large_f32, float, LargeTile)
DENIZEN_WAVE_TILE(small_deep_f32, float, SmallDeepTile)
DENIZEN_WAVE_TILE(medium_deep_f32, float, MediumDeepTile)
#endif

#if !defined(DENIZEN_WAVE_SINGLE)
DENIZEN_WAVE_KERNEL __launch_bounds__(256) denizen_wave_sweep_f64(denizen::wave::Sweep<double> s)
{
    denizen::wave::sweep(s);
}
DENIZEN_WAVE_PASS(pass2_f64, double, TwofoldPass2, 1)
DENIZEN_WAVE_PASS(pass4_f64, double, TwofoldPass4, 1)
DENIZEN_WAVE_TILE(small_f64, double, SmallTile)
DENIZEN_WAVE_TILE(medium_f64, double, MediumTile)
DENIZEN_WAVE_TILE(small_deep_f64, double, SmallDeepTile)
#endif

#endif

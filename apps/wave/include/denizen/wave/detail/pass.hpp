// SPDX-License-Identifier: Apache-2.0
// Several steps in one pass over a field that lies in memory: a block takes a column of the grid,
// 64 cells wide, and marches through its planes. A thread holds four cells of a few rows; when a
// plane has come in, each step of the pass advances by a plane:
//
//   plane      p - 3   p - 2   p - 1     p
//   step 0       .       .     middle   in       Middle planes are in the memory of the block,
//   step 1       .     middle  made              where rows beside a thread's are found; what is
//   step 2     middle  made                      over and under a cell is in its own registers.
//
// So only the middle planes of the turn before are read and those of the next written: one barrier
// a turn. Cells near the edge of the column are computed by two blocks (a column of 64 x 32 for two
// steps: 1.3 times the work), and the field's are written to another place: 16 bytes for each cell
// and pass instead of 12 for each cell and step (single precision).
#pragma once

#include <denizen/wave/detail/sweep.hpp>
#include <denizen/wave/request.hpp>

namespace denizen::wave {

// Depth: steps of a pass. High: rows of a column. Rows: of a thread.
template <uint32_t Depth, uint32_t High, uint32_t Rows>
struct PassShape {
    static constexpr uint32_t depth = Depth;
    static constexpr uint32_t rows = Rows;
    static constexpr uint32_t across = 4; // cells that a thread holds along x: a strip
    static constexpr uint32_t strips = 16;
    static constexpr uint32_t wide = strips * across;
    static constexpr uint32_t high = High;
    static constexpr uint32_t threads = strips * High / Rows;
    // What is left of a column when its edges are wrong.
    static constexpr uint32_t inner_x = wide - 2 * across;
    static constexpr uint32_t inner_y = High - 2 * Depth;
    static_assert(Depth >= 1 && Depth <= across && High % Rows == 0 && High > 2 * Depth);
};

using Pass2 = PassShape<2, 32, 2>;
using Pass4 = PassShape<4, 48, 2>;
// In double precision a thread has room for half as many.
using TwofoldPass2 = PassShape<2, 32, 1>;
using TwofoldPass4 = PassShape<4, 24, 1>;

// Planes that a slab has the kinds of beside its own.
inline constexpr uint32_t kinds_beside = 4;

// One pass. `sweep.slab` is what is read, kinds of kinds_beside planes on both sides included;
// `sweep.planes`: of a block. All planes beside the slab that a pass needs lie in one memory.
template <class T>
struct Pass {
    Sweep<T> sweep;
    const T* before_below; // as Slab::below and above, of the pressure before
    const T* before_above;
    T* to[2]; // now, before; not where they are read
    uint32_t all_planes;
    bool periodic_z;
};

// Columns along an axis of n cells. At an end of the grid nothing is wrong.
DENIZEN_HD inline uint32_t columns(uint32_t n, bool periodic, uint32_t size, uint32_t inner)
{
    if (periodic) return (n + inner - 1) / inner;
    return n <= size ? 1 : (n - size + inner - 1) / inner + 1;
}

template <class T, class S>
struct PassMemory {
    alignas(16) T middle[2][S::depth][S::high + 2][S::wide]; // a row of zeros at both ends
    Coefficients<T> table[classes];
    T push[S::depth][most_sources]; // what sources add in each step
};

// What a thread knows of its cells.
template <class T, class S>
struct Strip {
    Four<T> below[S::depth][S::rows];  // of each step, the plane under the middle one
    Four<T> here[S::depth][S::rows];   // and the middle one
    Four<T> old[S::rows];              // before step 0, of the middle plane
    uint32_t kinds[S::depth][S::rows]; // of the middle planes
    Four<T> coming[S::rows];           // the plane that comes in next, now and before
    Four<T> coming_old[S::rows];
    uint32_t coming_kinds[S::rows];
};

template <class T, class S>
class Column {
public:
#if DENIZEN_ON_DEVICE
    static constexpr uint32_t mine = 1; // strips of a thread
    __device__ static uint32_t lane(uint32_t) { return threadIdx.x; }
    __device__ static void sync() { __syncthreads(); }
#else
    static constexpr uint32_t mine = S::threads;
    static uint32_t lane(uint32_t i) { return i; }
    static void sync() {}
#endif

    // The column of block (bx, by, bz).
    DENIZEN_HD Column(const Pass<T>& pass, PassMemory<T, S>& memory, uint32_t bx, uint32_t by,
                      uint32_t bz)
        : p_(pass), s_(pass.sweep.slab), m_(memory)
    {
        x_ = static_cast<int32_t>(bx * S::inner_x) -
             (s_.periodic_x ? static_cast<int32_t>(S::across) : 0);
        y_ = static_cast<int32_t>(by * S::inner_y) -
             (s_.periodic_y ? static_cast<int32_t>(S::depth) : 0);
        const uint32_t first = bz * pass.sweep.planes;
        first_ = static_cast<int32_t>(first);
        last_ = static_cast<int32_t>(first + pass.sweep.planes < s_.layout.n[2]
                                         ? first + pass.sweep.planes
                                         : s_.layout.n[2]);
    }

    // All threads of the block; `strips`: mine.
    DENIZEN_HD void run(Strip<T, S>* strips)
    {
        prepare();
        constexpr auto depth = static_cast<int32_t>(S::depth);
        for (uint32_t i = 0; i < mine; ++i) {
            strips[i] = {};
            fetch(strips[i], lane(i), first_ - depth);
        }
        sync();
        for (int32_t z = first_ - depth; z < last_ + depth; ++z) {
            for (uint32_t i = 0; i < mine; ++i) advance(strips[i], lane(i), z);
            sync();
            turn_ ^= 1;
        }
    }

private:
    DENIZEN_HD void prepare()
    {
        const Sweep<T>& w = p_.sweep;
        for (uint32_t k = 0; k < mine; ++k) {
            for (uint32_t i = lane(k); i < classes; i += S::threads) m_.table[i] = s_.table[i];
            for (uint32_t i = lane(k); i < 2 * S::depth * S::wide; i += S::threads) {
                auto& plane = m_.middle[i / S::wide / S::depth][i / S::wide % S::depth];
                plane[0][i % S::wide] = plane[S::high + 1][i % S::wide] = 0;
            }
            for (uint32_t i = lane(k); i < S::depth * w.source_count; i += S::threads) {
                m_.push[i % S::depth][i / S::depth] =
                    drive<T>(w.sources[i / S::depth], *w.clock + w.after + i % S::depth, w.pool);
            }
            for (uint32_t i = lane(k); i < 2 * S::depth * S::high * S::wide; i += S::threads) {
                const uint32_t plane = i / (S::high * S::wide);
                m_.middle[plane / S::depth][plane % S::depth][1 + i / S::wide % S::high]
                         [i % S::wide] = 0;
            }
        }
    }

    // Whether it is so for the whole warp: what follows is one way or the other, not both.
    DENIZEN_HD static bool of_all(bool b)
    {
#if DENIZEN_ON_DEVICE
        return __all_sync(~0u, b) != 0;
#else
        return b;
#endif
    }

    // Where row r of the strip lies along y, or a value outside; along x.
    DENIZEN_HD static int32_t fold(int32_t at, uint32_t size, bool periodic)
    {
        const auto n = static_cast<int32_t>(size);
        if (at >= 0 && at < n) return at;
        return periodic ? ((at % n) + n) % n : -1;
    }
    DENIZEN_HD int32_t x_of(uint32_t lane) const
    {
        return fold(x_ + static_cast<int32_t>(lane % S::strips * S::across), s_.layout.n[0],
                    s_.periodic_x);
    }
    DENIZEN_HD static uint32_t row_of(uint32_t lane, uint32_t r) // of the column
    {
        return lane / S::strips * S::rows + r;
    }
    DENIZEN_HD int32_t y_of(uint32_t lane, uint32_t r) const
    {
        return fold(y_ + static_cast<int32_t>(row_of(lane, r)), s_.layout.n[1], s_.periodic_y);
    }

    // A plane of the slab or beside it; null: zeros.
    DENIZEN_HD const T* plane(const T* own, const T* below, const T* above, int32_t z) const
    {
        const auto n = static_cast<int32_t>(s_.layout.n[2]);
        const T* const base = z < 0 ? below : z >= n ? above : own;
        const int32_t in = z < 0 ? z + 1 : z >= n ? z - n : z;
        return base == nullptr ? nullptr : base + in * static_cast<int64_t>(s_.layout.plane());
    }

    // Plane z comes in: it is asked for a turn before it is needed.
    DENIZEN_HD void fetch(Strip<T, S>& strip, uint32_t lane, int32_t z) const
    {
        const T* const now = plane(s_.now, s_.below, s_.above, z);
        const T* const before = plane(s_.before, p_.before_below, p_.before_above, z);
        const int32_t x = x_of(lane);
        DENIZEN_UNROLL
        for (uint32_t r = 0; r < S::rows; ++r) {
            const int32_t y = y_of(lane, r);
            strip.coming[r] = strip.coming_old[r] = {};
            strip.coming_kinds[r] = rigid;
            if (now == nullptr || x < 0 || y < 0) continue;
            const uint64_t at =
                s_.layout.row(static_cast<uint32_t>(y), 0) + static_cast<uint32_t>(x);
            strip.coming[r] = *reinterpret_cast<const Four<T>*>(now + at);
            strip.coming_old[r] = *reinterpret_cast<const Four<T>*>(before + at);
            strip.coming_kinds[r] = kinds_at(x, y, z);
        }
    }

    // Of four cells, as one word where that is aligned: like the cells it is on its way while the
    // plane before it is made. To ask first whether the whole segment is of one kind would be to
    // wait for the answer.
    DENIZEN_HD uint32_t kinds_at(int32_t x, int32_t y, int32_t z) const
    {
        const auto n = static_cast<int32_t>(s_.layout.n[0]);
        const int64_t row = static_cast<int64_t>(z) * s_.layout.n[1] + y;
        if (n % 4 == 0) {
            uint32_t all = 0;
            copy_bytes(&all, __builtin_assume_aligned(s_.kinds + row * n + x, 4), 4);
            return all;
        }
        const uint8_t same = s_.segments[row * segments_in(s_.layout.n[0]) + x / int32_t{segment}];
        if (same != mixed && x + 4 <= n) return same * 0x01010101u;
        const uint8_t* const kinds = s_.kinds + row * n + x;
        uint32_t all = 0;
        for (int32_t i = 0; i < 4 && x + i < n; ++i) all |= uint32_t{kinds[i]} << (8 * i);
        return all;
    }

    DENIZEN_HD static Four<T> four(const T* from)
    {
        return *reinterpret_cast<const Four<T>*>(from);
    }

    // Beside the strip along x: of the threads next to this one.
    DENIZEN_HD void beside(const Four<T>& here, const T* middle, uint32_t lane, T& left,
                           T& right) const
    {
        const uint32_t strip = lane % S::strips;
#if DENIZEN_ON_DEVICE
        (void)middle;
        left = __shfl_up_sync(~0u, here.v[3], 1, S::strips);
        right = __shfl_down_sync(~0u, here.v[0], 1, S::strips);
#else
        (void)here;
        left = strip == 0 ? 0 : middle[-1];
        right = strip == S::strips - 1 ? 0 : middle[S::across];
#endif
        if (strip == 0) left = 0;
        if (strip == S::strips - 1) right = 0;
    }

    DENIZEN_HD Four<T> made(uint32_t kinds, const Four<T>& here, const Four<T>& below,
                            const Four<T>& above, const Four<T>& south, const Four<T>& north,
                            T left, T right, const Four<T>& old) const
    {
        const auto made_of = [&](const auto& of) {
            return next_four(of, here, below, above, south, north, left, right, old);
        };
        if (of_all(kinds == plain * 0x01010101u)) {
            const Coefficients<T> open = m_.table[plain];
            return made_of([&](uint32_t) { return open; });
        }
        return made_of([&](uint32_t i) { return m_.table[kinds >> (8 * i) & (classes - 1)]; });
    }

    // Plane z has come in.
    DENIZEN_HD void advance(Strip<T, S>& strip, uint32_t lane, int32_t z)
    {
        Four<T> above[S::rows];
        Four<T> old[S::rows];
        Four<T> entered_old[S::rows];
        uint32_t entered_kinds[S::rows];
        DENIZEN_UNROLL
        for (uint32_t r = 0; r < S::rows; ++r) {
            above[r] = strip.coming[r];
            old[r] = strip.old[r];
            entered_old[r] = strip.coming_old[r];
            entered_kinds[r] = strip.coming_kinds[r];
        }
        if (z + 1 < last_ + static_cast<int32_t>(S::depth)) fetch(strip, lane, z + 1);
        const uint32_t column = lane % S::strips * S::across;
        DENIZEN_UNROLL
        for (uint32_t s = 0; s < S::depth; ++s) { // makes step s + 1 of plane z - s - 1
            const int32_t plane_at = z - static_cast<int32_t>(s) - 1;
            Four<T> result[S::rows];
            DENIZEN_UNROLL
            for (uint32_t r = 0; r < S::rows; ++r) {
                const uint32_t row = 1 + row_of(lane, r);
                const auto& middle = m_.middle[turn_][s];
                const Four<T> south =
                    r == 0 ? four(&middle[row - 1][column]) : strip.here[s][r == 0 ? 0 : r - 1];
                const Four<T> north = r + 1 == S::rows
                                          ? four(&middle[row + 1][column])
                                          : strip.here[s][r + 1 == S::rows ? r : r + 1];
                T left;
                T right;
                beside(strip.here[s][r], &middle[row][column], lane, left, right);
                result[r] = made(strip.kinds[s][r], strip.here[s][r], strip.below[s][r], above[r],
                                 south, north, left, right, old[r]);
            }
            if (p_.sweep.source_count != 0) add_sources(strip, lane, s, plane_at, result);
            const bool here_is_mine = plane_at >= first_ && plane_at < last_;
            if (here_is_mine && p_.sweep.receiver_count != 0) hear(lane, s, plane_at, result);
            if (here_is_mine && s + 1 == S::depth) store(strip, lane, plane_at, result);
            DENIZEN_UNROLL
            for (uint32_t r = 0; r < S::rows; ++r) {
                old[r] = strip.below[s][r]; // of the next step's middle plane
                strip.below[s][r] = strip.here[s][r];
                strip.here[s][r] = above[r];
                *reinterpret_cast<Four<T>*>(&m_.middle[turn_ ^ 1][s][1 + row_of(lane, r)][column]) =
                    above[r];
                above[r] = result[r];
            }
        }
        DENIZEN_UNROLL
        for (uint32_t r = 0; r < S::rows; ++r) {
            strip.old[r] = entered_old[r];
            DENIZEN_UNROLL
            for (uint32_t s = S::depth; s-- > 1;) strip.kinds[s][r] = strip.kinds[s - 1][r];
            strip.kinds[0][r] = entered_kinds[r];
        }
    }

    // Where in the strip a place of the grid is; 4: it is not.
    DENIZEN_HD uint32_t in_strip(uint32_t lane, uint32_t r, int32_t z, const int32_t at[3]) const
    {
        auto plane_at = static_cast<int32_t>(p_.sweep.first_plane) + z;
        const auto n = static_cast<int32_t>(p_.all_planes);
        if (p_.periodic_z) plane_at = fold(plane_at, p_.all_planes, true);
        const int32_t x = x_of(lane);
        if (plane_at < 0 || plane_at >= n || at[2] != plane_at || x < 0 || at[0] < x ||
            at[0] >= x + 4 || at[1] != y_of(lane, r)) {
            return 4;
        }
        return static_cast<uint32_t>(at[0] - x);
    }

    DENIZEN_HD void add_sources(const Strip<T, S>& strip, uint32_t lane, uint32_t s, int32_t z,
                                Four<T>* result) const
    {
        for (uint32_t k = 0; k < p_.sweep.source_count; ++k) {
            DENIZEN_UNROLL
            for (uint32_t r = 0; r < S::rows; ++r) {
                const uint32_t at = in_strip(lane, r, z, p_.sweep.sources[k].at);
                DENIZEN_UNROLL
                for (uint32_t i = 0; i < 4; ++i) {
                    const uint32_t kind = strip.kinds[s][r] >> (8 * i) & 0xff;
                    if (i == at && kind > soft) result[r].v[i] += m_.push[s][k];
                }
            }
        }
    }

    // Whether this block's value of a cell is right, and nobody else's counts.
    DENIZEN_HD bool inner(uint32_t lane, uint32_t r) const
    {
        const uint32_t strip = lane % S::strips;
        const int32_t x = x_ + static_cast<int32_t>(strip * S::across);
        const int32_t y = y_ + static_cast<int32_t>(row_of(lane, r));
        const auto nx = static_cast<int32_t>(s_.layout.n[0]);
        const auto ny = static_cast<int32_t>(s_.layout.n[1]);
        if (x < 0 || x >= nx || y < 0 || y >= ny) return false;
        const bool first_x = x_ == 0 && !s_.periodic_x;
        const bool last_x = x_ + static_cast<int32_t>(S::wide) >= nx && !s_.periodic_x;
        const bool first_y = y_ == 0 && !s_.periodic_y;
        const bool last_y = y_ + static_cast<int32_t>(S::high) >= ny && !s_.periodic_y;
        const uint32_t row = row_of(lane, r);
        return (strip > 0 || first_x) && (strip + 1 < S::strips || last_x) &&
               (row >= S::depth || first_y) && (row < S::high - S::depth || last_y);
    }

    DENIZEN_HD void hear(uint32_t lane, uint32_t s, int32_t z, const Four<T>* result) const
    {
        const Sweep<T>& w = p_.sweep;
        for (uint32_t k = 0; k < w.receiver_count; ++k) {
            DENIZEN_UNROLL
            for (uint32_t r = 0; r < S::rows; ++r) {
                const uint32_t at = in_strip(lane, r, z, w.receivers[k]);
                if (at == 4 || !inner(lane, r)) continue;
                const uint64_t step = *w.clock + w.after + s - *w.begun;
                DENIZEN_UNROLL
                for (uint32_t i = 0; i < 4; ++i) {
                    if (i == at) w.traces[uint64_t{k} * w.trace_steps + step] = result[r].v[i];
                }
            }
        }
    }

    DENIZEN_HD void store(const Strip<T, S>& strip, uint32_t lane, int32_t z,
                          const Four<T>* result) const
    {
        DENIZEN_UNROLL
        for (uint32_t r = 0; r < S::rows; ++r) {
            if (!inner(lane, r)) continue;
            const auto x = static_cast<uint32_t>(x_of(lane));
            const uint64_t row =
                s_.layout.row(static_cast<uint32_t>(y_of(lane, r)), static_cast<uint32_t>(z));
            keep(p_.to[0] + row, x, result[r]);
            keep(p_.to[1] + row, x, strip.here[S::depth - 1][r]);
        }
    }

    DENIZEN_HD void keep(T* row, uint32_t x, const Four<T>& cells) const
    {
        *reinterpret_cast<Four<T>*>(row + x) = cells;
        if (!s_.periodic_x) return;
        if (x == 0) row[s_.layout.n[0]] = cells.v[0]; // the ghosts
        if (x + S::across == s_.layout.n[0]) row[-1] = cells.v[S::across - 1];
    }

    const Pass<T>& p_;
    const Slab<T>& s_;
    PassMemory<T, S>& m_;
    int32_t x_; // where the column begins
    int32_t y_;
    int32_t first_; // planes of the block
    int32_t last_;
    uint32_t turn_ = 0; // which middle planes are read
};

} // namespace denizen::wave

// SPDX-License-Identifier: Apache-2.0
// What a tile does between two exchanges: it comes out of the fields, makes steps of itself and of
// as much of its shell as will be needed, with its sources and receivers, and goes back.
#pragma once

#include <denizen/wave/detail/tile_ground.hpp>

namespace denizen::wave {

template <class T, class S>
class TileSteps : public TileGround<T, S> {
protected:
    using Base = TileGround<T, S>;
    using Base::before;
    using Base::cells_;
    using Base::element_of;
    using Base::in_field;
    using Base::inside;
    using Base::m_;
    using Base::members;
    using Base::now;
    using Base::nowhere;
    using Base::own;
    using Base::place;
    using Base::r_;
    using Base::rank;
    using Base::sync;
    using Base::tile_;
    using Base::turn_;

    DENIZEN_HD TileSteps(const TileRun<T>& run, TileMemory<T, S>& memory, uint32_t number)
        : Base(run, memory, number), medium_(run.medium), sources_(run.control->checkpoint.sources)
    {
        medium_.damping = run.control->checkpoint.damping;
        if constexpr (apart) own_.at = strip_of(rank(), own_.outer);
    }

    // Whether each member makes one strip of four cells, those beside the shell first: only they
    // need what the neighbours send, and are sent, so the others are made while packets fly.
    static constexpr bool apart =
        S::depth == 1 && members == S::x / S::across * S::y * S::z && S::run == 1;

    // The strip of an `apart` member: first whole rows at the tile's sides, then the ends of the
    // other rows.
    DENIZEN_HD static uint32_t strip_of(uint32_t member, bool& outer)
    {
        constexpr uint32_t n = S::x / S::across;
        constexpr uint32_t rows = 2 * S::y + 2 * (S::z - 2);
        constexpr uint32_t inner_y = S::y - 2;
        constexpr uint32_t ends = 2 * inner_y * (S::z - 2);
        uint32_t x = member % n;
        uint32_t y = 0;
        uint32_t z = 0;
        outer = member < rows * n + ends;
        if (member < 2 * S::y * n) {
            y = member / n % S::y;
            z = member < S::y * n ? 0 : S::z - 1;
        } else if (member < rows * n) {
            const uint32_t row = member / n - 2 * S::y;
            y = row % 2 == 0 ? 0 : S::y - 1;
            z = 1 + row / 2;
        } else if (outer) {
            const uint32_t end = member - rows * n;
            x = end % 2 == 0 ? 0 : n - 1;
            y = 1 + end / 2 % inner_y;
            z = 1 + end / 2 / inner_y;
        } else {
            const uint32_t strip = member - rows * n - ends;
            x = 1 + strip % (n - 2);
            y = 1 + strip / (n - 2) % inner_y;
            z = 1 + strip / (n - 2) / inner_y;
        }
        return S::index(static_cast<int32_t>(S::across * x), static_cast<int32_t>(y),
                        static_cast<int32_t>(z));
    }

    // What an `apart` member keeps of its strip, after the start and whatever changes cells.
    DENIZEN_HD void learn()
    {
        if constexpr (apart) {
            DENIZEN_UNROLL
            for (uint32_t i = 0; i < 4; ++i) own_.of[i] = m_.table[m_.kind[own_.at + i]];
            own_.old = own_in(before());
            own_.now = own_in(now());
        }
    }

    // Its strip in field `p`.
    DENIZEN_HD Four<T> own_in(const T* p) const
    {
        return *reinterpret_cast<const Four<T>*>(p + own_.at);
    }

    // The member's strip, from the field `p` to the next, `q`.
    DENIZEN_HD void make_own(const T* p, T* q)
    {
        using F = Four<T>;
        const uint32_t at = own_.at;
        const auto four = [](const T* from) { return *reinterpret_cast<const F*>(from); };
        const F below = four(p + at - S::plane);
        const F above = four(p + at + S::plane);
        const F south = four(p + at - S::pitch);
        const F north = four(p + at + S::pitch);
        const F result = next_four([this](uint32_t i) { return own_.of[i]; }, own_.now, below,
                                   above, south, north, p[at - 1], p[at + S::across], own_.old);
        *reinterpret_cast<F*>(q + at) = result;
        own_.old = own_.now;
        own_.now = result;
    }

    // The tile and its shell, out of the fields. Several elements at a time: their ways through the
    // memory overlap.
    DENIZEN_HD void gather()
    {
        constexpr uint32_t batch = 4;
        const uint32_t incarnation = r_.control->checkpoint.incarnation;
        const bool odd = incarnation % 2 != 0;
        const T* const field[2] = {odd ? r_.fields[1][0] : r_.fields[0][0],
                                   odd ? r_.fields[1][1] : r_.fields[0][1]};
        const uint8_t* const kinds = incarnation == 0 ? nullptr : odd ? r_.kinds[1] : r_.kinds[0];
        for (uint32_t first = rank(); first < S::elements; first += batch * members) {
            T value[2][batch] = {};
            uint8_t kind[batch];
            DENIZEN_UNROLL
            for (uint32_t b = 0; b < batch; ++b) {
                const uint32_t i = first + b * members;
                int32_t at[3];
                kind[b] = rigid;
                if (i >= S::elements || !place(i, at) || !inside(at)) continue;
                value[0][b] = field[0][in_field(at)];
                value[1][b] = field[1][in_field(at)];
                if (kinds != nullptr) kind[b] = kinds[cells_.geometry.index(at)];
            }
            DENIZEN_UNROLL
            for (uint32_t b = 0; b < batch; ++b) {
                const uint32_t i = first + b * members;
                if (i >= S::elements) continue;
                m_.field[0][i] = value[0][b];
                m_.field[1][i] = value[1][b];
                m_.kind[i] = kind[b];
            }
        }
        for (uint32_t i = rank(); kinds == nullptr && i < S::elements; i += members) {
            int32_t at[3];
            if (place(i, at)) m_.kind[i] = cells_.class_at(at);
        }
        set_table();
        if (rank() == 0) {
            m_.late = 0;
            m_.go = load<Scope::gpu>(&r_.control->go);
            m_.listening = 0;
        }
        sync();
        for (uint32_t k = rank(); k < r_.receiver_count; k += members) {
            const uint16_t element = element_of(r_.receivers[k], 0);
            if (element == nowhere) continue;
            const uint32_t i = fetch_add<Scope::block>(&m_.listening, 1u);
            m_.heard[i] = element;
            m_.hears[i] = static_cast<uint16_t>(k);
        }
    }

    DENIZEN_HD void set_table()
    {
        for (uint32_t i = rank(); i < classes; i += members) {
            m_.table[i] = coefficients<T>(i, medium_);
        }
    }

    DENIZEN_HD void scatter()
    {
        const bool odd = r_.control->checkpoint.incarnation % 2 != 0;
        T* const field[2] = {odd ? r_.fields[0][0] : r_.fields[1][0],
                             odd ? r_.fields[0][1] : r_.fields[1][1]};
        uint8_t* const kinds = odd ? r_.kinds[0] : r_.kinds[1];
        for (uint32_t i = rank(); i < S::elements; i += members) {
            int32_t at[3];
            place(i, at);
            if (!own(i) || !inside(at)) continue;
            field[0][in_field(at)] = now()[i];
            field[1][in_field(at)] = before()[i];
            if (kinds != nullptr) kinds[cells_.geometry.index(at)] = m_.kind[i];
        }
    }

    // Sources beside the tile count too where the shell is computed here. All members call it.
    DENIZEN_HD void find_sources()
    {
        for (uint32_t i = rank(); i < most_sources; i += members) {
            m_.source_at[i] = i < sources_ ? element_of(r_.sources[i].at, S::depth - 1) : nowhere;
        }
        sync();
        if (rank() == 0) {
            m_.has_sources = 0;
            for (uint32_t i = 0; i < sources_; ++i) m_.has_sources |= m_.source_at[i] != nowhere;
        }
        sync();
        touched_ = m_.has_sources != 0 || m_.listening != 0;
    }

    // What the sources will add in step `step`.
    DENIZEN_HD void prepare(uint32_t step)
    {
        if (!touched_ || m_.has_sources == 0) return;
        for (uint32_t i = rank(); i < sources_; i += members) {
            if (m_.source_at[i] != nowhere) {
                m_.push[i] = drive<T>(r_.sources[i], r_.first + step, r_.pool);
            }
        }
    }

    // Sources and receivers, by one thread: two sources may share a cell.
    DENIZEN_HD void touch(uint32_t step)
    {
        if (rank() != 0) return;
        for (uint32_t i = 0; m_.has_sources != 0 && i < sources_; ++i) {
            const uint16_t at = m_.source_at[i];
            if (at != nowhere && m_.kind[at] > soft) now()[at] += m_.push[i];
        }
        for (uint32_t k = 0; k < m_.listening; ++k) {
            r_.traces[uint64_t{m_.hears[k]} * r_.steps + step] = now()[m_.heard[k]];
        }
    }

    // One step of the tile and of as much of its shell as will be needed.
    template <uint32_t Since>
    DENIZEN_HD void advance_by(uint32_t since)
    {
        if constexpr (Since + 1 < S::depth) {
            if (since != Since) {
                advance_by<Since + 1>(since);
                return;
            }
        }
        advance<S::depth - 1 - Since>();
    }

    template <uint32_t Beyond>
    DENIZEN_HD void advance()
    {
        constexpr uint32_t beside = Beyond == 0 ? 0 : 1; // strips on either side
        constexpr uint32_t strips = S::x / S::across + 2 * beside;
        constexpr uint32_t wide = S::y + 2 * Beyond;
        constexpr uint32_t deep = S::z + 2 * Beyond;
        constexpr uint32_t runs = (deep + S::run - 1) / S::run;
        for (uint32_t c = rank(); c < strips * wide * runs; c += members) {
            const uint32_t z = c / (strips * wide) * S::run;
            column(S::index(static_cast<int32_t>(S::across) *
                                (static_cast<int32_t>(c % strips) - static_cast<int32_t>(beside)),
                            static_cast<int32_t>(c / strips % wide) - static_cast<int32_t>(Beyond),
                            static_cast<int32_t>(z) - static_cast<int32_t>(Beyond)),
                   deep - z < S::run ? deep - z : S::run);
        }
    }

    // Four cells side by side, plane after plane.
    DENIZEN_HD void column(uint32_t at, uint32_t planes)
    {
        using F = Four<T>;
        const T* const p = now();
        T* const q = before();
        const auto four = [](const T* from) { return *reinterpret_cast<const F*>(from); };
        const Coefficients<T> usual = m_.table[plain];
        F below = four(p + at - S::plane);
        F here = four(p + at);
        DENIZEN_UNROLL
        for (uint32_t k = 0; k < S::run; ++k) {
            if (k >= planes) break;
            const F above = four(p + at + S::plane);
            const F south = four(p + at - S::pitch);
            const F north = four(p + at + S::pitch);
            uint32_t kinds;
            copy_bytes(&kinds, __builtin_assume_aligned(&m_.kind[at], 4), 4);
            const bool all_usual = kinds == plain * 0x01010101u;
            const auto of = [&](uint32_t i) {
                return all_usual ? usual : m_.table[kinds >> (8 * i) & (classes - 1)];
            };
            *reinterpret_cast<F*>(q + at) = next_four(of, here, below, above, south, north,
                                                      p[at - 1], p[at + S::across], four(q + at));
            below = here;
            here = above;
            at += S::plane;
        }
    }

    struct Own {
        uint32_t at = 0; // element
        bool outer = false;
        Coefficients<T> of[4];
        Four<T> old; // before now
        Four<T> now; // as in the field, which the neighbours read
    };
    Own own_;
    Medium medium_;
    uint32_t sources_;
    bool touched_ = false; // there are sources or receivers in this tile
};

} // namespace denizen::wave

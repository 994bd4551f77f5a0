// SPDX-License-Identifier: Apache-2.0
// A tile through all steps of a run: a block of a cooperative kernel, whose shared memory holds it,
// or a thread of the host. Where the time of a step goes on a GPU is in docs/wave.md.
#pragma once

#include <denizen/wave/control.hpp>
#include <denizen/wave/layout.hpp>
#include <denizen/wave/plan.hpp>

#if DENIZEN_HOSTED && !DENIZEN_ON_DEVICE
#include <sched.h>
#endif

namespace denizen::wave {

// What all tiles of a run share. Fields lie as layout.hpp says; `to` is not `from`: a neighbour may
// still be reading when a tile writes.
template <class T>
struct TileRun {
    Cells cells; // edits: those at the start; commands append
    Medium medium;
    Layout layout;
    const T* from[2]; // now, before
    T* to[2];
    uint32_t tiles[3]; // along x, y, z
    uint32_t steps;
    uint64_t first; // step of the simulation that the run begins with
    uint64_t patience_ns;
    const Hop* outgoing; // hops()
    const Hop* incoming;
    Packet* mail; // for each tile two halves of hops()
    Control* control;
    const Request* commands;
    const Source* sources; // commands append
    uint32_t source_count;
    const float* pool;
    const int32_t (*receivers)[3];
    uint32_t receiver_count;
    T* traces; // for each receiver `steps`
    T* window; // what is read: of the box, x fastest
};

// A tile in the memory of its block.
template <class T, class S>
struct TileMemory {
    alignas(16) T field[2][S::elements];
    Coefficients<T> table[classes];
    alignas(16) uint8_t kind[S::elements]; // class of each cell
    T push[most_sources];                  // what sources add in the step to come
    uint16_t source_at[most_sources];      // their elements; none: not in this tile
    uint16_t heard[most_receivers];        // elements of the receivers in this tile
    uint16_t hears[most_receivers];        // and which they are
    uint32_t listening;                    // how many
    uint32_t has_sources;
    uint32_t late;
    uint64_t go;
};

template <class T, class S>
class Tile {
public:
#if DENIZEN_ON_DEVICE
    static constexpr uint32_t members = S::threads;
    __device__ static uint32_t rank() { return threadIdx.x; }
    __device__ static void sync() { __syncthreads(); }
#else
    static constexpr uint32_t members = 1;
    DENIZEN_HD static uint32_t rank() { return 0; }
    DENIZEN_HD static void sync() {}
#endif

    DENIZEN_HD Tile(const TileRun<T>& run, TileMemory<T, S>& memory, uint32_t number)
        : r_(run), m_(memory), number_(number), cells_(run.cells), medium_(run.medium),
          sources_(run.source_count), end_(run.steps)
    {
        const uint32_t at[3] = {number % run.tiles[0], number / run.tiles[0] % run.tiles[1],
                                number / (run.tiles[0] * run.tiles[1])};
        for (uint32_t axis = 0; axis < 3; ++axis) tile_[axis] = static_cast<int32_t>(at[axis]);
    }

    // All members of the tile call it.
    DENIZEN_HD void run()
    {
        gather();
        sync();
        find_sources();
        sync();
        prepare(0);
        sync();
        if (rank() == 0 && number_ == 0) store<Scope::gpu>(&r_.control->began, now_ns());
        uint32_t step = 0;
        uint32_t exchange = 0;
        uint32_t since = 0; // steps since the shell was renewed
        Mail mail = mail_of();
        while (proceed(step)) { // ends with the last step, by a command, or late
            advance_by<0>(since);
            turn_ ^= 1;
            sync();
            if (m_.has_sources != 0 || m_.listening != 0) {
                touch(step);
                sync();
            }
            ++step;
            const bool renew = ++since == S::depth;
            if (renew) {
                ++exchange;
                since = 0;
                send(mail, exchange);
            }
            const uint64_t go = rank() == 0 ? load<Scope::gpu>(&r_.control->go) : 0;
            prepare(step); // while the packets fly
            if (renew) receive(mail, exchange);
            if (rank() == 0) {
                m_.go = go;
                if (number_ == 0) store<Scope::gpu>(&r_.control->progress, step);
            }
            sync();
        }
        scatter();
        sync();
        if (rank() == 0) {
            fetch_max<Scope::gpu>(&r_.control->ended, now_ns());
            // Release: partner of the acquire of whoever sees that all have left.
            fetch_add<Scope::gpu, Order::release>(&r_.control->left, 1u);
        }
    }

private:
    static constexpr uint32_t packets = hops<T, S>();
    static constexpr uint32_t own_packets = (packets + members - 1) / members;
    static constexpr uint16_t nowhere = Hop::none;

    // What this thread sends and receives; the same in every exchange.
    struct Mail {
        Hop out[own_packets];
        Hop in[own_packets];
        uint32_t slot[own_packets]; // of all mail; none: there is no such neighbour
        uint32_t in_slot[own_packets];
    };
    static constexpr uint32_t no_slot = ~0u;

    DENIZEN_HD T* now() { return m_.field[turn_]; }
    DENIZEN_HD T* before() { return m_.field[turn_ ^ 1]; }

    // Where an element of the tile lies in the grid; may be outside.
    DENIZEN_HD bool place(uint32_t element, int32_t at[3]) const
    {
        const int32_t local[3] = {
            static_cast<int32_t>(element % S::pitch) - static_cast<int32_t>(S::across),
            static_cast<int32_t>(element / S::pitch % S::rows) - static_cast<int32_t>(S::depth),
            static_cast<int32_t>(element / S::plane) - static_cast<int32_t>(S::depth)};
        const int32_t size[3] = {S::x, S::y, S::z};
        for (uint32_t axis = 0; axis < 3; ++axis) at[axis] = tile_[axis] * size[axis] + local[axis];
        const auto depth = static_cast<int32_t>(S::depth);
        return local[0] >= -depth && local[0] < size[0] + depth;
    }

    DENIZEN_HD bool inside(int32_t at[3]) const
    {
        uint32_t axis = 0;
        return cells_.geometry.wrap(at, axis);
    }

    DENIZEN_HD bool own(uint32_t element) const
    {
        const uint32_t x = element % S::pitch;
        const uint32_t y = element / S::pitch % S::rows;
        const uint32_t z = element / S::plane;
        return x >= S::across && x < S::across + S::x && y >= S::depth && y < S::depth + S::y &&
               z >= S::depth && z < S::depth + S::z;
    }

    DENIZEN_HD uint64_t in_field(const int32_t at[3]) const
    {
        return r_.layout.index(static_cast<uint32_t>(at[0]), static_cast<uint32_t>(at[1]),
                               static_cast<uint32_t>(at[2]));
    }

    // The tile and its shell, out of the fields.
    DENIZEN_HD void gather()
    {
        for (uint32_t i = rank(); i < S::elements; i += members) {
            int32_t at[3];
            const bool near = place(i, at);
            m_.kind[i] = near ? cells_.class_at(at) : rigid;
            const bool real = near && inside(at);
            m_.field[0][i] = real ? r_.from[0][in_field(at)] : 0;
            m_.field[1][i] = real ? r_.from[1][in_field(at)] : 0;
        }
        set_table();
        if (rank() != 0) return;
        m_.late = 0;
        m_.go = 0;
        m_.listening = 0;
        for (uint32_t k = 0; k < r_.receiver_count; ++k) {
            const uint16_t element = element_of(r_.receivers[k], 0);
            if (element == nowhere) continue;
            m_.heard[m_.listening] = element;
            m_.hears[m_.listening++] = static_cast<uint16_t>(k);
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
        for (uint32_t i = rank(); i < S::elements; i += members) {
            int32_t at[3];
            place(i, at);
            if (!own(i) || !inside(at)) continue;
            r_.to[0][in_field(at)] = now()[i];
            r_.to[1][in_field(at)] = before()[i];
        }
    }

    // The element of a cell of the grid in this tile or up to `shell` cells beside it.
    DENIZEN_HD uint16_t element_of(const int32_t cell[3], uint32_t shell) const
    {
        const int32_t size[3] = {S::x, S::y, S::z};
        int32_t local[3];
        for (uint32_t axis = 0; axis < 3; ++axis) {
            const auto n = static_cast<int32_t>(cells_.geometry.n[axis]);
            const auto reach = static_cast<int32_t>(shell);
            local[axis] = cell[axis] - tile_[axis] * size[axis];
            if (cells_.geometry.periodic(axis)) {
                if (local[axis] >= size[axis] + reach) local[axis] -= n;
                if (local[axis] < -reach) local[axis] += n;
            }
            if (local[axis] < -reach || local[axis] >= size[axis] + reach) return nowhere;
        }
        return static_cast<uint16_t>(S::index(local[0], local[1], local[2]));
    }

    // Sources beside the tile count too where the shell is computed here.
    DENIZEN_HD void find_sources()
    {
        for (uint32_t i = rank(); i < most_sources; i += members) {
            m_.source_at[i] = i < sources_ ? element_of(r_.sources[i].at, S::depth - 1) : nowhere;
        }
        sync();
        if (rank() != 0) return;
        m_.has_sources = 0;
        for (uint32_t i = 0; i < sources_; ++i) m_.has_sources |= m_.source_at[i] != nowhere;
    }

    // What the sources will add in step `step`.
    DENIZEN_HD void prepare(uint32_t step)
    {
        if (m_.has_sources == 0) return;
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
        DENIZEN_WAVE_UNROLL
        for (uint32_t k = 0; k < S::run; ++k) {
            if (k >= planes) break;
            const F above = four(p + at + S::plane);
            const F south = four(p + at - S::pitch);
            const F north = four(p + at + S::pitch);
            const T left = p[at - 1];
            const T right = p[at + S::across];
            F result = four(q + at);
            uint32_t kinds;
            copy_bytes(&kinds, __builtin_assume_aligned(&m_.kind[at], 4), 4);
            const bool all_usual = kinds == plain * 0x01010101u;
            DENIZEN_WAVE_UNROLL
            for (uint32_t i = 0; i < 4; ++i) {
                const T west = i == 0 ? left : here.v[i == 0 ? 0 : i - 1];
                const T east = i == 3 ? right : here.v[i == 3 ? 3 : i + 1];
                const T sum =
                    ((below.v[i] + above.v[i]) + (south.v[i] + north.v[i])) + (west + east);
                const Coefficients<T> c =
                    all_usual ? usual : m_.table[kinds >> (8 * i) & (classes - 1)];
                result.v[i] = next(c, here.v[i], sum, result.v[i]);
            }
            *reinterpret_cast<F*>(q + at) = result;
            below = here;
            here = above;
            at += S::plane;
        }
    }

    DENIZEN_HD uint32_t neighbour(uint32_t side) const
    {
        const int32_t step[3] = {static_cast<int32_t>(side % 3) - 1,
                                 static_cast<int32_t>(side / 3 % 3) - 1,
                                 static_cast<int32_t>(side / 9) - 1};
        uint32_t at[3];
        for (uint32_t axis = 0; axis < 3; ++axis) {
            const auto n = static_cast<int32_t>(r_.tiles[axis]);
            int32_t there = tile_[axis] + step[axis];
            if (there < 0 || there >= n) {
                if (!cells_.geometry.periodic(axis)) return no_slot;
                there += there < 0 ? n : -n;
            }
            at[axis] = static_cast<uint32_t>(there);
        }
        return (at[2] * r_.tiles[1] + at[1]) * r_.tiles[0] + at[0];
    }

    DENIZEN_HD Mail mail_of() const
    {
        Mail mail;
        DENIZEN_WAVE_UNROLL
        for (uint32_t r = 0; r < own_packets; ++r) {
            const uint32_t k = rank() + r * members;
            mail.slot[r] = mail.in_slot[r] = no_slot;
            if (k >= packets) continue;
            mail.out[r] = r_.outgoing[k];
            mail.in[r] = r_.incoming[k];
            const uint32_t to = neighbour(mail.out[r].side);
            if (to != no_slot) mail.slot[r] = 2 * to * packets + mail.out[r].slot;
            if (neighbour(mail.in[r].side) != no_slot) {
                mail.in_slot[r] = 2 * number_ * packets + k;
            }
        }
        return mail;
    }

    DENIZEN_HD T& word_at(uint16_t at)
    {
        return at < S::elements ? now()[at] : before()[at - S::elements];
    }

    DENIZEN_HD void send(const Mail& mail, uint32_t exchange)
    {
        const uint32_t half = exchange % 2 * packets;
        DENIZEN_WAVE_UNROLL
        for (uint32_t r = 0; r < own_packets; ++r) {
            if (mail.slot[r] == no_slot) continue;
            Packet packet{{0, 0, 0}, exchange};
            T carried[words<T>] = {};
            DENIZEN_WAVE_UNROLL
            for (uint32_t w = 0; w < words<T>; ++w) {
                const uint16_t at = mail.out[r].at[w];
                if (at != nowhere) carried[w] = word_at(at);
            }
            copy_bytes(packet.word, carried, sizeof carried);
            store_packet<Scope::gpu>(r_.mail + mail.slot[r] + half, packet);
        }
    }

    // Asks for four packets at a time: their ways through L2 overlap.
    DENIZEN_HD void receive(const Mail& mail, uint32_t exchange)
    {
        constexpr uint32_t batch = 4;
        const uint32_t half = exchange % 2 * packets;
        uint32_t looks = 0;
        uint64_t begun = 0;
        DENIZEN_WAVE_UNROLL
        for (uint32_t first = 0; first < own_packets; first += batch) {
            uint32_t open = 0;
            DENIZEN_WAVE_UNROLL
            for (uint32_t b = 0; b < batch; ++b) {
                if (first + b < own_packets && mail.in_slot[first + b] != no_slot) open |= 1u << b;
            }
            while (open != 0) { // ends with the packets, or when somebody is late
                Packet packet[batch];
                DENIZEN_WAVE_UNROLL
                for (uint32_t b = 0; b < batch; ++b) {
                    if (open >> b & 1) {
                        packet[b] =
                            load_packet<Scope::gpu>(r_.mail + mail.in_slot[first + b] + half);
                    }
                }
                DENIZEN_WAVE_UNROLL
                for (uint32_t b = 0; b < batch; ++b) {
                    if ((open >> b & 1) == 0 || packet[b].sequence != exchange) continue;
                    open &= ~(1u << b);
                    T carried[words<T>];
                    copy_bytes(carried, packet[b].word, sizeof carried);
                    DENIZEN_WAVE_UNROLL
                    for (uint32_t w = 0; w < words<T>; ++w) {
                        const uint16_t at = mail.in[first + b].at[w];
                        if (at != nowhere) word_at(at) = carried[w];
                    }
                }
                if (open != 0 && give_up(looks, begun)) return;
            }
        }
    }

    DENIZEN_HD bool give_up(uint32_t& looks, uint64_t& begun)
    {
        ++looks;
#if DENIZEN_HOSTED && !DENIZEN_ON_DEVICE
        if (looks % 16 == 0) sched_yield(); // there may be fewer cores than tiles
#endif
        if (looks % 1024 != 0) return false;
        const uint64_t now = now_ns();
        if (begun == 0) begun = now;
        if (now - begun > r_.patience_ns) store<Scope::gpu>(&r_.control->late, 1u);
        if (load<Scope::gpu>(&r_.control->late) == 0) return false;
        m_.late = 1;
        return true;
    }

    // Whether step `step` may begin; serves the commands that belong in front of it.
    DENIZEN_HD bool proceed(uint32_t step)
    {
        Backoff idle;
        while (true) { // ends when the conductor lets the tile go on, or it is late
            const uint64_t go = m_.go;
            const bool late = m_.late != 0;
            if (late) return false;
            if (static_cast<uint32_t>(go >> 32) > known_) {
                // Acquire: partner of the conductor's release; sync() passes it on to all members.
                if (rank() == 0) (void)load<Scope::gpu, Order::acquire>(&r_.control->go);
                sync();
                while (known_ < static_cast<uint32_t>(go >> 32) &&
                       r_.commands[known_].step == step) {
                    serve(r_.commands[known_++], step);
                }
            }
            if (step == end_) return false;
            if (step < static_cast<uint32_t>(go)) return true;
            sync();
            if (rank() == 0) {
                idle.pause();
                m_.go = load<Scope::gpu>(&r_.control->go);
                m_.late = load<Scope::gpu>(&r_.control->late);
            }
            sync();
        }
    }

    DENIZEN_HD void serve(const Request& command, uint32_t step)
    {
        sync();
        switch (command.act) {
        case Act::source:
            ++sources_;
            find_sources();
            sync();
            prepare(step);
            break;
        case Act::damping:
            medium_.damping = command.value;
            set_table();
            break;
        case Act::cells:
            ++cells_.edited;
            change(command.edit);
            break;
        case Act::read: show(command.edit.box); break;
        case Act::end: end_ = step; break;
        case Act::pause:
        case Act::resume: break; // the conductor's
        }
        sync();
    }

    DENIZEN_HD bool touches(const Box& box, const int32_t at[3]) const
    {
        if (box.contains(at)) return true;
        for (uint32_t side = 0; side < 6; ++side) {
            int32_t beside[3] = {at[0], at[1], at[2]};
            beside[side / 2] += side % 2 == 0 ? -1 : 1;
            if (inside(beside) && box.contains(beside)) return true;
        }
        return false;
    }

    // Cells of the grid, as places: from low to one before high.
    struct Range {
        int32_t low[3];
        uint32_t size[3];

        DENIZEN_HD uint32_t cells() const { return size[0] * size[1] * size[2]; }
        DENIZEN_HD void at(uint32_t i, int32_t place[3]) const
        {
            place[0] = low[0] + static_cast<int32_t>(i % size[0]);
            place[1] = low[1] + static_cast<int32_t>(i / size[0] % size[1]);
            place[2] = low[2] + static_cast<int32_t>(i / (size[0] * size[1]));
        }
    };

    // The tile's cells and `shell` beside them that are in the box or at most `reach` beside it;
    // where the tile meets the other end of a periodic axis, all along that.
    DENIZEN_HD Range near(const Box& box, int32_t shell, int32_t reach) const
    {
        const int32_t size[3] = {S::x, S::y, S::z};
        Range range{};
        DENIZEN_WAVE_UNROLL
        for (uint32_t axis = 0; axis < 3; ++axis) {
            const auto n = static_cast<int32_t>(cells_.geometry.n[axis]);
            int32_t low = tile_[axis] * size[axis] - shell;
            int32_t high = low + size[axis] + 2 * shell;
            if (!cells_.geometry.periodic(axis) || (low >= 0 && high <= n)) {
                low = low > box.low[axis] - reach ? low : box.low[axis] - reach;
                high = high < box.high[axis] + reach ? high : box.high[axis] + reach;
            }
            range.low[axis] = low;
            range.size[axis] = high > low ? static_cast<uint32_t>(high - low) : 0;
        }
        return range;
    }

    DENIZEN_HD uint32_t element_at(const int32_t place[3]) const
    {
        return S::index(place[0] - tile_[0] * static_cast<int32_t>(S::x),
                        place[1] - tile_[1] * static_cast<int32_t>(S::y),
                        place[2] - tile_[2] * static_cast<int32_t>(S::z));
    }

    DENIZEN_HD void change(const Edit& edit)
    {
        const bool solid = edit.cell >= static_cast<uint32_t>(Cell::reflector);
        const Range range = near(edit.box, S::depth, 1);
        for (uint32_t i = rank(); i < range.cells(); i += members) {
            int32_t at[3];
            range.at(i, at);
            const uint32_t element = element_at(at);
            if (!inside(at) || !touches(edit.box, at)) continue;
            m_.kind[element] = cells_.class_at(at);
            if (solid && edit.box.contains(at)) m_.field[0][element] = m_.field[1][element] = 0;
        }
    }

    DENIZEN_HD void show(const Box& box)
    {
        const auto wide = static_cast<uint32_t>(box.high[0] - box.low[0]);
        const auto high = static_cast<uint32_t>(box.high[1] - box.low[1]);
        const Range range = near(box, 0, 0);
        if (range.cells() == 0) return;
        for (uint32_t i = rank(); i < range.cells(); i += members) {
            int32_t at[3];
            range.at(i, at);
            const auto x = static_cast<uint64_t>(at[0] - box.low[0]);
            const auto y = static_cast<uint64_t>(at[1] - box.low[1]);
            const auto z = static_cast<uint64_t>(at[2] - box.low[2]);
            r_.window[(z * high + y) * wide + x] = now()[element_at(at)];
        }
        sync();
        // Release: partner of the conductor's acquire, which then tells the host.
        if (rank() == 0) fetch_add<Scope::system, Order::release>(&r_.control->read, 1u);
    }

    const TileRun<T>& r_;
    TileMemory<T, S>& m_;
    uint32_t number_;
    int32_t tile_[3];
    Cells cells_;
    Medium medium_;
    uint32_t sources_;
    uint32_t known_ = 0; // commands served
    uint32_t end_;
    uint32_t turn_ = 0; // which field is now
};

} // namespace denizen::wave

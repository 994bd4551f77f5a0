// SPDX-License-Identifier: Apache-2.0
// The resident worker: it takes a quantum, or a piece of one, through a whole chain of blocks and
// tells the host. On the GPU it is a warp. The quantum lies in pinned memory and crosses the bus
// once in each direction: it is copied to the worker's own device memory first, where the blocks
// read and write two areas by turns, and the last one writes the results where the host wants them.
//
// Quanta of a stream go to several workers by turns, and one that comes alone in pieces. That is
// why blocks keep no state: what a filter needs of the time before lies in front of its own samples
// (`before`), put there by the host, and each block makes the few outputs more that the next one
// needs.
#pragma once

#include <denizen/actor/context.hpp>
#include <denizen/flow/resident/piece.hpp>

namespace denizen::flow::resident {

struct alignas(16) Quad {
    uint32_t word[4];
};

// `bytes` bytes from where both begin equally far behind a 16-byte boundary; what lies between that
// boundary and the first byte is copied too. Eight loads are under way before the first store.
template <class Context>
DENIZEN_HD void copy_in(const Context& team, const unsigned char* from, unsigned char* to,
                        uint64_t bytes)
{
    const uint64_t skew = reinterpret_cast<uint64_t>(from) % 16;
    const Quad* source = reinterpret_cast<const Quad*>(from - skew);
    Quad* target = reinterpret_cast<Quad*>(to - skew);
    const uint64_t quads = (skew + bytes + 15) / 16;
    constexpr uint32_t batch = 8;
    const uint64_t step = team.lanes();
    for (uint64_t begin = team.lane(); begin < quads; begin += batch * step) {
        Quad hold[batch];
        for (uint32_t k = 0; k < batch; ++k) {
            if (begin + k * step < quads) {
                hold[k] = source[begin + k * step];
            }
        }
        for (uint32_t k = 0; k < batch; ++k) {
            if (begin + k * step < quads) {
                target[begin + k * step] = hold[k];
            }
        }
    }
}

template <class... Kinds>
struct Worker {
    static constexpr auto grain = denizen::Grain::warp;

    Setup chain;

    DENIZEN_HD void on(const Setup& m, auto& ctx)
    {
        if (ctx.lane() == 0) {
            chain = m;
        }
        ctx.sync();
    }

    DENIZEN_HD void on(const Values& m, auto& ctx)
    {
        const auto memory = ctx.template data<float>(chain.memory);
        if (memory) {
            float* values = memory.data + chain.stage[m.stage].values_at + m.first;
            for (uint32_t i = ctx.lane(); i < m.count; i += ctx.lanes()) {
                values[i] = m.value[i];
            }
        }
        ctx.sync();
    }

    DENIZEN_HD void on(const Scalars& m, auto& ctx)
    {
        if (ctx.lane() == 0) {
            chain.stage[m.stage].a = m.a;
            chain.stage[m.stage].b = m.b;
        }
        ctx.sync();
    }

    DENIZEN_HD void on(const Job& m, auto& ctx)
    {
        const auto quantum = ctx.template data<unsigned char>(m.quantum);
        const auto memory = ctx.template data<unsigned char>(chain.memory);
        if (!quantum || !memory) {
            ctx.reply(Done{chain.chain, m.ticket, 1});
            return;
        }
        float* values = reinterpret_cast<float*>(memory.data);
        unsigned char* area[2] = {memory.data + chain.areas_at,
                                  memory.data + chain.areas_at + chain.area};
        const uint32_t ahead = chain.stage[0].before * chain.stage[0].in_bytes;
        const unsigned char* from = quantum.data + m.offset - ahead;
        unsigned char* at = area[0] + reinterpret_cast<uint64_t>(from) % 16;
        copy_in(ctx, from, at, uint64_t{ahead} + uint64_t{m.count} * chain.stage[0].in_bytes);
        at += ahead;
        const unsigned char* beside = nullptr;
        if (chain.beside_at != 0) {
            const uint32_t before = chain.stage[0].before * chain.beside_bytes;
            const unsigned char* second = quantum.data + m.results + chain.beside_at - before;
            unsigned char* to = memory.data + chain.areas_at + 2 * uint64_t{chain.area} +
                                reinterpret_cast<uint64_t>(second) % 16;
            copy_in(ctx, second, to, uint64_t{before} + uint64_t{m.count} * chain.beside_bytes);
            beside = to + before;
        }
        ctx.sync();
        uint64_t position = m.position;
        uint32_t count = m.count;
        for (uint32_t s = 0; s < chain.stages; ++s) { // ends: max_stages at most
            const Stage& stage = chain.stage[s];
            const uint64_t first = first_output(position, stage.up, stage.down);
            const auto made =
                static_cast<uint32_t>(first_output(position + count, stage.up, stage.down) - first);
            const bool last = s + 1 == chain.stages;
            unsigned char* other = area[(s + 1) % 2];
            unsigned char* to =
                last ? quantum.data + m.results : other + uint64_t{stage.keeps} * stage.out_bytes;
            const auto base = static_cast<uint32_t>(first * stage.down - position * stage.up);
            make<Kinds...>(stage.kind, piece_of(ctx, stage, values + stage.values_at, at, beside,
                                                to, last ? other : nullptr, first, base,
                                                -static_cast<int64_t>(stage.keeps), int64_t{made}));
            if (first < stage.keeps) { // before the stream there are zeros
                ctx.sync();
                const uint64_t none = (stage.keeps - first) * stage.out_bytes;
                unsigned char* begin = to - uint64_t{stage.keeps} * stage.out_bytes;
                for (uint64_t i = ctx.lane(); i < none; i += ctx.lanes()) {
                    begin[i] = 0;
                }
            }
            ctx.sync();
            at = to;
            beside = nullptr;
            position = first;
            count = made;
        }
        ctx.reply(Done{chain.chain, m.ticket, 0});
    }

private:
    template <class Context, class... Rest>
    static DENIZEN_HD Piece<Context> piece_of(const Context& team, const Stage& stage, Rest... rest)
    {
        return {team, stage, rest...};
    }
    template <class Kind, class... Rest, class P>
    static DENIZEN_HD void make(uint32_t kind, const P& piece)
    {
        if (kind == 0) {
            Kind::make(piece);
        } else if constexpr (sizeof...(Rest) > 0) {
            make<Rest...>(kind - 1, piece);
        }
    }
};

} // namespace denizen::flow::resident

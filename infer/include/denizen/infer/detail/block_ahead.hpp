// SPDX-License-Identifier: Apache-2.0
// Behind the answer of a round of one request: W_hh h and the biases, of which the stream's next
// step will not have to wait, and what the stream keeps. By all warps of a block when the answer is
// sent, or by half of them while the others make it, each op's as soon as its value is there: where
// a recurrent matrix lies in device memory it takes longer than the host's way there and back.
#pragma once

#include <denizen/infer/detail/block_one.hpp>

namespace denizen::infer::detail {

// A group's rows times the floats at x, of weights of which none is held: of so many chunks they
// are on their way at once.
template <Format F, int together>
DENIZEN_HD inline Rows sum_of_rows(const unsigned char* w, const float* x, uint32_t chunks)
{
#if DENIZEN_ON_DEVICE
    Quad of{};
    add_chunks<F, together>(of, w + lanes::id() * 4 * format_bytes(F), x + lanes::id() * 4, 0,
                            chunks);
    return {{row_of_lanes(of)}};
#else
    return sum_rows<F>({}, w, x, chunks);
#endif
}

// Until the front warps have made as many ops, and have read what those read.
DENIZEN_HD inline void wait_made(const Block& b, uint32_t round, uint32_t ops)
{
    for (;;) { // ends: the front warps make every op in every round
        const uint64_t made =
            load<Scope::block, denizen::detail::host_acquire>(&b.turn.made); // answer_one()'s
        if (static_cast<uint32_t>(made) == round && made >> 32 >= ops) return;
        pause_block();
    }
}

// To the stream's row: h of this block's rows, and what an LSTM's units have kept. Not before h has
// come from all blocks: each of them has read what was there by then, if the stream's sums were
// made anew.
DENIZEN_HD inline void keep_row(const Block& b, const BlockOp& op)
{
    const uint32_t end = op.first + op.groups * (gated(op.kind) ? 1 : 4);
    const uint32_t most = end < op.out ? end : op.out;
    const float* const h = b.values(0) + op.out_at;
    const float* const units = b.cache(op) + 4 * op.groups;
    float* const to = b.row(0) + op.row_at;
    for (uint32_t i = op.first + b.team.rank(); i < most; i += b.team.size()) {
        to[i] = h[i];
        if (op.kind == OpKind::lstm) to[in_fours(op.out) + i] = units[i - op.first];
    }
}

// The groups of all ops go to the warps in turn.
template <Format F>
DENIZEN_HD inline void sum_own_groups(const Block& b, float* own, uint32_t round, bool waits)
{
    const auto* const list = reinterpret_cast<const OwnGroup*>(b.shared + b.place.own_groups_at);
    const uint32_t groups = b.place.own_groups;
    const uint32_t warps = b.team.warps();
    uint32_t i = b.team.warp();
    if (i >= groups) return;
    OwnGroup next = list[i];
    while (i < groups) {
        const OwnGroup g = next;
        i += warps;
        if (i < groups) next = list[i]; // on its way while this one is summed
        if (waits) wait_made(b, round, g.made);
        const auto* const h = reinterpret_cast<const float*>(b.shared + g.h);
        const auto* const biases = reinterpret_cast<const float*>(b.shared + g.bias);
        auto* const cache = reinterpret_cast<float*>(b.shared + g.cache);
        const Rows sum = g.near != 0 ? sum_of_rows<F, 2>(b.shared + g.weights, h, g.chunks)
                                     : sum_of_rows<F, 4>(b.far(g.weights), h, g.chunks);
        DENIZEN_UNROLL
        for (uint32_t k = 0; k < rows_each; ++k) {
            const uint32_t row = row_number(k);
            const float made = sum.v[k] + biases[row];
            if (lanes::id() % row_lanes != 0) continue;
            cache[row] = made;
            if (own != nullptr) own[g.own + row] = made;
        }
    }
}

// The block meets behind it. Of a model that keeps late by all warps but the one that decides.
template <Format F>
DENIZEN_COLD void prepare_one(uint32_t number, unsigned char* shared, Turn& turn, uint32_t round)
{
    constexpr uint32_t warps = block_threads / 32;
    const uint32_t front = turn.model.front_warps;
    const bool halves = front != warps;
    const bool late = turn.model.late != 0;
    const Team team = halves ? Team::behind(number, front)
                      : late ? Team::front(number, warps - 1)
                             : Team(number);
    const Block b = called_by(team, shared, turn);
    sum_own_groups<F>(b, late ? nullptr : b.own(0), round, halves);
    if (!late) {
        uint32_t ops = 0;
        for (const BlockOp* op = b.ops(); op != b.ops() + b.place.ops; ++op) {
            ++ops;
            const bool past = op->kind == OpKind::conv1d && op->groups != 0 && op->past != 0;
            if (!past && !recurrent(op->kind)) continue;
            if (halves) wait_made(b, round, ops);
            if (past) {
                keep_input(b, *op, 1);
            } else {
                keep_row(b, *op);
            }
        }
    }
    lanes::rejoin();
}

// As the block leaves: what the only stream keeps. All threads.
DENIZEN_COLD inline void keep_late(uint32_t number, unsigned char* shared, Turn& turn)
{
    const Block b = called_by(Team(number), shared, turn);
    for (const BlockOp* op = b.ops(); op != b.ops() + b.place.ops; ++op) {
        if (!recurrent(op->kind)) continue;
        keep_row(b, *op);
        const float* const cache = b.cache(*op);
        float* const own = b.own(0) + op->sums_at;
        for (uint32_t i = b.team.rank(); i < 4 * op->groups; i += b.team.size()) own[i] = cache[i];
    }
    lanes::rejoin();
}

} // namespace denizen::infer::detail

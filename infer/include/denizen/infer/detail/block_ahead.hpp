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

// To the stream's row: h of this block's rows, and what an LSTM's units have kept. As keep_own().
DENIZEN_HD inline void keep_one(const Block& b, const BlockOp& op, const float* h,
                                const float* units, float* row)
{
    const uint32_t end = op.first + op.groups * (gated(op.kind) ? 1 : 4);
    const uint32_t most = end < op.out ? end : op.out;
    float* const to = row + op.row_at;
    float* const to_units = op.kind == OpKind::lstm ? to + in_fours(op.out) : nullptr;
    for (uint32_t i = op.first + b.team.rank(); i < most; i += b.team.size()) {
        to[i] = h[i];
        if (to_units != nullptr) to_units[i] = units[i - op.first];
    }
}

// The groups of all ops go to the warps in turn. The block meets behind it.
template <Format F>
DENIZEN_COLD void prepare_one(uint32_t number, unsigned char* shared, Turn& turn, uint32_t round)
{
    const uint32_t front = turn.model.front_warps;
    const bool halves = front != block_threads / 32;
    const Block b = called_by(halves ? Team::behind(number, front) : Team(number), shared, turn);
    // In registers: behind each store they would be read again.
    const float* const values = b.values(0);
    auto* const caches = reinterpret_cast<float*>(b.shared + b.model.cache_at);
    float* const owns = b.own(0);
    const BlockOp* const end = b.ops() + b.place.ops;
    const uint32_t warps = b.team.warps();
    uint32_t turn_of = b.team.warp(); // of the next op's groups, this warp's first
    uint32_t ops = 0;
    for (const BlockOp* at = b.ops(); at != end; ++at) {
        const BlockOp& op = *at;
        ++ops;
        const bool past = op.kind == OpKind::conv1d && op.groups != 0 && op.past != 0;
        if (!past && !recurrent(op.kind)) continue;
        if (halves) wait_made(b, round, ops);
        if (past) {
            keep_input(b, op, 1);
            continue;
        }
        const float* const h = values + op.out_at;
        const auto* const biases = reinterpret_cast<const float*>(b.shared + op.bias);
        float* const own = owns + op.sums_at;
        float* const cache = caches + op.cache_at;
        const uint32_t groups = op.groups;
        const uint32_t chunks = op.own_chunks;
        const uint32_t bytes = group_bytes<F>(chunks);
        const auto keep = [&](const Rows& sum, uint32_t group) {
            DENIZEN_UNROLL
            for (uint32_t i = 0; i < rows_each; ++i) {
                const uint32_t row = 4 * group + row_number(i);
                const float made = sum.v[i] + biases[row];
                if (lanes::id() % row_lanes == 0) own[row] = cache[row] = made;
            }
        };
        uint32_t g = turn_of;
        if (op.own_near != 0) {
            const unsigned char* const weights = b.shared + op.own_weights;
            for (; g < groups; g += warps) {
                keep(sum_of_rows<F, 2>(weights + g * bytes, h, chunks), g);
            }
        } else {
            const unsigned char* const weights = b.far(op.far);
            for (; g < groups; g += warps) {
                keep(sum_of_rows<F, 4>(weights + g * bytes, h, chunks), g);
            }
        }
        turn_of = g - groups;
    }
    float* const row = b.row(0);
    for (const BlockOp* at = b.ops(); at != end; ++at) {
        if (!recurrent(at->kind)) continue;
        keep_one(b, *at, values + at->out_at, caches + at->cache_at + 4 * at->groups, row);
    }
    lanes::rejoin();
}

} // namespace denizen::infer::detail

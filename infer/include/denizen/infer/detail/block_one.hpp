// SPDX-License-Identifier: Apache-2.0
// A round of one request, which waits for each of its instructions. A warp makes a group's sums and
// what they become: a gate by the lanes that have its row, and the unit by all of them, of whom
// each stores it into another block. So a block meets once for each matrix, when its value has
// come. While a warp waits for a value it has what comes next in registers: the op, the weights of
// its group's first chunks, and what the stream has kept.
//
// A sum is made in the order of sum_group(), of its columns and of its lanes: an answer does not
// depend on how many requests its round had.
#pragma once

#include <denizen/infer/detail/block_step.hpp>

namespace denizen::infer::detail {

// --- rows and lanes ---

#if DENIZEN_ON_DEVICE
inline constexpr uint32_t rows_each = 1; // of a group, in a lane
inline constexpr uint32_t row_lanes = 8; // that have the same row
#else
inline constexpr uint32_t rows_each = 4;
inline constexpr uint32_t row_lanes = 1;
#endif

// A lane's rows of a group.
struct Rows {
    float v[rows_each];
};

DENIZEN_HD inline uint32_t row_number(uint32_t i) { return lanes::id() / row_lanes + i; }

// Row `row` of the group, in every lane.
DENIZEN_HD inline float row_value(const Rows& rows, uint32_t row)
{
#if DENIZEN_ON_DEVICE
    return lanes::shuffle(rows.v[0], row * row_lanes);
#else
    return rows.v[row];
#endif
}

// A lane's weights of a group's first chunks.
template <Format F>
struct Held {
#if DENIZEN_ON_DEVICE
    static constexpr uint32_t most = F == Format::fp32 ? 1 : 2;
    Four<F> of[most][4];
#endif
};

template <Format F>
DENIZEN_HD inline void hold([[maybe_unused]] Held<F>& held, [[maybe_unused]] const unsigned char* w,
                            [[maybe_unused]] uint32_t chunks)
{
#if DENIZEN_ON_DEVICE
    constexpr uint32_t row_bytes = chunk * format_bytes(F);
    w += lanes::id() * 4 * format_bytes(F);
    DENIZEN_UNROLL
    for (uint32_t k = 0; k < Held<F>::most; ++k) {
        if (k >= chunks) continue;
        DENIZEN_UNROLL
        for (uint32_t r = 0; r < 4; ++r) held.of[k][r] = four_at<F>(w + (4 * k + r) * row_bytes);
    }
#endif
}

#if DENIZEN_ON_DEVICE
// Of n chunks.
template <Format F, uint32_t n>
__device__ inline Quad sum_held(const Held<F>& held, const float* x)
{
    Quad in[n];
    DENIZEN_UNROLL
    for (uint32_t k = 0; k < n; ++k) in[k] = *reinterpret_cast<const Quad*>(x + k * chunk);
    Quad of{};
    DENIZEN_UNROLL
    for (uint32_t k = 0; k < n; ++k) {
        DENIZEN_UNROLL
        for (uint32_t r = 0; r < 4; ++r) of = plus_product(widened<F>(held.of[k][r]), in[k], of, r);
    }
    return of;
}
#endif

// A group's rows times the floats at x.
template <Format F>
DENIZEN_HD inline Rows sum_rows([[maybe_unused]] const Held<F>& held, const unsigned char* w,
                                const float* x, uint32_t chunks)
{
#if DENIZEN_ON_DEVICE
    constexpr uint32_t most = Held<F>::most;
    static_assert(most <= 2);
    constexpr uint32_t row_bytes = chunk * format_bytes(F);
    x += lanes::id() * 4;
    Quad of;
    if (chunks < most) {
        of = sum_held<F, 1>(held, x);
    } else {
        of = sum_held<F, most>(held, x);
        w += lanes::id() * 4 * format_bytes(F) + most * 4 * row_bytes;
        x += most * chunk;
#pragma unroll 2
        for (uint32_t k = most; k < chunks; ++k) {
            const Quad in = *reinterpret_cast<const Quad*>(x);
            DENIZEN_UNROLL
            for (uint32_t r = 0; r < 4; ++r) {
                of = plus_product(widened<F>(four_at<F>(w + r * row_bytes)), in, of, r);
            }
            w += 4 * row_bytes;
            x += chunk;
        }
    }
    return {{row_of_lanes(of)}};
#else
    Quad of;
    sum_group<F, 1>(w, x, 0, chunks, 1, &of);
    return {{of.v[0], of.v[1], of.v[2], of.v[3]}};
#endif
}

template <Format F>
DENIZEN_HD inline uint64_t group_bytes(uint32_t chunks)
{
    return uint64_t{chunks} * 4 * chunk * format_bytes(F);
}

// --- what a warp has before its input is there ---

// What its rows' sums are added to, and what its unit has kept.
struct KeptRows {
    Rows before;
    float unit;
};

DENIZEN_HD inline KeptRows kept_rows(const Block& b, const BlockOp& op, uint32_t group)
{
    const float* const before =
        recurrent(op.kind) ? b.own(0) + op.sums_at + 4 * group
                           : reinterpret_cast<const float*>(b.shared + op.bias) + 4 * group;
    KeptRows k;
    DENIZEN_UNROLL
    for (uint32_t i = 0; i < rows_each; ++i) k.before.v[i] = before[row_number(i)];
    k.unit = gated(op.kind) ? kept_of(b, op, unit_of(op, group), 0) : 0.0F;
    return k;
}

// Fields of the op that a matrix does not need are read from shared memory where they are used, and
// take no registers here.
template <Format F>
struct Ahead {
    BlockOp op;
    uint32_t x_at; // its input
    Held<F> held;
};

template <Format F>
DENIZEN_HD inline Ahead<F> ahead(const Block& b, uint32_t number)
{
    Ahead<F> a;
    a.op = b.ops()[number];
    a.x_at = a.op.kind == OpKind::conv1d ? a.op.gather_at : a.op.in_at;
    if (has_matrix(a.op.kind) && b.team.warp() < a.op.groups) {
        hold<F>(a.held, b.shared + a.op.weights + b.team.warp() * group_bytes<F>(a.op.chunks),
                a.op.chunks);
    }
    return a;
}

DENIZEN_HD inline KeptRows kept_ahead(const Block& b, const BlockOp& op)
{
    return has_matrix(op.kind) && b.team.warp() < op.groups ? kept_rows(b, op, b.team.warp())
                                                            : KeptRows{};
}

// --- a matrix ---

// A unit's value, by lane `which` of `of` that have it.
template <class Exchange>
DENIZEN_HD inline void put_out(const Block& b, const BlockOp& op, const Exchange& exchange,
                               float value, uint32_t unit, uint32_t which, uint32_t of)
{
    if (op.exchanged != 0) exchange.publish_one(value, op.words_at + unit, which, of);
    if (op.answers != 0 && which == 0) {
        store<Scope::system>(b.answer(0) + unit, word_of(value, b.turn.of[0].sequence));
    }
}

template <class Exchange>
DENIZEN_HD inline void finish_group(const Block& b, const BlockOp& op, const Exchange& exchange,
                                    Rows sum, KeptRows k, uint32_t group, bool relu)
{
    const uint32_t unit = unit_of(op, group);
    DENIZEN_UNROLL
    for (uint32_t i = 0; i < rows_each; ++i) sum.v[i] += k.before.v[i];
    if (gated(op.kind)) {
        const bool lstm = op.kind == OpKind::lstm;
        DENIZEN_UNROLL
        for (uint32_t i = 0; i < rows_each; ++i) {
            sum.v[i] =
                lstm ? lstm_gate(sum.v[i], row_number(i)) : gru_gate(sum.v[i], row_number(i));
        }
        const float g0 = row_value(sum, 0);
        const float g1 = row_value(sum, 1);
        const float g2 = row_value(sum, 2);
        const float g3 = row_value(sum, 3);
        const float h =
            lstm ? lstm_of_gates(g0, g1, g2, g3, k.unit) : gru_of_gates(g0, g1, g2, g3, k.unit);
        put_out(b, op, exchange, h, unit, lanes::id(), lanes::size);
        if (lstm && lanes::id() == 0) kept_of(b, op, unit, 0) = k.unit;
        return;
    }
    DENIZEN_UNROLL
    for (uint32_t i = 0; i < rows_each; ++i) {
        if (op.kind == OpKind::rnn) {
            sum.v[i] = activated(relu ? OpKind::relu : OpKind::tanh, sum.v[i]);
        }
        const uint32_t own = unit + row_number(i);
        if (own < op.out) {
            put_out(b, op, exchange, sum.v[i], own, lanes::id() % row_lanes, row_lanes);
        }
    }
}

// This block's rows of a matrix: each warp has its first group's weights, and takes those of the
// next before it finishes one.
template <Format F, class Exchange>
DENIZEN_HD inline void multiply_one(const Block& b, Ahead<F>& a, KeptRows k,
                                    const Exchange& exchange, bool relu)
{
    const BlockOp& op = a.op;
    const float* const x = b.values(0) + a.x_at;
    const auto weights = [&](uint32_t group) {
        return b.shared + op.weights + group * group_bytes<F>(op.chunks);
    };
    for (uint32_t g = b.team.warp(); g < op.groups;) {
        const Rows sum = sum_rows<F>(a.held, weights(g), x, op.chunks);
        const uint32_t next = g + b.team.warps();
        const KeptRows now = k;
        if (next < op.groups) {
            hold<F>(a.held, weights(next), op.chunks);
            k = kept_rows(b, op, next);
        }
        finish_group(b, op, exchange, sum, now, g, relu);
        g = next;
    }
}

// Takes the value that the blocks have made.
template <class Exchange>
DENIZEN_HD inline void receive_one(const Block& b, const BlockOp& op, const Exchange& exchange,
                                   uint32_t round)
{
    for (uint32_t at = 2 * b.team.rank(); at < op.out; at += 2 * b.team.size()) {
        TwoWords two = exchange.pair(0, op.words_at + at);
        while (!pair_there(op, two, at, round)) { // ends: every block makes its rows in every round
            pause_block();
            two = exchange.pair(0, op.words_at + at);
        }
        keep_pair(b, op, two, 0, at);
    }
}

// --- what each block makes for itself ---

DENIZEN_HD inline void rectify(const Block& b, const BlockOp& op)
{
    const float* const x = b.values(0) + op.in_at;
    float* const y = b.values(0) + op.out_at;
    for (uint32_t i = b.team.rank(); i < op.in; i += b.team.size()) {
        y[i] = activated(OpKind::relu, x[i]);
    }
}

// Called, so that its registers are not taken from what waits; of no Block, as renew().
DENIZEN_COLD inline void make_rest(const ResidentModel& model, uint32_t number,
                                   unsigned char* shared, Turn& turn, uint32_t op)
{
    const Block b{model, Team(number), shared, turn, model.places[number]};
    make_alone(b, b.ops()[op], 1);
    lanes::rejoin();
}

// --- the round ---

// `a`: the first op.
template <Format F, class Exchange>
DENIZEN_HD inline void answer_one(const Block& b, Ahead<F> a, const Exchange& exchange,
                                  uint32_t round)
{
    KeptRows k = kept_ahead(b, a.op);
    for (uint32_t number = 1;; ++number) { // ends with the last op
        const bool matrix = has_matrix(a.op.kind);
        const BlockOp& whole = b.ops()[number - 1];
        if (a.op.kind == OpKind::relu) {
            rectify(b, whole);
        } else if (!matrix) {
            make_rest(b.model, b.team.block(), b.shared, b.turn, number - 1);
        } else {
            if (a.op.kind == OpKind::conv1d && a.op.groups != 0 && a.x_at != whole.in_at) {
                gather(b, whole, 1);
                b.team.sync();
                a = ahead<F>(b, number - 1); // not kept through the call of a division
                k = kept_ahead(b, a.op);
            }
            multiply_one<F>(b, a, k, exchange, whole.relu != 0);
        }
        const bool last = number == b.place.ops;
        const BlockOp op = a.op;
        if (!last) { // on its way while this block waits for the others
            a = ahead<F>(b, number);
            k = kept_ahead(b, a.op);
        }
        if (matrix && op.exchanged != 0) receive_one(b, op, exchange, round);
        b.team.sync();
        if (last) break;
    }
    answer_by_leader(b, 1);
}

// What the stream's next step will not have to wait for. The groups of all ops go to the warps in
// turn; the block meets behind it.
template <Format F>
DENIZEN_HD inline void prepare_one(const Block& b)
{
    uint32_t before = 0; // groups of the ops before
    for (const BlockOp* at = b.ops(); at != b.ops() + b.place.ops; ++at) {
        const BlockOp& op = *at;
        if (op.kind == OpKind::conv1d && op.groups != 0 && op.past != 0) keep_input(b, op, 1);
        if (!recurrent(op.kind)) continue;
        keep_own(b, op, 1);
        const float* const h = b.values(0) + op.out_at;
        const uint32_t warps = b.team.warps();
        for (uint32_t g = (b.team.warp() + warps - before % warps) % warps; g < op.groups;
             g += warps) {
            const unsigned char* const w =
                (op.own_near != 0 ? b.shared + op.own_weights : b.far(op.far)) +
                g * group_bytes<F>(op.own_chunks);
            Held<F> held;
            hold<F>(held, w, op.own_chunks);
            const Rows sum = sum_rows<F>(held, w, h, op.own_chunks);
            const auto* const bias = reinterpret_cast<const float*>(b.far(op.far_bias)) + 4 * g;
            float* const to = b.own(0) + op.sums_at + 4 * g;
            DENIZEN_UNROLL
            for (uint32_t i = 0; i < rows_each; ++i) {
                const uint32_t row = row_number(i);
                if (lanes::id() % row_lanes == 0) to[row] = sum.v[i] + bias[row];
            }
        }
        before += op.groups;
    }
}

} // namespace denizen::infer::detail

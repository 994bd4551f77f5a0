// SPDX-License-Identifier: Apache-2.0
// One block's part of a round: the ops of a model for the requests that are in it. Every block has
// every value in its shared memory. The rows of matrices are dealt to the blocks, which exchange
// what they have made; all else each block makes for itself.
//
// The answer waits for W_ih x alone: W_hh h and the biases have been summed after the stream's last
// answer, by the block that owns the row, and lie in that block's own state. Two numbers bound a
// step: the bytes of the matrices that the answer waits for, over the bandwidth of shared memory
// (128 bytes a clock on each SM), and one exchange for each of their layers.
#pragma once

#include <denizen/infer/detail/exchange.hpp>

namespace denizen::infer::detail {

// What the threads of a block know of the round. Shared memory.
struct Turn {
    uint64_t told;   // the round, and above it how many requests it has; 0: the block leaves
    uint64_t made;   // in a round of one request the round, and above it how many ops are made
    uint32_t cached; // the stream that the block's cache is of
    // Of the warp that decides, and of who counts: once a round, no registers of all threads.
    uint64_t until;
    uint64_t arrived;
    uint32_t done_before;
    Counts counts;
    Packet of[most_columns];
    // What the kernel was launched with, for functions that are called: a parameter whose address
    // they are given is read as memory, through L2.
    ResidentModel model;
    BlockPlace place;
};

struct Block {
    const ResidentModel& model;
    Team team;
    unsigned char* shared;
    Turn& turn;
    BlockPlace place;

    DENIZEN_HD const BlockOp* ops() const { return reinterpret_cast<const BlockOp*>(shared); }
    DENIZEN_HD float* values(uint32_t column) const
    {
        return reinterpret_cast<float*>(shared + model.values_at) + column * model.column_floats;
    }
    DENIZEN_HD Quad* sums() const { return reinterpret_cast<Quad*>(shared + model.sums_at); }
    DENIZEN_HD float* cache(const BlockOp& op) const
    {
        return reinterpret_cast<float*>(shared + model.cache_at) + op.cache_at;
    }
    DENIZEN_HD uint32_t stream(uint32_t column) const
    {
        return turn.of[column].word[0] & stream_bits;
    }
    DENIZEN_HD uint64_t position(uint32_t column) const
    {
        const Packet& p = turn.of[column];
        return p.word[2] | uint64_t{p.word[1] >> 16} << 32;
    }
    DENIZEN_HD float* row(uint32_t column) const
    {
        return model.rows + stream(column) * model.row_floats;
    }
    DENIZEN_HD float* own(uint32_t column) const
    {
        return model.own + place.own_at + uint64_t{stream(column)} * place.own_floats;
    }
    DENIZEN_HD Word* answer(uint32_t column) const
    {
        return model.answers + uint64_t{turn.of[column].word[1] & 0xffff} * model.answer_stride;
    }
    DENIZEN_HD const unsigned char* far(uint32_t sixteens) const
    {
        return model.far + uint64_t{sixteens} * 16;
    }
    DENIZEN_HD bool all_from(uint32_t flags, uint32_t column) const
    {
        return (turn.of[column].word[0] & flags) != 0;
    }
};

// That of a function that is called, of shared memory alone. It is given no Block: one whose
// address is given to a function lies in memory.
DENIZEN_HD inline Block called_by(const Team& team, unsigned char* shared, Turn& turn)
{
    auto& known =
        *reinterpret_cast<Turn*>(known_as_shared(reinterpret_cast<unsigned char*>(&turn)));
    return {known.model, team, known_as_shared(shared), known, known.place};
}

// --- matrices ---

// What four rows of the matrix make of their sums, and of what the stream has kept.
DENIZEN_HD inline Quad made_of(const BlockOp& op, Quad sum, const Quad& before, float& kept)
{
    DENIZEN_UNROLL
    for (uint32_t i = 0; i < 4; ++i) sum.v[i] += before.v[i];
    switch (op.kind) {
    case OpKind::lstm: sum.v[0] = lstm_of(sum.v, kept); break;
    case OpKind::gru: sum.v[0] = kept = gru_of(sum.v, kept); break;
    case OpKind::rnn:
        DENIZEN_UNROLL
        for (uint32_t i = 0; i < 4; ++i) {
            sum.v[i] = activated(op.relu != 0 ? OpKind::relu : OpKind::tanh, sum.v[i]);
        }
        break;
    default:
        DENIZEN_UNROLL
        for (uint32_t i = 0; i < 4; ++i) {
            if (op.relu != 0) sum.v[i] = activated(OpKind::relu, sum.v[i]);
        }
        break;
    }
    return sum;
}

// The sums of this block's rows of a matrix times the values at `at` of `live` <= n columns from
// `base` on. The block meets before and behind it.
template <Format F, uint32_t n>
DENIZEN_HD inline void sum_groups(const Block& b, const unsigned char* weights, uint32_t groups,
                                  uint32_t chunks, uint32_t at, uint32_t base, uint32_t live)
{
    const uint64_t group_bytes = uint64_t{chunks} * 4 * chunk * format_bytes(F);
    for (uint32_t g = b.team.warp(); g < groups; g += b.team.warps()) {
        sum_group<F, n>(weights + g * group_bytes, b.values(base) + at, b.model.column_floats,
                        chunks, live, b.sums() + g * b.model.columns_at_once);
    }
}

// What a group's sums are added to, and what its unit has kept: c, or h of a gru.
struct Kept {
    Quad before;
    float unit;
};

DENIZEN_HD inline uint32_t unit_of(const BlockOp& op, uint32_t group)
{
    return op.first + (gated(op.kind) ? group : 4 * group);
}

DENIZEN_HD inline float& kept_of(const Block& b, const BlockOp& op, uint32_t unit, uint32_t column)
{
    return b.row(column)[op.row_at + (op.kind == OpKind::lstm ? in_fours(op.out) : 0) + unit];
}

DENIZEN_HD inline Kept kept(const Block& b, const BlockOp& op, uint32_t group, uint32_t column)
{
    Kept k;
    k.before = recurrent(op.kind)
                   ? *reinterpret_cast<const Quad*>(b.own(column) + op.sums_at + 4 * group)
                   : *reinterpret_cast<const Quad*>(b.shared + op.bias + 16 * group);
    k.unit = gated(op.kind) ? kept_of(b, op, unit_of(op, group), column) : 0.0F;
    return k;
}

// This block's rows of one matrix, for `live` <= n columns from `base` on.
template <Format F, uint32_t n>
DENIZEN_HD inline void multiply(const Block& b, const BlockOp& op, const Far& exchange,
                                uint32_t base, uint32_t live)
{
    const uint32_t at = op.kind == OpKind::conv1d ? op.gather_at : op.in_at;
    const uint32_t first = b.team.rank();
    const uint32_t step = b.team.size();
    const uint32_t all = op.groups * live;
    Kept k{};
    // Before the sums: it arrives meanwhile.
    if (first < all) k = kept(b, op, first % op.groups, base + first / op.groups);
    sum_groups<F, n>(b, b.shared + op.weights, op.groups, op.chunks, at, base, live);
    b.team.sync();
    for (uint32_t i = first; i < all; i += step) {
        const uint32_t c = i / op.groups;
        const uint32_t g = i - c * op.groups;
        const uint32_t unit = unit_of(op, g);
        const uint32_t units = gated(op.kind) ? 1 : op.out - unit < 4 ? op.out - unit : 4;
        if (i != first) k = kept(b, op, g, base + c);
        const Quad made = made_of(op, b.sums()[g * b.model.columns_at_once + c], k.before, k.unit);
        if (op.exchanged != 0) exchange.publish(made, base + c, op.words_at + unit, units);
        if (op.answers != 0) {
            Word* const to = b.answer(base + c) + unit;
            const uint32_t number = b.turn.of[base + c].sequence;
            DENIZEN_UNROLL
            for (uint32_t u = 0; u < 4; ++u) {
                if (u < units) store<Scope::system>(to + u, word_of(made.v[u], number));
            }
        }
        if (op.kind == OpKind::lstm) kept_of(b, op, unit, base + c) = k.unit;
    }
}

// A pair of words of a value, from element `at` on: whether both have come, and where they are
// kept.
DENIZEN_HD inline bool pair_there(const BlockOp& op, const TwoWords& two, uint32_t at,
                                  uint32_t round)
{
    return number_of(two.word[0]) == round && (at + 1 == op.out || number_of(two.word[1]) == round);
}
DENIZEN_HD inline void keep_pair(const Block& b, const BlockOp& op, const TwoWords& two,
                                 uint32_t column, uint32_t at)
{
    float* const to = b.values(column) + op.out_at + at;
    to[0] = value_of(two.word[0]);
    if (at + 1 != op.out) to[1] = value_of(two.word[1]);
}

// Takes the value that the blocks have made, of all columns.
DENIZEN_HD inline void receive(const Block& b, const BlockOp& op, const Far& exchange,
                               uint32_t round, uint32_t count)
{
    const uint32_t pairs = (op.out + 1) / 2;
    constexpr uint32_t together = DENIZEN_ON_DEVICE ? 4 : 1; // loads under way
    const uint32_t all = pairs * count;
    for (uint32_t begin = b.team.rank(); begin < all; begin += together * b.team.size()) {
        TwoWords two[together] = {};
        bool all_there = false;
        while (!all_there) { // ends: every block makes its rows in every round
            all_there = true;
            DENIZEN_UNROLL
            for (uint32_t k = 0; k < together; ++k) {
                const uint32_t i = begin + k * b.team.size();
                if (i >= all) continue;
                const uint32_t at = 2 * (i % pairs);
                two[k] = exchange.pair(i / pairs, op.words_at + at);
                all_there = all_there && pair_there(op, two[k], at, round);
            }
            if (!all_there) pause_block();
        }
        DENIZEN_UNROLL
        for (uint32_t k = 0; k < together; ++k) {
            const uint32_t i = begin + k * b.team.size();
            if (i < all) keep_pair(b, op, two[k], i / pairs, 2 * (i % pairs));
        }
    }
}

// W_hh h and the biases of this block's rows, for the next step of the streams of `live` <= n
// columns. All threads have met since the last sums were read.
template <Format F, uint32_t n>
DENIZEN_HD inline void sum_own(const Block& b, const BlockOp& op, uint32_t base, uint32_t live)
{
    if (op.own_near != 0) {
        sum_groups<F, n>(b, b.shared + op.own_weights, op.groups, op.own_chunks, op.out_at, base,
                         live);
    } else {
        sum_groups<F, n>(b, b.far(op.far), op.groups, op.own_chunks, op.out_at, base, live);
    }
    b.team.sync();
    const auto* const biases = reinterpret_cast<const Quad*>(b.shared + op.bias);
    const uint32_t all = op.groups * live;
    for (uint32_t i = b.team.rank(); i < all; i += b.team.size()) {
        const uint32_t c = n == 1 ? 0 : i / op.groups;
        const uint32_t g = i - c * op.groups;
        Quad sum = b.sums()[g * b.model.columns_at_once + c];
        const Quad bias = biases[g];
        DENIZEN_UNROLL
        for (uint32_t k = 0; k < 4; ++k) sum.v[k] += bias.v[k];
        *reinterpret_cast<Quad*>(b.own(base + c) + op.sums_at + 4 * g) = sum;
    }
    b.team.sync();
}

// --- convolutions: a block keeps the inputs that its rows need ---

DENIZEN_HD inline float* past_input(const Block& b, const BlockOp& op, uint32_t column,
                                    uint64_t position)
{
    return b.own(column) + op.sums_at + position % op.past * in_fours(op.in);
}

// The inputs of all taps, one behind the other.
DENIZEN_HD inline void gather(const Block& b, const BlockOp& op, uint32_t count)
{
    for (uint32_t c = 0; c < count; ++c) {
        float* const to = b.values(c) + op.gather_at;
        for (uint32_t tap = 0; tap < op.taps; ++tap) {
            const uint64_t back = uint64_t{op.taps - 1 - tap} * op.dilation;
            const float* const from = back == 0
                                          ? b.values(c) + op.in_at
                                          : past_input(b, op, c, b.position(c) + op.past - back);
            for (uint32_t i = b.team.rank(); i < op.in; i += b.team.size()) {
                to[tap * in_chunks(op.in) + i] = from[i];
            }
        }
    }
}

DENIZEN_HD inline void keep_input(const Block& b, const BlockOp& op, uint32_t count)
{
    for (uint32_t c = 0; c < count; ++c) {
        float* const to = past_input(b, op, c, b.position(c));
        const float* const x = b.values(c) + op.in_at;
        for (uint32_t i = b.team.rank(); i < op.in; i += b.team.size()) to[i] = x[i];
    }
}

// --- what each block makes for itself ---

// A warp's.
DENIZEN_HD inline void normalise(const Block& b, const BlockOp& op, uint32_t column)
{
    const float* const x = b.values(column) + op.in_at;
    float* const y = b.values(column) + op.out_at;
    const auto* const scale = reinterpret_cast<const float*>(b.shared + op.weights);
    const auto n = static_cast<float>(op.out);
    float sum = 0;
    for (uint32_t i = lanes::id(); i < op.out; i += lanes::size) sum += x[i];
    const float mean = sum_of_lanes(sum) / n;
    float squares = 0;
    for (uint32_t i = lanes::id(); i < op.out; i += lanes::size) {
        squares = fma_of(x[i] - mean, x[i] - mean, squares);
    }
    const float by = 1.0F / root_of(sum_of_lanes(squares) / n + op.eps);
    for (uint32_t i = lanes::id(); i < op.out; i += lanes::size) {
        y[i] = fma_of((x[i] - mean) * by, scale[i], scale[op.out + i]);
    }
}

DENIZEN_HD inline void soften(const Block& b, const BlockOp& op, uint32_t column)
{
    const float* const x = b.values(column) + op.in_at;
    float* const y = b.values(column) + op.out_at;
    float most = x[0];
    for (uint32_t i = lanes::id(); i < op.out; i += lanes::size) {
        most = x[i] < most ? most : x[i];
    }
    most = most_of_lanes(most);
    float sum = 0;
    for (uint32_t i = lanes::id(); i < op.out; i += lanes::size) {
        y[i] = exp_of(x[i] - most);
        sum += y[i];
    }
    const float by = 1.0F / sum_of_lanes(sum);
    for (uint32_t i = lanes::id(); i < op.out; i += lanes::size) y[i] *= by;
}

DENIZEN_HD inline void make_alone(const Block& b, const BlockOp& op, uint32_t count)
{
    const Team& team = b.team;
    if (op.kind == OpKind::layernorm || op.kind == OpKind::softmax) {
        for (uint32_t c = team.warp(); c < count; c += team.warps()) {
            if (op.kind == OpKind::layernorm) {
                normalise(b, op, c);
            } else {
                soften(b, op, c);
            }
        }
        return;
    }
    const auto* const scale = reinterpret_cast<const float*>(b.shared + op.weights);
    for (uint32_t c = 0; c < count; ++c) {
        const float* x = b.values(c) + op.in_at;
        const float* const other = b.values(c) + op.other_at;
        float* const y = b.values(c) + op.out_at;
        if (op.kind == OpKind::embedding) {
            uint32_t token = 0;
            copy_bytes(&token, x, 4);
            x = reinterpret_cast<const float*>(b.far(op.table)) +
                uint64_t{token} * in_fours(op.out);
        }
        for (uint32_t i = team.rank(); i < op.in; i += team.size()) {
            switch (op.kind) {
            case OpKind::embedding:
            case OpKind::concat: y[i] = x[i]; break;
            case OpKind::affine: y[i] = fma_of(x[i], scale[i], scale[op.out + i]); break;
            case OpKind::add: y[i] = x[i] + other[i]; break;
            default: y[i] = activated(op.kind, x[i]); break;
            }
        }
    }
}

// --- the round ---

// Streams that begin anew, or whose h or whose weights are others now.
template <Format F>
DENIZEN_COLD void renew(uint32_t number, unsigned char* shared, Turn& turn, uint32_t count)
{
    const Team team(number);
    const Block b = called_by(team, shared, turn);
    for (uint32_t c = 0; c < count; ++c) {
        const bool zeros = b.all_from(from_zeros, c);
        if (!zeros && !b.all_from(made_anew, c)) continue;
        for (const BlockOp* op = b.ops(); op != b.ops() + b.place.ops; ++op) {
            if (op->kind == OpKind::conv1d && zeros && op->groups != 0) {
                const uint64_t floats = uint64_t{op->past} * in_fours(op->in);
                float* const past = b.own(c) + op->sums_at;
                for (uint64_t i = team.rank(); i < floats; i += team.size()) past[i] = 0;
            }
            if (!recurrent(op->kind) || op->groups == 0) continue;
            const float* const h = b.row(c) + op->row_at;
            float* const value = b.values(c) + op->out_at;
            for (uint32_t i = team.rank(); i < op->out; i += team.size()) {
                value[i] = zeros ? 0.0F : h[i];
            }
            const uint32_t end = op->first + op->groups * (gated(op->kind) ? 1 : 4);
            for (uint32_t i = op->first + team.rank(); zeros && i < end && i < op->out;
                 i += team.size()) {
                b.row(c)[op->row_at + i] = 0;
                if (op->kind == OpKind::lstm) b.row(c)[op->row_at + in_fours(op->out) + i] = 0;
            }
        }
        team.sync();
        for (const BlockOp* op = b.ops(); op != b.ops() + b.place.ops; ++op) {
            if (recurrent(op->kind)) sum_own<F, 1>(b, *op, c, 1);
        }
    }
}

// An answer that no matrix makes.
DENIZEN_HD inline void answer_by_leader(const Block& b, uint32_t count)
{
    if (b.model.leader_answers == 0 || !b.team.leads()) return;
    for (uint32_t c = 0; c < count; ++c) {
        const float* const y = b.values(c) + b.model.output_at;
        for (uint32_t i = b.team.rank(); i < b.model.output; i += b.team.size()) {
            store<Scope::system>(b.answer(c) + i, word_of(y[i], b.turn.of[c].sequence));
        }
    }
}

// Several requests. Called, so that a round of one has the registers for itself.
template <Format F>
DENIZEN_COLD void answer(uint32_t number, unsigned char* shared, Turn& turn, uint32_t round,
                         uint32_t count)
{
    const Block b = called_by(Team(number), shared, turn);
    const Far exchange(b.model, round);
    for (const BlockOp* of = b.ops(); of != b.ops() + b.place.ops; ++of) {
        const BlockOp op = *of; // in registers: what waits is not asked for it again
        if (!has_matrix(op.kind)) {
            make_alone(b, op, count);
            b.team.sync();
            continue;
        }
        if (op.kind == OpKind::conv1d && op.groups != 0 && op.gather_at != op.in_at) {
            gather(b, op, count);
            b.team.sync();
        }
        const uint32_t most = b.model.columns_at_once;
        for (uint32_t base = 0; base < count; base += most) {
            if (base != 0) b.team.sync(); // the sums of the columns before have been read
            multiply<F, columns_together>(b, op, exchange, base,
                                          count - base < most ? count - base : most);
        }
        if (op.exchanged != 0) receive(b, op, exchange, round, count);
        b.team.sync();
    }
    answer_by_leader(b, count);
}

// h, of this block's rows. Not before it has come from all blocks: each of them has read what was
// there by then, if the stream's sums were made anew.
DENIZEN_HD inline void keep_own(const Block& b, const BlockOp& op, uint32_t count)
{
    const uint32_t end = op.first + op.groups * (gated(op.kind) ? 1 : 4);
    for (uint32_t c = 0; c < count; ++c) {
        for (uint32_t i = op.first + b.team.rank(); i < end && i < op.out; i += b.team.size()) {
            b.row(c)[op.row_at + i] = b.values(c)[op.out_at + i];
        }
    }
}

// What the next step of the same streams will not have to wait for.
template <Format F>
DENIZEN_COLD void prepare(uint32_t number, unsigned char* shared, Turn& turn, uint32_t count)
{
    const Block b = called_by(Team(number), shared, turn);
    for (const BlockOp* op = b.ops(); op != b.ops() + b.place.ops; ++op) {
        if (recurrent(op->kind)) {
            keep_own(b, *op, count);
            const uint32_t most = b.model.columns_at_once;
            for (uint32_t base = 0; base < count; base += most) {
                sum_own<F, columns_together>(b, *op, base,
                                             count - base < most ? count - base : most);
            }
        } else if (op->kind == OpKind::conv1d && op->groups != 0 && op->past != 0) {
            keep_input(b, *op, count);
        }
    }
}

} // namespace denizen::infer::detail

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
#else
inline constexpr uint32_t rows_each = 4;
#endif
// Groups that a warp makes together: their lanes' sums are added in fewer steps than one after the
// other's. Weights of fp32 leave no registers for a second one.
template <Format F>
inline constexpr uint32_t most_groups = DENIZEN_ON_DEVICE && F != Format::fp32 ? 2 : 1;

// A lane's rows of `n` groups: on the device 8 / n lanes have the same row.
struct Rows {
    float v[rows_each];
};

template <uint32_t n>
DENIZEN_HD inline uint32_t row_number(uint32_t i)
{
#if DENIZEN_ON_DEVICE
    return lanes::id() / (8 / n) % 4 + i;
#else
    return i;
#endif
}
// Of the lanes that have the same row, and that have rows of the same group.
template <uint32_t n>
DENIZEN_HD inline bool first_of_row()
{
    return lanes::id() % (8 / n) == 0;
}
template <uint32_t n>
DENIZEN_HD inline uint32_t lane_of_group()
{
    return lanes::id() % (lanes::size / n);
}
// Of n groups, the one whose rows this lane has.
template <uint32_t n>
DENIZEN_HD inline uint32_t group_of_lane()
{
    return n == 1 ? 0 : lanes::id() / (lanes::size / n);
}

// Row `row` of its group, in every lane.
template <uint32_t n>
DENIZEN_HD inline float row_value(const Rows& rows, uint32_t row)
{
#if DENIZEN_ON_DEVICE
    return lanes::shuffle(rows.v[0], group_of_lane<n>() * (lanes::size / n) + row * (8 / n));
#else
    return rows.v[row];
#endif
}

// A lane's weights of the first chunks of one group, or of two.
template <Format F>
struct Held {
#if DENIZEN_ON_DEVICE
    static constexpr uint32_t most = F == Format::fp32 ? 1 : 2;
    Four<F> of[most][4];
#endif
};

template <Format F>
DENIZEN_HD inline uint32_t group_bytes(uint32_t chunks)
{
    return chunks * 4 * chunk * format_bytes(F);
}

// Weights of n groups at `w`, the others `apart` bytes behind.
template <Format F, uint32_t n>
DENIZEN_HD inline void hold([[maybe_unused]] Held<F>& held, [[maybe_unused]] const unsigned char* w,
                            [[maybe_unused]] uint32_t apart, [[maybe_unused]] uint32_t chunks)
{
#if DENIZEN_ON_DEVICE
    constexpr uint32_t row_bytes = chunk * format_bytes(F);
    constexpr uint32_t each = Held<F>::most / n;
    w += lanes::id() * 4 * format_bytes(F);
    DENIZEN_UNROLL
    for (uint32_t k = 0; k < each; ++k) {
        if (k >= chunks) continue;
        DENIZEN_UNROLL
        for (uint32_t i = 0; i < n; ++i) {
            DENIZEN_UNROLL
            for (uint32_t r = 0; r < 4; ++r) {
                held.of[i * each + k][r] = four_at<F>(w + i * apart + (4 * k + r) * row_bytes);
            }
        }
    }
#endif
}

#if DENIZEN_ON_DEVICE
template <uint32_t n>
struct Sums {
    Quad of[n];
};

// Of the first `c` chunks, which are held.
template <Format F, uint32_t n, uint32_t c>
__device__ inline Sums<n> sum_held(const Held<F>& held, const float* x)
{
    constexpr uint32_t each = Held<F>::most / n;
    Quad in[c];
    DENIZEN_UNROLL
    for (uint32_t k = 0; k < c; ++k) in[k] = *reinterpret_cast<const Quad*>(x + k * chunk);
    Sums<n> s{};
    DENIZEN_UNROLL
    for (uint32_t k = 0; k < c; ++k) {
        DENIZEN_UNROLL
        for (uint32_t i = 0; i < n; ++i) {
            DENIZEN_UNROLL
            for (uint32_t r = 0; r < 4; ++r) {
                s.of[i] = plus_product(widened<F>(held.of[i * each + k][r]), in[k], s.of[i], r);
            }
        }
    }
    return s;
}

__device__ inline float rows_of_lanes(const Sums<1>& s) { return row_of_lanes(s.of[0]); }

// Over all lanes the sum of row lane / 4 % 4 of group lane / 16: each half of the warp keeps a
// group, each quarter two rows of it, then one. Lanes are added in row_of_lanes()' order.
__device__ inline float rows_of_lanes(const Sums<2>& s)
{
    const uint32_t lane = lanes::id();
    const bool second = (lane & 16) != 0;
    float v[4];
    DENIZEN_UNROLL
    for (uint32_t r = 0; r < 4; ++r) {
        v[r] = second ? s.of[1].v[r] : s.of[0].v[r];
        v[r] += __shfl_xor_sync(~0u, second ? s.of[0].v[r] : s.of[1].v[r], 16);
    }
    const bool upper = (lane & 8) != 0;
    float a = upper ? v[2] : v[0];
    float b = upper ? v[3] : v[1];
    a += __shfl_xor_sync(~0u, upper ? v[0] : v[2], 8);
    b += __shfl_xor_sync(~0u, upper ? v[1] : v[3], 8);
    const bool odd = (lane & 4) != 0;
    float one = odd ? b : a;
    one += __shfl_xor_sync(~0u, odd ? a : b, 4);
    one += __shfl_xor_sync(~0u, one, 2);
    one += __shfl_xor_sync(~0u, one, 1);
    return one;
}
#endif

// Rows of n groups times the floats at x.
template <Format F, uint32_t n>
DENIZEN_HD inline Rows sum_rows([[maybe_unused]] const Held<F>& held, const unsigned char* w,
                                [[maybe_unused]] uint32_t apart, const float* x, uint32_t chunks)
{
#if DENIZEN_ON_DEVICE
    constexpr uint32_t each = Held<F>::most / n;
    constexpr uint32_t row_bytes = chunk * format_bytes(F);
    static_assert(each <= 4);
    x += lanes::id() * 4;
    if (chunks >= each) {
        Sums<n> s = sum_held<F, n, each>(held, x);
        w += lanes::id() * 4 * format_bytes(F) + each * 4 * row_bytes;
        x += each * chunk;
#pragma unroll 2
        for (uint32_t k = each; k < chunks; ++k) {
            const Quad in = *reinterpret_cast<const Quad*>(x);
            DENIZEN_UNROLL
            for (uint32_t i = 0; i < n; ++i) {
                DENIZEN_UNROLL
                for (uint32_t r = 0; r < 4; ++r) {
                    s.of[i] = plus_product(widened<F>(four_at<F>(w + i * apart + r * row_bytes)),
                                           in, s.of[i], r);
                }
            }
            w += 4 * row_bytes;
            x += chunk;
        }
        return {{rows_of_lanes(s)}};
    }
    if constexpr (each > 3) {
        if (chunks == 3) return {{rows_of_lanes(sum_held<F, n, 3>(held, x))}};
    }
    if constexpr (each > 2) {
        if (chunks == 2) return {{rows_of_lanes(sum_held<F, n, 2>(held, x))}};
    }
    return {{rows_of_lanes(sum_held<F, n, 1>(held, x))}};
#else
    Quad of;
    sum_group<F, 1>(w, x, 0, chunks, 1, &of);
    return {{of.v[0], of.v[1], of.v[2], of.v[3]}};
#endif
}

// A group's rows times the floats at x, of weights of which none is held: they may be far, so as
// many as there are registers for are on their way at once.
template <Format F>
DENIZEN_HD inline Rows sum_of_rows(const unsigned char* w, const float* x, uint32_t chunks)
{
#if DENIZEN_ON_DEVICE
    constexpr uint32_t row_bytes = chunk * format_bytes(F);
    w += lanes::id() * 4 * format_bytes(F);
    x += lanes::id() * 4;
    Quad of{};
#pragma unroll 4
    for (uint32_t k = 0; k < chunks; ++k) {
        const Quad in = *reinterpret_cast<const Quad*>(x);
        DENIZEN_UNROLL
        for (uint32_t r = 0; r < 4; ++r) {
            of = plus_product(widened<F>(four_at<F>(w + r * row_bytes)), in, of, r);
        }
        w += 4 * row_bytes;
        x += chunk;
    }
    return {{row_of_lanes(of)}};
#else
    Quad of;
    sum_group<F, 1>(w, x, 0, chunks, 1, &of);
    return {{of.v[0], of.v[1], of.v[2], of.v[3]}};
#endif
}

// --- what a warp has before its input is there ---

// What its rows' sums are added to, and what its unit has kept.
struct KeptRows {
    Rows before;
    float unit;
};

// Of n groups from `group` on; `cached`: the block's cache is of this stream.
template <uint32_t n>
DENIZEN_HD inline KeptRows kept_rows(const Block& b, const BlockOp& op, uint32_t group, bool cached)
{
    KeptRows k;
    k.unit = 0;
    group += group_of_lane<n>();
    if (n != 1 && group >= op.groups) group = op.groups - 1; // there is no other one
    if (recurrent(op.kind) && !cached) {
        const float* const before = b.own(0) + op.sums_at + 4 * group;
        DENIZEN_UNROLL
        for (uint32_t i = 0; i < rows_each; ++i) k.before.v[i] = before[row_number<n>(i)];
        if (gated(op.kind)) k.unit = kept_of(b, op, unit_of(op, group), 0);
        return k;
    }
    const float* const before =
        recurrent(op.kind) ? b.cache(op) : reinterpret_cast<const float*>(b.shared + op.bias);
    DENIZEN_UNROLL
    for (uint32_t i = 0; i < rows_each; ++i) k.before.v[i] = before[4 * group + row_number<n>(i)];
    if (gated(op.kind)) k.unit = before[4 * op.groups + group];
    return k;
}

inline constexpr uint32_t in_pairs = 1u << 8; // a warp makes two of its groups together
inline constexpr uint32_t rectified = 1u << 9;
inline constexpr uint32_t exchanged = 1u << 10;
inline constexpr uint32_t answers = 1u << 11;

// What is asked for once the input is there lies in registers by then.
template <Format F>
struct Ahead {
    DENIZEN_HD OpKind kind() const { return static_cast<OpKind>(what & 0xff); }
    DENIZEN_HD bool is(uint32_t flag) const { return (what & flag) != 0; }

    uint32_t what; // its kind, and flags: one register
    uint32_t groups;
    uint32_t chunks;
    uint32_t first;
    uint32_t words_at;
    uint32_t out;
    uint32_t x_at;    // its input, in floats: of a pointer it would not be known where it points
    uint32_t weights; // bytes
    Held<F> held;
    KeptRows kept;
};

template <Format F, uint32_t n>
DENIZEN_HD inline void hold_groups(const Block& b, Ahead<F>& a, uint32_t group)
{
    const uint32_t bytes = group_bytes<F>(a.chunks);
    hold<F, n>(a.held, b.shared + a.weights + group * bytes, group + 1 < a.groups ? bytes : 0,
               a.chunks);
}

// Its first groups' weights.
template <Format F>
DENIZEN_HD inline Ahead<F> ahead(const Block& b, const BlockOp& op)
{
    Ahead<F> a;
    const bool pairs = most_groups<F> == 2 && gated(op.kind) && op.groups > b.team.warps();
    a.what = static_cast<uint32_t>(op.kind) | (pairs ? in_pairs : 0) |
             (op.relu != 0 ? rectified : 0) | (op.exchanged != 0 ? exchanged : 0) |
             (op.answers != 0 ? answers : 0);
    a.groups = has_matrix(op.kind) ? op.groups : 0;
    a.chunks = op.chunks;
    a.first = op.first;
    a.words_at = op.words_at;
    a.out = op.out;
    a.x_at = op.kind == OpKind::conv1d ? op.gather_at : op.in_at;
    a.weights = op.weights;
    if (a.is(in_pairs)) {
        if (2 * b.team.warp() < a.groups) hold_groups<F, most_groups<F>>(b, a, 2 * b.team.warp());
    } else if (b.team.warp() < a.groups) {
        hold_groups<F, 1>(b, a, b.team.warp());
    }
    return a;
}

// What they have kept of the stream.
template <Format F>
DENIZEN_HD inline void take_kept(const Block& b, const BlockOp& op, Ahead<F>& a, bool cached)
{
    a.kept = {};
    if (a.is(in_pairs)) {
        if (2 * b.team.warp() < a.groups) {
            a.kept = kept_rows<most_groups<F>>(b, op, 2 * b.team.warp(), cached);
        }
    } else if (b.team.warp() < a.groups) {
        a.kept = kept_rows<1>(b, op, b.team.warp(), cached);
    }
}

// --- a matrix ---

// Where the round's answer goes.
struct Answer {
    Word* words;
    uint32_t number;
};

// A unit's value, by the lanes that have it: of all those whose lanes are `of`.
template <uint32_t of, class Exchange, Format F>
DENIZEN_HD inline void put_out(const Ahead<F>& a, const Exchange& exchange, const Answer& answer,
                               float value, uint32_t unit)
{
    if (a.is(exchanged)) exchange.template publish_one<of>(value, a.words_at + unit);
    if (a.is(answers) && lanes::id() % of == 0) {
        store<Scope::system>(answer.words + unit, word_of(value, answer.number));
    }
}

template <uint32_t n, class Exchange, Format F>
DENIZEN_HD inline void finish_groups(const Block& b, const BlockOp& op, const Ahead<F>& a,
                                     const Exchange& exchange, const Answer& answer, Rows sum,
                                     KeptRows k, uint32_t group)
{
    DENIZEN_UNROLL
    for (uint32_t i = 0; i < rows_each; ++i) sum.v[i] += k.before.v[i];
    group += group_of_lane<n>();
    if (gated(a.kind())) {
        const bool lstm = a.kind() == OpKind::lstm;
        DENIZEN_UNROLL
        for (uint32_t i = 0; i < rows_each; ++i) {
            sum.v[i] =
                lstm ? lstm_gate(sum.v[i], row_number<n>(i)) : gru_gate(sum.v[i], row_number<n>(i));
        }
        const float g0 = row_value<n>(sum, 0);
        const float g1 = row_value<n>(sum, 1);
        const float g2 = row_value<n>(sum, 2);
        const float g3 = row_value<n>(sum, 3);
        const float h =
            lstm ? lstm_of_gates(g0, g1, g2, g3, k.unit) : gru_of_gates(g0, g1, g2, g3, k.unit);
        if (n != 1 && group >= a.groups) return;
        const uint32_t unit = a.first + group;
        put_out<lanes::size / n>(a, exchange, answer, h, unit);
        if (lane_of_group<n>() == 0) {
            b.cache(op)[4 * a.groups + group] = lstm ? k.unit : h;
            if (lstm) kept_of(b, op, unit, 0) = k.unit;
        }
        return;
    }
    DENIZEN_UNROLL
    for (uint32_t i = 0; i < rows_each; ++i) {
        if (a.is(rectified)) {
            sum.v[i] = activated(OpKind::relu, sum.v[i]);
        } else if (a.kind() == OpKind::rnn) {
            sum.v[i] = activated(OpKind::tanh, sum.v[i]);
        }
        const uint32_t own = a.first + 4 * group + row_number<n>(i);
        if (own < a.out) put_out<lanes::size == 1 ? 1 : 8 / n>(a, exchange, answer, sum.v[i], own);
    }
}

// This block's rows of a matrix, n groups at a time: each warp has the weights of its first ones,
// and takes those of the next before it finishes them.
template <Format F, uint32_t n, class Exchange>
DENIZEN_HD inline void multiply_one(const Block& b, const BlockOp& op, Ahead<F>& a,
                                    const Exchange& exchange, const Answer& answer, bool cached)
{
    const uint32_t bytes = group_bytes<F>(a.chunks);
    for (uint32_t g = n * b.team.warp(); g < a.groups;) {
        const Rows sum =
            sum_rows<F, n>(a.held, b.shared + a.weights + g * bytes, g + 1 < a.groups ? bytes : 0,
                           b.values(0) + a.x_at, a.chunks);
        const KeptRows kept = a.kept;
        const uint32_t next = g + n * b.team.warps();
        if (next < a.groups) {
            hold_groups<F, n>(b, a, next);
            a.kept = kept_rows<n>(b, op, next, cached);
        }
        finish_groups<n>(b, op, a, exchange, answer, sum, kept, g);
        g = next;
    }
}

// Takes the value that the blocks have made. Two loads are under way at once: with one, a value of
// more pairs than threads would be waited for twice.
template <class Exchange>
DENIZEN_HD inline void receive_one(const Block& b, const BlockOp& op, const Exchange& exchange,
                                   uint32_t round)
{
    const uint32_t step = 2 * b.team.size();
    for (uint32_t at = 2 * b.team.rank(); at < op.out; at += 2 * step) {
        const bool more = at + step < op.out;
        TwoWords one{};
        TwoWords other{};
        for (;;) { // ends: every block makes its rows in every round
            one = exchange.pair(0, op.words_at + at);
            if (more) other = exchange.pair(0, op.words_at + at + step);
            if (pair_there(op, one, at, round) &&
                (!more || pair_there(op, other, at + step, round))) {
                break;
            }
            pause_block();
        }
        keep_pair(b, op, one, 0, at);
        if (more) keep_pair(b, op, other, 0, at + step);
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
    const Block b{model, Team::front(number, model.front_warps), shared, turn,
                  model.places[number]};
    make_alone(b, b.ops()[op], 1);
    lanes::rejoin();
}

// --- the round ---

// The front warps. `a`: the first op.
template <Format F, class Exchange>
DENIZEN_HD inline void answer_one(const Block& b, Ahead<F> a, const Exchange& exchange,
                                  uint32_t round, bool cached)
{
    const Answer answer{b.answer(0), b.turn.of[0].sequence};
    take_kept(b, b.ops()[0], a, cached);
    for (uint32_t number = 1;; ++number) { // ends with the last op
        const BlockOp& op = b.ops()[number - 1];
        const bool matrix = has_matrix(a.kind());
        if (a.kind() == OpKind::relu) {
            rectify(b, op);
        } else if (!matrix) {
            make_rest(b.model, b.team.block(), b.shared, b.turn, number - 1);
        } else {
            if (a.kind() == OpKind::conv1d && a.groups != 0 && op.gather_at != op.in_at) {
                gather(b, op, 1);
                b.team.sync();
                a = ahead<F>(b, op); // not kept through the call of a division
                take_kept(b, op, a, cached);
            }
            if (a.is(in_pairs)) {
                multiply_one<F, most_groups<F>>(b, op, a, exchange, answer, cached);
            } else {
                multiply_one<F, 1>(b, op, a, exchange, answer, cached);
            }
        }
        const bool last = number == b.place.ops;
        // On its way while this block waits for the others.
        const bool waits = matrix && a.is(exchanged);
        if (!last) {
            a = ahead<F>(b, b.ops()[number]);
            take_kept(b, b.ops()[number], a, cached);
        }
        if (waits) receive_one(b, op, exchange, round);
        b.team.sync();
        if (b.team.rank() == 0) {
            // On the device a fence would wait for what has been published; shared memory takes the
            // stores that met above, and this one, in their order.
            store<Scope::block, denizen::detail::host_release>(&b.turn.made,
                                                               round | uint64_t{number} << 32);
        }
        if (last) break;
    }
    answer_by_leader(b, 1);
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

// What the stream's next step will not have to wait for: by the warps behind the front ones, each
// op's as soon as its value is there. The groups of all ops go to the warps in turn; the block
// meets behind it.
template <Format F>
DENIZEN_COLD void prepare_one(const ResidentModel& model, uint32_t number, unsigned char* shared,
                              Turn& turn, uint32_t round)
{
    const Block b{model, Team::behind(number, model.front_warps), shared, turn,
                  model.places[number]};
    uint32_t before = 0; // groups of the ops before
    uint32_t ops = 0;
    for (const BlockOp* at = b.ops(); at != b.ops() + b.place.ops; ++at) {
        const BlockOp& op = *at;
        ++ops;
        if (op.kind == OpKind::conv1d && op.groups != 0 && op.past != 0) {
            wait_made(b, round, ops);
            keep_input(b, op, 1);
        }
        if (!recurrent(op.kind)) continue;
        wait_made(b, round, ops);
        keep_own(b, op, 1);
        const float* const h = b.values(0) + op.out_at;
        const uint32_t warps = b.team.warps();
        for (uint32_t g = (b.team.warp() + warps - before % warps) % warps; g < op.groups;
             g += warps) {
            const unsigned char* const w =
                (op.own_near != 0 ? b.shared + op.own_weights : b.far(op.far)) +
                g * group_bytes<F>(op.own_chunks);
            const auto* const biases = reinterpret_cast<const float*>(b.far(op.far_bias)) + 4 * g;
            Rows bias; // on its way with the weights
            DENIZEN_UNROLL
            for (uint32_t i = 0; i < rows_each; ++i) bias.v[i] = biases[row_number<1>(i)];
            const Rows sum = sum_of_rows<F>(w, h, op.own_chunks);
            float* const to = b.own(0) + op.sums_at + 4 * g;
            float* const cache = b.cache(op) + 4 * g;
            DENIZEN_UNROLL
            for (uint32_t i = 0; i < rows_each; ++i) {
                const uint32_t row = row_number<1>(i);
                if (first_of_row<1>()) to[row] = cache[row] = sum.v[i] + bias.v[i];
            }
        }
        before += op.groups;
    }
    lanes::rejoin();
}

} // namespace denizen::infer::detail

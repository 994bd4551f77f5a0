// SPDX-License-Identifier: Apache-2.0
// A round of one request, which waits for each of its instructions. A warp makes a group's sums and
// what they become: a gate by the lanes that have its row, and the unit by all of them, of whom
// each stores it into another block. So a block meets once for each matrix, when its value has
// come. While a warp waits for a value it has what comes next in registers: the stage, the weights
// of its group's first chunks, and what the stream has kept.
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

template <Format F>
DENIZEN_HD inline uint32_t group_bytes(uint32_t chunks)
{
    return chunks * 4 * chunk * format_bytes(F);
}

// A lane's weights of a group's first chunks.
template <Format F>
struct Held {
#if DENIZEN_ON_DEVICE
    static constexpr uint32_t most = F == Format::fp32 ? 1 : 2;
    Four<F> of[most][4];
#endif
};

// `w`: of the group.
template <Format F>
DENIZEN_HD inline void hold([[maybe_unused]] Held<F>& held, [[maybe_unused]] const unsigned char* w,
                            [[maybe_unused]] uint32_t chunks)
{
#if DENIZEN_ON_DEVICE
    constexpr uint32_t row_bytes = chunk * format_bytes(F);
    w += lanes::id() * 4 * format_bytes(F);
    DENIZEN_UNROLL
    for (uint32_t k = 0; k < Held<F>::most; ++k) {
        if (k >= chunks) break;
        DENIZEN_UNROLL
        for (uint32_t r = 0; r < 4; ++r) held.of[k][r] = four_at<F>(w + (4 * k + r) * row_bytes);
    }
#endif
}

#if DENIZEN_ON_DEVICE
// Of the first n chunks, which are held.
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

// Adds to `of` the rows' chunks from the one on that w and x are at; of so many chunks the weights
// are on their way at once.
template <Format F, int together>
__device__ inline void add_chunks(Quad& of, const unsigned char* w, const float* x, uint32_t from,
                                  uint32_t chunks)
{
    constexpr uint32_t row_bytes = chunk * format_bytes(F);
#pragma unroll together
    for (uint32_t k = from; k < chunks; ++k) {
        const Quad in = *reinterpret_cast<const Quad*>(x);
        DENIZEN_UNROLL
        for (uint32_t r = 0; r < 4; ++r) {
            of = plus_product(widened<F>(four_at<F>(w + r * row_bytes)), in, of, r);
        }
        w += 4 * row_bytes;
        x += chunk;
    }
}
#endif

// A group's rows times the floats at x. `w`: of the group.
template <Format F>
DENIZEN_HD inline Rows sum_rows([[maybe_unused]] const Held<F>& held, const unsigned char* w,
                                const float* x, uint32_t chunks)
{
#if DENIZEN_ON_DEVICE
    constexpr uint32_t most = Held<F>::most;
    static_assert(most <= 2);
    x += lanes::id() * 4;
    Quad of;
    if (chunks < most) {
        of = sum_held<F, 1>(held, x);
    } else {
        of = sum_held<F, most>(held, x);
        w += (lanes::id() * 4 + most * 4 * chunk) * format_bytes(F);
        add_chunks<F, 2>(of, w, x + most * chunk, most, chunks);
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

DENIZEN_HD inline KeptRows kept_rows(const Block& b, const Stage& s, uint32_t group)
{
    const auto* const before = reinterpret_cast<const float*>(b.shared + s.before);
    KeptRows k;
    DENIZEN_UNROLL
    for (uint32_t i = 0; i < rows_each; ++i) k.before.v[i] = before[4 * group + row_number(i)];
    k.unit = s.is(Stage::gates) ? before[4 * s.groups + group] : 0.0F;
    return k;
}

template <Format F>
struct Ahead {
    Stage stage;
    Held<F> held;
    KeptRows kept;
};

// All but what the stream has kept.
template <Format F>
DENIZEN_HD inline Ahead<F> ahead(const Block& b, uint32_t number)
{
    Ahead<F> a;
    a.stage = b.ops()[number].stage;
    const uint32_t group = b.team.warp();
    if (group < a.stage.groups) {
        const uint32_t chunks = a.stage.chunks;
        hold<F>(a.held, b.shared + a.stage.weights + group * group_bytes<F>(chunks), chunks);
    }
    return a;
}

template <Format F>
DENIZEN_HD inline void take_kept(const Block& b, Ahead<F>& a)
{
    if (b.team.warp() < a.stage.groups) a.kept = kept_rows(b, a.stage, b.team.warp());
}

// The block's cache, of a stream that was not alone in the last round. All threads; the block meets
// behind it.
DENIZEN_COLD inline void load_cache(uint32_t number, unsigned char* shared, Turn& turn)
{
    const Block b = called_by(Team(number), shared, turn);
    // A warp an op: their loads are on their way at once.
    for (uint32_t i = b.team.warp(); i < b.place.ops; i += b.team.warps()) {
        const BlockOp& op = b.ops()[i];
        if (!recurrent(op.kind)) continue;
        const float* const sums = b.own(0) + op.sums_at;
        float* const to = b.cache(op);
        for (uint32_t k = lanes::id(); k < 4 * op.groups; k += lanes::size) to[k] = sums[k];
        if (!gated(op.kind)) continue;
        for (uint32_t g = lanes::id(); g < op.groups; g += lanes::size) {
            to[4 * op.groups + g] = kept_of(b, op, op.first + g, 0);
        }
    }
    lanes::rejoin();
}

// --- a matrix ---

// Where the round's answer goes.
struct Answer {
    Word* words;
    uint32_t number;
};

// What this block has made of a value, on its way to the others' memory.
DENIZEN_HD inline float* staged(const Block& b) { return reinterpret_cast<float*>(b.sums()); }

// A unit's value, by the lanes that have it: of all those whose lanes are `of`.
template <uint32_t of, class Exchange>
DENIZEN_HD inline void put_out(const Block& b, const Stage& s, const Exchange& exchange,
                               const Answer& answer, float value, uint32_t unit)
{
    if (lanes::id() % of != 0) return;
    if (s.is(Stage::exchanged)) {
        if constexpr (Exchange::staged) {
            staged(b)[unit - s.first] = value;
        } else {
            exchange.publish_one(value, s.words_at + unit);
        }
    }
    if (s.is(Stage::answers)) {
        store<Scope::system>(answer.words + unit, word_of(value, answer.number));
    }
}

// A gated unit, of its rows' sums: `gate` of a row, and `of_gates` of all four.
template <class Exchange, class Gate, class OfGates>
DENIZEN_HD inline void finish_unit(const Block& b, const Stage& s, const Exchange& exchange,
                                   const Answer& answer, Rows sum, float kept, uint32_t group,
                                   Gate&& gate, OfGates&& of_gates)
{
    DENIZEN_UNROLL
    for (uint32_t i = 0; i < rows_each; ++i) sum.v[i] = gate(sum.v[i], row_number(i));
    const float g0 = row_value(sum, 0);
    const float g1 = row_value(sum, 1);
    const float g2 = row_value(sum, 2);
    const float g3 = row_value(sum, 3);
    const float h = of_gates(g0, g1, g2, g3, kept);
    put_out<lanes::size>(b, s, exchange, answer, h, s.first + group);
    if (lanes::id() == 0) {
        auto* const units = reinterpret_cast<float*>(b.shared + s.before) + 4 * s.groups;
        units[group] = kept;
    }
}

template <class Exchange>
DENIZEN_HD inline void finish_group(const Block& b, const Stage& s, const Exchange& exchange,
                                    const Answer& answer, Rows sum, const KeptRows& k,
                                    uint32_t group)
{
    DENIZEN_UNROLL
    for (uint32_t i = 0; i < rows_each; ++i) sum.v[i] += k.before.v[i];
    if (s.kind() == OpKind::lstm) {
        finish_unit(
            b, s, exchange, answer, sum, k.unit, group,
            [](float x, uint32_t row) { return lstm_gate(x, row); },
            [](float i, float f, float g, float o, float& c) {
                return lstm_of_gates(i, f, g, o, c);
            });
        return;
    }
    if (s.is(Stage::gates)) {
        finish_unit(
            b, s, exchange, answer, sum, k.unit, group,
            [](float x, uint32_t row) { return gru_gate(x, row); },
            [](float r, float z, float n, float of_h, float& h) {
                return h = gru_of_gates(r, z, n, of_h, h);
            });
        return;
    }
    DENIZEN_UNROLL
    for (uint32_t i = 0; i < rows_each; ++i) {
        if (s.is(Stage::rectified)) {
            sum.v[i] = activated(OpKind::relu, sum.v[i]);
        } else if (s.kind() == OpKind::rnn) {
            sum.v[i] = activated(OpKind::tanh, sum.v[i]);
        }
        const uint32_t unit = s.first + 4 * group + row_number(i);
        if (unit < s.out) put_out<row_lanes>(b, s, exchange, answer, sum.v[i], unit);
    }
}

// This block's rows of a matrix: each warp has the weights of its first group, and takes those of
// the next before it finishes one.
template <Format F, class Exchange>
DENIZEN_HD inline void multiply_one(const Block& b, Ahead<F>& a, const Exchange& exchange,
                                    const Answer& answer)
{
    const Stage& s = a.stage;
    const uint32_t bytes = group_bytes<F>(s.chunks);
    const auto* const x = reinterpret_cast<const float*>(b.shared + s.x);
    for (uint32_t g = b.team.warp(); g < s.groups;) {
        const Rows sum = sum_rows<F>(a.held, b.shared + s.weights + g * bytes, x, s.chunks);
        const KeptRows kept = a.kept;
        const uint32_t next = g + b.team.warps();
        if (next < s.groups) {
            hold<F>(a.held, b.shared + s.weights + next * bytes, s.chunks);
            a.kept = kept_rows(b, s, next);
        }
        finish_group(b, s, exchange, answer, sum, kept, g);
        g = next;
    }
}

// A value that is waited for.
struct Awaited {
    uint32_t words_at;
    uint32_t out;
    uint32_t value;
};

// Of a pair from element `at` on, what has not come: 0 if all of it has. `second`: all ones, or 0
// if the pair's first is the value's last.
DENIZEN_HD inline uint32_t missing(const TwoWords& two, uint32_t second, uint32_t round)
{
    return (number_of(two.word[0]) ^ round) | ((number_of(two.word[1]) ^ round) & second);
}

struct alignas(8) Pair {
    float v[2];
};

// Behind a value's last element are zeros.
DENIZEN_HD inline void keep_two(float* to, const TwoWords& two, uint32_t second)
{
    *reinterpret_cast<Pair*>(to) = {{value_of(two.word[0]), value_of(two.word[1] & second)}};
}

// Takes the value that the blocks have made.
template <class Exchange>
DENIZEN_HD inline void receive_one(const Block& b, const Awaited& of, const Exchange& exchange,
                                   uint32_t round)
{
    auto* const to = reinterpret_cast<float*>(b.shared + of.value);
    const uint32_t step = 2 * b.team.size();
    const uint32_t at = 2 * b.team.rank();
    if (of.out <= step) {
        if (at >= of.out) return;
        const uint32_t second = at + 1 != of.out ? ~0u : 0;
        TwoWords two = exchange.pair(0, of.words_at + at);
        while (missing(two, second, round) != 0) { // ends: every block makes its rows every round
            pause_block();
            two = exchange.pair(0, of.words_at + at);
        }
        keep_two(to + at, two, second);
        return;
    }
    // Two loads are under way at once: with one, the value would be waited for twice.
    for (uint32_t first = at; first < of.out; first += 2 * step) {
        const uint32_t other = first + step < of.out ? first + step : first;
        const uint32_t second = first + 1 != of.out ? ~0u : 0;
        const uint32_t fourth = other + 1 != of.out ? ~0u : 0;
        TwoWords two{};
        TwoWords four{};
        for (;;) { // ends as above
            two = exchange.pair(0, of.words_at + first);
            four = exchange.pair(0, of.words_at + other);
            if ((missing(two, second, round) | missing(four, fourth, round)) == 0) break;
            pause_block();
        }
        keep_two(to + first, two, second);
        keep_two(to + other, four, fourth);
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

// Called, so that its registers are not taken from what waits.
DENIZEN_COLD inline void make_rest(uint32_t number, unsigned char* shared, Turn& turn, uint32_t op)
{
    const Block b = called_by(Team::front(number, turn.model.front_warps), shared, turn);
    make_alone(b, b.ops()[op], 1);
    lanes::rejoin();
}

// --- the round ---

// The warps of b's team. `a`: the first op. `told`: others wait for what has been made
// (wait_made()).
template <Format F, class Exchange>
DENIZEN_HD inline void answer_one(const Block& b, Ahead<F> a, const Exchange& exchange,
                                  uint32_t round, bool told)
{
    const Answer answer{b.answer(0), b.turn.of[0].sequence};
    take_kept(b, a);
    for (uint32_t number = 1;; ++number) { // ends with the last op
        if (!a.stage.is(Stage::matrix)) {
            if (a.stage.kind() == OpKind::relu) {
                rectify(b, b.ops()[number - 1]);
            } else {
                make_rest(b.team.block(), b.shared, b.turn, number - 1);
            }
        } else {
            if (a.stage.is(Stage::gathered)) {
                gather(b, b.ops()[number - 1], 1);
                b.team.sync();
                a = ahead<F>(b, number - 1); // not kept through the call of a division
                take_kept(b, a);
            }
            multiply_one<F>(b, a, exchange, answer);
            if constexpr (Exchange::staged) {
                if (a.stage.is(Stage::exchanged)) {
                    b.team.sync();
                    exchange.publish_all(staged(b), a.stage.words_at + a.stage.first,
                                         a.stage.units);
                }
            }
        }
        const bool last = a.stage.is(Stage::last);
        const bool waits = a.stage.is(Stage::exchanged);
        const Awaited awaited{a.stage.words_at, a.stage.out, a.stage.value};
        if (!last) { // on its way while this block waits for the others
            a = ahead<F>(b, number);
            take_kept(b, a);
        }
        if (waits) receive_one(b, awaited, exchange, round);
        b.team.sync();
        if (told && b.team.rank() == 0) {
            // On the device a fence would wait for what has been published; shared memory takes the
            // stores that met above, and this one, in their order.
            store<Scope::block, denizen::detail::host_release>(&b.turn.made,
                                                               round | uint64_t{number} << 32);
        }
        if (last) break;
    }
    answer_by_leader(b, 1);
}

} // namespace denizen::infer::detail

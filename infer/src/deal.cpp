// SPDX-License-Identifier: Apache-2.0
#include "deal.hpp"

#include "packer.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace denizen::infer {
namespace {

using detail::BlockOp;
using detail::in_chunks;
using detail::in_fours;
using detail::Stage;

constexpr size_t rounded_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

uint32_t as_word(size_t n) { return static_cast<uint32_t>(n); }

size_t group_bytes(uint32_t chunks, Format format)
{
    return size_t{chunks} * 4 * detail::chunk * format_bytes(format);
}

uint32_t groups_of(const Step& step)
{
    return as_word(gated(step.kind) ? step.out : (step.out + 3) / 4);
}

// Places of the values in a column, in floats.
struct Places {
    explicit Places(const Plan& plan)
    {
        for (const uint32_t width : plan.widths) {
            at.push_back(floats);
            floats += in_chunks(width);
        }
    }
    std::vector<uint32_t> at;
    uint32_t floats = 0;
};

// What all blocks have of a step, and one for each input of a concat.
std::vector<BlockOp> ops_of(const Plan& plan, const Step& step, const Places& places,
                            uint32_t other_at)
{
    BlockOp op{};
    op.kind = step.kind;
    op.relu = step.settings.relu ? 1 : 0;
    op.eps = step.settings.eps;
    op.in_at = places.at[step.inputs[0]];
    op.other_at = other_at;
    op.in = as_word(step.in);
    op.out_at = places.at[step.value];
    op.out = as_word(step.out);
    if (step.kind == OpKind::embedding) op.in = op.out; // floats that are copied
    if (step.kind != OpKind::concat) {
        return {op};
    }
    std::vector<BlockOp> all;
    for (const uint32_t input : step.inputs) {
        op.in_at = places.at[input];
        op.in = plan.widths[input];
        all.push_back(op);
        op.out_at += op.in;
    }
    return all;
}

// Whether `relu` is one that `before` makes with its rows: nobody else reads what it is made of.
bool rectifies(const Step& relu, const Step& before, const Plan& plan,
               const std::vector<uint32_t>& read)
{
    return relu.kind == OpKind::relu && relu.inputs[0] == before.value &&
           (before.kind == OpKind::linear || before.kind == OpKind::conv1d) &&
           read[before.value] == 1 && plan.output != before.value;
}

// What a round of one request asks of an op, once everything has its place.
Stage stage_of(const BlockOp& op, const Deal& d)
{
    const bool matrix = has_matrix(op.kind);
    const auto in_column = [&](uint32_t at) { return as_word(d.values_at + at * sizeof(float)); };
    Stage s{};
    s.what = static_cast<uint32_t>(op.kind);
    const auto set = [&](bool is, uint32_t flag) { s.what |= is ? flag : 0; };
    set(matrix, Stage::matrix);
    set(gated(op.kind), Stage::gates);
    set(op.kind == OpKind::conv1d && op.groups != 0 && op.gather_at != op.in_at, Stage::gathered);
    set(matrix && op.relu != 0, Stage::rectified);
    set(op.exchanged != 0, Stage::exchanged);
    set(op.answers != 0, Stage::answers);
    s.groups = matrix ? op.groups : 0;
    s.chunks = op.chunks;
    s.x = in_column(op.kind == OpKind::conv1d ? op.gather_at : op.in_at);
    s.weights = op.weights;
    s.before = recurrent(op.kind) ? as_word(d.cache_at + op.cache_at * sizeof(float)) : op.bias;
    s.first = op.first;
    s.words_at = op.words_at;
    s.out = op.out;
    s.units = gated(op.kind) ? op.groups : std::min(4 * op.groups, op.out - op.first);
    s.value = in_column(op.out_at);
    return s;
}

// Adds to a sum of bytes; what was there before is the place.
size_t place(size_t& bytes, size_t more)
{
    return std::exchange(bytes, bytes + rounded_up(more, 16));
}

// What follows an answer: the groups of a block's recurrent matrices.
std::vector<detail::OwnGroup> own_groups(const Deal& d, uint32_t block)
{
    std::vector<detail::OwnGroup> list;
    for (const BlockOp& op : d.ops[block]) {
        if (!recurrent(op.kind)) continue;
        const auto bytes = as_word(group_bytes(op.own_chunks, d.format));
        for (uint32_t g = 0; g < op.groups; ++g) {
            detail::OwnGroup one{};
            one.near = op.own_near;
            one.weights = op.own_near != 0 ? op.own_weights + g * bytes : op.far + g * bytes / 16;
            one.chunks = op.own_chunks;
            one.h = as_word(d.values_at + op.out_at * sizeof(float));
            one.bias = op.bias + g * 4 * as_word(sizeof(float));
            one.cache = as_word(d.cache_at + (op.cache_at + 4 * g) * sizeof(float));
            one.own = op.sums_at + 4 * g;
            one.made = as_word(&op - d.ops[block].data()) + 1;
            list.push_back(one);
        }
    }
    return list;
}

} // namespace

Deal deal(const Plan& plan, Format format, uint32_t blocks, bool cluster, uint32_t columns,
          size_t shared)
{
    Deal d;
    d.format = format;
    d.blocks = blocks;
    d.columns = columns;
    const Places places(plan);
    d.column_floats = places.floats;
    std::vector<uint32_t> read(plan.widths.size(), 0); // by so many ops
    for (const Step& step : plan.steps) {
        for (const uint32_t input : step.inputs) ++read[input];
    }
    d.leader_answers = true; // unless a matrix makes the answer
    // What all blocks have in common.
    std::vector<BlockOp> common;
    for (uint32_t s = 0; s < plan.steps.size(); ++s) {
        const Step& step = plan.steps[s];
        if (s != 0 && rectifies(step, plan.steps[s - 1], plan, read)) continue;
        // The value that it makes.
        const uint32_t value =
            s + 1 < plan.steps.size() && rectifies(plan.steps[s + 1], step, plan, read)
                ? plan.steps[s + 1].value
                : step.value;
        const uint32_t other = step.kind == OpKind::add ? places.at[step.inputs[1]] : 0;
        for (BlockOp op : ops_of(plan, step, places, other)) {
            if (step.kind == OpKind::embedding) {
                op.table = as_word(
                    place(d.far_bytes, plan.tokens_below * in_fours(op.out) * sizeof(float)) / 16);
            }
            if (has_matrix(step.kind)) {
                op.chunks = detail::chunks_of(op.in) * std::max(1u, step.taps);
                if (value != step.value) op.relu = 1;
                op.out_at = places.at[value];
                op.answers = value == plan.output ? 1 : 0;
                op.exchanged = read[value] != 0 || recurrent(step.kind) ? 1 : 0;
                d.leader_answers = d.leader_answers && op.answers == 0;
                if (op.exchanged != 0) {
                    op.words_at = d.column_words;
                    d.column_words += as_word(rounded_up(op.out, 4));
                }
            }
            if (recurrent(step.kind)) {
                op.own_chunks = detail::chunks_of(op.out);
                op.row_at = as_word(d.row_floats);
                d.row_floats += (step.kind == OpKind::lstm ? 2 : 1) * in_fours(op.out);
            }
            if (step.kind == OpKind::conv1d) {
                op.taps = step.taps;
                op.dilation = step.settings.dilation;
                op.past = (step.taps - 1) * step.settings.dilation;
                op.gather_at = op.in_at;
                if (step.taps > 1) {
                    op.gather_at = d.column_floats;
                    d.column_floats += step.taps * in_chunks(op.in);
                }
            }
            common.push_back(op);
            d.step_of.push_back(s);
        }
    }
    d.row_floats = rounded_up(d.row_floats, 32);
    d.output_at = places.at[plan.output];

    // Groups, and what an answer waits for.
    d.ops.assign(blocks, common);
    d.places.assign(blocks, {});
    std::vector<size_t> image(blocks, rounded_up(common.size() * sizeof(BlockOp), 16));
    uint32_t next = 0;
    for (size_t i = 0; i < common.size(); ++i) {
        const Step& step = plan.steps[d.step_of[i]];
        if (step.kind == OpKind::layernorm || step.kind == OpKind::affine) {
            for (uint32_t b = 0; b < blocks; ++b) {
                d.ops[b][i].weights = as_word(place(image[b], 2 * step.out * sizeof(float)));
            }
        }
        if (!has_matrix(step.kind)) continue;
        const uint32_t groups = groups_of(step);
        const uint32_t each = (groups + blocks - 1) / blocks;
        const uint32_t used = (groups + each - 1) / each;
        for (uint32_t k = 0; k < used; ++k) {
            const uint32_t b = (next + k) % blocks;
            const uint32_t begin = groups * k / used;
            BlockOp& op = d.ops[b][i];
            op.groups = groups * (k + 1) / used - begin;
            op.first = begin * (gated(step.kind) ? 1 : 4);
            op.weights = as_word(place(image[b], op.groups * group_bytes(op.chunks, format)));
            op.bias = as_word(place(image[b], op.groups * sizeof(float) * 4));
        }
        next = (next + used) % blocks;
    }
    d.columns_at_once = std::min(columns, detail::columns_together);
    uint32_t most_groups = 0;
    uint32_t cache_floats = 0;
    d.paced = true;
    for (std::vector<BlockOp>& of_block : d.ops) {
        uint32_t floats = 0;
        bool gives = false;
        for (BlockOp& op : of_block) {
            gives = gives || (op.exchanged != 0 && op.groups != 0);
            most_groups = std::max(most_groups, op.groups);
            if (!recurrent(op.kind)) continue;
            op.cache_at = floats;
            floats += 4 * op.groups + in_fours(op.groups);
        }
        cache_floats = std::max(cache_floats, floats);
        d.paced = d.paced && gives;
    }
    for (uint32_t b = 0; b < blocks; ++b) {
        detail::BlockPlace& at = d.places[b];
        for (const BlockOp& op : d.ops[b]) at.own_groups += recurrent(op.kind) ? op.groups : 0;
        at.own_groups_at = as_word(place(image[b], at.own_groups * sizeof(detail::OwnGroup)));
    }
    const size_t sums = size_t{most_groups} * d.columns_at_once * 4 * sizeof(float);
    const size_t cache = cache_floats * sizeof(float);
    const size_t values = size_t{columns} * d.column_floats * sizeof(float) + sums + cache;
    const size_t near =
        cluster ? 2 * sizeof(Packet) + 2 * d.column_words * sizeof(detail::Word) : 0;
    const size_t most = *std::max_element(image.begin(), image.end());
    d.wanted_bytes = rounded_up(most, 128) + values + near;

    // What follows an answer: where there is room.
    constexpr uint32_t warps = detail::block_threads / 32;
    d.front_warps = warps;
    const size_t room = d.fits(shared) ? (shared - values - near) / 128 * 128 : 0;
    for (size_t i = 0; i < common.size(); ++i) {
        const Step& step = plan.steps[d.step_of[i]];
        for (uint32_t b = 0; b < blocks; ++b) {
            BlockOp& op = d.ops[b][i];
            if (recurrent(step.kind) && op.groups != 0) {
                const size_t bytes = op.groups * group_bytes(op.own_chunks, format);
                op.own_near = image[b] + bytes <= room ? 1 : 0;
                if (op.own_near != 0) {
                    op.own_weights = as_word(place(image[b], bytes));
                } else {
                    op.far = as_word(place(d.far_bytes, bytes) / 16);
                    // It takes as long as the host's way there and back, and longer.
                    if (!cluster) d.front_warps = warps / 2;
                }
                op.sums_at = d.places[b].own_floats;
                d.places[b].own_floats += 4 * op.groups;
            }
            if (step.kind == OpKind::conv1d && op.groups != 0) {
                op.sums_at = d.places[b].own_floats;
                d.places[b].own_floats += op.past * in_fours(op.in);
            }
        }
    }
    for (uint32_t b = 0; b < blocks; ++b) {
        detail::BlockPlace& at = d.places[b];
        at.ops = as_word(common.size());
        at.image_bytes = as_word(image[b]);
        at.image_at = place(d.image_bytes, image[b]);
        at.own_at = d.own_floats;
        d.own_floats += at.own_floats;
    }
    d.values_at = as_word(rounded_up(*std::max_element(image.begin(), image.end()), 128));
    d.sums_at = as_word(d.values_at + values - sums - cache);
    d.cache_at = as_word(d.values_at + values - cache);
    d.near_at = as_word(d.values_at + values);
    d.shared_bytes = as_word(d.near_at + near);
    for (std::vector<BlockOp>& of_block : d.ops) {
        for (BlockOp& op : of_block) op.stage = stage_of(op, d);
        if (!of_block.empty()) of_block.back().stage.what |= Stage::last;
    }
    return d;
}

Images pack_images(const Deal& d, const Plan& plan, const Model& model)
{
    Images images;
    images.near.assign(d.image_bytes, 0);
    images.far.assign(d.far_bytes, 0);
    for (uint32_t b = 0; b < d.blocks; ++b) {
        const std::vector<detail::OwnGroup> list = own_groups(d, b);
        if (list.empty()) continue;
        std::memcpy(images.near.data() + d.places[b].image_at + d.places[b].own_groups_at,
                    list.data(), list.size() * sizeof list[0]);
    }
    for (size_t i = 0; i < d.step_of.size(); ++i) {
        const Step& step = plan.steps[d.step_of[i]];
        const Op& op = model.ops[d.step_of[i]];
        const Aligned<float> vectors = vectors_of(step, op);
        const auto vector = [&](size_t number) {
            return vectors.data() + number * padded(step.out);
        };
        if (step.kind == OpKind::embedding) {
            const size_t row_bytes = in_fours(as_word(step.out)) * sizeof(float);
            for (size_t row = 0; row < plan.tokens_below; ++row) {
                std::memcpy(images.far.data() + size_t{d.ops[0][i].table} * 16 + row * row_bytes,
                            vector(row), step.out * sizeof(float));
            }
        }
        for (uint32_t b = 0; b < d.blocks; ++b) {
            const BlockOp& own = d.ops[b][i];
            unsigned char* const near = images.near.data() + d.places[b].image_at;
            std::memcpy(near + i * sizeof(BlockOp), &own, sizeof own);
            if (step.kind == OpKind::layernorm || step.kind == OpKind::affine) {
                for (size_t k = 0; k < 2; ++k) {
                    std::memcpy(near + own.weights + k * step.out * sizeof(float), vector(k),
                                step.out * sizeof(float));
                }
            }
            if (!has_matrix(step.kind) || own.groups == 0) continue;
            const bool gates = gated(step.kind);
            Packer input(near + own.weights, d.format, op, detail::chunk);
            Packer state(own.own_near != 0 ? near + own.own_weights
                                           : images.far.data() + size_t{own.far} * 16,
                         d.format, op, detail::chunk);
            unsigned char* bias = near + own.bias;
            for (uint32_t g = 0; g < own.groups; ++g) {
                const size_t unit = own.first + (gates ? g : 4 * g);
                pack_input_rows(input, step, op, unit, step.out);
                pack_state_rows(state, step, op, unit, step.out);
                for (size_t r = 0; r < 4; ++r) {
                    const float one = gates                 ? vector(r)[unit]
                                      : unit + r < step.out ? vector(0)[unit + r]
                                                            : 0.0F;
                    std::memcpy(bias, &one, sizeof one);
                    bias += sizeof one;
                }
            }
        }
    }
    return images;
}

} // namespace denizen::infer

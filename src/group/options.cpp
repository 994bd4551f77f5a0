// SPDX-License-Identifier: Apache-2.0
// A group's options: what they may be, and what they mean for its memory and its calls.
#include "member.hpp"

#include <algorithm>

namespace denizen::group {
namespace {

// What automatic means until denizen tune has measured. On a GPU a block of 512 threads sends 6 KB
// of packets at once.
std::vector<Choice> built_in(bool on_gpu, uint32_t ranks)
{
    constexpr uint64_t kib = 1024;
    if (!on_gpu) {
        return {{16 * kib, Algorithm::one_shot, 1},
                {0, ranks == 2 ? Algorithm::pull : Algorithm::pull_twice, 1}};
    }
    if (ranks != 2) {
        return {{6 * kib, Algorithm::one_shot, 1},
                {64 * kib, Algorithm::one_shot, 12},
                {512 * kib, Algorithm::two_shot, 44},
                {2048 * kib, Algorithm::two_shot, 128},
                {0, Algorithm::push_twice, 128}};
    }
    // Launched calls of f32 on two H200s.
    std::vector<Choice> rows;
    for (const Kind kind : every_collective) {
        const auto add = [&](uint64_t up_to, Algorithm algorithm, uint32_t channels) {
            rows.push_back({up_to, algorithm, channels, kind});
        };
        add(3 * kib, Algorithm::one_shot, 1);
        add(24 * kib, Algorithm::one_shot, 8);
        add(96 * kib, Algorithm::one_shot, 32);
        add(768 * kib, Algorithm::one_shot, 96);
        if (kind == Kind::all_reduce) {
            add(3072 * kib, Algorithm::two_shot, 96);
            add(6144 * kib, Algorithm::two_shot, 128);
            add(0, Algorithm::push_twice, 128);
        } else {
            add(3072 * kib, Algorithm::one_shot, 128);
            add(0, Algorithm::pull, 128);
        }
    }
    return rows;
}

void check_table(const std::vector<Choice>& table, uint32_t channels)
{
    uint32_t rows[kinds] = {};
    for (const Choice& row : table) {
        if (row.kind == Kind::barrier || static_cast<uint32_t>(row.kind) >= kinds) {
            throw Error(Errc::bad_argument, "a row of the table is of a collective that has no "
                                            "choice: a barrier, or none at all");
        }
        if (++rows[static_cast<uint32_t>(row.kind)] > max_choices) {
            throw Error(Errc::bad_argument, std::string("the table of ") + to_string(row.kind) +
                                                " has more than " + std::to_string(max_choices) +
                                                " rows");
        }
        if (row.algorithm == Algorithm::automatic ||
            static_cast<uint32_t>(row.algorithm) >= algorithms || row.channels == 0) {
            throw Error(Errc::bad_argument,
                        "a row of the table names no algorithm or no channels (there are " +
                            std::to_string(channels) + ")");
        }
    }
}

} // namespace

Layout layout_of(uint32_t ranks, bool on_gpu, const GroupOptions& o)
{
    if (ranks < 1 || ranks > max_ranks) {
        throw Error(Errc::bad_argument, "a group of " + std::to_string(ranks) +
                                            " ranks; it can have 1 to " +
                                            std::to_string(max_ranks));
    }
    Layout layout;
    layout.ranks = ranks;
    layout.channels = o.channels != 0 ? o.channels : on_gpu ? 128 : 4;
    const uint32_t slots = o.slots != 0 ? o.slots : on_gpu ? 1024 : 512;
    layout.slots = (slots + run_packets - 1) / run_packets * run_packets;
    const uint32_t stage = o.stage_bytes != 0 ? o.stage_bytes : on_gpu ? 512 << 10 : 64 << 10;
    const uint32_t unit = line * ranks;
    layout.stage_bytes = (stage + unit - 1) / unit * unit;
    layout.heap_bytes = o.heap_bytes;
    layout.renew = o.renew;
    if (layout.channels > max_channels || layout.slots > 1u << 16 || o.stage_bytes > 64u << 20 ||
        o.timeout.count() <= 0 || o.renew < 4 || o.renew > most_turns) {
        throw Error(Errc::bad_argument,
                    "options of a group are out of range: channels up to " +
                        std::to_string(max_channels) +
                        ", slots up to 65536, stages up to 64 MiB, a time limit above 0");
    }
    return layout;
}

void equip(Member& member, const GroupOptions& o)
{
    member.ref.timeout_ns = static_cast<uint64_t>(o.timeout.count());
    member.least_gbs = o.least_gbs;
    for (Choice& row : member.table)
        row.channels = std::min(row.channels, member.ref.layout.channels);
    for (const Choice& row : member.table) {
        if (row.kind == Kind::all_reduce) member.ref.table[member.ref.choices++] = row;
    }
}

std::vector<Choice> table_of(bool on_gpu, const Layout& layout, const GroupOptions& o)
{
    check_table(o.table, layout.channels);
    std::vector<Choice> table = o.table;
    const auto is_main = [](const Choice& row) { return row.kind == Kind::all_reduce; };
    if (std::none_of(table.begin(), table.end(), is_main)) {
        for (const Choice& row : built_in(on_gpu, layout.ranks)) {
            if (o.table.empty() || is_main(row)) table.push_back(row);
        }
    }
    return table;
}

} // namespace denizen::group

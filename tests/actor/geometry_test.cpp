// SPDX-License-Identifier: Apache-2.0
// How large near rings become: as wanted while they fit, then smaller, then none. And where the
// monitor runs.
#include "actor/grid.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

namespace denizen {
namespace {

Geometry of(uint32_t per_sm, uint32_t cluster, uint32_t workers = 128)
{
    Geometry g;
    g.workers = workers;
    g.per_sm = per_sm;
    g.cluster = cluster;
    g.local_slots = 64;
    g.near_slots = 16;
    return g;
}

constexpr size_t h100 = 227 * 1024 / 2; // half of what a block may ask for
constexpr uint32_t short_messages = 2;  // least slots of a ring

TEST(geometry, the_least_ring_holds_the_longest_message_and_its_stamp_twice)
{
    ProgramTable table{};
    for (const auto& [bytes, slots] :
         {std::pair{0u, 2u}, std::pair{28u, 2u}, std::pair{29u, 4u}, std::pair{76u, 4u},
          std::pair{77u, 8u}, std::pair{400u, 32u}}) {
        table.max_message = bytes;
        EXPECT_EQ(least_slots(table), slots) << bytes << " bytes";
        EXPECT_GE(least_slots(table), 2 * slots_for(bytes + stamp_bytes));
    }
}

TEST(geometry, rings_are_as_wanted_where_they_fit)
{
    const Geometry g = with_boxes(of(1, 8), short_messages, h100);
    EXPECT_EQ(g.near, 8u);
    EXPECT_EQ(g.near_slots, 16u);
    EXPECT_EQ(g.local_slots, 64u);
    EXPECT_EQ(g.box_bytes(), sizeof(NearBox) + 64 * (64 + 8 * 16));
    Geometry with_landing = of(1, 8);
    with_landing.landing = 64 * landing_slots(2);
    EXPECT_GE(with_boxes(with_landing, short_messages, h100).box_bytes(),
              g.box_bytes() + 64 * landing_slots(2));
    // A cluster of fewer workers than it could have, and a worker on its own.
    EXPECT_EQ(with_boxes(of(4, 8, 3), short_messages, h100).near, 3u);
    const Geometry alone = with_boxes(of(1, 1), short_messages, h100);
    EXPECT_EQ(alone.near_slots, 1u) << "there is no ring to another";
    EXPECT_EQ(alone.local_slots, 64u);
    EXPECT_EQ(alone.box_bytes() % alignof(NearBox), 0u) << "boxes lie side by side";
}

TEST(geometry, a_stage_lies_behind_the_boxes_and_costs_no_ring_its_slots)
{
    ProgramTable table{};
    table.actors = 1;
    table.max_message = 36 - stamp_bytes;
    EXPECT_EQ(stage_bytes(table), 0u) << "no message takes all lanes";
    table.actor[0].grain = static_cast<uint32_t>(Grain::warp);
    EXPECT_EQ(stage_bytes(table), 128u);
    table.actor[0].grain = static_cast<uint32_t>(Grain::block);
    EXPECT_EQ(stage_bytes(table), 128u);
    for (const uint32_t bytes : {37u, 256u, 4096u, 65536u}) {
        table.max_message = bytes;
        EXPECT_GE(stage_bytes(table), slots_for(bytes + stamp_bytes) * next_payload);
        EXPECT_EQ(stage_bytes(table) % alignof(NearBox), 0u) << "stages lie side by side";
    }
    Geometry wanted = of(2, 8);
    const Geometry bare = with_boxes(wanted, short_messages, h100);
    wanted.stage = 1024;
    const Geometry staged = with_boxes(wanted, short_messages, h100);
    EXPECT_EQ(staged.shared_bytes(), bare.shared_bytes() + 2 * 1024);
    EXPECT_EQ(with_boxes(wanted, short_messages, staged.shared_bytes()).stage, 1024u);
    const Geometry tight = with_boxes(wanted, short_messages, staged.shared_bytes() - 1);
    EXPECT_EQ(tight.stage, 0u) << "rings go before the stage";
    EXPECT_EQ(tight.box_bytes(), bare.box_bytes());
    for (const uint32_t least : {2u, 32u, 256u, 4096u}) {
        for (uint32_t per_sm = 1; per_sm <= 4; ++per_sm) {
            Geometry g = of(per_sm, 8);
            const size_t rings = with_boxes(g, least, h100).box_bytes();
            g.stage = 48 * least / 2;
            EXPECT_EQ(with_boxes(g, least, h100).box_bytes(), rings);
            EXPECT_LE(with_boxes(g, least, h100).shared_bytes(), h100);
        }
    }
}

TEST(geometry, a_look_at_all_near_rings_meets_all_banks)
{
    for (const uint32_t per_sm : {1u, 4u, 8u, 16u, 31u}) {
        for (uint32_t cluster = 1; cluster * per_sm <= max_near; cluster *= 2) {
            Geometry wanted = of(per_sm, cluster);
            wanted.gap = sizeof(Packet); // as on a GPU
            const Geometry g = with_boxes(wanted, short_messages, h100);
            std::array<uint32_t, 32> looks{}; // at each bank of four bytes
            for (uint32_t ring = 0; ring < g.near; ++ring) {
                ++looks[ring * g.near_bytes() / 4 % looks.size()];
            }
            EXPECT_LE(*std::max_element(looks.begin(), looks.end()), (g.near + 7) / 8)
                << per_sm << " on an SM, clusters of " << cluster;
        }
    }
}

TEST(geometry, rings_shrink_before_they_go)
{
    for (const uint32_t least : {2u, 8u, 32u, 128u, 2048u}) {
        for (uint32_t per_sm = 1; per_sm <= 31; ++per_sm) {
            for (uint32_t cluster = 1; cluster * per_sm <= max_near; cluster *= 2) {
                const Geometry g = with_boxes(of(per_sm, cluster), least, h100);
                EXPECT_LE(g.shared_bytes(), h100);
                EXPECT_TRUE(g.near_slots == 1 || g.near_slots >= least);
                EXPECT_TRUE(g.local_slots == 1 || g.local_slots >= least);
                EXPECT_EQ(g.near == 1, g.near_slots == 1);
                if (per_sm == 1 && cluster == 8 && least <= 8) {
                    EXPECT_EQ(g.near, 8u);
                }
            }
        }
    }
    // 64 slots of a worker to itself are worth less than near rings at all.
    const Geometry tight = with_boxes(of(16, 2), short_messages, h100);
    EXPECT_EQ(tight.near, 32u);
    EXPECT_EQ(tight.near_slots, 2u);
    EXPECT_LT(tight.local_slots, 64u);
    // A message of 64 KB has rings in global memory only.
    const Geometry none = with_boxes(of(1, 8), 4096, h100);
    EXPECT_EQ(none.near, 1u);
    EXPECT_EQ(none.local_slots, 1u);
    // Ordinary memory has room for all of it.
    EXPECT_EQ(with_boxes(of(1, 4), 4096, SIZE_MAX).near_slots, 4096u);
}

TEST(geometry, a_program_that_says_nothing_gets_half_of_what_is_free_in_whole_clusters)
{
    EXPECT_EQ(sms_of(132, 0), 66u);
    EXPECT_EQ(sms_of(132, 64), 34u) << "the next one finds room beside it";
    EXPECT_EQ(sms_of(132, 131), 1u);
    EXPECT_EQ(sms_of(132, 140), 1u) << "what others have is an upper bound";
    EXPECT_EQ(sms_of(1, 0), 1u);
    EXPECT_EQ(workers_of(66, 4, 8), 511u) << "the last place is the monitor's";
    EXPECT_EQ(workers_of(66, 8, 4), 255u);
    EXPECT_EQ(workers_of(33, 8, 1), 32u);
    EXPECT_EQ(workers_of(3, 8, 1), 3u) << "fewer SMs than a cluster has";
    EXPECT_EQ(workers_of(1, 1, 1), 1u);
    EXPECT_EQ(workers_of(1024, 4, 8), max_workers);
    EXPECT_EQ(most_on_an_sm(2), 8u);
    EXPECT_EQ(most_on_an_sm(64), 4u);
    EXPECT_EQ(most_on_an_sm(4096), 1u);
}

TEST(geometry, cpu_workers_leave_the_caller_a_core)
{
    EXPECT_EQ(workers_of_cores(1, 1), 1u);
    EXPECT_EQ(workers_of_cores(2, 1), 1u);
    EXPECT_EQ(workers_of_cores(16, 1), 15u);
    EXPECT_EQ(workers_of_cores(16, 2), 7u);
    EXPECT_EQ(workers_of_cores(2, 5), 1u);
}

TEST(geometry, the_monitor_takes_a_warp_that_is_no_worker)
{
    const auto warps = [](unsigned blocks, uint32_t per_sm, uint32_t workers, uint32_t each = 1) {
        gpu::Grid grid;
        grid.blocks = blocks;
        grid.geometry = of(per_sm, 1, workers);
        grid.geometry.warps = each;
        return grid.warps();
    };
    EXPECT_EQ(warps(132, 8, 1056), 9u); // all are workers: one more in each block
    EXPECT_EQ(warps(132, 8, 1055), 8u);
    EXPECT_EQ(warps(40, 1, 33), 1u); // a cluster has been filled up
    EXPECT_EQ(warps(1, 1, 1), 2u);
    EXPECT_EQ(warps(66, 1, 66, 8), 9u) << "beside each worker's crew";
    EXPECT_EQ(warps(72, 1, 66, 8), 8u);
}

TEST(geometry, a_worker_has_the_warps_of_the_block_that_its_actors_take)
{
    ProgramTable table{};
    EXPECT_EQ(warps_of_worker(table), 1u);
    table.block_threads = 96;
    EXPECT_EQ(warps_of_worker(table), 3u);
}

} // namespace
} // namespace denizen

// SPDX-License-Identifier: Apache-2.0
// A model dealt to the blocks of a resident kernel: whose rows are whose, and where everything lies
// (detail/block_op.hpp). Groups of rows go to the blocks in turn, so that none has much more than
// another.
#pragma once

#include "plan.hpp"

#include <denizen/infer/detail/block_op.hpp>

#include <vector>

namespace denizen::infer {

struct Deal {
    Format format = Format::fp32;
    uint32_t blocks = 0;
    uint32_t columns = 0;   // of a round
    uint32_t values_at = 0; // bytes: image, values, sums, cache, and the cluster's exchange
    uint32_t sums_at = 0;   //
    uint32_t columns_at_once = 0;
    uint32_t cache_at = 0;      //
    uint32_t near_at = 0;       //
    uint32_t front_warps = 0;   // half of a block's, if a recurrent matrix lies in device memory
    uint32_t shared_bytes = 0;  //
    size_t wanted_bytes = 0;    // of shared memory, by the block that wants most
    uint32_t column_floats = 0; // of values
    uint32_t column_words = 0;  // of the exchange
    size_t row_floats = 0;      // of a stream: h and c
    size_t own_floats = 0;      // of a stream, all blocks' together
    size_t image_bytes = 0;     // all blocks'
    size_t far_bytes = 0;
    bool leader_answers = false;
    bool paced = false; // each block makes some of a value that all blocks wait for
    uint32_t output_at = 0;
    std::vector<detail::BlockPlace> places;        // own_at of one stream
    std::vector<std::vector<detail::BlockOp>> ops; // of each block
    std::vector<uint32_t> step_of;                 // of each BlockOp, the plan's step

    // It does not fit if it wants more than `shared`.
    bool fits(size_t shared) const { return wanted_bytes <= shared; }
};

// `cluster`: room for its exchange. `shared`: bytes that a block has; recurrent matrices are put
// there as far as there is room.
Deal deal(const Plan& plan, Format format, uint32_t blocks, bool cluster, uint32_t columns,
          size_t shared);

// The weights as `deal` lays them out.
struct Images {
    std::vector<unsigned char> near;
    std::vector<unsigned char> far;
};

// Throws bad_argument for a weight beyond the format's range.
Images pack_images(const Deal& deal, const Plan& plan, const Model& model);

} // namespace denizen::infer

// SPDX-License-Identifier: Apache-2.0
// What a block of the resident kernel knows of a model: its own rows of each op, where they lie,
// and the memory that it shares with the others and with the host. The host writes it
// (src/deal.cpp).
//
// clang-format off
//   image of a block, which it copies to its shared memory when an incarnation begins:
//     BlockOp[ops] | matrices that the answer waits for | biases, norms | OwnGroup[own_groups] |
//     recurrent matrices if they fit
//   far image, which all blocks read in device memory:
//     recurrent matrices that do not fit | tables of embeddings
// clang-format on
//
// A group is four rows of a matrix, interleaved in chunks of 128 columns: one warp sums it. The
// four are the gates of one unit (lstm, gru), else four units.
#pragma once

#include <denizen/device/detail/term.hpp>
#include <denizen/infer/kinds.hpp>

namespace denizen::infer::detail {

inline constexpr uint32_t block_threads = 512;
inline constexpr uint32_t chunk = 128;       // columns; values are padded to it with zeros
inline constexpr uint32_t most_columns = 16; // requests in a round
inline constexpr uint32_t columns_together = 4;
inline constexpr uint32_t no_stream = 0xffffffff;

DENIZEN_HD constexpr uint32_t chunks_of(uint32_t width) { return (width + chunk - 1) / chunk; }
DENIZEN_HD constexpr uint32_t in_chunks(uint32_t width) { return chunks_of(width) * chunk; }
DENIZEN_HD constexpr uint32_t in_fours(uint32_t width) { return (width + 3) / 4 * 4; }

// What a round of one request asks of an op while it waits: three loads of 16 bytes, and nothing is
// computed of them that the host can compute. Offsets are in bytes into the block's shared memory,
// of column 0.
struct alignas(16) Stage {
    // Flags of `what`, above its kind:
    static constexpr uint32_t matrix = 1u << 8;
    static constexpr uint32_t gates = 1u << 9;
    static constexpr uint32_t gathered = 1u << 10; // a convolution's inputs are, for these rows
    static constexpr uint32_t rectified = 1u << 11;
    static constexpr uint32_t exchanged = 1u << 12; // other blocks read its value
    static constexpr uint32_t answers = 1u << 13;   // it is the answer
    static constexpr uint32_t last = 1u << 14;      // of the model

    DENIZEN_HD OpKind kind() const { return static_cast<OpKind>(what & 0xff); }
    DENIZEN_HD bool is(uint32_t flag) const { return (what & flag) != 0; }

    uint32_t what;
    uint32_t groups; // this block's
    uint32_t chunks;
    uint32_t x; // its input
    uint32_t weights;
    uint32_t before; // what its sums are added to: a bias, or what the block's cache has
    uint32_t first;  // unit of its first group
    uint32_t words_at;
    uint32_t out; // width of its value
    uint32_t value;
    uint32_t units; // this block's
    uint32_t reserved;
};

// One op, as one block does it. Offsets are in bytes into the block's image, but `far`, in 16 bytes
// into the far image; places of values in floats into a column; of states in floats.
struct alignas(16) BlockOp {
    Stage stage;
    OpKind kind;       // a concat is one op for each of its inputs
    uint32_t relu;     // rnn; of linear and conv1d, that one is made of what it makes
    float eps;         // layernorm
    uint32_t in_at;    //
    uint32_t other_at; // add
    uint32_t in;       // width
    uint32_t out_at;
    uint32_t out;
    // Of a matrix:
    uint32_t groups;  // this block's
    uint32_t first;   // unit of the first of them
    uint32_t chunks;  // of the matrix that the answer waits for
    uint32_t weights; // offset of that; of layernorm and affine their two vectors, of `out` floats
    uint32_t bias;    // four floats for each group
    uint32_t exchanged; // whether other blocks read its value
    uint32_t words_at;  // where, among the words of a column
    uint32_t answers;   // whether it is the answer
    // Recurrent:
    uint32_t own_chunks;  // of the matrix that h is multiplied by
    uint32_t own_near;    // whether it lies in the image: at own_weights, else at far
    uint32_t own_weights; //
    uint32_t far;         //
    uint32_t row_at;      // in a stream's row: h, and in_fours(out) further c
    uint32_t sums_at;     // in a block's own state of a stream: four floats for each group
    uint32_t cache_at; // in the block's cache: those, and behind them a float of each group's unit
    // conv1d:
    uint32_t taps;
    uint32_t dilation;
    uint32_t gather_at; // in a column: the inputs of all taps, each in whole chunks
    uint32_t past;      // inputs that it keeps, in the block's own state at sums_at
    uint32_t table;     // embedding: in 16 bytes into the far image, rows of in_fours(out)
};

// A group of a recurrent matrix, which h is multiplied by behind the answer of a round of one
// request; those of all ops are one list, in their order. Two loads of 16 bytes, as a Stage.
struct alignas(16) OwnGroup {
    uint32_t weights; // bytes into shared memory, or in 16 bytes into the far image
    uint32_t near;    // which
    uint32_t chunks;
    uint32_t h;
    uint32_t bias;
    uint32_t cache; // where its sums go
    uint32_t own;   // and in floats, into the block's own state of the stream
    uint32_t made;  // when so many ops are made, h is there
};

struct BlockPlace {
    uint64_t image_at; // bytes
    uint64_t own_at;   // floats: the block's own states
    uint32_t image_bytes;
    uint32_t ops;
    uint32_t own_floats;    // of a stream
    uint32_t own_groups;    // of all recurrent ops
    uint32_t own_groups_at; // bytes into the image: those, as OwnGroup
    uint32_t reserved;
};

// What a request says of itself, in the first packet of its slot.
inline constexpr uint32_t from_zeros = 1u << 30; // the stream begins anew
inline constexpr uint32_t made_anew = 1u << 31;  // its sums of h are to be made again
inline constexpr uint32_t stream_bits = (1u << 30) - 1;
// word 0: stream | flags; word 1: cell | high half of the position << 16; word 2: low half

// Device memory, all 0 at first: what goes on from one incarnation to the next.
struct Progress {
    alignas(line) uint32_t round = 0; // the last that there was
    uint32_t taken = 0;               // requests, modulo 2^32
    alignas(line) uint32_t done = 0;  // blocks that have ended a round, counted over all rounds
    alignas(line) uint32_t begun = 0; // by themselves, counted over an incarnation's rounds
    uint32_t stopped = 0;             // blocks that have heard that the leader would leave
};

// Host memory; the leading block writes it once in a round, when the answers are on their way.
struct Counts {
    alignas(line) uint64_t rounds = 0;
    uint64_t steps = 0;
    uint64_t busy_ns = 0;    // from the arrival of a round's first request to its last answer
    uint64_t loading_ns = 0; // what the last incarnation took until it looked for requests
};

// A value's element on its way: the float's bits, and above them the round's number, or in an
// answer the request's.
using Word = uint64_t;

struct ResidentModel {
    const BlockPlace* places;
    const unsigned char* images;
    const unsigned char* far;
    float* rows; // of each stream: h and c of all recurrent ops
    float* own;
    Progress* progress;
    Counts* counts;
    const Packet*
        slots;      // requests: one packet of what it says of itself, then three floats in each
    Word* exchange; // two areas, of odd and even rounds
    Word* answers;  // host memory, of each cell
    uint64_t row_floats;
    uint32_t slot_packets; // of a request
    uint32_t slot_stride;  // packets
    uint32_t slot_mask;    // slots - 1
    uint32_t forwarded;    // whether the leader alone reads the slots, and passes requests on
    uint32_t input;        // floats
    uint32_t output;       //
    uint32_t output_at;    // in a column, if no matrix makes the answer
    uint32_t leader_answers;
    uint32_t answer_stride; // words
    uint32_t column_words;  // of the exchange, even
    uint32_t columns;       // most in a round
    uint32_t alone;         // whether a request is a round, which each block begins by itself
    uint32_t late; // and what its only stream keeps is written when the block leaves: see serve()
    uint32_t column_floats; // of the values of a request
    uint32_t blocks;
    uint32_t values_at;       // bytes in shared memory; the image is at 0
    uint32_t sums_at;         // sums: a Quad for each group, times columns_at_once
    uint32_t columns_at_once; // multiplied together
    uint32_t cache_at;        // bytes: what the last stream that was alone in its round has kept
    uint32_t near_at;         // the cluster's exchange, of a round of one request
    uint32_t front_warps;     // of a block, that make the answer of a round of one request
    uint32_t shared_bytes;
    TermRef term;

    DENIZEN_HD Packet* head(uint32_t round) const
    {
        return reinterpret_cast<Packet*>(exchange + (round & 1) * area_words());
    }
    DENIZEN_HD Packet* forwarded_slot(uint32_t round, uint32_t column) const
    {
        return head(round) + 1 + uint64_t{column} * slot_packets;
    }
    DENIZEN_HD Word* words(uint32_t round, uint32_t column) const
    {
        return exchange + (round & 1) * area_words() + 2 +
               (forwarded != 0 ? uint64_t{2} * columns * slot_packets : 0) +
               uint64_t{column} * column_words;
    }
    DENIZEN_HD uint64_t area_words() const
    {
        return 2 + (forwarded != 0 ? uint64_t{2} * columns * slot_packets : 0) +
               uint64_t{columns} * column_words;
    }
    DENIZEN_HD const Packet* slot(uint32_t request) const
    {
        return slots + uint64_t{request & slot_mask} * slot_stride;
    }
};

// Rounds are numbered so that odd and even take turns, and none is 0, which memory begins with.
DENIZEN_HD constexpr uint32_t round_after(uint32_t round)
{
    return round == 0xfffffffeu ? 1 : round + 1;
}
DENIZEN_HD constexpr uint32_t round_before(uint32_t round)
{
    return round == 1 ? 0xfffffffeu : round - 1;
}

} // namespace denizen::infer::detail

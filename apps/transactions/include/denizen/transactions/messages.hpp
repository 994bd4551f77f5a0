// SPDX-License-Identifier: Apache-2.0
// What the host and the shards of a stage tell each other. stage.hpp sends and receives these,
// shard.hpp handles them; python/denizen/apps/transactions/stage.py repeats their layouts.
#pragma once

#include <denizen/memory/ref.hpp>
#include <denizen/transactions/detail/book.hpp>

namespace denizen::transactions {

struct Open { // step 0: clear a part of the book; 1: say where you are
    BufferRef book;
    Geometry geometry;
    uint32_t part;
    uint32_t step;
    DENIZEN_BUFFERS(book)
};
struct Grow { // customers may lie in one arena more
    BufferRef book;
    uint64_t map; // of an ArenaRef
    DENIZEN_BUFFERS(book)
};
struct Change { // to these rules
    BufferRef book;
    Rules rules;
    DENIZEN_BUFFERS(book)
};
struct Put { // some of these profiles, or `whole`: customers, into your ledger
    BufferRef book;
    BufferRef from;
    uint32_t first;
    uint32_t count;
    uint32_t part;
    uint32_t whole;
    DENIZEN_BUFFERS(book, from)
};
struct Get { // these of your customers, in the order in which they came
    BufferRef book;
    BufferRef to;
    uint32_t first;
    uint32_t count;
    uint32_t part;
    uint32_t at; // their place there
    DENIZEN_BUFFERS(book, to)
};
struct Move { // bytes, in multiples of 16
    BufferRef from;
    BufferRef to;
    uint64_t from_at;
    uint64_t to_at;
    uint64_t bytes;
    DENIZEN_BUFFERS(from, to)
};
struct Taken { // how many customers you have
    BufferRef book;
    uint32_t part;
    DENIZEN_BUFFERS(book)
};
struct Drill { // fail once, in this pass, after so many records of a part
    uint32_t pass;
    uint32_t after;
};
struct Ready { // the answer to the above: how many customers, or of Put: how many have no room
    uint32_t value;
};
struct Feed { // to the first shard: here is a batch, have it split
    BufferRef book;
    BufferRef records;
    uint64_t base;  // sequence of the batch's first record
    uint32_t first; // its place in the buffer
    uint32_t count;
    uint32_t batch;
    DENIZEN_BUFFERS(book, records)
};
struct Step { // do your part of a pass
    uint64_t book;
    uint32_t batch;
    uint32_t pass_part; // pass << 16 | part
};
struct Full { // to the host: no room for a customer; tell me again to judge when there is
    uint32_t batch;
    uint32_t part;
    uint32_t regions; // that there were
};
struct Finished { // to the host: all parts of a batch have been searched, and so many alerts sent
    uint32_t batch;
    uint32_t tally[outcomes];
    uint32_t alerts;
};

// A Step is for all parts, and told down a tree, so that nobody sends to more than a few: whoever
// opens a gate, or is fed, tells the parts below `tree_fan_out`, and part p tells those from
// tree_fan_out * (p + 1) on, as many.
inline constexpr uint32_t tree_fan_out = 32;

inline constexpr uint32_t drilled = 0xD1; // the code of a failure that a drill asked for

} // namespace denizen::transactions

// SPDX-License-Identifier: Apache-2.0
// Metadata at an exact sample, and how it crosses a change of rate.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <variant>
#include <vector>

namespace denizen::flow {

using Value = std::variant<int64_t, double, std::string>;

struct Tag {
    uint64_t sample = 0; // counted from the first sample of what it is found in
    std::string key;
    Value value;

    bool operator==(const Tag&) const = default;
};

// Where a tag goes whose place is between two output samples.
enum class Side {
    before, // outputs are made of groups of inputs: to that of its sample's group
    after,  // a filter, whose output m is made of inputs up to m * in / out: to the first that is
            // made of its sample. It cannot have left before that was read.
};

// Output samples per input sample, as a fraction.
struct Rate {
    uint64_t out = 1;
    uint64_t in = 1;
    Side side = Side::before;

    bool operator==(const Rate&) const = default;
};

// Tags on their way from an input to an output. Positions are counted from the stream's beginning
// and multiplied as whole numbers, so nothing drifts: a tag at input sample s belongs to output
// sample s * out / in, rounded to its `side`, in whichever quantum that one leaves.
class TagCarry {
public:
    // Throws bad_argument for a rate whose numbers are not from 1 to 2^32 - 1.
    explicit TagCarry(Rate rate = {});

    // A quantum that begins at input sample `first` has arrived with these tags.
    void arrive(uint64_t first, const std::vector<Tag>& tags);

    // Moves to `tags` those that belong before output sample first + count, for a quantum that
    // begins at `first`. One whose sample has already left goes to the quantum's first sample.
    void leave(uint64_t first, uint64_t count, std::vector<Tag>& tags);

    Rate rate() const { return rate_; }

private:
    Rate rate_;
    std::deque<Tag> under_way_; // by output sample
};

} // namespace denizen::flow

// SPDX-License-Identifier: Apache-2.0
// Tags on their way through a block that makes other samples than it takes.
#include <denizen/flow/tag.hpp>

#include "refuse.hpp"

#include <algorithm>

namespace denizen::flow {

TagCarry::TagCarry(Rate rate) : rate_(rate)
{
    constexpr uint64_t most = 0xffffffff;
    if (rate.in == 0 || rate.out == 0 || rate.in > most || rate.out > most) {
        refuse("tags go at a rate of " + std::to_string(rate.out) + " output samples to " +
               std::to_string(rate.in) + " input samples; give whole numbers from 1 to 2^32 - 1");
    }
}

void TagCarry::arrive(uint64_t first, const std::vector<Tag>& tags)
{
    for (const Tag& tag : tags) {
        // s * out / in without the product, which would overflow in a long stream.
        const uint64_t s = first + tag.sample;
        const uint64_t up = rate_.side == Side::after ? rate_.in - 1 : 0;
        const uint64_t at = s / rate_.in * rate_.out + (s % rate_.in * rate_.out + up) / rate_.in;
        under_way_.push_back({at, tag.key, tag.value});
    }
}

void TagCarry::leave(uint64_t first, uint64_t count, std::vector<Tag>& tags)
{
    const auto rest =
        std::stable_partition(under_way_.begin(), under_way_.end(),
                              [&](const Tag& t) { return count > 0 && t.sample < first + count; });
    for (auto tag = under_way_.begin(); tag != rest; ++tag) {
        tag->sample = tag->sample < first ? 0 : tag->sample - first;
        tags.push_back(std::move(*tag));
    }
    under_way_.erase(under_way_.begin(), rest);
}

} // namespace denizen::flow

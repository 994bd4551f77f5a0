// SPDX-License-Identifier: Apache-2.0
// Blocks for the ends of a graph: samples from memory, into memory, and to nowhere.
#pragma once

#include <denizen/flow/block.hpp>

namespace denizen::flow {

// Sends the samples, with their tags (ascending, counted from the first sample), then finishes.
template <class T>
class VectorSource : public Block {
public:
    Source<T> out{*this, "out"};

    VectorSource(std::string name, std::vector<T> samples, std::vector<Tag> tags = {})
        : Block(std::move(name)), samples_(std::move(samples)), tags_(std::move(tags))
    {
    }

private:
    void work() override
    {
        if (sent_ == samples_.size()) {
            finish();
            return;
        }
        const std::span<T> room = out.room();
        const size_t n = std::min(room.size(), samples_.size() - sent_);
        std::copy_n(samples_.begin() + static_cast<std::ptrdiff_t>(sent_), n, room.begin());
        for (; next_ < tags_.size() && tags_[next_].sample < sent_ + n; ++next_) {
            out.tag(tags_[next_].sample - sent_, tags_[next_].key, tags_[next_].value);
        }
        sent_ += n;
        out.produce(n);
    }

    std::vector<T> samples_;
    std::vector<Tag> tags_;
    size_t sent_ = 0;
    size_t next_ = 0;
};

// Keeps what it reads. Look at it when the graph has ended.
template <class T>
class VectorSink : public Block {
public:
    In<T> in{*this, "in"};
    std::vector<T> samples;
    std::vector<Tag> tags; // counted from the first of `samples`

    using Block::Block;

private:
    void work() override
    {
        for (Tag& tag : in.tags()) {
            tag.sample += in.position();
            tags.push_back(std::move(tag));
        }
        samples.insert(samples.end(), in.view().begin(), in.view().end());
        in.consume(in.view().size());
    }
};

template <class T>
class NullSink : public Block {
public:
    In<T> in{*this, "in"};
    using Block::Block;

private:
    void work() override { in.consume(in.view().size()); }
};

} // namespace denizen::flow

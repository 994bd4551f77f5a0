// SPDX-License-Identifier: Apache-2.0
#include "copies.hpp"

#include <algorithm>
#include <mutex>

namespace denizen::infer {
namespace {

class Copies final : public Serving {
public:
    Copies(std::unique_ptr<Chip> chip, const Plan& plan, const Model& model, const Options& options)
        : count_(options.copies), streams_(options.streams), floats_(plan.kept_floats)
    {
        Options of_one = options;
        of_one.requests = (options.requests + count_ - 1) / count_;
        for (uint32_t copy = 0; copy < count_; ++copy) {
            of_one.streams = streams_of(copy);
            of_one.copies = count_ - copy; // that there is to be room for
            std::unique_ptr<Chip> next = copy + 1 < count_ ? chip->another() : nullptr;
            all_.push_back(serve_on(std::move(chip), plan, model, of_one));
            chip = std::move(next);
        }
    }

    bool take(uint32_t& cell, uint32_t stream) override
    {
        uint32_t own = 0;
        if (!of(stream).take(own, stream / count_)) return false;
        cell = own * count_ + stream % count_;
        return true;
    }
    uint32_t cells() const override { return all_[0]->cells() * count_; }
    uint32_t generation(uint32_t cell) const override { return of(cell).generation(cell / count_); }
    void send(uint32_t cell, uint32_t stream, const std::byte* input,
              const Deadline& deadline) override
    {
        of(cell).send(cell / count_, stream / count_, input, deadline);
    }
    void flush() override { all_[0]->flush(); } // the thread's stores, whichever copy's they are
    bool look(uint32_t cell, uint32_t& seen) const override
    {
        return of(cell).look(cell / count_, seen);
    }
    void sleep(uint32_t cell, uint64_t most_ns) override { of(cell).sleep(cell / count_, most_ns); }
    uint64_t take_answer(uint32_t cell, float* output) override
    {
        return of(cell).take_answer(cell / count_, output);
    }
    void abandon(uint32_t cell) override { of(cell).abandon(cell / count_); }
    bool ended() const override { return first_ended() != nullptr; }
    [[noreturn]] void refuse() const override
    {
        const Serving* one = first_ended();
        if (one == nullptr) one = all_[0].get();
        one->refuse();
        __builtin_unreachable(); // gcc 12 forgets that it throws
    }

    uint64_t swap(const Model& model, uint64_t least, const Deadline& deadline) override
    {
        const std::lock_guard one(swap_mutex_);
        // One that a swap before had not come to in time gets the version of all, too.
        for (const auto& copy : all_) least = std::max(least, copy->version() + 1);
        for (const auto& copy : all_) copy->swap(model, least, deadline);
        return least;
    }
    void reset(uint32_t stream, const Deadline& deadline) override
    {
        of(stream).reset(stream / count_, deadline);
    }
    void read_state(uint32_t stream, std::span<float> to, const Deadline& deadline) override
    {
        of(stream).read_state(stream / count_, to, deadline);
    }
    void write_state(uint32_t stream, std::span<const float> from,
                     const Deadline& deadline) override
    {
        of(stream).write_state(stream / count_, from, deadline);
    }
    std::vector<float> read_all(const Deadline& deadline) override
    {
        std::vector<float> all(streams_ * floats_);
        for (uint32_t copy = 0; copy < count_; ++copy) {
            const std::vector<float> own = all_[copy]->read_all(deadline);
            for (uint32_t s = 0; s < streams_of(copy); ++s) {
                std::copy_n(own.data() + s * floats_, floats_,
                            all.data() + (size_t{s} * count_ + copy) * floats_);
            }
        }
        return all;
    }
    void write_all(std::vector<float> states, const Deadline& deadline) override
    {
        for (uint32_t copy = 0; copy < count_; ++copy) {
            std::vector<float> own(streams_of(copy) * floats_);
            for (uint32_t s = 0; s < streams_of(copy); ++s) {
                std::copy_n(states.data() + (size_t{s} * count_ + copy) * floats_, floats_,
                            own.data() + s * floats_);
            }
            all_[copy]->write_all(std::move(own), deadline);
        }
    }

    uint64_t version() const override
    {
        uint64_t least = all_[0]->version();
        for (const auto& copy : all_) least = std::min(least, copy->version());
        return least;
    }
    Stats stats() const override
    {
        Stats all = all_[0]->stats();
        for (uint32_t copy = 1; copy < count_; ++copy) {
            const Stats one = all_[copy]->stats();
            all.steps += one.steps;
            all.busy_ns += one.busy_ns;
            all.rounds += one.rounds;
            all.swaps = std::min(all.swaps, one.swaps);
            all.loading_ns = std::max(all.loading_ns, one.loading_ns);
        }
        return all;
    }
    uint32_t parts() const override { return all_[0]->parts() * count_; }
    size_t weight_bytes() const override { return all_[0]->weight_bytes() * count_; }
    size_t state_bytes() const override
    {
        size_t bytes = 0;
        for (const auto& copy : all_) bytes += copy->state_bytes();
        return bytes;
    }
    std::string place() const override
    {
        return std::to_string(count_) + " times " + all_[0]->place();
    }

    void stop() override
    {
        for (const auto& copy : all_) copy->stop();
    }

private:
    Serving& of(uint32_t number) { return *all_[number % count_]; }
    const Serving& of(uint32_t number) const { return *all_[number % count_]; }
    uint32_t streams_of(uint32_t copy) const { return (streams_ - copy + count_ - 1) / count_; }
    const Serving* first_ended() const
    {
        for (const auto& copy : all_) {
            if (copy->ended()) return copy.get();
        }
        return nullptr;
    }

    const uint32_t count_;
    const uint32_t streams_;
    const size_t floats_; // of a stream's state
    std::vector<std::unique_ptr<Serving>> all_;
    std::mutex swap_mutex_;
};

} // namespace

std::unique_ptr<Serving> copies_on(std::unique_ptr<Chip> chip, const Plan& plan, const Model& model,
                                   const Options& options)
{
    return std::make_unique<Copies>(std::move(chip), plan, model, options);
}

} // namespace denizen::infer

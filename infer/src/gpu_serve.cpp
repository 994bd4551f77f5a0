// SPDX-License-Identifier: Apache-2.0
#include "gpu_serve.hpp"

#include "answer_words.hpp"
#include "cells.hpp"
#include "placement.hpp"
#include "slot_floats.hpp"

#include <denizen/base/error.hpp>
#include <denizen/base/process.hpp>

#include <algorithm>
#include <bit>
#include <mutex>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace denizen::infer {
namespace {

using detail::Counts;
using detail::ResidentModel;
using detail::Word;

constexpr uint64_t longest_nap_ns = 20'000; // of who waits for long

// What a stream's next request says of it.
enum class Fresh : uint8_t { no, sums, zeros };

size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

class GpuServer final : public Serving {
public:
    GpuServer(std::unique_ptr<Chip> chip, const Plan& plan, const Model& model,
              const Options& options)
        : chip_(std::move(chip)), plan_(plan), placement_(placed(*chip_, plan, options)),
          deal_(placement_.deal), cells_(options.requests, 0, 0), numbers_(options.requests, 0),
          versions_(options.requests, 0), fresh_(options.streams, Fresh::zeros),
          positions_(options.streams, 0)
    {
        layout(options);
        const Images images = pack_images(deal_, plan_, model);
        chip_->write(near_[0], images.near.data(), images.near.size());
        chip_->write(far_[0], images.far.data(), images.far.size());
        chip_->start(model_, deal_.format, placement_.cluster);
    }

    ~GpuServer() override { stop(); }

    bool take(uint32_t& cell, uint32_t) override
    {
        if (cells_.take(cell)) {
            return true;
        }
        reap();
        return cells_.take(cell);
    }
    uint32_t cells() const override { return cells_.size(); }
    uint32_t generation(uint32_t cell) const override
    {
        return load<Scope::system>(&cells_[cell].generation);
    }

    void send(uint32_t cell, uint32_t stream, const std::byte* input,
              const Deadline& deadline) override
    {
        std::unique_lock<std::mutex> gate;
        try {
            gate = pass_gate(deadline, "the resident model took no request");
        } catch (...) {
            cells_.give_back(cell);
            throw;
        }
        uint32_t flags = 0;
        if (fresh_[stream] != Fresh::no) {
            flags = fresh_[stream] == Fresh::zeros ? detail::from_zeros : detail::made_anew;
            fresh_[stream] = Fresh::no;
        }
        const uint64_t position = positions_[stream]++;
        const auto request = static_cast<uint32_t>(sent_++);
        const uint32_t number = request + 1;
        store<Scope::system>(&numbers_[cell], uint64_t{1} << 32 | number);
        versions_[cell] = version_.load(std::memory_order_relaxed);
        Packet* const slot =
            slots_.host + uint64_t{request & model_.slot_mask} * model_.slot_stride;
        const Packet head = {{stream | flags, cell | static_cast<uint32_t>(position >> 32) << 16,
                              static_cast<uint32_t>(position)},
                             number};
        write_floats(slot + 1, input, plan_.widths[0], number);
        store_packet<Scope::system>(slot, head);
    }

    void flush() override
    {
#if defined(__SSE2__)
        _mm_sfence(); // write-combined memory keeps stores back
#endif
    }

    bool look(uint32_t cell, uint32_t& seen) const override
    {
        const auto number = static_cast<uint32_t>(load<Scope::system>(&numbers_[cell]));
        seen = first_missing(answer(cell), seen, model_.output, number);
        return seen == model_.output;
    }

    void sleep(uint32_t, uint64_t most_ns) override
    {
        const timespec nap{0, static_cast<long>(std::min(most_ns, longest_nap_ns))};
        nanosleep(&nap, nullptr);
    }

    uint64_t take_answer(uint32_t cell, float* output) override
    {
        take_floats(answer(cell), model_.output, output);
        const uint64_t version = versions_[cell];
        cells_.give_back(cell);
        return version;
    }

    void abandon(uint32_t cell) override
    {
        const std::lock_guard guard(abandoned_mutex_);
        abandoned_.push_back(cell);
    }

    bool ended() const override
    {
        return closed_.load(std::memory_order_acquire) || chip_->failed(nullptr);
    }
    [[noreturn]] void refuse() const override
    {
        std::string why;
        if (chip_->failed(&why)) {
            throw Error(Errc::peer_dead, why);
        }
        throw Error(Errc::closed, "the resident model is closed; make a new one");
    }

    uint64_t swap(const Model& model, uint64_t least, const Deadline& deadline) override
    {
        const std::lock_guard one(swap_mutex_);
        const Images images = pack_images(deal_, plan_, model);
        const uint64_t next = std::max(version_.load(std::memory_order_relaxed) + 1, least);
        const size_t at = (swaps_ + 1) % 2; // nobody reads the version before the last
        chip_->write(near_[at], images.near.data(), images.near.size());
        chip_->write(far_[at], images.far.data(), images.far.size());
        stand_still(deadline, [&] {
            model_.images = near_[at];
            model_.far = far_[at];
            chip_->change(model_);
            for (Fresh& fresh : fresh_) {
                if (fresh == Fresh::no) fresh = Fresh::sums;
            }
            version_.store(next, std::memory_order_relaxed);
            ++swaps_;
        });
        return next;
    }

    void reset(uint32_t stream, const Deadline& deadline) override
    {
        const auto gate = pass_gate(deadline, "the resident model took no reset");
        fresh_[stream] = Fresh::zeros; // its next request says so
        positions_[stream] = 0;
    }

    void read_state(uint32_t stream, std::span<float> to, const Deadline& deadline) override
    {
        stand_still(deadline, [&] { read_one(stream, to.data()); });
    }

    void write_state(uint32_t stream, std::span<const float> from,
                     const Deadline& deadline) override
    {
        stand_still(deadline, [&] { write_one(stream, from.data()); });
    }

    std::vector<float> read_all(const Deadline& deadline) override
    {
        std::vector<float> all(plan_.kept_floats * positions_.size());
        stand_still(deadline, [&] {
            for (uint32_t s = 0; s < positions_.size(); ++s) {
                read_one(s, all.data() + s * plan_.kept_floats);
            }
        });
        return all;
    }

    void write_all(std::vector<float> states, const Deadline& deadline) override
    {
        stand_still(deadline, [&] {
            for (uint32_t s = 0; s < positions_.size(); ++s) {
                write_one(s, states.data() + s * plan_.kept_floats);
            }
        });
    }

    uint64_t version() const override { return version_.load(std::memory_order_relaxed); }

    Stats stats() const override
    {
        Stats stats;
        uint64_t under_way = 0;
        {
            const std::lock_guard gate(gate_);
            for (uint32_t c = 0; c < cells_.size(); ++c) under_way += !quiet(c);
            stats.steps = sent_ - under_way;
            stats.swaps = swaps_;
        }
        const Counts* const counts = model_.counts;
        stats.busy_ns = load<Scope::system>(&counts->busy_ns);
        stats.rounds = load<Scope::system>(&counts->rounds);
        stats.loading_ns = load<Scope::system>(&counts->loading_ns);
        return stats;
    }

    uint32_t parts() const override { return deal_.blocks; }
    size_t weight_bytes() const override { return deal_.image_bytes + deal_.far_bytes; }
    size_t state_bytes() const override
    {
        return (deal_.row_floats + deal_.own_floats) * positions_.size() * sizeof(float);
    }
    std::string place() const override
    {
        return std::to_string(deal_.blocks) + (deal_.blocks == 1 ? " block" : " blocks") +
               (placement_.cluster ? " of one cluster of " : " of ") + chip_->name();
    }

    void stop() override
    {
        {
            if (!process_.here()) {
                return;
            }
            const std::lock_guard gate(gate_);
            if (closed_.load(std::memory_order_relaxed)) {
                return;
            }
            const Deadline until(std::chrono::seconds(10));
            // Ends with the last answer; a dead chip answers nothing.
            while (!all_quiet() && !chip_->failed(nullptr) && until.left_ns() != 0) relax_long();
            closed_.store(true, std::memory_order_release); // partner: ended()
        }
        chip_->stop();
    }

private:
    template <class T>
    T* take_device(size_t count, const std::string& what)
    {
        return static_cast<T*>(chip_->device(std::max<size_t>(count, 1) * sizeof(T), what));
    }

    // Whether a convolution needs the inputs of steps before.
    bool keeps_inputs() const
    {
        const auto keeps = [](const detail::BlockOp& op) { return op.past != 0; };
        return std::any_of(deal_.ops[0].begin(), deal_.ops[0].end(), keeps);
    }

    // Memory, and where it is.
    void layout(const Options& options)
    {
        const uint32_t streams = options.streams;
        for (detail::BlockPlace& place : deal_.places) place.own_at *= streams;
        for (int k = 0; k < 2; ++k) {
            near_[k] = take_device<unsigned char>(deal_.image_bytes, "the model's weights");
            far_[k] = take_device<unsigned char>(deal_.far_bytes, "the model's weights");
        }
        auto* const places = take_device<detail::BlockPlace>(deal_.blocks, "the model");
        chip_->write(places, deal_.places.data(), deal_.blocks * sizeof(detail::BlockPlace));
        const std::string of = "the states of " + std::to_string(streams) + " streams";
        ResidentModel& m = model_;
        m.places = places;
        m.images = near_[0];
        m.far = far_[0];
        m.rows = take_device<float>(deal_.row_floats * streams, of);
        m.own = take_device<float>(deal_.own_floats * streams, of);
        m.progress = take_device<detail::Progress>(1, "the model");
        m.counts = static_cast<Counts*>(chip_->host(sizeof(Counts)));
        m.row_floats = deal_.row_floats;
        m.input = plan_.widths[0];
        m.output = plan_.widths[plan_.output];
        m.output_at = deal_.output_at;
        m.leader_answers = deal_.leader_answers ? 1 : 0;
        m.slot_packets = 1 + (m.input + 2) / 3;
        m.slot_stride = static_cast<uint32_t>(round_up(m.slot_packets, line / sizeof(Packet)));
        // The leader looks for a whole round ahead.
        m.slot_mask = std::bit_ceil(std::max(options.requests, detail::most_columns)) - 1;
        slots_ = chip_->slots(size_t{m.slot_mask + 1} * m.slot_stride * sizeof(Packet));
        m.slots = slots_.blocks;
        m.forwarded = slots_.near_blocks ? 0 : 1;
        m.answer_stride = static_cast<uint32_t>(round_up(m.output, line / sizeof(Word)));
        m.answers = static_cast<Word*>(
            chip_->host(size_t{options.requests} * m.answer_stride * sizeof(Word)));
        m.columns = deal_.columns;
        m.alone = deal_.columns == 1 && deal_.paced ? 1 : 0;
        m.late = m.alone != 0 && streams == 1 && !deal_.leader_answers && !keeps_inputs() ? 1 : 0;
        m.column_floats = deal_.column_floats;
        m.column_words = deal_.column_words;
        m.blocks = deal_.blocks;
        m.values_at = deal_.values_at;
        m.sums_at = deal_.sums_at;
        m.columns_at_once = deal_.columns_at_once;
        m.cache_at = deal_.cache_at;
        m.near_at = deal_.near_at;
        m.front_warps = deal_.front_warps;
        m.shared_bytes = deal_.shared_bytes;
        m.exchange = take_device<Word>(2 * m.area_words(), "the model's exchange");
    }

    const Word* answer(uint32_t cell) const
    {
        return model_.answers + size_t{cell} * model_.answer_stride;
    }

    static void relax_long()
    {
        const timespec nap{0, 2'000};
        nanosleep(&nap, nullptr);
    }

    // The gate of the slots. Throws timeout with `what`, and what refuse() does.
    std::unique_lock<std::mutex> pass_gate(const Deadline& deadline, const char* what)
    {
        std::unique_lock gate(gate_, std::defer_lock);
        Backoff backoff;
        while (!gate.try_lock()) { // ends as the other leaves it, or in time
            if (deadline.left_ns() == 0) {
                throw Error(Errc::timeout, std::string(what) + " within " +
                                               denizen::detail::seconds(deadline.passed_ns()) +
                                               ": it stands still for a swap or for states");
            }
            check_interrupt();
            backoff.pause();
        }
        if (ended()) refuse();
        return gate;
    }

    // Never sent, or answered.
    bool quiet(uint32_t cell) const
    {
        return load<Scope::system>(&numbers_[cell]) == 0 || done(cell);
    }
    bool all_quiet() const
    {
        for (uint32_t c = 0; c < cells_.size(); ++c) {
            if (!quiet(c)) {
                return false;
            }
        }
        return true;
    }

    // `use` while no request is under way and no block is on the GPU.
    template <class Use>
    void stand_still(const Deadline& deadline, Use&& use)
    {
        const auto gate = pass_gate(deadline, "the resident model did not stand still");
        while (!all_quiet()) { // ends with the last answer or in time
            if (deadline.left_ns() == 0) {
                throw Error(Errc::timeout, "the resident model has not answered what was sent "
                                           "within " +
                                               denizen::detail::seconds(deadline.passed_ns()));
            }
            if (chip_->failed(nullptr)) refuse();
            check_interrupt();
            relax_long();
        }
        chip_->hold();
        try {
            use();
        } catch (...) {
            chip_->let_go();
            throw;
        }
        chip_->let_go();
    }

    void reap()
    {
        const std::lock_guard guard(abandoned_mutex_);
        std::erase_if(abandoned_, [this](uint32_t cell) {
            const bool over = done(cell);
            if (over) cells_.give_back(cell);
            return over;
        });
    }

    // `use(op, block, kept floats)` for each piece of a state, in the order of plan.kept.
    template <class Recurrent, class Past>
    void each_piece(Recurrent&& row, Past&& past)
    {
        for (size_t i = 0; i < deal_.step_of.size(); ++i) {
            const detail::BlockOp& op = deal_.ops[0][i];
            if (recurrent(op.kind)) {
                row(op.row_at, op.out);
                if (op.kind == OpKind::lstm) row(op.row_at + detail::in_fours(op.out), op.out);
            } else if (op.kind == OpKind::conv1d && op.past != 0) {
                past(i, op);
            }
        }
    }

    float* past_at(uint32_t block, size_t op, uint32_t stream) const
    {
        const detail::BlockPlace& place = deal_.places[block];
        return model_.own + place.own_at + uint64_t{stream} * place.own_floats +
               deal_.ops[block][op].sums_at;
    }

    void read_one(uint32_t stream, float* to)
    {
        if (fresh_[stream] == Fresh::zeros) {
            std::fill_n(to, plan_.kept_floats, 0.0F);
            return;
        }
        std::vector<float> row(deal_.row_floats);
        chip_->read(row.data(), model_.rows + stream * deal_.row_floats,
                    row.size() * sizeof(float));
        each_piece(
            [&](uint32_t at, uint32_t floats) { to = std::copy_n(row.data() + at, floats, to); },
            [&](size_t i, const detail::BlockOp& op) {
                const uint32_t pitch = detail::in_fours(op.in);
                std::vector<float> past(size_t{op.past} * pitch);
                uint32_t block = 0; // any that has rows of it
                while (deal_.ops[block][i].groups == 0) ++block;
                chip_->read(past.data(), past_at(block, i, stream), past.size() * sizeof(float));
                for (uint32_t k = 0; k < op.past; ++k) { // oldest first
                    const uint64_t slot = (positions_[stream] + k) % op.past;
                    to = std::copy_n(past.data() + slot * pitch, op.in, to);
                }
            });
    }

    // As of position 0.
    void write_one(uint32_t stream, const float* from)
    {
        std::vector<float> row(deal_.row_floats);
        each_piece(
            [&](uint32_t at, uint32_t floats) {
                std::copy_n(from, floats, row.data() + at);
                from += floats;
            },
            [&](size_t i, const detail::BlockOp& op) {
                const uint32_t pitch = detail::in_fours(op.in);
                std::vector<float> past(size_t{op.past} * pitch);
                for (uint32_t k = 0; k < op.past; ++k) {
                    std::copy_n(from, op.in, past.data() + size_t{k} * pitch);
                    from += op.in;
                }
                for (uint32_t block = 0; block < deal_.blocks; ++block) {
                    if (deal_.ops[block][i].groups == 0) continue;
                    chip_->write(past_at(block, i, stream), past.data(),
                                 past.size() * sizeof(float));
                }
            });
        chip_->write(model_.rows + stream * deal_.row_floats, row.data(),
                     row.size() * sizeof(float));
        fresh_[stream] = Fresh::sums;
        positions_[stream] = 0;
    }

    const std::unique_ptr<Chip> chip_;
    const Plan& plan_;
    Process process_;
    Placement placement_;
    Deal& deal_;
    ResidentModel model_{};
    unsigned char* near_[2] = {};
    unsigned char* far_[2] = {};
    Chip::Slots slots_;
    Cells cells_;                     // free ones, and generations
    std::vector<uint64_t> numbers_;   // of each cell's last request | 2^32; 0: it had none
    std::vector<uint64_t> versions_;  //
    mutable std::mutex gate_;         // of all that follows
    uint64_t sent_ = 0;               // requests
    uint64_t swaps_ = 0;              //
    std::vector<Fresh> fresh_;        // of each stream
    std::vector<uint64_t> positions_; //
    std::mutex swap_mutex_;
    std::atomic<uint64_t> version_{1};
    std::atomic<bool> closed_{false};
    std::mutex abandoned_mutex_;
    std::vector<uint32_t> abandoned_; // cells whose answers nobody will take
};

} // namespace

std::unique_ptr<Serving> serve_on(std::unique_ptr<Chip> chip, const Plan& plan, const Model& model,
                                  const Options& options)
{
    return std::make_unique<GpuServer>(std::move(chip), plan, model, options);
}

} // namespace denizen::infer

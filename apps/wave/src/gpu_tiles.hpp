// SPDX-License-Identifier: Apache-2.0
// Resident tiles on a GPU: a cooperative kernel, whose incarnations make up a run.
#pragma once

#include "gpu_slab.hpp"

#include <denizen/wave/detail/tile.hpp>

namespace denizen::wave {

constexpr uint64_t overdue_ns = 20'000'000;  // behind a breath: other work, or an error
constexpr uint64_t least_slept_ns = 500'000; // breaths that the host naps in

template <class T>
class GpuTiles {
public:
    GpuTiles(GpuSlab<T>& slab, const State& state) : slab_(slab), chip_(slab.chip()), state_(state)
    {
        const gpu::ContextScope scope(chip_.context());
        for (const bool deep : {false, true}) {
            for_shapes<T>(deep, [&]<class S>(const char* name) {
                const uint32_t all =
                    chip_.allow(slab_.typed(name), S::threads, sizeof(TileMemory<T, S>));
                Seats seats;
                seats.most = all == 0 ? 0 : all - 1; // one is the conductor's
                seats.alone = std::min(seats.most, chip_.sms() - 1);
                seats_[deep ? 1 : 0].push_back(seats);
            });
        }
        start_ = chip_.take_zeros<uint8_t>(state.kinds.size());
    }

    // The kernels' names.
    static std::vector<std::string> names(const Geometry& geometry)
    {
        std::vector<std::string> all;
        for (const bool deep : {false, true}) {
            for (const Tiling& shape : tilings<T>(geometry, deep)) {
                all.push_back(GpuSlab<T>::typed(shape.name));
            }
        }
        return all;
    }

    Tiling tiling(bool deep, std::string& why_not) const
    {
        return choose_tiling(state_.geometry, tilings<T>(state_.geometry, deep),
                             seats_[deep ? 1 : 0], deep, why_not);
    }

    void put_start() { chip_.put(start_, state_.kinds); }

    // Returns the commands that changed something. Errc::bad_argument, Errc::timeout.
    std::vector<Request> run(uint32_t steps, bool deep, Mailbox& mailbox, uint32_t ahead, Ran& ran)
    {
        std::string why_not;
        const Tiling chosen = tiling(deep, why_not);
        if (chosen.name == nullptr) {
            throw Error(Errc::bad_argument, std::string("method ") + (deep ? "deep" : "tiles") +
                                                ": " + why_not + "; use graph");
        }
        ran.tiles = chosen.text();
        std::vector<Request> changes;
        for_shapes<T>(deep, [&]<class S>(const char* name) {
            if (std::string(name) == chosen.name) {
                changes = run_shape<S>(steps, chosen, mailbox, ahead, quota_[deep ? 1 : 0], ran);
            }
        });
        return changes;
    }

private:
    template <class S>
    std::vector<Request> run_shape(uint32_t steps, const Tiling& tiling, Mailbox& mailbox,
                                   uint32_t ahead, uint32_t& quota, Ran& ran)
    {
        constexpr uint32_t packets = hops<T, S>();
        const Packing packing = pack<T, S>();
        slab_.make_spare();
        if (control_ == nullptr) {
            commands_ = chip_.take_zeros<CommandSlot>(most_under_way);
            changes_ = chip_.take_zeros<Request>(most_changes);
            control_ = chip_.take_zeros<Control>(1);
            for (uint8_t*& kinds : kinds_) {
                if (state_.breath_ns != 0) kinds = chip_.take_zeros<uint8_t>(state_.kinds.size());
            }
        }
        const size_t mail_packets = size_t{2} * packets * tiling.count();
        chip_.reserve(mail_, mail_size_, mail_packets);
        chip_.set(mail_, 0, mail_packets * sizeof(Packet));
        Control control{};
        control.checkpoint = first_checkpoint(steps, ahead, state_.breath_ns, quota);
        control.checkpoint.sources = static_cast<uint32_t>(state_.sources.size());
        control.checkpoint.damping = state_.medium.damping;
        chip_.put(control_, &control, 1);
        chip_.set(commands_, 0, most_under_way * sizeof(CommandSlot));
        chip_.reserve(hops_, hops_size_, 2 * size_t{packets});
        chip_.put(hops_, packing.outgoing);
        chip_.put(hops_ + packets, packing.incoming);
        TileRun<T> run{};
        run.cells = {state_.geometry, start_};
        run.medium = state_.medium;
        run.layout = slab_.layout();
        for (uint32_t i = 0; i < 2; ++i) {
            run.fields[0][i] = slab_.field(i);
            run.fields[1][i] = slab_.spare(i);
            run.kinds[i] = kinds_[i];
        }
        std::copy_n(tiling.tiles, 3, run.tiles);
        run.steps = steps;
        run.first = state_.step;
        run.patience_ns = patience_ns;
        run.outgoing = hops_;
        run.incoming = hops_ + packets;
        run.mail = mail_;
        run.control = control_;
        run.commands = commands_;
        run.sources = slab_.sources();
        run.pool = slab_.pool();
        run.receivers = slab_.receivers();
        run.receiver_count = static_cast<uint32_t>(state_.receivers.size());
        run.traces = slab_.traces();
        run.window = static_cast<T*>(mailbox.window());
        const Leading leading{control_,
                              commands_,
                              changes_,
                              slab_.sources(),
                              mailbox.heartbeat(),
                              mailbox.told(),
                              mailbox.orders(),
                              mailbox.answers(),
                              state_.step,
                              steps,
                              ahead,
                              tiling.count(),
                              {S::x, S::y, S::z},
                              patience_ns,
                              state_.breath_ns};
        const auto launch = [&] {
            chip_.launch(slab_.typed(tiling.name),
                         {.blocks = {tiling.count() + 1, 1, 1},
                          .threads = {S::threads, 1},
                          .shared_bytes = sizeof(TileMemory<T, S>),
                          .together = true},
                         run, leading);
        };
        launch();
        const bool breathes =
            state_.breath_ns != 0 && (ahead != 0 || control.checkpoint.end < steps);
        if (breathes) keep(mailbox, launch);
        wait(mailbox);
        chip_.fetch(&control, control_, 1);
        const Checkpoint& checkpoint = control.checkpoint;
        if (checkpoint.incarnation % 2 != 0) slab_.swap_spare();
        if (control.late != 0) {
            throw Error(Errc::timeout, "the tiles did not get on for 10 s and gave up");
        }
        quota = checkpoint.quota;
        ran.steps = checkpoint.begin;
        ran.incarnations = checkpoint.incarnation;
        ran.seconds = static_cast<double>(control.ended - control.began) * 1e-9;
        std::vector<Request> changes(checkpoint.changes);
        if (!changes.empty()) chip_.fetch(changes.data(), changes_, changes.size());
        return changes;
    }

    // After the first launch, until the run is over: one launch more than the one that runs is in
    // the stream. By the thread that waits for the run and not by a gpu::Keeper: a run holds the
    // mutex of the resident programs, which a keeper's launch takes. Words of the host's memory say
    // how far it is; the stream is asked only if nothing moves.
    template <class Launch>
    void keep(Mailbox& mailbox, const Launch& launch) const
    {
        uint32_t queued = 1;
        uint32_t ended = 0;
        uint32_t beats = 0;
        uint64_t moved = now_ns();
        Backoff idle;
        while (true) { // ends when the conductor says so, or with an error of the stream
            store<Scope::system>(mailbox.heartbeat(), ++beats);
            const uint32_t told = load<Scope::system>(mailbox.told());
            if (told == told_word(told >> 1, true)) return;
            if (told >> 1 != ended) {
                ended = told >> 1;
                moved = now_ns();
                // Else naps grow to 0.1 ms.
                if (state_.breath_ns < least_slept_ns) idle.reset();
            }
            if (queued - ended < 2) {
                launch();
                ++queued;
            } else if (now_ns() - moved > state_.breath_ns + overdue_ns) {
                moved = now_ns();
                const gpu::Result result = gpu::driver().stream_query(chip_.stream());
                if (result != gpu::error_not_ready) {
                    gpu::check(result, "cuStreamQuery", "the resident tiles");
                }
            } else {
                idle.pause();
            }
        }
    }

    void wait(Mailbox& mailbox) const
    {
        uint32_t beats = 0;
        gpu::Result result = gpu::driver().stream_query(chip_.stream());
        // Ends with the kernel, which leaves when it has done its steps or has waited too long.
        for (Backoff idle; result == gpu::error_not_ready;
             result = gpu::driver().stream_query(chip_.stream())) {
            store<Scope::system>(mailbox.heartbeat(), ++beats);
            idle.pause();
        }
        gpu::check(result, "cuStreamQuery", "the resident tiles");
    }

    GpuSlab<T>& slab_;
    gpu::Chip& chip_;
    const State& state_;
    std::vector<Seats> seats_[2]; // of tiles, of deep ones
    uint8_t* start_ = nullptr;    // Cell by cell
    // Taken at first use.
    CommandSlot* commands_ = nullptr;
    Request* changes_ = nullptr;
    Control* control_ = nullptr;
    uint8_t* kinds_[2] = {};                         // TileRun::kinds, with a breath
    uint32_t quota_[2] = {first_quota, first_quota}; // of tiles, of deep ones
    Packet* mail_ = nullptr;
    size_t mail_size_ = 0;
    Hop* hops_ = nullptr;
    size_t hops_size_ = 0;
};

} // namespace denizen::wave

// SPDX-License-Identifier: Apache-2.0
// Resident tiles on a GPU: one cooperative kernel for a whole run.
#pragma once

#include "gpu_slab.hpp"

#include <denizen/wave/detail/tile.hpp>

namespace denizen::wave {

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
                changes = run_shape<S>(steps, chosen, mailbox, ahead, ran);
            }
        });
        return changes;
    }

private:
    template <class S>
    std::vector<Request> run_shape(uint32_t steps, const Tiling& tiling, Mailbox& mailbox,
                                   uint32_t ahead, Ran& ran)
    {
        constexpr uint32_t packets = hops<T, S>();
        const Packing packing = pack<T, S>();
        slab_.make_spare();
        if (control_ == nullptr) {
            commands_ = chip_.take_zeros<CommandSlot>(most_under_way);
            changes_ = chip_.take_zeros<Request>(most_changes);
            control_ = chip_.take_zeros<Control>(1);
        }
        const size_t mail_packets = size_t{2} * packets * tiling.count();
        chip_.reserve(mail_, mail_size_, mail_packets);
        chip_.set(mail_, 0, mail_packets * sizeof(Packet));
        chip_.set(control_, 0, sizeof(Control));
        chip_.set(commands_, 0, most_under_way * sizeof(CommandSlot));
        chip_.reserve(hops_, hops_size_, 2 * size_t{packets});
        chip_.put(hops_, packing.outgoing);
        chip_.put(hops_ + packets, packing.incoming);
        TileRun<T> run{};
        run.cells = {state_.geometry, start_};
        run.medium = state_.medium;
        run.layout = slab_.layout();
        for (uint32_t i = 0; i < 2; ++i) {
            run.from[i] = slab_.field(i);
            run.to[i] = slab_.spare(i);
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
        run.source_count = static_cast<uint32_t>(state_.sources.size());
        run.pool = slab_.pool();
        run.receivers = slab_.receivers();
        run.receiver_count = static_cast<uint32_t>(state_.receivers.size());
        run.traces = slab_.traces();
        run.window = static_cast<T*>(mailbox.window());
        const Leading leading{control_,
                              commands_,
                              changes_,
                              slab_.sources(),
                              run.source_count,
                              mailbox.heartbeat(),
                              mailbox.orders(),
                              mailbox.answers(),
                              state_.step,
                              steps,
                              ahead,
                              tiling.count(),
                              {S::x, S::y, S::z},
                              patience_ns};
        chip_.launch(slab_.typed(tiling.name), {tiling.count() + 1, 1, 1}, {S::threads, 1},
                     sizeof(TileMemory<T, S>), true, run, leading);
        wait(mailbox);
        Control control{};
        chip_.fetch(&control, control_, 1);
        if (control.late != 0) {
            throw Error(Errc::timeout, "the tiles did not get on for 10 s and gave up");
        }
        ran.steps = control.steps;
        ran.seconds = static_cast<double>(control.ended - control.began) * 1e-9;
        std::vector<Request> changes(control.changes);
        if (!changes.empty()) chip_.fetch(changes.data(), changes_, changes.size());
        slab_.swap_spare();
        return changes;
    }

    void wait(Mailbox& mailbox) const
    {
        uint32_t beats = 0;
        gpu::Result result = chip_.driver().stream_query(chip_.stream());
        // Ends with the kernel, which leaves when it has done its steps or has waited too long.
        for (Backoff idle; result == gpu::error_not_ready;
             result = chip_.driver().stream_query(chip_.stream())) {
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
    Packet* mail_ = nullptr;
    size_t mail_size_ = 0;
    Hop* hops_ = nullptr;
    size_t hops_size_ = 0;
};

} // namespace denizen::wave

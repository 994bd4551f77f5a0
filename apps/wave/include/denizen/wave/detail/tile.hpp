// SPDX-License-Identifier: Apache-2.0
// A tile through all steps of an incarnation: a block of a cooperative kernel or a thread of the
// host. Where the time of a step goes on a GPU is in docs/wave.md.
#pragma once

#include <denizen/wave/detail/tile_mail.hpp>

namespace denizen::wave {

template <class T, class S>
class Tile : public TileMail<T, S> {
public:
    DENIZEN_HD Tile(const TileRun<T>& run, TileMemory<T, S>& memory, uint32_t number)
        : Base(run, memory, number), known_(run.control->checkpoint.known),
          reads_of_few_(run.control->checkpoint.reads_of_few), end_(run.control->checkpoint.end)
    {
    }

    // All members of the tile call it.
    DENIZEN_HD void run()
    {
        uint32_t step = r_.control->checkpoint.begin;
        gather();
        sync();
        find_sources();
        prepare(step);
        learn();
        sync();
        if (rank() == 0 && number_ == 0 && r_.control->checkpoint.incarnation == 0) {
            store<Scope::gpu>(&r_.control->began, now_ns());
        }
        uint32_t exchange = step; // there have been no more
        uint32_t since = 0;       // steps since the shell was renewed
        Mail mail = mail_of();
        while (proceed(step)) { // ends with the last step, by a command, or late
            const T* const from = now();
            T* const to = before();
            if constexpr (apart) {
                if (own_.outer || touched_) make_own(from, to);
            } else {
                this->template advance_by<0>(since);
            }
            turn_ ^= 1;
            sync();
            if (touched_) {
                touch(step);
                sync();
                if constexpr (apart) own_.now = own_in(now());
            }
            ++step;
            const bool renew = ++since == S::depth;
            if (renew) {
                ++exchange;
                since = 0;
                send(mail, exchange);
            }
            // The last member has the fewest packets. Who may run to the end hears nothing more.
            const bool asks = rank() == members - 1 && limit_ != end_;
            uint64_t go = 0;
            if (asks) {
                go = load<Scope::gpu>(&r_.control->go);
                if (number_ == 0) store<Scope::gpu>(&r_.control->progress, step);
            }
            prepare(step); // while the packets fly
            if constexpr (apart) {
                if (!own_.outer && !touched_) make_own(from, to);
            }
            if (renew) receive(mail, exchange);
            if (asks) m_.go = go;
            sync();
        }
        scatter();
        sync();
        if (rank() == 0) {
            fetch_max<Scope::gpu>(&r_.control->ended, now_ns());
            // Release: partner of the acquire of whoever sees that all have left.
            fetch_add<Scope::gpu, Order::release>(&r_.control->left, 1u);
        }
    }

private:
    using Base = TileMail<T, S>;
    using Base::apart;
    using Base::before;
    using Base::change;
    using Base::element_at;
    using Base::find_sources;
    using Base::gather;
    using Base::learn;
    using Base::m_;
    using Base::mail_of;
    using Base::make_own;
    using Base::medium_;
    using Base::members;
    using Base::near;
    using Base::now;
    using Base::number_;
    using Base::own_;
    using Base::own_in;
    using Base::prepare;
    using Base::r_;
    using Base::rank;
    using Base::receive;
    using Base::scatter;
    using Base::send;
    using Base::set_table;
    using Base::sources_;
    using Base::sync;
    using Base::touch;
    using Base::touched_;
    using Base::turn_;
    using typename Base::Mail;
    using typename Base::Range;

    // Whether step `step` may begin; serves the commands that belong in front of it.
    DENIZEN_HD bool proceed(uint32_t step)
    {
        if (step % 16 == 0 && m_.late != 0) return false;
        // A command that is not known yet belongs in front of a step that was not allowed yet.
        if (step < limit_) return true;
        Backoff idle;
        while (true) { // ends when the conductor lets the tile go on, or it is late
            const uint64_t go = m_.go;
            limit_ = static_cast<uint32_t>(go);
            while (known_ < static_cast<uint32_t>(go >> 32)) {
                const Request command =
                    told_command(&r_.commands[known_ % most_under_way], known_ + 1);
                if (command.step != step) {
                    if (command.step < limit_) limit_ = command.step;
                    break;
                }
                ++known_;
                serve(command, step);
            }
            if (step == end_) return false;
            if (step < limit_) return true;
            sync();
            if (rank() == 0) {
                idle.pause();
                const uint64_t now_go = load<Scope::gpu>(&r_.control->go);
                const uint32_t late = load<Scope::gpu>(&r_.control->late);
                m_.go = now_go;
                m_.late = late;
            }
            sync();
            if (m_.late != 0) return false;
        }
    }

    DENIZEN_HD void serve(const Request& command, uint32_t step)
    {
        sync();
        switch (command.act) {
        case Act::source:
            // Acquire: partner of the conductor's release; sync() passes it on to all members.
            if (rank() == 0) (void)load<Scope::gpu, Order::acquire>(&r_.control->go);
            sync();
            ++sources_;
            find_sources();
            prepare(step);
            break;
        case Act::damping:
            medium_.damping = command.value;
            set_table();
            break;
        case Act::cells: change(command.edit); break;
        case Act::read:
            if (command.edit.box.cells() <= few_cells) {
                tell(command.edit.box, ++reads_of_few_);
            } else {
                show(command.edit.box);
            }
            break;
        case Act::end: end_ = step; break;
        case Act::pause:
        case Act::resume: break; // the conductor's
        }
        sync();
        if (command.act == Act::cells || command.act == Act::damping) learn();
    }

    // Calls put(i, value) for the tile's cells in the box: its cell i, x fastest.
    template <class Put>
    DENIZEN_HD void read(const Box& box, const Range& range, Put&& put)
    {
        const auto wide = static_cast<uint32_t>(box.high[0] - box.low[0]);
        const auto high = static_cast<uint32_t>(box.high[1] - box.low[1]);
        for (uint32_t i = rank(); i < range.cells(); i += members) {
            int32_t at[3];
            range.at(i, at);
            const auto x = static_cast<uint64_t>(at[0] - box.low[0]);
            const auto y = static_cast<uint64_t>(at[1] - box.low[1]);
            const auto z = static_cast<uint64_t>(at[2] - box.low[2]);
            put((z * high + y) * wide + x, now()[element_at(at)]);
        }
    }

    // Few cells: the conductor tells the host. `number`: of this read among those.
    DENIZEN_HD void tell(const Box& box, uint32_t number)
    {
        read(box, near(box, 0, 0), [&](uint64_t i, T value) {
            const auto exact = static_cast<double>(value);
            Packet packet{{0, 0, 0}, number};
            copy_bytes(packet.word, &exact, sizeof exact);
            store_packet<Scope::gpu>(&r_.control->few[i], packet);
        });
    }

    DENIZEN_HD void show(const Box& box)
    {
        const Range range = near(box, 0, 0);
        if (range.cells() == 0) return;
        read(box, range, [&](uint64_t i, T value) { r_.window[i] = value; });
        sync();
        // Release: partner of the conductor's acquire, which then tells the host.
        if (rank() == 0) fetch_add<Scope::system, Order::release>(&r_.control->read, 1u);
    }

    uint32_t known_;     // commands served
    uint32_t limit_ = 0; // steps below it are allowed, and no command is in front of them
    uint32_t reads_of_few_;
    uint32_t end_;
};

} // namespace denizen::wave

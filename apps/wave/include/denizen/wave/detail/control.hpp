// SPDX-License-Identifier: Apache-2.0
// How a resident simulation is led. One block, the conductor, holds the host's end of two rings and
// tells the tiles how far they may go; no tile goes further. A command that comes in is given the
// first step that no tile may have begun, so that all of them apply it at the same one, and the
// word that lets them go on names the number of commands as well: who may go on knows of them.
//
//   host --orders--> porter --porch--> conductor --go: limit, number of commands--> tiles
//   host <--answers----------------- conductor <------- progress of tile 0 ------ tile 0
//
// The conductor stays `ahead` steps in front of tile 0. A look into the host's memory takes longer
// than a step, and would hold the tiles up: another thread, the porter, does nothing else and lays
// what it has found into the porch, in the memory of the block.
#pragma once

#include <denizen/base/atomic.hpp>
#include <denizen/base/clock.hpp>
#include <denizen/wave/detail/checkpoint.hpp>
#include <denizen/wave/detail/porch.hpp>
#include <denizen/wire/spsc.hpp>

namespace denizen::wave {

// Zero at the start of a run, but the checkpoint.
struct Control {
    alignas(line) uint64_t go; // limit | number of commands << 32: written by the conductor alone
    alignas(line) uint32_t progress; // steps that tile 0 has done
    alignas(line) uint32_t read;     // parts of reads that tiles have written, over all
    // Of the read of few cells that is under way: a value each, and as sequence its number among
    // those. Packets need no fence, which to the host and back takes longer than a step.
    alignas(line) Packet few[few_cells];
    alignas(line) uint32_t left;  // tiles that have ended
    alignas(line) uint32_t late;  // everybody leaves: the result is void
    alignas(line) uint64_t began; // by the device's clock: the first tile's first step
    uint64_t ended;               // and the last one's last
    alignas(line) Checkpoint checkpoint;
};

// A command as the tiles get it: of Command's words, and the step as the tenth. Packets bring their
// own arrival, so nobody waits for a fence; their sequence is the command's number, from 1.
struct CommandSlot {
    Packet packet[4];
};

DENIZEN_HD inline void tell_command(CommandSlot* to, const Command& order, uint32_t step,
                                    uint32_t number)
{
    DENIZEN_UNROLL
    for (uint32_t i = 0; i < 3; ++i) {
        store_packet<Scope::gpu>(
            &to->packet[i],
            {{order.word[3 * i], order.word[3 * i + 1], order.word[3 * i + 2]}, number});
    }
    store_packet<Scope::gpu>(&to->packet[3], {{step, 0, 0}, number});
}

// Waits until it is there: who asks knows of it by `go`, so it is under way.
DENIZEN_HD inline Request told_command(const CommandSlot* from, uint32_t number)
{
    Packet packet[4];
    bool all = false;
    while (!all) {
        all = true;
        DENIZEN_UNROLL
        for (uint32_t i = 0; i < 4; ++i) packet[i] = load_packet<Scope::gpu>(&from->packet[i]);
        DENIZEN_UNROLL
        for (uint32_t i = 0; i < 4; ++i) all = all && packet[i].sequence == number;
    }
    Command order;
    DENIZEN_UNROLL
    for (uint32_t i = 0; i < 9; ++i) order.word[i] = packet[i / 3].word[i % 3];
    Request command = request_of(order);
    command.step = packet[3].word[0];
    return command;
}

struct Leading {
    Control* control;
    CommandSlot* commands;     // most_under_way: the list comes round; zero at the start
    Request* changes;          // most_changes: what the run leaves behind
    Source* sources;           // most_sources, as well
    const uint32_t* heartbeat; // the host changes it while it waits for the run
    uint32_t* told;            // and is told here what told_word() says
    RingView in;
    RingView out;
    uint64_t first; // step of the simulation that the run begins with
    uint32_t steps;
    uint32_t ahead; // 0: nobody will send commands, the tiles are let go to the end at once
    uint32_t tiles;
    uint32_t size[3];     // of a tile
    uint64_t patience_ns; // of a run without a heartbeat
    uint64_t breath_ns;   // of an incarnation; 0: there is one
};

DENIZEN_HD inline uint64_t go_word(uint32_t limit, uint32_t commands)
{
    return limit | uint64_t{commands} << 32;
}

// How many incarnations have ended, and whether the run is over.
DENIZEN_HD inline uint32_t told_word(uint32_t ended, bool over)
{
    return ended << 1 | (over ? 1u : 0u);
}

// One thread runs it until all tiles have ended.
class Conductor {
public:
    // `porch`: null where nobody sends commands.
    DENIZEN_HD Conductor(const Leading& with, Porch* porch)
        : l_(with), porch_(porch), c_(with.control->checkpoint),
          out_(ring_from(with.out, c_.answers)), end_(c_.end), sources_(c_.sources),
          damping_(c_.damping), went_(load<Scope::gpu>(&with.control->go)),
          limit_(static_cast<uint32_t>(went_)), known_(c_.known), served_(c_.known),
          changes_(c_.changes), parts_(c_.parts), reads_of_few_(c_.reads_of_few),
          paused_(c_.paused != 0), until_(c_.until), hands_over_(end_ != with.steps)
    {
    }

    DENIZEN_HD void lead()
    {
        const uint64_t began = now_ns();
        uint64_t beaten = began;
        uint32_t beat = load<Scope::system>(l_.heartbeat);
        uint32_t turns = 0;
        Backoff idle;
        // Ends when every tile has left, which follows from the limit reaching the end, or from
        // `late`.
        while (!ended(turns)) {
            bool took = take();
            while (joined_ && take()) took = true; // the rest of them, as far as it has come
            if (turns % 16 == 15) breathe(began);
            raise(); // before a look for answers: tiles may be waiting
            answer();
            if (took) {
                idle.reset();
            } else if (DENIZEN_ON_DEVICE && l_.ahead != 0 && !paused_) {
                relax(); // tiles wait for every turn
            } else {
                idle.pause();
            }
            if (++turns % 4096 != 0) continue; // a look into the host's memory, as well
            const uint32_t now = load<Scope::system>(l_.heartbeat);
            if (now != beat) {
                beat = now;
                beaten = now_ns();
            } else if (now_ns() - beaten > l_.patience_ns) {
                store<Scope::gpu>(&l_.control->late, 1u);
            }
        }
        // Acquire: partner of the tiles' release when they left.
        (void)load<Scope::gpu, Order::acquire>(&l_.control->left);
        answer();
        if (porch_ != nullptr) {
            store<Scope::block>(&porch_->closed, 1u);
            // Acquire: partner of the porter's release. Ends after its last look.
            while (load<Scope::block, Order::acquire>(&porch_->left) == 0) relax();
        }
        while (take()) { // what came too late is told so; not what the successor will take
        }
        leave(now_ns() - began);
    }

private:
    // Before the last step nobody leaves, but who is late.
    DENIZEN_HD bool ended(uint32_t turns) const
    {
        if (DENIZEN_ON_DEVICE && !over() && turns % 64 != 0) return false;
        return load<Scope::gpu>(&l_.control->left) == l_.tiles;
    }

    DENIZEN_HD bool over() const { return limit_ == end_; }

    // Ends the incarnation if its time has come, by the word that ends a run. Tiles that may go to
    // the end are on their way out. The limit has been raised before, and the porter has looked for
    // a command, so each incarnation gets on.
    DENIZEN_HD void breathe(uint64_t began)
    {
        if (l_.breath_ns == 0 || over() || joined_ || now_ns() - began < l_.breath_ns) return;
        if (load<Scope::block>(&porch_->looked) == 0) return;
        CommandSlot* const to = &l_.commands[known_ % most_under_way];
        tell_command(to, command_of(Request{}), limit_, ++known_); // room() left a place for it
        end_ = limit_;
        hands_over_ = true;
    }

    // Step 4 of checkpoint.hpp. The result of a run that is late is void, and its fields stay as
    // they were at the last checkpoint.
    DENIZEN_HD void leave(uint64_t took_ns)
    {
        Control& control = *l_.control;
        Checkpoint& to = control.checkpoint;
        const uint32_t ended = c_.incarnation + 1;
        const uint32_t done = end_ - c_.begin;
        const bool late = load<Scope::gpu>(&control.late) != 0;
        to.over = late || !hands_over_ ? 1 : 0;
        if (!late) {
            to.incarnation = ended;
            to.begin = end_;
            to.end = l_.steps;
            if (l_.ahead == 0 && hands_over_) {
                to.quota = next_quota(done, took_ns, l_.breath_ns);
                if (to.quota < l_.steps - end_) to.end = end_ + to.quota;
            }
            to.sources = sources_;
            to.damping = damping_;
            to.known = known_;
            to.changes = changes_;
            to.reads_of_few = reads_of_few_;
            to.parts = parts_;
            to.paused = paused_ ? 1 : 0;
            to.until = until_;
            to.answers = out_.position();
            if (porch_ != nullptr) {
                to.orders = porch_->orders;
                to.waiting = porch_->full;
                to.header = porch_->header;
                to.order = porch_->order;
            }
            store<Scope::gpu>(&control.left, 0u);
            store<Scope::gpu>(&control.progress, end_);
            store<Scope::gpu>(&control.go, go_word(l_.ahead == 0 ? to.end : end_, known_));
        }
        store<Scope::system>(l_.told, told_word(ended, to.over != 0));
    }

    DENIZEN_HD bool receive(Header& header, Command& order)
    {
        if (porch_ == nullptr) return false;
        // Acquire: partner of the porter's release.
        if (load<Scope::block, Order::acquire>(&porch_->full) == 0) return false;
        header = porch_->header;
        order = porch_->order;
        store<Scope::block, Order::release>(&porch_->full, 0u);
        return true;
    }

    // Commands that belong together get the same step, for the limit is not raised among them, and
    // one answer.
    DENIZEN_HD bool take()
    {
        if (hands_over_ || asked_ || !(over() || room())) return false;
        Command order;
        Header header;
        if (!receive(header, order)) return false;
        Request command = request_of(order);
        const bool late = over();
        command.step = limit_;
        command.source.begin = l_.first + limit_;
        joined_ = command.joined != 0;
        if (!late) { // and there is room: see Mailbox::claim()
            if (command.act == Act::pause) paused_ = true;
            if (command.act == Act::resume) {
                paused_ = false;
                until_ = command.until;
            }
            if (command.act == Act::end) end_ = limit_;
            if (command.act == Act::damping) damping_ = command.value;
            if (command.act == Act::source) {
                l_.sources[sources_++] = command.source;
                to_fence_ = true;
            }
            CommandSlot* const to = &l_.commands[known_ % most_under_way];
            tell_command(to, order, command.step, ++known_);
            if (changes_something(command.act)) l_.changes[changes_++] = command;
        }
        if (joined_) return true;
        const Answer reply{command.step, late, {}};
        if (!late && command.act == Act::read) {
            reading_ = header.sender;
            asked_ = true;
            few_ = command.edit.box.cells() <= few_cells
                       ? static_cast<uint32_t>(command.edit.box.cells())
                       : 0;
            if (few_ != 0) {
                ++reads_of_few_;
            } else {
                parts_ += tiles_of(command.edit.box);
            }
            reply_ = reply;
        } else {
            send(header.sender, reply);
        }
        return true;
    }

    // Whether all tiles have served the command whose place is the next but one: breathe() needs
    // one too. A tile waits for its neighbours, so it is behind tile 0 by no more than a pass for
    // each tile.
    DENIZEN_HD bool room() const
    {
        constexpr uint32_t most_in_a_pass = 8; // steps
        const uint32_t last = known_ + 1;
        return last - served_ < most_under_way ||
               load_packet<Scope::gpu>(&l_.commands[last % most_under_way].packet[3]).word[0] +
                       l_.tiles * most_in_a_pass <
                   load<Scope::gpu>(&l_.control->progress);
    }

    // How many tiles have cells in the box.
    DENIZEN_HD uint32_t tiles_of(const Box& box) const
    {
        uint32_t count = 1;
        for (uint32_t axis = 0; axis < 3; ++axis) {
            const auto size = static_cast<int32_t>(l_.size[axis]);
            count *= static_cast<uint32_t>((box.high[axis] - 1) / size - box.low[axis] / size + 1);
        }
        return count;
    }

    // A read is answered when each of those has written its part.
    DENIZEN_HD void answer()
    {
        if (!asked_ || !(few_ != 0 ? few_have_come() : parts_have_come())) return;
        asked_ = false;
        send(reading_, reply_);
    }

    DENIZEN_HD void send(uint32_t id, const Answer& reply)
    {
        // The host never closes its end, and never has more commands on their way than the ring has
        // slots.
        (void)out_.send_if_room(id, 0, 0, reply);
    }

    DENIZEN_HD bool parts_have_come() const
    {
        // Acquire: partner of the tiles' release after writing; what the host reads has come.
        return load<Scope::system>(&l_.control->read) == parts_ &&
               load<Scope::system, Order::acquire>(&l_.control->read) == parts_;
    }

    // By indexes that are known: else all of the conductor would lie in local memory.
    DENIZEN_HD bool few_have_come()
    {
        bool all = true;
        DENIZEN_UNROLL
        for (uint32_t i = 0; i < few_cells; ++i) {
            if (i >= few_) continue;
            const Packet packet = load_packet<Scope::gpu>(&l_.control->few[i]);
            all = all && packet.sequence == reads_of_few_;
            copy_bytes(&reply_.value[i], packet.word, sizeof reply_.value[i]);
        }
        return all;
    }

    DENIZEN_HD void raise()
    {
        if (joined_) return;
        if (!paused_) {
            const uint32_t done = load<Scope::gpu>(&l_.control->progress);
            uint32_t wanted = l_.ahead == 0 || end_ - done < l_.ahead ? end_ : done + l_.ahead;
            if (until_ != 0 && wanted > until_) wanted = until_;
            if (wanted > limit_) limit_ = wanted;
        }
        const uint64_t go = go_word(limit_, known_);
        if (go == went_) return;
        if (DENIZEN_ON_DEVICE && !to_fence_) {
            store<Scope::gpu>(&l_.control->go, go); // commands bring their own arrival
        } else {
            // Release: partner of the tiles' acquire; sources are there when they are counted.
            store<Scope::gpu, Order::release>(&l_.control->go, go);
        }
        to_fence_ = false;
        went_ = go;
    }

    Leading l_;
    Porch* porch_;
    const Checkpoint& c_; // as this incarnation has found it, until it leaves
    SpscSender<Scope::system> out_;
    uint32_t end_;
    uint32_t sources_;
    double damping_;
    uint64_t went_; // Control::go
    uint32_t limit_;
    uint32_t known_;
    uint32_t served_; // by all tiles, before this incarnation
    uint32_t changes_;
    uint32_t parts_; // of reads, that tiles have to write
    uint32_t reads_of_few_;
    bool asked_ = false; // a read is being served
    uint32_t few_ = 0;   // of so many cells; 0: of more than few_cells
    uint32_t reading_ = 0;
    Answer reply_;
    bool paused_;
    uint32_t until_;        // no further than in front of that step; 0: to the end
    bool hands_over_;       // a successor goes on where this incarnation ends
    bool to_fence_ = false; // a source has been appended
    bool joined_ = false;   // the last command is one of several, and more of them follow
};

} // namespace denizen::wave

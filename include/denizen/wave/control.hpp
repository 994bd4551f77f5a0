// SPDX-License-Identifier: Apache-2.0
// How a resident simulation is led. One block, the conductor, holds the host's end of two rings and
// tells the tiles how far they may go; no tile goes further. A command that comes in is given the
// first step that no tile may have begun, so that all of them apply it at the same one, and the
// word that lets them go on names the number of commands as well: who may go on knows of them.
//
//   host --commands--> conductor --go: limit, number of commands--> tiles
//   host <--answers--- conductor <------- progress of tile 0 ------ tile 0
//
// The conductor stays `ahead` steps in front of tile 0: far enough that tiles do not wait for it,
// which they do after a round trip through L2, and near enough that a command is felt at once.
#pragma once

#include <denizen/base/atomic.hpp>
#include <denizen/base/clock.hpp>
#include <denizen/wave/request.hpp>
#include <denizen/wire/spsc.hpp>

namespace denizen::wave {

// Zero at the start of a run.
struct Control {
    alignas(line) uint64_t go; // limit | number of commands << 32: written by the conductor alone
    alignas(line) uint32_t progress; // steps that tile 0 has done
    alignas(line) uint32_t read;     // tiles that have served a read, over all reads
    alignas(line) uint32_t left;     // tiles that have ended
    alignas(line) uint32_t late;     // everybody leaves: the result is void
    alignas(line) uint64_t began;    // by the device's clock: the first tile's first step
    uint64_t ended;                  // and the last one's last
    uint32_t steps;                  // afterwards: how many were done
    uint32_t commands;               // and how many commands were applied
};

struct Leading {
    Control* control;
    Request* commands; // most_commands
    Edit* edits;       // most_commands, and how many there are at the start
    uint32_t edited;
    Source* sources; // most_sources, as well
    uint32_t source_count;
    const uint32_t* heartbeat; // the host changes it while it waits for the run
    RingView in;
    RingView out;
    uint64_t first; // step of the simulation that the run begins with
    uint32_t steps;
    uint32_t ahead; // 0: nobody will send commands, the tiles are let go to the end at once
    uint32_t tiles;
    uint64_t patience_ns; // of a run without a heartbeat
};

DENIZEN_HD inline uint64_t go_word(uint32_t limit, uint32_t commands)
{
    return limit | uint64_t{commands} << 32;
}

// One thread runs it until all tiles have ended.
class Conductor {
public:
    DENIZEN_HD explicit Conductor(const Leading& with)
        : l_(with), in_(with.in), out_(with.out), end_(with.steps), edited_(with.edited),
          sources_(with.source_count)
    {
    }

    DENIZEN_HD void lead()
    {
        uint64_t beaten = now_ns();
        uint32_t beat = load<Scope::system>(l_.heartbeat);
        uint32_t turns = 0;
        Backoff idle;
        // Acquire: partner of the tiles' release when they leave. Ends when every tile has, which
        // follows from the limit reaching the end, or from `late`.
        while (load<Scope::gpu, Order::acquire>(&l_.control->left) != l_.tiles) {
            const bool took = take();
            answer();
            raise();
            if (took) {
                idle.reset();
            } else if (DENIZEN_ON_DEVICE && l_.ahead != 0 && !paused_) {
                relax(); // tiles wait for every turn
            } else {
                idle.pause();
            }
            if (++turns % 256 != 0) continue;
            const uint32_t now = load<Scope::system>(l_.heartbeat);
            if (now != beat) {
                beat = now;
                beaten = now_ns();
            } else if (now_ns() - beaten > l_.patience_ns) {
                store<Scope::gpu>(&l_.control->late, 1u);
            }
        }
        answer();
        while (take()) { // what came too late is told so
        }
        l_.control->steps = end_;
        l_.control->commands = known_;
    }

private:
    DENIZEN_HD bool over() const { return limit_ == end_; }

    // Commands that belong together get the same step: the limit is not raised among them.
    DENIZEN_HD bool take()
    {
        if (l_.ahead == 0 || asked_ != 0) return false;
        Request command;
        Header header;
        if (in_.try_receive(header, &command, sizeof command) != Errc::ok) return false;
        const bool refused = over() || known_ == most_commands ||
                             (command.act == Act::cells && edited_ == most_commands) ||
                             (command.act == Act::source && sources_ == most_sources);
        command.step = limit_;
        command.source.begin = l_.first + limit_;
        joined_ = command.joined != 0;
        if (!refused) {
            if (command.act == Act::pause) paused_ = true;
            if (command.act == Act::resume) paused_ = false;
            if (command.act == Act::end) end_ = limit_;
            if (command.act == Act::cells) l_.edits[edited_++] = command.edit;
            if (command.act == Act::source) l_.sources[sources_++] = command.source;
            l_.commands[known_++] = command;
        }
        Answer reply{command.step, refused ? 1u : 0u};
        if (!refused && command.act == Act::read) {
            reading_ = header.sender;
            asked_ = ++reads_;
            reply_ = reply;
        } else {
            send(header.sender, reply);
        }
        return true;
    }

    // A read is answered when every tile has written its part.
    DENIZEN_HD void answer()
    {
        // Acquire: partner of the tiles' release after writing; what the host reads has come.
        if (asked_ != 0 &&
            load<Scope::system, Order::acquire>(&l_.control->read) == asked_ * l_.tiles) {
            asked_ = 0;
            send(reading_, reply_);
        }
    }

    DENIZEN_HD void send(uint32_t id, const Answer& reply)
    {
        // The host never has more commands on their way than the ring has slots.
        (void)out_.try_send({id, 0, 0, 0, sizeof reply}, &reply);
    }

    DENIZEN_HD void raise()
    {
        if (joined_) return;
        if (!paused_) {
            const uint32_t done = load<Scope::gpu>(&l_.control->progress);
            const uint32_t wanted =
                l_.ahead == 0 || end_ - done < l_.ahead ? end_ : done + l_.ahead;
            if (wanted > limit_) limit_ = wanted;
        }
        const uint64_t go = go_word(limit_, known_);
        if (go != went_) {
            // Release: partner of the tiles' acquire; the commands are there when they are counted.
            store<Scope::gpu, Order::release>(&l_.control->go, go);
            went_ = go;
        }
    }

    Leading l_;
    SpscReceiver<Scope::system> in_;
    SpscSender<Scope::system> out_;
    uint32_t end_;
    uint32_t edited_;
    uint32_t sources_;
    uint32_t limit_ = 0;
    uint32_t known_ = 0;
    uint64_t went_ = 0;
    uint32_t reads_ = 0;
    uint32_t asked_ = 0; // the read that is being served, from 1
    uint32_t reading_ = 0;
    Answer reply_;
    bool paused_ = false;
    bool joined_ = false;
};

} // namespace denizen::wave

// SPDX-License-Identifier: Apache-2.0
// The monitor: one warp on the GPU, one thread on the CPU. Only the monitor polls host memory; the
// workers poll device memory. It takes in what the host and actors spawn, reports to the host which
// groups have ended, cancels groups that are late, passes commands on, and leaves when the host has
// died.
#pragma once

#include <denizen/base/clock.hpp>
#include <denizen/task/detail/crate.hpp>
#include <denizen/task/detail/local.hpp>

#include <denizen/wire/wait.hpp>

namespace denizen::task {

class Monitor {
public:
    DENIZEN_HD explicit Monitor(const Shared& s)
        : s_(s), c_(*s.control), head_(load<Scope::system>(&s.control->port_head)),
          ingress_head_(load<Scope::gpu>(&s.ingress->head)),
          beat_(load<Scope::system>(&s.control->heartbeat)), beat_at_(now_ns()),
          end_(s.breath, beat_at_, s.successor != 0)
    {
        if (lanes::id() == 0 && s.successor == 0) {
            store<Scope::gpu>(&s.board->left_for_good, 0u);
            store<Scope::system>(&c_.mode, static_cast<uint32_t>(Mode::running));
        }
    }

    // Runs until the breath is over, or until all workers have left. A command has them leave, and
    // so does the death of the host.
    DENIZEN_HD void run()
    {
        uint32_t idle = 0;
        for (uint64_t round = 1;; ++round) { // ends as said above
            const uint32_t taken = take_in<false>() + take_in<true>();
            const bool news = orders() | groups();
            idle = taken != 0 || news ? 0 : idle + 1;
            if (round % 8 == 0 || idle != 0) {
                if (command()) {
                    return;
                }
            }
            if (idle != 0) {
                nap(idle);
            }
        }
    }

private:
    // Moves up to a crate of tasks of one class from the host's port, or the actors' ingress, to
    // the shelf of the class. Returns how many.
    template <bool ingress>
    DENIZEN_HD uint32_t take_in()
    {
        uint32_t& head = ingress ? ingress_head_ : head_;
        uint32_t word[12];
        const bool whole = read<ingress>(head + lanes::id(), word);
        const uint32_t c = lanes::shuffle(class_of(word[0]), 0);
        uint32_t n = lanes::first(~lanes::ballot(whole && class_of(word[0]) == c));
        n = n < lanes::size ? n : lanes::size;
        if (n == 0) {
            return 0;
        }
        uint32_t number = crate::none;
        if (lanes::id() == 0) {
            number = crate::take(s_, true);
        }
        number = lanes::shuffle(number, 0);
        if (number == crate::none) {
            return 0; // the tasks wait where they are until a crate is free
        }
        lanes::sync(); // one lane has acquired the block for all
        unsigned char* to = crate::at(s_, number);
#if DENIZEN_ON_DEVICE
        if (ingress) {
            __threadfence(); // partner: the fence in TasksRef::spawn()
        }
#endif
        if (lanes::id() < n) {
            auto* slot = reinterpret_cast<Packet*>(crate::slot_in(to, lanes::id(), s_.slot));
            const uint32_t packets = s_.slot == 64 ? 3 : s_.slot / 16;
            for (uint32_t k = 0; k < packets; ++k) {
                const uint32_t* w = word + 4 * k;
                store_packet<Scope::gpu>(slot + k, Packet{{w[0], w[1], w[2]}, w[3]});
            }
            // One addition counts the token and the task that the host has handed in. So a word
            // without tokens says up to which of the host's tasks all is done. An actor has added
            // the token of its task itself.
            if (!ingress) {
                fetch_add<Scope::gpu>(&s_.groups[group_of(word[0])].word, (uint64_t{1} << 32) + 1);
            }
        }
        lanes::sync();
        head += n;
        if (lanes::id() == 0) {
            crate::shelve(s_, c, number, n); // a release, behind the tokens
            // Release: partner of the writers' acquire, after which they write there again.
            if (ingress) {
                store<Scope::gpu, Order::release>(&s_.ingress->head, head);
            } else {
                store<Scope::system, Order::release>(&c_.port_head, head);
            }
        }
        wake();
        return n;
    }

    template <bool ingress>
    DENIZEN_HD bool read(uint32_t ticket, uint32_t* word) const
    {
        const Letter& letter =
            ingress ? s_.ingress->slots[ticket & s_.ingress->mask] : s_.port[ticket & s_.port_mask];
        bool whole = true;
        for (uint32_t k = 0; k < 4; ++k) {
            const Packet p = load_packet<ingress ? Scope::gpu : Scope::system>(&letter.packet[k]);
            whole &= p.sequence == ticket + 1;
            word[3 * k] = p.word[0];
            word[3 * k + 1] = p.word[1];
            word[3 * k + 2] = p.word[2];
        }
        return whole;
    }

    // The host has opened or cancelled groups, or waits for tasks that an actor may have spawned.
    DENIZEN_HD bool orders()
    {
        // Acquire: partner of the host's release.
        const uint32_t latest =
            lanes::shuffle(load<Scope::system, Order::acquire>(&c_.group_orders), 0);
        if (latest == orders_) {
            return false;
        }
        for (uint32_t g = lanes::id(); g < max_groups; g += lanes::size) {
            Group& group = s_.groups[g];
            const uint32_t open = load<Scope::system>(&c_.group[g].open);
            if (open != load<Scope::gpu>(&group.opened)) {
                const uint64_t lifetime = load<Scope::system>(&c_.group[g].lifetime_ns);
                store<Scope::gpu>(&group.deadline, lifetime == 0 ? 0 : now_ns() + lifetime);
                store<Scope::gpu>(&group.dropped, uint64_t{0});
                store<Scope::gpu>(&group.cancelled, static_cast<uint32_t>(Cancelled::no));
                store<Scope::gpu>(&group.opened, open);
                store<Scope::system>(&c_.report[g].cancelled, 0u);
            }
            if (load<Scope::system>(&c_.group[g].cancel) != 0 &&
                load<Scope::gpu>(&group.cancelled) == 0) {
                store<Scope::gpu>(&group.cancelled, static_cast<uint32_t>(Cancelled::asked));
            }
        }
        orders_ = latest;
        // An actor's tasks are not in the host's count, so an old report does not say whether they
        // have ended: wait() has this one made anew.
        if (load<Scope::gpu>(&s_.ingress->tail) != 0) {
            for (uint32_t g = lanes::id(); g < max_groups; g += lanes::size) {
                const uint64_t word = load<Scope::gpu>(&s_.groups[g].word);
                if (static_cast<uint32_t>(word) != 0) {
                    s_.groups[g].told = word;
                    store<Scope::system>(&c_.report[g].word, word);
                }
            }
        }
        lanes::sync();
        if (lanes::id() == 0) {
            // Release: partner of the host's acquire; the group may be used.
            store<Scope::system, Order::release>(&c_.group_seen, latest);
        }
        return true;
    }

    // Tells of groups that have come to an end, and cancels those that are late.
    DENIZEN_HD bool groups()
    {
        bool news = false;
        for (uint32_t g = lanes::id(); g < max_groups; g += lanes::size) {
            Group& group = s_.groups[g];
            // Acquire: partner of the release by which a worker gives tokens back. What the tasks
            // have done is seen by whoever acquires the report.
            const uint64_t word = load<Scope::gpu, Order::acquire>(&group.word);
            uint32_t cancelled = load<Scope::gpu>(&group.cancelled);
            const uint64_t deadline = load<Scope::gpu>(&group.deadline);
            const bool ended = static_cast<uint32_t>(word) == 0;
            if (deadline != 0 && cancelled == 0 && !ended && now_ns() > deadline) {
                cancelled = static_cast<uint32_t>(Cancelled::late);
                store<Scope::gpu>(&group.cancelled, cancelled);
            }
            if (ended && word != group.told) {
                group.told = word;
                store<Scope::system>(&c_.report[g].dropped, load<Scope::gpu>(&group.dropped));
                store<Scope::system>(&c_.report[g].cancelled, cancelled);
                // Release: partner of the host's acquire in wait().
                store<Scope::system, Order::release>(&c_.report[g].word, word);
                news = true;
            }
        }
        return lanes::ballot(news) != 0;
    }

    // Heartbeat, commands and the breath; true when everybody has left.
    DENIZEN_HD bool command()
    {
        uint32_t wanted = 0;
        if (lanes::id() == 0) {
            wanted = load<Scope::system>(&c_.command);
#if DENIZEN_ON_DEVICE
            const uint32_t beat = load<Scope::system>(&c_.heartbeat);
            const uint32_t launching = load<Scope::system>(&c_.launching);
            const uint64_t now = now_ns();
            end_.see(now, launching == s_.incarnation + 1);
            if (beat != beat_) {
                beat_ = beat;
                beat_at_ = now;
            } else if (s_.breath.ns == 0 && now - beat_at_ > s_.host_timeout_ns) {
                reason_ = Leave::host_lost;
                wanted = static_cast<uint32_t>(Command::stop);
            }
            if (wanted == static_cast<uint32_t>(Command::kill)) {
                __trap(); // the only way out of a task that never returns; it ends the context too
            }
#endif
            if (wanted != static_cast<uint32_t>(Command::run)) {
                leaving_ = true;
                reason_ = reason_ != Leave::none                           ? reason_
                          : wanted == static_cast<uint32_t>(Command::stop) ? Leave::stopped
                                                                           : Leave::idle;
            }
            if (leaving_) { // no way back: some may have left
                wanted = wanted == static_cast<uint32_t>(Command::run)
                             ? static_cast<uint32_t>(Command::leave)
                             : wanted;
                store<Scope::gpu>(&s_.board->command, wanted);
            }
        }
        wanted = lanes::shuffle(wanted, 0);
        if (wanted == static_cast<uint32_t>(Command::run)) {
            return breath_is_over();
        }
        wake_all();
        // Acquire: partner of the workers' release; what they had is in memory.
        const uint32_t left = load<Scope::gpu, Order::acquire>(&s_.board->left);
        if (lanes::shuffle(left, 0) != s_.workers) {
            return false;
        }
        groups(); // their last words
        lanes::sync();
        if (lanes::id() == 0) {
            store<Scope::gpu>(&s_.board->left, 0u);
            store<Scope::gpu>(&s_.board->left_for_good, 1u); // before the next one in the stream
            s_.board->breath.went_ns = 0;
            store<Scope::system>(&c_.leave, static_cast<uint32_t>(reason_));
            store<Scope::system>(&c_.ended, s_.incarnation);
#if DENIZEN_ON_DEVICE
            __threadfence_system();
#endif
            // Release: partner of the host's acquire.
            store<Scope::system, Order::release>(&c_.mode, static_cast<uint32_t>(Mode::left));
        }
        return true;
    }

    // The program goes on in the next incarnation.
    DENIZEN_HD bool breath_is_over()
    {
#if DENIZEN_ON_DEVICE
        const uint32_t ending = end_.bits(now_ns(), c_.handovers);
        if (ending == 0) {
            return false;
        }
        if (lanes::id() == 0 && load<Scope::gpu>(&s_.board->command) != ending) {
            // Release: partner of the acquire in acknowledge().
            store<Scope::gpu, Order::release>(&s_.board->command, ending);
        }
        lanes::sync();
        if (end_.over(ending)) {
            if (lanes::id() == 0) {
                store<Scope::system>(&c_.ended, s_.incarnation); // the keeper counts by it
            }
            return true;
        }
#endif
        return false;
    }

    DENIZEN_HD void wake() const
    {
#if DENIZEN_HOSTED && !DENIZEN_ON_DEVICE
        ring_bell(&s_.board->bell, &s_.board->sleeping);
#endif
    }
    DENIZEN_HD void wake_all() const { wake(); }

    DENIZEN_HD void nap([[maybe_unused]] uint32_t idle) const
    {
#if DENIZEN_ON_DEVICE
        __nanosleep(idle < 1000 ? 100 : 1000);
#elif DENIZEN_HOSTED
        if (idle < 16) {
            sched_yield();
            return;
        }
        // Ends by the bell of the host or of a worker that gave back the last token; the time-out
        // is for deadlines.
        sleep_on_bell(&s_.board->monitor_bell, &s_.board->monitor_sleeping, 2'000'000, [this] {
            uint32_t word[12];
            bool some = read<false>(head_, word) || read<true>(ingress_head_, word) ||
                        load<Scope::system>(&c_.command) != 0 ||
                        load<Scope::system>(&c_.group_orders) != orders_;
            for (uint32_t g = 0; g < max_groups; ++g) {
                const uint64_t now = load<Scope::gpu>(&s_.groups[g].word);
                some = some || (static_cast<uint32_t>(now) == 0 && now != s_.groups[g].told);
            }
            return some;
        });
#endif
    }

    const Shared& s_;
    Control& c_;
    uint32_t head_;
    uint32_t ingress_head_;
    uint32_t orders_ = 0;
    uint32_t beat_;
    uint64_t beat_at_;
    bool leaving_ = false; // lane 0's, as the next
    Leave reason_ = Leave::none;
    denizen::detail::BreathEnd end_;
};

} // namespace denizen::task

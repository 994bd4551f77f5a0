// SPDX-License-Identifier: Apache-2.0
// The actors of a stream of events. A Case puts the events of its case in order, follows its path
// and counts each step in the graph that all share; a Clerk empties that graph and copies what the
// host asks for. stream.py defines the messages, and before this text `waiting_slots`.
#include <denizen/procmine/counts.hpp>
#include <denizen/procmine/packed.hpp>

struct Case {
    CaseReport seen{};
    denizen::procmine::Moment waiting[waiting_slots];
    uint32_t count = 0;        // of those that wait, in order of time
    uint64_t* graph = nullptr; // the host keeps this buffer for as long as the program runs

    void on(const Begin& message, auto& ctx)
    {
        graph = ctx.template data<uint64_t>(message.graph).data;
    }

    void on(const Happened& message, auto& ctx)
    {
        denizen::procmine::Counts counts(graph, ctx.worker());
        const uint32_t n = denizen::procmine::packed::count(message.words);
        const bool at_once = (message.words[8] & denizen::procmine::packed::at_once) != 0;
        const int64_t bound = denizen::procmine::packed::base(message.words);
        for (uint32_t i = 0; i < n; ++i) {
            const auto event = denizen::procmine::packed::event(message.words, i);
            if (seen.events != 0 && event.time < seen.last) {
                seen.late += 1; // a later one has gone already
            } else if (at_once) {
                release(event, counts);
            } else {
                wait(event, bound, counts);
            }
        }
        if (at_once) return;
        uint32_t ripe = 0;
        while (ripe < count && waiting[ripe].time <= bound) ++ripe;
        release_first(ripe, counts);
    }

    // The stream is over.
    void on(const Finish&, auto& ctx)
    {
        denizen::procmine::Counts counts(graph, ctx.worker());
        release_first(count, counts);
        if (seen.events != 0) counts.end(seen.last_activity);
    }

    void on(const AskCase&, auto& ctx)
    {
        seen.waiting = count;
        ctx.reply(seen);
    }

private:
    // Lets an event go: it counts, and nothing may come before it any more.
    void release(const denizen::procmine::Moment& event, denizen::procmine::Counts& counts)
    {
        if (seen.events == 0) {
            counts.start(event.activity);
            seen.first = event.time;
        } else {
            counts.step(seen.last_activity, event.activity,
                        static_cast<uint64_t>(event.time) - static_cast<uint64_t>(seen.last));
        }
        seen.hash += denizen::procmine::path_term(event.activity, seen.events);
        seen.last = event.time;
        seen.last_activity = event.activity;
        seen.events += 1;
    }

    void release_first(uint32_t n, denizen::procmine::Counts& counts)
    {
        for (uint32_t i = 0; i < n; ++i) release(waiting[i], counts);
        for (uint32_t i = n; i < count; ++i) waiting[i - n] = waiting[i];
        count -= n;
    }

    void wait(const denizen::procmine::Moment& event, int64_t bound,
              denizen::procmine::Counts& counts)
    {
        if (count == waiting_slots) {
            seen.pushed_out += waiting[0].time > bound ? 1u : 0u;
            release_first(1, counts);
            if (event.time < seen.last) {
                seen.late += 1;
                return;
            }
        }
        uint32_t at = count++;
        for (; at != 0 && event.time < waiting[at - 1].time; --at) waiting[at] = waiting[at - 1];
        waiting[at] = event;
    }
};

// Works on a range of words of the graph, with the whole warp.
struct Clerk {
    static constexpr auto grain = denizen::Grain::warp;

    void on(const Clear& message, auto& ctx)
    {
        const auto words = ctx.template data<uint64_t>(message.graph);
        for (uint64_t i = ctx.lane(); i < message.count; i += ctx.lanes()) {
            denizen::store<denizen::Scope::gpu>(words.data + message.first + i, uint64_t{0});
        }
        ctx.reply(Done{});
    }

    void on(const Set& message, auto& ctx)
    {
        const auto words = ctx.template data<uint64_t>(message.graph);
        if (ctx.lane() == 0) {
            for (uint32_t i = 0; i < 3; ++i) words.data[i] = message.words[i];
        }
        ctx.reply(Done{});
    }

    void on(const Copy& message, auto& ctx)
    {
        const auto words = ctx.template data<uint64_t>(message.graph);
        const auto to = ctx.template data<uint64_t>(message.to);
        for (uint64_t i = ctx.lane(); i < message.count; i += ctx.lanes()) {
            to.data[message.at + i] =
                denizen::load<denizen::Scope::gpu>(words.data + message.first + i);
        }
        ctx.reply(Done{});
    }
};

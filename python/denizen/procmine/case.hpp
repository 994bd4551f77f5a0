// SPDX-License-Identifier: Apache-2.0
// The actors of a stream of events. A Case puts the events of its case in order, follows its path
// and tells each step to an Activity, which counts steps and their durations. stream.py defines the
// messages, and before this text `activity_count` and `waiting_slots`. Every sum is an integer, so
// that no result depends on which worker was faster.
#include <denizen/procmine/text.hpp>

inline constexpr uint32_t no_activity = 0xffffffffu;

struct Waiting {
    int64_t time;
    uint32_t activity;
    uint32_t address; // of the activity's actor
};

struct Case {
    CaseReport seen{};
    Waiting waiting[waiting_slots];
    uint32_t count = 0; // of those that wait, in order of time
    uint32_t address = 0;

    // Lets an event that is older than the stream's bound go: nothing may come before it any more.
    void release(const Waiting& event, auto& ctx)
    {
        const uint32_t from = seen.events == 0 ? no_activity : seen.last_activity;
        const auto duration = static_cast<uint64_t>(event.time - seen.last);
        ctx.send(denizen::Address{event.address},
                 Step{seen.events == 0 ? uint64_t{0} : duration, from});
        if (seen.events == 0) seen.first = event.time;
        seen.hash += denizen::procmine::path_term(event.activity, seen.events);
        seen.last = event.time;
        seen.last_activity = event.activity;
        address = event.address;
        seen.events += 1;
    }

    void release_first(uint32_t n, auto& ctx)
    {
        for (uint32_t i = 0; i < n; ++i) release(waiting[i], ctx);
        for (uint32_t i = n; i < count; ++i) waiting[i - n] = waiting[i];
        count -= n;
    }

    void on(const Happened& message, auto& ctx)
    {
        const Waiting event{message.time, message.activity, message.address};
        if (seen.events != 0 && event.time < seen.last) {
            seen.late += 1; // a later one has gone already
            return;
        }
        if (count == waiting_slots) {
            seen.pushed_out += waiting[0].time > message.bound ? 1u : 0u;
            release_first(1, ctx);
            if (event.time < seen.last) {
                seen.late += 1;
                return;
            }
        }
        uint32_t at = count++;
        for (; at != 0 && event.time < waiting[at - 1].time; --at) waiting[at] = waiting[at - 1];
        waiting[at] = event;
        uint32_t ripe = 0;
        while (ripe < count && waiting[ripe].time <= message.bound) ++ripe;
        release_first(ripe, ctx);
    }

    // The stream is over.
    void on(const Finish&, auto& ctx)
    {
        release_first(count, ctx);
        if (seen.events != 0) ctx.send(denizen::Address{address}, End{});
    }

    void on(const AskCase&, auto& ctx)
    {
        seen.waiting = count;
        ctx.reply(seen);
    }
};

struct Durations {
    uint64_t count = 0;
    denizen::procmine::Sum sum;
    uint64_t least = ~uint64_t{0};
    uint64_t most = 0;
    uint32_t histogram[denizen::procmine::buckets]{};

    void add(uint64_t duration)
    {
        ++count;
        sum.add(duration);
        least = duration < least ? duration : least;
        most = duration > most ? duration : most;
        ++histogram[denizen::procmine::bucket_of(duration)];
    }
};

struct Activity {
    Durations from[activity_count];
    uint64_t starts = 0;
    uint64_t ends = 0;

    void on(const Step& step, auto&)
    {
        if (step.before == no_activity) {
            ++starts;
        } else {
            from[step.before].add(step.duration);
        }
    }

    void on(const End&, auto&) { ++ends; }

    void on(const AskEdge& ask, auto& ctx)
    {
        const Durations& edge = from[ask.before];
        ctx.reply(EdgeReport{edge.count, edge.sum.high, edge.sum.low, edge.least, edge.most});
    }

    // Eight buckets of an edge at a time.
    void on(const AskHistogram& ask, auto& ctx)
    {
        Buckets part{};
        for (uint32_t i = 0; i < 8; ++i) part.counts[i] = from[ask.before].histogram[ask.first + i];
        ctx.reply(part);
    }

    void on(const AskEnds&, auto& ctx) { ctx.reply(Ends{starts, ends}); }
};

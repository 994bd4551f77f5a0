// SPDX-License-Identifier: Apache-2.0
// What the tests of collectives in handlers and tasks share: a call as data, who makes it, and what
// must come out. Each file has handlers or tasks, and some of the element types, for each of these
// takes seconds to compile for a GPU. Together they have all.
#pragma once

#define DENIZEN_GROUP_INSIDE_ONLY // their groups launch nothing

#include "group/calls.hpp"
#include "support/scaled.hpp"
#include "task/tasks.hpp"

#include <denizen/actor/runtime.hpp>
#include <denizen/group/group.hpp>
#include <denizen/group/inside.hpp>
#include <denizen/task/runtime.hpp>

#include <deque>
#include <optional>
#include <type_traits>

namespace denizen::test {

using group::Algorithm;
using group::Kind;
using group::Op;

// What one handler is to call, in memory that it and the host reach.
struct Job {
    const GroupRef* group;
    Kind kind;
    group::Type type;
    Op op;
    uint32_t root;
    uint32_t channel;
    uint32_t channels;
    uint32_t times; // the same call, one behind the other
    uint64_t count;
    const void* in;
    void* out;
    uint32_t done; // 0, or what came of it
};
constexpr uint32_t good = 1;
constexpr uint32_t refused = 2;

// Of f32 and f64 by the function of each kind; the others by one for all, which compiles sooner.
template <class T, class Inside>
DENIZEN_HD inline bool make_call(Inside& inside, const Job& job)
{
    const auto* const in = static_cast<const T*>(job.in);
    auto* const out = static_cast<T*>(job.out);
    if constexpr (!std::is_same_v<T, float> && !std::is_same_v<T, double>) {
        return inside.call(job.kind, in, out, job.count, job.op, job.root);
    } else {
        switch (job.kind) {
        case Kind::all_reduce: return inside.all_reduce(in, out, job.count, job.op);
        case Kind::reduce_scatter: return inside.reduce_scatter(in, out, job.count, job.op);
        case Kind::all_gather: return inside.all_gather(in, out, job.count);
        case Kind::broadcast: return inside.broadcast(in, out, job.count, job.root);
        case Kind::all_to_all: return inside.all_to_all(in, out, job.count);
        default: return false;
        }
    }
}

// Out of line, since a runtime expands its handlers at several places.
template <auto G, class T>
DENIZEN_HD DENIZEN_APART inline void do_job(Job& job, uint32_t lane)
{
    bool fine = true;
    for (uint32_t i = 0; fine && i < job.times; ++i) {
        group::Inside<G> inside(*job.group, job.channel, job.channels); // each keeps the turn
        fine = make_call<T>(inside, job) && inside.barrier();
    }
    if (lane == 0) store<Scope::system, Order::release>(&job.done, fine ? good : refused);
}

// The element types that a test has.
template <class... Ts>
struct Elements {
    static constexpr group::Type all[sizeof...(Ts)] = {group::Narrow<Ts>::type...};
    template <auto G>
    DENIZEN_HD static void call(Job& job, uint32_t lane)
    {
        const group::Type type = job.type; // a job that is done belongs to who waits for it
        ((type == group::Narrow<Ts>::type ? do_job<G, Ts>(job, lane) : void()), ...);
    }
};

struct Do {
    uint64_t job;
};
template <Grain G, class Types>
struct Rank {
    static constexpr auto grain = G;
    DENIZEN_HD void on(const Do& m, auto& ctx)
    {
        Types::template call<G>(*reinterpret_cast<Job*>(m.job), ctx.lane());
    }
};
template <Grain G, class Types>
using Handlers = Program<Actors<Rank<G, Types>>, Messages<Do>>;

template <task::Grain G, class Types>
struct Share {
    static constexpr auto grain = G;
    Job* job;
    DENIZEN_HD void run(auto& ctx) const { Types::template call<G>(*job, ctx.lane()); }
};
template <task::Grain G, class Types>
using Shares = task::Program<Share<G, Types>>;

inline std::vector<Place> places_of_ranks()
{
    return {
        {"cpu2x1", Device::cpu(), 2, false, 1}, {"cpu2x2", Device::cpu(), 2, false, 2},
        {"cpu2x3", Device::cpu(), 2, false, 3},
#if defined(__CUDACC__)
        {"gpu4x1", Device::gpu(), 4, true, 1},  {"gpu4x2", Device::gpu(), 4, true, 2},
#endif
    };
}

class InsideAtEveryPlace : public AtEveryPlace {
protected:
    static constexpr uint32_t channels = 2;
    static constexpr uint64_t large = 6001; // bytes: some turns of any algorithm

    static uint32_t ranks() { return GetParam().nodes; }

    // `algorithm` is what automatic means.
    void start(Algorithm algorithm, std::chrono::nanoseconds limit = 60s)
    {
        GroupOptions o;
        o.channels = channels;
        o.slots = 32;
        o.stage_bytes = 4096;
        o.renew = 20;
        o.timeout = limit;
        o.table = {{0, algorithm, 1}};
        groups = Group::local(ranks(), device(), o);
        jobs.emplace(on_gpu(), ranks() * channels);
        while (in.size() < ranks()) {
            in.emplace_back(on_gpu(), (large + 8) * ranks());
            out.emplace_back(on_gpu(), (large + 8) * ranks());
        }
    }

    // The jobs of one call, one for each rank and channel. `shifted`: arrays begin at the second
    // element.
    void order(const group::Call& call, uint32_t shared_by, uint32_t times, bool shifted = false)
    {
        shift = shifted ? size_of(call.type) : 0;
        given.clear();
        for (uint32_t r = 0; r < ranks(); ++r) {
            given.push_back(
                input(call.type, r, in_elements(call.kind, call.count, ranks()), ++seed));
            std::copy(given[r].begin(), given[r].end(), in[r].data() + shift);
            std::fill_n(out[r].data(), out[r].size(), uint8_t{0});
            for (uint32_t c = 0; c < shared_by; ++c) {
                job(r, c) = {groups[r].address(),
                             call.kind,
                             call.type,
                             call.op,
                             call.root,
                             c,
                             shared_by,
                             times,
                             call.count,
                             in[r].data() + shift,
                             out[r].data() + shift,
                             0};
            }
        }
    }
    Job& job(uint32_t rank, uint32_t channel) { return (*jobs)[rank * channels + channel]; }
    uint32_t outcome(uint32_t rank, uint32_t channel)
    {
        EXPECT_TRUE(eventually(
            [&] { return load<Scope::system, Order::acquire>(&job(rank, channel).done) != 0; }));
        return job(rank, channel).done;
    }

    void check(const group::Call& call, uint32_t shared_by)
    {
        for (uint32_t r = 0; r < ranks(); ++r) {
            for (uint32_t c = 0; c < shared_by; ++c) ASSERT_EQ(outcome(r, c), good);
            group::Bytes wanted(out[r].size(), 0); // nothing beside it is written
            const group::Bytes result = expected(call, given, r);
            std::copy(result.begin(), result.end(),
                      wanted.begin() + static_cast<std::ptrdiff_t>(shift));
            const group::Bytes got(out[r].data(), out[r].data() + out[r].size());
            ASSERT_EQ(got, wanted) << describe(call, ranks()) << " rank " << r;
        }
    }

    // All kinds that have `algorithm`, each with every type and operation, with counts of one turn
    // and of several, and with nothing.
    template <class Types, class Use>
    void each_call(Algorithm algorithm, const Use& use)
    {
        for (group::Call call : group::all_calls()) {
            if (call.algorithm != algorithm) continue;
            for (const group::Type type : Types::all) {
                call.type = type;
                for (uint32_t op = 0; op < group::ops; ++op, ++turn) {
                    if (turn % few_under_tsan(5, 1) != 0) continue;
                    call.op = static_cast<Op>(op);
                    call.root = turn % ranks();
                    call.count = (turn + turn / group::ops) % 2 == 0 ? 100 : large / size_of(type);
                    use(call, turn % 3 == 0);
                    if (testing::Test::HasFatalFailure()) return;
                }
            }
            call.count = 0;
            use(call, false);
            if (testing::Test::HasFatalFailure()) return;
        }
    }

    std::vector<Group> groups; // before the program: it starts with kernels of its own
    std::optional<Array<Job>> jobs;
    std::deque<Array<uint8_t>> in, out;
    std::vector<group::Bytes> given; // what `in` holds
    uint64_t shift = 0;              // bytes
    uint32_t seed = 0;
    uint32_t turn = 0; // numbers the calls
};

template <Grain G, class Types>
class InsideHandlers : public InsideAtEveryPlace {
protected:
    // `count` handlers of a rank, each on a worker of its own.
    static std::vector<Address> on_workers(Runtime<Handlers<G, Types>>& rt, uint32_t node,
                                           uint32_t count)
    {
        std::vector<Address> found;
        for (uint32_t tries = 0; found.size() < count && tries < 64; ++tries) {
            const Address a = rt.template spawn<Rank<G, Types>>(1, on_node(node))[0];
            bool other = a.node() == node;
            for (const Address b : found) other = other && a.worker() != b.worker();
            if (other) found.push_back(a);
        }
        EXPECT_EQ(found.size(), count);
        return found;
    }

    // By one handler of each rank, and by several that share the work.
    void handlers_call()
    {
        for (const Algorithm algorithm : group::every_algorithm) {
            SCOPED_TRACE(to_string(algorithm));
            start(algorithm);
            Runtime<Handlers<G, Types>> rt(device(), options());
            std::vector<std::vector<Address>> of;
            for (uint32_t r = 0; r < ranks(); ++r) of.push_back(on_workers(rt, r, channels));
            each_call<Types>(algorithm, [&](const group::Call& call, bool shifted) {
                const uint32_t shared_by = 1 + turn / 2 % channels;
                order(call, shared_by, 2, shifted);
                for (uint32_t r = 0; r < ranks(); ++r) {
                    for (uint32_t c = 0; c < shared_by; ++c) {
                        rt.send(of[r][c], Do{reinterpret_cast<uint64_t>(&job(r, c))});
                    }
                }
                check(call, shared_by);
            });
            rt.close();
            if (testing::Test::HasFatalFailure()) return;
        }
    }
};

template <task::Grain G, class Types>
class InsideTasks : public InsideAtEveryPlace {
protected:
    void tasks_call()
    {
        task::Options o;
        o.workers = o.sms = 1;
        for (const Algorithm algorithm : group::every_algorithm) {
            SCOPED_TRACE(to_string(algorithm));
            start(algorithm);
            std::deque<task::Runtime<Shares<G, Types>>> of;
            for (uint32_t r = 0; r < ranks(); ++r) {
                of.emplace_back(on_gpu() ? Device::gpu(static_cast<int>(r)) : Device::cpu(), o);
            }
            each_call<Types>(algorithm, [&](const group::Call& call, bool shifted) {
                order(call, 1, 3, shifted);
                for (uint32_t r = 0; r < ranks(); ++r) of[r].spawn(Share<G, Types>{&job(r, 0)});
                check(call, 1);
            });
            if (testing::Test::HasFatalFailure()) return;
        }
    }
};

} // namespace denizen::test

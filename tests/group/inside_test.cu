// SPDX-License-Identifier: Apache-2.0
// Collectives that handlers and tasks of resident programs call, bit by bit: all kinds by all
// algorithms, of a thread and of a warp, on several channels, and what does not agree.
#include "group/calls.hpp"
#include "task/tasks.hpp"

#include <denizen/actor/runtime.hpp>
#include <denizen/group/group.hpp>
#include <denizen/group/inside.hpp>
#include <denizen/task/runtime.hpp>

#include <deque>

namespace {

using namespace denizen;
using namespace denizen::test;
using group::Algorithm;
using group::Kind;
using group::Op;

// What one handler is to call, in memory that it and the host reach.
struct Job {
    const GroupRef* group;
    Kind kind;
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

template <auto G, class T>
DENIZEN_HD inline void do_job(Job& job, uint32_t lane)
{
    bool fine = true;
    const auto* const in = static_cast<const T*>(job.in);
    auto* const out = static_cast<T*>(job.out);
    for (uint32_t i = 0; i < job.times; ++i) {
        group::Inside<G> inside(*job.group, job.channel, job.channels); // each keeps the turn
        switch (job.kind) {
        case Kind::all_reduce: fine = inside.all_reduce(in, out, job.count, job.op); break;
        case Kind::reduce_scatter: fine = inside.reduce_scatter(in, out, job.count, job.op); break;
        case Kind::all_gather: fine = inside.all_gather(in, out, job.count); break;
        case Kind::broadcast: fine = inside.broadcast(in, out, job.count, job.root); break;
        case Kind::all_to_all: fine = inside.all_to_all(in, out, job.count); break;
        default: fine = true;
        }
        fine = fine && inside.barrier();
        if (!fine) break;
    }
    if (lane == 0) store<Scope::system, Order::release>(&job.done, fine ? good : refused);
}

struct Do {
    uint64_t job;
};
template <Grain G>
struct Rank {
    static constexpr auto grain = G;
    DENIZEN_HD void on(const Do& m, auto& ctx)
    {
        do_job<G, float>(*reinterpret_cast<Job*>(m.job), ctx.lane());
    }
};
using OfThread = Rank<Grain::thread>;
using OfWarp = Rank<Grain::warp>;
using Handlers = Program<Actors<OfThread, OfWarp>, Messages<Do>>;

template <task::Grain G>
struct Share {
    static constexpr auto grain = G;
    Job* job;
    DENIZEN_HD void run(auto& ctx) const { do_job<G, int64_t>(*job, ctx.lane()); }
};
using Tasks = task::Program<Share<task::Grain::thread>, Share<task::Grain::warp>>;

class inside : public AtEveryPlace {
protected:
    static constexpr uint32_t most = 5000; // elements of an array
    static constexpr uint32_t channels = 2;

    static uint32_t ranks() { return GetParam().nodes; }

    // `algorithm` is what automatic means.
    void start(Algorithm algorithm, group::Type type, std::chrono::nanoseconds limit = 60s)
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
        size = size_of(type);
        for (uint32_t r = 0; r < ranks(); ++r) {
            in.emplace_back(on_gpu(), most * size);
            out.emplace_back(on_gpu(), most * size);
            const group::Bytes bytes = group::input(type, r, most, 7);
            std::copy(bytes.begin(), bytes.end(), in[r].data());
            given.push_back(bytes);
        }
    }

    // The jobs of one call, one for each rank and channel.
    void order(const group::Call& call, uint32_t shared_by, uint32_t times)
    {
        for (uint32_t r = 0; r < ranks(); ++r) {
            std::fill_n(out[r].data(), out[r].size(), uint8_t{0});
            for (uint32_t c = 0; c < shared_by; ++c) {
                job(r, c) = {groups[r].address(),
                             call.kind,
                             call.op,
                             call.root,
                             c,
                             shared_by,
                             times,
                             call.count,
                             in[r].data(),
                             out[r].data(),
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
        std::vector<group::Bytes> parts;
        for (const group::Bytes& all : given) {
            parts.emplace_back(
                all.begin(), all.begin() + static_cast<std::ptrdiff_t>(
                                               size * in_elements(call.kind, call.count, ranks())));
        }
        for (uint32_t r = 0; r < ranks(); ++r) {
            for (uint32_t c = 0; c < shared_by; ++c) ASSERT_EQ(outcome(r, c), good);
            const group::Bytes wanted = expected(call, parts, r);
            const group::Bytes got(out[r].data(), out[r].data() + wanted.size());
            ASSERT_EQ(got, wanted) << describe(call, ranks()) << " rank " << r;
        }
    }

    // All kinds that have `algorithm`, with counts of one turn and of several.
    template <class Use>
    void each_call(Algorithm algorithm, group::Type type, const Use& use)
    {
        uint32_t turn = 0;
        for (group::Call call : group::all_calls()) {
            if (call.algorithm != algorithm) continue;
            for (const uint64_t count : {0u, 1u, 100u, 1500u}) {
                call.type = type;
                call.op = static_cast<Op>(turn % group::ops);
                call.root = turn % ranks();
                call.count = count;
                ++turn;
                use(call);
            }
        }
    }

    std::vector<Group> groups; // before the program: it starts with kernels of its own
    std::optional<Array<Job>> jobs;
    std::deque<Array<uint8_t>> in, out;
    std::vector<group::Bytes> given;
    uint32_t size = 0;
};
std::vector<Place> places_of_ranks()
{
    return {
        {"cpu2x2", Device::cpu(), 2, false, 2},
        {"cpu2x3", Device::cpu(), 2, false, 3},
#if defined(__CUDACC__)
        {"gpu4x2", Device::gpu(), 4, true, 2},
#endif
    };
}
DENIZEN_AT_PLACES(inside, places_of_ranks());

// Of two handlers for each rank, each on a worker of its own.
template <class R>
std::vector<Address> on_workers(Runtime<Handlers>& rt, uint32_t node, uint32_t count)
{
    std::vector<Address> found;
    for (uint32_t tries = 0; found.size() < count && tries < 64; ++tries) {
        const Address a = rt.spawn<R>(1, on_node(node))[0];
        bool other = a.node() == node;
        for (const Address b : found) other = other && a.worker() != b.worker();
        if (other) found.push_back(a);
    }
    EXPECT_EQ(found.size(), count);
    return found;
}

TEST_P(inside, handlers_of_every_rank_call)
{
    for (const Algorithm algorithm : group::every_algorithm) {
        SCOPED_TRACE(to_string(algorithm));
        in.clear();
        out.clear();
        given.clear();
        start(algorithm, group::Type::f32);
        Runtime<Handlers> rt(device(), options());
        std::vector<std::vector<Address>> threads, warps;
        for (uint32_t r = 0; r < ranks(); ++r) {
            threads.push_back(on_workers<OfThread>(rt, r, 1));
            warps.push_back(on_workers<OfWarp>(rt, r, channels));
        }
        each_call(algorithm, group::Type::f32, [&](const group::Call& call) {
            for (const auto& ranks_of : {threads, warps}) {
                const auto shared_by = static_cast<uint32_t>(ranks_of[0].size());
                order(call, shared_by, 2);
                for (uint32_t r = 0; r < ranks(); ++r) {
                    for (uint32_t c = 0; c < shared_by; ++c) {
                        rt.send(ranks_of[r][c], Do{reinterpret_cast<uint64_t>(&job(r, c))});
                    }
                }
                check(call, shared_by);
            }
        });
        rt.close();
    }
}

TEST_P(inside, tasks_of_every_rank_call)
{
    start(Algorithm::one_shot, group::Type::i64);
    task::Options o;
    o.workers = o.sms = 1;
    std::deque<task::Runtime<Tasks>> of;
    for (uint32_t r = 0; r < ranks(); ++r) {
        of.emplace_back(on_gpu() ? Device::gpu(static_cast<int>(r)) : Device::cpu(), o);
    }
    each_call(Algorithm::one_shot, group::Type::i64, [&](const group::Call& call) {
        for (const bool by_warp : {false, true}) {
            order(call, 1, 3);
            for (uint32_t r = 0; r < ranks(); ++r) {
                if (by_warp) {
                    of[r].spawn(Share<task::Grain::warp>{&job(r, 0)});
                } else {
                    of[r].spawn(Share<task::Grain::thread>{&job(r, 0)});
                }
            }
            check(call, 1);
        }
    });
}

// The host is told why, by the group; a channel that is not there is none of a handler's.
TEST_P(inside, calls_that_do_not_agree_and_channels_that_are_not_there)
{
    start(Algorithm::one_shot, group::Type::f32);
    Runtime<Handlers> rt(device(), options());
    std::vector<Address> all;
    for (uint32_t r = 0; r < ranks(); ++r) all.push_back(on_workers<OfWarp>(rt, r, 1)[0]);
    const auto send_all = [&] {
        for (uint32_t r = 0; r < ranks(); ++r) {
            rt.send(all[r], Do{reinterpret_cast<uint64_t>(&job(r, 0))});
        }
    };
    group::Call call;
    call.kind = Kind::all_reduce;
    call.count = 10;
    for (const auto& [channel, of] : {std::pair{channels, channels + 1}, std::pair{1u, 1u}}) {
        order(call, 1, 1);
        for (uint32_t r = 0; r < ranks(); ++r) {
            job(r, 0).channel = channel;
            job(r, 0).channels = of;
        }
        send_all();
        for (uint32_t r = 0; r < ranks(); ++r) EXPECT_EQ(outcome(r, 0), refused);
        groups[0].wait(); // nothing is wrong with the group
    }
    order(call, 1, 1);
    job(1, 0).count = 11;
    send_all();
    for (uint32_t r = 0; r < ranks(); ++r) EXPECT_EQ(outcome(r, 0), refused);
    for (Group& g : groups) {
        expect_error_like(Errc::bad_argument,
                          "rank [0-9] called all_reduce of 1[01] f32, .*, but rank [0-9] called "
                          "all_reduce of 1[01] f32, .*",
                          [&] { g.wait(); });
    }
}

TEST_P(inside, a_rank_that_does_not_come_is_named)
{
    start(Algorithm::one_shot, group::Type::f32, 300ms);
    Runtime<Handlers> rt(device(), options());
    group::Call call;
    call.kind = Kind::all_gather;
    call.count = 10;
    order(call, 1, 1);
    rt.send(on_workers<OfWarp>(rt, 0, 1)[0], Do{reinterpret_cast<uint64_t>(&job(0, 0))});
    EXPECT_EQ(outcome(0, 0), refused);
    expect_error_like(Errc::peer_dead, "rank 0 waited 0.3 s for rank 1 in all_gather of 10 f32 .*",
                      [&] { groups[ranks() - 1].wait(); });
}

} // namespace

// SPDX-License-Identifier: Apache-2.0
// Transaction monitoring, all rules: a made stream of payments through a stage, from host memory
// and (GPU) from the device's own; the time from a payment's arrival to its alert at a fixed rate;
// beside them the same passes without the runtime, and the sequential reference. Every arm begins
// with an empty table and the same profiles; its alerts are compared with the reference's, byte by
// byte, outside the timed region.
#include "actor_program.hpp"
#include "rivals/transactions.hpp"

#include <denizen/actor/runtime.hpp>
#include <denizen/transactions/generate.hpp>
#include <denizen/transactions/reference.hpp>

#include <functional>

namespace {

using namespace denizen;
using namespace denizen::bench;
using denizen::transactions::Alert;
using denizen::transactions::Geometry;
using denizen::transactions::Stage;
using denizen::transactions::StageOptions;
using denizen::transactions::Transaction;
using Rt = Runtime<denizen::transactions::Monitoring>;

constexpr auto patience = std::chrono::seconds(10); // with a program that has nothing more to do

struct Input {
    tx::Made made;
    std::shared_ptr<Transaction> host; // pinned where there is a GPU
    std::shared_ptr<Transaction> device;
    std::vector<Alert> alerts; // the reference's
    double reference_seconds = 0;
    StageOptions options;
    uint64_t count = 0;
};

bool same(const std::vector<Alert>& found, const std::vector<Alert>& wanted)
{
    return found.size() == wanted.size() &&
           std::memcmp(found.data(), wanted.data(), wanted.size() * sizeof(Alert)) == 0;
}

Input input(const Arguments& arguments)
{
    Input in;
    in.count = arguments.gpu() ? (arguments.quick ? 4'000'000 : 16'000'000)
                               : (arguments.quick ? 500'000 : 2'000'000);
    tx::MakeOptions made;
    made.share = 0.01; // records of a case: some 0.6 % have an alert
    in.made = tx::make(in.count, made);
    in.options.horizon = 1 << 20;
    in.options.batch = 1 << 13; // what suits the CPU's caches
    tx::Reference reference{tx::Rules{}};
    for (const auto& p : in.made.profiles) reference.put(p);
    const uint64_t begin = now_ns();
    for (const Transaction& t : in.made.records) reference.feed(t, in.alerts);
    in.reference_seconds = static_cast<double>(now_ns() - begin) * 1e-9;
    const uint64_t bytes = in.count * sizeof(Transaction);
#if defined(__CUDACC__)
    if (arguments.gpu()) {
        void* p = nullptr;
        cuda_ok(cudaHostAlloc(&p, bytes, cudaHostAllocPortable));
        in.host = {static_cast<Transaction*>(p), [](void* q) { cudaFreeHost(q); }};
        std::memcpy(p, in.made.records.data(), bytes);
        cuda_ok(cudaMalloc(&p, bytes));
        in.device = {static_cast<Transaction*>(p), [](void* q) { cudaFree(q); }};
        cuda_ok(cudaMemcpy(p, in.host.get(), bytes, cudaMemcpyHostToDevice));
    }
#endif
    if (!in.host) {
        in.host = {static_cast<Transaction*>(std::aligned_alloc(128, bytes)), std::free};
        std::memcpy(static_cast<void*>(in.host.get()), in.made.records.data(), bytes);
    }
    in.made.records = {}; // one copy is enough
    return in;
}

Options options_of(const Arguments& arguments, const StageOptions& stage, uint32_t warps)
{
    Options o = options_of(arguments);
    if (arguments.gpu()) {
        o.workers = warps;
        o.sms = static_cast<uint32_t>(gpu::device_info(arguments.device.ordinal).sm_count);
        o.prefer_l1 = true;
        o.egress_slots = 1 << 18;
        o.pool_bytes = 256u << 20;
        o.pool_bytes += uint64_t{stage.depth + 2} * stage.batch * 512;
    }
    return o;
}

// Records of a batch where many are to be had: the larger the fewer gates, across the bus the
// longer until the first can be looked at.
constexpr uint32_t batch_of(bool resident) { return resident ? 2'000'000 : 1 << 18; }

// Millions a second, from the first record handed over to the last alert received.
double stream(const Arguments& arguments, const Input& in, StageOptions options, uint32_t warps,
              bool resident, bool& right)
{
    if (resident) options.copy_records = tx::CopyRecords::never;
    Rt rt(arguments.device, options_of(arguments, options, warps));
    std::vector<Alert> found(in.alerts.size()); // so that its pages are there
    found.clear();
    std::vector<Alert> some;
    const auto keep = [&](const std::vector<Alert>& more) {
        found.insert(found.end(), more.begin(), more.end());
    };
    double seconds = 0;
    {
        Stage stage(rt.untyped(), options);
        stage.put(in.made.profiles.data(), in.made.profiles.size());
        const auto memory = resident ? in.device : in.host;
        const Buffer records = rt.wrap(memory.get(), in.count * sizeof(Transaction), memory);
        const uint64_t begin = now_ns();
        for (uint64_t at = 0; at < in.count; at += options.batch) {
            stage.feed(records, static_cast<uint32_t>(at),
                       static_cast<uint32_t>(std::min<uint64_t>(options.batch, in.count - at)));
            stage.take(some);
            keep(some);
        }
        // Beside a GPU the host has a core to itself, and can take alerts as they come. Ends by the
        // clock; then drain() says what is stuck.
        while (arguments.gpu() && stage.done() < in.count && now_ns() - begin < 10'000'000'000) {
            stage.take(some);
            keep(some);
        }
        keep(stage.drain());
        seconds = static_cast<double>(now_ns() - begin) * 1e-9;
    }
    rt.close(patience); // says who is stuck, where the destructor could not throw
    right &= same(found, in.alerts);
    return static_cast<double>(in.count) / seconds * 1e-6;
}

// Microseconds from when each record with an alert is due, at `rate` a second, to its alert's
// arrival. Whatever has come due meanwhile goes into the next batch.
void pace(const Arguments& arguments, const Input& in, uint32_t warps, double rate, double seconds,
          Samples& samples, bool& right)
{
    StageOptions options = in.options;
    options.batch = 1 << 14;
    Rt rt(arguments.device, options_of(arguments, options, warps));
    auto stage = std::make_unique<Stage>(rt.untyped(), options);
    stage->put(in.made.profiles.data(), in.made.profiles.size());
    const Buffer records = rt.wrap(in.host.get(), in.count * sizeof(Transaction), in.host);
    const auto count = std::min<uint64_t>(in.count, static_cast<uint64_t>(rate * seconds));
    std::vector<Alert> found;
    const uint64_t begin = now_ns();
    uint64_t fed = 0;
    while (stage->done() < count) { // ends: each record comes due, and the stage has a deadline
        const double now = static_cast<double>(now_ns() - begin) * 1e-9;
        const auto due = std::min(count, static_cast<uint64_t>(now * rate));
        // One batch at a time: what came due meanwhile waits, and goes together.
        if (due > fed && stage->done() == fed) {
            const auto n = static_cast<uint32_t>(std::min<uint64_t>(due - fed, options.batch));
            stage->feed(records, static_cast<uint32_t>(fed), n);
            fed += n;
        }
        for (const Alert& alert : stage->take()) {
            const double at = static_cast<double>(now_ns() - begin) * 1e-3;
            samples.add(at - static_cast<double>(alert.sequence) / rate * 1e6);
            found.push_back(alert);
        }
    }
    stage.reset();
    rt.close(patience);
    std::vector<Alert> wanted;
    for (const Alert& a : in.alerts) {
        if (a.sequence < count) wanted.push_back(a);
    }
    right &= same(found, wanted);
}

struct Arm {
    Case result;
    std::function<double(bool&)> run;
    Samples samples;
};

#if defined(__CUDACC__)
// Bytes a second, read and written, of a copy within the device.
double copy_bandwidth(const Input& in)
{
    const uint64_t bytes = in.count * sizeof(Transaction);
    const OnDevice to(bytes);
    cudaEvent_t from_here = nullptr;
    cudaEvent_t to_here = nullptr;
    cuda_ok(cudaEventCreate(&from_here));
    cuda_ok(cudaEventCreate(&to_here));
    float best = 1e9f;
    for (int k = 0; k < 5; ++k) {
        cuda_ok(cudaEventRecord(from_here));
        cuda_ok(cudaMemcpyAsync(to.p, in.device.get(), bytes, cudaMemcpyDeviceToDevice));
        cuda_ok(cudaEventRecord(to_here));
        cuda_ok(cudaEventSynchronize(to_here));
        float ms = 0;
        cuda_ok(cudaEventElapsedTime(&ms, from_here, to_here));
        best = std::min(best, ms);
    }
    cudaEventDestroy(from_here);
    cudaEventDestroy(to_here);
    return 2.0 * static_cast<double>(bytes) / (static_cast<double>(best) * 1e-3);
}
#endif

void measure(const Arguments& arguments)
{
    const Input in = input(arguments);
    uint32_t threads = arguments.workers;
    if (threads == 0) threads = static_cast<uint32_t>(std::max<size_t>(1, allowed_cores().size()));
    Json told = environment(arguments);
    told.add("records", in.count).add("alerts", in.alerts.size());
    told.add("customers", in.made.profiles.size());
    std::vector<Arm> arms;
    const auto add = [&](const char* name, Json params, std::function<double(bool&)> run) -> Case& {
        arms.push_back({Case(name, std::move(params), "M/s"), std::move(run), Samples(32)});
        return arms.back().result;
    };
    const auto count = static_cast<double>(in.count);
    const auto rival = [&in, count](const RivalRun& run, bool& right) {
        right &= same(run.alerts, in.alerts);
        return count / run.seconds * 1e-6;
    };
    const uint64_t room = in.alerts.size() + 1024;
    const auto geometry = [&in](uint32_t shards, uint32_t batch) {
        Geometry g{shards, 16, batch, 1, in.options.horizon, 0};
        while (g.edges <= g.horizon + uint64_t{2} * batch) g.edges *= 2; // ends: within 2^30
        return g;
    };
    // Of `workers`, from the device's memory or the host's.
    const auto streamed = [&](const Arguments& with, uint32_t workers, bool resident) -> Case& {
        StageOptions options = in.options;
        const char* memory = resident ? "device" : with.gpu() ? "pinned" : "host";
        if (with.gpu()) {
            options.batch = batch_of(resident);
            options.shards = workers;
        }
        return add(resident ? "resident in device memory" : "streamed",
                   Json().add("memory", memory).add(with.gpu() ? "warps" : "threads", workers),
                   [with, &in, options, workers, resident](bool& right) {
                       return stream(with, in, options, workers, resident, right);
                   });
    };
    const auto with_rivals = [&] {
        if (arguments.gpu()) {
#if defined(__CUDACC__)
            told.add("copy_gbs", copy_bandwidth(in) * 1e-9);
            // Two, four and, beside the monitor, eight of each SM of an H100.
            for (const uint32_t warps : {264u, 528u, 1055u})
                for (const bool resident : {false, true})
                    streamed(arguments, warps, resident).ratio_base = {
                        resident ? "launches per batch, resident" : "launches per batch, streamed"};
            for (const bool resident : {false, true}) {
                add(resident ? "launches per batch, resident" : "launches per batch, streamed",
                    Json().add("warps", 1056), [&, resident](bool& right) {
                        const auto from = resident ? in.device : in.host;
                        return rival(run_launches(from.get(), in.count, !resident, in.made.profiles,
                                                  geometry(1056, batch_of(resident)), room),
                                     right);
                    });
            }
#endif
        } else {
            streamed(arguments, threads, false).ratio_base = {"threads with barriers",
                                                              "reference, one thread"};
            arms.push_back(arms.back());
            arms.back().result.arm = "A/A";
        }
        add("threads with barriers", Json().add("threads", threads), [&](bool& right) {
            return rival(run_threads(in.host.get(), in.count, in.made.profiles,
                                     geometry(threads, in.options.batch), room),
                         right);
        });
    };
    if (arguments.breaths) {
        by_breaths(arguments, [&](const Arguments& with, const auto& named) {
            named(streamed(with, with.gpu() ? 528 : threads, false));
            if (with.gpu()) named(streamed(with, 528, true));
        });
    } else {
        with_rivals();
    }
    print_environment(told);

    const uint32_t rounds = arguments.quick ? 3 : arguments.breaths ? 21 : 9;
    const auto run = [&arguments](Arm& arm) {
        double rate = 0;
        told_by(arguments, arm.result, [&] { rate = arm.run(arm.result.verified); });
        return rate;
    };
    std::erase_if(arms, [&](const Arm& arm) { return !arguments.wants(arm.result); });
    for (Arm& arm : arms) arm.result.verified = true;
    for (Arm& arm : arms) run(arm); // a warm-up
    interleaved(rounds, arms.size(), [&](size_t k) { arms[k].samples.add(run(arms[k])); });
    for (Arm& arm : arms) {
        arm.result.n = rounds * in.count;
        arm.result.print(arm.samples);
    }
    if (arguments.breaths) return;

    Case plain("reference, one thread", Json().add("threads", 1), "M/s");
    plain.n = in.count;
    plain.verified = true; // it is what the others are held against; the tests hold it against more
    Samples once(1);
    once.add(count / in.reference_seconds * 1e-6);
    plain.print(once);

    const double rate = arguments.gpu() ? 10e6 : 0.2e6;
    for (const uint32_t workers : arguments.gpu() ? std::vector<uint32_t>{32, 132, 264, 528}
                                                  : std::vector<uint32_t>{threads}) {
        Case late("alert latency", Json().add("rate_m", rate * 1e-6).add("workers", workers), "us");
        if (!arguments.wants(late)) continue;
        late.verified = true;
        Samples samples(1 << 20);
        told_by(arguments, late, [&] {
            pace(arguments, in, workers, rate, arguments.quick ? 0.5 : 1.6, samples, late.verified);
        });
        late.n = samples.size();
        late.print(samples);
    }
}

} // namespace

int main(int argc, char** argv)
{
    return run_program(argc, argv, measure, {.only = true, .breaths = true});
}

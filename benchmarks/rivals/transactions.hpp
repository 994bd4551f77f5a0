// SPDX-License-Identifier: Apache-2.0
// The same three passes over the same book without a runtime: three launches for each batch on a
// GPU, or CPU threads that meet at a barrier after each pass.
#pragma once

#include <denizen/transactions/stage.hpp>

#include <barrier>
#include <cstring>
#include <memory>
#include <thread>

#if defined(__CUDACC__)
#include <cuda_runtime_api.h>
#endif

namespace denizen::bench {

namespace tx = denizen::transactions;

// What the passes ask of a context. Alerts go to an array, in no order.
struct BareContext {
    tx::Alert* alerts;
    uint64_t* count;
    uint64_t room;

    DENIZEN_HD uint32_t lane() const { return lanes::id(); }
    DENIZEN_HD uint32_t lanes() const { return lanes::size; }
    DENIZEN_HD void sync() const { lanes::sync(); }
    DENIZEN_HD void send(Address, const tx::Alert& alert) const
    {
        if (lane() == 0) {
            const uint64_t at = fetch_add<Scope::gpu>(count, uint64_t{1});
            if (at < room) {
                alerts[at] = alert;
            }
        }
    }
};

// The head of a book of one batch under way.
inline void prepare(tx::Book& book, const tx::Geometry& geometry, const tx::Rules& rules,
                    ArenaRef customers)
{
    std::memset(static_cast<void*>(&book), 0, sizeof book);
    book.geometry = geometry;
    book.at = tx::offsets(geometry);
    book.rules = rules;
    for (uint32_t code = 0; code < tx::country_codes; ++code) {
        book.bits[code] = static_cast<uint8_t>(tx::country_bit(code));
    }
    book.regions.add(customers);
}

// Bytes that surely hold the customers of so many profiles, and no others.
inline uint64_t room_for(size_t profiles, uint32_t shards)
{
    return (profiles * 1024 + uint64_t{shards} * 65536) * 2;
}

// Those of one shard's customers.
DENIZEN_HD inline void put_profiles_of(tx::Book& book, uint32_t shard, const tx::Profile* profiles,
                                       uint64_t count, const BareContext& ctx)
{
    tx::Ledger& ledger = book.ledger(shard);
    for (uint64_t k = 0; k < count; ++k) {
        if (tx::shard_of(profiles[k].customer, book.geometry.shards) != shard) continue;
        const tx::Entry* const entry = ledger.take(book.regions, profiles[k].customer, ctx);
        if (ctx.lane() == 0) entry->customer->set(profiles[k]);
        ctx.sync();
    }
}

struct NoDrill {
    DENIZEN_HD bool operator()(uint32_t) const { return false; }
};

inline void sort_alerts(std::vector<tx::Alert>& alerts)
{
    std::sort(alerts.begin(), alerts.end(), [](const tx::Alert& a, const tx::Alert& b) {
        return a.sequence != b.sequence ? a.sequence < b.sequence : a.rule < b.rule;
    });
}

struct RivalRun {
    double seconds = 0;
    std::vector<tx::Alert> alerts;
};

// Threads that pass over batch after batch, with a barrier between passes.
inline RivalRun run_threads(const tx::Transaction* records, uint64_t count,
                            const std::vector<tx::Profile>& profiles, tx::Geometry geometry,
                            uint64_t room)
{
    geometry.depth = 1;
    geometry.staged = 0;
    const uint64_t bytes = tx::offsets(geometry).end;
    const std::unique_ptr<unsigned char[], void (*)(void*)> memory(
        static_cast<unsigned char*>(std::aligned_alloc(128, bytes)), std::free);
    std::memset(memory.get(), 0, bytes);
    tx::Book& book = *reinterpret_cast<tx::Book*>(memory.get());
    const Arena customers(Device::cpu(), room_for(profiles.size(), geometry.shards));
    prepare(book, geometry, {}, customers.ref());

    RivalRun run;
    run.alerts.resize(room);
    uint64_t told = 0;
    for (uint32_t s = 0; s < geometry.shards; ++s) {
        put_profiles_of(book, s, profiles.data(), profiles.size(), {nullptr, &told, 0});
    }
    std::barrier meet(geometry.shards);
    const auto work = [&](uint32_t part) {
        BareContext ctx{run.alerts.data(), &told, room};
        uint32_t batch = 0;
        for (uint64_t base = 0; base < count; base += geometry.batch, ++batch) { // ends: by count
            const auto n = static_cast<uint32_t>(std::min<uint64_t>(geometry.batch, count - base));
            const tx::Feed feed{{}, {}, base, 0, n, batch};
            if (part == 0) tx::open_flight(book, feed, records + base, ctx);
            meet.arrive_and_wait();
            tx::split(book, batch, part, ctx, NoDrill{});
            meet.arrive_and_wait();
            tx::judge(book, batch, part, ctx, NoDrill{});
            meet.arrive_and_wait();
            tx::search(book, batch, part, ctx, NoDrill{});
            meet.arrive_and_wait();
        }
    };
    const uint64_t begin = now_ns();
    {
        std::vector<std::jthread> threads;
        for (uint32_t part = 1; part < geometry.shards; ++part) threads.emplace_back(work, part);
        work(0);
    }
    run.seconds = static_cast<double>(now_ns() - begin) * 1e-9;
    run.alerts.resize(std::min(told, room));
    sort_alerts(run.alerts);
    return run;
}

#if defined(__CUDACC__)
inline constexpr uint32_t launch_threads = 128; // four shards to a block

__global__ void put_profiles(tx::Book* book, const tx::Profile* profiles, uint64_t count)
{
    put_profiles_of(*book, blockIdx.x, profiles, count, {});
}

// One warp: what the passes over a batch are about.
__global__ void open_flight(tx::Book* book, const tx::Transaction* records, uint64_t base,
                            uint32_t count, uint32_t batch, BareContext ctx)
{
    tx::open_flight(*book, tx::Feed{{}, {}, base, 0, count, batch}, records, ctx);
}

// A warp for each shard. `pass`: 0, 1, 2.
__global__ void transaction_pass(tx::Book* book, uint32_t batch, uint32_t pass, BareContext ctx)
{
    const uint32_t part = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    if (part >= book->geometry.shards) return;
    if (pass == 0) {
        tx::split(*book, batch, part, ctx, NoDrill{});
    } else if (pass == 1) {
        tx::judge(*book, batch, part, ctx, NoDrill{});
    } else {
        tx::search(*book, batch, part, ctx, NoDrill{});
    }
}

inline void cuda_ok(cudaError_t status)
{
    if (status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status));
}

struct OnDevice {
    explicit OnDevice(uint64_t bytes) { cuda_ok(cudaMalloc(&p, bytes)); }
    ~OnDevice() { cudaFree(p); }
    OnDevice(const OnDevice&) = delete;
    OnDevice& operator=(const OnDevice&) = delete;
    void* p = nullptr;
};

// Three launches for each batch. `on_host`: the records lie in pinned memory, and copies of the
// next batch run beside the launches of this one. At the end the alerts are fetched.
inline RivalRun run_launches(const tx::Transaction* records, uint64_t count, bool on_host,
                             const std::vector<tx::Profile>& profiles, tx::Geometry geometry,
                             uint64_t room)
{
    geometry.depth = 1;
    geometry.staged = 0;
    const OnDevice memory(tx::offsets(geometry).end);
    const OnDevice alerts(room * sizeof(tx::Alert));
    const OnDevice told(sizeof(uint64_t));
    const OnDevice known(profiles.size() * sizeof(tx::Profile));
    void* fetched = nullptr; // alerts, in pinned memory, which is there before the clock runs
    cuda_ok(cudaHostAlloc(&fetched, room * sizeof(tx::Alert), cudaHostAllocPortable));
    const std::unique_ptr<void, cudaError_t (*)(void*)> pinned(fetched, cudaFreeHost);
    const OnDevice copies(on_host ? uint64_t{2} * geometry.batch * sizeof(tx::Transaction) : 16);
    auto* book = static_cast<tx::Book*>(memory.p);
    cuda_ok(cudaMemset(memory.p, 0, tx::offsets(geometry).end));
    cuda_ok(cudaMemset(told.p, 0, sizeof(uint64_t)));
    const auto head = std::make_unique<tx::Book>();
    int gpu = 0;
    cuda_ok(cudaGetDevice(&gpu));
    const Arena customers(Device::gpu(gpu), room_for(profiles.size(), geometry.shards));
    prepare(*head, geometry, {}, customers.ref());
    cuda_ok(cudaMemcpy(book, head.get(), sizeof(tx::Book), cudaMemcpyHostToDevice));
    cuda_ok(cudaMemcpy(known.p, profiles.data(), profiles.size() * sizeof(tx::Profile),
                       cudaMemcpyHostToDevice));
    put_profiles<<<geometry.shards, 32>>>(book, static_cast<const tx::Profile*>(known.p),
                                          profiles.size());
    cudaStream_t compute = nullptr;
    cudaStream_t copy = nullptr;
    cudaEvent_t copied[2] = {};
    cudaEvent_t used[2] = {};
    cuda_ok(cudaStreamCreateWithFlags(&compute, cudaStreamNonBlocking));
    cuda_ok(cudaStreamCreateWithFlags(&copy, cudaStreamNonBlocking));
    for (int k = 0; k < 2; ++k) {
        cuda_ok(cudaEventCreateWithFlags(&copied[k], cudaEventDisableTiming));
        cuda_ok(cudaEventCreateWithFlags(&used[k], cudaEventDisableTiming));
    }
    cuda_ok(cudaDeviceSynchronize());
    const BareContext ctx{static_cast<tx::Alert*>(alerts.p), static_cast<uint64_t*>(told.p), room};
    const uint32_t blocks = (geometry.shards * 32 + launch_threads - 1) / launch_threads;
    RivalRun run;
    const uint64_t begin = now_ns();
    uint32_t batch = 0;
    for (uint64_t base = 0; base < count; base += geometry.batch, ++batch) { // ends: by count
        const auto n = static_cast<uint32_t>(std::min<uint64_t>(geometry.batch, count - base));
        const tx::Transaction* from = records + base;
        const uint32_t half = batch % 2;
        if (on_host) {
            auto* to = static_cast<tx::Transaction*>(copies.p) + uint64_t{half} * geometry.batch;
            if (batch >= 2) cuda_ok(cudaStreamWaitEvent(copy, used[half]));
            cuda_ok(cudaMemcpyAsync(to, from, n * sizeof(tx::Transaction), cudaMemcpyHostToDevice,
                                    copy));
            cuda_ok(cudaEventRecord(copied[half], copy));
            cuda_ok(cudaStreamWaitEvent(compute, copied[half]));
            from = to;
        }
        open_flight<<<1, 32, 0, compute>>>(book, from, base, n, batch, ctx);
        for (uint32_t pass = 0; pass < 3; ++pass) {
            transaction_pass<<<blocks, launch_threads, 0, compute>>>(book, batch, pass, ctx);
        }
        if (on_host) cuda_ok(cudaEventRecord(used[half], compute));
    }
    cuda_ok(cudaGetLastError());
    uint64_t found = 0;
    cuda_ok(cudaMemcpyAsync(&found, told.p, sizeof found, cudaMemcpyDeviceToHost, compute));
    cuda_ok(cudaStreamSynchronize(compute));
    found = std::min(found, room);
    cuda_ok(cudaMemcpyAsync(fetched, alerts.p, found * sizeof(tx::Alert), cudaMemcpyDeviceToHost,
                            compute));
    cuda_ok(cudaStreamSynchronize(compute));
    run.seconds = static_cast<double>(now_ns() - begin) * 1e-9;
    const auto* const first = static_cast<const tx::Alert*>(fetched);
    run.alerts.assign(first, first + found);
    for (int k = 0; k < 2; ++k) {
        cudaEventDestroy(copied[k]);
        cudaEventDestroy(used[k]);
    }
    cudaStreamDestroy(compute);
    cudaStreamDestroy(copy);
    sort_alerts(run.alerts);
    return run;
}
#endif

} // namespace denizen::bench

// SPDX-License-Identifier: Apache-2.0
#include "check.hpp"
#include "in_order.hpp"

#include <denizen/base/error.hpp>
#include <denizen/base/interrupt.hpp>
#include <denizen/base/type_name.hpp>
#include <denizen/transactions/stage.hpp>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <memory>
#include <thread>
#include <utility>

namespace denizen::transactions {

using namespace std::chrono_literals;

namespace {

constexpr uint32_t spins = 4000;
constexpr uint32_t few_spins = 20; // where the workers want the same cores

// "Feed" of "denizen::transactions::Feed".
std::string_view last_part(std::string_view name)
{
    const size_t at = name.rfind(':');
    return at == std::string_view::npos ? name : name.substr(at + 1);
}

uint32_t find(const std::vector<std::string>& names, std::string_view wanted, const char* what)
{
    for (uint32_t k = 0; k < names.size(); ++k) {
        if (last_part(names[k]) == wanted) return k;
    }
    throw Error(Errc::bad_argument, "this program has no " + std::string(what) + " " +
                                        std::string(wanted) +
                                        ": a stage needs denizen::transactions::Monitoring");
}

// Of Monitoring's messages in the runtime's program, which may have others beside them.
template <class... A, class... M>
std::array<uint32_t, 16> find_all(const Image& image, Program<Actors<A...>, Messages<M...>>)
{
    static_assert(sizeof...(M) <= 16);
    return {find(image.messages, last_part(denizen::detail::type_name<M>()), "message")...};
}

} // namespace

Stage::Stage(AnyRuntime& rt, const StageOptions& o, const Snapshot* restore)
    : rt_(rt), rules_(restore != nullptr ? restore->rules : o.rules),
      ids_(find_all(rt.image(), Monitoring{})), first_memory_(o.first_memory),
      most_memory_(o.memory != 0 ? o.memory : ~0ull), keep_outcomes_(o.keep_outcomes)
{
    check(rules_);
    const Description& there = rt.description();
    if (there.nodes != 1) {
        throw Error(Errc::bad_argument, "a stage runs on one node, not on " +
                                            std::to_string(there.nodes) +
                                            ": its book is the memory of one GPU");
    }
    const uint32_t shards = o.shards != 0 ? o.shards : std::min(there.workers, max_shards);
    within("shards", shards, 1, max_shards);
    const uint32_t batch = o.batch != 0 ? o.batch : there.on_gpu ? 1u << 16 : 1u << 13;
    within("batch", batch, 1, max_batch);
    within("depth", o.depth, 1, max_depth);
    within("horizon", o.horizon, 1, max_horizon);
    if (o.memory != 0) within("memory", o.memory, least_region, uint64_t{1} << 56);
    within("first_memory", o.first_memory, least_region, uint64_t{1} << 56);
    if (restore != nullptr && restore->horizon != o.horizon) {
        throw Error(Errc::bad_snapshot, "the snapshot's horizon is " +
                                            std::to_string(restore->horizon) + ", not " +
                                            std::to_string(o.horizon));
    }
    const bool copied = o.copy_records == CopyRecords::always ||
                        (o.copy_records == CopyRecords::across_the_bus && there.on_gpu);
    uint32_t edges = 16;
    while (edges <= o.horizon + uint64_t{o.depth} * batch) edges *= 2; // ends: within 2^30
    geometry_ = {shards, edges, batch, o.depth, o.horizon, copied ? 1u : 0u};
    open(restore);
}

Stage::~Stage()
{
    const Interruptible never(nullptr);
    const uint64_t begin = now_ns();
    try { // ends by the clock, or when the rest waits for room that will not be
        while (!flying_.empty() && full_.empty() && now_ns() - begin < 5'000'000'000) {
            if (!pump()) std::this_thread::yield();
        }
        if (flying_.empty() || !full_.empty()) {
            for (const Address shard : shards_) rt_.unwatch(host, shard, 5s);
            rt_.stop(supervisor_, 5s); // and with it its children
            return;
        }
    } catch (const Error&) { // the runtime is closed, or dead, or a shard is stuck
        if (flying_.empty()) return;
    }
    // A shard is stuck, and may still write: its memory is never given back.
    new std::shared_ptr<Storage>(book_.storage());
    new std::vector<Arena>(std::move(arenas_));
}

void Stage::open(const Snapshot* restore)
{
    book_ = rt_.buffer(offsets(geometry_).end);
    shards_ = rt_.spawn(find(rt_.image().actors, "Shard", "actor"), geometry_.shards, 10s);
    supervisor_ = rt_.supervise(shards_.data(), shards_.size(), Strategy::one_for_one,
                                {RestartBudget::unlimited, 5s}, 10s);
    for (const Address shard : shards_) rt_.watch(host, shard, 10s);
    std::vector<Open> opens(shards_.size());
    for (uint32_t step = 0; step < 2; ++step) {
        for (uint32_t p = 0; p < opens.size(); ++p) {
            opens[p] = {book_.ref(), geometry_, p, step};
        }
        ask(opens);
    }
    grow();
    if (restore != nullptr) {
        place(restore->customers.data(), restore->customers.size(), sizeof(Customer),
              [](const void* c) { return static_cast<const Customer*>(c)->key - 1; });
        std::vector<Edge> edges(geometry_.edges);
        next_ = done_ = restore->next;
        for (size_t k = 0; k < restore->edges.size(); ++k) {
            edges[(next_ - restore->edges.size() + k) & (geometry_.edges - 1)] = restore->edges[k];
        }
        copy(false, offsets(geometry_).edges, edges.data(), edges.size() * sizeof(Edge));
    }
    change(rules_);
}

void Stage::feed(const Transaction* records, size_t count)
{
    if (own_.empty()) {
        for (uint32_t k = 0; k < geometry_.depth; ++k) {
            own_.push_back(rt_.buffer(geometry_.batch * sizeof(Transaction), BufferKind::pinned));
        }
    }
    for (size_t at = 0; at < count; at += geometry_.batch) {
        const auto n = static_cast<uint32_t>(std::min<size_t>(geometry_.batch, count - at));
        room();
        const Buffer& own = own_[batch_ % geometry_.depth];
        std::memcpy(own.cpu(), records + at, n * sizeof(Transaction));
        launch(own.ref(), 0, n);
    }
}

void Stage::feed(const Buffer& records, uint32_t first, uint32_t count)
{
    within("count", count, 1, geometry_.batch);
    within("first + count", uint64_t{first} + count, 1, records.bytes() / sizeof(Transaction));
    if (reinterpret_cast<uintptr_t>(records.data()) % 16 != 0) {
        throw Error(Errc::bad_argument, "the buffer of records begins at an address that is no "
                                        "multiple of 16; align it");
    }
    room();
    launch(records.ref(), first, count);
}

// Waits until there may be one batch more.
void Stage::room()
{
    uint64_t idle_since = 0;
    while (flying_.size() >= geometry_.depth) wait_for(idle_since); // ends, or has run out of time
}

// Waits until nothing is under way.
void Stage::settle()
{
    uint64_t idle_since = 0;
    while (!flying_.empty()) wait_for(idle_since); // ends, or has run out of time
}

void Stage::wait_for(uint64_t& idle_since)
{
    check_interrupt();
    const Interruptible never(nullptr); // what is sent from here on must be
    for (uint32_t k = 0; k < (rt_.description().on_gpu ? spins : few_spins); ++k) {
        if (pump()) {
            idle_since = 0;
            return;
        }
        relieve();
        std::this_thread::yield();
    }
    if (idle_since == 0) idle_since = now_ns();
    if (now_ns() - idle_since > static_cast<uint64_t>(patience.count())) {
        const std::string first = rt_.stats().first_error;
        throw Error(Errc::timeout, "batch " + std::to_string(flying_.front().batch) +
                                       " of transactions has not come back for 30 s; " +
                                       rt_.stuck(1s) + (first.empty() ? "" : " " + first));
    }
    std::this_thread::sleep_for(20us);
}

void Stage::launch(BufferRef records, uint32_t first, uint32_t count)
{
    const Interruptible never(nullptr); // what is in flight has been sent
    flying_.push_back({batch_, next_, count, first, records});
    const Feed feed{book_.ref(), records, next_, first, count, batch_};
    rt_.send(shards_[0], id<Feed>(), &feed, sizeof feed, patience);
    next_ += count;
    ++batch_;
    counts_.records += count;
    pump();
}

void Stage::send_step(uint32_t part, Pass pass, uint32_t batch)
{
    const Step step{reinterpret_cast<uint64_t>(book_.data()), batch,
                    static_cast<uint32_t>(pass) << 16 | part};
    rt_.send(shards_[part], id<Step>(), &step, sizeof step, patience);
}

// A shard has been restarted. What it has done it will find done, what is not yet due it will not
// do; the message that it failed at is among these.
void Stage::tell_again(Address shard)
{
    const auto part =
        static_cast<uint32_t>(std::find(shards_.begin(), shards_.end(), shard) - shards_.begin());
    if (part == shards_.size()) return;
    ++counts_.restarts;
    for (const Flying& f : flying_) {
        if (f.finished) continue;
        if (part == 0) {
            const Feed feed{book_.ref(), f.records, f.base, f.first, f.count, f.batch};
            rt_.send(shard, id<Feed>(), &feed, sizeof feed, patience);
        }
        send_step(part, Pass::split, f.batch);
        send_step(part, Pass::judge, f.batch);
        send_step(part, Pass::search, f.batch);
    }
}

// Takes in what has arrived; whether there was anything.
bool Stage::pump()
{
    bool any = false;
    Alert alerts[64];
    for (size_t n = 0; (n = rt_.receive_many(id<Alert>(), alerts, sizeof(Alert), sizeof(Alert), 64,
                                             nullptr)) != 0;
         any = true) { // ends: the host is faster
        // Not those that a restarted shard tells again of batches that are done.
        std::copy_if(alerts, alerts + n, std::back_inserter(arrived_),
                     [this](const Alert& a) { return a.sequence >= done_; });
    }
    Finished finished{};
    while (rt_.receive_many(id<Finished>(), &finished, sizeof finished, sizeof finished, 1,
                            nullptr) != 0) {
        any = true;
        for (Flying& f : flying_) {
            if (f.batch != finished.batch) continue;
            f.finished = true;
            f.alerts = finished.alerts;
            for (uint32_t o = 0; o < outcomes; ++o) counts_.of[o] += finished.tally[o];
        }
    }
    Full full{};
    while (rt_.receive_many(id<Full>(), &full, sizeof full, sizeof full, 1, nullptr) != 0) {
        any = true;
        full_.push_back(full);
    }
    Down down{};
    while (rt_.receive_many(id<Down>(), &down, sizeof down, sizeof down, 1, nullptr) != 0) {
        any = true;
        const auto life = static_cast<Life>(down.life);
        if (life == Life::running || life == Life::catching_up) tell_again({down.actor});
    }
    while (land()) { // ends: each takes a batch away
    }
    return any;
}

// Takes the oldest batch out of the air, if it and all its alerts are there.
bool Stage::land()
{
    if (flying_.empty() || !flying_.front().finished) return false;
    const Flying f = flying_.front();
    if (arrived_.size() < f.alerts) return false;
    const std::vector<uint32_t> places = in_order(arrived_, f.base, f.count);
    if (places.size() != f.alerts) return false;
    // Memory for all of them at once: one by one they take twice as much each time, 4 MB of new
    // pages for 11,000 alerts, and the last batch's are waited for.
    const size_t before = ready_.size();
    ready_.resize(before + places.size());
    std::transform(places.begin(), places.end(), ready_.data() + before,
                   [this](uint32_t place) { return arrived_[place]; });
    std::erase_if(arrived_, [&](const Alert& a) { return a.sequence < f.base + f.count; });
    if (keep_outcomes_) note_outcomes(f);
    counts_.alerts += f.alerts;
    done_ = f.base + f.count;
    flying_.pop_front();
    return true;
}

std::vector<Alert> Stage::take()
{
    std::vector<Alert> alerts;
    take(alerts);
    return alerts;
}

void Stage::take(std::vector<Alert>& alerts)
{
    pump();
    if (ready_.empty()) relieve();
    alerts.clear();
    if (!ready_.empty()) alerts.swap(ready_); // or each would have to grow anew
}

std::vector<Alert> Stage::drain()
{
    settle();
    return std::exchange(ready_, {});
}

void Stage::change(const Rules& rules)
{
    check(rules);
    settle();
    ask(std::vector<Change>{{book_.ref(), rules}});
    rules_ = rules;
}

void Stage::drill(uint32_t shard, Pass pass, uint32_t after)
{
    within("shard", shard, 0, geometry_.shards - 1);
    const Drill drill{static_cast<uint32_t>(pass), after};
    Ready ready{};
    rt_.ask(shards_[shard], id<Drill>(), &drill, sizeof drill, &ready, sizeof ready, patience);
}

} // namespace denizen::transactions

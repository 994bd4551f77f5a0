// SPDX-License-Identifier: Apache-2.0
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

constexpr nanoseconds patience = 30s; // with nothing done at all
constexpr uint32_t spins = 4000;
constexpr uint32_t few_spins = 20;    // where the workers want the same cores
constexpr uint64_t piece = 16u << 20; // bytes that are copied to or from the book at once

template <class T>
constexpr const char* name_of();
#define DENIZEN_NAMED(type)                                                                        \
    template <>                                                                                    \
    constexpr const char* name_of<type>()                                                          \
    {                                                                                              \
        return #type;                                                                              \
    }
DENIZEN_NAMED(Open)
DENIZEN_NAMED(Change)
DENIZEN_NAMED(Put)
DENIZEN_NAMED(Move)
DENIZEN_NAMED(Taken)
DENIZEN_NAMED(Drill)
DENIZEN_NAMED(Ready)
DENIZEN_NAMED(Feed)
DENIZEN_NAMED(Step)
DENIZEN_NAMED(Finished)
DENIZEN_NAMED(Alert)
DENIZEN_NAMED(Down)
#undef DENIZEN_NAMED

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

void within(const std::string& what, uint64_t value, uint64_t least, uint64_t greatest)
{
    if (value < least || value > greatest) {
        throw Error(Errc::bad_argument, what + " = " + std::to_string(value) + "; use " +
                                            std::to_string(least) + " to " +
                                            std::to_string(greatest));
    }
}

void power_of_two(const char* what, uint64_t value)
{
    if (value < 16 || (value & (value - 1)) != 0 || value > 1u << 30) {
        throw Error(Errc::bad_argument, std::string(what) + " = " + std::to_string(value) +
                                            "; use a power of two from 16 to 1073741824");
    }
}

} // namespace

void check(const Rules& r)
{
    constexpr uint64_t money = most / 128; // so that no product overflows
    within("amount_limit", r.amount_limit, 1, money);
    within("exposed_limit", r.exposed_limit, 1, money);
    within("dormant_amount", r.dormant_amount, 0, most);
    within("dormant_ms", r.dormant_ms, 1, most);
    within("velocity_window_ms", r.velocity_window_ms, 1, most);
    within("circular_window_ms", r.circular_window_ms, 1, most);
    within("circular_amount", r.circular_amount, 0, most);
    within("lateness_ms", r.lateness_ms, 0, most);
    within("velocity_limit", r.velocity_limit, 1, history - 1);
    within("structuring_percent", r.structuring_percent, 1, 100);
    within("structuring_velocity", r.structuring_velocity, 1, history);
    within("circular_hops", r.circular_hops, 2, 4);
    within("circular_percent", r.circular_percent, 0, 100);
    if ((r.enabled & ~all_rules) != 0) {
        throw Error(Errc::bad_argument, "enabled has bits beyond those of rules 1 to 7");
    }
}

void check(const Profile& p)
{
    const std::string of = " of customer " + std::to_string(p.customer);
    if (p.customer == no_customer) {
        throw Error(Errc::bad_argument, "a profile's customer is 2^64 - 1, which is nobody's");
    }
    within("amount_limit" + of, p.amount_limit, 0, most / 128);
    within("exposed_limit" + of, p.exposed_limit, 0, most / 128);
    within("dormant_ms" + of, p.dormant_ms, 0, most);
    within("velocity_limit" + of, p.velocity_limit, 0, history - 1);
    within("flags" + of, p.flags, 0, exposed_person | enhanced_diligence);
}

template <class M>
uint32_t Stage::id() const
{
    return find(rt_.image().messages, name_of<M>(), "message");
}

Stage::Stage(AnyRuntime& rt, const StageOptions& o, const Snapshot* restore)
    : rt_(rt), rules_(restore != nullptr ? restore->rules : o.rules)
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
    within("horizon", o.horizon, 1, 1u << 28);
    power_of_two("customers", o.customers);
    if (restore != nullptr && restore->horizon != o.horizon) {
        throw Error(Errc::bad_snapshot, "the snapshot's horizon is " +
                                            std::to_string(restore->horizon) + ", not " +
                                            std::to_string(o.horizon));
    }
    const bool copied = o.copy_records == CopyRecords::always ||
                        (o.copy_records == CopyRecords::across_the_bus && there.on_gpu);
    uint32_t edges = 16;
    while (edges <= o.horizon + uint64_t{o.depth} * batch) edges *= 2; // ends: within 2^30
    geometry_ = {shards, o.customers, edges, batch, o.depth, o.horizon, copied ? 1u : 0u};
    open(restore);
}

Stage::~Stage()
{
    const uint64_t begin = now_ns();
    try { // ends by the clock
        while (!flying_.empty() && now_ns() - begin < 5'000'000'000) {
            if (!pump()) std::this_thread::yield();
        }
        if (flying_.empty()) {
            for (const Address shard : shards_) rt_.unwatch(host, shard, 5s);
            rt_.stop(supervisor_, 5s); // and with it its children
        }
    } catch (const Error&) { // the runtime is closed, or dead: nothing is under way
        return;
    }
    if (!flying_.empty()) {
        // A shard is stuck, and may still write to the book: it is never given back.
        new std::shared_ptr<Storage>(book_.storage());
    }
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
        ask_all(opens);
    }
    if (restore != nullptr) {
        within("customers of the snapshot", restore->customers.size(), 0,
               geometry_.customers / 8 * 7);
        std::vector<Customer> table(geometry_.customers);
        for (const Customer& c : restore->customers) {
            auto at = static_cast<uint32_t>(mix(c.key - 1));
            while (table[at & (geometry_.customers - 1)].key != 0) ++at; // ends: there is room
            table[at & (geometry_.customers - 1)] = c;
        }
        std::vector<Edge> edges(geometry_.edges);
        next_ = done_ = restore->next;
        for (size_t k = 0; k < restore->edges.size(); ++k) {
            edges[(next_ - restore->edges.size() + k) & (geometry_.edges - 1)] = restore->edges[k];
        }
        const Offsets at = offsets(geometry_);
        copy(false, at.customers, table.data(), table.size() * sizeof(Customer));
        copy(false, at.edges, edges.data(), edges.size() * sizeof(Edge));
        ask_all(
            std::vector<Taken>{{book_.ref(), static_cast<uint32_t>(restore->customers.size())}});
    }
    change(rules_);
}

// Message p to shard p, modulo their number.
template <class M>
std::vector<Ready> Stage::ask_all(const std::vector<M>& messages)
{
    std::vector<Address> to(messages.size());
    for (size_t p = 0; p < to.size(); ++p) to[p] = shards_[p % shards_.size()];
    std::vector<Ready> replies(to.size());
    rt_.ask_many(to.data(), false, id<M>(), messages.data(), sizeof(M), sizeof(M), to.size(),
                 id<Ready>(), replies.data(), sizeof(Ready), sizeof(Ready), patience);
    return replies;
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
    check_room();
}

// Waits until nothing is under way.
void Stage::settle()
{
    uint64_t idle_since = 0;
    while (!flying_.empty()) wait_for(idle_since); // ends, or has run out of time
}

void Stage::wait_for(uint64_t& idle_since)
{
    for (uint32_t k = 0; k < (rt_.description().on_gpu ? spins : few_spins); ++k) {
        if (pump()) {
            idle_since = 0;
            return;
        }
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
    flying_.push_back({batch_, next_, count, first, records});
    std::vector<Feed> feeds(shards_.size());
    for (uint32_t p = 0; p < feeds.size(); ++p) {
        feeds[p] = {book_.ref(), records, next_, first, count, batch_, p};
    }
    rt_.send_many(shards_.data(), false, id<Feed>(), feeds.data(), sizeof(Feed), sizeof(Feed),
                  feeds.size(), patience);
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
        const Feed feed{book_.ref(), f.records, f.base, f.first, f.count, f.batch, part};
        rt_.send(shard, id<Feed>(), &feed, sizeof feed, patience);
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
    Finished told{};
    while (rt_.receive_many(id<Finished>(), &told, sizeof told, sizeof told, 1, nullptr) != 0) {
        any = true;
        for (Flying& f : flying_) {
            if (f.batch != told.batch) continue;
            f.finished = true;
            f.alerts = told.alerts;
            for (uint32_t o = 0; o < outcomes; ++o) counts_.of[o] += told.tally[o];
        }
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
    const auto later = std::partition(arrived_.begin(), arrived_.end(), [&](const Alert& a) {
        return a.sequence < f.base + f.count;
    });
    // Those of a part that failed on its way have come twice.
    const auto order = [](const Alert& a, const Alert& b) {
        return a.sequence != b.sequence ? a.sequence < b.sequence : a.rule < b.rule;
    };
    std::sort(arrived_.begin(), later, order);
    const auto end = std::unique(arrived_.begin(), later, [&](const Alert& a, const Alert& b) {
        return !order(a, b) && !order(b, a);
    });
    const bool all = static_cast<uint64_t>(end - arrived_.begin()) == f.alerts;
    if (all) {
        ready_.insert(ready_.end(), arrived_.begin(), end);
        counts_.alerts += f.alerts;
        done_ = f.base + f.count;
        flying_.pop_front();
        arrived_.erase(arrived_.begin(), later);
    } else {
        arrived_.erase(end, later);
    }
    return all;
}

// Alerts are exact only while every customer has a place.
void Stage::check_room() const
{
    if (counts_.of[static_cast<uint32_t>(Outcome::no_room)] == 0) return;
    throw Error(Errc::exhausted, "the table of customers is full (" +
                                     std::to_string(geometry_.customers / 8 * 7) + " of " +
                                     std::to_string(geometry_.customers) +
                                     " places can be taken): start with customers=" +
                                     std::to_string(2 * geometry_.customers));
}

std::vector<Alert> Stage::take()
{
    pump();
    check_room();
    return std::exchange(ready_, {});
}

std::vector<Alert> Stage::drain()
{
    settle();
    check_room();
    return std::exchange(ready_, {});
}

void Stage::change(const Rules& rules)
{
    check(rules);
    settle();
    ask_all(std::vector<Change>{{book_.ref(), rules}});
    rules_ = rules;
}

void Stage::put(const Profile* profiles, size_t count)
{
    if (count == 0) return;
    std::vector<uint64_t> customers(count);
    for (size_t k = 0; k < count; ++k) {
        check(profiles[k]);
        customers[k] = profiles[k].customer;
    }
    std::sort(customers.begin(), customers.end());
    if (const auto twice = std::adjacent_find(customers.begin(), customers.end());
        twice != customers.end()) {
        throw Error(Errc::bad_argument,
                    "two profiles are of customer " + std::to_string(*twice) + "; put one");
    }
    settle();
    const Buffer buffer = rt_.buffer(count * sizeof(Profile), BufferKind::pinned);
    std::memcpy(buffer.cpu(), profiles, count * sizeof(Profile));
    std::vector<Put> puts(shards_.size());
    for (uint32_t p = 0; p < puts.size(); ++p) {
        puts[p] = {book_.ref(), buffer.ref(), static_cast<uint32_t>(count), p};
    }
    for (const Ready& ready : ask_all(puts)) {
        counts_.of[static_cast<uint32_t>(Outcome::no_room)] += ready.value;
    }
    check_room();
}

uint32_t Stage::taken() { return ask_all(std::vector<Taken>{{book_.ref(), 0}})[0].value; }

// Between the book and the host's memory, piece by piece.
void Stage::copy(bool out, uint64_t offset, void* memory, uint64_t bytes)
{
    const Buffer between = rt_.buffer(std::min(bytes, piece), BufferKind::pinned);
    for (uint64_t at = 0; at < bytes; at += piece) {
        const uint64_t n = std::min(bytes - at, piece);
        if (!out) std::memcpy(between.cpu(), static_cast<char*>(memory) + at, n);
        std::vector<Move> moves;
        const uint64_t units = n / 16;
        for (uint64_t p = 0; p < shards_.size(); ++p) {
            const uint64_t begin = units * p / shards_.size() * 16;
            const uint64_t end = units * (p + 1) / shards_.size() * 16;
            const uint64_t in_book = offset + at + begin;
            moves.push_back({out ? book_.ref() : between.ref(), out ? between.ref() : book_.ref(),
                             out ? in_book : begin, out ? begin : in_book, end - begin});
        }
        ask_all(moves);
        if (out) std::memcpy(static_cast<char*>(memory) + at, between.cpu(), n);
    }
}

Snapshot Stage::snapshot()
{
    settle();
    Snapshot s;
    s.rules = rules_;
    s.next = next_;
    s.horizon = geometry_.horizon;
    const Offsets at = offsets(geometry_);
    s.customers.resize(geometry_.customers);
    copy(true, at.customers, s.customers.data(), s.customers.size() * sizeof(Customer));
    std::erase_if(s.customers, [](const Customer& c) { return c.key == 0; });
    // In an order that does not depend on who came first.
    std::sort(s.customers.begin(), s.customers.end(),
              [](const Customer& a, const Customer& b) { return a.key < b.key; });
    std::vector<Edge> edges(geometry_.edges);
    copy(true, at.edges, edges.data(), edges.size() * sizeof(Edge));
    for (uint64_t k = next_ - std::min<uint64_t>(next_, geometry_.horizon); k < next_; ++k) {
        s.edges.push_back(edges[k & (geometry_.edges - 1)]);
    }
    return s;
}

void Stage::drill(uint32_t shard, Pass pass, uint32_t after)
{
    within("shard", shard, 0, geometry_.shards - 1);
    const Drill drill{static_cast<uint32_t>(pass), after};
    Ready ready{};
    rt_.ask(shards_[shard], id<Drill>(), &drill, sizeof drill, &ready, sizeof ready, patience);
}

} // namespace denizen::transactions

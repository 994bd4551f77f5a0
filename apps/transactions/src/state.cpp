// SPDX-License-Identifier: Apache-2.0
// What a stage knows, in and out of the device: the arenas that customers lie in, profiles,
// snapshots.
#include <denizen/base/error.hpp>
#include <denizen/transactions/stage.hpp>

#include <algorithm>
#include <cstring>
#include <utility>

namespace denizen::transactions {

using namespace std::chrono_literals;

namespace {

constexpr uint64_t piece = 16u << 20; // bytes that are copied at once

} // namespace

// ---- memory

// One arena more, as large as all before if that is to be had.
void Stage::grow()
{
    const auto megabytes = [](uint64_t bytes) { return std::to_string(bytes >> 20) + " MB"; };
    const uint64_t left = most_memory_ - reserved_;
    uint64_t bytes = std::min(left, std::max(first_memory_, reserved_));
    std::string why = "the limit memory=" + std::to_string(most_memory_) +
                      " is reached; start with more, from the last snapshot";
    const Description& there = rt_.description();
    while (bytes >= least_region && arenas_.size() < max_regions) { // ends: it halves
        try {
            arenas_.emplace_back(there.on_gpu ? Device::gpu(there.ordinal) : Device::cpu(), bytes);
        } catch (const Error& error) {
            if (error.code() != Errc::exhausted) throw;
            why = std::string(error.what()) + "; free some, and call again";
            bytes /= 2;
            continue;
        }
        reserved_ += bytes;
        ask(std::vector<Grow>{
            {book_.ref(), reinterpret_cast<uint64_t>(arenas_.back().ref().map())}});
        return;
    }
    throw Error(Errc::exhausted,
                "there is no memory for one more customer: " + std::to_string(customers()) +
                    " lie in " + megabytes(reserved_) + " (records before " +
                    std::to_string(done_) + " are done, nothing is lost): " + why);
}

// Shards that have found no room get some, and go on.
void Stage::relieve()
{
    while (!full_.empty()) { // ends: each turn takes one away, or throws
        if (full_.back().regions == arenas_.size()) grow();
        send_step(full_.back().part, Pass::judge, full_.back().batch);
        full_.pop_back();
    }
}

uint64_t Stage::customers()
{
    std::vector<Taken> asked(shards_.size());
    for (uint32_t p = 0; p < asked.size(); ++p) asked[p] = {book_.ref(), p};
    uint64_t all = 0;
    for (const Ready& ready : ask(asked)) all += ready.value;
    return all;
}

// ---- profiles and customers

// Profiles, or customers as they were: each to the shard whose it is.
void Stage::place(const void* all, size_t count, size_t bytes, uint64_t (*customer_of)(const void*))
{
    const auto* from = static_cast<const unsigned char*>(all);
    const auto at_once = static_cast<size_t>(piece / bytes);
    if (count == 0) return;
    const Buffer buffer = rt_.buffer(std::min(count, at_once) * bytes, BufferKind::pinned);
    const auto shards = static_cast<uint32_t>(shards_.size());
    for (size_t at = 0; at < count; at += at_once) {
        const size_t n = std::min(at_once, count - at);
        const auto shard_of = [&](size_t k) {
            return transactions::shard_of(customer_of(from + (at + k) * bytes), shards);
        };
        std::vector<uint32_t> ends(shards + 1);
        for (size_t k = 0; k < n; ++k) ends[shard_of(k) + 1] += 1;
        for (uint32_t s = 0; s < shards; ++s) ends[s + 1] += ends[s];
        std::vector<Put> puts(shards);
        for (uint32_t s = 0; s < shards; ++s) {
            puts[s] = {book_.ref(), buffer.ref(),
                       ends[s],     ends[s + 1] - ends[s],
                       s,           bytes == sizeof(Customer)};
        }
        for (size_t k = 0; k < n; ++k) {
            std::memcpy(static_cast<char*>(buffer.cpu()) + ends[shard_of(k)]++ * bytes,
                        from + (at + k) * bytes, bytes);
        }
        std::vector<uint32_t> to(shards);
        for (uint32_t s = 0; s < shards; ++s) to[s] = s;
        while (!puts.empty()) { // ends: each shard has room for more, or grow() throws
            const std::vector<Ready> left = ask(puts, to);
            std::vector<Put> again;
            std::vector<uint32_t> whose;
            for (size_t k = 0; k < left.size(); ++k) {
                if (left[k].value == 0) continue;
                Put rest = puts[k];
                rest.first += rest.count - left[k].value;
                rest.count = left[k].value;
                again.push_back(rest);
                whose.push_back(to[k]);
            }
            if (!again.empty()) grow();
            puts = std::move(again);
            to = std::move(whose);
        }
    }
}

void Stage::put(const Profile* profiles, size_t count)
{
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
    place(profiles, count, sizeof(Profile),
          [](const void* p) { return static_cast<const Profile*>(p)->customer; });
}

// All customers, shard by shard.
void Stage::fetch(std::vector<Customer>& all)
{
    std::vector<Taken> asked(shards_.size());
    for (uint32_t p = 0; p < asked.size(); ++p) asked[p] = {book_.ref(), p};
    std::vector<Ready> left = ask(asked);
    const Buffer between = rt_.buffer(piece, BufferKind::pinned);
    const auto at_once = static_cast<uint32_t>(piece / sizeof(Customer));
    uint32_t p = 0;
    uint32_t first = 0;
    while (p < left.size()) { // ends: each turn takes some, or goes on to the next shard
        std::vector<Get> gets;
        std::vector<uint32_t> to;
        uint32_t at = 0;
        while (p < left.size() && at < at_once) { // ends likewise
            const uint32_t n = std::min(at_once - at, left[p].value - first);
            if (n != 0) {
                gets.push_back({book_.ref(), between.ref(), first, n, p, at});
                to.push_back(p);
            }
            at += n;
            first += n;
            if (first == left[p].value) {
                ++p;
                first = 0;
            }
        }
        ask(gets, to);
        const auto* from = reinterpret_cast<const Customer*>(between.cpu());
        all.insert(all.end(), from, from + at);
    }
}

// ---- snapshots

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
        ask(moves);
        if (out) std::memcpy(static_cast<char*>(memory) + at, between.cpu(), n);
    }
}

// The verdicts of a batch stay in the book until another one is launched in its place.
void Stage::note_outcomes(const Flying& f)
{
    std::vector<Verdict> verdicts(f.count);
    const uint64_t slot = f.batch % geometry_.depth * uint64_t{geometry_.batch};
    copy(true, offsets(geometry_).verdicts + slot * sizeof(Verdict), verdicts.data(),
         verdicts.size() * sizeof(Verdict));
    for (const Verdict& v : verdicts) outcomes_.push_back(static_cast<Outcome>(v.outcome));
}

Snapshot Stage::snapshot()
{
    settle();
    Snapshot s;
    s.rules = rules_;
    s.next = next_;
    s.horizon = geometry_.horizon;
    fetch(s.customers);
    // In an order that does not depend on shards.
    std::sort(s.customers.begin(), s.customers.end(),
              [](const Customer& a, const Customer& b) { return a.key < b.key; });
    std::vector<Edge> edges(geometry_.edges);
    copy(true, offsets(geometry_).edges, edges.data(), edges.size() * sizeof(Edge));
    for (uint64_t k = next_ - std::min<uint64_t>(next_, geometry_.horizon); k < next_; ++k) {
        s.edges.push_back(edges[k & (geometry_.edges - 1)]);
    }
    return s;
}

} // namespace denizen::transactions

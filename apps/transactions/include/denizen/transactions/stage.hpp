// SPDX-License-Identifier: Apache-2.0
// Transaction monitoring on a running program, the host's side: batches of records go in, alerts
// come out, in the order of the stream. Host only.
//
//   denizen::Runtime<denizen::transactions::Monitoring> rt(denizen::Device::automatic());
//   Stage stage(rt.untyped(), {});
//   stage.feed(records.data(), records.size());
//   for (const Alert& a : stage.drain()) ...
//
// Customers lie in arenas on the device; when those are full the stage adds one as large as all
// before, so nobody says in advance how many customers there are.
//
// The alerts depend on the records, the profiles and the rules alone: not on the device, the number
// of shards, how the stream was cut into calls, or on shards that failed. Not for several threads
// at once. What goes wrong is denizen::Error and names the thing, the limit and the way out.
#pragma once

#include <denizen/actor/any_runtime.hpp>
#include <denizen/memory/arena.hpp>
#include <denizen/transactions/detail/shard.hpp>

#include <array>
#include <deque>
#include <string>
#include <utility>
#include <vector>

namespace denizen::transactions {

inline constexpr nanoseconds patience = std::chrono::seconds(30); // with nothing done at all
inline constexpr uint64_t least_region = 512u << 10;              // bytes of an arena

// Whether `split` copies the half of each record that is looked at into the book, so that it
// crosses the bus once: not worth it for buffers that lie in the GPU's memory, nor on the CPU.
enum class CopyRecords { across_the_bus, always, never }; // the first: always on a GPU

struct StageOptions {
    uint32_t shards = 0;        // 0: one for each worker
    uint32_t batch = 0;         // most records of one batch; 0: 65,536 on a GPU, 8,192 on the CPU
    uint32_t depth = 3;         // batches under way, at most 8
    uint32_t horizon = 1 << 20; // records back to which round trips are followed
    uint64_t memory = 0;        // most bytes for customers; 0: as much as the device has
    Rules rules{};
    uint64_t first_memory = 64u << 20; // bytes for customers to begin with
    CopyRecords copy_records = CopyRecords::across_the_bus;
    bool keep_outcomes = false; // of each record, for take_outcomes()
};

// Records by what became of them. Each is one of the last four.
struct Counts {
    uint64_t records = 0;
    uint64_t alerts = 0;
    uint64_t restarts = 0; // of shards
    uint64_t of[outcomes] = {};
};

// All that a stage knows, between two records. Its file is one of the runtime's
// (docs/snapshots.md).
struct Snapshot {
    Rules rules;
    uint64_t next = 0; // sequence of the next record
    uint32_t horizon = 0;
    std::vector<Customer> customers;
    std::vector<Edge> edges; // those of the last places of the stream, up to `next`
};

// The file appears in one step: whoever dies meanwhile leaves the last one. Errc::exhausted,
// Errc::bad_argument: it cannot be written. Errc::bad_snapshot: it cannot be read, has been
// altered, or is of something else; the message says which.
void write_snapshot(const std::string& path, const Snapshot& snapshot);
Snapshot read_snapshot(const std::string& path);

// Errc::bad_argument, and which field, if there cannot be such rules; likewise for a profile.
void check(const Rules& rules);
void check(const Profile& profile);

// Errc::exhausted from any call below: there is no memory for one more customer. Nothing is lost:
// records before done() are done, their alerts can be had by take(), those after it wait. Each call
// tries again.
class Stage {
public:
    // `restore`: go on from there, with its rules, on whatever geometry.
    Stage(AnyRuntime& rt, const StageOptions& options, const Snapshot* restore = nullptr);
    // Waits for what is under way, at most 5 s, and ends the shards.
    ~Stage();
    Stage(const Stage&) = delete;
    Stage& operator=(const Stage&) = delete;

    // The next `count` records of the stream. Copied; waits while `depth` batches are under way.
    void feed(const Transaction* records, size_t count);
    // The same, of a buffer of the runtime (16-byte aligned), which must stay as it is until they
    // are done. Up to `batch` of them; nothing is copied by the host.
    void feed(const Buffer& records, uint32_t first, uint32_t count);

    // Alerts that are ready: of the first so many records of the stream, in its order, those of one
    // record by rule. Does not wait.
    std::vector<Alert> take();
    // The same in place of what `alerts` holds, whose memory is used again.
    void take(std::vector<Alert>& alerts);
    // The same when all that was fed has been looked at.
    std::vector<Alert> drain();
    // What became of the records that are done since the last call, in the stream's order, if
    // StageOptions say that they are kept.
    std::vector<Outcome> take_outcomes() { return std::exchange(outcomes_, {}); }
    // Sequences before this one are done.
    uint64_t done() const { return done_; }

    // Rules for the records that are fed from now on.
    void change(const Rules& rules);
    const Rules& rules() const { return rules_; }
    // Profiles for the records that are fed from now on; no customer twice.
    void put(const Profile* profiles, size_t count);

    Counts counts() const { return counts_; }
    uint64_t customers();                         // that are known
    uint64_t memory() const { return reserved_; } // bytes of the arenas they lie in
    const Geometry& geometry() const { return geometry_; }
    Snapshot snapshot();

    // Has a shard fail on purpose, once, in a pass, after so many of its records there; recovery
    // from it is no different from that of any other failure.
    void drill(uint32_t shard, Pass pass, uint32_t after);

private:
    struct Flying {
        uint32_t batch;
        uint64_t base;
        uint32_t count;
        uint32_t first;
        BufferRef records;
        bool finished = false;
        uint32_t alerts = 0;
    };

    template <class M>
    uint32_t id() const
    {
        return ids_[Monitoring::message_id<M>];
    }
    // Message k to shard to[k], or, without `to`, to shard k; all must answer.
    template <class M>
    std::vector<Ready> ask(const std::vector<M>& messages, const std::vector<uint32_t>& to = {})
    {
        std::vector<Address> shards(messages.size());
        for (size_t k = 0; k < shards.size(); ++k) shards[k] = shards_[to.empty() ? k : to[k]];
        std::vector<Ready> replies(messages.size());
        if (messages.empty()) return replies;
        rt_.ask_many(shards.data(), false, id<M>(), messages.data(), sizeof(M), sizeof(M),
                     messages.size(), id<Ready>(), replies.data(), sizeof(Ready), sizeof(Ready),
                     patience);
        return replies;
    }
    void open(const Snapshot* restore);
    void launch(BufferRef records, uint32_t first, uint32_t count);
    void send_step(uint32_t part, Pass pass, uint32_t batch);
    void tell_again(Address shard);
    void room();
    void settle();
    void note_outcomes(const Flying& f);
    bool pump();
    void wait_for(uint64_t& idle_since);
    bool land();
    void relieve();
    void grow();
    void place(const void* all, size_t count, size_t bytes, uint64_t (*customer_of)(const void*));
    void fetch(std::vector<Customer>& all);
    void copy(bool out, uint64_t offset, void* host, uint64_t bytes);

    AnyRuntime& rt_;
    Geometry geometry_{};
    Rules rules_;
    Counts counts_;
    std::vector<Address> shards_;
    Address supervisor_{nobody};
    std::array<uint32_t, 16> ids_{}; // of messages in the runtime's program
    Buffer book_;
    std::vector<Arena> arenas_;
    uint64_t reserved_ = 0; // by them
    uint64_t first_memory_;
    uint64_t most_memory_;
    std::vector<Full> full_;  // shards that wait for room
    std::vector<Buffer> own_; // for records that are copied, one for each batch under way
    std::deque<Flying> flying_;
    std::vector<Alert> arrived_; // of batches under way
    std::vector<Alert> ready_;
    std::vector<Outcome> outcomes_;
    bool keep_outcomes_;
    uint64_t next_ = 0;
    uint64_t done_ = 0;
    uint32_t batch_ = 0;
};

} // namespace denizen::transactions

// SPDX-License-Identifier: Apache-2.0
// Transaction monitoring on a running program, the host's side: batches of records go in, alerts
// come out, in the order of the stream. Host only.
//
//   denizen::Runtime<denizen::transactions::Monitoring> rt(denizen::Device::automatic());
//   Stage stage(rt.untyped(), {});
//   stage.feed(records.data(), records.size());
//   for (const Alert& a : stage.drain()) ...
//
// The alerts depend on the records, the profiles and the rules alone: not on the device, the number
// of shards, how the stream was cut into calls, or on shards that failed. Not for several threads
// at once. What goes wrong is denizen::Error and names the thing, the limit and the way out.
#pragma once

#include <denizen/any_runtime.hpp>
#include <denizen/transactions/shard.hpp>

#include <deque>
#include <vector>

namespace denizen::transactions {

// Whether `split` copies the half of each record that is looked at into the book, so that it
// crosses the bus once: not worth it for buffers that lie in the GPU's memory, nor on the CPU.
enum class CopyRecords { across_the_bus, always, never }; // the first: always on a GPU

struct StageOptions {
    uint32_t shards = 0;          // 0: one for each worker
    uint32_t customers = 1 << 16; // places, a power of two; seven eighths of them can be taken
    uint32_t batch = 0;           // most records of one batch; 0: 65,536 on a GPU, 8,192 on the CPU
    uint32_t depth = 3;           // batches under way, at most 8
    uint32_t horizon = 1 << 20;   // records back to which round trips are followed
    Rules rules{};
    CopyRecords copy_records = CopyRecords::across_the_bus;
};

// Records by what became of them. Each is one of the last five.
struct Counts {
    uint64_t records = 0;
    uint64_t alerts = 0;
    uint64_t restarts = 0; // of shards
    uint64_t of[outcomes] = {};
};

// All that a stage knows, between two records.
struct Snapshot {
    Rules rules;
    uint64_t next = 0; // sequence of the next record
    uint32_t horizon = 0;
    std::vector<Customer> customers;
    std::vector<Edge> edges; // those of the last places of the stream, up to `next`
};

// Errc::bad_argument, and which field, if there cannot be such rules; likewise for a profile.
void check(const Rules& rules);
void check(const Profile& profile);

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
    // The same when all that was fed has been looked at.
    std::vector<Alert> drain();
    // Sequences before this one are done.
    uint64_t done() const { return done_; }

    // Rules for the records that are fed from now on.
    void change(const Rules& rules);
    const Rules& rules() const { return rules_; }
    // Profiles for the records that are fed from now on; no customer twice.
    void put(const Profile* profiles, size_t count);

    Counts counts() const { return counts_; }
    uint32_t taken(); // places of the table
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
    uint32_t id() const;
    template <class M>
    std::vector<Ready> ask_all(const std::vector<M>& messages);
    void launch(BufferRef records, uint32_t first, uint32_t count);
    void send_step(uint32_t part, Pass pass, uint32_t batch);
    void tell_again(Address shard);
    void room();
    void settle();
    bool pump();
    void wait_for(uint64_t& idle_since);
    bool land();
    void check_room() const;
    void copy(bool out, uint64_t offset, void* host, uint64_t bytes);
    void open(const Snapshot* restore);

    AnyRuntime& rt_;
    Geometry geometry_{};
    Rules rules_;
    Counts counts_;
    std::vector<Address> shards_;
    Address supervisor_{nobody};
    Buffer book_;
    std::vector<Buffer> own_; // for records that are copied, one for each batch under way
    std::deque<Flying> flying_;
    std::vector<Alert> arrived_; // of batches under way
    std::vector<Alert> ready_;
    uint64_t next_ = 0;
    uint64_t done_ = 0;
    uint32_t batch_ = 0;
};

} // namespace denizen::transactions

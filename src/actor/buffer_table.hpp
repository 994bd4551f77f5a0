// SPDX-License-Identifier: Apache-2.0
// The host's half of the buffer table: which buffers there are, how many messages the host has sent
// that refer to each, and when one may go. memory/ref.hpp tells the protocol and why it is right.
#pragma once

#include "backend.hpp"
#include "memory/space.hpp"

#include <denizen/base/process.hpp>

#include <functional>
#include <mutex>
#include <string>
#include <vector>

namespace denizen {

// A node's part of it: its workers, and their copy of the table.
struct BufferNode {
    Backend* backend = nullptr;     // reads and writes the two below
    BufferEntry* entries = nullptr; // [count]
    const Status* status = nullptr; // [workers]
    uint32_t workers = 0;
};

class BufferTable : public std::enable_shared_from_this<BufferTable> {
public:
    // `make_space` is called when the first buffer is made.
    BufferTable(std::vector<BufferNode> nodes, std::function<std::shared_ptr<Space>()> make_space,
                uint32_t count);

    Buffer allocate(uint64_t bytes, BufferKind kind);
    Buffer wrap(void* pointer, uint64_t bytes, std::shared_ptr<void> owner);
    void close(BufferRef ref) noexcept;
    BufferStats stats();
    // Frees the closed buffers that nobody can reach any more.
    void collect();

    // The program is off its processors: everything that only messages kept goes. From now on the
    // backends are not used.
    void stop();
    // The last generation that this process has given out, and that it gives none up to `last`: the
    // messages of a snapshot refer to buffers of another process.
    static uint64_t last_generation();
    static void skip_generations(uint64_t last);

    // A handler that does not return may still use any of it: what is in the table stays for ever.
    void abandon();

    // Messages with these references came to the host: they are dropped from the count.
    void received(const std::vector<uint32_t>& offsets, const void* payload);
    // The memory behind these references, before received() drops them; null for one that is stale.
    std::vector<std::shared_ptr<Storage>> storage(const std::vector<uint32_t>& offsets,
                                                  const void* payload);

private:
    friend class HeldBuffers;

    struct Record {
        std::shared_ptr<Storage> storage; // null: the entry is free
        uint64_t generation = 0;
        uint64_t added = 0;   // references in messages from the host
        uint64_t dropped = 0; // and to it
        bool open = false;
        bool published = false; // the workers' tables have it
        // Once the workers' tables have it no more: their turns at that moment.
        std::shared_ptr<const std::vector<uint32_t>> turns;
    };

    Buffer enter(std::shared_ptr<Storage> storage);
    Record* find(BufferRef ref); // null if it is stale
    // True if the reference is counted now; false if its buffer is closed.
    bool add(BufferRef ref);
    void drop(BufferRef ref);
    void publish(uint32_t index);
    bool referred_to(uint32_t index) const;
    uint64_t read(const BufferNode& node, const uint64_t* word) const;
    void write(const BufferNode& node, uint64_t* to, const uint64_t* from, size_t count) const;
    std::shared_ptr<const std::vector<uint32_t>> read_turns() const;

    std::vector<BufferNode> nodes_;
    Process process_;
    std::mutex mutex_;
    std::function<std::shared_ptr<Space>()> make_space_;
    std::shared_ptr<Space> space_;
    std::vector<Record> records_;
    std::vector<uint32_t> free_;
    std::vector<uint32_t> waiting_; // closed, but a message may refer to them
    bool stopped_ = false;
};

// Counts the references of messages that are about to be sent. Those that sent() was not told of
// are taken back.
class HeldBuffers {
public:
    // `offsets`: where in a message its references lie. Errc::stale if one is closed; then none is
    // counted. `name` is the message's.
    HeldBuffers(BufferTable& table, const std::vector<uint32_t>& offsets, const void* messages,
                size_t stride, size_t count, const std::string& name);
    ~HeldBuffers();
    HeldBuffers(const HeldBuffers&) = delete;
    HeldBuffers& operator=(const HeldBuffers&) = delete;

    void sent(size_t n = 1) { begin_ += n; }

private:
    void take_back();

    BufferTable& table_;
    const std::vector<uint32_t>& offsets_;
    const unsigned char* messages_;
    size_t stride_;
    size_t begin_ = 0;
    size_t end_ = 0;
};

} // namespace denizen

// SPDX-License-Identifier: Apache-2.0
#include "buffer_table.hpp"

#include <denizen/base/error.hpp>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

namespace denizen {
namespace {

template <class Use>
void each_ref(const std::vector<uint32_t>& offsets, const unsigned char* message, Use&& use)
{
    for (const uint32_t offset : offsets) {
        BufferRef ref;
        std::memcpy(&ref, message + offset, sizeof ref);
        if (ref) {
            use(ref);
        }
    }
}

} // namespace

// ---- the handle

Buffer::Buffer(std::shared_ptr<BufferTable> table, std::shared_ptr<Storage> storage, BufferRef ref)
    : table_(std::move(table)), storage_(std::move(storage)), ref_(ref)
{
}

Buffer::Buffer(Buffer&& other) noexcept
    : table_(std::move(other.table_)), storage_(std::move(other.storage_)),
      ref_(std::exchange(other.ref_, {}))
{
}

Buffer& Buffer::operator=(Buffer&& other) noexcept
{
    if (this != &other) {
        close();
        table_ = std::move(other.table_);
        storage_ = std::move(other.storage_);
        ref_ = std::exchange(other.ref_, {});
    }
    return *this;
}

BufferRef Buffer::ref() const
{
    storage();
    return ref_;
}

const std::shared_ptr<Storage>& Buffer::storage() const
{
    if (!storage_) {
        throw Error(Errc::stale, "the buffer has been closed; use it before, or make another");
    }
    return storage_;
}

void Buffer::close() noexcept
{
    if (storage_) {
        storage_.reset(); // the table has it until no message does
        table_->close(ref_);
        table_.reset();
    }
}

// ---- making buffers

BufferTable::BufferTable(std::vector<BufferNode> nodes,
                         std::function<std::shared_ptr<Space>()> make_space, uint32_t count)
    : nodes_(std::move(nodes)), make_space_(std::move(make_space)), records_(count)
{
    for (uint32_t i = count; i-- > 0;) {
        free_.push_back(i);
    }
}

uint64_t BufferTable::read(const BufferNode& node, const uint64_t* word) const
{
    uint64_t value = 0;
    if (!node.backend->read(&value, word, sizeof value)) {
        throw Error(Errc::peer_dead, "the buffer table cannot be read: its processor is lost");
    }
    return value;
}

void BufferTable::write(const BufferNode& node, uint64_t* to, const uint64_t* from,
                        size_t count) const
{
    if (!node.backend->write(to, from, count * sizeof *from)) {
        throw Error(Errc::peer_dead, "the buffer table cannot be written: its processor is lost");
    }
}

Buffer BufferTable::allocate(uint64_t bytes, BufferKind kind)
{
    if (bytes == 0 || kind == BufferKind::external) {
        throw Error(Errc::bad_argument, bytes == 0 ? "a buffer has at least 1 byte"
                                                   : "wrap() makes external buffers, of memory "
                                                     "that is there already");
    }
    collect();
    std::shared_ptr<Space> from;
    {
        const std::lock_guard guard(mutex_);
        if (!space_) {
            space_ = make_space_();
        }
        from = space_;
    }
    return enter(from->allocate(bytes, kind));
}

Buffer BufferTable::wrap(void* pointer, uint64_t bytes, std::shared_ptr<void> owner)
{
    if (pointer == nullptr || bytes == 0) {
        throw Error(Errc::bad_argument, "there is no memory to wrap: a buffer has at least 1 byte");
    }
    collect();
    auto storage = std::make_shared<Storage>();
    storage->data = static_cast<unsigned char*>(pointer);
    storage->bytes = bytes;
    storage->kind = BufferKind::external;
    storage->owner = std::move(owner);
    return enter(std::move(storage));
}

namespace {

// Of all runtimes of this process: one's reference is never another's.
std::atomic<uint64_t> generations{0};

} // namespace

uint64_t BufferTable::last_generation() { return generations; }

void BufferTable::skip_generations(uint64_t last)
{
    uint64_t now = generations;
    while (now < last && !generations.compare_exchange_weak(now, last)) {
    } // ends: it only grows
}

Buffer BufferTable::enter(std::shared_ptr<Storage> storage)
{
    const std::lock_guard guard(mutex_);
    if (stopped_) {
        throw Error(Errc::closed, "the runtime is closed");
    }
    if (free_.empty()) {
        throw Error(Errc::exhausted, "all " + std::to_string(records_.size()) +
                                         " buffers are taken (messages still "
                                         "refer to " +
                                         std::to_string(waiting_.size()) +
                                         " that are closed); close some or raise buffers");
    }
    const uint32_t index = free_.back();
    free_.pop_back();
    Record& r = records_[index];
    r = {};
    r.storage = storage;
    r.generation = ++generations;
    r.open = true;
    return {shared_from_this(), std::move(storage), {r.generation << 24 | index}};
}

// ---- counting

BufferTable::Record* BufferTable::find(BufferRef ref)
{
    if (ref.index() >= records_.size()) {
        return nullptr;
    }
    Record& r = records_[ref.index()];
    return r.storage && r.generation == ref.generation() ? &r : nullptr;
}

bool BufferTable::add(BufferRef ref)
{
    Record* r = find(ref);
    if (r == nullptr || !r->open) {
        return false;
    }
    if (!r->published) {
        publish(ref.index());
    }
    ++r->added;
    return true;
}

void BufferTable::drop(BufferRef ref)
{
    if (Record* r = find(ref)) {
        ++r->dropped;
    }
}

// The first message that refers to a buffer brings it into the workers' tables: one that is never
// sent costs nothing there.
void BufferTable::publish(uint32_t index)
{
    Record& r = records_[index];
    const uint64_t entry[] = {reinterpret_cast<uint64_t>(r.storage->data), r.storage->bytes,
                              r.generation, 0, 0};
    static_assert(sizeof entry == offsetof(BufferEntry, dropped) + sizeof(BufferEntry::dropped));
    for (const BufferNode& node : nodes_) {
        write(node, &node.entries[index].address, entry, std::size(entry));
    }
    r.published = true;
}

void BufferTable::received(const std::vector<uint32_t>& offsets, const void* payload)
{
    const std::lock_guard guard(mutex_);
    each_ref(offsets, static_cast<const unsigned char*>(payload),
             [&](BufferRef ref) { drop(ref); });
}

std::vector<std::shared_ptr<Storage>> BufferTable::storage(const std::vector<uint32_t>& offsets,
                                                           const void* payload)
{
    const std::lock_guard guard(mutex_);
    std::vector<std::shared_ptr<Storage>> found;
    for (const uint32_t offset : offsets) {
        BufferRef ref;
        std::memcpy(&ref, static_cast<const unsigned char*>(payload) + offset, sizeof ref);
        const Record* r = ref ? find(ref) : nullptr;
        found.push_back(r != nullptr ? r->storage : nullptr);
    }
    return found;
}

// ---- letting go

void BufferTable::close(BufferRef ref) noexcept
{
    if (!process_.here()) {
        return; // the workers that may use it are not this process's
    }
    std::shared_ptr<Storage> gone; // its owner may call back: never with the mutex held
    try {
        {
            const std::lock_guard guard(mutex_);
            Record* r = find(ref);
            if (r == nullptr) {
                return;
            }
            r->open = false;
            if (!r->published) {
                gone = std::move(r->storage);
                free_.push_back(ref.index());
                return;
            }
            waiting_.push_back(ref.index());
        }
        collect();
    } catch (const std::exception&) { // a dead GPU: the buffer waits for the runtime's close
    }
}

bool BufferTable::referred_to(uint32_t index) const
{
    const Record& r = records_[index];
    uint64_t dropped = r.dropped;
    uint64_t added = r.added;
    // Every `dropped` before any `added`.
    for (const BufferNode& node : nodes_) {
        dropped += read(node, &node.entries[index].dropped);
    }
    for (const BufferNode& node : nodes_) {
        added += read(node, &node.entries[index].added);
    }
    return static_cast<int64_t>(added - dropped) > 0; // less: a handler released what it never kept
}

std::shared_ptr<const std::vector<uint32_t>> BufferTable::read_turns() const
{
    auto turns = std::make_shared<std::vector<uint32_t>>();
    std::vector<Status> told;
    for (const BufferNode& node : nodes_) {
        told.resize(node.workers);
        if (!node.backend->read(told.data(), node.status, node.workers * sizeof(Status))) {
            throw Error(Errc::peer_dead, "the workers cannot be read: their processor is lost");
        }
        for (const Status& status : told) {
            turns->push_back(status.turn);
        }
    }
    return turns;
}

void BufferTable::collect()
{
    std::vector<std::shared_ptr<Storage>> gone; // after the mutex, as in close()
    const std::lock_guard guard(mutex_);
    if (waiting_.empty() || stopped_) {
        return;
    }
    bool leaving = false;
    std::vector<uint32_t> taken; // out of the workers' tables just now
    for (const uint32_t index : waiting_) {
        leaving |= records_[index].turns != nullptr;
        if (records_[index].turns || referred_to(index)) {
            continue;
        }
        const uint64_t none = 0;
        for (const BufferNode& node : nodes_) {
            write(node, &node.entries[index].generation, &none, 1);
        }
        taken.push_back(index);
    }
    if (!leaving && taken.empty()) {
        return;
    }
    // A handler that began before may hold what it resolved; one that begins later finds no entry.
    // Partner of the buffer_fence() between a worker's turn and its look at the generation.
    heavy_fence();
    const auto now = read_turns();
    for (const uint32_t index : taken) {
        records_[index].turns = now;
    }
    std::erase_if(waiting_, [&](uint32_t index) {
        Record& r = records_[index];
        if (!r.turns) {
            return false;
        }
        for (size_t w = 0; w < now->size(); ++w) {
            if (((*r.turns)[w] & 1) != 0 && (*now)[w] == (*r.turns)[w]) {
                return false; // still in that turn
            }
        }
        gone.push_back(std::move(r.storage));
        free_.push_back(index);
        return true;
    });
}

BufferStats BufferTable::stats()
{
    collect();
    BufferStats s;
    const std::lock_guard guard(mutex_);
    for (const Record& r : records_) {
        if (r.storage) {
            ++(r.open ? s.open : s.waiting);
            s.bytes += r.storage->bytes;
        }
    }
    return s;
}

void BufferTable::stop()
{
    std::vector<std::shared_ptr<Storage>> gone; // after the mutex, as in close()
    const std::lock_guard guard(mutex_);
    stopped_ = true;
    waiting_.clear();
    for (Record& r : records_) {
        gone.push_back(std::move(r.storage)); // an open handle has it too
    }
}

void BufferTable::abandon()
{
    const std::lock_guard guard(mutex_);
    stopped_ = true;
    new std::vector<Record>(std::move(records_));
    records_.clear();
    waiting_.clear();
}

// ---- sending

HeldBuffers::HeldBuffers(BufferTable& table, const std::vector<uint32_t>& offsets,
                         const void* messages, size_t stride, size_t count, const std::string& name)
    : table_(table), offsets_(offsets), messages_(static_cast<const unsigned char*>(messages)),
      stride_(stride)
{
    if (offsets.empty()) {
        return;
    }
    const std::lock_guard guard(table.mutex_);
    for (; end_ < count; ++end_) {
        const unsigned char* message = messages_ + end_ * stride_;
        for (size_t k = 0; k < offsets.size(); ++k) {
            BufferRef ref;
            std::memcpy(&ref, message + offsets[k], sizeof ref);
            if (!ref || table.add(ref)) {
                continue;
            }
            while (k-- > 0) { // those of this message
                std::memcpy(&ref, message + offsets[k], sizeof ref);
                table.drop(ref);
            }
            take_back();
            throw Error(Errc::stale, name + " refers to a buffer that has been closed or is "
                                            "another runtime's; keep the buffer open until its "
                                            "messages are sent");
        }
    }
}

HeldBuffers::~HeldBuffers()
{
    if (begin_ == end_ || offsets_.empty()) {
        return;
    }
    const std::lock_guard guard(table_.mutex_);
    take_back();
}

void HeldBuffers::take_back()
{
    for (; begin_ < end_; ++begin_) {
        each_ref(offsets_, messages_ + begin_ * stride_, [&](BufferRef ref) { table_.drop(ref); });
    }
}

} // namespace denizen

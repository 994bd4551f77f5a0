// SPDX-License-Identifier: Apache-2.0
// A buffer: memory that messages refer to instead of carrying it. Host only; Runtime::buffer() and
// Runtime::wrap() make them, memory/ref.hpp is what handlers see.
//
//   denizen::Buffer data = rt.buffer(1 << 20);
//   rt.send(worker, Scale{data.ref(), 2.0f});
//   data.close(); // or the destructor: the message still finds it
#pragma once

#include <denizen/memory/ref.hpp>

#include <memory>

namespace denizen {

enum class BufferKind : uint32_t {
    device = 0, // GPU memory from a stream-ordered pool; the CPU cannot reach it
    pinned,     // page-locked CPU memory, which the GPU reads and writes across the bus
    mapped,     // GPU memory that the CPU can write (write-combined: read it on the GPU)
    ordinary,   // CPU memory: every kind is, where the program runs on CPU threads
    external,   // somebody else's, kept alive
};

inline const char* to_string(BufferKind kind)
{
    constexpr const char* names[] = {"device", "pinned", "mapped", "host", "external"};
    return names[static_cast<uint32_t>(kind)];
}

class BufferTable;

// Memory with its owner, shared by a Buffer, by the messages that refer to it, and by whoever else
// keeps it: it is given back with the last of them.
struct Storage {
    unsigned char* data = nullptr; // where workers find it
    unsigned char* cpu = nullptr;  // where the CPU finds it; null where it cannot
    uint64_t bytes = 0;
    BufferKind kind = BufferKind::ordinary;
    std::shared_ptr<void> owner;
};

// The handle of a buffer. Closing it ends new sends; the memory goes when no message refers to it.
// Harmless to keep beyond its runtime. Not safe for several threads at once.
class Buffer {
public:
    Buffer() = default;
    Buffer(std::shared_ptr<BufferTable> table, std::shared_ptr<Storage> storage, BufferRef ref);
    ~Buffer() { close(); }
    Buffer(Buffer&& other) noexcept;
    Buffer& operator=(Buffer&& other) noexcept;

    // For messages. Errc::stale if the buffer is closed.
    BufferRef ref() const;
    // The memory, for whoever outlives the handle. Errc::stale if the buffer is closed.
    const std::shared_ptr<Storage>& storage() const;
    void* data() const { return storage()->data; }
    void* cpu() const { return storage()->cpu; }
    uint64_t bytes() const { return storage()->bytes; }
    BufferKind kind() const { return storage()->kind; }

    bool closed() const { return storage_ == nullptr; }
    void close() noexcept;

private:
    std::shared_ptr<BufferTable> table_;
    std::shared_ptr<Storage> storage_;
    BufferRef ref_;
};

struct BufferStats {
    uint32_t open = 0;    // handles that are open
    uint32_t waiting = 0; // closed, but a message still refers to them
    uint64_t bytes = 0;   // of both
};

} // namespace denizen

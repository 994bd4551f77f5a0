// SPDX-License-Identifier: Apache-2.0
// What a handler sends to the host to read and write files and sockets, and what comes back. The
// host answers if it has a Service (io/service.hpp); without one these are messages like any other.
//
//   ctx.send(denizen::host, io::Write<64>{file, tag, length, 0, io::next, {...}});
//   void on(const io::Done& done, auto& ctx) { ... }   // to whoever sent it, once for each request
//
// A program lists those that it uses among its Messages, and always Done. `tag` comes back as it
// is. Requests of one actor are begun in the order it sent them. On one file, reads at an offset go
// on side by side; anything else waits for what came before it, and what comes after waits for it.
// On a socket, reads wait for reads and writes for writes.
#pragma once

#include <denizen/base/target.hpp>
#include <denizen/memory/ref.hpp>

namespace denizen::io {

enum class Op : uint32_t {
    open = 1,
    connect,
    accept,
    read,
    write,
    read_into,
    write_from,
    sync,
    close,
};

// What an Open asks for, and what a service allows, by bits.
enum Mode : uint32_t {
    mode_read = 1,
    mode_write = 2,
    mode_append = 4,     // writes go to the end, whatever their offset
    mode_create = 8,     // the file is made if there is none
    mode_exclusive = 16, // Error::exists if there is one
    mode_truncate = 32,
};

enum class Error : uint32_t {
    none = 0,
    denied,  // the service does not allow the mode or the place, or the system the access
    escapes, // the path leads out of the root: absolute, with "..", or over a symbolic link
    not_found,
    exists,
    not_a_file,  // a folder, a device, a pipe
    bad_file,    // no file is open by this number, or not in this mode
    bad_range,   // longer than the message, the buffer, or any Data of the program
    stale,       // the buffer was freed
    unreachable, // the CPU cannot reach the buffer: use kind pinned
    limit,       // the service has as many files open, or waits on sockets, as it may
    no_space,
    too_large, // beyond the largest file
    ended,     // the other side of the socket is gone
    refused,   // nobody listens there
    timeout,
    cancelled, // the service was closed
    failed,    // any other: `number` is the system's
};

DENIZEN_HD constexpr const char* to_string(Error e)
{
    switch (e) {
    case Error::none: return "none";
    case Error::denied: return "denied";
    case Error::escapes: return "escapes";
    case Error::not_found: return "not found";
    case Error::exists: return "exists";
    case Error::not_a_file: return "not a file";
    case Error::bad_file: return "bad file";
    case Error::bad_range: return "bad range";
    case Error::stale: return "stale";
    case Error::unreachable: return "unreachable";
    case Error::limit: return "limit";
    case Error::no_space: return "no space";
    case Error::too_large: return "too large";
    case Error::ended: return "ended";
    case Error::refused: return "refused";
    case Error::timeout: return "timeout";
    case Error::cancelled: return "cancelled";
    case Error::failed: return "failed";
    }
    return "unknown";
}

// As an offset: where the last one has ended. (A socket has no other.)
inline constexpr uint64_t next = ~uint64_t{0};

inline constexpr uint32_t path_bytes = 112;

// Answered by a Done with the file's number, and its length as `bytes`.
struct Open {
    static constexpr Op io_op = Op::open;
    uint32_t tag;
    uint32_t mode;            // of Mode
    uint8_t path[path_bytes]; // below the service's root; ends with a zero, or is as long as this
};

// To one of the addresses that the service may connect to, counted from 0. A Done with the socket's
// number.
struct Connect {
    static constexpr Op io_op = Op::connect;
    uint32_t tag;
    uint32_t place;
};

// The next connection to one of the addresses on which the service listens. A Done with the
// socket's number.
struct Accept {
    static constexpr Op io_op = Op::accept;
    uint32_t tag;
    uint32_t place;
};

// Answered by a Data with what there is up to `length` bytes: of a file fewer only at its end, of a
// socket what has come, at least one. None: the end. The shortest Data of the program that holds
// `length` bytes; a failure comes as the same.
struct Read {
    static constexpr Op io_op = Op::read;
    uint32_t file;
    uint32_t tag;
    uint32_t length;
    uint32_t unused;
    uint64_t offset; // or `next`
};

template <uint32_t N>
struct Data {
    static constexpr uint32_t io_data = N;
    uint32_t file;
    uint32_t tag;
    uint32_t error; // of Error
    uint32_t length;
    uint8_t bytes[N];
};

// All of it, or an error; `bytes` of its Done tells how much.
template <uint32_t N>
struct Write {
    static constexpr Op io_op = Op::write;
    static constexpr uint32_t io_capacity = N;
    uint32_t file;
    uint32_t tag;
    uint32_t length;
    uint32_t unused;
    uint64_t offset; // or `next`
    uint8_t bytes[N];
};

// The same with a buffer that CPU and workers reach (kind pinned). Until the Done has come it is
// the service's.
struct ReadInto {
    static constexpr Op io_op = Op::read_into;
    uint32_t file;
    uint32_t tag;
    uint64_t offset; // or `next`
    BufferRef buffer;
    uint64_t begin; // in the buffer, in bytes
    uint64_t length;
    DENIZEN_BUFFERS(buffer)
};
struct WriteFrom {
    static constexpr Op io_op = Op::write_from;
    uint32_t file;
    uint32_t tag;
    uint64_t offset; // or `next`
    BufferRef buffer;
    uint64_t begin;
    uint64_t length;
    DENIZEN_BUFFERS(buffer)
};

// Done once what was written before is on its medium (fdatasync).
struct Sync {
    static constexpr Op io_op = Op::sync;
    uint32_t file;
    uint32_t tag;
};

// Reads and accepts of a socket that wait are answered first (Error::ended).
struct Close {
    static constexpr Op io_op = Op::close;
    uint32_t file;
    uint32_t tag;
};

struct Done {
    static constexpr bool io_done = true;
    uint32_t file;
    uint32_t tag;
    uint32_t error;  // of Error
    uint32_t number; // the system's errno, 0 if there is none
    uint64_t bytes;
    uint32_t op; // of Op: what was asked
    uint32_t unused;
};

} // namespace denizen::io

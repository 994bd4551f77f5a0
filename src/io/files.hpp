// SPDX-License-Identifier: Apache-2.0
// What is open, and which requests wait for it. A file has one lane, a socket two: what it reads
// and what it writes. A lane's requests begin in their order; see begins_beside().
#pragma once

#include "io/engine.hpp"

#include <denizen/actor/any_runtime.hpp>
#include <denizen/io/messages.hpp>

#include <cstdint>
#include <deque>
#include <memory>
#include <unistd.h>
#include <utility>
#include <vector>

namespace denizen::io {

inline constexpr uint32_t max_files = 4096;

// A descriptor of the system's, closed with it.
class Descriptor {
public:
    explicit Descriptor(int fd = -1) : fd_(fd) {}
    ~Descriptor() { set(-1); }
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;

    int get() const { return fd_; }
    void set(int fd)
    {
        if (fd_ >= 0) {
            ::close(fd_);
        }
        fd_ = fd;
    }

private:
    int fd_;
};

struct Request {
    Op op = Op::open;
    uint32_t tag = 0;
    uint32_t file = 0;
    Address from;
    Message message;                   // has the data of a Write
    std::shared_ptr<Storage> memory;   // has that of a ReadInto or WriteFrom
    std::vector<unsigned char> answer; // the Data that a Read becomes
    uint32_t answer_type = 0;
    unsigned char* data = nullptr;
    uint64_t length = 0;
    uint64_t done = 0; // bytes of it
    uint64_t offset = 0;
    enum class Counted : uint8_t { not_at_all, under_way, socket_write } counted{};

    bool reads() const { return op == Op::read || op == Op::read_into; }
    bool writes() const { return op == Op::write || op == Op::write_from; }
    uint64_t left() const { return length - done; }
};

using Requests = std::deque<std::unique_ptr<Request>>;

struct Lane {
    Requests waiting;
    uint32_t running = 0; // operations
    bool alone = false;   // one of them lets no other begin
};

struct File {
    int fd = -1;
    uint32_t generation = 0;
    uint32_t mode = 0;
    bool taken = false;
    bool socket = false;
    uint64_t position = 0; // of `next`
    Lane lanes[2];
    std::unique_ptr<Request> closing; // then new requests find no file

    Lane& lane_of(const Request& r) { return lanes[socket && r.writes() ? 1 : 0]; }
    bool idle() const
    {
        return lanes[0].waiting.empty() && lanes[1].waiting.empty() && lanes[0].running == 0 &&
               lanes[1].running == 0;
    }
    // Whether it may go on beside others of its kind.
    bool begins_beside(const Request& r) const { return !socket && r.reads() && r.offset != next; }
    // Whether two writes are one operation.
    bool continues(const Request& before, const Request& r) const
    {
        return before.writes() && r.writes() &&
               ((before.offset == next && r.offset == next) || socket ||
                (mode & mode_append) != 0 ||
                (before.offset != next && r.offset == before.offset + before.length));
    }
};

// One operation, for one request or for several writes that follow each other.
struct Running : Operation {
    Requests requests;
    uint32_t place = 0; // of its file, or listener
};

// The open files by number: generation:20 | place:12. A number that was closed is not given out
// again before its place has been taken a million times.
class Files {
public:
    explicit Files(uint32_t count) : files_(count) {}
    ~Files()
    {
        for (const File& f : files_) {
            if (f.fd >= 0) {
                ::close(f.fd);
            }
        }
    }
    Files(const Files&) = delete;
    Files& operator=(const Files&) = delete;

    // A place, or the count if all are taken.
    uint32_t take()
    {
        for (uint32_t i = 0; i < files_.size(); ++i) {
            File& f = files_[i];
            if (!f.taken) {
                const uint32_t generation = (f.generation + 1) & 0xfffff;
                f = File{};
                f.generation = generation == 0 ? 1 : generation; // 0 is no file's number
                f.taken = true;
                ++open_;
                return i;
            }
        }
        return static_cast<uint32_t>(files_.size());
    }
    void give_back(uint32_t place)
    {
        File& f = files_[place];
        if (f.fd >= 0) {
            ::close(f.fd);
            f.fd = -1;
        }
        f.taken = false;
        --open_;
    }

    uint32_t count() const { return static_cast<uint32_t>(files_.size()); }
    uint32_t open() const { return open_; }
    File& operator[](uint32_t place) { return files_[place]; }
    uint32_t number_of(uint32_t place) const
    {
        return files_[place].generation * max_files + place;
    }
    // The place of an open file, or the count.
    uint32_t find(uint32_t number) const
    {
        const uint32_t place = number % max_files;
        return place < files_.size() && files_[place].taken && files_[place].fd >= 0 &&
                       !files_[place].closing && files_[place].generation == number / max_files
                   ? place
                   : count();
    }

private:
    std::vector<File> files_;
    uint32_t open_ = 0;
};

} // namespace denizen::io

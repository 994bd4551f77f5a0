// SPDX-License-Identifier: Apache-2.0
// A group's member, one rank of it, as Group sees it: memory that all ranks reach, and a way to run
// a call. Two of them, CPU (cpu.cpp) and GPU (gpu.cpp); a third one shares no memory (nccl.cpp).
// Also what makes ranks of processes: the bootstrap on a host (bootstrap.cpp) and between hosts
// (meeting.cpp).
#pragma once

#include <denizen/base/process.hpp>
#include <denizen/group/detail/mailbox.hpp>
#include <denizen/group/group.hpp>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace denizen::group {

class Member {
public:
    virtual ~Member() = default;

    // Completes `call`: all ranks come to the same from the same sizes, types and places.
    // Errc::bad_argument.
    virtual void plan(Call& call) const;
    // On the CPU: done on return. On a GPU: enqueued. `call` is planned.
    virtual void run(const Call& call, void* stream) = 0;
    virtual void run_norm(const NormCall& call, void* stream); // Errc::bad_argument over NCCL
    virtual bool lacks_norm() const { return false; }
    virtual void add_norm(const Code&) {}
    virtual void wait(void* stream) = 0;
    // Throws the group's error, if it has one.
    virtual void look() const;
    // Of any rank's memory, while it may be in use.
    virtual void read(void* to, const void* from, size_t bytes) const = 0;
    // Takes part in the check of all links, with all other ranks at the same time: begin on all,
    // then end on all. Errc::failed.
    virtual void begin_check() = 0;
    virtual void end_check() = 0;

    // Group::lacks() and add_code().
    virtual bool lacks(const Call& call, bool resident) const;
    virtual void add_code(const Code& code, bool resident);

    // Memory for `teams` that will serve, and the teams. `breath_ns`: of a GPU's. Not where no
    // memory is shared.
    virtual Mailbox open_mailbox(uint32_t teams);
    virtual void put_on(const Mailbox& box, uint64_t breath_ns);
    // Call `number` has been posted: teams that have left before it come back. Throws if they
    // cannot.
    virtual void posted(uint32_t number);
    virtual uint32_t launches() const { return 0; }     // how often they had to come
    virtual uint64_t incarnations() const { return 0; } // kernels; on the CPU as launches()
    // The teams do calls of rare types too, from now on. Waits until they have left once, on a GPU.
    // Errc::bad_argument: there are no such kernels.
    virtual void serve_rare() {}
    // They have been told to leave by a message.
    virtual void close_mailbox(const Mailbox& box);

    // For a result of `bytes` (all_gather, all_to_all: of one rank's part).
    const Choice& choice(Kind kind, uint64_t bytes) const;

    // Where `ref` lies that the rank's processors reach it, from the check of the links on.
    virtual const GroupRef* placed() const { return &ref; }

    // Where allocate() takes from.
    virtual unsigned char* heap() const { return ref.heap(ref.rank); }

    Process process; // that may call
    GroupRef ref;
    bool shares_memory = true; // else only number and rank, time limit and heap of `ref` are set
    bool on_gpu = false;
    std::string device;
    std::vector<GroupLink> links;
    std::vector<Choice> table; // of all kinds; at least one row is all_reduce's
    uint64_t allocated = 0;
    double least_gbs = 0;
};

using Members = std::vector<std::unique_ptr<Member>>;

Members make_cpu_members(const Layout& layout);
Members make_gpu_members(const Layout& layout, int first, const Code& code);

// What the options say; without a table of theirs, a built-in one. Errc::bad_argument.
Layout layout_of(uint32_t ranks, bool on_gpu, const GroupOptions& options);
std::vector<Choice> table_of(bool on_gpu, const Layout& layout, const GroupOptions& options);
// Before the check of the links.
void equip(Member& member, const GroupOptions& options);

// What a rank tells the others when it joins. Plain data: it goes through a socket.
struct Hello {
    uint32_t magic = 0x647a6e03; // and version
    uint32_t rank = 0;
    Layout layout;
    uint32_t choices = 0;
    Choice table[max_rows] = {};
    uint64_t bytes = 0; // of the memory behind the descriptor
    uint32_t on_gpu = 0;
    int32_t process = 0;
    unsigned char uuid[16] = {}; // of the GPU
    char device[64] = {};
};

// Every rank's greeting and descriptor. The caller closes the descriptors.
struct Peers {
    std::vector<Hello> hello;
    std::vector<int> memory;
};

// Exchanges greetings and descriptors with all other ranks over the socket at `path`.
// Errc::timeout, bad_argument, peer_dead.
Peers meet_peers(const std::string& path, const Hello& mine, int memory,
                 std::chrono::nanoseconds timeout);

std::unique_ptr<Member> join_cpu(const std::string& path, Hello hello,
                                 std::chrono::nanoseconds timeout);
std::unique_ptr<Member> join_gpu(const std::string& path, Hello hello,
                                 std::chrono::nanoseconds timeout, int ordinal, const Code& code);

// What every engine asks of a call: ranges, alignment, no overlap. Errc::bad_argument.
void check_call(const Member& member, const Call& call);
void check_norm(const Member& member, const NormCall& call);

// The error that rank 0 tells.
inline Error told_error(uint32_t code, const char* text)
{
    const auto known = static_cast<Errc>(code);
    return {std::string_view(to_string(known)) == "unknown" ? Errc::failed : known,
            *text != '\0' ? text : "rank 0 gave up the group's start and does not say why"};
}

// For the texts of errors.
std::string text_of(const Call& call);
std::string no_more_use(const Member& member);

// Throws the error of a poisoned group.
[[noreturn]] void throw_verdict(const Member& member, Verdict verdict);

} // namespace denizen::group

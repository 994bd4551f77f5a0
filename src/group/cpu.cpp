// SPDX-License-Identifier: Apache-2.0
// Ranks on the CPU: threads of one process over plain memory, or processes over memfds that the
// bootstrap has handed around. The protocol and its text are those of the GPU.
#include "member.hpp"

#include <denizen/base/interrupt.hpp>
#include <denizen/base/threads.hpp>
#include <denizen/group/detail/links.hpp>
#include <denizen/group/detail/perform.hpp>
#include <denizen/wire/wait.hpp>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <sys/mman.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

namespace denizen::group {
namespace {

// Zero-filled pages, of a descriptor or (-1) of nobody else.
class Pages {
public:
    Pages(uint64_t bytes, int fd) : bytes_(bytes)
    {
        struct stat file{};
        if (fd >= 0 && (fstat(fd, &file) != 0 || static_cast<uint64_t>(file.st_size) < bytes)) {
            throw Error(Errc::bad_argument, "a rank of the group brings memory of " +
                                                std::to_string(file.st_size) + " bytes; it has " +
                                                std::to_string(bytes) +
                                                ": is it of this version of denizen?");
        }
        const int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE : MAP_SHARED;
        void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
        if (at == MAP_FAILED) {
            throw Error(Errc::exhausted,
                        "no memory for a rank of a group: " + std::to_string(bytes) +
                            " bytes: " + std::strerror(errno));
        }
        at_ = static_cast<unsigned char*>(at);
    }
    ~Pages() { munmap(at_, bytes_); }
    Pages(const Pages&) = delete;
    Pages& operator=(const Pages&) = delete;

    unsigned char* at() const { return at_; }

private:
    uint64_t bytes_;
    unsigned char* at_ = nullptr;
};

class CpuMember final : public Member {
public:
    explicit CpuMember(std::vector<std::shared_ptr<Pages>> pages, const Layout& layout,
                       uint32_t rank)
        : pages_(std::move(pages))
    {
        ref.layout = layout;
        ref.rank = rank;
        for (uint32_t r = 0; r < layout.ranks; ++r) ref.memory[r] = pages_[r]->at();
        device = "CPU";
    }
    ~CpuMember() override
    {
        if (!checker_.empty()) give_up(); // its check would wait for one that has not begun
        checker_.join();
    }

    void run(const Call& call, void*) override
    {
        wait(nullptr); // first: an error's text names the last call, which must not change any more
        if (!perform_all(call)) wait(nullptr);
    }

    void run_norm(const NormCall& call, void*) override
    {
        wait(nullptr);
        bool good = true;
        for (uint32_t c = 0; good && c < call.channels; ++c) { // as in perform_all()
            Channel channel(ref, c);
            good = all_reduce_norm(channel, call);
            channel.close();
        }
        if (!good) wait(nullptr);
    }

    void wait(void*) override
    {
        const uint32_t word = load<Scope::system>(&ref.control(ref.rank)->poison);
        if (word != 0) throw_verdict(*this, Verdict::of(word));
    }

    void read(void* to, const void* from, size_t bytes) const override
    {
        for (size_t i = 0; i < bytes; ++i) { // others may be writing: byte by byte, atomically
            static_cast<unsigned char*>(to)[i] =
                load<Scope::system>(static_cast<const unsigned char*>(from) + i);
        }
    }

    // In a thread, since every rank waits for every other: one thread may begin the checks of
    // several ranks in turn.
    void begin_check() override
    {
        checker_.start(1, "checker", [this](uint32_t) {
            Channel channel(ref, 0);
            broken_ = check_links(channel);
            channel.close();
            checked_.store(true, std::memory_order_release); // partner: end_check()
        });
    }

    void end_check() override
    {
        Backoff idle;
        // Ends with the check, which ends at the group's deadline.
        while (!checked_.load(std::memory_order_acquire)) {
            try {
                check_interrupt();
            } catch (...) {
                give_up();
                checker_.join();
                throw;
            }
            idle.pause();
        }
        checker_.join();
        if (broken_ == poisoned) wait(nullptr);
        if (broken_ != 0) {
            throw Error(Errc::failed, "rank " + std::to_string(ref.rank) +
                                          " and a peer do not share memory (mask " +
                                          std::to_string(broken_) + ")");
        }
    }

    Mailbox open_mailbox(uint32_t) override
    {
        post_ = std::make_unique<Post>();
        Post& p = *post_;
        Mailbox box{};
        box.post = box.inbox = box.relay = p.post;
        box.left = &p.left;
        box.failed = &p.failed;
        box.done = &p.done;
        box.stay = &p.stay;
        box.teams = 1;
        box.term.state = &p.term;
        box.term.blocks = 1;
        return box;
    }
    void put_on(const Mailbox& box, uint64_t) override
    {
        box_ = box;
        launches_ = 0;
        launch();
    }
    void posted(uint32_t number) override
    {
        // The team has left before a call that was posted by now: nobody would take it.
        const Packet left = Direct::load(box_.left);
        if (left.sequence == 0 || static_cast<int32_t>(number - left.sequence) < 0) return;
        Direct::store(box_.left, Packet{});
        try {
            launch();
        } catch (...) { // no thread to be had: the next look tries again
            Direct::store(box_.left, left);
            throw;
        }
    }
    uint32_t launches() const override { return launches_; }
    uint64_t incarnations() const override { return launches_; }
    void close_mailbox(const Mailbox&) override
    {
        server_.join();
        post_.reset();
    }

private:
    void launch()
    {
        server_.join(); // it has left
        post_->term.over = 0;
        server_.start(1, "server", [this](uint32_t) {
            Packet messages[2 * post_packets];
            serve(box_, 0, 1, messages, [this](const Call& call) { return perform_all(call); });
        });
        ++launches_;
    }

    // Tells all ranks that this one has been interrupted: what any of them waits for ends.
    void give_up()
    {
        uint32_t word = 0;
        const uint32_t mine = Verdict{Errc::closed, ref.rank, ref.rank}.word();
        if (compare_exchange<Scope::system>(&ref.control(0)->verdict, word, mine)) word = mine;
        for (uint32_t r = 0; r < ref.ranks(); ++r) {
            store<Scope::system>(&ref.control(r)->poison, word);
        }
    }

    struct Post { // one team: nothing to relay
        Packet post[posts * post_packets] = {};
        Packet left = {};
        Packet failed = {};
        uint32_t done = 0;
        Stay stay{1, 0, 0, 0};
        Term term;
    };

    bool perform_all(const Call& call)
    {
        // One thread does the work of all channels, one after the other. Every rank takes them in
        // the same order, so none waits for a channel that a peer has yet to come to.
        bool good = true;
        for (uint32_t c = 0; good && c < call.channels; ++c) {
            Channel channel(ref, c);
            good = perform(channel, call);
            channel.close();
        }
        return good;
    }

    std::vector<std::shared_ptr<Pages>> pages_;
    Threads checker_;
    std::atomic<bool> checked_{false};
    Threads server_;
    std::unique_ptr<Post> post_;
    Mailbox box_{};
    uint32_t launches_ = 0;
    uint32_t broken_ = 0;
};

} // namespace

Members make_cpu_members(const Layout& layout)
{
    std::vector<std::shared_ptr<Pages>> pages;
    for (uint32_t r = 0; r < layout.ranks; ++r) {
        pages.push_back(std::make_shared<Pages>(layout.bytes(), -1));
    }
    Members members;
    for (uint32_t r = 0; r < layout.ranks; ++r) {
        members.push_back(std::make_unique<CpuMember>(pages, layout, r));
    }
    return members;
}

std::unique_ptr<Member> join_cpu(const std::string& path, Hello hello,
                                 std::chrono::nanoseconds timeout)
{
    hello.bytes = hello.layout.bytes();
    std::strncpy(hello.device, "CPU", sizeof hello.device - 1);
    const int mine = memfd_create("denizen-group", MFD_CLOEXEC);
    if (mine < 0 || ftruncate(mine, static_cast<off_t>(hello.bytes)) != 0) {
        if (mine >= 0) close(mine);
        throw Error(Errc::exhausted,
                    std::string("no shared memory for a rank of a group: ") + std::strerror(errno));
    }
    Peers peers;
    try {
        peers = meet_peers(path, hello, mine, timeout);
    } catch (...) {
        close(mine);
        throw;
    }
    close(mine); // peers.memory has a descriptor of this rank's memory, too
    std::vector<std::shared_ptr<Pages>> pages;
    try {
        for (const int fd : peers.memory) pages.push_back(std::make_shared<Pages>(hello.bytes, fd));
    } catch (...) {
        for (const int fd : peers.memory) close(fd);
        throw;
    }
    for (const int fd : peers.memory) close(fd);
    auto member = std::make_unique<CpuMember>(std::move(pages), hello.layout, hello.rank);
    // Rank 0's table counts: ranks that chose by different tables would call different algorithms.
    const Hello& first = peers.hello[0];
    member->table.assign(first.table, first.table + first.choices);
    for (uint32_t r = 0; r < hello.layout.ranks; ++r) {
        if (r != hello.rank) member->links.push_back({r, peers.hello[r].device, 0, true});
    }
    return member;
}

} // namespace denizen::group

// SPDX-License-Identifier: Apache-2.0
// Ranks that are processes: the bootstrap and what it refuses, and ranks that are killed at any
// moment. Children are made by fork() before this process has threads, and end by _exit().
#include <denizen/base/atomic.hpp>
#include <denizen/base/clock.hpp>
#include <denizen/group/group.hpp>

#include <gtest/gtest.h>

#include "group/member.hpp"
#include "group/random.hpp"
#include "group/seen.hpp"
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace denizen;
using namespace denizen::group;

namespace {

// What a child tells, in memory shared with this process.
struct Told {
    Errc code;
    uint32_t rounds; // done so far
    char text[400];
};

class Children {
public:
    explicit Children(uint32_t n)
    {
        void* const at = mmap(nullptr, sizeof(Told) * n, PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        told_ = static_cast<Told*>(at);
        processes_.resize(n);
    }
    ~Children()
    {
        for (const pid_t p : processes_) {
            if (p > 0) kill(p, SIGKILL);
        }
        wait_all();
        munmap(told_, sizeof(Told) * processes_.size());
    }

    void start(uint32_t i, const std::function<void(Told&)>& body)
    {
        processes_[i] = fork();
        if (processes_[i] != 0) return;
        alarm(60); // whatever happens, nothing stays
        try {
            body(told_[i]);
        } catch (const Error& error) {
            std::strncpy(told_[i].text, error.what(), sizeof told_[i].text - 1);
            told_[i].code = error.code();
        }
        _exit(0);
    }
    void end(uint32_t i) { kill(processes_[i], SIGKILL); }
    // How each ended: 0, or the signal.
    std::vector<int> wait_all()
    {
        std::vector<int> signals;
        for (pid_t& p : processes_) {
            int status = 0;
            if (p > 0) waitpid(p, &status, 0);
            p = 0;
            signals.push_back(WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
        }
        return signals;
    }
    Told& told(uint32_t i) { return told_[i]; }

private:
    Told* told_;
    std::vector<pid_t> processes_;
};

class Processes : public testing::Test {
protected:
    void SetUp() override
    {
        char folder[] = "/tmp/denizen-group-XXXXXX";
        ASSERT_NE(mkdtemp(folder), nullptr);
        folder_ = folder;
        path_ = folder_ + "/socket";
    }
    void TearDown() override
    {
        unlink(path_.c_str());
        rmdir(folder_.c_str());
    }

    std::string folder_;
    std::string path_;
};

GroupOptions patient(int ms)
{
    GroupOptions o;
    o.timeout = std::chrono::milliseconds(ms);
    return o;
}

// All-reduces until an error, each checked.
void reduce_for_ever(Group& g, Told& told)
{
    std::vector<int32_t> x(3000);
    for (;;) { // ends by an error, or by a signal
        const uint64_t count = 1 + told.rounds * 97 % x.size();
        for (uint64_t i = 0; i < count; ++i) {
            x[i] = static_cast<int32_t>(told.rounds + i) * static_cast<int32_t>(g.rank() + 1);
        }
        g.all_reduce(x.data(), x.data(), count, Type::i32);
        const auto factor = static_cast<int32_t>(g.ranks() * (g.ranks() + 1) / 2);
        for (uint64_t i = 0; i < count; ++i) {
            if (x[i] != static_cast<int32_t>(told.rounds + i) * factor) {
                throw Error(Errc::failed, "wrong sum");
            }
        }
        ++told.rounds;
    }
}

// What rank 0 answers: its error, or what each rank has said.
struct Answer {
    uint32_t code = 0;
    char text[512] = {};
    Hello hello[max_ranks];
};

// Somebody of this user who answers as rank 0 does, but for one thing.
TEST_F(Processes, ARankZeroThatIsNone)
{
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path_.c_str(), sizeof address.sun_path - 1);
    const auto error_with = [&](auto&& change, off_t memory_bytes, Errc code = Errc::bad_argument) {
        const int listener = socket(AF_UNIX, SOCK_SEQPACKET, 0);
        fchmod(listener, 0600);
        EXPECT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
        listen(listener, 1);
        Seen error;
        std::thread rank_1([&] {
            error = seen([&] { Group::join(path_, 1, 2, Device::cpu(), patient(20'000)); });
        });
        const int line = accept(listener, nullptr, nullptr);
        Answer answer;
        EXPECT_EQ(recv(line, &answer.hello[1], sizeof(Hello), 0),
                  static_cast<ssize_t>(sizeof(Hello)));
        answer.hello[0] = answer.hello[1];
        answer.hello[0].rank = 0;
        change(answer);
        const int memory = memfd_create("rank", 0);
        EXPECT_EQ(ftruncate(memory, memory_bytes), 0);
        const int descriptors[] = {memory, memory};
        alignas(cmsghdr) char control[CMSG_SPACE(sizeof descriptors)] = {};
        iovec part{&answer, sizeof answer};
        msghdr header{};
        header.msg_iov = &part;
        header.msg_iovlen = 1;
        header.msg_control = control;
        header.msg_controllen = sizeof control;
        cmsghdr* const c = CMSG_FIRSTHDR(&header);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof descriptors);
        std::memcpy(CMSG_DATA(c), descriptors, sizeof descriptors);
        EXPECT_EQ(sendmsg(line, &header, 0), static_cast<ssize_t>(sizeof answer));
        rank_1.join();
        for (const int fd : {memory, line, listener}) close(fd);
        unlink(path_.c_str());
        EXPECT_EQ(error.code, code) << error.text;
        return error.text;
    };
    const auto nothing = [](Answer&) {};
    const std::string none = "is no rank 0 of this group";
    using Changes = std::vector<std::function<void(Hello&)>>;
    const Changes changes = {
        [](Hello& h) { h.choices = 5000; },
        [](Hello& h) { h.choices = 0; },
        [](Hello& h) { h.table[0].kind = static_cast<Kind>(kinds); },
        [](Hello& h) { h.table[0].kind = h.table[1].kind = Kind::broadcast; }, // none of all_reduce
        [](Hello& h) { // more of all_reduce than a kernel takes along
            h.choices = max_choices + 1;
            std::fill_n(h.table, h.choices, h.table[0]);
        },
        [](Hello& h) { h.table[0].algorithm = static_cast<Algorithm>(77); },
        [](Hello& h) { h.layout.channels += 1; },
        [](Hello& h) { std::memset(h.device, 'x', sizeof h.device); },
        [](Hello& h) { h.bytes = 1; },
        [](Hello& h) { h.magic ^= 1; },
    };
    for (const auto& change : changes) {
        for (const uint32_t rank : {0u, 1u}) {
            EXPECT_NE(error_with([&](Answer& a) { change(a.hello[rank]); }, 1 << 30).find(none),
                      std::string::npos);
        }
    }
    EXPECT_NE(error_with(nothing, 0).find("brings memory of 0 bytes"), std::string::npos);
    const auto unknown = [](Answer& a) {
        a.code = 4711;
        a.text[0] = 'x';
    };
    EXPECT_EQ(error_with(unknown, 0, Errc::failed), "x");
    const auto silent = [](Answer& a) { a.code = static_cast<uint32_t>(Errc::timeout); };
    EXPECT_NE(error_with(silent, 0, Errc::timeout).find("does not say why"), std::string::npos);
}

} // namespace

TEST_F(Processes, FourReduceAndGather)
{
    Children children(4);
    for (uint32_t r = 0; r < 4; ++r) {
        children.start(r, [&](Told& told) {
            GroupOptions o = patient(20'000);
            o.heap_bytes = 1 << 20;
            if (r == 0) o.table = {{0, Algorithm::pull_twice, 2}}; // rank 0's is everyone's
            Group g = Group::join(path_, r, 4, Device::cpu(), o);
            told.rounds = g.table().size() == 1 && g.links().size() == 3 ? 1 : 0;
            auto* const x = static_cast<float*>(g.allocate(40'000));
            auto* const y = static_cast<float*>(g.allocate(40'000));
            for (int i = 0; i < 10'000; ++i) x[i] = static_cast<float>(i + static_cast<int>(r));
            g.all_reduce(x, y, 10'000, Type::f32, Op::avg);
            bool right = true;
            for (int i = 0; i < 10'000; ++i) right &= y[i] == static_cast<float>(i) + 1.5f;
            const auto mine = static_cast<int32_t>(r * r);
            int32_t all[4] = {};
            g.all_gather(&mine, all, 1, Type::i32);
            right &= all[0] == 0 && all[1] == 1 && all[2] == 4 && all[3] == 9;
            g.barrier();
            if (!right) throw Error(Errc::failed, "wrong result");
            ++told.rounds;
        });
    }
    EXPECT_EQ(children.wait_all(), std::vector<int>(4, 0));
    for (uint32_t r = 0; r < 4; ++r) {
        EXPECT_EQ(children.told(r).rounds, 2u) << children.told(r).text;
    }
    EXPECT_NE(access(path_.c_str(), F_OK), 0) << "the socket is still there";
}

TEST_F(Processes, SocketIsItsOwnersAlone)
{
    Children children(1);
    children.start(0, [&](Told&) { Group::join(path_, 0, 2, Device::cpu(), patient(20'000)); });
    struct stat file{};
    for (int i = 0; i < 2000 && lstat(path_.c_str(), &file) != 0; ++i) usleep(1000);
    EXPECT_EQ(file.st_mode & 0777, 0600u);
    EXPECT_TRUE(S_ISSOCK(file.st_mode));
}

TEST_F(Processes, BootstrapNamesWhoIsMissing)
{
    Children children(2);
    children.start(0, [&](Told&) { Group::join(path_, 0, 4, Device::cpu(), patient(700)); });
    children.start(1, [&](Told&) { Group::join(path_, 2, 4, Device::cpu(), patient(700)); });
    children.wait_all();
    for (uint32_t i = 0; i < 2; ++i) {
        EXPECT_EQ(children.told(i).code, Errc::timeout) << children.told(i).text;
        EXPECT_NE(std::strstr(children.told(i).text, "rank 1, 3 of 4 did not come"), nullptr)
            << children.told(i).text;
    }
    children.start(0, [&](Told&) { Group::join(path_, 1, 2, Device::cpu(), patient(200)); });
    children.wait_all();
    EXPECT_EQ(children.told(0).code, Errc::timeout);
    EXPECT_NE(std::strstr(children.told(0).text, "rank 0 did not make"), nullptr);
}

TEST_F(Processes, BootstrapRefuses)
{
    const auto both = [&](uint32_t rank, uint32_t ranks, uint32_t slots) {
        Children children(2);
        children.start(0, [&](Told&) { Group::join(path_, 0, 2, Device::cpu(), patient(5000)); });
        children.start(1, [&](Told&) {
            GroupOptions o = patient(5000);
            o.slots = slots;
            Group::join(path_, rank, ranks, Device::cpu(), o);
        });
        children.wait_all();
        EXPECT_EQ(children.told(0).code, Errc::bad_argument) << children.told(0).text;
        EXPECT_EQ(children.told(1).code, Errc::bad_argument) << children.told(1).text;
        EXPECT_STREQ(children.told(0).text, children.told(1).text);
        return std::string(children.told(0).text);
    };
    EXPECT_NE(both(1, 2, 77).find("other options"), std::string::npos);
    EXPECT_NE(both(1, 3, 0).find("came to a group of 2"), std::string::npos);
}

TEST_F(Processes, PathsThatOthersCouldOpen)
{
    const auto code_of = [&](const std::string& path) {
        try {
            Group::join(path, 1, 2, Device::cpu(), patient(100));
        } catch (const Error& error) {
            return error.code();
        }
        return Errc::ok;
    };
    EXPECT_EQ(code_of("@abstract"), Errc::bad_argument);
    EXPECT_EQ(code_of(std::string("\0abstract", 9)), Errc::bad_argument);
    EXPECT_EQ(code_of(""), Errc::bad_argument);
    EXPECT_EQ(code_of(path_ + std::string("\0b", 2)), Errc::bad_argument); // it would be path_
    EXPECT_EQ(code_of(std::string(200, 'x')), Errc::bad_argument);
    // A socket that everybody can open, whoever made it.
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path_.c_str(), sizeof address.sun_path - 1);
    ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    chmod(path_.c_str(), 0666);
    listen(fd, 1);
    EXPECT_EQ(code_of(path_), Errc::bad_argument);
    close(fd);
}

// 50 times: a rank is killed, during the start or later. All others end with the same error.
TEST_F(Processes, KilledAtAnyMoment)
{
    Random random(7);
    uint32_t while_running = 0;
    for (int turn = 0; turn < 50; ++turn) {
        const uint32_t n = 2 + random() % 3;
        const uint32_t victim = random() % n;
        Children children(n);
        for (uint32_t r = 0; r < n; ++r) {
            children.start(r, [&](Told& told) {
                GroupOptions o = patient(250);
                o.table = {{2000, Algorithm::one_shot, 1},    {4000, Algorithm::two_shot, 2},
                           {6000, Algorithm::pull, 1},        {8000, Algorithm::push, 1},
                           {10000, Algorithm::push_twice, 2}, {0, Algorithm::pull_twice, 2}};
                Group g = Group::join(path_, r, n, Device::cpu(), o);
                reduce_for_ever(g, told);
            });
        }
        if (turn % 5 != 0) { // else as soon as possible
            const uint64_t until = now_ns() + 200'000'000;
            const uint32_t rounds = random() % 50;
            while (load<Scope::system>(&children.told(victim).rounds) < rounds &&
                   now_ns() < until) {
                usleep(100);
            }
        }
        usleep(random() % 2000);
        children.end(victim);
        const uint64_t begin = now_ns();
        const std::vector<int> ends = children.wait_all();
        EXPECT_LT(now_ns() - begin, 30'000'000'000u) << "somebody hung";
        bool running = true;
        const Told* first = nullptr;
        for (uint32_t r = 0; r < n; ++r) {
            if (r == victim) continue;
            EXPECT_EQ(ends[r], 0) << "turn " << turn << " rank " << r;
            const Told& told = children.told(r);
            running &= told.rounds > 0;
            if (first == nullptr) first = &told;
            EXPECT_NE(told.code, Errc::ok);
            EXPECT_NE(told.code, Errc::failed) << told.text;
        }
        if (!running) continue; // the start has errors of its own
        ++while_running;
        for (uint32_t r = 0; r < n; ++r) {
            if (r == victim) continue;
            EXPECT_EQ(children.told(r).code, Errc::peer_dead) << children.told(r).text;
            EXPECT_STREQ(children.told(r).text, first->text);
        }
    }
    EXPECT_GT(while_running, 10u);
}

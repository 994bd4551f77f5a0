// SPDX-License-Identifier: Apache-2.0
// Ranks that meet over TCP, and those of them that NCCL joins, over a fake driver and a fake NCCL
// (fake_nccl.cpp): the bootstrap, what it refuses, every collective, what NCCL cannot do, and ranks
// that do not come. Ranks are threads here; in the last tests processes.
#include "../src/group/nccl.hpp"
#include "../src/group/proof.hpp"
#include "group/calls.hpp"
#include "group/seen.hpp"
#include "support/threads.hpp"

#include <denizen/base/clock.hpp>
#include <denizen/group/resident.hpp>

#include <gtest/gtest.h>

#include <arpa/inet.h>
#include <csignal>
#include <cstdlib>
#include <dlfcn.h>
#include <functional>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace denizen;
using namespace denizen::group;
using denizen::test::on_threads;

namespace {

// Before anybody asks for a driver.
const bool faked = [] {
    setenv("DENIZEN_NCCL", DENIZEN_FAKE_NCCL, 1);
    return dlopen(DENIZEN_FAKE_NCCL, RTLD_NOW | RTLD_GLOBAL) != nullptr;
}();

// A port that nobody has now.
std::string free_address()
{
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), size), 0);
    getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
    close(fd);
    return "tcp://127.0.0.1:" + std::to_string(ntohs(address.sin_port));
}

// Somebody who is connected to `address`, once somebody listens there.
int stranger(const std::string& address)
{
    sockaddr_in where{};
    where.sin_family = AF_INET;
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    where.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(16))));
    for (int i = 0; i < 5000; ++i) {
        const int fd = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(fd, reinterpret_cast<sockaddr*>(&where), sizeof where) == 0) return fd;
        close(fd);
        usleep(1000);
    }
    return -1;
}

GroupOptions with_token(std::chrono::milliseconds timeout, Engine engine = Engine::automatic)
{
    GroupOptions o;
    o.timeout = timeout;
    o.engine = engine;
    o.token = "a secret of this test";
    return o;
}

// body(group) on a thread of each rank's own; what it threw, and what join() did.
std::vector<Seen> on_ranks(uint32_t n, const GroupOptions& o,
                           const std::function<void(Group&)>& body)
{
    const std::string address = free_address();
    std::vector<Seen> all(n);
    on_threads(n, [&](uint32_t r) {
        all[r] = seen([&] {
            Group g = Group::join(address, r, n, Device::gpu(static_cast<int>(r)), o);
            body(g);
        });
    });
    return all;
}

void all_good(const std::vector<Seen>& all)
{
    for (const Seen& one : all) EXPECT_EQ(one.code, Errc::ok) << one.text;
}

} // namespace

TEST(Network, RanksOfOneHostShareMemory)
{
    const std::string address = free_address();
    std::vector<Seen> all(3);
    on_threads(3, [&](uint32_t r) {
        all[r] = seen([&] {
            Group g =
                Group::join(address, r, 3, Device::cpu(), with_token(std::chrono::seconds(20)));
            EXPECT_STREQ(g.engine(), "memory");
            int32_t x = static_cast<int32_t>(r) + 1;
            g.all_reduce(&x, &x, 1, Type::i32);
            EXPECT_EQ(x, 6);
            g.barrier();
        });
    });
    all_good(all);
}

// FIPS 180-4's examples and RFC 4231, cases 1, 2, 3 and 6.
TEST(Network, ProofsAreThoseOfTheStandards)
{
    const auto hex = [](const Digest& d) {
        std::string text;
        for (const unsigned char c : d) {
            for (const int digit : {c >> 4, c & 15}) text += "0123456789abcdef"[digit];
        }
        return text;
    };
    EXPECT_EQ(hex(sha256({})), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    EXPECT_EQ(hex(sha256({"a", "bc"})),
              "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    EXPECT_EQ(hex(sha256({"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"})),
              "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    EXPECT_EQ(hex(sha256({std::string(1'000'000, 'a')})),
              "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    EXPECT_EQ(hex(hmac(std::string(20, '\x0b'), {"Hi There"})),
              "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    EXPECT_EQ(hex(hmac("Jefe", {"what do ya want ", "for nothing?"})),
              "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    EXPECT_EQ(hex(hmac(std::string(20, '\xaa'), {std::string(50, '\xdd')})),
              "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
    EXPECT_EQ(hex(hmac(std::string(131, '\xaa'),
                       {"Test Using Larger Than Block-Size Key - Hash Key First"})),
              "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
    EXPECT_FALSE(same(nonce(), nonce()));
}

TEST(Network, NamesWhoIsMissing)
{
    const std::string address = free_address();
    std::vector<Seen> all(2);
    on_threads(2, [&](uint32_t i) {
        all[i] = seen([&] {
            Group::join(address, 2 * i, 4, Device::cpu(),
                        with_token(std::chrono::milliseconds(500)));
        });
    });
    for (const Seen& one : all) {
        EXPECT_EQ(one.code, Errc::timeout) << one.text;
        EXPECT_NE(one.text.find("rank 1, 3 of 4 did not come"), std::string::npos) << one.text;
    }
    const Seen alone = seen([&] {
        Group::join(address, 1, 2, Device::cpu(), with_token(std::chrono::milliseconds(100)));
    });
    EXPECT_EQ(alone.code, Errc::timeout);
    EXPECT_NE(alone.text.find("rank 0 did not listen"), std::string::npos) << alone.text;
}

// Who knocks, says nothing, talks nonsense or has another token is no reason for the ranks to fail.
TEST(Network, StrangersChangeNothing)
{
    const std::string address = free_address();
    std::vector<Seen> all(4);
    on_threads(4, [&](uint32_t r) {
        if (r == 3) {
            const int silent = stranger(address);
            const int noisy = stranger(address);
            const std::string noise(10'000, 'x');
            send(noisy, noise.data(), noise.size(), MSG_NOSIGNAL);
            close(stranger(address));
            usleep(100'000);
            close(noisy);
            close(silent);
            return;
        }
        all[r] = seen([&] {
            if (r == 1) usleep(200'000); // after the others
            GroupOptions o = with_token(std::chrono::seconds(20));
            if (r == 2) o.token = "something else";
            Group g = Group::join(address, r == 0 ? 0 : 1, 2, Device::cpu(), o);
            g.barrier();
        });
    });
    EXPECT_EQ(all[0].code, Errc::ok) << all[0].text;
    EXPECT_EQ(all[1].code, Errc::ok) << all[1].text;
    EXPECT_EQ(all[2].code, Errc::bad_argument) << all[2].text;
}

TEST(Network, AnotherTokenIsTold)
{
    const std::string address = free_address();
    std::vector<Seen> all(2);
    on_threads(2, [&](uint32_t r) {
        all[r] = seen([&] {
            GroupOptions o = with_token(std::chrono::milliseconds(700));
            if (r == 1) o.token = "something else";
            Group::join(address, r, 2, Device::cpu(), o);
        });
    });
    EXPECT_EQ(all[1].code, Errc::bad_argument);
    EXPECT_NE(all[1].text.find("another token"), std::string::npos) << all[1].text;
    EXPECT_EQ(all[0].code, Errc::timeout);
    EXPECT_NE(all[0].text.find("1 came with another token"), std::string::npos) << all[0].text;
}

TEST(Network, RefusesWhatDoesNotFit)
{
    const auto both = [&](uint32_t rank, uint32_t ranks, Engine engine) {
        const std::string address = free_address();
        std::vector<Seen> all(2);
        on_threads(2, [&](uint32_t r) {
            all[r] = seen([&] {
                const auto time = std::chrono::seconds(5);
                if (r == 0) Group::join(address, 0, 2, Device::cpu(), with_token(time));
                if (r == 1) {
                    Group::join(address, rank, ranks, Device::cpu(), with_token(time, engine));
                }
            });
        });
        EXPECT_EQ(all[0].code, Errc::bad_argument) << all[0].text;
        EXPECT_EQ(all[0].text, all[1].text);
        return all[0].text;
    };
    EXPECT_NE(both(2, 3, Engine::automatic).find("came to a group of 2"), std::string::npos);
    EXPECT_NE(both(1, 2, Engine::memory).find("other options"), std::string::npos);
}

TEST(Network, RefusesArguments)
{
    const auto why = [](const std::string& address, GroupOptions o, Device device = Device::cpu()) {
        const Seen error = seen([&] { Group::join(address, 1, 2, device, o); });
        EXPECT_EQ(error.code, Errc::bad_argument) << error.text;
        return error.text;
    };
    const GroupOptions good = with_token(std::chrono::milliseconds(100));
    GroupOptions short_token = good;
    short_token.token = "short";
    GroupOptions over_nccl = good;
    over_nccl.engine = Engine::nccl;
    EXPECT_NE(why("tcp://127.0.0.1:1", short_token).find("token of 8 to 127"), std::string::npos);
    for (const char* bad : {"tcp://", "tcp://host", "tcp://:80", "tcp://127.0.0.1:0",
                            "tcp://127.0.0.1:70000", "tcp://127.0.0.1:port"}) {
        EXPECT_NE(why(bad, good).find("tcp://HOST:PORT"), std::string::npos) << bad;
    }
    EXPECT_NE(why(std::string("tcp://127.0.0.1\0b:80", 20), good).find("tcp://HOST:PORT"),
              std::string::npos);
    EXPECT_NE(why("tcp://127.0.0.1:1", over_nccl).find("is for GPUs"), std::string::npos);
    EXPECT_NE(why("/tmp/some/socket", over_nccl, Device::gpu()).find("meet over TCP"),
              std::string::npos);
}

TEST(OverNccl, EveryCollectiveTypeAndOperation)
{
    ASSERT_TRUE(faked);
    for (const uint32_t n : {2u, 3u}) {
        std::vector<Call> calls;
        uint32_t turn = 0;
        for (const Kind kind : every_collective) {
            for (const uint64_t count : {0, 1, 1000, 40'000}) {
                for (uint32_t type = 0; type < types; ++type, ++turn) {
                    Call call;
                    call.kind = kind;
                    call.type = static_cast<Type>(type);
                    const bool whole =
                        call.type == Type::i32 || call.type == Type::i64 || call.type == Type::u8;
                    call.op = static_cast<Op>(turn % (whole ? 3 : ops)); // no avg
                    call.algorithm = Algorithm::automatic;
                    call.channels = 0;
                    call.root = turn % n;
                    call.count = count;
                    calls.push_back(call);
                }
            }
        }
        std::vector<std::vector<Bytes>> in(calls.size()), out(calls.size());
        for (size_t c = 0; c < calls.size(); ++c) {
            for (uint32_t r = 0; r < n; ++r) {
                in[c].push_back(input(calls[c].type, r,
                                      in_elements(calls[c].kind, calls[c].count, n),
                                      static_cast<uint32_t>(c)));
            }
            out[c].resize(n);
        }
        const GroupOptions o = with_token(std::chrono::seconds(60), Engine::nccl);
        all_good(on_ranks(n, o, [&](Group& g) {
            EXPECT_STREQ(g.engine(), "nccl");
            EXPECT_TRUE(g.on_gpu());
            EXPECT_EQ(g.links().size(), n - 1);
            EXPECT_EQ(g.links()[0].device, "Fake GPU");
            EXPECT_TRUE(g.table().empty());
            for (size_t c = 0; c < calls.size(); ++c) {
                Call call = calls[c];
                Bytes& mine = out[c][g.rank()];
                mine.resize(out_elements(call.kind, call.count, n) * size_of(call.type));
                call.in = in[c][g.rank()].data();
                call.out = mine.data();
                g.run(call);
                if (c % 7 == 0) g.wait();
            }
            g.barrier();
            g.wait();
        }));
        for (size_t c = 0; c < calls.size(); ++c) {
            for (uint32_t r = 0; r < n; ++r) {
                EXPECT_EQ(out[c][r], expected(calls[c], in[c], r)) << describe(calls[c], n);
            }
        }
    }
}

TEST(OverNccl, MemoryIsAllocated)
{
    GroupOptions o = with_token(std::chrono::seconds(20), Engine::nccl);
    o.heap_bytes = 1024;
    all_good(on_ranks(2, o, [](Group& g) {
        auto* const x = static_cast<float*>(g.allocate(400)); // the fake's memory is the host's
        EXPECT_EQ(x[99], 0);
        for (int i = 0; i < 100; ++i) x[i] = static_cast<float>(g.rank());
        g.all_reduce(x, x, 100, Type::f32, Op::avg);
        g.wait();
        EXPECT_EQ(x[99], 0.5f);
        EXPECT_EQ(seen([&] { g.allocate(1024); }).code, Errc::exhausted);
    }));
}

TEST(OverNccl, RefusesWhatItCannotDo)
{
    const GroupOptions o = with_token(std::chrono::seconds(20), Engine::nccl);
    all_good(on_ranks(2, o, [](Group& g) {
        std::vector<float> x(100), y(100);
        std::vector<int32_t> i(100);
        const auto why = [&](const std::function<void()>& use) {
            const Seen error = seen(use);
            EXPECT_EQ(error.code, Errc::bad_argument) << error.text;
            return error.text;
        };
        EXPECT_NE(why([&] {
                      g.all_reduce(i.data(), i.data(), 9, Type::i32, Op::avg);
                  }).find("use sum, and divide"),
                  std::string::npos);
        EXPECT_NE(why([&] {
                      g.all_to_all(x.data(), x.data(), 9, Type::f32);
                  }).find("must not be the same"),
                  std::string::npos);
        EXPECT_NE(why([&] {
                      Call call;
                      call.kind = Kind::all_reduce;
                      call.algorithm = Algorithm::one_shot;
                      call.count = 9;
                      call.in = x.data();
                      call.out = y.data();
                      g.run(call);
                  }).find("NCCL has its own"),
                  std::string::npos);
        EXPECT_NE(why([&] { ResidentGroup resident(g); }).find("no kernels that stay"),
                  std::string::npos);
        EXPECT_NE(why([&] { g.ref(); }).find("share no memory"), std::string::npos);
        why([&] { g.all_reduce(x.data(), x.data() + 1, 50, Type::f32); });
        why([&] { g.broadcast(x.data(), x.data(), 1, Type::f32, 2); });
        g.barrier(); // none of that was an error of the group
        g.wait();
    }));
}

TEST(OverNccl, WhoDoesNotCallInTime)
{
    const GroupOptions o = with_token(std::chrono::milliseconds(1000), Engine::nccl);
    all_good(on_ranks(2, o, [](Group& g) {
        if (g.rank() == 1) {
            usleep(1'500'000); // alive, but elsewhere
            return;
        }
        std::vector<float> x(1000);
        const Seen error = seen([&] {
            g.all_reduce(x.data(), x.data(), 1000, Type::f32, Op::max);
            g.wait();
        });
        EXPECT_EQ(error.code, Errc::peer_dead) << error.text;
        EXPECT_NE(error.text.find("rank 0 waited 1 s for the other ranks in all_reduce of 1000 "
                                  "f32, max (NCCL)"),
                  std::string::npos)
            << error.text;
        for (const auto& again : // for good
             {seen([&] { g.check(); }), seen([&] { g.barrier(); }), seen([&] { g.wait(); })}) {
            EXPECT_EQ(again.code, Errc::peer_dead);
            EXPECT_EQ(again.text, error.text);
        }
    }));
}

TEST(OverNccl, WhatNcclFindsByItself)
{
    setenv("FAKE_NCCL_ERROR_AFTER", "3", 1);
    const GroupOptions o = with_token(std::chrono::seconds(20), Engine::nccl);
    all_good(on_ranks(2, o, [](Group& g) {
        std::vector<float> x(10);
        const auto call = [&] {
            g.all_reduce(x.data(), x.data(), 10, Type::f32);
            g.wait();
        };
        call(); // the second: the first is join()'s own
        const uint64_t begin = now_ns();
        const Seen error = seen(call);
        EXPECT_LT(now_ns() - begin, 15'000'000'000u) << "long before the deadline";
        EXPECT_EQ(error.code, Errc::peer_dead) << error.text;
        EXPECT_NE(error.text.find("remote process exited"), std::string::npos) << error.text;
        EXPECT_NE(error.text.find("told by the fake"), std::string::npos) << error.text;
    }));
    unsetenv("FAKE_NCCL_ERROR_AFTER");
}

// A rank that met the others, and was gone before NCCL started.
TEST(OverNccl, StartHasADeadline)
{
    const Seen error = seen([] {
        join_nccl(nccl::new_id(), 0, 2, 0,
                  with_token(std::chrono::milliseconds(300), Engine::nccl));
    });
    EXPECT_EQ(error.code, Errc::timeout) << error.text;
    EXPECT_NE(error.text.find("not all ranks of 2 came to NCCL"), std::string::npos) << error.text;
}

// Nor does anybody wait for NCCL to give up.
TEST(OverNccl, AnAbortThatTakesLongIsNotWaitedFor)
{
    setenv("FAKE_NCCL_ABORT_TAKES_S", "3", 1);
    const uint64_t begin = now_ns();
    const Seen error = seen([] {
        join_nccl(nccl::new_id(), 0, 2, 0,
                  with_token(std::chrono::milliseconds(300), Engine::nccl));
    });
    EXPECT_LT(now_ns() - begin, 2'500'000'000u);
    EXPECT_EQ(error.code, Errc::timeout) << error.text;
    unsetenv("FAKE_NCCL_ABORT_TAKES_S");
    std::this_thread::sleep_for(std::chrono::seconds(4)); // it ends before the library is gone
}

namespace {

// What a child tells, in memory shared with this process.
struct Told {
    uint32_t rounds;
    Errc code;
    char engine[16];
    char text[400];
};

// Processes are made by fork() while this one has no threads, and end by _exit().
pid_t start(Told& told, const std::function<void()>& body)
{
    const pid_t child = fork();
    if (child != 0) return child;
    alarm(60); // whatever happens, nothing stays
    const Seen error = seen(body);
    std::strncpy(told.text, error.text.c_str(), sizeof told.text - 1);
    told.code = error.code;
    _exit(0);
}

} // namespace

// Hosts that are not the same, as far as the ranks can tell: NCCL, and one of them is killed.
TEST(Hosts, OfProcessesThatAreKilled)
{
#if defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "the sanitizer wants no threads after fork()";
#endif
    auto* const told = static_cast<Told*>(
        mmap(nullptr, 3 * sizeof(Told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    for (uint32_t victim = 0; victim < 3; ++victim) {
        std::memset(static_cast<void*>(told), 0, 3 * sizeof(Told));
        const std::string address = free_address();
        std::vector<pid_t> children;
        for (uint32_t r = 0; r < 3; ++r) {
            children.push_back(start(told[r], [&] {
                setenv("DENIZEN_GROUP_HOST", r == 0 ? "one" : "another", 1);
                Group g = Group::join(address, r, 3, Device::gpu(static_cast<int>(r)),
                                      with_token(std::chrono::milliseconds(1000)));
                std::strncpy(told[r].engine, g.engine(), sizeof told[r].engine - 1);
                for (;;) { // ends by an error, or by a signal
                    int32_t x = 1;
                    g.all_reduce(&x, &x, 1, Type::i32);
                    g.wait();
                    if (x != 3) throw Error(Errc::failed, "wrong sum");
                    store<Scope::system>(&told[r].rounds, told[r].rounds + 1);
                }
            }));
        }
        const uint64_t until = now_ns() + 20'000'000'000;
        while (load<Scope::system>(&told[victim].rounds) < 5 && now_ns() < until) usleep(1000);
        kill(children[victim], SIGKILL);
        for (const pid_t child : children) waitpid(child, nullptr, 0);
        for (uint32_t r = 0; r < 3; ++r) {
            EXPECT_STREQ(told[r].engine, "nccl") << told[r].text;
            EXPECT_GE(told[r].rounds, 4u);
            if (r == victim) continue;
            EXPECT_EQ(told[r].code, Errc::peer_dead) << told[r].text;
        }
    }
    munmap(told, 3 * sizeof(Told));
}

// CPU ranks cannot be on several hosts, and memory cannot be shared between them.
TEST(Hosts, ThatCannotBe)
{
#if defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "the sanitizer wants no threads after fork()";
#endif
    auto* const told = static_cast<Told*>(
        mmap(nullptr, 2 * sizeof(Told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    for (const Engine engine : {Engine::automatic, Engine::memory}) {
        const std::string address = free_address();
        std::vector<pid_t> children;
        for (uint32_t r = 0; r < 2; ++r) {
            children.push_back(start(told[r], [&] {
                setenv("DENIZEN_GROUP_HOST", r == 0 ? "one" : "another", 1);
                Group::join(address, r, 2, Device::cpu(),
                            with_token(std::chrono::seconds(5), engine));
            }));
        }
        for (const pid_t child : children) waitpid(child, nullptr, 0);
        const char* const why = engine == Engine::automatic ? "needs GPUs" : "share no memory";
        for (uint32_t r = 0; r < 2; ++r) {
            EXPECT_EQ(told[r].code, Errc::bad_argument);
            EXPECT_NE(std::strstr(told[r].text, why), nullptr) << told[r].text;
        }
    }
    munmap(told, 2 * sizeof(Told));
}

// SPDX-License-Identifier: Apache-2.0
// A program on the fake driver: play SCENARIO [NUMBER…]. Ends with 0 if it saw what it would see on
// a real device; what the lens wrote about it is checked by capture_test.cpp.
#include "fake_cuda.hpp"
#include "fake_kernel.hpp"
#include "lens/substitute.hpp"
#include "watched.hpp"

#include <atomic>
#include <chrono>
#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <fstream>
#include <random>
#include <string>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

#define CHECK(what)                                                                                \
    do {                                                                                           \
        if (!(what)) {                                                                             \
            fprintf(stderr, "play: line %d: %s\n", __LINE__, #what);                               \
            exit(1);                                                                               \
        }                                                                                          \
    } while (false)

volatile uint32_t* device_word(uint32_t handle, uint32_t offset)
{
    static char* bar = static_cast<char*>(fake::view(fake::doorbell_memory));
    static char* timer = static_cast<char*>(fake::view(fake::timer_memory));
    char* page = handle == fake::timer_memory ? timer : bar;
    return reinterpret_cast<volatile uint32_t*>(page + offset);
}

uint32_t rung() { return *device_word(fake::doorbell_memory, 0x90); }

// Every form of store reaches the device with the right value; so do loads the other way.
void forms(uint32_t options)
{
    CHECK(fake_open(options) == 0);
    FakeChannel c = fake_channel(1024);
    for (uint32_t form = 0; fake_form_name(form); ++form) {
        *device_word(fake::doorbell_memory, 0x90) = 0;
        fake_append(c, form * 1000, form + 1);
        fake_publish(c);
        fake_ring(c, form);
        if (rung() != c.token) {
            fprintf(stderr, "play: %s stored %x\n", fake_form_name(form), rung());
            exit(1);
        }
    }
    for (uint32_t form = 0; fake_load_name(form); ++form) {
        const uint32_t value = form % 2 ? 0x81f2e3d5 : 0x80000005;
        *device_word(fake::timer_memory, 0x84) = value;
        if (const uint64_t wrong = fake_load(form, 0x84, value)) {
            fprintf(stderr, "play: %s differs by %lx\n", fake_load_name(form), wrong);
            exit(1);
        }
    }
    fake_timer()[1] = 7; // a store that is no doorbell
    CHECK(*device_word(fake::timer_memory, 4) == 7);
}

// `threads` threads with `each` channels, round robin for `ms`: doorbell n of a channel announces 1
// + n % 3 segments; segment k starts with n and has 4 + (n + k) % 60 words. Prints what each
// channel was sent.
void load(uint32_t threads, uint32_t each, uint32_t ms, uint32_t most)
{
    CHECK(fake_open(0) == 0);
    std::vector<FakeChannel> channels(threads * each);
    for (auto& c : channels) {
        c = fake_channel(64);
    }
    std::vector<uint32_t> sent(channels.size());
    std::vector<std::thread> pool;
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(ms);
    for (uint32_t t = 0; t < threads; ++t) {
        pool.emplace_back([&, t] {
            for (uint32_t n = 0; n < most && std::chrono::steady_clock::now() < end; ++n) {
                for (uint32_t k = t * each; k < (t + 1) * each; ++k) {
                    for (uint32_t j = 0; j < 1 + n % 3; ++j) {
                        fake_append(channels[k], n, 4 + (n + j) % 60);
                    }
                    fake_publish(channels[k]);
                    fake_ring(channels[k], n % 8);
                    ++sent[k];
                }
            }
        });
    }
    for (auto& t : pool) {
        t.join();
    }
    for (size_t k = 0; k < sent.size(); ++k) {
        printf("%u\n", sent[k]);
    }
}

// `threads` threads with a channel each, until the standard input ends: segment n of a channel has
// 4 words and starts with n. Prints "ringing" once all do, and at the end how many each was sent.
void until_told(uint32_t threads)
{
    CHECK(fake_open(0) == 0);
    std::vector<FakeChannel> channels(threads);
    for (auto& c : channels) {
        c = fake_channel(64);
    }
    std::vector<uint32_t> sent(threads);
    std::atomic<bool> is_over{false};
    std::atomic<uint32_t> ringing{0};
    std::vector<std::thread> pool;
    for (uint32_t t = 0; t < threads; ++t) {
        pool.emplace_back([&, t] {
            for (; !is_over; ++sent[t]) {
                fake_append(channels[t], sent[t], 4);
                fake_publish(channels[t]);
                fake_ring(channels[t], sent[t] % 8);
                ringing += sent[t] == 10;
                usleep(20);
            }
        });
    }
    while (ringing < threads) { // ends: each comes so far
        usleep(100);
    }
    puts("ringing");
    fflush(stdout);
    while (getchar() != EOF) {
    }
    is_over = true;
    for (uint32_t t = 0; t < threads; ++t) {
        pool[t].join();
        printf("%u\n", sent[t]);
    }
    CHECK(rung() != 0);
}

// Submissions that end with a release, as the driver's do. The device has made those before all but
// each third doorbell, by when it has made none more.
void releases()
{
    CHECK(fake_open(0) == 0);
    FakeChannel c = fake_channel(64);
    alignas(16) static volatile uint64_t semaphore[2];
    const auto address = reinterpret_cast<uint64_t>(&semaphore[0]);
    for (uint32_t n = 1; n <= 9; ++n) {
        if (n > 1 && n % 3 != 0) {
            semaphore[1] = 1'000'000 + 100 * (n - 1);
            semaphore[0] = n - 1;
        }
        fake_append(c, n, 8);
        const uint32_t words[] = {0x200426c0, static_cast<uint32_t>(address >> 32),
                                  static_cast<uint32_t>(address), n, 0};
        memcpy(c.pushbuffer + c.cursor - 6, words, sizeof words);
        fake_publish(c);
        fake_ring(c, 0);
    }
    semaphore[1] = 1'000'900;
    semaphore[0] = 9;
}

// A ring of 16 entries and 1 to 15 segments at a time, control entries and large segments among
// them.
void wrap()
{
    CHECK(fake_open(0) == 0);
    FakeChannel c = fake_channel(16);
    std::mt19937 random(7);
    for (uint32_t n = 0; n < 200; ++n) {
        const auto segments = static_cast<uint32_t>(random() % 15 + 1);
        for (uint32_t k = 0; k < segments; ++k) {
            if (k % 5 == 4) {
                fake_base(c, 0);
            } else {
                fake_append(c, n * 100 + k,
                            n % 50 == 49 && k == 0 ? 30000
                                                   : 1 + static_cast<uint32_t>(random() % 40));
            }
        }
        fake_publish(c);
        fake_ring(c, 0);
    }
    fake_ring(c, 0); // nothing new
}

sigjmp_buf back;
volatile sig_atomic_t caught;

void with_own_handlers()
{
    auto* page = static_cast<volatile int*>(
        mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    struct sigaction early{}, late{}, seen{};
    early.sa_sigaction = [](int, siginfo_t* info, void*) {
        caught = info->si_code == SEGV_ACCERR ? 1 : -1;
        mprotect(info->si_addr, 4096, PROT_READ | PROT_WRITE);
    };
    early.sa_flags = SA_SIGINFO;
    CHECK(sigaction(SIGSEGV, &early, nullptr) == 0);
    CHECK(fake_open(0) == 0);
    FakeChannel c = fake_channel(64);
    fakeLaunchKernel(c, 0, 4);
    page[0] = 1; // to the handler that was there before the first doorbell page
    CHECK(caught == 1 && page[0] == 1);
    fakeLaunchKernel(c, 1, 4);

    late.sa_handler = [](int) { siglongjmp(back, 1); };
    CHECK(sigaction(SIGSEGV, &late, &seen) == 0 && seen.sa_sigaction == early.sa_sigaction);
    for (int round = 0; round < 3; ++round) {
        mprotect(const_cast<int*>(page), 4096, PROT_NONE);
        if (sigsetjmp(back, 1) == 0) {
            page[0] = 2;
            CHECK(false);
        }
        fakeLaunchKernel(c, 2, 4);
    }
    CHECK(signal(SIGSEGV, SIG_DFL) == late.sa_handler);

    // A program that blocks everything still rings.
    sigset_t all;
    sigfillset(&all);
    CHECK(sigprocmask(SIG_BLOCK, &all, nullptr) == 0);
    fakeLaunchKernel(c, 3, 4);
    std::thread([&] { fakeLaunchKernel(c, 4, 4); }).join();
    sigprocmask(SIG_UNBLOCK, &all, nullptr);
    // Nor does an interval timer that interrupts it all the time hurt.
    signal(SIGALRM, [](int) { caught = caught + 1; });
    struct itimerval often{{0, 200}, {0, 200}};
    setitimer(ITIMER_REAL, &often, nullptr);
    for (uint32_t n = 0; n < 2000; ++n) {
        fakeLaunchKernel(c, 5, 4);
    }
    signal(SIGALRM, SIG_IGN);
    CHECK(rung() == c.token);
}

void crash()
{
    CHECK(fake_open(0) == 0);
    FakeChannel c = fake_channel(64);
    fakeLaunchKernel(c, 0, 4);
    *reinterpret_cast<volatile int*>(16) = 1;
}

void forking()
{
    CHECK(fake_open(0) == 0);
    FakeChannel c = fake_channel(64);
    fakeLaunchKernel(c, 0, 4);
    *device_word(fake::doorbell_memory, 0x90) = 0;
    const pid_t child = fork();
    if (child == 0) {
        fakeLaunchKernel(c, 1, 4); // still reaches the device; nobody logs it
        _exit(rung() == c.token ? 0 : 1);
    }
    int status = 1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    const pid_t other = vfork();
    if (other == 0) {
        close(3);
        _exit(0); // must not end the capture of the parent, whose memory this is
    }
    CHECK(waitpid(other, &status, 0) == other);
    fakeLaunchKernel(c, 2, 4);
}

// By each function of the family. Many doorbells just before: they must be in the file by then.
void exec_again(char** arguments, uint32_t function)
{
    CHECK(fake_open(0) == 0);
    FakeChannel c = fake_channel(64);
    for (uint32_t n = 0; n < 500; ++n) {
        fakeLaunchKernel(c, n, 4);
    }
    char once[] = "once";
    char* again[] = {arguments[0], once, nullptr};
    switch (function) {
    case 1: execve(arguments[0], again, environ); break;
    case 2: execvp(arguments[0], again); break;
    case 3: execvpe(arguments[0], again, environ); break;
    case 4: fexecve(open(arguments[0], O_RDONLY | O_CLOEXEC), again, environ); break;
    default: execv(arguments[0], again); break;
    }
    CHECK(false);
}

void once(uint32_t options)
{
    CHECK(fake_open(options) == 0);
    FakeChannel c = fake_channel(64);
    fakeLaunchKernel(c, 0, 4);
    fakeLaunchKernel(c, 1, 4);
    fake_free(c);
}

// The device's pages that the lens holds: mapped for writing alone, as the driver asks.
uint32_t real_pages()
{
    std::ifstream maps("/proc/self/maps");
    uint32_t count = 0;
    for (std::string line; std::getline(maps, line);) {
        count += line.find(" -w-s ") != std::string::npos &&
                 line.find("memfd:fake") != std::string::npos;
    }
    return count;
}

// What a program may do to a doorbell page's mapping. Five doorbells are to be seen.
void pages()
{
    constexpr size_t bytes = 0x10000;
    CHECK(fake_open(0) == 0);
    FakeChannel c = fake_channel(64);
    const auto shadow = [] { return const_cast<uint32_t*>(fake_doorbell()); };
    const auto rings = [&](uint32_t number) {
        *device_word(fake::doorbell_memory, 0x90) = 0;
        fakeLaunchKernel(c, number, 4);
        return rung() == c.token;
    };
    const auto faults = [](volatile uint32_t* at) {
        signal(SIGSEGV, [](int) { siglongjmp(back, 1); });
        if (sigsetjmp(back, 1) == 0) {
            at[0x24] = 1;
            return false;
        }
        return true;
    };
    CHECK(rings(0) && real_pages() == 2); // with the timer's
    // Opened by the program, it would be ringing past the lens.
    CHECK(mprotect(shadow(), bytes, PROT_READ | PROT_WRITE) == 0 && rings(1));

    // Moved, it rings where it is now; where it was is nothing.
    void* const old = shadow();
    void* const there = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(mremap(old, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, there) == there);
    fake_move_doorbell(there);
    CHECK(rings(2) && real_pages() == 2 && faults(static_cast<uint32_t*>(old)));

    // USERD, from which GP_PUT is read, moves with its page.
    const auto userd = reinterpret_cast<uint64_t>(c.userd);
    constexpr size_t page = 4096;
    void* const moved = mremap(reinterpret_cast<void*>(userd & ~(page - 1)), page, page,
                               MREMAP_MAYMOVE | MREMAP_FIXED,
                               mmap(nullptr, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    CHECK(moved != MAP_FAILED);
    c.userd = reinterpret_cast<volatile uint32_t*>(static_cast<char*>(moved) + userd % page);
    CHECK(rings(3));

    // Unmapped, the device's page goes too, and the address is the program's own.
    CHECK(munmap(shadow(), bytes) == 0 && real_pages() == 1 && faults(fake_doorbell()));
    fake_map_doorbell();
    CHECK(rings(4) && real_pages() == 2);

    // Something else mapped over it is just that.
    CHECK(mmap(shadow(), bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
               0) == shadow());
    CHECK(real_pages() == 1 && !rings(5) && fake_doorbell()[0x24] == c.token);
}

// A handler that allocated or printed could wait for a lock that its own thread holds; on the
// thread's stack it would need more than a program may have left there.
void quiet()
{
    CHECK(fake_open(0) == 0);
    {
        const Watched watched;
        auto* volatile p = static_cast<char*>(malloc(1));
        free(p);
    }
    const uint32_t before = Watched::calls();
    CHECK(before == 2);
    const auto ring = [](FakeChannel& c) {
        for (uint32_t n = 0; n < 40; ++n) {
            fake_append(c, n, 40);
            fake_publish(c);
            const Watched watched;
            fake_ring(c, n % 24);
        }
    };
    FakeChannel c = fake_channel(64);
    ring(c);
    CHECK(Watched::calls() == before);
    stack_t own{};
    CHECK(sigaltstack(nullptr, &own) == 0 && !(own.ss_flags & SS_DISABLE));

    static constexpr size_t bytes = 256 * 1024;
    static char* const stack = static_cast<char*>(mmap(
        nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0));
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    CHECK(pthread_attr_setstack(&attributes, stack, bytes) == 0);
    pthread_t thread{};
    const auto body = [](void* channel) -> void* {
        auto& of = *static_cast<FakeChannel*>(channel);
        fakeLaunchKernel(of, 1, 4); // binds what the loader binds late, which takes stack
        // What a store to the doorbell itself needs lies within 1 KiB.
        const auto unused =
            static_cast<size_t>(static_cast<char*>(__builtin_frame_address(0)) - stack - 1024);
        memset(stack, 0xa5, unused);
        fakeLaunchKernel(of, 2, 4);
        for (size_t k = 0; k < unused; ++k) {
            CHECK(stack[k] == static_cast<char>(0xa5));
        }
        return nullptr;
    };
    CHECK(pthread_create(&thread, &attributes, body, &c) == 0);
    CHECK(pthread_join(thread, nullptr) == 0);
}

// What rang must be told from what was called just before, from another depth.
void names()
{
    CHECK(fake_open(0) == 0);
    FakeChannel c = fake_channel(64);
    for (uint32_t depth = 0; depth < 20; ++depth) {
        CHECK(fakeGraphInstantiate(depth % 7 + 3) > 0);
        fakeGraphLaunch(c, depth);
    }
    fake_append(c, 1, 4);
    fake_publish(c);
    fake_ring(c, 17); // by code that is not in the driver's library
}

// A channel in place of a freed one; entries that point nowhere; a token that no channel has.
void odd()
{
    CHECK(fake_open(0) == 0);
    FakeChannel c = fake_channel(64);
    fakeLaunchKernel(c, 0, 4);
    c.gpfifo[c.put] = 0x10000 | uint64_t{8} << 42; // nothing is mapped there
    c.put = (c.put + 1) % c.entries;
    fake_publish(c);
    fake_ring(c, 0);
    c.userd[0x8c / 4] = 1000; // beyond the ring
    fake_ring(c, 0);
    fake_publish(c);
    FakeChannel stranger = c;
    stranger.token = 0xabcdef;
    fake_ring(stranger, 0);
    CHECK(rung() == 0xabcdef);
    fake_free(c);
    fake_ring(c, 0); // the channel is gone
}

// cudaLaunchKernel calls cuLaunchKernel and cuEventRecord; both ring. Then a call without
// doorbells, and a doorbell outside of any call.
void with_cupti()
{
    void* own = dlopen(nullptr, RTLD_NOW);
    const auto inject = reinterpret_cast<int (*)()>(dlsym(own, "InitializeInjection"));
    CHECK(inject && inject() == 1); // as the driver does in cuInit, before it opens a file
    void* library = dlopen(getenv("DENIZEN_LENS_CUPTI"), RTLD_NOW);
    using Api = void (*)(uint32_t domain, uint32_t number, const char* name, uint32_t site);
    const auto api = reinterpret_cast<Api>(library ? dlsym(library, "fake_api") : nullptr);
    const auto tell = [&](uint32_t domain, uint32_t number, const char* name, uint32_t site) {
        if (api) {
            api(domain, number, name, site);
        }
    };
    CHECK(fake_open(0) == 0);
    FakeChannel c = fake_channel(64);
    for (uint32_t n = 0; n < 3; ++n) {
        tell(2, 211, "cudaLaunchKernel_v7000", 0);
        tell(1, 307, "cuLaunchKernel", 0);
        fakeLaunchKernel(c, n, 4);
        tell(1, 307, "cuLaunchKernel", 1);
        tell(1, 119, "cuEventRecord", 0);
        fakeLaunchKernel(c, n, 4);
        tell(1, 119, "cuEventRecord", 1);
        tell(2, 211, "cudaLaunchKernel_v7000", 1);
        tell(2, 10, "cudaGetLastError_v3020", 0);
        tell(2, 10, "cudaGetLastError_v3020", 1);
    }
    fakeLaunchKernel(c, 9, 4);
}

// Own words before the driver's: what is in the ring is the program's buffer, with both; whatever
// is refused leaves the driver's entry as it is.
void substitutes()
{
    using Order = int32_t (*)(uint32_t*, uint32_t, uint32_t);
    using Result = int32_t (*)(uint32_t*);
    const auto order = reinterpret_cast<Order>(dlsym(RTLD_DEFAULT, "denizen_lens_substitute"));
    const auto result = reinterpret_cast<Result>(dlsym(RTLD_DEFAULT, "denizen_lens_substituted"));
    CHECK(order && result);
    constexpr uint32_t capacity = 1024;
    void* const low = reinterpret_cast<void*>(uint64_t{1} << 39);
    auto* words =
        static_cast<uint32_t*>(mmap(low, capacity * 4, PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0));
    CHECK(words == low);
    CHECK(order(words, 0, capacity) == denizen_lens_not_capturing);
    CHECK(fake_open(0) == 0);
    FakeChannel c = fake_channel(16);
    uint32_t total = 0;
    for (uint32_t n = 0; n < 40; ++n) { // past the end of the ring, too
        const uint32_t own = n % 3;
        for (uint32_t k = 0; k < own; ++k) {
            words[k] = 7000 + n * 10 + k;
        }
        CHECK(order(words, own, capacity) == denizen_lens_pending);
        CHECK(result(nullptr) == denizen_lens_pending);
        const uint32_t place = c.put;
        fake_append(c, n * 100, 5);
        const uint64_t theirs = c.gpfifo[place];
        fake_publish(c);
        std::thread([&] { // is another's doorbell, of a channel where nothing is new
            FakeChannel other = c;
            other.token = 0xabcdef;
            fake_ring(other, 0);
        })
            .join();
        CHECK(result(nullptr) == denizen_lens_pending && c.gpfifo[place] == theirs);
        fake_ring(c, 0);
        CHECK(result(&total) == denizen_lens_done && total == own + 5);
        const uint64_t ours = c.gpfifo[place];
        CHECK((ours & 0xfffffffffc) == uint64_t{1} << 39 && (ours >> 42) == total);
        CHECK((ours >> 40 & 3) == (theirs >> 40 & 3));
        for (uint32_t k = 0; k < 5; ++k) {
            CHECK(words[own + k] == n * 100 + k);
        }
    }
    fakeLaunchKernel(c, 1, 4); // nothing was ordered
    CHECK((c.gpfifo[8] & 0xffffffffff) != uint64_t{1} << 39);

    const auto refused = [&](int32_t why, uint32_t segments, uint32_t count, FakeChannel& of) {
        const uint32_t place = of.put;
        CHECK(order(words, count, capacity) == denizen_lens_pending);
        for (uint32_t k = 0; k < segments; ++k) {
            fake_append(of, 500 + k, 40);
        }
        const uint64_t theirs = of.gpfifo[place];
        fake_publish(of);
        fake_ring(of, 0);
        CHECK(result(nullptr) == why && of.gpfifo[place] == theirs);
        fake_publish(of);
    };
    refused(denizen_lens_not_alone, 2, 1, c);
    refused(denizen_lens_not_alone, 0, 1, c);
    refused(denizen_lens_no_room, 1, capacity - 39, c);
    FakeChannel stranger = c;
    stranger.token = 0xabcdef;
    refused(denizen_lens_no_channel, 0, 1, stranger);
    uint32_t high[4]; // on the stack, which lies above 2^40
    CHECK(order(high, 1, 4) == denizen_lens_bad_buffer);
    CHECK(order(words, 2, 1) == denizen_lens_bad_buffer);
    CHECK(order(nullptr, 0, 1) == denizen_lens_bad_buffer);
    auto* odd = reinterpret_cast<uint32_t*>(reinterpret_cast<char*>(words) + 2);
    CHECK(order(odd, 0, 1) == denizen_lens_bad_buffer);
}

} // namespace

int main(int count, char** arguments)
{
    const std::string scenario = count > 1 ? arguments[1] : "";
    const auto number = [&](int k) {
        return static_cast<uint32_t>(count > k ? atoi(arguments[k]) : 0);
    };
    if (scenario == "forms") {
        forms(number(2));
    } else if (scenario == "load") {
        load(number(2), number(3), number(4), number(5));
    } else if (scenario == "until told") {
        until_told(number(2));
    } else if (scenario == "releases") {
        releases();
    } else if (scenario == "wrap") {
        wrap();
    } else if (scenario == "handlers") {
        with_own_handlers();
    } else if (scenario == "crash") {
        crash();
    } else if (scenario == "fork") {
        forking();
    } else if (scenario == "exec") {
        exec_again(arguments, number(2));
    } else if (scenario == "once") {
        once(number(2));
    } else if (scenario == "pages") {
        pages();
    } else if (scenario == "quiet") {
        quiet();
    } else if (scenario == "names") {
        names();
    } else if (scenario == "odd") {
        odd();
    } else if (scenario == "cupti") {
        with_cupti();
    } else if (scenario == "substitute") {
        substitutes();
    } else if (scenario == "nothing") {
        return fake_open(0) == 0 ? 1 : 0;
    } else {
        return 2;
    }
    return 0;
}

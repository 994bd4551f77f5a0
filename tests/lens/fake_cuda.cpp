// SPDX-License-Identifier: Apache-2.0
#include "fake_cuda.hpp"

#include "fake_kernel.hpp"

#include <algorithm>
#include <alloca.h>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <initializer_list>
#include <mutex>
#include <string>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

// What a program that is compiled with fortification calls.
extern "C" int __open_2(const char*, int);
extern "C" int __open64_2(const char*, int);
extern "C" int __openat_2(int, const char*, int);
extern "C" int __openat64_2(int, const char*, int);

namespace {

constexpr uint32_t client = fake::client, device = 0x5c000001, subdevice = 0x5c000002,
                   group = 0x5c000003;
uint32_t options;
std::string folder;
int control;
char* doorbell;
char* timer;
char* rings;
char* pushbuffers;
std::atomic<uint32_t> channel_count{0};
std::mutex mutex;

void call(uint32_t number, void* argument, uint32_t bytes)
{
    const auto request = [](uint32_t nr, uint32_t n) { return 3u << 30 | n << 16 | 'F' << 8 | nr; };
    if (options & fake_wrapped) {
        struct {
            uint32_t command, bytes;
            void* argument;
        } wrapped{number, bytes, argument};
        ioctl(control, request(0xd3, sizeof wrapped), &wrapped);
    } else {
        ioctl(control, request(number, bytes), argument);
    }
}

void alloc(uint32_t parent, uint32_t handle, uint32_t class_id, void* params, uint32_t bytes)
{
    uint32_t a[12] = {client, parent, handle, class_id};
    memcpy(a + 4, &params, 8);
    if (options & fake_old_alloc) {
        a[6] = bytes;
        a[7] = 0xffffffff;
        call(0x2b, a, 0x20);
    } else {
        a[8] = bytes;
        a[10] = 0xffffffff;
        call(0x2b, a, 0x30);
    }
}

// As libcuda: a fresh file (the control file for system memory), RM_MAP_MEMORY on the control file,
// mmap at offset 0, close.
char* map(uint32_t memory, size_t bytes, int protection, void* where)
{
    const char* name = memory == fake::pushbuffer_memory ? "/nvidiactl" : "/nvidia0";
    int fd = open((folder + name).c_str(), O_RDWR);
    uint32_t a[14] = {client, subdevice, memory};
    memcpy(a + 6, &bytes, 8);
    a[10] = 0xffffffff;
    a[12] = static_cast<uint32_t>(fd);
    if (options & fake_dup) {
        const int copy = dup(fd);
        close(fd);
        fd = fcntl(copy, F_DUPFD_CLOEXEC, 100);
        close(copy);
        a[12] = static_cast<uint32_t>(fd);
    }
    call(0x4e, a, sizeof a);
    const int flags = MAP_SHARED | (where ? MAP_FIXED : 0);
    void* p = options & fake_mmap64 ? mmap64(where, bytes, protection, flags, fd, 0)
                                    : mmap(where, bytes, protection, flags, fd, 0);
    close(fd);
    if (p == MAP_FAILED) {
        abort();
    }
    return static_cast<char*>(p);
}

int open_control(const char* path)
{
    switch (options >> 8 & 15) {
    case 1: return open64(path, O_RDWR);
    case 2: return openat(AT_FDCWD, path, O_RDWR);
    case 3: return openat64(AT_FDCWD, path, O_RDWR);
    case 4: return __open_2(path, O_RDWR);
    case 5: return __open64_2(path, O_RDWR);
    case 6: return __openat_2(AT_FDCWD, path, O_RDWR);
    case 7: return __openat64_2(AT_FDCWD, path, O_RDWR);
    default: return open(path, O_RDWR);
    }
}

int duplicate(int fd)
{
    constexpr int other = 90; // nobody has it
    switch (options >> 12 & 15) {
    case 1: return dup(fd);
    case 2: return dup2(fd, other);
    case 3: return dup3(fd, other, O_CLOEXEC);
    case 4: return fcntl(fd, F_DUPFD, other);
    case 5: return fcntl(fd, F_DUPFD_CLOEXEC, other);
    case 6: return fcntl64(fd, F_DUPFD, other);
    case 7: return fcntl64(fd, F_DUPFD_CLOEXEC, other);
    default: return fd;
    }
}

// Runs code that holds an address or a value itself: `set` with the address (0: not there) puts it
// into rax; `store` ends with the token (4 bytes) or, as moffs, with the address (8) and the token
// in eax.
void generated(char* p, uint32_t token, std::initializer_list<uint8_t> set, size_t address_bytes,
               std::initializer_list<uint8_t> store, size_t operand_bytes)
{
    static thread_local char* code = static_cast<char*>(mmap(
        nullptr, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    char* at = std::copy(set.begin(), set.end(), code);
    memcpy(at, &p, address_bytes);
    at = std::copy(store.begin(), store.end(), at + address_bytes);
    if (operand_bytes == 4) {
        memcpy(at, &token, 4);
    } else {
        memcpy(at, &p, 8);
    }
    at[operand_bytes] = static_cast<char>(0xc3);
    // rax may be changed; the red zone is left alone.
    asm volatile("sub $128,%%rsp; call *%1; add $128,%%rsp"
                 : "+a"(token)
                 : "r"(code)
                 : "rcx", "memory", "cc");
}

// --- the forms of a 32-bit store that a compiler or a hand may choose; p is the doorbell's address
// ---
using Store = void (*)(char* p, uint32_t token);
struct Form {
    const char* name;
    Store store;
};

#define FORM(name, text, ...)                                                                      \
    {name, [](char* p, uint32_t token) {                                                           \
         asm volatile(text                                                                         \
                      :                                                                            \
                      : __VA_ARGS__                                                                \
                      : "memory", "rax", "rcx", "rdx", "rdi", "rsi", "r8", "r9", "r10", "r11",     \
                        "xmm0", "xmm1");                                                           \
     }}
// The operands come in rbx and ebp-free registers, so that the text may use all others.
#define PT "b"(p), "r"(token)

const Form forms[] = {
    FORM("mov %ecx,(%rax)", "mov %1,%%ecx; mov %0,%%rax; .byte 0x89,0x08", PT),
    FORM("mov %edx,0x90(%rdi)", "mov %1,%%edx; lea -0x90(%0),%%rdi; mov %%edx,0x90(%%rdi)", PT),
    FORM("mov %r9d,disp32(%r11)", "mov %1,%%r9d; lea -0x12340(%0),%%r11; mov %%r9d,0x12340(%%r11)",
         PT),
    FORM("mov %eax,(%rsi,%rcx,8)",
         "mov %1,%%eax; mov $4,%%ecx; lea -32(%0),%%rsi; mov %%eax,(%%rsi,%%rcx,8)", PT),
    FORM("mov %r8d,-4(%r10,%r9,1)",
         "mov %1,%%r8d; mov $16,%%r9d; lea -12(%0),%%r10; mov %%r8d,-4(%%r10,%%r9,1)", PT),
    FORM("mov %r10d,(,%rax,1)", "mov %1,%%r10d; mov %0,%%rax; .byte 0x44,0x89,0x14,0x05,0,0,0,0",
         PT),
    FORM("mov %ecx,(%rsp)-based",
         "mov %1,%%ecx; mov %%rsp,%%r8; mov %0,%%rsp; mov %%ecx,(%%rsp); mov %%r8,%%rsp", PT),
    FORM("movnti %ecx,(%rax)", "mov %1,%%ecx; mov %0,%%rax; movnti %%ecx,(%%rax)", PT),
    FORM("xchg %ecx,(%rdx)", "mov %1,%%ecx; mov %0,%%rdx; xchg %%ecx,(%%rdx)", PT),
    FORM("lock xchg %r9d,(%rdx)", "mov %1,%%r9d; mov %0,%%rdx; lock xchg %%r9d,(%%rdx)", PT),
    FORM("movbe %ecx,(%rax)", "mov %1,%%ecx; bswap %%ecx; mov %0,%%rax; movbe %%ecx,(%%rax)", PT),
    FORM("stosl", "mov %1,%%eax; mov %0,%%rdi; stosl", PT),
    FORM("rep stosl of one", "mov %1,%%eax; mov %0,%%rdi; mov $1,%%ecx; rep stosl", PT),
    FORM("movsl",
         "sub $256,%%rsp; mov %1,(%%rsp); mov %%rsp,%%rsi; mov %0,%%rdi; movsl; add $256,%%rsp",
         PT),
    FORM("movd %xmm0,(%rax)", "movd %1,%%xmm0; mov %0,%%rax; movd %%xmm0,(%%rax)", PT),
    FORM("movss %xmm1,(%r11)", "movd %1,%%xmm1; mov %0,%%r11; movss %%xmm1,(%%r11)", PT),
    {"movl $imm32,(%rax)",
     [](char* p, uint32_t token) { generated(p, token, {0x48, 0xb8}, 8, {0xc7, 0x00}, 4); }},
    {"movl $imm32,-8(%rax,%rcx,2)",
     [](char* p, uint32_t token) {
         generated(p, token, {0xb9, 4, 0, 0, 0, 0x48, 0xb8}, 8, {0xc7, 0x44, 0x48, 0xf8}, 4);
     }},
    {"movabs %eax,moffs64", [](char* p, uint32_t token) { generated(p, token, {}, 0, {0xa3}, 8); }},
    FORM("mov %rcx,(%rax) (64 bits)", "mov %1,%%ecx; mov %0,%%rax; mov %%rcx,(%%rax)", PT),
    FORM("cs mov %ecx,(%rax)", "mov %1,%%ecx; mov %0,%%rax; .byte 0x2e,0x89,0x08", PT),
    // Not in the decoder's table: run by the processor for one step.
    FORM("step: orl %ecx,(%rax)", "mov %1,%%ecx; mov %0,%%rax; orl %%ecx,(%%rax)", PT),
    FORM("step: cmpxchg", "mov %1,%%ecx; mov %0,%%rdx; mov (%%rdx),%%eax; cmpxchg %%ecx,(%%rdx)",
         PT),
    FORM("step: pextrd", "movd %1,%%xmm0; mov %0,%%rax; pextrd $0,%%xmm0,(%%rax)", PT),
};

// --- loads of 0x84… at `offset`; each returns what its register holds, over 0x1122334455667788 ---
using Load = uint64_t (*)(const char* p);
struct LoadForm {
    const char* name;
    Load load;
    uint64_t (*expected)(uint32_t);
};
#define LOAD(name, text, expected)                                                                 \
    {name,                                                                                         \
     [](const char* p) {                                                                           \
         uint64_t r = 0x1122334455667788;                                                          \
         asm volatile(text : "+a"(r) : "b"(p) : "memory", "rcx", "rsi", "cc", "xmm0");             \
         return r;                                                                                 \
     },                                                                                            \
     [](uint32_t v) -> uint64_t { return expected; }}
constexpr uint64_t old_value = 0x1122334455667788;
const LoadForm loads[] = {
    LOAD("mov (%rbx),%eax", "mov (%1),%%eax", v),
    LOAD("mov (%rsi),%eax as 8b 06", "mov %1,%%rsi; .byte 0x8b,0x06", v),
    LOAD("mov (%rbx),%ax", "mov (%1),%%ax", (old_value & ~0xffffull) | (v & 0xffff)),
    LOAD("mov (%rbx),%al", "mov (%1),%%al", (old_value & ~0xffull) | (v & 0xff)),
    LOAD("mov (%rbx),%ah", "mov (%1),%%ah", (old_value & ~0xff00ull) | (v & 0xff) << 8),
    LOAD("movzbl", "movzbl (%1),%%eax", v & 0xff),
    LOAD("movzwl", "movzwl (%1),%%eax", v & 0xffff),
    LOAD("movsbq", "movsbq (%1),%%rax", static_cast<uint64_t>(static_cast<int8_t>(v))),
    LOAD("movswl", "movswl (%1),%%eax", static_cast<uint32_t>(static_cast<int16_t>(v))),
    LOAD("movslq", "movslq (%1),%%rax", static_cast<uint64_t>(static_cast<int32_t>(v))),
    LOAD("movbe", "movbe (%1),%%eax", __builtin_bswap32(v)),
    LOAD("lodsl", "mov %1,%%rsi; lodsl; sub %1,%%rsi; shl $32,%%rsi; or %%rsi,%%rax",
         v | uint64_t{4} << 32),
    LOAD("step: movd (%rbx),%xmm0", "movd (%1),%%xmm0; movd %%xmm0,%%eax", v),
    LOAD("step: testl $1,(%rbx)", "testl $1,(%1); setne %%al; movzbl %%al,%%eax", v & 1),
    LOAD("step: cmp (%rbx),%ecx",
         "mov $0x80000005,%%ecx; cmp (%1),%%ecx; sete %%al; movzbl %%al,%%eax", v == 0x80000005),
};

} // namespace

extern "C" int fake_open(uint32_t how)
{
    options = how;
    folder = getenv("DENIZEN_LENS_FAKE");
    const int first = open_control((folder + "/nvidiactl").c_str());
    if (first < 0) {
        return -1;
    }
    control = duplicate(first);
    if (control != first) {
        close(first);
    }
    uint32_t instance[14] = {}, engine[8] = {};
    engine[3] = 1;
    uint8_t bar1[2] = {1, 0}, bar0[2] = {0, 0};
    alloc(client, client, 0x41, nullptr, 0);
    alloc(client, device, 0x80, instance, sizeof instance);
    alloc(device, subdevice, 0x2080, nullptr, 0);
    alloc(subdevice, fake::doorbell_memory, 0xc661, bar1, sizeof bar1);
    alloc(subdevice, fake::timer_memory, 0xc661, bar0, sizeof bar0);
    alloc(device, fake::ring_memory, 0x40, nullptr, 0);
    alloc(device, fake::pushbuffer_memory, 0x3e, nullptr, 0);
    alloc(device, group, 0xa06c, engine, sizeof engine);
    void* where = nullptr;
    if (options & fake_fixed) {
        where = mmap(nullptr, 0x10000, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    }
    timer = map(fake::timer_memory, 0x10000, PROT_WRITE, nullptr);
    // Below 2^40, as an entry can name it; as libcuda, at addresses that are the GPU's too.
    auto* const low = reinterpret_cast<char*>(0x20'0400'0000);
    rings = map(fake::ring_memory, 2 << 20, PROT_READ | PROT_WRITE, low);
    pushbuffers =
        map(fake::pushbuffer_memory, fake::memory_bytes, PROT_READ | PROT_WRITE, low + (4 << 20));
    doorbell = map(fake::doorbell_memory, 0x10000, PROT_WRITE, where);
    return where && where != doorbell ? -2 : 0;
}

extern "C" FakeChannel fake_channel(uint32_t entries)
{
    const std::lock_guard held(mutex);
    FakeChannel c{};
    c.number = channel_count++;
    c.entries = entries;
    const size_t slot = c.number % 20 * 0x3000;
    c.gpfifo = reinterpret_cast<uint64_t*>(rings + slot);
    c.userd = reinterpret_cast<volatile uint32_t*>(rings + slot + 0x2000);
    c.userd[0x8c / 4] = 0;
    c.pushbuffer =
        reinterpret_cast<uint32_t*>(pushbuffers) + c.number % 20 * size_t{fake_pushbuffer_words};
    char params[0x170] = {};
    const uint32_t handle = 0x5c001000 + c.number;
    const uint64_t userd_offset = slot + 0x2000;
    memcpy(params + 0x8, &c.gpfifo, 8);
    memcpy(params + 0x10, &entries, 4);
    memcpy(params + 0x20, &fake::ring_memory, 4);
    memcpy(params + 0x40, &userd_offset, 8);
    alloc(group, handle, 0xc86f, params, sizeof params);
    alloc(handle, 0x5c002000 + c.number, 0xcbc0, nullptr, 0);
    c.token = fake::token_of(c.number);
    if (!(options & fake_no_tokens)) {
        uint32_t a[8] = {client, handle, 0xc36f0108}, token = 0;
        void* pointer = &token;
        memcpy(a + 4, &pointer, 8);
        a[6] = 4;
        a[7] = 0xffffffff;
        call(0x2a, a, sizeof a);
        c.token = token;
    }
    return c;
}

extern "C" void fake_free(const FakeChannel& c)
{
    uint32_t a[4] = {client, group, 0x5c001000 + c.number, 0xffffffff};
    call(0x29, a, sizeof a);
}

namespace {

void append(FakeChannel& c, uint64_t entry)
{
    c.gpfifo[c.put] = entry;
    c.put = (c.put + 1) % c.entries;
}

} // namespace

extern "C" void fake_append(FakeChannel& c, uint32_t first, uint32_t words)
{
    if (c.cursor + words > fake_pushbuffer_words) {
        c.cursor = 0;
    }
    volatile uint32_t* segment = c.pushbuffer + c.cursor;
    c.cursor += words;
    for (uint32_t k = 0; k < words; ++k) {
        segment[k] = first + k;
    }
    const auto address = reinterpret_cast<uint64_t>(segment);
    append(c, (address & 0xffffffffff) | uint64_t{words} << 42 | uint64_t{1} << 41);
}

extern "C" void fake_base(FakeChannel& c, uint32_t bits)
{
    append(c, uint64_t{bits} << 8 | uint64_t{4} << 32);
}

extern "C" void fake_publish(FakeChannel& c) { c.userd[0x8c / 4] = c.put; }

namespace {

[[gnu::noinline]] void ring(FakeChannel& c, uint32_t form)
{
    forms[form].store(doorbell + 0x90, c.token);
    asm volatile(""); // no tail call: who called stays on the stack
}

} // namespace

extern "C" void fake_ring(FakeChannel& c, uint32_t form)
{
    ring(c, form);
    asm volatile("");
}

extern "C" void fakeLaunchKernel(FakeChannel& c, uint32_t first, uint32_t words)
{
    fake_append(c, first, words);
    fake_publish(c);
    ring(c, 0);
    asm volatile("");
}

namespace {

uint64_t descend(FakeChannel* c, uint32_t depth);

// A frame of unknown size, so on rbp.
[[gnu::noinline]] uint64_t with_array(FakeChannel* c, uint32_t depth)
{
    auto* array = static_cast<volatile char*>(alloca(64 + depth * 24));
    array[depth] = 1;
    return descend(c, depth) + static_cast<uint64_t>(array[depth]);
}

// A frame of more than a page, which is left early on one path.
[[gnu::noinline]] uint64_t with_much(FakeChannel* c, uint32_t depth)
{
    volatile uint64_t much[700];
    much[depth % 700] = depth;
    if (depth > 1000) {
        return 1;
    }
    return descend(c, depth) + much[depth % 700];
}

[[gnu::noinline]] uint64_t descend(FakeChannel* c, uint32_t depth)
{
    if (depth == 0) {
        if (c) {
            fakeLaunchKernel(*c, 0, 4);
        }
        return 1;
    }
    return depth % 2 ? with_array(c, depth - 1) + 1 : with_much(c, depth - 1) + 1;
}

} // namespace

extern "C" void fakeGraphLaunch(FakeChannel& c, uint32_t depth)
{
    volatile uint64_t sum = descend(&c, depth);
    (void)sum;
}

extern "C" uint64_t fakeGraphInstantiate(uint32_t depth)
{
    volatile uint64_t sum = descend(nullptr, depth);
    return sum;
}

extern "C" const char* fake_form_name(uint32_t form)
{
    return form < sizeof forms / sizeof *forms ? forms[form].name : nullptr;
}

extern "C" const char* fake_load_name(uint32_t form)
{
    return form < sizeof loads / sizeof *loads ? loads[form].name : nullptr;
}

// 0 if the load brought what it should.
extern "C" uint64_t fake_load(uint32_t form, uint32_t offset, uint32_t device_value)
{
    return loads[form].load(timer + offset) ^ loads[form].expected(device_value);
}

extern "C" volatile uint32_t* fake_doorbell()
{
    return reinterpret_cast<volatile uint32_t*>(doorbell);
}
extern "C" void fake_map_doorbell()
{
    doorbell = map(fake::doorbell_memory, 0x10000, PROT_WRITE, nullptr);
}
extern "C" void fake_move_doorbell(void* to) { doorbell = static_cast<char*>(to); }
extern "C" volatile uint32_t* fake_timer() { return reinterpret_cast<volatile uint32_t*>(timer); }

// SPDX-License-Identifier: Apache-2.0
// Fibers and who of them runs next.
#include "fibers.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace simulation {

Fiber* current = nullptr;
bool busy = false;
uint64_t now = 0;
uint64_t changes = 0;
uint64_t visible_ns = never;
Fiber fibers[most_fibers];

namespace {

constexpr size_t stack_bytes = 512 << 10;
constexpr uint64_t access_ns = 20;
constexpr uint64_t yield_ns = 200;
constexpr uint32_t patience = 4000; // accesses in a row before the others get their turn anyway

// ---- the seed's choices

struct Random {
    uint64_t state;
    uint64_t next() // splitmix64
    {
        uint64_t z = (state += 0x9e3779b97f4a7c15u);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        return z ^ (z >> 31);
    }
    uint32_t below(uint32_t n) { return static_cast<uint32_t>((next() >> 32) * n >> 32); }
};

enum class Strategy : uint8_t { random, priorities };

struct Run {
    Plan plan;
    Random random{0};
    Strategy strategy = Strategy::random;
    uint32_t switch_odds = 8;
    uint32_t stale = 0; // percent of the loads that may
    uint64_t next_change = never;
    uint64_t change_every = 0;
    uint64_t next_stop = never;
    uint64_t next_jump = never;
    uint64_t next_death = never;
    uint64_t next_rare = 0; // the soonest of these
    uint32_t streak = 0;
    uint32_t lowest = 0; // priority given so far
    uint32_t quiet_jumps = 0;
    uint64_t seen_changes = 0;
    uint64_t made = 0; // fibers
    bool replay = false;
    std::vector<std::vector<Choice>> of{most_fibers}; // replay: by fiber and access
    std::vector<size_t> at = std::vector<size_t>(most_fibers);
    Outcome outcome;
};
Run* running = nullptr;

// ---- switching

void* main_stack_pointer;
unsigned char* main_locals;
unsigned char* locals = nullptr; // thread_local variables of this program, and
size_t local_bytes = 0;          // how they begin
const unsigned char* locals_image = nullptr;
size_t image_bytes = 0;

void find_locals()
{
    dl_iterate_phdr(
        [](dl_phdr_info* info, size_t, void*) {
            for (int i = 0; i < info->dlpi_phnum; ++i) {
                if (info->dlpi_phdr[i].p_type == PT_TLS) {
                    locals = static_cast<unsigned char*>(info->dlpi_tls_data);
                    local_bytes = info->dlpi_phdr[i].p_memsz;
                    image_bytes = info->dlpi_phdr[i].p_filesz;
                    locals_image = reinterpret_cast<const unsigned char*>(
                        info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
                }
            }
            return 1; // the program alone
        },
        nullptr);
}

#if defined(__x86_64__)
extern "C" void simulation_switch(void** save, void* to);
asm(R"(
    .text
    .globl simulation_switch
    .type simulation_switch, @function
simulation_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
    .size simulation_switch, .-simulation_switch
)");

[[noreturn]] void first()
{
    busy = false;
    end(current->start(current->argument));
}

void* prepare(char* stack)
{
    auto** top = reinterpret_cast<void**>(stack + stack_bytes - 64);
    *--top = nullptr; // the caller of first(): there is none
    *--top = reinterpret_cast<void*>(&first);
    for (int i = 0; i < 6; ++i) {
        *--top = nullptr;
    }
    return top;
}
#else
struct Context {
    ucontext_t context;
};
[[noreturn]] void first()
{
    busy = false;
    end(current->start(current->argument));
}
void simulation_switch(void** save, void* to)
{
    ucontext_t here;
    *save = &here;
    swapcontext(&here, static_cast<ucontext_t*>(to));
}
void* prepare(char* stack)
{
    auto* context = reinterpret_cast<ucontext_t*>(stack);
    getcontext(context);
    context->uc_stack.ss_sp = stack + sizeof(ucontext_t) + 64;
    context->uc_stack.ss_size = stack_bytes - sizeof(ucontext_t) - 64;
    context->uc_link = nullptr;
    makecontext(context, &first, 0);
    return context;
}
#endif

void switch_to(Fiber& to)
{
    Fiber* from = current;
    if (from == &to) {
        return;
    }
    std::memcpy(from->locals, locals, local_bytes);
    from->saved_errno = errno;
    std::memcpy(locals, to.locals, local_bytes);
    errno = to.saved_errno;
    current = &to;
    ++running->outcome.switches;
    running->streak = 0;
    mix(to.id);
    simulation_switch(&from->stack_pointer, to.stack_pointer);
}

[[noreturn]] void leave()
{
    std::memcpy(locals, main_locals, local_bytes);
    current = nullptr;
    void* nowhere = nullptr;
    simulation_switch(&nowhere, main_stack_pointer);
    std::abort();
}

// ---- whose turn it is

// For 20 ms at most: long enough for whatever takes turns, and for none of a body's deadlines.
bool stopped(const Fiber& f)
{
    return f.stopped_until > running->outcome.accesses && f.stopped_ns > now;
}

bool can_run(const Fiber& f)
{
    return (f.state == State::runs || (f.state == State::blocked && f.deadline <= now)) &&
           !stopped(f);
}

uint32_t list_runnable(Fiber** list)
{
    uint32_t n = 0;
    for (Fiber& f : fibers) {
        if (can_run(f)) {
            list[n++] = &f;
        }
    }
    return n;
}

std::string name_of(const Fiber& f)
{
    return f.number == 0 ? "the body" : "thread " + std::to_string(f.number);
}

// Nobody can run: the time of the next deadline, or when somebody is stopped no longer.
void advance()
{
    uint64_t soonest = never;
    for (const Fiber& f : fibers) {
        if (f.state == State::runs || (f.state == State::blocked && f.deadline != never)) {
            const uint64_t at = f.state == State::runs ? now : f.deadline;
            soonest = std::min(soonest, stopped(f) ? std::max(at, f.stopped_ns) : at);
        }
    }
    if (soonest != never) {
        now = std::max(now, soonest);
        return;
    }
    std::string text = "nobody can go on:";
    for (const Fiber& f : fibers) {
        if (f.state == State::blocked) {
            text += " " + name_of(f) + " waits for " + f.waits_how + ";";
        }
    }
    fail(text);
}

Fiber& next_in_turn()
{
    for (uint32_t i = 1; i <= most_fibers; ++i) {
        Fiber& f = fibers[(current->id + i) % most_fibers];
        if (can_run(f)) {
            return f;
        }
    }
    return *current;
}

// A choice of the seed, or of the list that is replayed.
uint32_t decide(Choice::Kind kind, uint32_t by_seed, uintptr_t at)
{
    Run& r = *running;
    uint32_t value = by_seed;
    if (r.replay) {
        value = 0;
        auto& list = r.of[current->id];
        size_t& i = r.at[current->id];
        while (i < list.size() && list[i].access < current->accesses) {
            ++i;
        }
        for (size_t k = i; k < list.size() && list[k].access == current->accesses; ++k) {
            if (list[k].kind == kind) {
                value = list[k].value;
            }
        }
    }
    if (value != 0) {
        r.outcome.choices.push_back(
            {current->accesses, value, static_cast<uint8_t>(current->id), kind, at});
        mix(uint64_t{value} << 8 | kind);
    }
    return value;
}

// Somebody's turn: `must`, the current one cannot or does not want to go on.
void reschedule(bool must, uintptr_t at)
{
    Run& r = *running;
    Fiber* list[most_fibers];
    uint32_t n = 0;
    while ((n = list_runnable(list)) == 0) { // ends: advance() finds one or fails
        advance();
    }
    Fiber& usual = must || !can_run(*current) ? next_in_turn() : *current;
    Fiber* to = &usual;
    if (!r.replay) {
        if (r.strategy == Strategy::random) {
            to = list[r.random.below(n)];
            if (must && to == current && n > 1) {
                to = list[r.random.below(n)];
            }
        } else {
            to = *std::max_element(list, list + n, [](const Fiber* a, const Fiber* b) {
                return a->priority < b->priority;
            });
        }
    }
    const uint32_t chosen = decide(Choice::next, to == &usual ? 0 : to->id + 1, at);
    to = chosen == 0 ? &usual : &fibers[chosen - 1];
    if (!can_run(*to)) {
        to = &usual;
    }
    if (to->state == State::blocked) {
        to->state = State::runs; // its deadline has passed
        to->woken = false;
    }
    switch_to(*to);
}

void demote(Fiber& f) { f.priority = --running->lowest; }

void stop_somebody()
{
    Run& r = *running;
    if (r.outcome.accesses < r.next_stop && !r.replay) {
        return;
    }
    r.next_stop = r.outcome.accesses + 500 + r.random.below(20'000);
    const uint32_t id = decide(Choice::stop, r.replay ? 0 : 1 + r.random.below(most_fibers), 0);
    if (id == 0 || fibers[id - 1].state == State::free || fibers[id - 1].state == State::ended) {
        return;
    }
    ++r.outcome.faults;
    fibers[id - 1].stopped_until = r.outcome.accesses + 2000 + 100 * (id * 7919 % 100);
    fibers[id - 1].stopped_ns = now + 20'000'000;
}

} // namespace

bool calm() { return !running->plan.faults.stopped && !running->plan.faults.jumps; }

const Faults& faults() { return running->plan.faults; }
uint32_t stale_percent() { return running->stale; }
void count_stale() { ++running->outcome.stale; }
void mix(uint64_t value)
{
    running->outcome.hash = (running->outcome.hash ^ value) * 0x100000001b3u;
}

uint32_t choose(Choice::Kind kind, uint32_t n, uint32_t percent, uintptr_t at)
{
    Run& r = *running;
    uint32_t value = 0;
    if (!r.replay && n > 1 && r.random.below(100) < percent) {
        value = 1 + r.random.below(n - 1);
    }
    value = decide(kind, value, at);
    return value < n ? value : n - 1;
}

namespace {

// What comes at some accesses only.
[[gnu::noinline]] void rare(uintptr_t at)
{
    Run& r = *running;
    const uint64_t n = r.outcome.accesses;
    const Faults& f = r.plan.faults;
    if (n > r.plan.most_accesses) {
        fail("it does not end: " + std::to_string(n) + " accesses");
    }
    if (f.stopped) {
        stop_somebody();
    }
    if (f.jumps && (r.replay || n >= r.next_jump)) {
        r.next_jump = n + 100 + r.random.below(20'000);
        if (const uint32_t far = decide(Choice::jump, r.replay ? 0 : 1 + r.random.below(4), at)) {
            now += uint64_t{10'000} << (3 * far); // 80 us to 41 ms
        }
    }
    if (f.dies && (r.replay || n >= r.next_death) &&
        decide(Choice::death, r.replay ? 0 : 1, at) != 0) {
        die();
    }
    r.next_rare = r.plan.most_accesses + 1;
    for (const auto& [on, next] :
         {std::pair(f.stopped, r.next_stop), std::pair(f.jumps, r.next_jump),
          std::pair(f.dies, r.next_death)}) {
        r.next_rare = on ? std::min(r.next_rare, r.replay ? 0 : next) : r.next_rare;
    }
}

} // namespace

uint32_t draw(uint32_t n)
{
    const Inside inside;
    Run& r = *running;
    ++current->accesses; // two draws in a row are two choices
    return std::min(decide(Choice::drawn, r.replay ? 0 : r.random.below(n), 0), n - 1);
}

void access(uintptr_t at)
{
    Run& r = *running;
    const uint64_t n = ++r.outcome.accesses;
    ++current->accesses;
    current->at = at;
    now += access_ns;
    if (n >= r.next_rare) {
        rare(at);
    }
    if (++r.streak > patience || !can_run(*current)) {
        r.streak = 0;
        demote(*current);
        reschedule(true, at);
        return;
    }
    if (r.replay) {
        const auto& list = r.of[current->id];
        size_t& i = r.at[current->id];
        while (i < list.size() && list[i].access < current->accesses) {
            ++i;
        }
        if (i < list.size() && list[i].access == current->accesses) {
            for (size_t k = i; k < list.size() && list[k].access == current->accesses; ++k) {
                if (list[k].kind == Choice::next) {
                    reschedule(false, at);
                    return;
                }
            }
        }
    } else if (r.strategy == Strategy::random) {
        if (r.random.below(r.switch_odds) == 0) {
            reschedule(false, at);
            return;
        }
    } else if (n >= r.next_change) {
        r.next_change = n + 1 + r.random.below(static_cast<uint32_t>(r.change_every));
        demote(*current);
        reschedule(false, at);
        return;
    }
}

// Nobody has changed anything for as long as all have had their turn: what is waited for is time.
void yield(uintptr_t at)
{
    Run& r = *running;
    access(at);
    now += yield_ns;
    demote(*current);
    if (changes != r.seen_changes) {
        r.seen_changes = changes;
        r.quiet_jumps = 0;
        every_fiber([](Fiber& f) { f.quiet = 0; });
    }
    ++current->quiet;
    bool quiet = true;
    uint64_t soonest = never;
    every_fiber([&](Fiber& f) {
        quiet = quiet && (f.state == State::blocked || f.quiet >= 3 || stopped(f));
        if (f.state == State::blocked && f.deadline > now) {
            soonest = std::min(soonest, f.deadline);
        }
    });
    if (quiet) {
        now = std::min(soonest, now + (uint64_t{1000} << std::min(r.quiet_jumps, 13u)));
        ++r.quiet_jumps;
        every_fiber([](Fiber& f) { f.quiet = 0; });
    }
    reschedule(true, at);
}

bool block(const void* on, const char* how, uint64_t deadline, uintptr_t at)
{
    current->waits_for = on;
    current->waits_how = how;
    current->deadline = deadline;
    current->state = State::blocked;
    current->woken = true; // unless the deadline comes first
    const uint64_t began = now;
    reschedule(true, at);
    if (now - began > visible_ns) {
        fence_all();
    }
    current->deadline = never;
    current->waits_for = nullptr;
    return current->woken;
}

uint32_t wake(const void* on, uint32_t most)
{
    uint32_t n = 0;
    for (Fiber& f : fibers) {
        if (n < most && f.state == State::blocked && f.waits_for == on && on != nullptr) {
            f.state = State::runs;
            f.woken = true;
            f.quiet = 0;
            ++n;
        }
    }
    ++changes;
    return n;
}

Fiber* begin(void* (*start)(void*), void* argument)
{
    Run& r = *running;
    for (Fiber& f : fibers) {
        if (f.state == State::free) {
            const uint32_t id = static_cast<uint32_t>(&f - fibers);
            char* const stack =
                f.stack != nullptr
                    ? f.stack
                    : static_cast<char*>(mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE,
                                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
            auto* const its_locals =
                f.locals != nullptr ? f.locals
                                    : static_cast<unsigned char*>(std::malloc(local_bytes + 1));
            const uint32_t accesses = f.accesses; // an id is used again: its count goes on
            const Clock known = f.known;
            f = Fiber{};
            f.stack = stack;
            f.locals = its_locals;
            std::memset(its_locals, 0, local_bytes);
            std::memcpy(its_locals, locals_image, image_bytes);
            f.stack_pointer = prepare(stack);
            f.start = start;
            f.argument = argument;
            f.id = id;
            f.number = r.made++;
            f.accesses = accesses;
            f.deadline = never;
            f.state = State::runs;
            f.priority = r.replay ? 0 : 1'000'000 + r.random.below(1'000'000);
            f.known = known;
            if (current != nullptr) {
                f.known.join(current->known);
                ++current->known.of[current->id];
            }
            ++f.known.of[id];
            return &f;
        }
    }
    return nullptr;
}

void end(void* result)
{
    busy = true;
    current->result = result;
    if (current->number == 0) {
        bool left = false;
        std::string who;
        for (const Fiber& f : fibers) {
            if (&f != current && (f.state == State::runs || f.state == State::blocked)) {
                left = true;
                who += " " + name_of(f);
            }
        }
        if (left) {
            fail("threads are left:" + who);
        }
        leave();
    }
    release_to(current);
    current->state = current->detached ? State::free : State::ended;
    wake(current, most_fibers);
    reschedule(true, 0);
    std::abort();
}

Fiber* fiber_of(uint64_t number)
{
    for (Fiber& f : fibers) {
        if (f.state != State::free && f.number == number) {
            return &f;
        }
    }
    return nullptr;
}

void free_fiber(Fiber& fiber) { fiber.state = State::free; }

void fail(const std::string& why)
{
    busy = true;
    if (running == nullptr || current == nullptr) {
        std::fprintf(stderr, "%s\n", why.c_str());
        std::abort();
    }
    running->outcome.failed = true;
    running->outcome.why = name_of(*current) + ": " + why;
    for (const Fiber& f : fibers) {
        const bool there = f.state == State::runs || f.state == State::blocked;
        running->outcome.last.push_back(there ? f.at : 0);
    }
    leave();
}

void die()
{
    busy = true;
    running->outcome.died = true;
    ++running->outcome.faults;
    leave();
}

Outcome run(const Plan& plan, void (*body)())
{
    Run r;
    r.plan = plan;
    r.random.state = plan.seed * 0x2545f4914f6cdd1du + 1;
    r.replay = plan.choices != nullptr;
    r.outcome.hash = 0xcbf29ce484222325u;
    r.lowest = 1'000'000;
    if (r.replay) {
        r.stale = 1;
        for (const Choice& c : *plan.choices) {
            r.of[c.fiber].push_back(c);
        }
        for (auto& list : r.of) {
            std::stable_sort(list.begin(), list.end(),
                             [](const Choice& a, const Choice& b) { return a.access < b.access; });
        }
    }
    // Most seeds are without: drawn also for a replay, whose body may ask.
    Random lottery{plan.seed ^ 0x5bd1e995u};
    r.plan.faults.stopped = r.plan.faults.stopped && lottery.below(4) == 0;
    r.plan.faults.jumps = r.plan.faults.jumps && lottery.below(4) == 0;
    if (!r.replay) {
        static constexpr uint32_t odds[] = {2, 4, 16, 64, 256};
        static constexpr uint32_t stale[] = {0, 6, 25, 50, 70};
        r.strategy = r.random.below(2) == 0 ? Strategy::random : Strategy::priorities;
        r.switch_odds = odds[r.random.below(5)];
        r.stale = stale[r.random.below(5)];
        r.change_every = uint64_t{64} << (2 * r.random.below(5));
        r.next_change = r.random.below(static_cast<uint32_t>(r.change_every));
        r.next_stop = r.random.below(8000);
        r.next_jump = r.random.below(8000);
        r.next_death = r.random.below(60'000);
    }
    running = &r;
    if (locals == nullptr) {
        find_locals();
        main_locals = static_cast<unsigned char*>(std::malloc(local_bytes + 1));
    }
    now = 1'000'000'000;
    changes = 0;
    visible_ns = never;
    for (Fiber& f : fibers) {
        f.state = State::free;
        f.accesses = 0;
        f.known = Clock{};
    }
    begin_memory();
    std::memcpy(main_locals, locals, local_bytes);
    Fiber* f = begin(
        [](void* what) -> void* {
            reinterpret_cast<void (*)()>(what)();
            return nullptr;
        },
        reinterpret_cast<void*>(body));
    std::memcpy(locals, f->locals, local_bytes);
    current = f;
    busy = true;
    simulation_switch(&main_stack_pointer, f->stack_pointer);
    busy = false;
    current = nullptr;
    running = nullptr;
    return std::move(r.outcome);
}

} // namespace simulation

// SPDX-License-Identifier: Apache-2.0
// The scheduler's side of the simulator, for memory.cpp and system.cpp.
#pragma once

#include "simulator.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace simulation {

inline constexpr uint32_t most_fibers = 16;

// A vector clock.
struct Clock {
    uint32_t of[most_fibers] = {};

    void join(const Clock& other)
    {
        for (uint32_t i = 0; i < most_fibers; ++i) {
            of[i] = of[i] < other.of[i] ? other.of[i] : of[i];
        }
    }
};

enum class State : uint8_t { free, runs, blocked, ended };

struct Fiber {
    void* stack_pointer;
    char* stack;
    unsigned char* locals; // its thread_local variables while it is off
    void* (*start)(void*);
    void* argument;
    void* result;
    const void* waits_for;
    const char* waits_how;
    uint64_t deadline;      // of the wait, in ns; never
    uint64_t number;        // of all that were made
    uint64_t stopped_until; // the access,
    uint64_t stopped_ns;    // and the time at the latest
    uintptr_t at;           // its last access
    uint32_t id;
    uint32_t accesses;
    uint32_t priority;
    uint32_t quiet; // times it has yielded since anything changed
    int saved_errno;
    State state;
    bool woken;
    bool detached;
    Clock known;    // what happens before its next step
    Clock pending;  // would, if an acquire fence came
    Clock released; // at its last release fence
};

inline constexpr uint64_t never = ~uint64_t{0};

extern Fiber fibers[most_fibers];
extern Fiber* current; // nullptr: no simulation is running
extern bool busy;      // inside the simulator
extern uint64_t now;   // the virtual clock
extern uint64_t changes;
extern uint64_t visible_ns; // who has slept for longer sees every store; a body may set it

inline bool simulated() { return current != nullptr && !busy; }

// In the simulator's own code: what it calls of the library is not under test.
class Inside {
public:
    Inside() : before_(busy) { busy = true; }
    ~Inside() { busy = before_; }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;

private:
    bool before_;
};

// An access at `at`: others may go first.
void access(uintptr_t at);
void yield(uintptr_t at);
// Until wake(on) or the deadline; false: that has passed.
bool block(const void* on, const char* how, uint64_t deadline, uintptr_t at);
uint32_t wake(const void* on, uint32_t most);
Fiber* begin(void* (*start)(void*), void* argument);
[[noreturn]] void end(void* result);
Fiber* fiber_of(uint64_t number);
void free_fiber(Fiber& fiber);
// A choice among 0 (the default) to n - 1: of `percent`, one of the others.
uint32_t choose(Choice::Kind kind, uint32_t n, uint32_t percent, uintptr_t at);
void mix(uint64_t value); // into the run's hash
void count_stale();
uint32_t stale_percent();
const Faults& faults();
template <class Visit>
void every_fiber(Visit&& visit)
{
    for (Fiber& f : fibers) {
        if (f.state == State::runs || f.state == State::blocked) {
            visit(f);
        }
    }
}

// ---- memory.cpp
void begin_memory();
void forget(const void* at, size_t bytes); // it is given back
void acquire_from(const void* object);     // a lock's clock
void release_to(const void* object);
void fence_all(); // membarrier(2)
Plant planted_at(uintptr_t at);
extern bool counting;
extern bool planted;
void count_site(uintptr_t at, const char* what);
inline void note_site(uintptr_t at, const char* what)
{
    if (counting) {
        count_site(at, what);
    }
}

} // namespace simulation

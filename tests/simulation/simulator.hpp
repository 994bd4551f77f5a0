// SPDX-License-Identifier: Apache-2.0
// Deterministic simulation: a program of several threads is run by one, which chooses at every
// atomic access who goes on, and what an atomic load reads of that which the memory model allows.
// All choices follow from a seed, so a run that failed fails again.
//
// The code under test is compiled with -fsanitize=thread and is otherwise what it always is: the
// calls that the compiler puts at atomic accesses end here (memory.cpp) instead of in libtsan, and
// so do those of the C library that make threads, block, sleep or tell the time (system.cpp). A
// thread is a fiber (fibers.cpp); the clock is virtual, and jumps when all sleep.
//
// What is modelled: a load may read any store that is not older than one it knows of by
// happens-before or by having seen it (C11's coherence), so a store that is relaxed where it ought
// to be a release is found out. Locks, fences, futexes and membarrier(2) order as they do. What is
// not: a load never reads a store that is made later (load buffering); accesses that are not atomic
// happen at once, and are not checked for races (ThreadSanitizer does that, in make test-tsan).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace simulation {

// ---- What a body calls

// Ends the run as failed; for use in the body and in its threads.
[[noreturn]] void fail(const std::string& why);
inline void require(bool holds, const char* what)
{
    if (!holds) {
        fail(what);
    }
}
// A number below `n`, drawn from the seed; shrinking tries 0.
uint32_t draw(uint32_t n);
// Whether no thread of this run is stopped and no clock jumps: what takes long then is a wake-up
// lost.
bool calm();
// Ends the process as SIGKILL would: the body and its threads stop here; the run goes on with what
// is then given to run(), with the virtual clock going on.
[[noreturn]] void die();

// ---- Who runs it

// One choice that is not the default. The default is: who runs goes on until it blocks or yields,
// then the next in turn; a load reads the newest store; no clock jumps; draws are 0.
struct Choice {
    enum Kind : uint8_t { next, older, jump, drawn, stop, death, refused };
    uint32_t access; // the fiber's own count of accesses
    uint32_t value;
    uint8_t fiber;
    Kind kind;
    uintptr_t at; // where in the code
};

struct Faults {
    bool threads = false;  // pthread_create fails
    bool memory = false;   // mmap fails
    bool spurious = false; // waits return without reason
    bool stopped = false;  // a thread does not run for long
    bool jumps = false;    // of the clock
    bool dies = false;     // the process, at any access
};

struct Plan {
    uint64_t seed = 0;
    const std::vector<Choice>* choices = nullptr; // these alone, instead of the seed's
    Faults faults;
    uint64_t most_accesses = 600'000;
};

struct Outcome {
    bool failed = false;
    bool died = false; // by die(), or the fault
    std::string why;
    uint64_t accesses = 0; // at which it was chosen
    uint64_t switches = 0;
    uint64_t stale = 0; // loads that did not read the newest store
    uint64_t faults = 0;
    uint64_t hash = 0; // of all that was chosen and read
    std::vector<Choice> choices;
    std::vector<uintptr_t> last; // failed: where each thread that has not ended was
};

// Runs `body` as thread 0. After a failure this process must not run another: threads and locks are
// left as they were. A body must end all threads it began, but for one that died.
Outcome run(const Plan& plan, void (*body)());

// ---- Planted errors, by where in the code (return addresses)

enum class Plant : uint8_t { none, relaxed, dropped };
void plant(uintptr_t at, Plant what);

// Every place of the code under test that was come to, if counting was asked for.
struct Site {
    uintptr_t at;
    const char* what; // "store release 4"
    uint64_t count;
};
void count_sites(bool on);
std::vector<Site> sites();

} // namespace simulation

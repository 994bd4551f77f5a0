// SPDX-License-Identifier: Apache-2.0
// simulate [--seeds N] [--from SEED] [--only SCENARIO] [--jobs N] [--seconds S]: runs seeds of all
// scenarios, replays and shrinks the first that fails of each, and says what led to it.
// simulate --only SCENARIO --seed SEED: that one.
// simulate --sites --only SCENARIO: which atomic accesses it comes to, for plants.py.
// simulate --litmus: what the memory model allows and forbids.
// --twice N: each Nth seed is run twice, and must come out the same.
// --relax AT,... --drop AT,...: plants errors there.
#include "fibers.hpp"
#include "scenario.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <map>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

extern "C" char __executable_start;

namespace simulation {
namespace {

// The jobs' count, in memory that all processes of one command share.
struct Common {
    uint64_t seeds;
    uint64_t accesses;
    uint64_t switches;
    uint64_t stale;
    uint64_t faults;
    uint64_t next; // the seed
    uint64_t failures;
};
Common* common = nullptr;

// A job's, and its children's.
struct Own {
    Progress progress;
    // The last outcome.
    bool failed;
    bool died;
    uint64_t accesses;
    uint64_t switches;
    uint64_t stale;
    uint64_t faults;
    uint64_t hash;
    char why[1024];
    uintptr_t last[most_fibers];
    uint64_t count; // of choices
    Choice choices[1 << 18];
};
Own* own = nullptr;

template <class T>
T* shared_memory()
{
    void* p = mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) {
        std::perror("mmap");
        std::exit(2);
    }
    return static_cast<T*>(p);
}

std::string& folder_name()
{
    static auto& name = *new std::string;
    return name;
}

void make_folder()
{
    char name[] = "/dev/shm/denizen-simulation-XXXXXX";
    if (mkdtemp(name) == nullptr) {
        std::perror("mkdtemp");
        std::exit(2);
    }
    folder_name() = name;
}

void empty_folder()
{
    for (const auto& entry : std::filesystem::directory_iterator(folder_name())) {
        std::filesystem::remove_all(entry.path());
    }
}

void put(const Outcome& o)
{
    own->failed = o.failed;
    own->died = o.died;
    own->accesses = o.accesses;
    own->switches = o.switches;
    own->stale = o.stale;
    own->faults = o.faults;
    own->hash = o.hash;
    std::snprintf(own->why, sizeof own->why, "%s", o.why.c_str());
    own->count = std::min<uint64_t>(o.choices.size(), std::size(own->choices));
    std::copy_n(o.choices.data(), own->count, own->choices);
    std::fill_n(own->last, most_fibers, 0);
    std::copy(o.last.begin(), o.last.end(), own->last);
}

Outcome get()
{
    Outcome o;
    o.failed = own->failed;
    o.died = own->died;
    o.why = own->why;
    o.accesses = own->accesses;
    o.switches = own->switches;
    o.stale = own->stale;
    o.faults = own->faults;
    o.hash = own->hash;
    o.choices.assign(own->choices, own->choices + own->count);
    o.last.assign(own->last, own->last + most_fibers);
    return o;
}

// `work` in a process of its own, as what fails leaves its process unusable.
template <class Work>
bool apart(Work&& work)
{
    std::fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        work();
        _exit(0);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child) {
        std::perror("fork");
        std::exit(2);
    }
    return status == 0;
}

// One run, and what comes after a process that died. In this process.
Outcome run_here(const Scenario& s, Plan plan)
{
    plan.faults = s.faults;
    plan.most_accesses = s.most_accesses;
    if (s.after == nullptr) {
        return run(plan, s.body);
    }
    empty_folder();
    progress() = Progress{};
    Outcome first;
    if (!apart([&] { put(run(plan, s.body)); })) {
        first.failed = true;
        first.why = "the process ended by a signal";
        return first;
    }
    first = get();
    if (!first.died || first.failed) {
        return first;
    }
    Plan next = plan;
    const std::vector<Choice> none;
    next.choices = &none; // what the next process finds is what matters, not how it is run
    next.faults = {};
    const Outcome second = run(next, s.after);
    first.failed = second.failed;
    first.why = second.failed ? "after the process died: " + second.why : "";
    first.hash ^= second.hash;
    return first;
}

Outcome attempt(const Scenario& s, const Plan& plan)
{
    if (!apart([&] { put(run_here(s, plan)); })) {
        Outcome o;
        o.failed = true;
        o.why = "the process ended by a signal";
        return o;
    }
    return get();
}

std::string place_of(uintptr_t at)
{
    if (at == 0) {
        return "?";
    }
    char command[512];
    const uintptr_t offset = at - 1 - reinterpret_cast<uintptr_t>(&__executable_start);
    std::snprintf(command, sizeof command, "addr2line -i -e /proc/%d/exe 0x%zx", getpid(), offset);
    std::string text;
    if (FILE* out = popen(command, "r")) {
        char line[512];
        while (std::fgets(line, sizeof line, out) != nullptr) {
            const char* name = std::strstr(line, "/include/denizen/");
            name = name != nullptr ? name + 1 : std::strstr(line, "/src/");
            if (name != nullptr && std::strstr(name, "denizen/base/") == nullptr) {
                text = name[0] == '/' ? name + 1 : name;
                text.erase(text.find_last_not_of(" \n") + 1);
                break;
            }
        }
        pclose(out);
    }
    return text.empty() ? "?" : text;
}

// Leaves out choices as long as the run fails, first many at a time.
std::vector<Choice> shrink(const Scenario& s, const Plan& plan, std::vector<Choice> choices,
                           const std::string& why)
{
    (void)why;
    uint32_t tries = 0;
    for (size_t piece = std::max<size_t>(1, choices.size() / 2);; piece /= 2) {
        for (size_t i = 0; i < choices.size() && tries < 600;) {
            std::vector<Choice> fewer(choices.begin(), choices.begin() + static_cast<long>(i));
            const size_t end = std::min(choices.size(), i + piece);
            fewer.insert(fewer.end(), choices.begin() + static_cast<long>(end), choices.end());
            Plan shorter = plan;
            shorter.choices = &fewer;
            ++tries;
            const Outcome o = attempt(s, shorter);
            if (o.failed && o.choices.size() <= fewer.size()) {
                choices = o.choices; // those alone that came to pass
            } else {
                i = end;
            }
        }
        if (piece <= 1) {
            return choices;
        }
    }
}

void tell(const Scenario& s, uint64_t seed, const Outcome& found)
{
    std::printf("\n%s, seed %llu: %s\n", s.name, static_cast<unsigned long long>(seed),
                found.why.c_str());
    Plan plan;
    plan.seed = seed;
    const Outcome again = attempt(s, plan);
    std::printf("  replayed: %s\n", again.failed && again.hash == found.hash
                                        ? "the same, choice by choice"
                                    : again.failed ? "fails, by another way"
                                                   : "DOES NOT FAIL");
    plan.choices = &again.choices;
    const Outcome listed = attempt(s, plan);
    for (uint32_t f = 0; f < most_fibers; ++f) {
        if (again.last[f] != 0) {
            std::printf("  thread %u was at %s\n", f, place_of(again.last[f]).c_str());
        }
    }
    if (!listed.failed) {
        std::printf("  its %zu choices alone do not fail\n", again.choices.size());
        return;
    }
    const std::vector<Choice> few = shrink(s, plan, again.choices, found.why);
    plan.choices = &few;
    const Outcome last = attempt(s, plan);
    std::printf("  %zu choices, shrunk to %zu: %s\n", again.choices.size(), few.size(),
                last.why.c_str());
    size_t shown = 0;
    for (const Choice& c : few) {
        if (++shown > 40) {
            std::printf("    ...\n");
            break;
        }
        static constexpr const char* did[] = {"goes on to thread %u",
                                              "reads a store that is %u older",
                                              "the clock jumps (%u)",
                                              "draws %u",
                                              "thread %u is stopped",
                                              "the process dies",
                                              "is refused"};
        char text[64];
        const uint32_t value = c.kind == Choice::next ? c.value - 1 : c.value;
        std::snprintf(text, sizeof text, did[c.kind], value);
        std::printf("    thread %u at its access %u: %s%s%s\n", c.fiber, c.access, text,
                    c.at == 0 ? "" : ", at ", c.at == 0 ? "" : place_of(c.at).c_str());
    }
}

struct Options {
    uint64_t seeds = 1000;
    uint64_t from = 1;
    uint64_t seed = 0;
    uint32_t jobs = 0;
    double seconds = 0;
    std::string only;
    bool sites = false;
    bool one = false;
    uint64_t twice = 0; // each Nth, to see that it is the same
    bool brief = false; // no shrinking: counts alone
};

double now_s()
{
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

// True if none failed.
bool run_many(const Scenario& s, const Options& o)
{
    const double begin = now_s();
    common->seeds = common->accesses = common->switches = common->stale = common->faults = 0;
    common->next = o.from;
    common->failures = 0;
    const uint64_t end = o.from + std::max<uint64_t>(1, o.seeds / (o.only.empty() ? s.cost : 1));
    struct Failure {
        uint64_t seed;
        bool failed;
        uint64_t hash;
        char why[512];
    };
    struct Job {
        pid_t pid;
        Failure* failure;
    };
    const auto work = [&](Failure* f) {
        for (;;) { // ends with the seeds or the time
            const uint64_t seed = __atomic_fetch_add(&common->next, 1, __ATOMIC_RELAXED);
            if (seed >= end || (o.seconds > 0 && now_s() - begin > o.seconds)) {
                std::filesystem::remove_all(folder());
                _exit(0);
            }
            f->seed = seed;
            Plan plan;
            plan.seed = seed;
            Outcome out = run_here(s, plan);
            if (o.twice != 0 && seed % o.twice == 0 && !out.failed &&
                run_here(s, plan).hash != out.hash) {
                out.failed = true;
                out.why = "the second run of this seed is another one";
            }
            __atomic_fetch_add(&common->seeds, 1, __ATOMIC_RELAXED);
            __atomic_fetch_add(&common->accesses, out.accesses, __ATOMIC_RELAXED);
            __atomic_fetch_add(&common->switches, out.switches, __ATOMIC_RELAXED);
            __atomic_fetch_add(&common->stale, out.stale, __ATOMIC_RELAXED);
            __atomic_fetch_add(&common->faults, out.faults, __ATOMIC_RELAXED);
            if (out.failed) {
                f->failed = true;
                f->hash = out.hash;
                std::snprintf(f->why, sizeof f->why, "%s", out.why.c_str());
                std::filesystem::remove_all(folder());
                _exit(1);
            }
        }
    };
    Failure first{};
    std::vector<Job> jobs;
    const auto start = [&](Failure* f) {
        *f = {};
        std::fflush(stdout);
        const pid_t pid = fork();
        if (pid == 0) {
            make_folder();
            own = shared_memory<Own>();
            work(f);
        }
        jobs.push_back({pid, f});
    };
    for (uint32_t j = 0; j < o.jobs; ++j) {
        start(shared_memory<Failure>());
    }
    while (!jobs.empty()) { // ends with the jobs
        int status = 0;
        const pid_t pid = wait(&status);
        const auto job =
            std::find_if(jobs.begin(), jobs.end(), [&](const Job& x) { return x.pid == pid; });
        if (job == jobs.end()) {
            continue;
        }
        Failure* f = job->failure;
        jobs.erase(job);
        if (status != 0) {
            ++common->failures;
            if (!f->failed) {
                ++common->seeds;
                std::snprintf(f->why, sizeof f->why, "the process ended by signal %d",
                              WTERMSIG(status));
            }
            if (first.why[0] == 0) {
                first = *f;
            }
            if (o.brief || common->failures < 20) {
                start(f);
            }
        }
    }
    const double took = now_s() - begin;
    std::printf(
        "%-20s %9llu seeds %7.1f s %8.0f seeds/s %12llu accesses %10llu switches %9llu stale "
        "%7llu faults  %llu failed\n",
        s.name, static_cast<unsigned long long>(common->seeds), took,
        static_cast<double>(common->seeds) / took,
        static_cast<unsigned long long>(common->accesses),
        static_cast<unsigned long long>(common->switches),
        static_cast<unsigned long long>(common->stale),
        static_cast<unsigned long long>(common->faults),
        static_cast<unsigned long long>(common->failures));
    std::fflush(stdout);
    if (first.why[0] != 0 && !o.brief) {
        Outcome found;
        found.failed = true;
        found.why = first.why;
        found.hash = first.hash;
        tell(s, first.seed, found);
    } else if (first.why[0] != 0) {
        std::printf("  %s\n", first.why);
    }
    return first.why[0] == 0;
}

bool run_litmus()
{
    bool good = true;
    for (const Litmus& t : litmus_tests()) {
        own->progress.outcomes = 0;
        for (uint64_t seed = 1; seed <= 3000; ++seed) {
            clear_litmus();
            Plan plan;
            plan.seed = seed;
            if (run(plan, t.body).failed) {
                return false;
            }
        }
        const bool seen = (own->progress.outcomes >> t.outcome & 1) != 0;
        good = good && seen == t.allowed;
        std::printf("%-50s %s%s\n", t.name, seen ? "seen" : "not seen",
                    seen == t.allowed ? ""
                    : t.allowed       ? ": FAILED, it is allowed"
                                      : ": FAILED");
    }
    return good;
}

void plant_all(const char* list, Plant what)
{
    for (const char* p = list; *p != 0;) {
        char* end = nullptr;
        plant(reinterpret_cast<uintptr_t>(&__executable_start) + std::strtoull(p, &end, 16), what);
        p = *end == ',' ? end + 1 : end;
    }
}

} // namespace

const std::string& folder() { return folder_name(); }
Progress& progress() { return own->progress; }

} // namespace simulation

int main(int argc, char** argv)
{
    using namespace simulation;
    simulation::Options o;
    bool litmus = false;
    o.jobs = static_cast<uint32_t>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
    common = shared_memory<Common>();
    own = shared_memory<Own>();
    for (int i = 1; i < argc; ++i) {
        const std::string a = argv[i];
        const auto value = [&] { return i + 1 < argc ? argv[++i] : ""; };
        if (a == "--seeds")
            o.seeds = std::strtoull(value(), nullptr, 10);
        else if (a == "--from")
            o.from = std::strtoull(value(), nullptr, 10);
        else if (a == "--seed")
            o.seed = std::strtoull(value(), nullptr, 10), o.one = true;
        else if (a == "--only")
            o.only = value();
        else if (a == "--jobs")
            o.jobs = static_cast<uint32_t>(std::atoi(value()));
        else if (a == "--seconds")
            o.seconds = std::atof(value());
        else if (a == "--sites")
            o.sites = true;
        else if (a == "--litmus")
            litmus = true;
        else if (a == "--twice")
            o.twice = std::strtoull(value(), nullptr, 10);
        else if (a == "--brief")
            o.brief = true;
        else if (a == "--relax")
            plant_all(value(), Plant::relaxed);
        else if (a == "--drop")
            plant_all(value(), Plant::dropped);
        else {
            std::fprintf(stderr, "simulate: unknown option %s\n", argv[i]);
            return 2;
        }
    }
    if (litmus) {
        return run_litmus() ? 0 : 1;
    }
    std::vector<Scenario> all = wire_scenarios();
    for (const auto& more :
         {actor_scenarios(), gpu_scenarios(), task_scenarios(), flow_scenarios(), group_scenarios(),
          host_scenarios(), restart_scenarios(), watch_scenarios(), topic_scenarios()}) {
        all.insert(all.end(), more.begin(), more.end());
    }
    // An exception that nobody catches is a failure of the run.
    std::set_terminate([] {
        std::string why = "std::terminate";
        try {
            if (std::current_exception()) {
                std::rethrow_exception(std::current_exception());
            }
        } catch (const std::exception& e) {
            why = e.what();
        } catch (...) {
        }
        fail(why);
    });
    make_folder();
    bool good = true;
    bool any = false;
    for (const Scenario& s : all) {
        if (!o.only.empty() && o.only != s.name) {
            continue;
        }
        any = true;
        if (o.sites) {
            count_sites(true);
            for (uint64_t seed = o.from; seed < o.from + o.seeds; ++seed) {
                Plan plan;
                plan.seed = seed;
                if (run_here(s, plan).failed) {
                    return 1;
                }
            }
            continue;
        }
        if (o.one) {
            Plan plan;
            plan.seed = o.seed;
            const Outcome out = attempt(s, plan);
            if (out.failed) {
                tell(s, o.seed, out);
                good = false;
            } else {
                std::printf("%s, seed %llu: holds, %zu choices, hash %016llx\n", s.name,
                            static_cast<unsigned long long>(o.seed), out.choices.size(),
                            static_cast<unsigned long long>(out.hash));
            }
            continue;
        }
        good = run_many(s, o) && good;
    }
    for (const Site& site : sites()) {
        std::printf("%zx %llu %s\n", site.at - reinterpret_cast<uintptr_t>(&__executable_start),
                    static_cast<unsigned long long>(site.count), site.what);
    }
    std::filesystem::remove_all(folder());
    if (!any) {
        std::fprintf(stderr, "simulate: no scenario is called %s\n", o.only.c_str());
        return 2;
    }
    return good ? 0 : 1;
}

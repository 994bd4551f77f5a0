// SPDX-License-Identifier: Apache-2.0
// qsdr's experiments with one kernel, y = a y + b: by buffer size and by number of buffers on one
// core; rings of 2 to N cores with N to 3 N buffers, also with the movement of samples removed; M
// kernels on N cores. What a graph reaches is given as percent of what the kernel alone can do,
// which is measured beside it in each round: "bound" says how much that is.
//   compute   the kernel alone on one core: a ring's cores work side by side, each on every sample
//   static    1 / ceil(M / N) of it: kernels are dealt out once
//   dynamic   N / M of it: kernels go to whichever core is free
// A kernel in vectors takes a hundred nanoseconds for 16 KiB on a current core, qsdr's took three
// thousand: what a runtime costs shows ten times as much. So the experiments that have a goal are
// there again with a kernel of one sample after the other ("by sample").
#include "flow_blocks.hpp"
#include "program.hpp"

namespace {

using namespace denizen;
using namespace denizen::bench;

struct Arm {
    Kind kind;
    size_t cores, kernels;
    uint32_t quanta;
    size_t quantum; // samples
    bool fake;
    SaxpyKernel kernel;
    std::string name;
    Samples of_static, of_dynamic;
    bool right = true;
    double alone_msps = 0; // what the last measurement found; 0: there was none
    double chain_msps = 0;
};

// Samples that take some `ms` milliseconds, a few rounds of all quanta at least: enough that the
// start is nothing.
uint64_t samples_for(const Arm& arm, double msps, double ms)
{
    return std::max<uint64_t>(static_cast<uint64_t>(msps * 1e3 * ms),
                              uint64_t{8} * (arm.quanta + 1) * arm.quantum);
}

// The experiments differ by a factor of a thousand in their rates, and each takes as long as it
// was told all the same: an arm's first measurement is short, does not count, and says how many
// samples the next ones need.
void measure(std::vector<Arm>& arms, uint32_t rounds, double ms)
{
    pin_to_core(core_of(0));
    interleaved(rounds + 1, arms.size(), [&](size_t i) {
        Arm& arm = arms[i];
        const bool counts = arm.chain_msps > 0;
        // One core: the same buffers by turns. Several: a core's best, the buffer in its cache.
        const size_t buffers = arm.cores == 1 ? arm.quanta : 1;
        const double alone =
            kernel_alone(buffers, arm.quantum, samples_for(arm, arm.alone_msps, ms), arm.kernel);
        const ChainResult got =
            run_chain(arm.kind, arm.cores, arm.kernels, arm.quanta, arm.quantum,
                      samples_for(arm, arm.chain_msps, ms), arm.fake, arm.kernel);
        arm.alone_msps = alone;
        arm.chain_msps = got.msps;
        arm.right &= got.right && got.msps > 0;
        if (!counts) return;
        const double n = static_cast<double>(arm.cores);
        const double m = static_cast<double>(arm.kernels);
        arm.of_static.add(100 * got.msps / (alone / std::ceil(m / n)));
        arm.of_dynamic.add(100 * got.msps / (alone * n / m));
    });
}

void print(Arm& arm, bool dynamic, const char* second = "")
{
    const auto one = [&](const char* bound, const Samples& samples, const char* unit) {
        Json params;
        params.add("bytes", arm.quantum * sizeof(float)).add("buffers", arm.quanta);
        if (arm.cores > 1) params.add("cores", arm.cores);
        if (arm.cores > 1 && arm.cores == all_cores.size()) params.add("all cores", true);
        if (arm.kernels != arm.cores) params.add("kernels", arm.kernels);
        params.add("kind", to_string(arm.kind));
        if (*bound != '\0') params.add("bound", bound);
        Case row(arm.name, params, unit);
        row.n = samples.size();
        row.verified = arm.right;
        row.arm = second;
        row.print(samples);
    };
    if (!dynamic) {
        one("compute", arm.of_static, "%");
    } else {
        one("static", arm.of_static, "%");
        one("dynamic", arm.of_dynamic, "%");
    }
}

} // namespace

int main(int argc, char** argv)
{
    return run_program(argc, argv, [](const Arguments& arguments) {
        const bool quick = arguments.quick;
        const size_t here = std::max<size_t>(all_cores.size(), 1);
        print_environment(environment(arguments).add("cores_allowed", here));
        std::vector<Arm> arms;
        const auto add = [&](const char* name, Kind kind, size_t cores, size_t kernels,
                             size_t quanta, size_t bytes, bool fake,
                             SaxpyKernel kernel = saxpy_kernel) {
            arms.push_back({kind, cores, kernels, static_cast<uint32_t>(quanta),
                            bytes / sizeof(float), fake, kernel, name, Samples(64), Samples(64)});
        };
        const auto kinds = {Kind::futex, Kind::coroutine};
        const auto all_kinds = {Kind::futex, Kind::coroutine, Kind::stealing};
        // One core.
        const std::vector<size_t> sizes =
            quick ? std::vector<size_t>{1 << 10, 1 << 14, 1 << 18}
                  : std::vector<size_t>{1 << 8,  1 << 10, 1 << 12, 1 << 14, 1 << 15,
                                        1 << 16, 1 << 19, 1 << 20, 1 << 21, 1 << 23};
        for (const size_t bytes : sizes) {
            for (const Kind kind : bytes == 1 << 14 ? all_kinds : kinds) {
                add("saxpy, one core", kind, 1, 1, 1, bytes, false);
            }
        }
        const size_t same = arms.size(); // A/A of the figure that is a goal
        add("saxpy, one core", Kind::futex, 1, 1, 1, 1 << 14, false);
        const std::vector<size_t> totals =
            quick ? std::vector<size_t>{1 << 16}
                  : std::vector<size_t>{1 << 12, 1 << 14, 1 << 15, 1 << 16};
        for (const size_t total : totals) {
            for (const size_t n : {2, 4, 8, 16}) {
                for (const Kind kind : kinds) {
                    add("saxpy, one core, many buffers", kind, 1, 1, n, total / n, false);
                }
            }
        }
        // Rings.
        std::vector<size_t> ring_cores;
        for (size_t n = 2; n <= here; n = n < 4 ? n + 1 : n * 2) ring_cores.push_back(n);
        if (!ring_cores.empty() && ring_cores.back() != here) ring_cores.push_back(here);
        for (const size_t n : ring_cores) {
            const std::vector<size_t> buffers =
                quick ? std::vector<size_t>{n + 1} : std::vector<size_t>{n, n + 1, 2 * n, 3 * n};
            for (const size_t b : buffers) {
                for (const size_t bytes : quick ? std::vector<size_t>{1 << 14}
                                                : std::vector<size_t>{1 << 12, 1 << 14, 1 << 16}) {
                    // Stealing is for the goals alone.
                    const bool is_goal = n == here && bytes == 1 << 14;
                    for (const bool fake : {false, true}) {
                        for (const Kind kind : is_goal ? all_kinds : kinds) {
                            add(fake ? "ring, movement removed" : "ring", kind, n, n, b, bytes,
                                fake);
                        }
                    }
                }
            }
        }
        // What is a goal, with a kernel as slow as qsdr's was.
        for (const Kind kind : kinds) {
            add("saxpy by sample, one core", kind, 1, 1, 1, 1 << 14, false, saxpy_by_sample);
            if (here < 2) continue;
            for (const size_t b : quick ? std::vector<size_t>{here + 1}
                                        : std::vector<size_t>{here, here + 1, 2 * here, 3 * here}) {
                add("ring by sample, movement removed", kind, here, here, b, 1 << 14, true,
                    saxpy_by_sample);
            }
        }
        const size_t chains = arms.size();
        // M kernels on N cores.
        for (const size_t n : ring_cores) {
            for (const size_t m : quick ? std::vector<size_t>{n + 1}
                                        : std::vector<size_t>{n + 1, 2 * n, 2 * n + 1, 3 * n}) {
                for (const Kind kind : all_kinds) {
                    add("kernels on cores", kind, n, m, n + 1, 1 << 14, false);
                }
            }
        }
        const uint32_t rounds = quick ? 3 : 11;
        // All of them, the kernel alone and the graph, in a minute at most.
        constexpr double most_ms = 60e3;
        const double each = most_ms / static_cast<double>(2 * rounds * arms.size());
        measure(arms, rounds, std::clamp(each, 2.0, quick ? 3.0 : 20.0));
        for (size_t i = 0; i < arms.size(); ++i) {
            print(arms[i], i >= chains, i == same ? "A/A" : "");
        }
    });
}

// SPDX-License-Identifier: Apache-2.0
// All-reduce (sum of f32). On GPUs: inside a resident kernel, by a message from the host to a
// resident group, as a kernel on a stream and in a graph; NCCL in a graph and eager; and what a
// peer copy reaches; and the other collectives, in graphs, beside NCCL's. On CPU threads: each
// algorithm, a resident group, and the textbook's way (a barrier, everybody sums, a barrier). A
// batch's time is that of the slowest rank, divided by its calls. After each batch all results are
// compared with the exact sum. Every wait has a deadline.
#include "group_arms.hpp"

#if defined(__CUDACC__)
#include "group_gpu.cuh"
#endif

#include <cmath>
#include <limits>
#include <memory>

namespace {

using namespace denizen;
using namespace denizen::bench;
using group::Algorithm;

Json params_of(uint64_t bytes, uint32_t ranks)
{
    Json params;
    params.add("bytes", bytes).add("ranks", ranks);
    return params;
}

void measure_cpu(const Arguments& arguments, uint32_t ranks, uint64_t bytes)
{
    const uint64_t count = bytes / 4;
    GroupOptions options;
    options.heap_bytes = 2 * (bytes + 256);
    std::vector<Group> groups = Group::local(ranks, Device::cpu(), options);
    std::vector<float*> in, out;
    for (uint32_t r = 0; r < ranks; ++r) {
        in.push_back(static_cast<float*>(groups[r].allocate(bytes)));
        out.push_back(static_cast<float*>(groups[r].allocate(bytes)));
        for (uint64_t i = 0; i < count; ++i) in[r][i] = value_at(i, r);
    }
    std::vector<Arm> arms;
    const uint32_t calls = arguments.quick ? 10 : bytes <= 4096 ? 200 : bytes <= 1u << 18 ? 50 : 5;
    const auto add = [&](const char* name, std::function<void(uint32_t, uint32_t)> work) -> Case& {
        Arm arm{Case(name, params_of(bytes, ranks)), calls, {}, Samples(64)};
        arm.batch = [work = std::move(work)](uint32_t r, uint32_t n) {
            const uint64_t begin = now_ns();
            work(r, n);
            return static_cast<double>(now_ns() - begin) * 1e-9;
        };
        arms.push_back(std::move(arm));
        return arms.back().result;
    };
    const auto run = [&](Algorithm algorithm) {
        return [&, algorithm](uint32_t r, uint32_t n) {
            group::Call call = sum_call(algorithm, count);
            call.in = in[r];
            call.out = out[r];
            for (uint32_t i = 0; i < n; ++i) groups[r].run(call);
        };
    };
    for (const Algorithm algorithm :
         {Algorithm::automatic, Algorithm::one_shot, Algorithm::two_shot, Algorithm::pull,
          Algorithm::pull_twice, Algorithm::push, Algorithm::push_twice}) {
        add(to_string(algorithm), run(algorithm)).ratio_base = {"barrier, sum, barrier"};
    }
    add(to_string(Algorithm::automatic), run(Algorithm::automatic)).arm = "A/A";
    add("message to a resident group", [&](uint32_t r, uint32_t n) {
        ResidentGroup resident(groups[r]); // a thread more for each rank
        for (uint32_t i = 0; i < n; ++i) {
            resident.wait(resident.all_reduce(in[r], out[r], count, group::Type::f32));
        }
    });
    std::barrier together(static_cast<std::ptrdiff_t>(ranks));
    add("barrier, sum, barrier", [&](uint32_t r, uint32_t n) {
        for (uint32_t i = 0; i < n; ++i) {
            together.arrive_and_wait();
            for (uint64_t k = 0; k < count; ++k) {
                float sum = in[0][k];
                for (uint32_t p = 1; p < ranks; ++p) sum += in[p][k];
                out[r][k] = sum;
            }
            together.arrive_and_wait();
        }
    });
    measure_arms(
        arms, ranks, arguments.quick ? 5 : 15,
        [&] {
            for (float* o : out) std::fill(o, o + count, std::numeric_limits<float>::quiet_NaN());
        },
        [&] {
            bool right = true;
            for (const float* o : out) {
                for (uint64_t i = 0; i < count; ++i) right &= o[i] == sum_at(i, ranks);
            }
            return right;
        });
}

void measure(const Arguments& arguments)
{
#if defined(__CUDACC__)
    if (arguments.gpu()) return measure_gpus(arguments);
#endif
    print_environment(environment(arguments));
    const std::vector<uint64_t> sizes =
        arguments.quick ? std::vector<uint64_t>{1024, 65536}
                        : std::vector<uint64_t>{64, 1024, 16384, 65536, 1 << 20, 4 << 20};
    for (const uint32_t ranks : {2u, 4u}) {
        if (arguments.workers != 0 && arguments.workers != ranks) continue;
        for (const uint64_t bytes : sizes) measure_cpu(arguments, ranks, bytes);
    }
}

} // namespace

int main(int argc, char** argv) { return run_program(argc, argv, measure); }

// SPDX-License-Identifier: Apache-2.0
// What it costs a program to breathe (docs/gpu-sharing.md), and what others gain: round trips and
// full load with a breath and with one kernel for ever, how long nobody is there between two
// incarnations, and how long the calls take that wait for the whole device, beside a program that
// is asked all the time. On the CPU only the round trips.
#include <denizen/actor/runtime.hpp>

#include "actor_program.hpp"
#include "random_targets.hpp"

#include <atomic>
#include <ctime>
#include <functional>
#include <thread>

namespace {

using namespace denizen;
using namespace denizen::bench;

struct Ping {
    uint32_t number;
};
struct Pong {
    uint32_t number;
};
struct Busy { // a handler that takes `us`
    uint32_t us;
};
struct Echo {
    uint32_t busy = 0;

    DENIZEN_HD void on(const Ping& m, auto& ctx) { ctx.reply(Pong{2 * m.number + 1}); }
    DENIZEN_HD void on(const Busy& m, auto&)
    {
        const uint64_t begin = now_ns();
        while (now_ns() - begin < m.us * 1000ull) { // ends with time
        }
        ++busy;
    }
};

using Echoing = Program<Actors<Echo>, Messages<Ping, Pong, Busy>>;
using Rt = Runtime<Echoing>;

constexpr int64_t usual_us = default_breath.count();

Options with_breath(const Arguments& arguments, int64_t us)
{
    Options o = options_of(arguments);
    if (us != usual_us) o.breath = std::chrono::microseconds(us); // else as nobody says it
    if (!arguments.gpu() && o.workers == 0) o.workers = 2;
    return o;
}

Json params(int64_t breath_us) { return Json().add("breath_us", breath_us); }

// Asks one actor after the other as long as `more()`; false if an answer is wrong.
bool ask(Rt& rt, const std::vector<Address>& actors, Samples& samples,
         const std::function<bool()>& more)
{
    bool right = true;
    for (uint32_t i = 0; more(); ++i) { // ends by `more`
        const uint64_t begin = now_ns();
        const Pong pong = rt.ask<Pong>(actors[i % actors.size()], Ping{i}, 10s);
        samples.add_ns_as_us(now_ns() - begin);
        right &= pong.number == 2 * i + 1;
    }
    return right;
}

std::function<bool()> times(uint32_t n)
{
    return [n, i = 0u]() mutable { return i++ < n; };
}

// Of programs with these breaths, a program anew in each round; the usual breath twice.
void round_trips(const Arguments& arguments)
{
    struct Arm {
        int64_t breath_us;
        Samples samples;
        bool right = true;
    };
    // Where a program's memory lies makes more of a difference than a breath: hence many.
    const uint32_t rounds = arguments.quick ? 3 : 20;
    const uint32_t n = (arguments.gpu() ? (arguments.quick ? 50'000 : 500'000) : 2'000) / rounds;
    std::vector<Arm> arms;
    for (const int64_t us : {int64_t{0}, int64_t{1000}, usual_us, int64_t{5000}, usual_us})
        arms.push_back({us, Samples(size_t{n} * rounds)});
    std::vector<Stats> last(arms.size());
    interleaved(rounds, arms.size(), [&](size_t i) {
        Rt rt(arguments.device, with_breath(arguments, arms[i].breath_us));
        const auto actors = rt.spawn<Echo>(64);
        Samples unused(n);
        arms[i].right &= ask(rt, actors, unused, times(n / 10));
        arms[i].right &= ask(rt, actors, arms[i].samples, times(n));
        last[i] = rt.stats();
        rt.close();
    });
    for (size_t i = 0; i < arms.size(); ++i) {
        const int64_t us = arms[i].breath_us;
        Case result(us != 0 ? "ask" : "ask, one kernel for ever", params(us));
        result.n = uint64_t{n} * rounds;
        result.verified = arms[i].right && last[i].errors == 0;
        const bool again = i + 1 == arms.size();
        if (us != 0 && !again) result.ratio_base = {"ask, one kernel for ever"};
        if (again) result.arm = "A/A";
        result.print(arms[i].samples);
        if (!again) print_handovers(last[i], params(us).add("load", "asks"), arms[i].right);
    }
}

#if defined(__CUDACC__)

void need(cudaError_t e)
{
    if (e != cudaSuccess) throw std::runtime_error(cudaGetErrorString(e));
}

__global__ void small(float* p, uint32_t n)
{
    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        p[i] = p[i] * 1.5f + 1;
}

// Each is loaded as it is launched first.
template <int K>
__global__ void loaded_late(float* p)
{
    p[threadIdx.x] = p[threadIdx.x] * K + K;
}
using Kernel = void (*)(float*);
constexpr uint32_t late_kernels = 16;
template <int... K>
std::vector<Kernel> kernels(std::integer_sequence<int, K...>)
{
    return {loaded_late<K>...};
}

// Takes every SM for itself.
__global__ void __launch_bounds__(1024, 1) whole(float* p)
{
    p[blockIdx.x * blockDim.x + threadIdx.x] += 1;
}

struct Call {
    const char* name;
    std::function<void()> make;
    std::function<void()> undo = [] {}; // not timed
};

// A module as other programs' compilers make them.
constexpr const char* module_text = R"(.version 8.0
.target sm_80
.address_size 64
.visible .entry other(.param .u64 other_0) { ret; })";

// What the calls need; made before any program is resident.
struct Tools {
    Tools()
    {
        need(cudaMalloc(&buffer, 16 << 20));
        need(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        int device = 0;
        need(cudaGetDevice(&device));
        need(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device));
        need(cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
        need(cudaFuncSetAttribute(whole, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
        small<<<1, 32, 0, stream>>>(buffer, 1);
        need(cudaStreamSynchronize(stream));
    }
    ~Tools()
    {
        cudaStreamDestroy(stream);
        cudaFree(buffer);
    }
    Tools(const Tools&) = delete;
    Tools& operator=(const Tools&) = delete;

    float* buffer = nullptr;
    void* one = nullptr; // of a call
    cudaStream_t stream = nullptr;
    int sms = 0;
    int shared = 0;
};

std::vector<Call> calls(Tools& t)
{
    return {
        {"cudaDeviceSynchronize", [] { need(cudaDeviceSynchronize()); }},
        {"cudaMalloc + cudaFree 64 MiB",
         [] {
             void* p = nullptr;
             need(cudaMalloc(&p, 64 << 20));
             need(cudaFree(p));
         }},
        {"cudaMalloc 1 MiB", [&t] { need(cudaMalloc(&t.one, 1 << 20)); },
         [&t] { need(cudaFree(t.one)); }},
        {"cudaHostAlloc + cudaFreeHost 1 MiB",
         [] {
             void* p = nullptr;
             need(cudaHostAlloc(&p, 1 << 20, cudaHostAllocDefault));
             need(cudaFreeHost(p));
         }},
        {"cudaMemset, legacy stream", [&t] { need(cudaMemset(t.buffer, 0, 1 << 20)); }},
        {"cudaMemcpy within the device",
         [&t] {
             need(cudaMemcpy(t.buffer, t.buffer + (1 << 20), 1 << 20, cudaMemcpyDeviceToDevice));
             need(cudaStreamSynchronize(nullptr));
         }},
        {"kernel, legacy stream",
         [&t] {
             small<<<256, 256>>>(t.buffer, 65536);
             need(cudaStreamSynchronize(nullptr));
         }},
        {"kernel, own stream",
         [&t] {
             small<<<256, 256, 0, t.stream>>>(t.buffer, 65536);
             need(cudaStreamSynchronize(t.stream));
         }},
        {"cudaStreamCreate + Destroy",
         [] {
             cudaStream_t s = nullptr;
             need(cudaStreamCreate(&s));
             need(cudaStreamDestroy(s));
         }},
        {"cudaEventCreate + Destroy",
         [] {
             cudaEvent_t e = nullptr;
             need(cudaEventCreate(&e));
             need(cudaEventDestroy(e));
         }},
        {"cudaMemGetInfo",
         [] {
             size_t free = 0;
             size_t all = 0;
             need(cudaMemGetInfo(&free, &all));
         }},
        {"cudaDeviceSetLimit", [] { need(cudaDeviceSetLimit(cudaLimitPrintfFifoSize, 1 << 20)); }},
        {"cuModuleLoadData + Unload",
         [] {
             gpu::Module module = nullptr;
             gpu::check(gpu::driver().module_load_data(&module, module_text), "cuModuleLoadData");
             gpu::check(gpu::driver().module_unload(module), "cuModuleUnload");
         }},
        // Its memory goes back at each synchronisation, as a pool's does by default.
        {"cudaMallocAsync 64 MiB, the pool grows",
         [&t] {
             need(cudaMallocAsync(&t.one, 64 << 20, t.stream));
             need(cudaStreamSynchronize(t.stream));
         },
         [&t] {
             need(cudaFreeAsync(t.one, t.stream));
             need(cudaStreamSynchronize(t.stream));
         }},
        {"cooperative grid, every SM whole",
         [&t] {
             void* arguments[] = {&t.buffer};
             need(cudaLaunchCooperativeKernel(reinterpret_cast<void*>(whole),
                                              dim3(static_cast<unsigned>(t.sms)), dim3(1024),
                                              arguments, static_cast<size_t>(t.shared), t.stream));
             need(cudaStreamSynchronize(t.stream));
         }},
    };
}

Samples timed(const Call& call, uint32_t n)
{
    Samples samples(n);
    uint64_t random = 1;
    for (uint32_t i = 0; i < n; ++i) {
        random = random * 6364136223846793005ull + 1442695040888963407ull;
        std::this_thread::sleep_for(std::chrono::microseconds((random >> 33) % 1500));
        const uint64_t begin = now_ns();
        call.make();
        samples.add_ns_as_us(now_ns() - begin);
        call.undo();
    }
    return samples;
}

// What the host pays for a program that nobody asks: of a core, by this process alone.
void on_the_host(const Arguments& arguments)
{
    const uint32_t n = arguments.quick ? 3 : 18;
    Case result("host's share of a core", params(usual_us), "%");
    Samples samples(n);
    Rt rt(arguments.device, with_breath(arguments, usual_us));
    const auto actors = rt.spawn<Echo>(64);
    const auto spent_ns = [] {
        timespec t{};
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
        return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(t.tv_nsec);
    };
    for (uint32_t i = 0; i < n; ++i) {
        const uint64_t spent = spent_ns();
        const uint64_t begin = now_ns();
        std::this_thread::sleep_for(100ms);
        samples.add(100 * static_cast<double>(spent_ns() - spent) /
                    static_cast<double>(now_ns() - begin));
    }
    Samples asked(1);
    result.verified = ask(rt, actors, asked, times(1)) && rt.stats().errors == 0;
    result.n = n;
    result.print(samples);
    rt.close();
}

// Alone, and beside a program that is asked meanwhile.
void whole_device(const Arguments& arguments)
{
    const uint32_t n = arguments.quick ? 20 : 200;
    Tools tools;
    const auto all = calls(tools);
    for (const Call& call : all) {
        Case alone(std::string("alone: ") + call.name);
        alone.n = n;
        alone.verified = true;
        timed(call, 3);
        alone.print(timed(call, n));
    }
    Rt rt(arguments.device, with_breath(arguments, usual_us));
    const auto actors = rt.spawn<Echo>(64);
    const auto beside = [&](const std::string& name, const std::function<Samples()>& make,
                            std::vector<std::string> base) {
        std::atomic<bool> stop{false};
        Samples asked(4'000'000);
        bool right = true;
        std::thread asker([&] {
            right = ask(rt, actors, asked, [&] { return !stop && asked.size() < 4'000'000; });
        });
        const Samples samples = make();
        stop = true;
        asker.join();
        Case result("beside: " + name, params(usual_us));
        result.n = samples.size();
        result.verified = right && rt.stats().errors == 0;
        result.ratio_base = std::move(base);
        result.print(samples);
        Case meanwhile("ask beside: " + name, params(usual_us));
        meanwhile.n = std::max<size_t>(asked.size(), 1);
        meanwhile.verified = right;
        if (asked.size() != 0) meanwhile.print(asked);
    };
    for (const Call& call : all)
        beside(call.name, [&] { return timed(call, n); }, {std::string("alone: ") + call.name});
    uint32_t launched = 0;
    const auto late = kernels(std::make_integer_sequence<int, late_kernels>{});
    const Call first_launch{"first launch of a kernel", [&] {
                                late[launched++]<<<1, 32, 0, tools.stream>>>(tools.buffer);
                                need(cudaStreamSynchronize(tools.stream));
                            }};
    beside(first_launch.name, [&] { return timed(first_launch, late_kernels); }, {});
    // One handler of 50 ms: the others go on, and who waits for the device waits for it.
    const Address busy = actors[0];
    std::vector<Address> others;
    for (const Address a : actors)
        if (a.worker() != busy.worker()) others.push_back(a);
    Samples meanwhile(2'000'000);
    bool right = true;
    const uint32_t rounds = arguments.quick ? 4 : 20;
    for (uint32_t i = 0; i < rounds; ++i) {
        rt.send(busy, Busy{50'000});
        const uint64_t begin = now_ns();
        right &= ask(rt, others, meanwhile,
                     [&] { return now_ns() - begin < 45'000'000 && meanwhile.size() < 2'000'000; });
        rt.drain(10s);
    }
    Case result("ask beside: a handler of 50 ms", params(usual_us));
    result.n = meanwhile.size();
    result.verified = right;
    result.print(meanwhile);
    print_handovers(rt.stats(), params(usual_us).add("load", "asks, and a handler of 50 ms"),
                    right);
    rt.close();
}

#endif

void measure(const Arguments& arguments)
{
    {
        const Rt rt(arguments.device, with_breath(arguments, 0));
        print_environment(environment(arguments, rt.description()));
    }
    round_trips(arguments);
    if (!arguments.gpu()) return;
    measure_random_targets_by_breath(arguments, 4, {0, 1000, usual_us, 3000, 5000, usual_us});
#if defined(__CUDACC__)
    whole_device(arguments);
    on_the_host(arguments);
#endif
}

} // namespace

int main(int argc, char** argv) { return run_program(argc, argv, measure); }

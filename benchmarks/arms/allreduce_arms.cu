// SPDX-License-Identifier: Apache-2.0
// The arms of the experiment "does asynchronous copy help an all-reduce?", for denizen ab
// (allreduce_ab.py). One process drives all ranks, each a GPU, or several on one GPU where only
// correctness matters.
//
//   allreduce_arms [--devices 0,1]           serves the arms
//   allreduce_arms --limit [--devices 0,1]   copies from device 1 to 0: bytes a second, and bytes
#include "reduce.cuh"
#include "server.hpp"

#include "../rivals/cuda.cuh"

#include <array>
#include <cstring>
#include <fstream>
#include <initializer_list>
#include <map>
#include <memory>
#include <tuple>

namespace denizen::arms {

#define DENIZEN_ARM(number, name, body)                                                            \
    extern "C" __global__ void __launch_bounds__(threads) name(const View v)                       \
    {                                                                                              \
        follow_the_kernel_before(v);                                                               \
        for (uint32_t i = 0; i < v.iterations; ++i) {                                              \
            count_operation<number>(v);                                                            \
            if (!(body)) return;                                                                   \
        }                                                                                          \
        end_for_the_next(v);                                                                       \
    }

DENIZEN_ARM(0, pull_load1, pull_one_stage<Loads<1>>(v))
DENIZEN_ARM(1, pull_load2, pull_one_stage<Loads<2>>(v))
DENIZEN_ARM(2, pull_load4, pull_one_stage<Loads<4>>(v))
DENIZEN_ARM(3, pull_async2, pull_one_stage<Async<2>>(v))
DENIZEN_ARM(4, pull_async3, pull_one_stage<Async<3>>(v))
DENIZEN_ARM(5, pull_async4, pull_one_stage<Async<4>>(v))
DENIZEN_ARM(6, pull_bulk, pull_one_stage<Bulk<4>>(v))
DENIZEN_ARM(7, push_store, push_one_stage<Stores>(v))
DENIZEN_ARM(8, push_bulk, push_one_stage<BulkStores>(v))
DENIZEN_ARM(9, packets_once, packets_one_stage(v))
DENIZEN_ARM(10, pull2_load1, pull_two_stages<Loads<1>>(v))
DENIZEN_ARM(11, pull2_load2, pull_two_stages<Loads<2>>(v))
DENIZEN_ARM(12, pull2_load4, pull_two_stages<Loads<4>>(v))
DENIZEN_ARM(13, pull2_async2, pull_two_stages<Async<2>>(v))
DENIZEN_ARM(14, pull2_async3, pull_two_stages<Async<3>>(v))
DENIZEN_ARM(15, pull2_async4, pull_two_stages<Async<4>>(v))
DENIZEN_ARM(16, pull2_bulk, pull_two_stages<Bulk<4>>(v))
DENIZEN_ARM(17, push2_store, push_two_stages<Stores>(v))
DENIZEN_ARM(18, push2_bulk, push_two_stages<BulkStores>(v))
DENIZEN_ARM(19, packets_twice, packets_two_stages(v))
// The control: everything is done twice, so it must be found slower.
DENIZEN_ARM(20, control_twice, pull_one_stage<Loads<1>>(v) && pull_one_stage<Loads<1>>(v))
#undef DENIZEN_ARM

namespace {

using bench::check_cuda;
using bench::Json;

struct Arm {
    const char* name;
    void (*kernel)(View);
    uint32_t (*shared_bytes)(uint32_t ranks);
};

const Arm all_arms[] = {
    {"pull_load1", pull_load1, Loads<1>::shared_bytes},
    {"pull_load2", pull_load2, Loads<2>::shared_bytes},
    {"pull_load4", pull_load4, Loads<4>::shared_bytes},
    {"pull_async2", pull_async2, Async<2>::shared_bytes},
    {"pull_async3", pull_async3, Async<3>::shared_bytes},
    {"pull_async4", pull_async4, Async<4>::shared_bytes},
    {"pull_bulk", pull_bulk, Bulk<4>::shared_bytes},
    {"push_store", push_store, Stores::shared_bytes},
    {"push_bulk", push_bulk, BulkStores::shared_bytes},
    {"packets_once", packets_once, Stores::shared_bytes},
    {"pull2_load1", pull2_load1, Loads<1>::shared_bytes},
    {"pull2_load2", pull2_load2, Loads<2>::shared_bytes},
    {"pull2_load4", pull2_load4, Loads<4>::shared_bytes},
    {"pull2_async2", pull2_async2, Async<2>::shared_bytes},
    {"pull2_async3", pull2_async3, Async<3>::shared_bytes},
    {"pull2_async4", pull2_async4, Async<4>::shared_bytes},
    {"pull2_bulk", pull2_bulk, Bulk<4>::shared_bytes},
    {"push2_store", push2_store, Stores::shared_bytes},
    {"push2_bulk", push2_bulk, BulkStores::shared_bytes},
    {"packets_twice", packets_twice, Stores::shared_bytes},
    {"control_twice", control_twice, Loads<1>::shared_bytes},
};
constexpr uint32_t arm_count = sizeof all_arms / sizeof *all_arms;
static_assert(arm_count <= max_arms);

template <class T>
T* device_memory(uint64_t n)
{
    void* p = nullptr;
    check_cuda(cudaMalloc(&p, n * sizeof(T)), "device memory");
    check_cuda(cudaMemset(p, 0, n * sizeof(T)), "device memory");
    return static_cast<T*>(p);
}

enum class Mode { resident, alone, graph };

// "NAME+pdl" is the same kernel, launched alone one after the other without waiting for the last to
// end (programmatic dependent launch).
struct Asked {
    uint32_t arm;
    bool is_early;
};
constexpr const char* early_suffix = "+pdl";

// All ranks' memory and streams, for one cell.
class Ranks {
public:
    Ranks(std::vector<int> devices, const bench::Ask& params) : devices_(std::move(devices))
    {
        const auto ranks = static_cast<uint32_t>(devices_.size());
        const uint64_t bytes = params.number("bytes");
        const std::string mode = params.word("mode");
        blocks_ = static_cast<uint32_t>(params.number("blocks"));
        mode_ = mode == "resident" ? Mode::resident : mode == "graph" ? Mode::graph : Mode::alone;
        view_.ranks = ranks;
        view_.count = bytes / sizeof(float4);
        if (view_.count == 0 || bytes % (sizeof(float4) * ranks) != 0)
            throw std::runtime_error("bytes must be a multiple of 16 for each of " +
                                     std::to_string(ranks) + " ranks, not " +
                                     std::to_string(bytes));
        connect();
        for (uint32_t r = 0; r < ranks; ++r) {
            check_cuda(cudaSetDevice(devices_[r]), "device");
            view_.words[r] = device_memory<Words>(1);
            view_.output[r] = device_memory<float4>(view_.count);
            view_.scratch[r] = device_memory<float4>(view_.count / ranks);
            view_.inbox[r] = device_memory<float4>(2 * ranks * view_.count);
            view_.packet[r] = device_memory<uint4>(4 * ranks * view_.count);
            float4* input = device_memory<float4>(view_.count);
            std::vector<float> values(4 * view_.count);
            for (size_t i = 0; i < values.size(); ++i)
                values[i] = static_cast<float>(i % 1000 * (r + 1));
            check_cuda(cudaMemcpy(input, values.data(), bytes, cudaMemcpyHostToDevice), "input");
            view_.input[r] = input;
            streams_.push_back(nullptr);
            check_cuda(cudaStreamCreateWithFlags(&streams_[r], cudaStreamNonBlocking), "stream");
            for (const Arm& arm : all_arms)
                check_cuda(cudaFuncSetAttribute(arm.kernel,
                                                cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                static_cast<int>(arm.shared_bytes(ranks))),
                           "shared memory of an arm");
            check_cuda(cudaDeviceSynchronize(), "preparation");
        }
        check_cuda(cudaSetDevice(devices_[0]), "device");
        check_cuda(cudaEventCreate(&begin_), "event");
        check_cuda(cudaEventCreate(&end_), "event");
    }
    Ranks(const Ranks&) = delete;
    Ranks& operator=(const Ranks&) = delete;
    // Nothing runs: every sample waits for its kernels.
    ~Ranks()
    {
        for (const auto& [key, made] : graphs_)
            for (const cudaGraphExec_t graph : made) cudaGraphExecDestroy(graph);
        for (uint32_t r = 0; r < view_.ranks; ++r) {
            cudaSetDevice(devices_[r]);
            cudaStreamDestroy(streams_[r]);
            for (void* p : std::initializer_list<void*>{
                     view_.words[r], view_.output[r], view_.scratch[r], view_.inbox[r],
                     view_.packet[r], const_cast<float4*>(view_.input[r])})
                cudaFree(p);
        }
        cudaEventDestroy(begin_);
        cudaEventDestroy(end_);
    }

    Json sample(const Asked& asked, uint32_t operations)
    {
        if (asked.is_early && mode_ != Mode::alone)
            throw std::runtime_error("an arm with +pdl is launched alone: mode must be alone");
        view_.early = asked.is_early ? 1 : 0;
        const Words before = words();
        view_.tracing = checked_ ? 1 : 0;
        checked_ = false;
        const double seconds = run(asked.arm, operations);
        const Words after = words();
        if (late()) throw std::runtime_error("a rank waited for more than 2 s: transport broken");
        if (asked.is_early && operations > 9 && after.began_early == before.began_early)
            throw std::runtime_error("none of " + std::to_string(operations) +
                                     " kernels began before the last had ended: no PDL");
        Json ran;
        for (uint32_t early = 0; early < 2; ++early)
            for (uint32_t a = 0; a < arm_count; ++a)
                if (const uint32_t n = after.ran[early][a] - before.ran[early][a])
                    ran.add((std::string(all_arms[a].name) + (early ? early_suffix : "")).c_str(),
                            n);
        return Json()
            .add("seconds", seconds / operations)
            .add("ran", ran)
            .add("spans", spans(after));
    }

    // The next sample is a check, whose time nobody takes: it leaves its marks.
    void poison()
    {
        checked_ = true;
        for (uint32_t r = 0; r < view_.ranks; ++r) {
            check_cuda(cudaSetDevice(devices_[r]), "device");
            check_cuda(cudaMemset(view_.output[r], 0xff, view_.count * sizeof(float4)), "poison");
            check_cuda(cudaDeviceSynchronize(), "poison");
        }
    }

    // All ranks' outputs, one behind the other.
    void write_result(const std::string& path)
    {
        std::ofstream file(path, std::ios::binary);
        std::vector<float4> values(view_.count);
        for (uint32_t r = 0; r < view_.ranks; ++r) {
            check_cuda(cudaMemcpy(values.data(), view_.output[r], values.size() * sizeof(float4),
                                  cudaMemcpyDeviceToHost),
                       "result");
            file.write(reinterpret_cast<const char*>(values.data()),
                       static_cast<std::streamsize>(values.size() * sizeof(float4)));
        }
        if (!file) throw std::runtime_error(path + ": cannot be written");
    }

private:
    // Peers see each other, and all blocks of all ranks run at once, else the barriers would hang.
    void connect()
    {
        std::map<int, uint32_t> blocks_on;
        for (const int device : devices_) blocks_on[device] += blocks_;
        for (const auto& [device, blocks] : blocks_on) {
            int sms = 0;
            check_cuda(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device),
                       "multiprocessors");
            if (blocks_ == 0 || blocks_ > max_blocks || blocks > static_cast<uint32_t>(sms))
                throw std::runtime_error(std::to_string(blocks) + " blocks on device " +
                                         std::to_string(device) + ", which has " +
                                         std::to_string(sms) + " multiprocessors");
            check_cuda(cudaSetDevice(device), "device");
            for (const auto& [other, unused] : blocks_on) {
                if (other == device) continue;
                const cudaError_t status = cudaDeviceEnablePeerAccess(other, 0);
                if (status != cudaErrorPeerAccessAlreadyEnabled) check_cuda(status, "peer access");
                cudaGetLastError();
            }
        }
    }

    void launch(uint32_t arm, uint32_t rank, uint32_t iterations)
    {
        View v = view_;
        v.rank = rank;
        v.iterations = iterations;
        check_cuda(cudaSetDevice(devices_[rank]), "device");
        cudaLaunchAttribute early{}; // may begin before the kernel that is before it has ended
        early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
        early.val.programmaticStreamSerializationAllowed = 1;
        cudaLaunchConfig_t config{};
        config.gridDim = blocks_;
        config.blockDim = threads;
        config.dynamicSmemBytes = all_arms[arm].shared_bytes(v.ranks);
        config.stream = streams_[rank];
        config.attrs = &early;
        config.numAttrs = v.early;
        check_cuda(cudaLaunchKernelEx(&config, all_arms[arm].kernel, v), "launch");
    }

    // A graph of `operations` launches for each rank, made once.
    const std::vector<cudaGraphExec_t>& graphs(uint32_t arm, uint32_t operations)
    {
        auto& made = graphs_[{arm, operations, view_.tracing}];
        for (uint32_t r = static_cast<uint32_t>(made.size()); r < view_.ranks; ++r) {
            cudaGraph_t graph = nullptr;
            check_cuda(cudaStreamBeginCapture(streams_[r], cudaStreamCaptureModeThreadLocal),
                       "capture");
            for (uint32_t i = 0; i < operations; ++i) launch(arm, r, 1);
            check_cuda(cudaStreamEndCapture(streams_[r], &graph), "capture");
            made.push_back(nullptr);
            check_cuda(cudaGraphInstantiate(&made[r], graph, 0), "graph");
            check_cuda(cudaGraphUpload(made[r], streams_[r]), "graph");
            check_cuda(cudaGraphDestroy(graph), "graph");
        }
        for (const cudaStream_t stream : streams_)
            check_cuda(cudaStreamSynchronize(stream), "graph");
        return made;
    }

    // Seconds of all of them, by events on the first rank's stream. The others are started first.
    double run(uint32_t arm, uint32_t operations)
    {
        const std::vector<cudaGraphExec_t>* made =
            mode_ == Mode::graph ? &graphs(arm, operations) : nullptr;
        const auto record = [&](cudaEvent_t event) {
            check_cuda(cudaSetDevice(devices_[0]), "device");
            check_cuda(cudaEventRecord(event, streams_[0]), "event");
        };
        if (mode_ == Mode::alone) {
            for (uint32_t i = 0; i < operations; ++i) {
                for (uint32_t r = view_.ranks; r-- > 0;) {
                    if (i == 0 && r == 0) record(begin_);
                    launch(arm, r, 1);
                }
            }
        } else {
            for (uint32_t r = view_.ranks; r-- > 0;) {
                if (r == 0) record(begin_);
                if (made == nullptr) {
                    launch(arm, r, operations);
                } else {
                    check_cuda(cudaSetDevice(devices_[r]), "device");
                    check_cuda(cudaGraphLaunch((*made)[r], streams_[r]), "graph");
                }
            }
        }
        record(end_);
        for (const cudaStream_t stream : streams_) check_cuda(cudaStreamSynchronize(stream), "arm");
        float ms = 0;
        check_cuda(cudaEventElapsedTime(&ms, begin_, end_), "event");
        return 1e-3 * static_cast<double>(ms);
    }

    Words words() const
    {
        Words found;
        check_cuda(cudaMemcpy(&found, view_.words[0], sizeof found, cudaMemcpyDeviceToHost),
                   "words");
        return found;
    }

    bool late() const
    {
        for (uint32_t r = 0; r < view_.ranks; ++r) {
            uint32_t found = 0;
            check_cuda(
                cudaMemcpy(&found, &view_.words[r]->late, sizeof found, cudaMemcpyDeviceToHost),
                "words");
            if (found != 0) return true;
        }
        return false;
    }

    // The marks of the first rank's traced blocks, in seconds since the first of all, each on a
    // track of its block; there are none if the run was not traced.
    std::vector<std::tuple<std::string, double, double>> spans(const Words& w)
    {
        static const char* const tracks[] = {"copy", "sum", "wait"};
        std::vector<std::tuple<std::string, double, double>> list;
        if (view_.tracing == 0) return list;
        uint64_t first = ~uint64_t{0};
        for (uint32_t b = 0; b < traced_blocks; ++b)
            for (uint32_t k = 0; k < w.marks[b]; ++k) first = std::min(first, w.mark[b][k].begin);
        const auto since = [&](uint64_t t) { return static_cast<double>(t - first) * 1e-9; };
        for (uint32_t b = 0; b < traced_blocks; ++b)
            for (uint32_t k = 0; k < w.marks[b]; ++k) {
                const Mark& m = w.mark[b][k];
                list.emplace_back(std::string(tracks[m.track]) + ", block " +
                                      std::to_string(m.block),
                                  since(m.begin), since(m.end));
            }
        check_cuda(cudaMemset(&view_.words[0]->marks, 0, sizeof w.marks), "words");
        return list;
    }

    std::vector<int> devices_;
    View view_{};
    uint32_t blocks_ = 0;
    Mode mode_ = Mode::resident;
    std::vector<cudaStream_t> streams_;
    cudaEvent_t begin_ = nullptr, end_ = nullptr;
    std::map<std::array<uint32_t, 3>, std::vector<cudaGraphExec_t>> graphs_;
    bool checked_ = false;
};

Asked arm_of(const std::string& name)
{
    const bool is_early = name.ends_with(early_suffix);
    const std::string kernel =
        is_early ? name.substr(0, name.size() - std::strlen(early_suffix)) : name;
    for (uint32_t a = 0; a < arm_count; ++a)
        if (kernel == all_arms[a].name) return {a, is_early};
    throw std::runtime_error("no arm \"" + name + "\"");
}

// Bytes a second of copies of 256 MiB from the second device to the first, and the bytes copied.
Json limit(const std::vector<int>& devices)
{
    constexpr uint64_t bytes = 256 << 20;
    constexpr int times = 10;
    check_cuda(cudaSetDevice(devices.at(1)), "device");
    const auto* from = device_memory<uint8_t>(bytes);
    check_cuda(cudaSetDevice(devices[0]), "device");
    auto* to = device_memory<uint8_t>(bytes);
    if (devices[1] != devices[0])
        check_cuda(cudaDeviceEnablePeerAccess(devices[1], 0), "peer access");
    cudaEvent_t begin = nullptr, end = nullptr;
    check_cuda(cudaEventCreate(&begin), "event");
    check_cuda(cudaEventCreate(&end), "event");
    for (int i = 0; i <= times; ++i) {
        if (i == 1) check_cuda(cudaEventRecord(begin), "event");
        check_cuda(cudaMemcpyPeerAsync(to, devices[0], from, devices[1], bytes), "copy");
    }
    check_cuda(cudaEventRecord(end), "event");
    check_cuda(cudaEventSynchronize(end), "copy");
    float ms = 0;
    check_cuda(cudaEventElapsedTime(&ms, begin, end), "event");
    return Json()
        .add("limit", times * static_cast<double>(bytes) / (1e-3 * static_cast<double>(ms)))
        .add("bytes", (times + 1) * bytes);
}

std::vector<int> parse_devices(const std::string& text)
{
    std::vector<int> devices;
    for (size_t at = 0; at <= text.size(); at = std::min(text.find(',', at), text.size()) + 1)
        devices.push_back(std::atoi(text.c_str() + at));
    int present = 0;
    check_cuda(cudaGetDeviceCount(&present), "GPUs of this machine");
    for (const int device : devices)
        if (device < 0 || device >= present)
            throw std::runtime_error("device " + std::to_string(device) + " of --devices " + text +
                                     ": this machine has " + std::to_string(present));
    if (devices.size() < 2 || devices.size() > max_ranks)
        throw std::runtime_error("--devices " + text + ": 2 to " + std::to_string(max_ranks) +
                                 " ranks, separated by commas");
    return devices;
}

int main_of(int argc, char** argv)
{
    bool only_limit = false;
    std::string devices = "0,1";
    for (int i = 1; i < argc; ++i) {
        if (std::strcmp(argv[i], "--limit") == 0) {
            only_limit = true;
        } else if (std::strcmp(argv[i], "--devices") == 0 && i + 1 < argc) {
            devices = argv[++i];
        } else {
            std::fprintf(stderr, "usage: %s [--limit] [--devices 0,1]\n", argv[0]);
            return 2;
        }
    }
    if (only_limit) {
        try {
            std::printf("%s\n", limit(parse_devices(devices)).str().c_str());
        } catch (const std::exception& error) {
            std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
            return 1;
        }
        return 0;
    }
    std::unique_ptr<Ranks> ranks;
    bench::serve([&](const bench::Ask& ask) {
        const std::string what = ask.word("do");
        if (what == "params") {
            ranks.reset(); // the last cell's memory first
            ranks = std::make_unique<Ranks>(parse_devices(devices), ask);
            return Json();
        }
        if (ranks == nullptr) throw std::runtime_error("params come first");
        if (what == "sample")
            return ranks->sample(arm_of(ask.word("arm")),
                                 static_cast<uint32_t>(ask.number("operations")));
        if (what == "poison") {
            ranks->poison();
            return Json();
        }
        if (what == "result") {
            ranks->write_result(ask.word("file"));
            return Json().add("dtype", "float32");
        }
        throw std::runtime_error("cannot do \"" + what + "\"");
    });
    return 0;
}

} // namespace
} // namespace denizen::arms

int main(int argc, char** argv) { return denizen::arms::main_of(argc, argv); }

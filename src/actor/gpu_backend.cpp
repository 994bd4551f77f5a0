// SPDX-License-Identifier: Apache-2.0
// A node on a GPU: a cooperative launch, in clusters where the GPU has them, on a stream of its own
// in the device's primary context, so that the user's kernels on other streams run beside it. Its
// keeper keeps it there (device/keeper.hpp). Memory is freed after the program has left.
#include "backend.hpp"
#include "device/mapped.hpp"
#include "device/staged_copies.hpp"
#include "grid.hpp"
#include <denizen/device/keeper.hpp>

#include <denizen/base/clock.hpp>
#include <denizen/base/interrupt.hpp>
#include <denizen/wire/wait.hpp>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>

namespace denizen {
namespace {

using namespace gpu;

constexpr uint64_t ms = 1'000'000; // nanoseconds

class GpuBackend final : public Backend {
public:
    GpuBackend(const Image& image, const Options& options, int ordinal, Return back)
        : driver_(driver()), info_(device_info(ordinal)), back_(std::move(back)),
          want_mapped_(options.mapped), options_(options),
          tick_ns_(options.idle.count() != 0 ? 1 * ms : 100 * ms)
    {
        if (!info_.cooperative_launch || info_.major < 8) {
            throw Error(Errc::no_device,
                        info_.name + " has compute capability " + std::to_string(info_.major) +
                            "." + std::to_string(info_.minor) + "; the runtime needs 8.0 or newer");
        }
        if (!residents().without_any([&] { take(image, options); })) {
            refuse_to_wait();
        }
    }

    ~GpuBackend() override
    {
        if (keeper_.resident()) { // the start failed half-way
            keeper_.command(Command::stop);
            if (!keeper_.join(2000 * ms)) {
                abandon();
            }
        }
        // If our program or another one is stuck, what we have stays taken, the mapped memory too:
        // freeing it would wait for ever.
        if (abandoned_ || !try_give_back()) {
            static_cast<void>(mapped_.release());
            context_.abandon();
        }
    }

    const Geometry& geometry() const override { return grid_.geometry; }

    // The mapping stays when the program ends: other programs of this process may use it.
    void reach(const Backend& other) override
    {
        const auto& peer = static_cast<const GpuBackend&>(other);
        int can = 0;
        check(driver_.device_can_access_peer(&can, context_.device(), peer.context_.device()),
              "cuDeviceCanAccessPeer");
        if (can == 0) {
            throw Error(Errc::no_device, named() + " cannot reach the memory of " + peer.named() +
                                             " (nvidia-smi topo -p2p w shows which can); use GPUs "
                                             "that can, or one");
        }
        const auto enable = [&] {
            const ContextScope scope(context_);
            const Result r = driver_.ctx_enable_peer_access(peer.context_, 0);
            if (r != error_peer_access_already_enabled) {
                check(r, "cuCtxEnablePeerAccess", named() + " to " + peer.named());
            }
        };
        if (!residents().without_any(enable)) {
            refuse_to_wait();
        }
    }

    Regions allocate(size_t host_bytes, size_t device_bytes, size_t ring_bytes) override
    {
        Regions r;
        if (!residents().without_any(
                [&] { r = take_memory(host_bytes, device_bytes, ring_bytes); })) {
            refuse_to_wait();
        }
        return r;
    }

    Regions take_memory(size_t host_bytes, size_t device_bytes, size_t ring_bytes)
    {
        const ContextScope scope(context_);
        const size_t shared_bytes = host_bytes + (mapped_ ? 0 : ring_bytes);
        host_bytes_ = shared_bytes + StagedCopies::staging_bytes;
        device_bytes_ = device_bytes;
        const auto size = [](size_t bytes) { return std::to_string(bytes >> 20) + " MiB"; };
        check(driver_.mem_host_alloc(&host_memory_, host_bytes_,
                                     host_alloc_portable | host_alloc_device_map),
              "cuMemHostAlloc", size(host_bytes_));
        std::memset(host_memory_, 0, host_bytes_);
        check(driver_.mem_alloc(&device_memory_, device_bytes), "cuMemAlloc", size(device_bytes));
        check(driver_.memset_d8_async(device_memory_, 0, device_bytes, stream_), "cuMemsetD8Async");
        check(driver_.stream_synchronize(stream_), "cuStreamSynchronize");
        Regions r;
        r.host = static_cast<std::byte*>(host_memory_); // one address for all: unified addressing
        copies_.open(context_, copy_stream_, r.host + shared_bytes);
        r.device = reinterpret_cast<std::byte*>(device_memory_);
        r.rings_host = mapped_ ? mapped_->host() : r.host + host_bytes;
        r.rings_device = mapped_ ? reinterpret_cast<std::byte*>(mapped_->device()) : r.rings_host;
        return r;
    }

    void wire(const Shared& shared) override { shared_ = shared; }

    void launch() override
    {
        Kept kept;
        kept.grid = grid_.text();
        kept.blocks = grid_.blocks;
        kept.anywhere = grid_.geometry.cluster == 1;
        kept.breath_ns = shared_.breath.ns;
        kept.tick_ns = tick_ns_;
        kept.words = shared_.control;
        kept.command = reinterpret_cast<DevicePtr>(&shared_.board->command);
        kept.stream = stream_;
        kept.context = &context_;
        kept.info = info_;
        kept.needed = back_.needed;
        kept.returned = back_.made;
        kept.launch = launching(function_);
        keeper_.start(std::move(kept));
    }

    void exchange(const Image& image) override
    {
        if (shared_.breath.ns == 0) {
            throw Error(Errc::bad_argument,
                        named() + " has one kernel for ever, as breath = 0 says, and it is not "
                                  "exchanged; set a breath");
        }
        const auto load = [&] {
            const ContextScope scope(context_);
            const Function function = function_of(image, next_module_, options_.prefer_l1);
            grid_.admit(info_, function, options_);
            // Once without workers, as in open(). It stands between two incarnations.
            launch_kernel(function, Shared{});
            return function;
        };
        Function function = nullptr;
        if (!residents().without_any([&] { function = load(); })) {
            refuse_to_wait();
        }
        keeper_.exchange(launching(function));
    }

    void command(Command c) override { keeper_.command(c); }
    Command commanded() const override { return keeper_.commanded(); }

    bool refresh(uint64_t patience_ns) override
    {
        // The scan that is under way may have begun before this call; the one after it has not.
        const uint32_t from = load<Scope::system, Order::acquire>(&shared_.control->scan);
        const uint64_t begin = now_ns();
        Backoff wait;
        while (load<Scope::system, Order::acquire>(&shared_.control->scan) - from < 2) {
            // Ends by scans, by the program's leaving, by failure or patience.
            if (keeper_.mode() == Mode::left) {
                return true;
            }
            if (now_ns() - begin > patience_ns || keeper_.failed()) {
                return false;
            }
            check_interrupt();
            wait.pause();
        }
        return true;
    }

    Errc failure(std::string& text) override { return keeper_.failure(text); }
    void wake(uint32_t) override { keeper_.wake(); }
    bool parked() const override { return keeper_.parked(); }
    uint64_t launches() const override { return keeper_.launches(); }
    uint64_t incarnations() const override { return keeper_.incarnations(); }

    bool read(void* to, const void* device_memory, size_t bytes) override
    {
        return !lost() && copies_.read(to, device_memory, bytes);
    }
    bool write(void* device_memory, const void* from, size_t bytes) override
    {
        return !lost() && copies_.write(device_memory, from, bytes);
    }

    void hold() override { keeper_.hold(); }
    bool held() override { return keeper_.held(); }
    void let_go() override { keeper_.let_go(); }
    bool join(uint64_t patience_ns) override { return keeper_.join(patience_ns); }

    void abandon() override
    {
        // The memory stays: other threads may be looking at it, and other nodes may write there.
        abandoned_ = true;
        keeper_.abandon(); // if this node is the one that is stuck
    }

    bool write_combined() const override { return mapped_ != nullptr; }

    void describe(Description& d) const override
    {
        d.device =
            d.device.empty() || d.device == info_.name ? info_.name : d.device + ", " + info_.name;
        d.on_gpu = true;
        d.geometry = grid_.why;
        d.host_ring_memory = mapped_ ? "mapped" : "pinned";
        d.why_not_mapped = why_not_;
        d.device_bytes += device_bytes_ + (mapped_ ? mapped_->size() : 0);
        d.host_bytes += host_bytes_;
    }

private:
    std::string named() const
    {
        return "GPU " + std::to_string(info_.ordinal) + " (" + info_.name + ")";
    }

    [[noreturn]] void refuse_to_wait() const
    {
        throw Error(Errc::stuck, "another program of this process is on " + info_.name +
                                     " and does not leave it: one of its handlers is stuck");
    }

    bool lost() const { return abandoned_ || keeper_.failed(); } // the keeper says why

    void take(const Image& image, const Options& options)
    {
        context_ = PrimaryContext(info_);
        try {
            open(image, options);
        } catch (...) {
            give_back();
            throw;
        }
    }

    // The kernel of a program. Out of a cubin: in `module`, which is loaded unless it was before.
    Function function_of(const Image& image, Module& module, bool prefer_l1) const
    {
        Function function = nullptr;
        if (image.cubin.empty()) {
            function = static_cast<Function>(image.kernel());
        } else {
            if (module == nullptr) {
                check(driver_.module_load_data(&module, image.cubin.data()), "cuModuleLoadData",
                      "the program's cubin");
            }
            check(driver_.module_get_function(&function, module, "denizen_resident"),
                  "cuModuleGetFunction", "denizen_resident");
        }
        // An SM changes the split of its memory between L1 and shared memory only when it is empty.
        // Every other kernel's shared memory must fit beside ours: take the split with the most,
        // unless it is said that L1 matters more.
        check(driver_.func_set_attribute(function, func_shared_carveout, prefer_l1 ? 0 : 100),
              "cuFuncSetAttribute", "shared memory carveout");
        return function;
    }

    void open(const Image& image, const Options& options)
    {
        const ContextScope scope(context_);
        function_ = function_of(image, module_, options.prefer_l1);
        const uint32_t taken = residents().taken(info_.ordinal); // here the mutex is held
        map_rings(options, image.table, taken);
        grid_ = Grid::choose(info_, function_, options, image.table, taken, mapped_ != nullptr,
                             image.to_exchange);
        int least = 0;
        int greatest = 0;
        check(driver_.ctx_get_stream_priority_range(&least, &greatest),
              "cuCtxGetStreamPriorityRange");
        check(driver_.stream_create_with_priority(&stream_, stream_non_blocking, greatest),
              "cuStreamCreateWithPriority");
        check(driver_.stream_create_with_priority(&copy_stream_, stream_non_blocking, greatest),
              "cuStreamCreateWithPriority");
        // Once without workers, while nobody is on the GPU: a kernel's first launch may load code
        // and enlarge the context's local memory, and both wait for all that runs.
        launch_kernel(function_, Shared{});
        check(driver_.stream_synchronize(stream_), "cuStreamSynchronize");
    }

    // Memory for the host rings of as many workers as there can be: how many there are depends on
    // whether it is to be had.
    void map_rings(const Options& options, const ProgramTable& table, uint32_t taken)
    {
        if (!want_mapped_) {
            why_not_ = "switched off";
            return;
        }
        const uint32_t least = least_slots(table);
        const uint32_t sms =
            options.sms != 0 ? options.sms : sms_of(static_cast<uint32_t>(info_.sm_count), taken);
        const size_t most = options.workers != 0 ? options.workers : sms * most_on_an_sm(least);
        const size_t slots =
            std::max(options.host_ring_slots, least) + std::max(options.urgent_slots, least);
        if (auto made = MappedMemory::try_create(info_.ordinal, info_.uuid,
                                                 most * slots * sizeof(Slot), &why_not_)) {
            mapped_ = std::make_unique<MappedMemory>(std::move(*made));
        }
    }

    // What launches an incarnation.
    std::function<void(uint32_t, bool)> launching(Function function)
    {
        return [this, function](uint32_t number, bool successor) {
            Shared shared = shared_;
            shared.incarnation = number;
            shared.successor = successor ? 1 : 0;
            launch_kernel(function, shared);
        };
    }

    void launch_kernel(Function function, Shared shared) const
    {
        void* parameters[] = {&shared};
        Grid grid = grid_; // its attributes are for this launch: exchange() has another thread
        const LaunchConfig config = grid.launch_on(stream_);
        check(driver_.launch_kernel_ex(&config, function, parameters, nullptr), "cuLaunchKernelEx",
              grid.text());
    }

    void give_back()
    {
        {
            const ContextScope scope(context_);
            mapped_.reset();
            if (device_memory_ != 0) {
                driver_.mem_free(device_memory_);
            }
            if (host_memory_ != nullptr) {
                driver_.mem_free_host(host_memory_);
            }
            for (const Stream stream : {stream_, copy_stream_}) {
                if (stream != nullptr) {
                    driver_.stream_destroy(stream);
                }
            }
            for (const Module module : {module_, next_module_}) {
                if (module != nullptr) {
                    driver_.module_unload(module);
                }
            }
        }
        context_.release();
    }

    bool try_give_back()
    {
        try {
            return residents().without_any([this] { give_back(); });
        } catch (const Error&) { // a dead context: nothing is left to give back
            return false;
        }
    }

    const Driver& driver_;
    DeviceInfo info_;
    Return back_;
    bool want_mapped_;
    Options options_;
    uint64_t tick_ns_;
    std::string why_not_;
    PrimaryContext context_;
    Module module_ = nullptr;
    Module next_module_ = nullptr; // exchange() has loaded it; those in flight are of the first
    Function function_ = nullptr;
    Stream stream_ = nullptr;
    Stream copy_stream_ = nullptr;
    StagedCopies copies_; // read() and write()
    Grid grid_;
    std::unique_ptr<MappedMemory> mapped_;
    void* host_memory_ = nullptr;
    DevicePtr device_memory_ = 0;
    size_t host_bytes_ = 0;
    size_t device_bytes_ = 0;
    Shared shared_;
    std::atomic<bool> abandoned_{false};
    Keeper keeper_;
};

} // namespace

std::unique_ptr<Backend> make_gpu_backend(const Image& image, const Options& options, int ordinal,
                                          Return back)
{
    if (!image.runs_on_gpu()) {
        throw Error(Errc::no_device,
                    "this program was compiled for the CPU only; compile it for the "
                    "GPU too or choose the CPU");
    }
    return std::make_unique<GpuBackend>(image, options, ordinal, std::move(back));
}

} // namespace denizen

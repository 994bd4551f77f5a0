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
#include <memory>

namespace denizen {
namespace {

using namespace gpu;

constexpr uint64_t ms = 1'000'000; // nanoseconds

// A program has all SMs of its partition, unless it says that it takes fewer.
Options within_partition(Options options)
{
    if (options.partition == 0) {
        return options;
    }
    if (options.sms > options.partition) {
        throw Error(Errc::bad_argument,
                    "sms = " + std::to_string(options.sms) + "; the partition has " +
                        std::to_string(options.partition) + ": give it more, or the program fewer");
    }
    options.sms = options.sms != 0 ? options.sms : options.partition;
    return options;
}

class GpuBackend final : public Backend {
public:
    GpuBackend(const Image& image, const Options& options, int ordinal, Return back)
        : info_(device_info(ordinal)), back_(std::move(back)), want_mapped_(options.mapped),
          options_(within_partition(options)),
          tick_ns_(options.idle.count() != 0 ? 1 * ms : 100 * ms)
    {
        check_capability(info_, 8, "the runtime needs 8.0");
        off_the_gpu("a program on " + named(), [&] {
            Chip::open(
                chip_, info_, "the runtime", StreamPriority::highest,
                [&] { open(image, options_); }, options_.partition);
        });
    }

    ~GpuBackend() override
    {
        if (!keeper_.end(2000 * ms)) { // the start failed half-way
            abandoned_ = true;
        }
        // If our program is stuck, what we have stays taken, the mapped memory too: freeing it
        // would wait for ever.
        if (abandoned_) {
            chip_->abandon();
        } else {
            Chip::close(chip_);
        }
    }

    const Geometry& geometry() const override { return grid_.geometry; }

    // The mapping stays when the program ends: other programs of this process may use it.
    void reach(const Backend& other) override
    {
        const auto& peer = static_cast<const GpuBackend&>(other);
        int can = 0;
        check(driver().device_can_access_peer(&can, chip_->context().device(),
                                              peer.chip_->context().device()),
              "cuDeviceCanAccessPeer");
        if (can == 0) {
            throw Error(Errc::no_device, named() + " cannot reach the memory of " + peer.named() +
                                             " (nvidia-smi topo -p2p w shows which can); use GPUs "
                                             "that can, or one");
        }
        off_the_gpu("a program on " + named(), [&] {
            const ContextScope scope(chip_->context());
            const Result r = driver().ctx_enable_peer_access(peer.chip_->context(), 0);
            if (r != error_peer_access_already_enabled) {
                check(r, "cuCtxEnablePeerAccess", named() + " to " + peer.named());
            }
        });
    }

    Regions allocate(size_t host_bytes, size_t device_bytes, size_t ring_bytes) override
    {
        Regions r;
        off_the_gpu("a program on " + named(),
                    [&] { r = take_memory(host_bytes, device_bytes, ring_bytes); });
        return r;
    }

    Regions take_memory(size_t host_bytes, size_t device_bytes, size_t ring_bytes)
    {
        const ContextScope scope(chip_->context());
        if (mapped_ != nullptr && ring_bytes > mapped_->size()) {
            throw Error(Errc::no_fit, named() + ": the host's rings take " +
                                          std::to_string(ring_bytes) + " bytes, of which " +
                                          std::to_string(mapped_->size()) +
                                          " are mapped; with mapped = false they lie in pinned "
                                          "memory");
        }
        const size_t shared_bytes = host_bytes + (mapped_ != nullptr ? 0 : ring_bytes);
        host_bytes_ = shared_bytes + StagedCopies::staging_bytes;
        device_bytes_ = device_bytes;
        const auto size = [](size_t bytes) { return std::to_string(bytes >> 20) + " MiB"; };
        Regions r; // one address for all: unified addressing
        r.host = static_cast<std::byte*>(chip_->take_host(shared_bytes, size(shared_bytes)));
        copies_.open(*chip_, StreamPriority::highest);
        DevicePtr device = 0;
        check(chip_->try_take(device, device_bytes), "cuMemAlloc", size(device_bytes));
        r.device = reinterpret_cast<std::byte*>(device);
        chip_->set(r.device, 0, device_bytes);
        chip_->wait();
        r.rings_host = mapped_ != nullptr ? mapped_->host() : r.host + host_bytes;
        r.rings_device =
            mapped_ != nullptr ? reinterpret_cast<std::byte*>(mapped_->device()) : r.rings_host;
        return r;
    }

    void wire(const Shared& shared) override { shared_ = shared; }

    void launch() override
    {
        Kept kept(*chip_, grid_.shape());
        kept.grid = grid_.text();
        kept.anywhere = grid_.geometry.cluster == 1;
        kept.breath_ns = shared_.breath.ns;
        kept.tick_ns = tick_ns_;
        kept.words = shared_.control;
        kept.command = reinterpret_cast<DevicePtr>(&shared_.board->command);
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
        Function function = nullptr;
        off_the_gpu("a program on " + named(), [&] {
            const ContextScope scope(chip_->context());
            function = function_of(image, next_module_, options_.prefer_l1);
            grid_.admit(*chip_, function, options_);
            // Once without workers, as in open(). It stands between two incarnations.
            launch_kernel(function, Shared{});
        });
        keeper_.exchange(launching(function));
    }

    void command(Command c) override { keeper_.command(c); }
    Command commanded() const override { return keeper_.commanded(); }

    bool refresh(uint64_t patience_ns) override
    {
        Control& c = *shared_.control;
        return answered(c.asked, c.scan, patience_ns);
    }
    bool check_quiet(uint64_t patience_ns) override
    {
        Control& c = *shared_.control;
        return answered(c.check_asked, c.check, patience_ns);
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
    bool read(std::span<const Copy> copies) override { return !lost() && copies_.read(copies); }
    bool write(std::span<const Copy> copies) override { return !lost() && copies_.write(copies); }

    void hold() override { keeper_.hold(); }
    bool held() override { return keeper_.held(); }
    void let_go() override { keeper_.let_go(); }
    bool join(uint64_t patience_ns) override
    {
        if (!keeper_.join(patience_ns)) {
            return false;
        }
        try {
            chip_->leave_partition(); // others may have it, though this object lives on
        } catch (const Error&) {      // a dead context
        }
        return true;
    }

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
        d.partition = options_.partition;
        d.host_ring_memory = mapped_ != nullptr ? "mapped" : "pinned";
        d.why_not_mapped = why_not_;
        d.device_bytes += device_bytes_ + (mapped_ != nullptr ? mapped_->size() : 0);
        d.host_bytes += host_bytes_;
    }

private:
    std::string named() const
    {
        return "GPU " + std::to_string(info_.ordinal) + " (" + info_.name + ")";
    }

    // Asks the monitor once more, and waits until it has told that it was asked so often; or the
    // program has left, and all is told.
    bool answered(uint32_t& asked, const uint32_t& told, uint64_t patience_ns)
    {
        const uint32_t mine = fetch_add<Scope::system>(&asked, 1u) + 1;
        const uint64_t begin = now_ns();
        while (static_cast<int32_t>(load<Scope::system, Order::acquire>(&told) - mine) < 0) {
            // Ends by the monitor, by the program's leaving, by failure or patience.
            if (keeper_.mode() == Mode::left) {
                return true;
            }
            const uint64_t waited = now_ns() - begin;
            if (waited > patience_ns || keeper_.failed()) {
                return false;
            }
            check_interrupt();
            // As Asking::wait_reply(): a core is well spent on this for some microseconds.
            if (waited < 200'000) {
                relax();
            } else if (waited < 2'000'000) {
                sched_yield();
            } else {
                const timespec nap{0, 20'000};
                nanosleep(&nap, nullptr);
            }
        }
        return true;
    }

    bool lost() const { return abandoned_ || keeper_.failed(); } // the keeper says why

    // The kernel of a program. Out of a cubin: in `module`, which is loaded unless it was before.
    Function function_of(const Image& image, Module& module, bool prefer_l1) const
    {
        Function function = nullptr;
        if (image.cubin.empty()) {
            function = static_cast<Function>(image.kernel());
        } else {
            if (module == nullptr) {
                module = chip_->load_module(image.cubin, "the program's cubin");
            }
            check(driver().module_get_function(&function, module, "denizen_resident"),
                  "cuModuleGetFunction", "denizen_resident");
        }
        // An SM changes the split of its memory between L1 and shared memory only when it is empty.
        // Every other kernel's shared memory must fit beside ours: take the split with the most,
        // unless it is said that L1 matters more.
        check(driver().func_set_attribute(function, func_shared_carveout, prefer_l1 ? 0 : 100),
              "cuFuncSetAttribute", "shared memory carveout");
        return function;
    }

    void open(const Image& image, const Options& options)
    {
        function_ = function_of(image, module_, options.prefer_l1);
        const uint32_t taken = residents().taken(info_.ordinal); // here the mutex is held
        map_rings(options, image.table, taken);
        grid_ = Grid::choose(*chip_, function_, options, image.table, taken, mapped_ != nullptr,
                             image.to_exchange);
        // Once without workers, while nobody is on the GPU: a kernel's first launch may load code
        // and enlarge the context's local memory, and both wait for all that runs.
        launch_kernel(function_, Shared{});
        chip_->wait();
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
        mapped_ = chip_->map(most * host_slots(options, least) * sizeof(Slot), why_not_);
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

    void launch_kernel(Function function, const Shared& shared) const
    {
        gpu::launch(function, grid_.shape(), chip_->stream(), grid_.text(), shared);
    }

    DeviceInfo info_;
    Return back_;
    bool want_mapped_;
    Options options_;
    uint64_t tick_ns_;
    std::string why_not_;
    std::unique_ptr<Chip> chip_;
    Module module_ = nullptr;
    Module next_module_ = nullptr; // exchange() has loaded it; those in flight are of the first
    Function function_ = nullptr;
    StagedCopies copies_; // read() and write()
    Grid grid_;
    const MappedMemory* mapped_ = nullptr; // the chip's
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

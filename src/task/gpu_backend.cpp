// SPDX-License-Identifier: Apache-2.0
// Tasks on a GPU: a cooperative launch on a stream of its own in the device's primary context. Its
// keeper keeps it there (device/keeper.hpp). What workers keep in shared memory goes back to global
// memory before they leave, so nothing is lost.
#include "backend.hpp"

#include "device/staged_copies.hpp"
#include <denizen/device/keeper.hpp>

#include <denizen/base/error.hpp>
#include <denizen/task/kernel.hpp>

#include <cstring>

namespace denizen::task {
namespace {

using namespace gpu;

constexpr uint64_t ms = 1'000'000; // nanoseconds

class GpuBackend final : public Backend {
public:
    GpuBackend(const Image& image, const Options& options)
        : driver_(driver()), info_(device_info(options.device.ordinal))
    {
        if (!info_.cooperative_launch || info_.major < 8) {
            throw Error(Errc::no_device, info_.name + " has no cooperative launch or compute "
                                                      "capability below 8.0, which tasks need");
        }
        without_residents([&] { take(image, options); });
    }

    ~GpuBackend() override
    {
        // Else stop() has said so: the context is dead.
        if (!stop(2000 * ms) || keeper_.failed() || !try_give_back()) {
            context_.abandon();
        }
    }

    uint32_t workers() const override { return blocks_ * warps_; }
    uint32_t per_block() const override { return warps_; }
    const std::string& device() const override { return info_.name; }

    Regions allocate(size_t host_bytes, size_t device_bytes) override
    {
        without_residents([&] {
            const ContextScope scope(context_);
            const auto size = [](size_t bytes) { return std::to_string(bytes >> 20) + " MiB"; };
            check(driver_.mem_host_alloc(&host_, host_bytes + StagedCopies::staging_bytes,
                                         host_alloc_portable | host_alloc_device_map),
                  "cuMemHostAlloc", size(host_bytes));
            std::memset(host_, 0, host_bytes);
            copies_.open(context_, copy_stream_, static_cast<std::byte*>(host_) + host_bytes);
            check(driver_.mem_alloc(&device_, device_bytes), "cuMemAlloc", size(device_bytes));
            check(driver_.memset_d8_async(device_, 0, device_bytes, stream_), "cuMemsetD8Async");
            check(driver_.stream_synchronize(stream_), "cuStreamSynchronize");
        });
        return {static_cast<std::byte*>(host_), reinterpret_cast<std::byte*>(device_)};
    }

    void fill(void* device_memory, const void* from, size_t bytes) override
    {
        if (!copies_.write(device_memory, from, bytes)) {
            throw Error(Errc::peer_dead, info_.name + " is lost: a copy to it failed");
        }
    }

    void launch(const Shared& shared) override
    {
        shared_ = shared;
        Kept kept;
        kept.name = "the program of tasks";
        kept.grid = text();
        kept.blocks = blocks_;
        kept.breath_ns = shared_.breath.ns;
        kept.tick_ns = 2 * ms;
        kept.words = shared_.control;
        kept.command = reinterpret_cast<DevicePtr>(&shared_.board->command);
        kept.stream = stream_;
        kept.context = &context_;
        kept.info = info_;
        kept.launch = [this](uint32_t number, bool successor) {
            Shared next = shared_;
            next.incarnation = number;
            next.successor = successor ? 1 : 0;
            launch_kernel(next);
        };
        keeper_.start(std::move(kept));
    }

    bool read(void* to, const void* device_memory, size_t bytes) override
    {
        return !keeper_.failed() && copies_.read(to, device_memory, bytes);
    }

    void wake_monitor() override {} // it never sleeps

    Errc failure(std::string& text) override { return keeper_.failure(text); }
    uint64_t launches() const override { return keeper_.launches(); }
    uint64_t incarnations() const override { return keeper_.incarnations(); }

    bool stop(uint64_t patience_ns) override
    {
        if (!keeper_.resident()) {
            return true;
        }
        keeper_.command(Command::stop);
        if (keeper_.join(patience_ns)) {
            return true;
        }
        keeper_.abandon();
        return false;
    }

private:
    void without_residents(const std::function<void()>& use)
    {
        if (!residents().without_any(use)) {
            throw Error(Errc::stuck, "another program of this process is on " + info_.name +
                                         " and does not leave it: something in it is stuck");
        }
    }

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

    void open(const Image& image, const Options& options)
    {
        const ContextScope scope(context_);
        function_ = static_cast<Function>(image.kernel());
        const auto sms = static_cast<uint32_t>(info_.sm_count);
        if (options.sms > sms) {
            throw Error(Errc::bad_argument, "sms = " + std::to_string(options.sms) + "; " +
                                                info_.name + " has " + std::to_string(sms));
        }
        const uint32_t taken = residents().taken(info_.ordinal); // here the mutex is held
        blocks_ = options.sms != 0 ? options.sms : taken < sms ? sms - taken : 1;
        warps_ = options.workers != 0 ? options.workers : most_warps;
        if (warps_ > most_warps) {
            throw Error(Errc::bad_argument, "workers = " + std::to_string(warps_) +
                                                " on an SM; use at most " +
                                                std::to_string(most_warps));
        }
        int room = 0;
        check(driver_.occupancy_max_active_blocks(&room, function_,
                                                  static_cast<int>(32 * (warps_ + 1)), 0),
              "cuOccupancyMaxActiveBlocksPerMultiprocessor");
        if (room < 1) {
            throw Error(Errc::no_fit,
                        std::to_string(warps_) + " warps do not fit on an SM; use fewer workers");
        }
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
        launch_kernel(Shared{});
        check(driver_.stream_synchronize(stream_), "cuStreamSynchronize");
    }

    void launch_kernel(Shared shared)
    {
        void* parameters[] = {&shared};
        // Cooperative: every block is resident or the launch fails.
        LaunchAttribute cooperative;
        cooperative.id = launch_cooperative;
        cooperative.value.cooperative = 1;
        LaunchConfig config;
        config.grid[0] = blocks_;
        config.block[0] = 32 * (warps_ + 1);
        config.stream = stream_;
        config.attributes = &cooperative;
        config.attribute_count = 1;
        check(driver_.launch_kernel_ex(&config, function_, parameters, nullptr), "cuLaunchKernelEx",
              text());
    }
    std::string text() const
    {
        return std::to_string(blocks_) + " blocks of " + std::to_string(warps_ + 1) + " warps";
    }

    void give_back()
    {
        {
            const ContextScope scope(context_);
            if (device_ != 0) {
                driver_.mem_free(device_);
            }
            if (host_ != nullptr) {
                driver_.mem_free_host(host_);
            }
            for (const Stream stream : {stream_, copy_stream_}) {
                if (stream != nullptr) {
                    driver_.stream_destroy(stream);
                }
            }
        }
        context_.release();
    }
    // If another program is stuck, what we have stays taken: better than to wait for ever.
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
    PrimaryContext context_;
    Function function_ = nullptr;
    Stream stream_ = nullptr;
    Stream copy_stream_ = nullptr;
    StagedCopies copies_;
    uint32_t blocks_ = 0;
    uint32_t warps_ = 0;
    void* host_ = nullptr;
    DevicePtr device_ = 0;
    Shared shared_;
    Keeper keeper_;
};

} // namespace

std::unique_ptr<Backend> make_gpu_backend(const Image& image, const Options& options)
{
    if (!image.kernel) {
        throw Error(Errc::no_device, "these tasks were compiled for the CPU only; compile them "
                                     "with nvcc too or choose the CPU");
    }
    return std::make_unique<GpuBackend>(image, options);
}

} // namespace denizen::task

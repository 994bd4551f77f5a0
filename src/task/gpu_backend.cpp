// SPDX-License-Identifier: Apache-2.0
// Tasks on a GPU: a cooperative launch on a stream of its own in the device's primary context. Its
// keeper keeps it there (device/keeper.hpp). What workers keep in shared memory goes back to global
// memory before they leave, so nothing is lost.
#include "backend.hpp"

#include "device/staged_copies.hpp"
#include <denizen/device/keeper.hpp>

#include <denizen/base/error.hpp>
#include <denizen/task/kernel.hpp>

namespace denizen::task {
namespace {

using namespace gpu;

constexpr uint64_t ms = 1'000'000; // nanoseconds

class GpuBackend final : public Backend {
public:
    GpuBackend(const Image& image, const Options& options)
        : info_(device_info(options.device.ordinal))
    {
        if (!info_.cooperative_launch || info_.major < 8) {
            throw Error(Errc::no_device, info_.name + " has no cooperative launch or compute "
                                                      "capability below 8.0, which tasks need");
        }
        off_the_gpu("a program of tasks on " + info_.name, [&] {
            Chip::open(chip_, info_, "tasks", StreamPriority::highest,
                       [&] { open(image, options); });
        });
    }

    ~GpuBackend() override
    {
        // Else stop() has said so: the context is dead.
        if (!stop(2000 * ms) || keeper_.failed()) {
            chip_->abandon();
        } else {
            Chip::close(chip_);
        }
    }

    uint32_t workers() const override { return blocks_ * warps_; }
    uint32_t per_block() const override { return warps_; }
    const std::string& device() const override { return info_.name; }

    Regions allocate(size_t host_bytes, size_t device_bytes) override
    {
        Regions regions{};
        off_the_gpu("a program of tasks on " + info_.name, [&] {
            const ContextScope scope(chip_->context());
            const auto size = [](size_t bytes) { return std::to_string(bytes >> 20) + " MiB"; };
            regions.host = static_cast<std::byte*>(chip_->take_host(host_bytes, size(host_bytes)));
            copies_.open(*chip_, StreamPriority::highest);
            DevicePtr device = 0;
            check(chip_->try_take(device, device_bytes), "cuMemAlloc", size(device_bytes));
            regions.device = reinterpret_cast<std::byte*>(device);
            chip_->set(regions.device, 0, device_bytes);
            chip_->wait();
        });
        return regions;
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
        Kept kept(*chip_, shape_);
        kept.name = "the program of tasks";
        kept.breath_ns = shared_.breath.ns;
        kept.words = shared_.control;
        kept.command = reinterpret_cast<DevicePtr>(&shared_.board->command);
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

    bool stop(uint64_t patience_ns) override { return keeper_.end(patience_ns); }

private:
    void open(const Image& image, const Options& options)
    {
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
        check(driver().occupancy_max_active_blocks(&room, function_,
                                                   static_cast<int>(32 * (warps_ + 1)), 0),
              "cuOccupancyMaxActiveBlocksPerMultiprocessor");
        if (room < 1) {
            throw Error(Errc::no_fit,
                        std::to_string(warps_) + " warps do not fit on an SM; use fewer workers");
        }
        shape_ = {.blocks = {blocks_, 1, 1}, .threads = {32 * (warps_ + 1), 1}, .together = true};
        // Once without workers, while nobody is on the GPU: a kernel's first launch may load code
        // and enlarge the context's local memory, and both wait for all that runs.
        launch_kernel(Shared{});
        chip_->wait();
    }

    void launch_kernel(const Shared& shared) const
    {
        gpu::launch(function_, shape_, chip_->stream(), text_of(shape_), shared);
    }

    DeviceInfo info_;
    std::unique_ptr<Chip> chip_;
    Function function_ = nullptr;
    StagedCopies copies_;
    uint32_t blocks_ = 0;
    uint32_t warps_ = 0;
    Shape shape_;
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

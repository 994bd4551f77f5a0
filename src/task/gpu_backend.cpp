// SPDX-License-Identifier: Apache-2.0
// Tasks on a GPU: a cooperative launch on a stream of its own in the device's primary context, and
// a keeper thread that beats the heart and brings the kernel back when it has had to leave (see
// ../gpu/residents.hpp). What workers keep in shared memory goes back to global memory before they
// leave, so nothing is lost.
//
// While the kernel is there nothing here calls what waits for the whole device.
#include "backend.hpp"

#include <denizen/device/primary_context.hpp>
#include <denizen/device/residents.hpp>

#include <denizen/base/error.hpp>
#include <denizen/base/threads.hpp>
#include <denizen/task/kernel.hpp>
#include <denizen/wire/wait.hpp>

#include <atomic>
#include <cstring>
#include <thread>

namespace denizen::task {
namespace {

using namespace gpu;

constexpr uint64_t ms = 1'000'000; // nanoseconds

class GpuBackend final : public Backend, private Resident {
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
        bool given_back = false;
        if (!resident_ || stop(2000 * ms)) { // else stop() has said so: the context is dead
            given_back = !lost_.load(std::memory_order_acquire) && try_give_back();
        }
        if (!given_back) {
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
            check(driver_.mem_host_alloc(&host_, host_bytes + staging_bytes,
                                         host_alloc_portable | host_alloc_device_map),
                  "cuMemHostAlloc", size(host_bytes));
            std::memset(host_, 0, host_bytes);
            staging_ = static_cast<std::byte*>(host_) + host_bytes;
            check(driver_.mem_alloc(&device_, device_bytes), "cuMemAlloc", size(device_bytes));
            check(driver_.memset_d8_async(device_, 0, device_bytes, stream_), "cuMemsetD8Async");
            check(driver_.stream_synchronize(stream_), "cuStreamSynchronize");
        });
        return {static_cast<std::byte*>(host_), reinterpret_cast<std::byte*>(device_)};
    }

    void fill(void* device_memory, const void* from, size_t bytes) override
    {
        const ContextScope scope(context_);
        for (size_t done = 0; done < bytes; done += staging_bytes) {
            const size_t part = std::min(bytes - done, staging_bytes);
            std::memcpy(staging_, static_cast<const std::byte*>(from) + done, part);
            check(driver_.memcpy_htod_async(reinterpret_cast<DevicePtr>(device_memory) + done,
                                            staging_, part, copies_),
                  "cuMemcpyHtoDAsync");
            check(driver_.stream_synchronize(copies_), "cuStreamSynchronize");
        }
    }

    void launch(const Shared& shared) override
    {
        shared_ = shared;
        residents().add(this);
        resident_ = true;
        // The keeper launches: under a debugger or sanitizer that makes launches synchronous the
        // call lasts as long as the kernel stays.
        try {
            keeper_.start(1, "keeper", [this](uint32_t) { keep(); });
        } catch (...) {
            residents().remove(this);
            resident_ = false;
            throw;
        }
    }

    bool read(void* to, const void* device_memory, size_t bytes) override
    {
        if (lost_.load(std::memory_order_acquire)) {
            return false;
        }
        const std::lock_guard guard(copy_mutex_);
        const ContextScope scope(context_);
        for (size_t done = 0; done < bytes; done += staging_bytes) {
            const size_t part = std::min(bytes - done, staging_bytes);
            const auto there = reinterpret_cast<DevicePtr>(device_memory) + done;
            if (driver_.memcpy_dtoh_async(staging_, there, part, copies_) != success ||
                driver_.stream_synchronize(copies_) != success) {
                return false; // the keeper says why
            }
            std::memcpy(static_cast<std::byte*>(to) + done, staging_, part);
        }
        return true;
    }

    void wake_monitor() override {} // it never sleeps

    Errc failure(std::string& text) override
    {
        if (!lost_.load(std::memory_order_acquire)) { // partner of the release in lose()
            return Errc::ok;
        }
        text = why_;
        return Errc::peer_dead;
    }

    uint64_t launches() const override { return launches_.load(std::memory_order_relaxed); }

    bool stop(uint64_t patience_ns) override
    {
        if (!resident_) {
            return true;
        }
        stopping_.store(true, std::memory_order_release);
        command(Command::stop);
        const uint64_t begin = now_ns();
        while (!off() && now_ns() - begin < patience_ns) { // ends by leaving or patience
            std::this_thread::yield();
        }
        const bool left = off();
        if (!left) {
            // The monitor traps, which ends the kernel and with it the context. Nothing short of
            // that stops a task that does not return.
            command(Command::kill);
            while (!off() && now_ns() - begin < patience_ns + 2000 * ms) {
                std::this_thread::yield(); // ends when the keeper sees the trap, or after 2 s
            }
        }
        done_.store(true, std::memory_order_release);
        keeper_.join();
        resident_ = false;
        residents().remove(this);
        return left;
    }

private:
    static constexpr size_t staging_bytes = 256 << 10;
    static constexpr uint64_t no_room_ns = 5000 * ms;

    // ---- Resident

    void ask_to_leave() override
    {
        held_.store(true, std::memory_order_relaxed);
        command(Command::leave);
    }
    bool off() override
    {
        return off_.load(std::memory_order_acquire) || lost_.load(std::memory_order_acquire);
    }
    void let_return() override { held_.store(false, std::memory_order_relaxed); }
    int ordinal() const override { return info_.ordinal; }
    uint32_t blocks() const override { return blocks_; }
    bool anywhere() const override { return true; }

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
            throw Error(Errc::bad_argument,
                        std::to_string(warps_) + " warps do not fit on an SM; use fewer workers");
        }
        int least = 0;
        int greatest = 0;
        check(driver_.ctx_get_stream_priority_range(&least, &greatest),
              "cuCtxGetStreamPriorityRange");
        check(driver_.stream_create_with_priority(&stream_, stream_non_blocking, greatest),
              "cuStreamCreateWithPriority");
        check(driver_.stream_create_with_priority(&copies_, stream_non_blocking, greatest),
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
            for (const Stream stream : {stream_, copies_}) {
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

    void command(Command c)
    {
        store<Scope::system, Order::release>(&shared_.control->command, static_cast<uint32_t>(c));
    }

    void start()
    {
        const std::lock_guard guard(residents().mutex);
        if (held_.load(std::memory_order_relaxed) || stopping_.load(std::memory_order_relaxed)) {
            return;
        }
        Control& c = *shared_.control;
        store<Scope::system>(&c.command, static_cast<uint32_t>(Command::run));
        store<Scope::system>(&c.mode, static_cast<uint32_t>(Mode::starting));
        store<Scope::system>(&c.leave_host_lost, 0u);
        fetch_add<Scope::system>(&c.heartbeat, 1u);
        check(driver_.memset_d32_async(reinterpret_cast<DevicePtr>(&shared_.board->command), 0, 1,
                                       stream_),
              "cuMemsetD32Async");
        launches_.fetch_add(1, std::memory_order_relaxed);
        launched_ns_ = now_ns();
        off_.store(false, std::memory_order_release);
        launch_kernel(shared_);
    }

    // The keeper thread: launches, heartbeat, failures.
    void keep()
    {
        const ContextScope scope(context_);
        while (!done_.load(std::memory_order_acquire)) { // ends by stop()
            fetch_add<Scope::system>(&shared_.control->heartbeat, 1u);
            if (off_.load(std::memory_order_relaxed)) {
                try {
                    start();
                } catch (const Error& e) {
                    lose(std::string("the tasks could not be launched: ") + e.what());
                    return;
                }
            } else {
                const Result state = driver_.stream_query(stream_);
                if (state == success) {
                    off_.store(true, std::memory_order_release); // partner: off()
                } else if (state != error_not_ready) {
                    const char* name = nullptr;
                    driver_.get_error_name(state, &name);
                    lose("the tasks on " + info_.name + " died: " + (name != nullptr ? name : "?") +
                         "; the CUDA context is unusable, start a new process");
                    return;
                } else if (load<Scope::system>(&shared_.control->mode) ==
                               static_cast<uint32_t>(Mode::starting) &&
                           now_ns() - launched_ns_ > no_room_ns && residents().beside(*this)) {
                    command(Command::stop); // it ends as soon as it begins
                    lose("the tasks have found no room on " + info_.name + " (" + text() +
                         ") beside other programs of this process: give either fewer sms or "
                         "workers");
                    return;
                }
            }
            const bool leaving =
                stopping_.load(std::memory_order_relaxed) || held_.load(std::memory_order_relaxed);
            std::this_thread::sleep_for(std::chrono::microseconds(leaving ? 50 : 2000));
        }
    }

    void lose(const std::string& why)
    {
        why_ = why;
        lost_.store(true, std::memory_order_release); // partner: failure()
    }

    const Driver& driver_;
    DeviceInfo info_;
    PrimaryContext context_;
    Function function_ = nullptr;
    Stream stream_ = nullptr;
    Stream copies_ = nullptr; // read()
    uint32_t blocks_ = 0;
    uint32_t warps_ = 0;
    void* host_ = nullptr;
    DevicePtr device_ = 0;
    std::mutex copy_mutex_;
    std::byte* staging_ = nullptr;
    Shared shared_;
    Threads keeper_;
    std::atomic<bool> off_{true}; // not on the GPU
    std::atomic<bool> held_{false};
    std::atomic<bool> stopping_{false};
    std::atomic<bool> done_{false};
    std::atomic<bool> lost_{false};
    std::atomic<uint64_t> launches_{0};
    uint64_t launched_ns_ = 0; // the keeper's
    std::string why_;
    bool resident_ = false;
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

// SPDX-License-Identifier: Apache-2.0
// Tasks on CPU threads: one for each worker, and one for the monitor, which sleeps.
#include "backend.hpp"
#include "functions.hpp"

#include <denizen/base/error.hpp>
#include <denizen/base/interrupt.hpp>
#include <denizen/base/threads.hpp>
#include <denizen/wire/wait.hpp>

#include <atomic>
#include <sys/mman.h>
#include <thread>

namespace denizen::task {
namespace {

class CpuBackend final : public Backend {
public:
    CpuBackend(const Image& image, uint32_t workers)
        : run_(image.run_thread), functions_(image.functions), workers_(workers)
    {
    }

    ~CpuBackend() override
    {
        if (!threads_.empty()) {
            // A task does not return: its thread, and all memory, must outlive us.
            threads_.detach();
            left_.release();
            shared_.release();
        } else if (memory_ != nullptr) {
            munmap(memory_, bytes_);
        }
    }

    uint32_t workers() const override { return workers_; }
    uint32_t per_block() const override { return 1; }
    const std::string& device() const override { return device_; }

    Regions allocate(size_t host_bytes, size_t device_bytes) override
    {
        bytes_ = host_bytes + device_bytes;
        // Anonymous pages are zero, and cost nothing before they are used.
        void* pages =
            mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (pages == MAP_FAILED) {
            throw Error(Errc::exhausted, "cannot allocate " + std::to_string(bytes_ >> 20) +
                                             " MB for tasks; lower queue_slots, arena_bytes or "
                                             "counters");
        }
        memory_ = static_cast<std::byte*>(pages);
        return {memory_, memory_ + host_bytes};
    }

    void fill(void* device_memory, const void* from, size_t bytes) override
    {
        __builtin_memcpy(device_memory, from, bytes);
    }

    void launch(const Shared& shared) override
    {
        shared_ = std::make_unique<Shared>(shared);
        threads_.start(workers_ + 1, "worker",
                       [run = run_, s = shared_.get(), left = left_.get(),
                        functions = functions_](uint32_t id) {
                           use_functions(functions.get());
                           run(*s, id);
                           left->fetch_add(1, std::memory_order_release); // partner: stop()
                       });
    }

    bool read(void* to, const void* device_memory, size_t bytes) override
    {
        auto* out = static_cast<uint64_t*>(to);
        const auto* in = static_cast<const uint64_t*>(device_memory);
        for (size_t i = 0; i < bytes / 8; ++i) { // all that is read consists of such words
            out[i] = load<Scope::system, Order::acquire>(in + i);
        }
        return true;
    }

    void wake_monitor() override
    {
        ring_bell(&shared_->board->monitor_bell, &shared_->board->monitor_sleeping);
    }

    Errc failure(std::string&) override { return Errc::ok; }
    uint64_t launches() const override { return 1; }
    uint64_t incarnations() const override { return 1; }

    bool stop(uint64_t patience_ns) override
    {
        if (threads_.empty()) {
            return true;
        }
        store<Scope::system>(&shared_->control->command, static_cast<uint32_t>(Command::stop));
        const uint64_t begin = now_ns();
        // Ends when the last thread has left or by the deadline. Acquire: partner of the release
        // at the threads' ends.
        while (left_->load(std::memory_order_acquire) != threads_.size()) {
            if (now_ns() - begin > patience_ns) {
                return false;
            }
            check_interrupt();
            wake_monitor();
            std::this_thread::sleep_for(std::chrono::microseconds(50));
        }
        threads_.join();
        return true;
    }

private:
    void (*run_)(const Shared&, uint32_t);
    std::shared_ptr<const Functions> functions_;
    uint32_t workers_;
    std::string device_ = "CPU";
    std::byte* memory_ = nullptr;
    size_t bytes_ = 0;
    std::unique_ptr<Shared> shared_;
    std::unique_ptr<std::atomic<size_t>> left_ = std::make_unique<std::atomic<size_t>>(0);
    Threads threads_;
};

} // namespace

std::unique_ptr<Backend> make_cpu_backend(const Image& image, const Options& options)
{
    uint32_t workers = options.workers;
    if (workers == 0) {
        cpu_set_t set;
        CPU_ZERO(&set);
        workers = sched_getaffinity(0, sizeof set, &set) == 0
                      ? static_cast<uint32_t>(CPU_COUNT(&set))
                      : std::max(1u, std::thread::hardware_concurrency());
    }
    return std::make_unique<CpuBackend>(image, workers);
}

} // namespace denizen::task

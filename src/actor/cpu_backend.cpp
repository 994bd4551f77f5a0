// SPDX-License-Identifier: Apache-2.0
// A node on CPU threads: one thread per worker, ordinary memory, and the monitor's scan run by
// whoever wants to know. Idle workers sleep on their bells. With a breath (breath.hpp) one more
// thread makes them all end and begin again: nothing waits for that here, but the protocol is the
// GPU's, and runs under ThreadSanitizer.
#include "backend.hpp"
#include "handlers.hpp"

#include <denizen/actor/detail/monitor.hpp>
#include <denizen/base/interrupt.hpp>
#include <denizen/base/threads.hpp>
#include <denizen/device/detail/breath.hpp>
#include <denizen/wire/wait.hpp>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <sched.h>
#include <sys/mman.h>
#include <thread>
#include <vector>

namespace denizen {
namespace {

// What the threads share with the backend, and keep if it has to leave one of them behind.
struct ThreadControl {
    std::mutex mutex;
    std::condition_variable changed;
    Command wanted = Command::run;
    bool held = false; // the workers are to stay off
    uint32_t off = 0;  // those that do
    uint32_t incarnation = 1;
    bool ending = false; // of the breather
    std::atomic<uint32_t> left{0};
};

// A worker's thread: on and off until the program stops.
void work(void (*run)(const Shared&, uint32_t), const Shared& s, uint32_t id,
          ThreadControl& thread_control)
{
    const auto stopped = [&] {
        return load<Scope::system>(&s.board->command) == static_cast<uint32_t>(Command::stop);
    };
    // What is restored has the mode of its snapshot, whose workers had left: one that passes the
    // gate of a breath before it has told a mode of its own would be taken for one of these.
    store<Scope::gpu>(&s.status[id].mode, static_cast<uint32_t>(Mode::starting));
    uint32_t incarnation = 1;
    for (;;) { // ends by the stop command
        run(s, id);
        std::unique_lock lock(thread_control.mutex);
        if (s.breath.ns != 0 &&
            load<Scope::gpu>(&s.status[id].mode) != static_cast<uint32_t>(Mode::left)) {
            // All come here, or none: the breather counts on.
            thread_control.changed.wait(lock,
                                        [&] { return thread_control.incarnation != incarnation; });
            ++incarnation;
            continue;
        }
        ++thread_control.off;
        thread_control.changed.wait(lock, [&] { return !thread_control.held || stopped(); });
        --thread_control.off;
        if (stopped()) {
            break;
        }
        // It may pass the gate of a breath before it has told a mode of its own: then it is not
        // off.
        store<Scope::gpu>(&s.status[id].mode, static_cast<uint32_t>(Mode::starting));
    }
    thread_control.left.fetch_add(1, std::memory_order_release); // partner: join()
}

class CpuBackend final : public Backend {
public:
    CpuBackend(const Image& image, const Geometry& geometry, std::string why)
        : run_(image.run_worker), library_(image.library), handlers_(image.handlers),
          geometry_(geometry), why_(std::move(why)), workers_(geometry.workers)
    {
    }

    ~CpuBackend() override
    {
        stop_breather();
        if (abandoned_) {
            // A thread is still inside a handler: its memory and its code must outlive us.
            threads_.detach();
            new std::shared_ptr<void>(library_);
            new std::shared_ptr<const HandlerTable>(handlers_);
            thread_control_.release();
            shared_.release();
            return;
        }
        command(Command::stop); // only if the start failed: otherwise join() has been here
        threads_.join();
        if (memory_ != nullptr) {
            munmap(memory_, bytes_);
        }
    }

    const Geometry& geometry() const override { return geometry_; }
    void reach(const Backend&) override {} // all of it is ordinary memory

    Regions allocate(size_t host_bytes, size_t device_bytes, size_t ring_bytes) override
    {
        const size_t total = host_bytes + device_bytes + ring_bytes;
        // Anonymous pages are zero, and cost nothing before they are used.
        void* pages =
            mmap(nullptr, total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (pages == MAP_FAILED) {
            throw Error(Errc::exhausted,
                        "cannot allocate " + std::to_string(total >> 20) +
                            " MB for the program; lower max_actors, state_bytes or "
                            "the ring sizes");
        }
        memory_ = static_cast<std::byte*>(pages);
        bytes_ = total;
        Regions r;
        r.host = memory_;
        r.device = r.host + host_bytes;
        r.rings_host = r.rings_device = r.device + device_bytes;
        return r;
    }

    void wire(const Shared& shared) override { shared_ = std::make_unique<Shared>(shared); }

    void launch() override
    {
        thread_control_ = std::make_unique<ThreadControl>();
        store<Scope::system>(&shared_->board->command, static_cast<uint32_t>(Command::run));
        threads_.start(workers_, "worker",
                       [run = run_, s = shared_.get(), control = thread_control_.get(),
                        handlers = handlers_.get()](uint32_t w) {
                           use_handlers(handlers);
                           work(run, *s, w, *control);
                       });
        store<Scope::system>(&shared_->control->mode, static_cast<uint32_t>(Mode::running));
        if (shared_->breath.ns != 0) {
            breather_.start(1, "breather", [this](uint32_t) { breathe(); });
        }
    }

    void exchange(const Image&) override
    {
        throw Error(Errc::bad_argument, "the program runs on CPU threads, where it is compiled "
                                        "once; exchange() is for a GPU");
    }

    void command(Command c) override
    {
        if (!thread_control_) {
            return;
        }
        const std::lock_guard guard(thread_control_->mutex);
        thread_control_->wanted = c;
        if (!thread_control_->held || c == Command::stop) {
            tell(c);
        }
    }

    void tell(Command c) // with the mutex held
    {
        if (load<Scope::system>(&shared_->board->fatal.set) != 0) {
            c = Command::stop; // a worker has stopped the program: that holds
        }
        store<Scope::system>(&shared_->board->command, static_cast<uint32_t>(c));
        thread_control_->changed.notify_all();
        show_command();
    }

    // To workers that wait for another command, or sleep.
    void show_command()
    {
        futex_wake_all(&shared_->board->command);
        for (uint32_t w = 0; w < workers_; ++w) {
            wake(w);
        }
    }

    Command commanded() const override
    {
        const std::lock_guard guard(thread_control_->mutex);
        return thread_control_->wanted;
    }

    bool refresh(uint64_t) override
    {
        const std::lock_guard lock(scan_mutex_);
        ++scans_;
        scan(*shared_, scans_, scans_);
        return true;
    }

    bool check_quiet(uint64_t) override
    {
        const std::lock_guard lock(scan_mutex_);
        detail::check_quiet(*shared_, ++scans_);
        return true;
    }

    Errc failure(std::string&) override { return Errc::ok; }

    void wake(uint32_t worker) override
    {
        ring_bell(&shared_->bells[worker].bell, &shared_->bells[worker].sleeping);
    }

    bool parked() const override { return false; }
    uint64_t launches() const override { return 1; }

    uint64_t incarnations() const override
    {
        const std::lock_guard guard(thread_control_->mutex);
        return thread_control_->incarnation;
    }

    bool read(void* to, const void* device_memory, size_t bytes) override
    {
        copy_words(to, device_memory, bytes, [](auto* into, auto* from) {
            *into = load<Scope::system, Order::acquire>(from);
        });
        return true;
    }

    bool write(void* device_memory, const void* from, size_t bytes) override
    {
        copy_words(device_memory, from, bytes, [](auto* into, auto* word) {
            store<Scope::system, Order::release>(into, *word);
        });
        return true;
    }

    bool read(std::span<const Copy> copies) override
    {
        return std::all_of(copies.begin(), copies.end(),
                           [&](const Copy& c) { return read(c.host, c.device, c.bytes); });
    }

    bool write(std::span<const Copy> copies) override
    {
        return std::all_of(copies.begin(), copies.end(),
                           [&](const Copy& c) { return write(c.device, c.host, c.bytes); });
    }

    void hold() override
    {
        const std::lock_guard guard(thread_control_->mutex);
        thread_control_->held = true;
        tell(Command::leave);
    }

    bool held() override
    {
        const std::lock_guard guard(thread_control_->mutex);
        return thread_control_->held && thread_control_->off == workers_;
    }

    void let_go() override
    {
        const std::lock_guard guard(thread_control_->mutex);
        thread_control_->held = false;
        tell(thread_control_->wanted);
    }

    bool join(uint64_t patience_ns) override
    {
        if (threads_.empty()) {
            return true; // never launched
        }
        const uint64_t begin = now_ns();
        // Ends when the last thread has left or by the deadline. Acquire: partner of the release in
        // work(); what the workers wrote is seen.
        while (thread_control_->left.load(std::memory_order_acquire) != workers_) {
            if (now_ns() - begin > patience_ns) {
                return false;
            }
            check_interrupt();
            std::this_thread::sleep_for(std::chrono::microseconds(50));
        }
        stop_breather();
        threads_.join();
        refresh(0); // the workers' last words, as the monitor of a GPU tells them
        store<Scope::system>(&shared_->control->mode, static_cast<uint32_t>(Mode::left));
        return true;
    }

    void abandon() override { abandoned_ = true; }
    bool write_combined() const override { return false; }

    void describe(Description& d) const override
    {
        d.device = "CPU";
        d.on_gpu = false;
        d.geometry = why_;
        d.host_ring_memory = "host";
        d.host_bytes += bytes_;
    }

private:
    // Copies with `word(to, from)`: words of 8 bytes where both sides are aligned, then bytes.
    template <class Word>
    static void copy_words(void* to, const void* from, size_t bytes, Word&& word)
    {
        auto* out = static_cast<unsigned char*>(to);
        auto* in = static_cast<const unsigned char*>(from);
        const bool aligned =
            (reinterpret_cast<uintptr_t>(out) | reinterpret_cast<uintptr_t>(in)) % 8 == 0;
        size_t i = 0;
        for (; aligned && i + 8 <= bytes; i += 8) {
            word(reinterpret_cast<uint64_t*>(out + i), reinterpret_cast<const uint64_t*>(in + i));
        }
        for (; i < bytes; ++i) {
            word(out + i, in + i);
        }
    }

    // The breather's thread: what the monitor does on a GPU.
    void breathe()
    {
        std::unique_lock lock(thread_control_->mutex);
        for (;;) { // ends by stop_breather()
            const std::chrono::nanoseconds breath(detail::lasting_ns(shared_->breath));
            if (thread_control_->changed.wait_for(lock, breath,
                                                  [&] { return thread_control_->ending; })) {
                return;
            }
            // Ends with the incarnation, or by a command to leave.
            for (uint32_t failed = 0; !thread_control_->ending && begin_attempt(failed); ++failed) {
                lock.unlock();
                const bool over = try_hand_over();
                lock.lock();
                if (over) {
                    ++thread_control_->incarnation;
                    thread_control_->changed.notify_all();
                    break;
                }
            }
        }
    }

    // Step 1, with the mutex held; false if the workers are about to leave anyway.
    bool begin_attempt(uint32_t failed)
    {
        uint32_t* command = &shared_->board->command;
        uint32_t before = load<Scope::gpu>(command);
        if (leaves(command_of(before))) {
            return false;
        }
        Breath& breath = shared_->board->breath;
        if (breath.went_ns != 0 && load<Scope::gpu>(&breath.looked_ns) != 0) {
            detail::tell_handover(shared_->control->handovers, breath);
            breath.went_ns = 0;
        }
        soon_ = (before & command_bits) | detail::next_attempt(shared_->breath, failed);
        // Fails if a worker has stopped the program.
        const bool asked = compare_exchange<Scope::gpu, Order::release>(command, before, soon_);
        show_command();
        return asked;
    }

    // Steps 2 to 6; false if another attempt is needed.
    bool try_hand_over()
    {
        while (!detail::all_acknowledged(shared_->breath,
                                         soon_)) { // ends by the last, or another command
            if (load<Scope::gpu>(&shared_->board->command) != soon_) {
                return false;
            }
            std::this_thread::sleep_for(std::chrono::microseconds(5));
        }
        return detail::hand_over(shared_->breath, soon_);
    }

    void stop_breather()
    {
        if (!breather_.empty()) {
            {
                const std::lock_guard guard(thread_control_->mutex);
                thread_control_->ending = true;
            }
            thread_control_->changed.notify_all();
            breather_.join();
        }
    }

    void (*run_)(const Shared&, uint32_t);
    std::shared_ptr<void> library_;
    std::shared_ptr<const HandlerTable> handlers_;
    Geometry geometry_;
    std::string why_; // it is this one
    uint32_t workers_;
    std::byte* memory_ = nullptr;
    size_t bytes_ = 0;
    std::unique_ptr<Shared> shared_;
    std::unique_ptr<ThreadControl> thread_control_;
    Threads threads_;
    Threads breather_;
    uint32_t soon_ = 0; // the breather's
    std::mutex scan_mutex_;
    uint32_t scans_ = 0;
    bool abandoned_ = false;
};

uint32_t usable_cores()
{
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) == 0) {
        return static_cast<uint32_t>(CPU_COUNT(&set));
    }
    return std::max(1u, std::thread::hardware_concurrency());
}

} // namespace

std::unique_ptr<Backend> make_cpu_backend(const Image& image, const Options& options)
{
    if (image.run_worker == nullptr) {
        throw Error(Errc::no_device,
                    "this program was compiled for the GPU only; compile it for the "
                    "CPU too or choose a GPU");
    }
    Geometry g;
    std::string why = "as given";
    g.workers = options.workers;
    if (g.workers == 0) {
        const uint32_t cores = usable_cores();
        g.workers = workers_of_cores(cores, options.nodes);
        why = "one worker on each of " + std::to_string(cores) +
              " cores but one, which is left to the caller";
    }
    g.cluster = std::min(g.workers, options.cluster != 0 ? options.cluster : 4u);
    // Few workers, hence many messages on each ring; and one that is off its core for a time slice
    // stops the others when its rings are full. The memory costs nothing before it is used.
    g.local_slots = options.local_slots != 0 ? options.local_slots : 1024;
    g.near_slots = options.near_slots != 0 ? options.near_slots : 256;
    return std::make_unique<CpuBackend>(image, with_boxes(g, least_slots(image.table), SIZE_MAX),
                                        std::move(why));
}

} // namespace denizen

// SPDX-License-Identifier: Apache-2.0
// A node on a GPU: a cooperative launch, in clusters where the GPU has them, on a stream of its own
// in the device's primary context, so that the user's kernels on other streams run beside it, and a
// keeper thread that queues each incarnation's successor and brings a parked program back.
//
// With a breath (actor/detail/breath.hpp) there is always one more launch in the stream than the
// one that runs, until the program leaves; the keeper sleeps between two. It learns of an
// incarnation's end from host memory: a thread that captures a graph may forbid everybody to ask a
// stream.
//
// Without one, the kernel does not end: while it is resident nothing here calls what waits for the
// whole device, and the keeper beats the heart. Memory is freed after the program has left.
#include "backend.hpp"
#include "device/mapped.hpp"
#include "grid.hpp"
#include <denizen/device/primary_context.hpp>
#include <denizen/device/residents.hpp>

#include <denizen/base/clock.hpp>
#include <denizen/base/interrupt.hpp>
#include <denizen/base/threads.hpp>
#include <denizen/wire/wait.hpp>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace denizen {
namespace {

using namespace gpu;

constexpr uint64_t ms = 1'000'000; // nanoseconds

class GpuBackend final : public Backend, private Resident {
public:
    GpuBackend(const Image& image, const Options& options, int ordinal, Return back)
        : driver_(driver()), info_(device_info(ordinal)), back_(std::move(back)),
          want_mapped_(options.mapped), tick_ns_(options.idle.count() != 0 ? 1 * ms : 100 * ms)
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
        if (resident_) { // the start failed half-way
            command(Command::stop);
            if (!join(2000 * ms)) {
                abandon();
            }
        }
        stop_keeper();
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
        if (want_mapped_) {
            if (auto made =
                    MappedMemory::try_create(info_.ordinal, info_.uuid, ring_bytes, &why_not_)) {
                mapped_ = std::make_unique<MappedMemory>(std::move(*made));
            }
        } else {
            why_not_ = "switched off";
        }
        const size_t shared_bytes = host_bytes + (mapped_ ? 0 : ring_bytes);
        host_bytes_ = shared_bytes + staging_bytes;
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
        staging_ = r.host + shared_bytes;
        r.device = reinterpret_cast<std::byte*>(device_memory_);
        r.rings_host = mapped_ ? mapped_->host() : r.host + host_bytes;
        r.rings_device = mapped_ ? reinterpret_cast<std::byte*>(mapped_->device()) : r.rings_host;
        return r;
    }

    void wire(const Shared& shared) override
    {
        shared_ = shared;
        board_command_ = reinterpret_cast<DevicePtr>(&shared.board->command);
    }

    void launch() override
    {
        residents().add(this);
        resident_ = true;
        // The keeper launches: under a debugger or sanitizer that makes launches synchronous the
        // call lasts as long as the program stays.
        try {
            keeper_.start(1, "keeper", [this](uint32_t) { keep(); });
        } catch (...) {
            residents().remove(this);
            resident_ = false;
            throw;
        }
    }

    void command(Command c) override
    {
        if (shared_.control == nullptr) {
            return;
        }
        {
            const std::lock_guard guard(command_mutex_);
            if (c != Command::leave) { // which is for now; what is wanted holds when it is back
                wanted_.store(c, std::memory_order_relaxed);
            }
            if (held_.load(std::memory_order_relaxed) && c != Command::stop) {
                c = Command::leave;
            }
            store<Scope::system, Order::release>(&shared_.control->command,
                                                 static_cast<uint32_t>(c));
        }
        ring_keeper(); // which looks more often while the program is on its way out
    }

    Command commanded() const override { return wanted_.load(std::memory_order_relaxed); }

    bool refresh(uint64_t patience_ns) override
    {
        // The scan that is under way may have begun before this call; the one after it has not.
        const uint32_t from = load<Scope::system, Order::acquire>(&shared_.control->scan);
        const uint64_t begin = now_ns();
        Backoff wait;
        while (load<Scope::system, Order::acquire>(&shared_.control->scan) - from < 2) {
            // Ends by scans, by the program's leaving, by failure or patience.
            if (mode() == Mode::left) {
                return true;
            }
            if (now_ns() - begin > patience_ns || failed_.load(std::memory_order_relaxed)) {
                return false;
            }
            check_interrupt();
            wait.pause();
        }
        return true;
    }

    Errc failure(std::string& text) override
    {
        if (!failed_.load(
                std::memory_order_acquire)) { // partner of the release in notice_failure()
            return Errc::ok;
        }
        text = failure_;
        return Errc::peer_dead;
    }

    void wake(uint32_t) override
    {
        light_fence(); // the message before the look; partner: the heavy fence in sleep_on_bell()
        if (mode() == Mode::left || load<Scope::system>(&asleep_.sleeping) != 0) {
            ring_keeper();
        }
    }

    bool parked() const override { return parked_.load(std::memory_order_acquire); }
    uint64_t launches() const override { return launches_.load(std::memory_order_relaxed); }
    uint64_t incarnations() const override { return queued_.load(std::memory_order_relaxed); }

    bool read(void* to, const void* device_memory, size_t bytes) override
    {
        auto* out = static_cast<std::byte*>(to);
        return copy(bytes, device_memory, [&](DevicePtr there, size_t done, size_t part) {
            Result r = driver_.memcpy_dtoh_async(staging_, there, part, copies_);
            r = r == success ? driver_.stream_synchronize(copies_) : r;
            std::memcpy(out + done, staging_, part);
            return r;
        });
    }

    bool write(void* device_memory, const void* from, size_t bytes) override
    {
        const auto* in = static_cast<const std::byte*>(from);
        return copy(bytes, device_memory, [&](DevicePtr there, size_t done, size_t part) {
            std::memcpy(staging_, in + done, part);
            const Result r = driver_.memcpy_htod_async(there, staging_, part, copies_);
            return r == success ? driver_.stream_synchronize(copies_) : r;
        });
    }

    void hold() override
    {
        const std::lock_guard guard(residents().mutex); // not in the middle of a start()
        stayed_ = !parked();
        held_.store(true, std::memory_order_relaxed);
        command(Command::leave);
    }

    bool held() override { return held_.load(std::memory_order_relaxed) && parked(); }

    void let_go() override
    {
        held_.store(false, std::memory_order_relaxed);
        // Who was on the GPU goes back at once; a paused program when it is resumed.
        if (stayed_ && commanded() == Command::run) {
            back_now_.store(true, std::memory_order_relaxed);
        }
        command(commanded());
    }

    bool join(uint64_t patience_ns) override
    {
        stop_keeper_after_leaving(patience_ns);
        const ContextScope scope(context_);
        const uint64_t begin = now_ns();
        while (driver_.stream_query(stream_) == error_not_ready) { // ends by the kernel or patience
            if (now_ns() - begin > patience_ns) {
                return false;
            }
            std::this_thread::yield();
        }
        stop_keeper();
        parked_.store(true, std::memory_order_release); // another runtime may wait for that
        leave();
        return true;
    }

    void abandon() override
    {
        // The monitor traps, which ends the kernel and with it the context. The driver then refuses
        // this process everything until it is started anew; nothing short of that stops a handler.
        // The memory stays: other threads may be looking at it, and other nodes may write there.
        abandoned_ = true;
        if (!resident_) { // this node has left; another one is stuck
            return;
        }
        if (mode() == Mode::starting) {
            command(Command::stop); // it has found no room: it ends as soon as it begins
        } else {
            command(Command::kill);
            ring_keeper();
        }
        const uint64_t begin = now_ns();
        while (!failed_.load(std::memory_order_acquire) && now_ns() - begin < 2000 * ms) {
            std::this_thread::yield(); // ends when the keeper sees the trap, or after 2 s
        }
        stop_keeper();
        leave();
    }

    bool write_combined() const override { return mapped_ != nullptr; }

    void describe(Description& d) const override
    {
        d.device =
            d.device.empty() || d.device == info_.name ? info_.name : d.device + ", " + info_.name;
        d.on_gpu = true;
        d.host_ring_memory = mapped_ ? "mapped" : "pinned";
        d.why_not_mapped = why_not_;
        d.device_bytes += device_bytes_ + (mapped_ ? mapped_->size() : 0);
        d.host_bytes += host_bytes_;
    }

private:
    static constexpr size_t staging_bytes = 256 << 10;
    static constexpr uint64_t no_room_ns = 5000 * ms;
    static constexpr uint64_t overdue_ns = 20 * ms;
    static constexpr uint64_t least_nap_ns = 50'000;

    void ask_to_leave() override { command(Command::leave); }
    bool off() override { return parked() || failed_.load(std::memory_order_acquire); }
    void let_return() override { command(commanded()); }
    bool breathes() const override { return shared_.breath_ns != 0; }
    int ordinal() const override { return info_.ordinal; }
    uint32_t blocks() const override { return grid_.blocks; }
    bool anywhere() const override { return grid_.geometry.cluster == 1; }

    std::string named() const
    {
        return "GPU " + std::to_string(info_.ordinal) + " (" + info_.name + ")";
    }

    [[noreturn]] void refuse_to_wait() const
    {
        throw Error(Errc::stuck, "another program of this process is on " + info_.name +
                                     " and does not leave it: one of its handlers is stuck");
    }

    // Copies by way of pinned memory on a stream of its own: the driver may let a copy from or to
    // ordinary memory wait for work on the device, and a resident program never ends.
    template <class Part>
    bool copy(size_t bytes, const void* device_memory, Part&& part)
    {
        if (abandoned_ || failed_.load(std::memory_order_acquire)) { // partner: notice_failure()
            return false;
        }
        const std::lock_guard guard(copy_mutex_);
        const ContextScope scope(context_);
        const auto there = reinterpret_cast<DevicePtr>(device_memory);
        for (size_t done = 0; done < bytes; done += staging_bytes) {
            if (part(there + done, done, std::min(bytes - done, staging_bytes)) != success) {
                return false; // the keeper says why
            }
        }
        return true;
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
        if (image.cubin.empty()) {
            function_ = static_cast<Function>(image.kernel());
        } else {
            check(driver_.module_load_data(&module_, image.cubin.data()), "cuModuleLoadData",
                  "the program's cubin");
            check(driver_.module_get_function(&function_, module_, "denizen_resident"),
                  "cuModuleGetFunction", "denizen_resident");
        }
        // An SM changes the split of its memory between L1 and shared memory only when it is empty.
        // Every other kernel's shared memory must fit beside ours: take the split with the most,
        // unless it is said that L1 matters more.
        check(driver_.func_set_attribute(function_, func_shared_carveout,
                                         options.prefer_l1 ? 0 : 100),
              "cuFuncSetAttribute", "shared memory carveout");
        grid_ = Grid::choose(info_, function_, options, image.table);
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

    // The next incarnation. A successor goes on with what it finds in the board.
    void queue(bool successor)
    {
        const uint32_t number = queued_.load(std::memory_order_relaxed) + 1;
        Shared shared = shared_;
        shared.incarnation = number;
        shared.successor = successor ? 1 : 0;
        queued_.store(number, std::memory_order_relaxed);
        launch_kernel(shared);
    }

    void launch_kernel(Shared shared)
    {
        void* parameters[] = {&shared};
        const LaunchConfig config = grid_.launch_on(stream_);
        check(driver_.launch_kernel_ex(&config, function_, parameters, nullptr), "cuLaunchKernelEx",
              grid_.text());
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
            for (const Stream stream : {stream_, copies_}) {
                if (stream != nullptr) {
                    driver_.stream_destroy(stream);
                }
            }
            if (module_ != nullptr) {
                driver_.module_unload(module_);
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

    Mode mode() const
    {
        return static_cast<Mode>(load<Scope::system, Order::acquire>(&shared_.control->mode));
    }

    void leave()
    {
        if (resident_) {
            resident_ = false;
            residents().remove(this);
        }
    }

    void start()
    {
        const std::lock_guard guard(residents().mutex);
        if (held_.load(std::memory_order_relaxed)) {
            return; // hold() came first: stay parked
        }
        back_now_.store(false, std::memory_order_relaxed);
        const ContextScope scope(context_);
        Control& c = *shared_.control;
        {
            // Not between another thread's two stores: its command would be overwritten.
            const std::lock_guard in_order(command_mutex_);
            store<Scope::system>(&c.command,
                                 static_cast<uint32_t>(wanted_.load(std::memory_order_relaxed)));
        }
        store<Scope::system>(&c.mode, static_cast<uint32_t>(Mode::starting));
        store<Scope::system>(&c.leave, static_cast<uint32_t>(Leave::none));
        fetch_add<Scope::system>(&c.heartbeat, 1u);
        launches_.fetch_add(1, std::memory_order_relaxed);
        launched_ns_ = now_ns();
        parked_.store(false, std::memory_order_release);
        const auto launch = [this] {
            check(driver_.memset_d32_async(
                      board_command_,
                      static_cast<unsigned>(wanted_.load(std::memory_order_relaxed)), 1, stream_),
                  "cuMemsetD32Async");
            queue(false);
        };
        // Nobody makes way for a program that leaves too few SMs to come back to.
        const bool room = residents().taken(info_.ordinal) <= static_cast<uint32_t>(info_.sm_count);
        if (anywhere() || !room) {
            launch();
        } else {
            residents().seat(*this, launch, [this] { return mode() != Mode::starting; });
        }
        back_.made();
    }

    // The keeper thread: successors or the heart, failures, and the way back from being parked.
    void keep()
    {
        const ContextScope scope(context_);
        try_start();
        while (!stopping_.load(std::memory_order_acquire)) { // ends by stop_keeper()
            const uint64_t nap = breathes() ? see_to_successor() : beat();
            if (failed_.load(std::memory_order_relaxed)) {
                return;
            }
            if (nap == 0) {
                rest();
                continue;
            }
            // Meanwhile a sender or close() may ring.
            const uint32_t seen = load<Scope::system, Order::acquire>(&asleep_.bell);
            if (!stopping_.load(std::memory_order_acquire)) {
                futex_wait(&asleep_.bell, seen, nap);
            }
        }
    }

    bool leaving() const
    {
        return mode() == Mode::left || load<Scope::system>(&shared_.control->command) >=
                                           static_cast<uint32_t>(Command::leave);
    }

    // How long the keeper may sleep; 0: the program is off.
    uint64_t beat()
    {
        fetch_add<Scope::system>(&shared_.control->heartbeat, 1u);
        const Result state = look_at_stream();
        return state == success && may_rest() ? 0 : leaving() ? 20'000 : tick_ns_;
    }

    bool may_rest() const
    {
        const auto why = static_cast<Leave>(load<Scope::system>(&shared_.control->leave));
        return mode() == Mode::left && (why == Leave::idle || why == Leave::host_lost);
    }

    Result look_at_stream()
    {
        const Result state = driver_.stream_query(stream_);
        if (state != success && state != error_not_ready) {
            notice_failure(state);
        } else if (state == error_not_ready && mode() == Mode::starting &&
                   now_ns() - launched_ns_ > no_room_ns && residents().beside(*this)) {
            fail("the program has found no room on " + info_.name + " (" + grid_.text() +
                 ") beside other programs of this process: give those fewer sms or workers");
        }
        return state;
    }

    // The same for a program that breathes. The end of a breath is foreseen: the keeper wakes about
    // twice in each.
    uint64_t see_to_successor()
    {
        const uint64_t breath = shared_.breath_ns;
        const uint64_t now = now_ns();
        const bool left = mode() == Mode::left; // before the next: nothing is queued behind it then
        const uint32_t ended = load<Scope::system, Order::acquire>(&shared_.control->ended);
        const uint32_t flying = queued_.load(std::memory_order_relaxed) - ended;
        if (ended != ended_ || flying == 0) {
            ended_ = ended;
            moved_ns_ = now;
        } else if (now - moved_ns_ > breath + overdue_ns) {
            // A long handler, no room, or its end: here the stream is asked.
            moved_ns_ = now;
            look_at_stream();
        }
        if (left) {
            return flying != 0 ? least_nap_ns : may_rest() ? 0 : tick_ns_;
        }
        const bool on_its_way = leaving();
        if (flying < (on_its_way ? 1u : 2u)) {
            try {
                queue(true);
            } catch (const Error& e) {
                look_at_stream();
                if (!failed_.load(std::memory_order_relaxed)) {
                    fail(std::string("the program could not be launched: ") + e.what());
                }
            }
            return flying == 0 ? least_nap_ns : std::max(breath / 4 * 3, least_nap_ns);
        }
        return on_its_way ? least_nap_ns : std::max(breath / 8, least_nap_ns);
    }

    // The program has left the GPU. Sleeps until there is something for it to do.
    void rest()
    {
        parked_.store(true, std::memory_order_release);
        const auto needed = [&] {
            return stopping_.load(std::memory_order_acquire) ||
                   (!held_.load(std::memory_order_relaxed) &&
                    wanted_.load(std::memory_order_relaxed) == Command::run &&
                    (back_now_.load(std::memory_order_relaxed) || back_.needed()));
        };
        while (!needed()) { // ends by a sender's bell or by stop_keeper()
            sleep_on_bell(&asleep_.bell, &asleep_.sleeping, 1000 * ms, needed);
        }
        if (!stopping_.load(std::memory_order_acquire) &&
            wanted_.load(std::memory_order_relaxed) != Command::stop) {
            try_start();
        }
    }

    void try_start()
    {
        try {
            start();
        } catch (const Error& e) {
            fail(std::string("the program could not be launched: ") + e.what());
        }
    }

    void fail(const std::string& why)
    {
        failure_ = why;
        failed_.store(true, std::memory_order_release); // partner: failure()
    }

    void notice_failure(Result state)
    {
        const char* name = nullptr;
        driver_.get_error_name(state, &name);
        fail("the program on " + info_.name + " died: " + (name != nullptr ? name : "?") +
             "; the CUDA context is unusable, start a new process");
    }

    void stop_keeper_after_leaving(uint64_t patience_ns)
    {
        // The heart beats until the program has left, so that it does not leave for the wrong
        // reason.
        const uint64_t begin = now_ns();
        while (mode() != Mode::left && !failed_.load(std::memory_order_relaxed) && !parked() &&
               now_ns() - begin < patience_ns) { // ends by leaving or patience
            std::this_thread::yield();
        }
    }

    void ring_keeper()
    {
        fetch_add<Scope::system, Order::release>(&asleep_.bell, 1u);
        futex_wake_all(&asleep_.bell);
    }

    void stop_keeper()
    {
        stopping_.store(true, std::memory_order_release);
        ring_keeper();
        keeper_.join();
    }

    const Driver& driver_;
    DeviceInfo info_;
    Return back_;
    bool want_mapped_;
    uint64_t tick_ns_;
    std::string why_not_;
    PrimaryContext context_;
    Module module_ = nullptr;
    Function function_ = nullptr;
    Stream stream_ = nullptr;
    Stream copies_ = nullptr; // read() and write()
    Grid grid_;
    std::unique_ptr<MappedMemory> mapped_;
    void* host_memory_ = nullptr;
    DevicePtr device_memory_ = 0;
    size_t host_bytes_ = 0;
    std::mutex copy_mutex_;
    std::byte* staging_ = nullptr;
    size_t device_bytes_ = 0;
    Shared shared_;
    DevicePtr board_command_ = 0;
    Threads keeper_;
    Bell asleep_;
    std::atomic<bool> stopping_{false};
    std::atomic<bool> parked_{true}; // not on the GPU
    std::atomic<bool> failed_{false};
    std::atomic<bool> held_{false};     // the program is to stay off
    std::atomic<bool> back_now_{false}; // and goes back without a reason
    bool stayed_ = false;               // it was on the GPU when hold() came
    std::atomic<Command> wanted_{Command::run};
    std::mutex command_mutex_; // wanted_ and Control::command change together
    std::atomic<uint64_t> launches_{0};
    std::atomic<uint32_t> queued_{0};
    uint64_t launched_ns_ = 0; // the keeper's, as the next
    uint32_t ended_ = 0;       // Control::ended, as last seen,
    uint64_t moved_ns_ = 0;    // and since when
    std::string failure_;
    std::atomic<bool> abandoned_{false};
    bool resident_ = false; // between launch() and join()
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

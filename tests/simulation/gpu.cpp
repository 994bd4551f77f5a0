// SPDX-License-Identifier: Apache-2.0
// Whole runtimes on a GPU that is not there: the backend, the keeper and the registry of resident
// programs as they are, over a driver that runs launches (tests/device/fake_driver.cpp). A stream
// is a thread that does what was queued, in order; in a launch each worker is a thread, and the
// stream's own is the monitor's warp. Memory orders are the host's.
//
// What a kernel has read and written is seen by the next, as on a GPU. Whoever has nothing to do
// naps there, and no bell wakes him: so it is here (CMakeLists.txt).
#include "../device/load_fake_driver.hpp"
#include "actors.hpp"
#include "fibers.hpp"

#include <denizen/actor/detail/monitor.hpp>
#include <denizen/device/residents.hpp>

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <functional>
#include <malloc.h>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

namespace simulation {

namespace {

using RunWorker = void (*)(const Shared&, uint32_t);

// Before anybody asks for a driver, and before anything is simulated.
FakeDriver& fake()
{
    static FakeDriver* const driver = [] {
        FakeDriver* const told = load_fake_driver(DENIZEN_FAKE_DRIVER);
        if (told == nullptr || !gpu_present()) {
            std::fprintf(stderr, "simulate: no driver in %s\n", DENIZEN_FAKE_DRIVER);
            std::exit(2);
        }
        return told;
    }();
    return *driver;
}

// A thread that cannot be refused: it is the GPU's. Its end is waited for.
class Hardware {
public:
    explicit Hardware(std::function<void()> what) : what_(std::move(what))
    {
        const Inside inside;
        fiber_ = begin(
            [](void* its) -> void* {
                (*static_cast<std::function<void()>*>(its))();
                return nullptr;
            },
            &what_);
        if (fiber_ == nullptr) {
            fail("more threads than the simulator has room for");
        }
    }
    ~Hardware()
    {
        const Inside inside;
        while (fiber_->state != State::ended) { // ends: with the thread
            block(fiber_, "the GPU", never, 0);
        }
        acquire_from(fiber_);
        free_fiber(*fiber_);
    }
    Hardware(const Hardware&) = delete;
    Hardware& operator=(const Hardware&) = delete;

private:
    std::function<void()> what_;
    Fiber* fiber_ = nullptr;
};

struct Operation {
    RunWorker run = nullptr; // nullptr: `word` is set
    Shared shared;
    uint32_t* word = nullptr;
    uint32_t value = 0;
};

class Stream {
public:
    Stream() = default;
    ~Stream() // what runs there leaves by itself
    {
        const std::lock_guard guard(mutex_);
        ending_ = true;
        changed_.notify_all();
    }
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;

    void queue(const Operation& operation)
    {
        const std::lock_guard guard(mutex_);
        queued_.push_back(operation);
        changed_.notify_all();
    }
    bool busy()
    {
        const std::lock_guard guard(mutex_);
        return !queued_.empty();
    }
    void synchronize()
    {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return queued_.empty(); });
    }

private:
    void work()
    {
        std::unique_lock lock(mutex_);
        for (;;) { // ends with the GPU
            changed_.wait(lock, [&] { return ending_ || !queued_.empty(); });
            if (queued_.empty()) {
                return;
            }
            const Operation next = queued_.front();
            lock.unlock();
            if (next.run == nullptr) {
                store<Scope::gpu>(next.word, next.value);
            } else {
                run(next);
            }
            lock.lock();
            queued_.pop_front();
            changed_.notify_all();
        }
    }

    static void run(const Operation& kernel) // one incarnation
    {
        std::deque<Hardware> workers;
        for (uint32_t w = 0; w < kernel.shared.workers; ++w) {
            workers.emplace_back([&, w] { kernel.run(kernel.shared, w); });
        }
        run_monitor(kernel.shared);
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<Operation> queued_; // the first of them is done now
    bool ending_ = false;
    Hardware thread_{[this] { work(); }}; // the last to begin, the first to end
};

// As long as a run lasts.
class Gpu final : public FakeGpu {
public:
    Gpu()
    {
        fake() = FakeDriver{};
        fake().gpu = this;
        denizen::detail::longest_sleep_ns = 2000;
    }
    ~Gpu()
    {
        fake().gpu = nullptr;
        denizen::detail::longest_sleep_ns = on_threads_;
    }

    bool refuses(Call call) override
    {
        const bool may =
            (call == Call::launch && refuse_launches) || (call != Call::launch && refuse_others);
        const bool does = may && draw(odds) == odds - 1;
        refused += does ? 1 : 0;
        return does;
    }
    void launch(void* stream, void* function, void** parameters) override
    {
        Operation o;
        o.run = reinterpret_cast<RunWorker>(function);
        o.shared = *static_cast<const Shared*>(parameters[0]);
        std::unique_lock driver(driver_, std::try_to_lock);
        if (!driver) {
            const uint64_t asked = now_ns();
            driver.lock();
            held_up_ns = std::max(held_up_ns, now_ns() - asked);
        }
        if (o.shared.workers != 0) { // else the driver makes ready
            of(stream).queue(o);
        }
    }
    void set(void* stream, unsigned long long at, unsigned value) override
    {
        Operation o;
        o.word = reinterpret_cast<uint32_t*>(at);
        o.value = value;
        of(stream).queue(o);
    }
    bool busy(void* stream) override
    {
        Stream* s = known(stream);
        return s != nullptr && s->busy();
    }
    void synchronize(void* stream) override
    {
        if (Stream* s = known(stream)) {
            s->synchronize();
        }
    }

    // As cudaFree does: nobody launches until all has ended that was launched before.
    void free_memory()
    {
        const std::lock_guard driver(driver_);
        std::vector<Stream*> all;
        {
            const std::lock_guard guard(mutex_);
            for (const auto& [stream, its] : streams_) {
                all.push_back(its.get());
            }
        }
        for (Stream* s : all) {
            s->synchronize();
        }
    }

    void wrote(void* at, unsigned long long bytes) override
    {
        std::unique_ptr<Stream> destroyed;
        if (bytes == 0) {
            const std::lock_guard guard(mutex_);
            if (const auto stream = streams_.find(at); stream != streams_.end()) {
                destroyed = std::move(stream->second);
                streams_.erase(stream);
            }
        }
        destroyed.reset();
        if (simulated() && at != nullptr) {
            const Inside inside;
            forget(at, bytes != 0 ? bytes : malloc_usable_size(at));
        }
    }

    // When all programs are gone: nothing runs on it any more, and nothing is kept.
    void end()
    {
        refuse_launches = refuse_others = false;
        streams_.clear();
        require(fake().held == 0, "memory, streams or modules were not given back");
        require(fake().contexts == 0, "a context is kept");
        require(fake().late == 0, "something was given back after its context");
    }

    bool refuse_launches = false;
    bool refuse_others = false;
    uint32_t odds = 16; // one in so many calls
    uint32_t refused = 0;
    uint64_t held_up_ns = 0; // the longest that a launch has waited for who frees; 0: none has

private:
    Stream* known(void* stream)
    {
        const std::lock_guard guard(mutex_);
        const auto found = streams_.find(stream);
        return found == streams_.end() ? nullptr : found->second.get();
    }
    Stream& of(void* stream)
    {
        const std::lock_guard guard(mutex_);
        std::unique_ptr<Stream>& s = streams_[stream];
        if (s == nullptr) {
            s = std::make_unique<Stream>();
        }
        return *s;
    }

    const uint64_t on_threads_ = denizen::detail::longest_sleep_ns;
    std::mutex driver_; // whoever launches or frees
    std::mutex mutex_;
    std::map<void*, std::unique_ptr<Stream>> streams_;
};

template <class Body>
void with_gpu(Body&& body)
{
    Gpu gpu;
    body(gpu);
    gpu.end();
}

// The program leaves when it is told to, and comes back for the next letter.
void parks()
{
    with_gpu([](Gpu&) {
        checked([&] {
            Run run(small(On::gpu, 1));
            Sent sent;
            std::thread other([&] {
                checked([&] {
                    for (uint32_t i = draw(4); i > 0; --i) {
                        run.rt.park(patience());
                    }
                });
            });
            run.post(0, draw(8), sent);
            other.join();
            run.expect_and_close(sent);
        });
    });
}

// Two programs on one GPU. Each that has no breath leaves for what the other takes and gives back.
void beside()
{
    with_gpu([](Gpu&) {
        checked([&] {
            const denizen::Options o = small(On::gpu, 1);
            Run run(o);
            Sent sent;
            std::thread other([&] {
                checked([&] {
                    Run its(o);
                    Sent its_sent;
                    its.post(0, draw(4), its_sent);
                    its.collect(its_sent.letters);
                    its.expect(its_sent);
                    its.rt.close();
                });
            });
            run.post(0, draw(8), sent);
            other.join();
            run.expect_and_close(sent);
        });
    });
}

// Somebody frees memory beside a program. The next launch waits for that, and that for the
// incarnation whose successor is launched: this one ends long before its breath is over.
void gpu_frees()
{
    with_gpu([](Gpu& gpu) {
        checked([&] {
            denizen::Options o = small(On::gpu, 1);
            o.breath = 4ms;
            o.idle = 0ms;
            Run run(o);
            Sent sent;
            uint64_t again_ns = 0; // the longest wait of who has just freed some
            std::thread other([&] {
                gpu.free_memory();
                for (uint32_t i = draw(3); i > 0; --i) {
                    const uint64_t began = now_ns();
                    gpu.free_memory();
                    again_ns = std::max(again_ns, now_ns() - began);
                }
            });
            run.post(0, draw(8), sent);
            other.join();
            run.expect_and_close(sent);
            require(gpu.held_up_ns != 0, "no launch was held up");
            // A millisecond to end, in which all threads take turns.
            require(gpu.held_up_ns < denizen::detail::held_up_ns + 1'000'000,
                    "who frees memory waits for a whole breath");
            // The next launch is tried soon and held up, too; then that breath ends.
            require(again_ns < 3 * denizen::detail::held_up_ns + 2'000'000,
                    "who frees memory again waits for a whole breath");
        });
    });
}

// Memory, streams, code and threads that are refused: a named error, nothing is left behind, and
// the next try works.
void gpu_refused()
{
    for (uint32_t tries = 0; tries < 6; ++tries) {
        with_gpu([&](Gpu& gpu) {
            gpu.refuse_others = tries < 5;
            try {
                Run run(small(On::gpu, 1));
                gpu.refuse_others = false;
                Sent sent;
                run.post(0, 2, sent);
                run.collect(2);
                run.expect(sent);
                run.rt.close();
                tries = 6;
            } catch (const Error& e) {
                const bool named = e.code() == Errc::exhausted || e.code() == Errc::driver ||
                                   e.code() == Errc::peer_dead;
                require(named && (e.code() == Errc::exhausted || gpu.refused != 0), e.what());
            }
        });
    }
}

// A launch fails under load, the first or a successor's: every call ends, in a named error or with
// what it was for, and the GPU is free.
void launch_fails()
{
    with_gpu([&](Gpu& gpu) {
        Sent sent;
        const auto named = [&](const Error& e) {
            require(gpu.refused != 0, e.what());
            require(e.code() == Errc::peer_dead || e.code() == Errc::driver ||
                        e.code() == Errc::closed,
                    e.what());
        };
        try {
            Run run(small(On::gpu, 1));
            gpu.refuse_launches = true;
            std::thread other([&] {
                try {
                    for (uint32_t i = draw(3); i > 0; --i) {
                        run.rt.park(patience());
                        std::this_thread::sleep_for(100us);
                    }
                } catch (const Error& e) {
                    named(e);
                }
            });
            try {
                run.post(0, draw(8), sent);
                run.collect(sent.letters);
                run.rt.drain(patience());
                gpu.refuse_launches = false;
                if (gpu.refused == 0) {
                    run.expect(sent);
                }
            } catch (const Error& e) {
                named(e);
            }
            other.join();
            run.rt.close();
        } catch (const Error& e) {
            named(e);
        }
    });
}

} // namespace

Image image_of_post()
{
    Image image;
    image.table = Post::table();
    image.actors = denizen::detail::Names<Post>::actors();
    image.messages = denizen::detail::Names<Post>::messages();
    image.buffers = denizen::detail::Names<Post>::buffers();
    image.run_worker = [](const Shared& shared, uint32_t id) { run_worker<Post>(shared, id); };
    image.kernel = [run = image.run_worker] { return reinterpret_cast<void*>(run); };
    return image;
}

std::vector<Scenario> gpu_scenarios()
{
    fake();
    const Faults all{.spurious = true, .stopped = true, .jumps = true};
    const auto on = [&](const char* name, void (*body)(), Faults faults,
                        void (*after)() = nullptr) {
        return Scenario{name, body, faults, after, 1'000'000, 100};
    };
    return {
        on(
            "gpu_traffic", [] { with_gpu([](Gpu&) { traffic(On::gpu, 1); }); }, all),
        on(
            "gpu_nodes", [] { with_gpu([](Gpu&) { traffic(On::gpu, 2); }); }, all),
        on("gpu_breathes", [] { with_gpu([](Gpu&) { breathes(On::gpu); }); }, {}),
        on(
            "gpu_drains", [] { with_gpu([](Gpu&) { drains(On::gpu); }); }, all),
        on(
            "gpu_pauses", [] { with_gpu([](Gpu&) { pauses(On::gpu); }); }, all),
        on(
            "gpu_moves", [] { with_gpu([](Gpu&) { moves(On::gpu, 1); }); }, all),
        on("gpu_parks", parks, all),
        on("gpu_beside", beside, all),
        on("gpu_frees", gpu_frees, {}),
        on(
            "gpu_saves", [] { with_gpu([](Gpu&) { saves(On::gpu); }); }, all),
        on(
            "gpu_killed", [] { with_gpu([](Gpu&) { saves(On::gpu); }); }, {.dies = true},
            [] { with_gpu([](Gpu&) { restore(On::gpu); }); }),
        on("gpu_refused", gpu_refused, {.threads = true}),
        on("gpu_launch_fails", launch_fails, {}),
    };
}

} // namespace simulation

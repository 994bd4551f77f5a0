// SPDX-License-Identifier: Apache-2.0
// Tasks from the host: a Runtime starts a program of tasks, spawns into it and waits for it.
//
//   denizen::task::Runtime<Fibs> rt;
//   auto [promise, future] = rt.promise<uint64_t>();
//   rt.spawn(Begin{30, promise});
//   uint64_t fib = future.get();
//   rt.wait();                     // until no task runs or can run
//
// nvcc compiles the program for the GPU and the CPU. Any other compiler compiles it for the CPU.
#pragma once

#include <denizen/base/error.hpp>
#include <denizen/base/type_name.hpp>
#include <denizen/task/kernel.hpp>
#include <denizen/task/ref.hpp>
#include <denizen/task/task_runtime.hpp>

#include <algorithm>
#include <utility>

#if defined(__CUDACC__)
#include <cuda_runtime_api.h>
#endif

namespace denizen::task {

using namespace std::chrono_literals;

namespace detail {

#if defined(__CUDACC__)
// 1024: at most 64 registers, so that a fifth of them stays free for other kernels' blocks.
template <class P>
__global__ void __launch_bounds__(1024, 1) tasks_kernel(const __grid_constant__ Shared shared)
{
    run_block<P>(shared);
}
#endif

template <class P>
struct Names;
template <class... T>
struct Names<Program<T...>> {
    static std::vector<std::string> all()
    {
        return {std::string(denizen::detail::type_name<T>())...};
    }
};

} // namespace detail

template <class P>
Image image_of()
{
    Image image;
    image.table = P::table();
    image.names = detail::Names<P>::all();
    image.run_thread = [](const Shared& shared, uint32_t id) { run_thread<P>(shared, id); };
#if defined(__CUDACC__)
    image.kernel = []() -> void* {
        cudaFunction_t function = nullptr;
        const cudaError_t error =
            cudaGetFuncBySymbol(&function, reinterpret_cast<const void*>(&detail::tasks_kernel<P>));
        if (error != cudaSuccess) {
            throw Error(Errc::driver,
                        std::string("cudaGetFuncBySymbol: ") + cudaGetErrorString(error));
        }
        return function;
    };
#endif
    return image;
}

// The host's end of a promise: waits for the result. Movable; must not outlive its runtime.
template <class T>
class Future {
public:
    Future(TaskRuntime& runtime, Promise<T> promise) : runtime_(&runtime), promise_(promise) {}
    Future(Future&& other) noexcept
        : runtime_(std::exchange(other.runtime_, nullptr)), promise_(other.promise_)
    {
    }
    Future& operator=(Future&&) = delete;
    ~Future()
    {
        if (runtime_ != nullptr) {
            runtime_->close_answer(promise_.answer, promise_.sequence);
        }
    }

    bool ready() const { return runtime_->answered(promise_.answer, promise_.sequence, sizeof(T)); }
    // Errc::timeout if no task has set the result by then. A dropped task never sets it.
    T get(nanoseconds deadline = 10s) const
    {
        T value;
        runtime_->read_answer(promise_.answer, promise_.sequence, &value, sizeof(T), deadline);
        return value;
    }

private:
    TaskRuntime* runtime_;
    Promise<T> promise_;
};

template <class T>
struct Awaited {
    Promise<T> promise; // for the task
    Future<T> future;   // for the host
};

template <class P>
class Runtime {
public:
    // Tasks that are waited for and cancelled together, and may have a lifetime. What tasks of a
    // group spawn belongs to the group. The destructor cancels it and waits at most a second.
    class Group {
    public:
        Group(Runtime& runtime, nanoseconds lifetime)
            : runtime_(&runtime), number_(runtime.runtime_.open_group(lifetime))
        {
        }
        Group(Group&& other) noexcept
            : runtime_(std::exchange(other.runtime_, nullptr)), number_(other.number_)
        {
        }
        Group& operator=(Group&&) = delete;
        ~Group()
        {
            if (runtime_ == nullptr) {
                return;
            }
            try {
                cancel();
                wait(1s);
                runtime_->runtime_.close_group(number_);
            } catch (const Error&) { // its tasks do not end, so its number stays in use
            }
        }

        template <class X>
        void spawn(const X& task, nanoseconds deadline = 1s)
        {
            runtime_->spawn_many(&task, 1, number_, deadline);
        }
        template <class X>
        void spawn_many(const X* tasks, uint64_t count, nanoseconds deadline = 60s)
        {
            runtime_->spawn_many(tasks, count, number_, deadline);
        }
        // For actors: what they spawn by it belongs to the group. Valid while the group is open.
        TasksRef<P> ref() const { return {runtime_->runtime_.ingress(), number_}; }
        // Tasks of the group that have not begun are dropped. A running task learns of it by
        // ctx.cancelled().
        void cancel() { runtime_->runtime_.cancel(number_); }
        Ended wait(nanoseconds deadline = 60s)
        {
            return runtime_->runtime_.wait(number_, deadline);
        }

    private:
        Runtime* runtime_;
        uint32_t number_;
    };

    explicit Runtime(Device device = Device::automatic(), Options options = {})
        : runtime_(image_of<P>(), on(device, options))
    {
    }

    template <class X>
    void spawn(const X& task, nanoseconds deadline = 1s)
    {
        spawn_many(&task, 1, 0, deadline);
    }
    template <class X>
    void spawn_many(const X* tasks, uint64_t count, nanoseconds deadline = 60s)
    {
        spawn_many(tasks, count, 0, deadline);
    }
    // Opens a group. If `lifetime` passes before the group has ended, it is cancelled. 0: no limit.
    Group group(nanoseconds lifetime = 0s) { return Group(*this, lifetime); }

    // By it actors on the same device and the user's kernels spawn tasks. Valid until this runtime
    // is closed; a task that is handed in afterwards never runs.
    TasksRef<P> ref() const { return {runtime_.ingress(), 0}; }

    template <class T>
    Awaited<T> promise()
    {
        static_assert(sizeof(T) <= answer_payload && std::is_trivially_copyable_v<T>);
        const auto [answer, sequence] = runtime_.open_answer();
        const Promise<T> promise{answer, sequence};
        return {promise, Future<T>(runtime_, promise)};
    }

    // Waits until no task outside groups runs or can run. A task that an actor has handed in counts
    // if that was before this call. Errc::timeout.
    void wait(nanoseconds deadline = 60s) { runtime_.wait(0, deadline); }

    Stats stats() { return runtime_.stats(); }
    // The arena that tasks see as ctx.arena(). Its ref() serves actors, kernels and threads on the
    // same device, too. Valid as long as this runtime.
    const Arena& arena() const { return runtime_.arena(); }
    uint32_t workers() const { return runtime_.workers(); }
    bool on_gpu() const { return runtime_.on_gpu(); }
    const std::string& device() const { return runtime_.device(); }
    void close(nanoseconds timeout = 5s) { runtime_.close(timeout); }

private:
    static Options on(Device device, Options options)
    {
        options.device = device;
        return options;
    }

    template <class X>
    void spawn_many(const X* tasks, uint64_t count, uint32_t group, nanoseconds deadline)
    {
        constexpr uint32_t words = 1 + (detail::bytes_of<X> + 3) / 4;
        constexpr uint64_t most = 512; // encoded at a time
        std::vector<uint32_t> encoded(words * std::min(count, most));
        for (uint64_t done = 0; done < count; done += most) {
            const uint64_t n = std::min(most, count - done);
            for (uint64_t i = 0; i < n; ++i) {
                const typename P::Words w = P::encode(tasks[done + i], group);
                std::copy_n(w.word, words, encoded.data() + i * words);
            }
            runtime_.spawn(encoded.data(), words, n, deadline, done, count - done - n);
        }
    }

    TaskRuntime runtime_;
};

} // namespace denizen::task

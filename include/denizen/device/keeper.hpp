// SPDX-License-Identifier: Apache-2.0
// Keeps a resident program on its GPU: a thread that launches it, queues each incarnation's
// successor, learns of its failure, and brings it back after it has left. Host only.
//
// With a breath (detail/breath.hpp) there is always one more launch in the stream than the one that
// runs, until the program leaves; the keeper sleeps between two. It learns of an incarnation's end
// from host memory: a thread that captures a graph may forbid everybody to ask a stream. It says
// there what it launches: an incarnation whose successor's launch is held up ends early.
//
// Without one, the kernel does not end: the keeper beats the heart, and while the program is
// resident nothing here calls what waits for the whole device.
#pragma once

#include <denizen/base/error.hpp>
#include <denizen/base/threads.hpp>
#include <denizen/device/chip.hpp>
#include <denizen/device/detail/resident.hpp>
#include <denizen/device/residents.hpp>

#include <atomic>
#include <functional>
#include <mutex>
#include <string>

namespace denizen::gpu {

// What is kept.
struct Kept {
    Kept() = default;
    // On a chip's stream.
    Kept(const Chip& chip, const Shape& shape)
        : grid(text_of(shape)), blocks(shape.blocks[0]), anywhere(shape.cluster == 0),
          stream(chip.stream()), context(&chip.context()), info(chip.info())
    {
    }

    std::string name = "the program"; // in errors
    std::string grid;                 // "132 blocks of 5 warps", in errors
    uint32_t blocks = 0;              // each on an SM
    bool anywhere = true;             // on any SMs: they are in no clusters
    uint64_t breath_ns = 0;
    bool ends_by_itself = false;    // soon, also without a breath: see Resident::ends_by_itself()
    uint64_t tick_ns = 2'000'000;   // between two beats of the heart, and looks while it is off
    ResidentWords* words = nullptr; // what it and its keeper tell each other
    DevicePtr command = 0;          // the workers' copy of the command
    Stream stream = nullptr;        // its own
    const PrimaryContext* context = nullptr;
    DeviceInfo info;
    // Queues an incarnation: `number` from 1 on; a successor goes on where the one before it in the
    // stream has ended. Throws.
    std::function<void(uint32_t number, bool successor)> launch;
    // It has left the GPU: whether there is a reason to go back. Then, that it has gone back.
    std::function<bool()> needed = [] { return true; };
    std::function<void()> returned = [] {};
};

// What launches incarnations of a kernel that ends by its term (detail/term.hpp): `launch` gets the
// argument with the incarnation's number in argument.term.
template <class Argument, class Launch>
std::function<void(uint32_t, bool)> by_term(Argument argument, Launch launch)
{
    return [argument, launch](uint32_t number, bool successor) {
        Argument next = argument;
        next.term.incarnation = number;
        next.term.successor = successor ? 1 : 0;
        launch(next);
    };
}

class Keeper final : private Resident {
public:
    Keeper() = default;
    ~Keeper();
    Keeper(const Keeper&) = delete;
    Keeper& operator=(const Keeper&) = delete;

    // Once. The keeper's thread launches: under a debugger or sanitizer that makes launches
    // synchronous the call lasts as long as the program stays. Throws.
    void start(Kept kept);
    // Whether it was started, and neither joined nor abandoned.
    bool resident() const { return resident_.load(std::memory_order_acquire); }

    // What the program is to do. `leave` is for now; what was wanted before holds when it is back.
    void command(Command c);
    Command commanded() const { return wanted_.load(std::memory_order_relaxed); }
    Mode mode() const;
    // Errc::ok, or why the program can never go on, with the reason in `text`.
    Errc failure(std::string& text) const;
    bool failed() const { return failed_.load(std::memory_order_acquire); }
    bool parked() const { return parked_.load(std::memory_order_acquire); }
    uint64_t launches() const { return launches_.load(std::memory_order_relaxed); }
    // With a breath: incarnations that have begun or are queued; else as launches().
    uint64_t incarnations() const { return queued_.load(std::memory_order_relaxed); }

    // Exchanges the kernel: every incarnation that is queued from now on is launched by `launch`.
    // Those that are queued already are not; the stream keeps the order. By any thread.
    void exchange(std::function<void(uint32_t number, bool successor)> launch);

    // There may be a reason to go back: after a message has been published. By any thread, also
    // before start(): another node's may be on the GPU already.
    void wake();
    // The program stays off, whatever is commanded meanwhile. held(): it is off.
    void hold();
    bool held() const { return held_.load(std::memory_order_relaxed) && parked(); }
    void let_go();

    // Tells the program to stop and takes it off. False if it does not leave by then: abandon() has
    // ended its kernel.
    bool end(uint64_t patience_ns);
    // Takes the program off; it has been told to stop. False if a handler does not return by then.
    bool join(uint64_t patience_ns);
    // When join() failed: ends the kernel, and with it the context.
    void abandon();

private:
    // ---- Resident
    void ask_to_leave() override { command(Command::leave); }
    bool off() override { return parked() || failed(); }
    void let_return() override { command(commanded()); }
    bool ends_by_itself() const override { return kept_.ends_by_itself || breathes(); }
    uint32_t launched() const override { return queued_.load(std::memory_order_relaxed); }
    uint32_t ended() const override;
    int ordinal() const override { return kept_.info.ordinal; }
    uint32_t blocks() const override { return kept_.blocks; }
    bool anywhere() const override { return kept_.anywhere; }

    bool breathes() const { return kept_.breath_ns != 0; }
    void keep();
    void rest();
    void try_launch();
    void launch();
    bool queue(bool successor); // whether the launch was held up
    uint64_t beat();
    uint64_t see_to_successor();
    Result look_at_stream();
    bool may_rest() const;
    bool leaving() const;
    void fail(const std::string& why);
    void ring();
    void stop();
    void remove();

    Kept kept_;
    Threads thread_;
    alignas(line) uint32_t bell_ = 0; // the keeper sleeps on it
    uint32_t sleeping_ = 0;
    std::atomic<bool> stopping_{false};
    std::atomic<bool> parked_{true}; // not on the GPU
    std::atomic<bool> failed_{false};
    std::atomic<bool> held_{false};     // the program is to stay off
    std::atomic<bool> back_now_{false}; // and goes back without a reason
    bool stayed_ = false;               // it was on the GPU when hold() came
    std::atomic<Command> wanted_{Command::run};
    std::mutex command_mutex_; // wanted_ and ResidentWords::command change together
    std::mutex launch_mutex_;  // Kept::launch, which exchange() sets and the keeper calls
    std::atomic<uint64_t> launches_{0};
    std::atomic<uint32_t> queued_{0};
    uint64_t launched_ns_ = 0; // the keeper's, as the next
    uint32_t ended_ = 0;       // ResidentWords::ended, as last seen,
    uint64_t moved_ns_ = 0;    // and since when
    std::string failure_;
    std::atomic<bool> resident_{false}; // release in start(): kept_ is there
};

} // namespace denizen::gpu

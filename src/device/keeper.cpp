// SPDX-License-Identifier: Apache-2.0
// One thread for each program that is on a GPU. It launches incarnations, or, for a program without
// a breath, beats its heart; it sees when the program has died or left, and sleeps in between.
#include <denizen/device/keeper.hpp>

#include <denizen/base/clock.hpp>
#include <denizen/device/detail/breath.hpp>
#include <denizen/wire/wait.hpp>

#include <algorithm>
#include <thread>
#include <utility>

namespace denizen::gpu {
namespace {

constexpr uint64_t ms = 1'000'000;          // nanoseconds
constexpr uint64_t no_room_ns = 5000 * ms;  // a launch that has not begun by then found none
constexpr uint64_t overdue_ns = 20 * ms;    // behind a breath: a long handler, or the end
constexpr uint64_t least_nap_ns = 50'000;   // below it a thread does not sleep
constexpr uint64_t trap_ns = 2000 * ms;     // until a trap is noticed
constexpr uint64_t longest_nap = 1000 * ms; // of a parked program's keeper; a bell ends it

} // namespace

Keeper::~Keeper()
{
    end(2000 * ms); // what it was started for failed half-way
    if (kept_.words != nullptr) {
        stop();
    }
}

void Keeper::start(Kept kept)
{
    kept_ = std::move(kept);
    residents().add(this);
    resident_.store(true, std::memory_order_release); // partner: resident()
    try {
        thread_.start(1, "keeper", [this](uint32_t) { keep(); });
    } catch (...) {
        residents().remove(this);
        resident_ = false;
        throw;
    }
}

void Keeper::command(Command c)
{
    if (kept_.words == nullptr) {
        return; // never started
    }
    {
        const std::lock_guard guard(command_mutex_);
        if (c != Command::leave) {
            wanted_.store(c, std::memory_order_relaxed);
        }
        // Somebody needs the GPU: what is wanted is kept in wanted_ and told when it is let go. But
        // a program may always end.
        if (held_.load(std::memory_order_relaxed) && c != Command::stop) {
            c = Command::leave;
        }
        store<Scope::system, Order::release>(&kept_.words->command, static_cast<uint32_t>(c));
    }
    ring(); // the keeper looks more often while the program is on its way out
}

Mode Keeper::mode() const
{
    return static_cast<Mode>(load<Scope::system, Order::acquire>(&kept_.words->mode));
}

Errc Keeper::failure(std::string& text) const
{
    if (!failed()) { // partner of the release in fail()
        return Errc::ok;
    }
    text = failure_;
    return Errc::peer_dead;
}

void Keeper::wake()
{
    if (!resident()) {
        return;
    }
    light_fence(); // the message before the look; partner: the heavy fence in sleep_on_bell()
    if (mode() == Mode::left || load<Scope::system>(&sleeping_) != 0) {
        ring();
    }
}

void Keeper::hold()
{
    const std::lock_guard guard(residents().mutex); // not in the middle of a launch
    stayed_ = !parked();
    held_.store(true, std::memory_order_relaxed);
    command(Command::leave);
}

void Keeper::let_go()
{
    held_.store(false, std::memory_order_relaxed);
    // Who was on the GPU goes back at once; a paused program when it is resumed.
    if (stayed_ && commanded() == Command::run) {
        back_now_.store(true, std::memory_order_relaxed);
    }
    command(commanded());
}

bool Keeper::end(uint64_t patience_ns)
{
    if (!resident()) {
        return true;
    }
    command(Command::stop);
    try {
        if (join(patience_ns)) {
            return true;
        }
    } catch (const Error&) { // a dead context
    }
    abandon();
    return false;
}

bool Keeper::join(uint64_t patience_ns)
{
    if (!resident_) {
        return true;
    }
    const uint64_t begin = now_ns();
    const auto patient = [&] { return now_ns() - begin < patience_ns; };
    // The heart beats until the program has left, so that it does not leave for the wrong reason.
    while (mode() != Mode::left && !failed() && !parked() && patient()) { // ends as it says
        std::this_thread::yield();
    }
    const ContextScope scope(*kept_.context);
    const auto ends = [&] {
        while (driver().stream_query(kept_.stream) ==
               error_not_ready) { // by the kernel or patience
            if (!patient()) {
                return false;
            }
            std::this_thread::yield();
        }
        return true;
    };
    if (!ends()) {
        return false;
    }
    stop();
    // The keeper may have queued a last successor meanwhile, as it had not seen that the program
    // has left: what its workers look at is given back after this.
    if (!ends()) {
        return false;
    }
    parked_.store(true, std::memory_order_release); // another program may wait for that
    remove();
    return true;
}

void Keeper::abandon()
{
    // The leader traps, which ends the kernel and with it the context. The driver then refuses this
    // process everything until it is started anew; nothing short of that stops a handler.
    if (!resident_) {
        return;
    }
    if (mode() == Mode::starting) {
        command(Command::stop); // it has found no room: it ends as soon as it begins
    } else {
        command(Command::kill);
    }
    const uint64_t begin = now_ns();
    while (!failed() && now_ns() - begin < trap_ns) { // ends when the keeper sees the trap
        std::this_thread::yield();
    }
    stop();
    remove();
}

void Keeper::keep()
{
    const ContextScope scope(*kept_.context);
    try_launch();
    // Ends by stop(), or when a launch has failed: behind one that is not there a successor would
    // run without a monitor, and nobody could end it.
    while (!stopping_.load(std::memory_order_acquire) && !failed_.load(std::memory_order_relaxed)) {
        // Before the look at what was commanded, of which the nap's length follows: a ring that
        // comes after this look ends the nap, and before it what it rings for is seen. Partner:
        // ring().
        const uint32_t seen = load<Scope::system, Order::acquire>(&bell_);
        const uint64_t nap = breathes() ? see_to_successor() : beat();
        if (failed_.load(std::memory_order_relaxed)) {
            return;
        }
        if (nap == 0) {
            rest();
            continue;
        }
        if (!stopping_.load(std::memory_order_acquire)) {
            futex_wait(&bell_, seen, nap);
        }
    }
}

// The program has left the GPU. Sleeps until there is something for it to do.
void Keeper::rest()
{
    parked_.store(true, std::memory_order_release);
    const auto needed = [&] {
        return stopping_.load(std::memory_order_acquire) ||
               (!held_.load(std::memory_order_relaxed) &&
                wanted_.load(std::memory_order_relaxed) == Command::run &&
                (back_now_.load(std::memory_order_relaxed) || kept_.needed()));
    };
    while (!needed()) { // ends by a sender's bell or by stop()
        sleep_on_bell(&bell_, &sleeping_, longest_nap, needed);
    }
    if (!stopping_.load(std::memory_order_acquire) &&
        wanted_.load(std::memory_order_relaxed) != Command::stop) {
        try_launch();
    }
}

void Keeper::try_launch()
{
    try {
        launch();
    } catch (const Error& e) {
        fail(kept_.name + " could not be launched: " + e.what());
    }
}

void Keeper::launch()
{
    const std::lock_guard guard(residents().mutex);
    if (held_.load(std::memory_order_relaxed)) {
        return; // hold() came first: stay parked
    }
    back_now_.store(false, std::memory_order_relaxed);
    ResidentWords& words = *kept_.words;
    {
        // Not between another thread's two stores: its command would be overwritten.
        const std::lock_guard in_order(command_mutex_);
        store<Scope::system>(&words.command,
                             static_cast<uint32_t>(wanted_.load(std::memory_order_relaxed)));
    }
    store<Scope::system>(&words.mode, static_cast<uint32_t>(Mode::starting));
    store<Scope::system>(&words.leave, static_cast<uint32_t>(Leave::none));
    fetch_add<Scope::system>(&words.heartbeat, 1u);
    launches_.fetch_add(1, std::memory_order_relaxed);
    launched_ns_ = now_ns();
    parked_.store(false, std::memory_order_release);
    // The device's copy of the command is set on the stream, in front of the kernel: what the last
    // one has left there says that it is over.
    const auto launch = [this] {
        check(driver().memset_d32_async(
                  kept_.command, static_cast<unsigned>(wanted_.load(std::memory_order_relaxed)), 1,
                  kept_.stream),
              "cuMemsetD32Async");
        queue(false);
    };
    // Nobody makes way for a program that leaves too few SMs to come back to.
    const bool room =
        residents().taken(kept_.info.ordinal) <= static_cast<uint32_t>(kept_.info.sm_count);
    if (anywhere() || !room) {
        launch();
    } else {
        residents().seat(*this, launch, [this] { return mode() != Mode::starting; });
    }
    kept_.returned();
}

uint32_t Keeper::ended() const { return load<Scope::system>(&kept_.words->ended); }

bool Keeper::queue(bool successor)
{
    const uint32_t number = queued_.load(std::memory_order_relaxed) + 1;
    queued_.store(number, std::memory_order_relaxed);
    const std::lock_guard guard(launch_mutex_);
    // The incarnation before it ends early if this takes long: somebody may wait for that end.
    store<Scope::system>(&kept_.words->launching, number);
    const uint64_t began = now_ns();
    kept_.launch(number, successor);
    store<Scope::system>(&kept_.words->launching, 0u);
    return now_ns() - began > detail::held_up_ns;
}

void Keeper::exchange(std::function<void(uint32_t, bool)> launch)
{
    const std::lock_guard guard(launch_mutex_);
    kept_.launch = std::move(launch);
}

// How long the keeper may sleep; 0: the program is off.
uint64_t Keeper::beat()
{
    fetch_add<Scope::system>(&kept_.words->heartbeat, 1u);
    const Result state = look_at_stream();
    return state == success && may_rest() ? 0 : leaving() ? 20'000 : kept_.tick_ns;
}

bool Keeper::leaving() const
{
    return mode() == Mode::left ||
           load<Scope::system>(&kept_.words->command) >= static_cast<uint32_t>(Command::leave);
}

bool Keeper::may_rest() const
{
    const auto why = static_cast<Leave>(load<Scope::system>(&kept_.words->leave));
    return mode() == Mode::left && (why == Leave::idle || why == Leave::host_lost);
}

Result Keeper::look_at_stream()
{
    const Result state = driver().stream_query(kept_.stream);
    if (state != success && state != error_not_ready) {
        const char* name = nullptr;
        driver().get_error_name(state, &name);
        fail(kept_.name + " on " + kept_.info.name + " died: " + (name != nullptr ? name : "?") +
             "; the CUDA context is unusable, start a new process");
    } else if (state == error_not_ready && mode() == Mode::starting &&
               now_ns() - launched_ns_ > no_room_ns && residents().beside(*this)) {
        fail(kept_.name + " has found no room on " + kept_.info.name + " (" + kept_.grid +
             ") beside other programs of this process: give those fewer sms or workers");
    }
    return state;
}

// The same for a program that breathes. The end of a breath is foreseen: the keeper wakes about
// twice in each.
uint64_t Keeper::see_to_successor()
{
    const uint64_t breath = kept_.breath_ns;
    const uint64_t now = now_ns();
    const bool left = mode() == Mode::left; // before the next: nothing is queued behind it then
    const uint32_t ended = load<Scope::system, Order::acquire>(&kept_.words->ended);
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
        return flying != 0 ? least_nap_ns : may_rest() ? 0 : kept_.tick_ns;
    }
    const bool on_its_way = leaving();
    if (flying < (on_its_way ? 1u : 2u)) {
        bool held_up = false;
        try {
            held_up = queue(true);
        } catch (const Error& e) {
            look_at_stream();
            if (!failed_.load(std::memory_order_relaxed)) {
                fail(kept_.name + " could not be launched: " + e.what());
            }
        }
        // Who frees memory often frees more at once, and is to hold up the next launch soon.
        return flying == 0 ? least_nap_ns
               : held_up   ? detail::held_up_ns
                           : std::max(breath / 4 * 3, least_nap_ns);
    }
    return on_its_way ? least_nap_ns : std::max(breath / 8, least_nap_ns);
}

void Keeper::fail(const std::string& why)
{
    failure_ = why;
    failed_.store(true, std::memory_order_release); // partner: failed()
}

void Keeper::ring()
{
    fetch_add<Scope::system, Order::release>(&bell_, 1u);
    futex_wake_all(&bell_);
}

void Keeper::stop()
{
    stopping_.store(true, std::memory_order_release);
    ring();
    thread_.join();
}

void Keeper::remove()
{
    if (resident_) {
        resident_ = false;
        residents().remove(this);
    }
}

} // namespace denizen::gpu

// SPDX-License-Identifier: Apache-2.0
// A host's link to itself.
#include <denizen/cluster/link.hpp>

#include "quiet_thread.hpp"

#include <denizen/wire/wait.hpp>

#include <atomic>
#include <thread>
#include <vector>

namespace denizen {
namespace {

using cluster::quiet_thread;

class Loop : public Link {
public:
    explicit Loop(AnyRuntime& runtime) : door_(runtime.far())
    {
        thread_ = quiet_thread("denizen loop", [this] { run(); });
    }
    ~Loop() override { Loop::close(); }
    Loop(const Loop&) = delete;
    Loop& operator=(const Loop&) = delete;

    State state() const override { return State::up; }
    std::string why() const override { return {}; }
    LinkCounts counts() const override
    {
        const FarCounts c = door_.counts(door_.own());
        return {c.taken, c.taken, c.delivered, c.refused, 0, 0, 0};
    }
    bool idle() override
    {
        return door_.empty(door_.own()) && !holds_ && door_.none_aside(door_.own());
    }
    void lose(const std::string&) override {}
    void close() override
    {
        stop_ = true;
        door_.wake(door_.own());
        if (thread_.joinable()) {
            thread_.join();
        }
    }

private:
    void run()
    {
        const uint32_t own = door_.own();
        std::vector<unsigned char> payload(door_.room());
        Header h;
        // The bell first, as close() rings it. Ends by that.
        for (uint32_t bell = door_.bell(own); !stop_; bell = door_.bell(own)) {
            holds_ = true;
            const bool aside = !door_.give_aside(own);
            const bool taken =
                door_.take_urgent(own, h, payload.data()) || door_.take(own, h, payload.data());
            for (bool again = false; taken && !stop_; again = true) { // ends by room
                if (door_.deliver(own, h, payload.data(), again) != Delivered::no_room) {
                    break;
                }
                relax();
            }
            holds_ = false;
            if (!taken) {
                door_.sleep(own, bell, aside ? 1'000'000 : 100'000'000);
            }
        }
    }

    FarDoor& door_;
    std::atomic<bool> stop_{false};
    std::atomic<bool> holds_{false};
    std::thread thread_;
};

} // namespace

std::unique_ptr<Link> Link::loop(AnyRuntime& runtime) { return std::make_unique<Loop>(runtime); }

} // namespace denizen

// SPDX-License-Identifier: Apache-2.0
// The link of a pair of hosts over a wire: two threads, and workers in their place. link.cpp has
// what a program asks of it, link_out.cpp the sender's half, link_in.cpp the receiver's.
#pragma once

#include "looking.hpp"
#include "wire.hpp"

#include <denizen/cluster/link.hpp>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace denizen::cluster {

class Pair : public Link, private LinkHelp {
public:
    Pair(AnyRuntime& runtime, uint32_t peer, std::unique_ptr<Wire> wire,
         const LinkOptions& options);
    ~Pair() override;
    Pair(const Pair&) = delete;
    Pair& operator=(const Pair&) = delete;

    State state() const override { return state_.load(std::memory_order_acquire); }
    std::string why() const override;
    LinkCounts counts() const override;
    bool idle() override;
    bool settled() const override;
    void lose(const std::string& why) override;
    uint64_t halt() override { return wire_->halt(); }
    void pause(bool on) override;
    bool paused() override;
    void resume(int socket, uint64_t nonce, uint64_t arrived, std::shared_ptr<UcxEnd> ucx,
                const std::string& address) override;
    void close() override;

private:
    static constexpr uint32_t batch = 256; // messages between two flushes
    // How long a thread sleeps for which a worker looks: by then it sees that none has, as when all
    // of them are in long handlers.
    static constexpr uint64_t nap_ns = 1'000'000;

    // A worker whose ring is full looks every few messages, and makes room by the quarter: it tries
    // again, and sees to what else comes, every so often.
    static constexpr uint32_t looks_per_try = 8;
    static constexpr uint32_t looks_per_pump = 64;

    // A message that the sender has taken, and the wire had no room for; or that has come, and its
    // worker had none.
    struct Held {
        explicit Held(uint32_t room) : payload(room) {}
        Header h;
        std::vector<unsigned char> payload;
        bool holds = false;
        bool again = false; // there was no room for it before
    };

    // ---- a worker's, between its rounds; and a thread's, that sends

    bool look() override;
    Sent send_some() override;
    bool rest() override;

    // ---- the sender's half: link_out.cpp

    void send();
    bool send_one(Held& held, bool hurried);
    struct Batch {
        uint32_t n = 0;
        bool waits = false;   // the wire has not taken all of it
        bool held_up = false; // so, or by a pause or a log
    };
    Batch send_batch(bool flushes = true);
    void bury(Held& data, Held& hurried);
    bool bury_one(Held& hands);

    // ---- the receiver's half: link_in.cpp

    void receive();
    uint32_t deliver_some(Held& held, bool hurried, bool takes);
    uint32_t deliver_batch(bool takes);
    void end(const std::string& why);

    FarDoor& door_;
    uint32_t host_;
    std::unique_ptr<Wire> wire_;
    const bool urgent_; // some of the program's messages are
    uint64_t deadline_;
    // After which the other host is lost. The rest of the deadline is this thread's, which looks
    // every some ms: by its end it is known.
    uint64_t silence_;
    uint64_t spin_;
    // Stores of these are releases, partners of the acquires of who asks: that one sees what was
    // done before.
    std::atomic<State> state_{State::up};
    std::atomic<bool> stop_{false};
    std::atomic<bool> holds_{false};       // the sender may have a message in its hands
    std::atomic<bool> undelivered_{false}; // and the receiver
    std::atomic<bool> pause_{false};
    std::atomic<bool> pauses_{false}; // and the sender has seen it, and holds nothing
    std::atomic<uint64_t> resumed_{0};
    std::atomic<uint64_t> by_workers_{0};
    // Each direction is its thread's or a worker's in turn, behind its lock.
    std::mutex out_lock_;
    Turn out_turn_;
    Held out_data_;
    Held out_hurried_;
    std::mutex in_lock_;
    Turn in_turn_;
    Held in_data_;
    Held in_hurried_;
    // Workers receive, too. Not where threads are to sleep soon: then cores are fewer than threads,
    // and a thread that is woken is given one before a worker that looks.
    const bool helps_in_;
    // They do all the same: the thread found that one had no room. So it is awake, and takes what
    // comes when it has some, until it sleeps.
    std::atomic<bool> lent_{false};
    // Of workers that look, while a message has no room, behind the receiver's lock.
    uint32_t vain_looks_ = 0;
    // Of the workers, behind the sender's lock.
    uint64_t worked_ = 0;
    uint32_t asked_ = 0;
    bool looks_on_ = false;
    bool buried_ = false;
    std::atomic<bool> settled_{false};
    std::atomic<bool> heard_{false}; // the receiver has given out all that had come
    mutable std::mutex lock_;
    std::string why_;
    std::string told_; // by lose()
    std::atomic<bool> told_now_{false};
    std::thread in_;
    std::thread out_;
};

} // namespace denizen::cluster

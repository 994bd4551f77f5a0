// SPDX-License-Identifier: Apache-2.0
// A Channel (channel.hpp) whose receiver is a coroutine: where that one sleeps, this one suspends.
// Senders may be coroutines or threads: they never wait.
#pragma once

#include <denizen/flow/channel.hpp>
#include <denizen/flow/scheduler.hpp>

namespace denizen::flow {

template <class T>
class AsyncChannel {
public:
    // `senders` to one; at most `items` items circulate.
    explicit AsyncChannel(uint32_t items, uint32_t senders = 1)
    {
        for (uint32_t i = 0; i < senders; ++i) {
            rings_.add(items);
        }
        only_ = &rings_[0];
    }

    void send(const T& item, uint32_t sender = 0)
    {
        (sender == 0 ? *only_ : rings_[sender]).send(item);
        parking_.notify();
    }
    void close(uint32_t sender = 0)
    {
        rings_[sender].close();
        parking_.notify();
    }

    bool try_receive(T& item)
    {
        return rings_.size() == 1 ? only_->try_receive(item) : rings_.try_receive(item);
    }
    // co_await receive(item): false when all senders have closed and everything was received.
    auto receive(T& item)
    {
        auto settled = [this, &item] {
            got_ = try_receive(item);
            return got_ || rings_.drained();
        };
        struct Receive : Until<decltype(settled)> {
            const bool& got;
            bool await_resume() { return got; }
        };
        return Receive{{parking_, settled}, got_};
    }

private:
    UncheckedRings<T> rings_;
    UncheckedRing<T>* only_;
    bool got_ = false; // the receiver's
    Parking parking_;
};

} // namespace denizen::flow

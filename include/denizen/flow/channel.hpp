// SPDX-License-Identifier: Apache-2.0
// Several senders, one receiver, as one ring per sender: a sender that is preempted in the middle
// of sending delays its own item and nobody else's, and senders share no word. One sender is the
// common case and costs no scan.
//
//   flow::Channel<Item> channel(64);      // 64 items circulate, one sender
//   channel.send(item);                   Item item;  while (channel.receive(item)) ...
#pragma once

#include <denizen/flow/detail/unchecked_ring.hpp>

#include <memory>
#include <vector>

namespace denizen::flow {

// The rings of one receiver. Order is kept per sender; ready rings are served in turn.
template <class T>
class UncheckedRings {
public:
    UncheckedRing<T>& add(uint32_t items)
    {
        UncheckedRing<T>& ring = *rings_.emplace_back(std::make_unique<UncheckedRing<T>>(items));
        only_ = rings_.size() == 1 ? &ring : nullptr;
        return ring;
    }

    bool ready() const
    {
        if (only_ != nullptr) {
            return only_->ready();
        }
        for (const auto& ring : rings_) {
            if (ring->ready()) {
                return true;
            }
        }
        return false;
    }
    bool try_receive(T& item)
    {
        if (only_ != nullptr) {
            return only_->try_receive(item);
        }
        const size_t n = rings_.size();
        for (size_t tried = 0; tried < n; ++tried) {
            UncheckedRing<T>& ring = *rings_[next_];
            next_ = next_ + 1 == n ? 0 : next_ + 1;
            if (ring.try_receive(item)) {
                return true;
            }
        }
        return false;
    }
    // All have closed, and nothing is left. True forever once it is.
    bool drained() const
    {
        for (const auto& ring : rings_) {
            if (!ring->closed() || ring->ready()) {
                return false;
            }
        }
        return true;
    }
    size_t size() const { return rings_.size(); }
    UncheckedRing<T>& operator[](size_t i) { return *rings_[i]; }

private:
    // A ring stays where it is: its sender holds a reference.
    std::vector<std::unique_ptr<UncheckedRing<T>>> rings_;
    UncheckedRing<T>* only_ = nullptr; // the common case
    size_t next_ = 0;
};

// `senders` threads to one; at most `items` items circulate. Sending never waits and never fails.
template <class T>
class Channel {
public:
    explicit Channel(uint32_t items, uint32_t senders = 1)
    {
        for (uint32_t i = 0; i < senders; ++i) {
            rings_.add(items);
        }
        first_ = &rings_[0];
    }

    void send(const T& item, uint32_t sender = 0)
    {
        (sender == 0 ? *first_ : rings_[sender]).send(item);
        bell_.ring();
    }
    void close(uint32_t sender = 0)
    {
        rings_[sender].close();
        bell_.ring();
    }

    bool try_receive(T& item) { return rings_.try_receive(item); }
    // Spins, then sleeps. False when all senders have closed and everything was received.
    bool receive(T& item)
    {
        uint32_t tries = 0;
        while (!try_receive(item)) { // ends: by an item or when the last sender closes
            if (rings_.drained()) {
                return false;
            }
            if (++tries < spins) {
                relax();
            } else {
                bell_.sleep(1'000'000'000, [&] { return rings_.ready() || rings_.drained(); });
            }
        }
        return true;
    }

    static constexpr uint32_t spins = 1024;

private:
    UncheckedRings<T> rings_;
    UncheckedRing<T>* first_;
    Bell bell_;
};

} // namespace denizen::flow

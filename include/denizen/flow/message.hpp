// SPDX-License-Identifier: Apache-2.0
// Control of a running block: values that any thread posts and that the block's own thread handles
// between two calls of work().
#pragma once

#include <denizen/base/error.hpp>
#include <denizen/flow/detail/engine.hpp>

#include <atomic>
#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace denizen::flow {

class Block;

class MessagePort {
public:
    MessagePort(const MessagePort&) = delete;
    MessagePort& operator=(const MessagePort&) = delete;
    std::string label() const; // "block.port"

    static constexpr size_t limit = 64; // waiting messages

protected:
    MessagePort(Block& block, std::string name);
    ~MessagePort() = default;
    void ring() const;
    [[noreturn]] void refuse(Errc why) const;

    std::atomic<bool> pending_{false};

private:
    friend class detail::Engine;
    virtual void handle() = 0;
    virtual void close() = 0;
    bool pending() const { return pending_.load(std::memory_order_acquire); } // partner: offer()

    Block& block_;
    std::string name_;
};

template <class T>
class Messages : public MessagePort {
public:
    Messages(Block& block, std::string name, std::function<void(const T&)> handler)
        : MessagePort(block, std::move(name)), handler_(std::move(handler))
    {
    }

    // From any thread. Throws full when `limit` messages wait, closed when the block has finished.
    void post(T value)
    {
        if (const Errc code = offer(std::move(value)); code != Errc::ok) {
            refuse(code);
        }
    }
    // The same without exceptions: ok, full or closed.
    Errc offer(T value)
    {
        {
            const std::lock_guard lock(mutex_);
            if (closed_) {
                return Errc::closed;
            }
            if (waiting_.size() == limit) {
                return Errc::full;
            }
            waiting_.push_back(std::move(value));
            pending_.store(true, std::memory_order_release); // partner: pending()
        }
        ring();
        return Errc::ok;
    }

private:
    void handle() override
    {
        {
            const std::lock_guard lock(mutex_);
            waiting_.swap(taken_);
            pending_.store(false, std::memory_order_relaxed);
        }
        for (const T& value : taken_) {
            handler_(value);
        }
        taken_.clear();
    }
    void close() override
    {
        const std::lock_guard lock(mutex_);
        closed_ = true;
        pending_.store(false, std::memory_order_relaxed);
    }

    std::function<void(const T&)> handler_;
    std::mutex mutex_;
    std::vector<T> waiting_;
    std::vector<T> taken_;
    bool closed_ = false;
};

// Messages from a block to others: connect it with Flowgraph::connect().
template <class T>
class MessageOutput {
public:
    // To every connected port whose block has not finished. Throws full if one is.
    void send(const T& value)
    {
        for (Messages<T>* port : ports_) {
            if (port->offer(value) == Errc::full) {
                port->post(value); // throws, unless there is room by now
            }
        }
    }

private:
    friend class Flowgraph;
    std::vector<Messages<T>*> ports_;
};

} // namespace denizen::flow

// SPDX-License-Identifier: Apache-2.0
// A block written as one coroutine instead of a work() that is called again and again: what it does
// next is told by where it stands, not by its members. It runs on every executor.
//
//   struct Frames : flow::ScriptBlock {
//       flow::In<float> in{*this, "in"};
//       using ScriptBlock::ScriptBlock;
//       Script run() override {
//           co_await find_preamble();           // a Script too
//           for (int k = 0; k < 100;) {
//               co_await next();                // every input has a quantum, every source room
//               k += take_bits(in.view()); in.consume(in.view().size());
//           }
//       }                                       // the end: as by finish()
//   };
#pragma once

#include <denizen/flow/block.hpp>

#include <coroutine>
#include <exception>

namespace denizen::flow {

class Script {
public:
    struct promise_type;
    using Handle = std::coroutine_handle<promise_type>;

    Script() = default;
    explicit Script(Handle handle) : handle_(handle) {}
    Script(Script&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    Script& operator=(Script&& other) noexcept
    {
        std::swap(handle_, other.handle_);
        return *this;
    }
    ~Script()
    {
        if (handle_) {
            handle_.destroy();
        }
    }

    // From within another script: it runs to its end, and that one goes on.
    bool await_ready() const { return false; }
    std::coroutine_handle<> await_suspend(Handle caller);
    void await_resume() const;

private:
    friend class ScriptBlock;
    Handle handle_;
};

class ScriptBlock : public Block {
public:
    using Block::Block;
    class Next;

protected:
    virtual Script run() = 0;
    Next next();

private:
    void work() final;

    Script script_;
    std::coroutine_handle<> at_; // the innermost script, where it waits
};

struct Script::promise_type {
    struct Final {
        bool await_ready() noexcept { return false; }
        std::coroutine_handle<> await_suspend(Handle handle) noexcept
        {
            return handle.promise().caller;
        }
        void await_resume() noexcept {}
    };

    Script get_return_object() { return Script(Handle::from_promise(*this)); }
    std::suspend_always initial_suspend() noexcept { return {}; }
    Final final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { error = std::current_exception(); }

    std::coroutine_handle<> caller = std::noop_coroutine();
    std::exception_ptr error;
};

inline std::coroutine_handle<> Script::await_suspend(Handle caller)
{
    handle_.promise().caller = caller;
    return handle_;
}

inline void Script::await_resume() const
{
    if (handle_.promise().error) {
        std::rethrow_exception(handle_.promise().error);
    }
}

class ScriptBlock::Next {
public:
    bool await_ready() const { return false; }
    void await_suspend(std::coroutine_handle<> handle) { block_.at_ = handle; }
    void await_resume() const {}

private:
    friend class ScriptBlock;
    explicit Next(ScriptBlock& block) : block_(block) {}
    ScriptBlock& block_;
};

inline ScriptBlock::Next ScriptBlock::next() { return Next(*this); }

inline void ScriptBlock::work()
{
    if (!script_.handle_) {
        script_ = run();
        at_ = script_.handle_;
    }
    at_.resume();
    if (script_.handle_.done()) {
        script_.await_resume(); // what it threw
        finish();
    }
}

} // namespace denizen::flow

// SPDX-License-Identifier: Apache-2.0
// Blocks, the circuits between them, and the threads that run them. Host only; a graph is built
// and run once.
#pragma once

#include <denizen/base/threads.hpp>
#include <denizen/flow/block.hpp>

#include <chrono>
#include <condition_variable>
#include <functional>

namespace denizen::flow {

// Blocks that one thread runs in turn, and the core it is pinned to.
struct Sequence {
    std::vector<std::reference_wrapper<Block>> blocks;
    int core = -1; // any
};

// Blocks that a few threads share: each is a coroutine that is suspended while it has nothing to
// do, and runs on whichever thread is free (scheduler.hpp). On a single thread, where none could
// run beside another, all are one coroutine, which runs them in turn.
struct Pool {
    std::vector<std::reference_wrapper<Block>> blocks;
    std::vector<int> cores{-1}; // a thread for each, pinned to it; -1: to none
};

// Who runs which block. One that is named nowhere has a thread of its own, resident ones
// (resident.hpp) of one runtime have one together.
struct Executors {
    std::vector<Sequence> sequences;
    std::vector<Pool> pools;
};

class Scheduler;

class Flowgraph {
public:
    Flowgraph();
    ~Flowgraph(); // ends it as abort() does

    // A block of type B, made of `arguments`; the graph owns it.
    template <class B, class... Arguments>
    B& add(Arguments&&... arguments)
    {
        auto block = std::make_unique<B>(std::forward<Arguments>(arguments)...);
        B& added = *block;
        own(std::move(block));
        return added;
    }
    // The same for one that exists.
    void add(std::unique_ptr<Block> block) { own(std::move(block)); }

    // A circuit of `quanta` buffers of `samples` samples each, which begins at `source` and
    // comes back to it. Throws bad_argument.
    Circuit& circuit(const std::string& name, SourcePort& source, uint32_t quanta, size_t samples);

    // Throws bad_argument if the types differ or they are connected already.
    void connect(OutputPort& from, InputPort& to);
    void connect(InPlacePort& from, InputPort& to) { connect(from.out_, to); }
    template <class T>
    void connect(MessageOutput<T>& from, Messages<T>& to)
    {
        from.ports_.push_back(&to);
    }

    // Throws bad_argument that names the port and the reason if the graph cannot work.
    void validate() const;

    // A thread per block.
    void start() { start(Executors{}); }
    // A thread per sequence; every block in one of them. Throws bad_argument, also for a core that
    // this process may not use.
    void start(const std::vector<Sequence>& sequences);
    // Threads, pinned sequences, pools and the resident runtime, for each block one. Throws
    // bad_argument.
    void start(const Executors& executors);

    // All, in the order in which they were added.
    std::vector<std::reference_wrapper<Block>> blocks() const;

    // What follows may be called from any thread, also while another one starts the graph.

    // Sources finish; what they have sent is processed. Returns at once.
    void stop();
    // All blocks leave after the work() they are in; samples under way are lost.
    void abort();

    // Until all blocks have finished. Throws timeout, with the text of starved(), when the deadline
    // passes before (the graph goes on), and failed, with the block's name, if a work() has thrown.
    void wait(std::chrono::nanoseconds deadline);

    // Which blocks wait, at which port, for how long, and where the quanta are.
    std::string starved() const;

private:
    void own(std::unique_ptr<Block> block);
    bool owns(const Block& block) const;
    void refuse_seats(const Executors& executors, bool all) const;
    void run(const Executors& executors);
    void make_rings(const Engine::Plan& plan);
    void hang_bells();
    void launch(const Executors& executors, const Engine::Plan& plan,
                std::vector<std::pair<Engine::BlockRunner*, Scheduler*>>& pooled);
    void ring_all();
    void seat_left();
    friend class detail::Engine;

    Process process_;
    RunState run_;
    std::vector<std::unique_ptr<Engine::BlockRunner>>
        runners_;     // before the blocks, which ring the runners' bells
    Threads threads_; // one for each runner outside of a pool
    std::vector<std::unique_ptr<Scheduler>> pools_;
    std::deque<Circuit> circuits_; // before the blocks, which may hold quanta
    std::vector<std::unique_ptr<Block>> blocks_;
    std::vector<std::unique_ptr<Engine::ResidentChain>> chains_;

    std::mutex joining_; // of those who wait
    std::mutex mutex_;   // guards what follows
    std::condition_variable changed_;
    bool seated_ = false; // the runners are made, or will not be
    size_t running_ = 0;
    std::string failure_;
};

} // namespace denizen::flow

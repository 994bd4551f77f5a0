// SPDX-License-Identifier: Apache-2.0
// Building a graph, and its start: who runs which block, the rings between ports, and the bells of
// those who sleep. After the start the blocks work by themselves; stop() and abort() set a word
// that each step looks at, and ring all bells.
#include <denizen/flow/graph.hpp>

#include <denizen/base/clock.hpp>
#include <denizen/base/interrupt.hpp>

#include "block_runner.hpp"
#include "chain.hpp"
#include "cores.hpp"
#include "crossing.hpp"
#include "plan.hpp"
#include "refuse.hpp"

namespace denizen::flow {
Flowgraph::Flowgraph() = default;

Flowgraph::~Flowgraph()
{
    if (!process_.here()) {
        // Blocks and pools wait for threads that a forked child does not have.
        for (auto& pool : pools_) {
            (void)pool.release();
        }
        for (auto& block : blocks_) {
            (void)block.release();
        }
        for (auto& runner : runners_) {
            (void)runner.release();
        }
        return;
    }
    const Interruptible never(nullptr);
    abort();
    threads_.join();
    pools_.clear(); // waits for their coroutines
    blocks_.clear();
}

void Flowgraph::own(std::unique_ptr<Block> block)
{
    if (run_.started) {
        refuse("block \"" + block->name() + "\" comes too late: the graph has started");
    }
    for (const auto& other : blocks_) {
        if (other->name() == block->name()) {
            refuse("two blocks are called \"" + block->name() + '"');
        }
    }
    block->run_ = &run_;
    blocks_.push_back(std::move(block));
}

bool Flowgraph::owns(const Block& block) const { return block.run_ == &run_; }

Circuit& Flowgraph::circuit(const std::string& name, SourcePort& source, uint32_t quanta,
                            size_t samples)
{
    if (run_.started || !owns(source.block())) {
        refuse("circuit \"" + name + "\": port \"" + source.label() + "\" is of " +
               (run_.started ? "a graph that has started" : "a block of another graph"));
    }
    if (source.circuit_ != nullptr) {
        refuse("circuit \"" + name + "\": port \"" + source.label() + "\" is where circuit \"" +
               source.circuit_->name() + "\" returns");
    }
    if (quanta == 0 || samples == 0) {
        refuse("circuit \"" + name + "\": " + std::to_string(quanta) + " quanta of " +
               std::to_string(samples) + " samples; both must be at least 1");
    }
    constexpr uint32_t most_quanta = 1 << 20;
    constexpr size_t most_bytes = size_t{1} << 48;
    if (quanta > most_quanta) {
        refuse("circuit \"" + name + "\": " + std::to_string(quanta) + " quanta; use 1 to 2^20");
    }
    try {
        if (samples > most_bytes / source.type().bytes) {
            throw std::bad_alloc();
        }
        source.circuit_ = &circuits_.emplace_back(name, source, quanta, samples);
    } catch (const std::bad_alloc&) {
        throw Error(Errc::exhausted, "circuit \"" + name + "\": there is no memory for " +
                                         std::to_string(quanta) + " quanta of " +
                                         std::to_string(samples) + " samples; use fewer");
    }
    return *source.circuit_;
}

void Flowgraph::connect(OutputPort& from, InputPort& to)
{
    const std::string what = "port \"" + from.label() + "\" to port \"" + to.label() + "\": ";
    if (run_.started || !owns(from.block()) || !owns(to.block())) {
        refuse(what +
               (run_.started ? "the graph has started" : "one is of a block of another graph"));
    }
    if (from.type().id != to.type().id) {
        refuse(what + "the first sends " + from.type().name() + ", the second takes " +
               to.type().name());
    }
    if (std::find(to.writers_.begin(), to.writers_.end(), &from) != to.writers_.end()) {
        refuse(what + "they are connected already");
    }
    from.readers_.push_back({&to, nullptr});
    to.writers_.push_back(&from);
}

void Flowgraph::validate() const { const Engine::Plan plan(circuits_, blocks_); }

std::vector<std::reference_wrapper<Block>> Flowgraph::blocks() const
{
    std::vector<std::reference_wrapper<Block>> all;
    for (const auto& block : blocks_) {
        all.emplace_back(*block);
    }
    return all;
}

void Flowgraph::start(const std::vector<Sequence>& sequences)
{
    const Executors executors{sequences, {}};
    refuse_seats(executors, true);
    run(executors);
}

void Flowgraph::start(const Executors& executors)
{
    refuse_seats(executors, false);
    run(executors);
}

// `all`: every block must be named.
void Flowgraph::refuse_seats(const Executors& executors, bool all) const
{
    if (run_.started) {
        refuse("the graph has been started before: build a new one");
    }
    std::map<const Block*, int> times;
    for (const Sequence& sequence : executors.sequences) {
        refuse_core(sequence.core);
        for (const Block& block : sequence.blocks) {
            times[&block] += 1;
        }
    }
    for (const Pool& pool : executors.pools) {
        if (pool.cores.empty()) {
            refuse("a pool without threads: name a core, or -1, for each");
        }
        for (const int core : pool.cores) {
            refuse_core(core);
        }
        for (const Block& block : pool.blocks) {
            times[&block] += 1;
        }
    }
    for (const auto& block : blocks_) {
        if (times[block.get()] > 1 || (all && times[block.get()] == 0)) {
            refuse("block \"" + block->name() + "\" is in " + std::to_string(times[block.get()]) +
                   " sequences; it must be in one");
        }
    }
    if (times.size() != blocks_.size()) {
        refuse("a sequence has a block of another graph");
    }
}

void Flowgraph::make_rings(const Engine::Plan& plan)
{
    for (const auto& block : blocks_) {
        for (OutputPort* port : block->outputs_) {
            for (OutputPort::Reader& reader : port->readers_) {
                reader.way.ring = &reader.port->arrivals_.add(plan.quanta_at(*port));
            }
        }
        for (InputPort* port : block->inputs_) {
            for (Circuit& circuit : circuits_) {
                if (plan.at(*port).contains(&circuit)) {
                    port->homes_.emplace_back(
                        &circuit,
                        detail::CellWay{&circuit.returned_.add(circuit.quanta()), nullptr});
                }
            }
        }
    }
}

// Who sends to another thread rings there. What resident blocks send is sent by the thread that
// runs the first of their chain.
void Flowgraph::hang_bells()
{
    for (const auto& block : blocks_) {
        const auto bell_at = [&](const Block& there) {
            Doorbell* bell = there.bell_.load(std::memory_order_relaxed);
            // One that sends to its own thread need not wake it: it looks before it sleeps. A
            // resident block's quanta are sent by the chain's thread, whose bell this is not.
            const bool own = bell == block->bell_.load(std::memory_order_relaxed) &&
                             dynamic_cast<const ResidentBlock*>(block.get()) == nullptr;
            return own ? nullptr : bell;
        };
        for (OutputPort* port : block->outputs_) {
            for (OutputPort::Reader& reader : port->readers_) {
                reader.way.bell = bell_at(reader.port->block());
            }
        }
        for (InputPort* port : block->inputs_) {
            for (auto& [circuit, way] : port->homes_) {
                way.bell = bell_at(circuit->source().block());
            }
        }
    }
}

void Flowgraph::run(const Executors& executors)
{
    const Engine::Plan plan(circuits_, blocks_);
    run_.started = true; // also if it fails from here on
    std::vector<std::pair<Engine::BlockRunner*, Scheduler*>> pooled;
    try {
        launch(executors, plan, pooled);
    } catch (...) {
        const std::lock_guard lock(mutex_);
        running_ = 0; // no block has run, and none will
        failure_ = "the graph has not started";
        seated_ = true;
        throw;
    }
    for (const auto& [one, pool] : pooled) {
        one->start(*pool);
    }
}

// All that may fail; what starts the runners of pools is left to do.
void Flowgraph::launch(const Executors& executors, const Engine::Plan& plan,
                       std::vector<std::pair<Engine::BlockRunner*, Scheduler*>>& pooled)
{
    chains_ = Engine::ResidentChain::build(blocks_, plan);
    Engine::ResidentCrossing::start(blocks_);
    make_rings(plan);

    std::set<const Block*> seated;
    const auto add_runner = [&](const std::vector<std::reference_wrapper<Block>>& named, int core) {
        std::vector<Block*> blocks;
        for (Block& block : named) {
            blocks.push_back(&block);
            seated.insert(&block);
        }
        runners_.push_back(std::make_unique<Engine::BlockRunner>(*this, std::move(blocks), core));
    };
    for (const Sequence& sequence : executors.sequences) {
        add_runner(sequence.blocks, sequence.core);
    }
    for (const Pool& pool : executors.pools) {
        pools_.push_back(std::make_unique<Scheduler>(
            pool.cores, static_cast<uint32_t>(std::max<size_t>(1, pool.blocks.size()))));
        const auto spawn = [&](const std::vector<std::reference_wrapper<Block>>& blocks) {
            add_runner(blocks, -1);
            runners_.back()->will_be_pooled();
            pooled.emplace_back(runners_.back().get(), pools_.back().get());
        };
        if (pool.cores.size() == 1) { // nobody to steal from it: one coroutine is a sequence
            spawn(pool.blocks);
            continue;
        }
        for (Block& block : pool.blocks) {
            spawn({block});
        }
    }
    std::map<const Resident*, std::vector<std::reference_wrapper<Block>>> residents;
    for (const auto& block : blocks_) {
        if (seated.contains(block.get())) {
            continue;
        }
        if (const auto* resident = dynamic_cast<const ResidentBlock*>(block.get())) {
            residents[&resident->resident()].emplace_back(*block);
        } else {
            add_runner({*block}, -1);
        }
    }
    for (const auto& [runtime, blocks] : residents) {
        add_runner(blocks, -1);
    }

    for (const auto& one : runners_) {
        for (Block* block : one->blocks()) {
            block->bell_.store(&one->bell(), std::memory_order_release); // partner: Block::ring()
        }
    }
    hang_bells();
    {
        const std::lock_guard lock(mutex_);
        running_ = runners_.size();
        seated_ = true;
    }
    std::vector<Engine::BlockRunner*> alone;
    for (const auto& one : runners_) {
        if (!one->pooled()) {
            alone.push_back(one.get());
        }
    }
    {
        const std::lock_guard lock(joining_); // who waits joins them
        threads_.start(static_cast<uint32_t>(alone.size()), "block",
                       [alone](uint32_t i) { alone[i]->run(); });
    }
}

void Flowgraph::stop()
{
    run_.stopping.store(true, std::memory_order_relaxed);
    ring_all();
}

void Flowgraph::abort()
{
    run_.aborting.store(true, std::memory_order_relaxed);
    ring_all();
}

// Those who are seated later see the word that was written before.
void Flowgraph::ring_all()
{
    {
        const std::lock_guard lock(mutex_);
        if (!seated_) {
            return;
        }
    }
    for (const auto& runner : runners_) {
        runner->bell().ring();
    }
}

void Flowgraph::seat_left()
{
    // Under the lock to the end: wait() may return, and the graph go, as soon as it is given back.
    const std::lock_guard lock(mutex_);
    running_ -= 1;
    changed_.notify_all();
}

void Flowgraph::wait(std::chrono::nanoseconds deadline)
{
    if (!run_.started) {
        refuse("the graph has not been started");
    }
    process_.check("the graph");
    const uint64_t begin = now_ns();
    const auto limit = static_cast<uint64_t>(std::max<int64_t>(deadline.count(), 0));
    std::unique_lock lock(mutex_);
    const auto ended = [this] { return seated_ && running_ == 0; };
    bool over = ended();
    while (!over) { // ends with the last block, or by the deadline
        const uint64_t waited = now_ns() - begin;
        if (waited > limit) break;
        // In slices, so that Ctrl-C is heard.
        const std::chrono::nanoseconds slice(std::min<uint64_t>(limit - waited, 50'000'000));
        over = changed_.wait_for(lock, slice, ended);
        if (!over) {
            lock.unlock();
            check_interrupt();
            lock.lock();
        }
    }
    if (!over) {
        lock.unlock();
        throw Error(Errc::timeout, "the graph has not ended: " + starved());
    }
    lock.unlock();
    {
        const std::lock_guard joining(joining_);
        threads_.join();
    }
    if (!failure_.empty()) {
        throw Error(Errc::failed, failure_);
    }
}

std::string Flowgraph::starved() const
{
    std::string text;
    const uint64_t now = now_ns();
    for (const auto& block : blocks_) {
        const uint64_t since = block->idle_since_.load(std::memory_order_relaxed);
        if (since == 0) { // it does not sleep, or has finished
            continue;
        }
        const std::string time = denizen::detail::seconds(now > since ? now - since : 0);
        if (const Port* port = block->starved_at_.load(std::memory_order_relaxed)) {
            text += "block \"" + block->name() + "\" is starved: port \"" + port->label() +
                    "\" has had no quantum for " + time + "; ";
        } else {
            text += "block \"" + block->name() + "\" has moved nothing for " + time +
                    " though its ports are ready: it waits for something outside the graph, or "
                    "for more samples than a quantum has; ";
        }
    }
    if (text.empty()) {
        text = "no block is starved; ";
    }
    for (const Circuit& circuit : circuits_) {
        text += circuit.whereabouts() + "; ";
    }
    text.resize(text.size() - std::min<size_t>(2, text.size()));
    return text;
}

} // namespace denizen::flow

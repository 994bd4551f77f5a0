// SPDX-License-Identifier: Apache-2.0
// The deque, the mailbox, the queue of indices and the crates alone, on threads. Short runs are
// recorded, call and return of each operation, and searched for an order of the operations that a
// sequential deque or queue could have had: linearizability, by the search of Wing and Gong (JPDC
// 1993). Long ones are counted.
#include "../support/scaled.hpp"
#include "../support/threads.hpp"

#include <denizen/memory/arena.hpp>
#include <denizen/task/detail/crate.hpp>
#include <denizen/task/detail/deque.hpp>
#include <denizen/task/detail/index_queue.hpp>
#include <denizen/task/detail/mailbox.hpp>

#include <algorithm>
#include <atomic>
#include <deque>
#include <gtest/gtest.h>
#include <sched.h>
#include <set>
#include <string>

namespace {

using namespace denizen;
using namespace denizen::test;
namespace tasks = denizen::task;

enum class Op { push, take, steal };

struct Event {
    Op op = Op::push;
    std::vector<uint32_t> values; // pushed, or what was got
    uint64_t call = 0;
    uint64_t back = 0;
};

using Sequential = std::deque<uint32_t>;

// What a sequential one would allow; false if it would not.
using Rule = bool (*)(Sequential&, const Event&, const std::vector<Event>&);

class Search {
public:
    Search(const std::vector<Event>& events, Rule rule) : events_(events), rule_(rule) {}

    bool ordered() { return from(0, {}); }

private:
    bool from(uint32_t done, const Sequential& state)
    {
        if (done == (1u << events_.size()) - 1) {
            return true;
        }
        if (!seen_.insert({done, state}).second) {
            return false;
        }
        uint64_t first_return = ~uint64_t{0};
        for (uint32_t i = 0; i < events_.size(); ++i) {
            if ((done >> i & 1) == 0) {
                first_return = std::min(first_return, events_[i].back);
            }
        }
        for (uint32_t i = 0; i < events_.size(); ++i) {
            // Next may be whatever was called before any other of the rest had returned.
            if ((done >> i & 1) != 0 || events_[i].call > first_return) {
                continue;
            }
            Sequential next = state;
            if (rule_(next, events_[i], events_) && from(done | 1u << i, next)) {
                return true;
            }
        }
        return false;
    }

    const std::vector<Event>& events_;
    Rule rule_;
    std::set<std::pair<uint32_t, Sequential>> seen_;
};

bool overlapped(const Event& e, const std::vector<Event>& all)
{
    return std::any_of(all.begin(), all.end(), [&](const Event& other) {
        return &other != &e && other.call < e.back && other.back > e.call;
    });
}

// Something was pushed, taken or stolen while it was under way.
bool met_a_change(const Event& e, const std::vector<Event>& all)
{
    return std::any_of(all.begin(), all.end(), [&](const Event& other) {
        return &other != &e && !other.values.empty() && other.call < e.back && other.back > e.call;
    });
}

// The owner takes the newest, newest first; a thief the oldest half. A thief gets nothing only from
// an empty deque, or from one that changed meanwhile.
bool deque_rule(Sequential& s, const Event& e, const std::vector<Event>& all)
{
    switch (e.op) {
    case Op::push: s.insert(s.end(), e.values.begin(), e.values.end()); return true;
    case Op::take:
        if (e.values.empty()) {
            return s.empty();
        }
        for (const uint32_t v : e.values) {
            if (s.empty() || s.back() != v) {
                return false;
            }
            s.pop_back();
        }
        return true;
    case Op::steal:
        if (e.values.empty()) {
            return s.empty() || met_a_change(e, all);
        }
        if (e.values.size() > (s.size() + 1) / 2) {
            return false;
        }
        for (const uint32_t v : e.values) {
            if (s.front() != v) {
                return false;
            }
            s.pop_front();
        }
        return true;
    }
    return false;
}

// First in, first out. A pop that got nothing while another operation was under way proves nothing.
bool queue_rule(Sequential& s, const Event& e, const std::vector<Event>& all)
{
    if (e.op == Op::push) {
        s.insert(s.end(), e.values.begin(), e.values.end());
        return true;
    }
    if (e.values.empty()) {
        return s.empty() || overlapped(e, all);
    }
    if (s.empty() || s.front() != e.values[0]) {
        return false;
    }
    s.pop_front();
    return true;
}

// In any order. Who found it empty or full while another operation was under way proves nothing.
bool mailbox_rule(Sequential& s, const Event& e, const std::vector<Event>& all)
{
    if (e.values.empty()) {
        return overlapped(e, all) || s.size() == (e.op == Op::push ? tasks::mail_slots : 0);
    }
    if (e.op == Op::push) {
        s.push_back(e.values[0]);
        return true;
    }
    const auto found = std::find(s.begin(), s.end(), e.values[0]);
    if (found == s.end()) {
        return false;
    }
    s.erase(found);
    return true;
}

// A clock that all threads agree on.
class Recorder {
public:
    template <class Body>
    void record(std::vector<Event>& into, Op op, Body body)
    {
        Event e;
        e.op = op;
        e.call = clock_.fetch_add(1);
        e.values = body();
        e.back = clock_.fetch_add(1);
        into.push_back(e);
    }

private:
    std::atomic<uint64_t> clock_{1};
};

// Threads that begin together: a short spin, since the others may need this core.
class Together {
public:
    explicit Together(uint32_t threads) : threads_(threads) {}
    void begin(uint32_t round)
    {
        arrived_.fetch_add(1);
        for (uint32_t tries = 0; arrived_.load() < (round + 1) * threads_; ++tries) {
            if (tries > 200) { // ends when all have come
                sched_yield();
            }
        }
    }

private:
    uint32_t threads_;
    std::atomic<uint32_t> arrived_{0};
};

std::string text(const std::vector<Event>& events)
{
    std::string all;
    for (const Event& e : events) {
        all += std::to_string(e.call) + "-" + std::to_string(e.back) +
               (e.op == Op::push   ? " push"
                : e.op == Op::take ? " take"
                                   : " steal");
        for (const uint32_t v : e.values) {
            all += " " + std::to_string(v);
        }
        all += "\n";
    }
    return all;
}

std::vector<Event> merged(const std::vector<std::vector<Event>>& of_threads)
{
    std::vector<Event> all;
    for (const auto& events : of_threads) {
        all.insert(all.end(), events.begin(), events.end());
    }
    return all;
}

// A round for each object: `threads` threads begin together and do act(object, thread, round,
// record), where record(op, body) is an operation whose values body() returns. Every round's
// operations have an order by the rule.
template <class Objects, class Rule, class Act>
void check_histories(Objects& objects, uint32_t threads, Rule rule, Act act)
{
    std::vector<std::vector<std::vector<Event>>> events(objects.size(),
                                                        std::vector<std::vector<Event>>(threads));
    Recorder recorder;
    Together together(threads);
    on_threads(threads, [&](uint32_t thread) {
        for (uint32_t round = 0; round < objects.size(); ++round) {
            together.begin(round);
            act(objects[round], thread, round,
                [&](Op op, auto body) { recorder.record(events[round][thread], op, body); });
        }
    });
    for (const auto& of_threads : events) {
        const std::vector<Event> all = merged(of_threads);
        ASSERT_TRUE(Search(all, rule).ordered()) << text(all);
    }
}

// A deque with room for few tasks, each its number.
class SmallDeque {
public:
    static constexpr uint32_t slots = 64;

    void push(const std::vector<uint32_t>& values)
    {
        ASSERT_GE(tasks::deque::room(seen_, slots - 1), values.size());
        for (uint32_t i = 0; i < values.size(); ++i) {
            tasks::Words<16> words{{values[i], ~values[i], values[i] * 3, values[i] * 5}};
            tasks::detail::store_slot<16>(slot(tasks::deque::bottom(seen_) + i), words);
        }
        tasks::deque::publish(&word_, seen_, static_cast<uint32_t>(values.size()));
    }
    std::vector<uint32_t> take(uint32_t most)
    {
        const uint32_t n = tasks::deque::take(&word_, seen_, most);
        std::vector<uint32_t> values(n);
        for (uint32_t i = 0; i < n; ++i) {
            values[i] = value(tasks::deque::bottom(seen_) + n - 1 - i);
        }
        return values;
    }
    std::vector<uint32_t> steal(uint32_t most)
    {
        const uint64_t seen = load<Scope::gpu>(&word_);
        const uint32_t n = tasks::deque::steal(&word_, seen, most);
        std::vector<uint32_t> values(n);
        for (uint32_t i = 0; i < n; ++i) {
            values[i] = value(tasks::deque::top(seen) + i);
        }
        if (n != 0) {
            tasks::deque::finish(&word_);
        }
        return values;
    }
    bool room(size_t n) const { return tasks::deque::room(seen_, slots - 1) >= n; }
    // The owner's view, as a take that got less would have it.
    void refresh() { seen_ = load<Scope::gpu, Order::acquire>(&word_); }

private:
    unsigned char* slot(uint32_t position)
    {
        return reinterpret_cast<unsigned char*>(&memory_[position % slots]);
    }
    uint32_t value(uint32_t position)
    {
        tasks::Words<16> words;
        tasks::detail::load_slot<16>(slot(position), words);
        EXPECT_EQ(words.word[1], ~words.word[0]); // whole
        EXPECT_EQ(words.word[3], words.word[0] * 5);
        return words.word[0];
    }

    alignas(line) uint64_t word_ = 0;
    alignas(line) uint64_t seen_ = 0;
    Packet memory_[slots] = {};
};

TEST(TaskDeque, HistoriesAreLinearizable)
{
    std::vector<SmallDeque> deques(scaled(8'000));
    check_histories(deques, 3, deque_rule,
                    [](SmallDeque& deque, uint32_t thread, uint32_t round, const auto& record) {
                        const auto push = [&](const std::vector<uint32_t>& values) {
                            record(Op::push, [&] {
                                deque.push(values);
                                return values;
                            });
                        };
                        const auto take = [&](uint32_t most) {
                            record(Op::take, [&] { return deque.take(most); });
                        };
                        if (thread == 0) {
                            push({1, 2, 3, 4});
                            take(2);
                            push({5, 6});
                            take(round % 4 + 1);
                            take(1);
                            return;
                        }
                        for (uint32_t i = 0; i < 3; ++i) {
                            record(Op::steal, [&] { return deque.steal(thread + i % 2); });
                        }
                    });
}

// Through many laps of a small ring, every number is got exactly once.
TEST(TaskDeque, NothingIsLostOrDoubled)
{
    const uint32_t count = scaled(800'000);
    SmallDeque deque;
    std::vector<std::atomic<uint8_t>> got(count);
    std::atomic<bool> done{false};
    const auto take_all = [&](const std::vector<uint32_t>& values) {
        for (const uint32_t v : values) {
            got[v].fetch_add(1);
        }
    };
    on_threads(4, [&](uint32_t thread) {
        if (thread != 0) {
            while (!done.load()) { // ends when the owner has pushed and taken all
                take_all(deque.steal(1 + thread % 3));
            }
            return;
        }
        uint32_t next = 0;
        while (next < count) { // ends: thieves, or the owner itself, make room
            const uint32_t n = std::min(count - next, next % 7 + 1);
            deque.refresh();
            if (deque.room(n)) {
                std::vector<uint32_t> values;
                for (uint32_t i = 0; i < n; ++i) {
                    values.push_back(next++);
                }
                deque.push(values);
            }
            if (next % 3 == 0) {
                take_all(deque.take(next % 5 + 1));
            }
            if (!deque.room(8)) {
                take_all(deque.take(32));
            }
        }
        for (;;) { // ends when it is empty
            const auto rest = deque.take(32);
            if (rest.empty()) {
                break;
            }
            take_all(rest);
        }
        done.store(true);
    });
    for (uint32_t i = 0; i < count; ++i) {
        ASSERT_EQ(got[i].load(), 1) << i;
    }
}

// A worker's mailbox, for tasks of 3 to 12 words: one to four packets.
class Box {
public:
    bool send(uint32_t from, uint32_t value)
    {
        uint32_t words[12];
        for (uint32_t i = 0; i < 12; ++i) {
            words[i] = value * 13 + i;
        }
        switch (value % 4) {
        case 0: return tasks::mailbox::send<3>(box_, from, words, value, false);
        case 1: return tasks::mailbox::send<6>(box_, from, words, value, false);
        case 2: return tasks::mailbox::send<9>(box_, from, words, value, false);
        default: return tasks::mailbox::send<12>(box_, from, words, value, false);
        }
    }
    std::vector<uint32_t> take()
    {
        for (uint32_t slot = 0; slot < tasks::mail_slots; ++slot) {
            Packet first;
            if (!tasks::mailbox::arrived(box_, slot, first)) {
                continue;
            }
            uint32_t words[12] = {};
            tasks::mailbox::take(box_, slot, first, words);
            const uint32_t value = tasks::mailbox::tokens(first);
            for (uint32_t i = 0; i < 12; ++i) { // whole, and no more than it
                EXPECT_EQ(words[i], i < 3 * (value % 4 + 1) ? value * 13 + i : 0u);
            }
            return {value};
        }
        return {};
    }

private:
    tasks::Mailbox box_;
};

TEST(TaskMailbox, HistoriesAreLinearizable)
{
    std::vector<Box> boxes(scaled(8'000));
    check_histories(
        boxes, 3, mailbox_rule, [](Box& box, uint32_t thread, uint32_t, const auto& record) {
            for (uint32_t i = 0; i < 5; ++i) { // of two together more than there are slots
                const uint32_t value = 10 * thread + i;
                record(thread == 0 ? Op::take : Op::push, [&] {
                    return thread == 0               ? box.take()
                           : box.send(thread, value) ? std::vector<uint32_t>{value}
                                                     : std::vector<uint32_t>{};
                });
            }
        });
}

TEST(TaskMailbox, NothingIsLostOrDoubled)
{
    const uint32_t each = scaled(10'000);
    Box box;
    std::vector<std::atomic<uint8_t>> got(3 * each);
    on_threads(4, [&](uint32_t thread) {
        if (thread != 3) {
            for (uint32_t i = 0; i < each; ++i) {
                while (!box.send(thread, thread * each + i)) { // ends: the owner takes
                    sched_yield();
                }
            }
            return;
        }
        for (uint32_t taken = 0; taken < 3 * each;) { // ends when all have been sent
            const auto values = box.take();
            if (values.empty()) {
                sched_yield();
                continue;
            }
            got[values[0]].fetch_add(1);
            ++taken;
        }
    });
    for (uint32_t i = 0; i < 3 * each; ++i) {
        ASSERT_EQ(got[i].load(), 1) << i;
    }
}

// A queue for `count` indices.
class Queue {
public:
    explicit Queue(uint32_t places) : cells_(places)
    {
        indices_.words = &words_;
        indices_.cells = cells_.data();
        indices_.mask = places - 1;
        indices_.shift = static_cast<uint32_t>(__builtin_ctz(places));
    }
    const tasks::Indices& operator*() const { return indices_; }

private:
    tasks::IndexWords words_;
    std::vector<uint64_t> cells_;
    tasks::Indices indices_;
};

TEST(TaskIndexQueue, HistoriesAreLinearizable)
{
    std::deque<Queue> queues;
    for (uint32_t i = 0; i < scaled(8'000); ++i) {
        queues.emplace_back(4);
    }
    check_histories(
        queues, 4, queue_rule, [](Queue& queue, uint32_t thread, uint32_t, const auto& record) {
            for (uint32_t i = 0; i < 2; ++i) {
                record(thread < 2 ? Op::push : Op::take, [&]() -> std::vector<uint32_t> {
                    uint32_t v = 2 * thread + i;
                    if (thread < 2) {
                        tasks::index_queue::push(*queue, v);
                        return {v};
                    }
                    return tasks::index_queue::pop(*queue, v) ? std::vector<uint32_t>{v}
                                                              : std::vector<uint32_t>{};
                });
            }
        });
}

// As many indices as places go round and round; each is held by one thread at a time.
TEST(TaskIndexQueue, EachIndexIsHeldOnce)
{
    Queue queue(4);
    std::vector<std::atomic<uint32_t>> held(4);
    for (uint32_t i = 0; i < 4; ++i) {
        tasks::index_queue::push(*queue, i);
    }
    std::atomic<uint64_t> popped{0};
    on_threads(5, [&](uint32_t) {
        for (uint32_t i = 0; i < scaled(120'000); ++i) {
            uint32_t index = 0;
            if (tasks::index_queue::pop(*queue, index)) {
                ASSERT_LT(index, 4u);
                ASSERT_EQ(held[index].fetch_add(1), 0u);
                popped.fetch_add(1);
                held[index].fetch_sub(1);
                tasks::index_queue::push(*queue, index);
            }
        }
    });
    EXPECT_GT(popped.load(), 0u);
    uint32_t index = 0;
    std::set<uint32_t> left;
    while (tasks::index_queue::pop(*queue, index)) { // ends: nobody pushes any more
        left.insert(index);
    }
    EXPECT_EQ(left.size(), 4u);
}

// A shelf, and the memory that its crates come out of: the smallest arena, whose crates are of the
// largest slots, so that it is full after 256.
class Shelf {
public:
    Shelf()
        : arena_(Device::cpu(), 512 << 10), kept_(tasks::kept_crates * bytes), free_kept_(64),
          shelf_(512)
    {
        shared_.slot = slot;
        shared_.arena = arena_.ref();
        shared_.kept = kept_.data();
        shared_.free_kept = *free_kept_;
        shared_.shelf[0] = *shelf_;
        for (uint32_t i = 0; i < tasks::kept_crates; ++i) {
            tasks::index_queue::push(shared_.free_kept, i);
        }
    }

    // A crate of these; false if there is no room.
    bool put(const std::vector<uint32_t>& values, bool accepted)
    {
        const uint32_t number = tasks::crate::take(shared_, accepted);
        if (number == tasks::crate::none) {
            return false;
        }
        unsigned char* const crate = tasks::crate::at(shared_, number);
        for (uint32_t i = 0; i < values.size(); ++i) {
            const uint32_t v = values[i];
            tasks::detail::store_slot<slot>(
                tasks::crate::slot_in(crate, i, slot),
                tasks::Words<slot>{{v, ~v, v * 3, v * 5, v * 7, v * 9, v, v, v, v, v, ~v}});
        }
        tasks::crate::shelve(shared_, 0, number, static_cast<uint32_t>(values.size()));
        return true;
    }
    std::vector<uint32_t> get()
    {
        uint32_t number = 0;
        uint32_t count = 0;
        if (!tasks::crate::unshelve(shared_, 0, number, count)) {
            return {};
        }
        std::vector<uint32_t> values(count);
        for (uint32_t i = 0; i < count; ++i) {
            tasks::Words<slot> words;
            tasks::detail::load_slot<slot>(
                tasks::crate::slot_in(tasks::crate::at(shared_, number), i, slot), words);
            values[i] = words.word[0];
            EXPECT_EQ(words.word[1], ~values[i]); // whole
            EXPECT_EQ(words.word[5], values[i] * 9);
            EXPECT_EQ(words.word[11], ~values[i]);
        }
        tasks::crate::give(shared_, number);
        return values;
    }
    const Arena& arena() const { return arena_; }

private:
    static constexpr uint32_t slot = 64;
    static constexpr uint32_t bytes = tasks::crate_bytes(slot);

    Arena arena_;
    std::vector<unsigned char> kept_;
    Queue free_kept_;
    Queue shelf_;
    tasks::Shared shared_;
};

// First in, first out, a crate at a time.
bool shelf_rule(Sequential& s, const Event& e, const std::vector<Event>& all)
{
    if (e.op == Op::push || e.values.empty()) {
        return queue_rule(s, e, all);
    }
    for (const uint32_t v : e.values) {
        if (s.empty() || s.front() != v) {
            return false;
        }
        s.pop_front();
    }
    return true;
}

TEST(TaskCrates, HistoriesAreLinearizable)
{
    const uint32_t rounds = scaled(4'000);
    Shelf shelf; // one for all rounds: blocks come round again
    std::vector<std::vector<std::vector<Event>>> events(rounds, std::vector<std::vector<Event>>(4));
    Recorder recorder;
    Together together(4);
    on_threads(4, [&](uint32_t thread) {
        for (uint32_t round = 0; round < rounds; ++round) {
            std::vector<Event>& mine = events[round][thread];
            together.begin(2 * round);
            for (uint32_t i = 0; i < 2; ++i) {
                if (thread < 2) {
                    const uint32_t v = 4 * (2 * thread + i);
                    recorder.record(mine, Op::push, [&] {
                        const std::vector<uint32_t> values =
                            i == 0 ? std::vector<uint32_t>{v, v + 1, v + 2}
                                   : std::vector<uint32_t>{v};
                        EXPECT_TRUE(shelf.put(values, false));
                        return values;
                    });
                } else {
                    recorder.record(mine, Op::take, [&] { return shelf.get(); });
                }
            }
            together.begin(2 * round + 1);
            while (thread == 0) { // ends when what is left has been taken, into the same history
                recorder.record(mine, Op::take, [&] { return shelf.get(); });
                if (mine.back().values.empty()) {
                    break;
                }
            }
        }
    });
    for (const auto& of_threads : events) {
        const std::vector<Event> all = merged(of_threads);
        ASSERT_TRUE(Search(all, shelf_rule).ordered()) << text(all);
    }
    EXPECT_EQ(shelf.arena().stats().live_blocks, 0u);
}

// More crates than the arena has blocks, beside threads that allocate from it for themselves: what
// was taken arrives once, what was refused is still the caller's, and all blocks come back.
TEST(TaskCrates, NothingIsLostWhenTheArenaIsFull)
{
    const uint32_t count = scaled(400'000);
    Shelf shelf;
    std::vector<std::atomic<uint8_t>> got(count);
    std::atomic<uint32_t> arrived{0};
    const auto get = [&] {
        const std::vector<uint32_t> values = shelf.get();
        for (const uint32_t v : values) {
            got[v].fetch_add(1);
        }
        arrived.fetch_add(static_cast<uint32_t>(values.size()));
    };
    on_threads(4, [&](uint32_t thread) {
        if (thread >= 2) {
            const ArenaRef arena = shelf.arena().ref();
            std::deque<uint32_t*> mine;
            while (arrived.load() < count) { // ends when all have arrived
                if (auto* block = static_cast<uint32_t*>(arena.allocate(2048))) {
                    block[0] = block[511] = thread;
                    mine.push_back(block);
                }
                if (mine.size() > 100) {
                    EXPECT_EQ(mine.front()[0], thread);
                    EXPECT_EQ(mine.front()[511], thread);
                    arena.deallocate(mine.front());
                    mine.pop_front();
                }
                get();
            }
            for (uint32_t* block : mine) {
                arena.deallocate(block);
            }
            return;
        }
        for (uint32_t next = thread * (count / 2); next < (thread + 1) * (count / 2);) {
            const uint32_t n = std::min((thread + 1) * (count / 2) - next, next % 32 + 1);
            std::vector<uint32_t> values(n);
            for (uint32_t i = 0; i < n; ++i) {
                values[i] = next + i;
            }
            if (shelf.put(values, next % 64 == 0)) { // else it is tried again: ends, others get
                next += n;
            } else {
                get();
            }
        }
    });
    for (uint32_t i = 0; i < count; ++i) {
        ASSERT_EQ(got[i].load(), 1) << i;
    }
    EXPECT_EQ(shelf.arena().stats().live_blocks, 0u);
    // And alone: the arena's 256 blocks, then, for what cannot be refused, those that are kept.
    for (uint32_t i = 0; i < 256; ++i) {
        ASSERT_TRUE(shelf.put({i}, false)) << i;
    }
    EXPECT_FALSE(shelf.put({256}, false));
    for (uint32_t i = 256; i < 256 + tasks::kept_crates; ++i) {
        ASSERT_TRUE(shelf.put({i}, true)) << i;
    }
    EXPECT_FALSE(shelf.put({0}, true));
    for (uint32_t i = 0; i < 256 + tasks::kept_crates; ++i) {
        ASSERT_EQ(shelf.get(), std::vector<uint32_t>{i});
    }
    EXPECT_TRUE(shelf.get().empty());
}

// The search finds what is wrong.
TEST(TaskHistories, WrongOnesAreFound)
{
    const std::vector<Event> twice{
        {Op::push, {1}, 1, 2}, {Op::take, {1}, 3, 4}, {Op::steal, {1}, 5, 6}};
    EXPECT_FALSE(Search(twice, deque_rule).ordered());
    const std::vector<Event> lost{{Op::push, {1, 2}, 1, 2}, {Op::take, {1}, 3, 4}};
    EXPECT_FALSE(Search(lost, deque_rule).ordered());
    const std::vector<Event> crossed{
        {Op::push, {1}, 1, 2}, {Op::push, {2}, 3, 4}, {Op::take, {2}, 5, 6}};
    EXPECT_FALSE(Search(crossed, queue_rule).ordered());
    const std::vector<Event> blind{{Op::push, {1}, 1, 2}, {Op::take, {}, 3, 4}};
    EXPECT_FALSE(Search(blind, queue_rule).ordered());
    EXPECT_FALSE(Search(blind, mailbox_rule).ordered());
    const std::vector<Event> doubled{
        {Op::push, {1}, 1, 2}, {Op::take, {1}, 3, 4}, {Op::take, {1}, 5, 6}};
    EXPECT_FALSE(Search(doubled, mailbox_rule).ordered());
}

} // namespace

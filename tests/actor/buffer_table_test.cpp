// SPDX-License-Identifier: Apache-2.0
// The host's half of the buffer table, with the workers' half played by the test: when a buffer
// may go, and that it does not go before.
#include "actor/buffer_table.hpp"
#include "memory/free_list.hpp"

#include <denizen/base/error.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace {

using namespace denizen;

struct Work {
    uint32_t n;
    BufferRef first;
    BufferRef second[2];
    DENIZEN_BUFFERS(first, second)
};
const std::vector<uint32_t> offsets = {8, 16, 24};
const std::vector<uint32_t> first_only = {8};

// Two nodes with two workers each.
class Tables {
public:
    explicit Tables(uint32_t count = 4)
    {
        std::vector<BufferNode> nodes;
        for (auto& node : nodes_) {
            node.entries.resize(count);
            nodes.push_back({backend_.get(), node.entries.data(), node.status, 2});
        }
        table = std::make_shared<BufferTable>(std::move(nodes), make_host_space, count);
    }

    // What a worker of the node does.
    void add(int node, BufferRef ref) { EXPECT_TRUE(try_add(node, ref)); }
    bool try_add(int node, BufferRef ref)
    {
        return detail::add_reference(nodes_[node].entries.data(), count(), ref);
    }
    void drop(int node, BufferRef ref)
    {
        detail::drop_reference(nodes_[node].entries.data(), count(), ref);
    }
    bool resolves(int node, BufferRef ref)
    {
        return detail::find_buffer(nodes_[node].entries.data(), count(), ref) != nullptr;
    }
    void turn(int node, int worker) // begins or ends
    {
        fetch_add<Scope::gpu, Order::release>(&nodes_[node].status[worker].turn, 1u);
    }
    uint32_t count() const { return static_cast<uint32_t>(nodes_[0].entries.size()); }
    BufferEntry* entries(uint32_t node) { return nodes_[node].entries.data(); }
    uint32_t& turn_of(uint32_t node, uint32_t worker) { return nodes_[node].status[worker].turn; }

    std::shared_ptr<BufferTable> table;

private:
    static std::unique_ptr<Backend> never_launched()
    {
        Image image;
        image.run_worker = [](const Shared&, uint32_t) {};
        Options options;
        options.workers = 2;
        return make_cpu_backend(image, options);
    }

    struct Node {
        std::vector<BufferEntry> entries;
        Status status[2];
    };
    Node nodes_[2];
    std::unique_ptr<Backend> backend_ = never_launched(); // reads and writes memory
};

// Memory whose end can be seen.
struct Watched {
    std::shared_ptr<int> memory = std::make_shared<int>(7);
    std::weak_ptr<int> alive = memory;

    Buffer in(Tables& t)
    {
        int* p = memory.get();
        return t.table->wrap(p, sizeof *p, std::move(memory));
    }
};

Errc code_of(auto&& call)
{
    try {
        call();
    } catch (const Error& e) {
        return e.code();
    }
    return Errc::ok;
}

void send(Tables& t, BufferRef ref)
{
    const Work m{1, ref, {}};
    HeldBuffers held(*t.table, first_only, &m, sizeof m, 1, "Work");
    held.sent();
}

TEST(table, a_buffer_that_is_never_sent_goes_with_its_handle)
{
    Tables t;
    Watched w;
    Buffer b = w.in(t);
    const BufferRef ref = b.ref();
    EXPECT_FALSE(t.resolves(0, ref)) << "the workers know nothing of it yet";
    EXPECT_EQ(t.table->stats().open, 1u);
    EXPECT_EQ(t.table->stats().bytes, sizeof(int));
    b.close();
    EXPECT_TRUE(w.alive.expired());
    EXPECT_TRUE(b.closed());
    EXPECT_EQ(code_of([&] { (void)b.ref(); }), Errc::stale);
    EXPECT_EQ(code_of([&] { (void)b.data(); }), Errc::stale);
    EXPECT_EQ(code_of([&] { send(t, ref); }), Errc::stale);
    EXPECT_EQ(t.table->stats().open, 0u);
    b.close();
}

TEST(table, a_message_keeps_it_through_every_node)
{
    Tables t;
    Watched w;
    Buffer b = w.in(t);
    const BufferRef ref = b.ref();
    send(t, ref);
    b.close();
    EXPECT_EQ(code_of([&] { send(t, ref); }), Errc::stale) << "the handle is dead at once";
    EXPECT_FALSE(w.alive.expired());
    EXPECT_TRUE(t.resolves(0, ref));
    EXPECT_TRUE(t.resolves(1, ref));
    t.add(0, ref);  // node 0 sends it on to node 1,
    t.drop(0, ref); // and its handler returns
    EXPECT_EQ(t.table->stats().waiting, 1u);
    EXPECT_FALSE(w.alive.expired());
    t.drop(1, ref);
    EXPECT_EQ(t.table->stats().waiting, 0u);
    EXPECT_TRUE(w.alive.expired());
    EXPECT_FALSE(t.resolves(0, ref));
    EXPECT_FALSE(t.resolves(1, ref));
}

TEST(table, a_message_to_the_host_is_dropped_when_it_is_taken)
{
    Tables t;
    Watched w;
    Buffer b = w.in(t);
    const BufferRef ref = b.ref();
    send(t, ref);
    t.add(1, ref); // the reply
    t.drop(1, ref);
    b.close();
    EXPECT_FALSE(w.alive.expired());
    const Work reply{0, ref, {}};
    t.table->received(offsets, &reply);
    t.table->collect();
    EXPECT_TRUE(w.alive.expired());
}

TEST(table, a_handler_that_runs_keeps_what_it_may_have_resolved)
{
    Tables t;
    Watched w;
    Buffer b = w.in(t);
    const BufferRef ref = b.ref();
    send(t, ref);
    t.turn(1, 0); // a handler that has the reference in its actor's state, uncounted
    EXPECT_TRUE(t.resolves(1, ref));
    t.drop(0, ref);
    b.close();
    EXPECT_FALSE(w.alive.expired()) << "it may still use what it resolved";
    EXPECT_FALSE(t.resolves(1, ref)) << "and no other handler resolves it now";
    t.turn(1, 1); // others come and go
    t.table->collect();
    EXPECT_FALSE(w.alive.expired());
    t.turn(1, 0);
    t.table->collect();
    EXPECT_TRUE(w.alive.expired());
}

TEST(table, the_same_turn_number_is_not_waited_for_twice)
{
    Tables t;
    Watched w;
    Buffer b = w.in(t);
    send(t, b.ref());
    t.drop(0, b.ref());
    t.turn(0, 0);
    b.close();
    EXPECT_FALSE(w.alive.expired());
    t.turn(0, 0);
    t.turn(0, 0); // in a handler again, but a later one
    t.table->collect();
    EXPECT_TRUE(w.alive.expired());
}

TEST(table, an_entry_that_is_used_again_has_another_generation)
{
    Tables t(1);
    int word = 0;
    Buffer first = t.table->wrap(&word, sizeof word, {});
    const BufferRef old = first.ref();
    send(t, old);
    t.drop(0, old);
    first.close();
    Buffer second = t.table->wrap(&word, sizeof word, {});
    EXPECT_EQ(second.ref().index(), old.index());
    EXPECT_NE(second.ref().generation(), old.generation());
    send(t, second.ref());
    EXPECT_FALSE(t.resolves(0, old));
    EXPECT_FALSE(t.try_add(0, old)) << "a stale reference is not counted for the new buffer";
    t.drop(0, old);
    second.close();
    EXPECT_EQ(t.table->stats().waiting, 1u);
}

TEST(table, a_full_table_says_so)
{
    Tables t(2);
    int word = 0;
    Buffer a = t.table->wrap(&word, sizeof word, {});
    Buffer b = t.table->wrap(&word, sizeof word, {});
    EXPECT_EQ(code_of([&] { t.table->allocate(1, BufferKind::device); }), Errc::exhausted);
    a.close();
    EXPECT_NO_THROW(t.table->allocate(1, BufferKind::device));
}

TEST(table, what_is_not_sent_is_not_counted)
{
    Tables t;
    Watched w;
    Buffer b = w.in(t);
    Buffer gone = t.table->allocate(16, BufferKind::device);
    const BufferRef stale = gone.ref();
    gone.close();
    const Work messages[] = {
        {1, b.ref(), {b.ref(), {}}}, {2, b.ref(), {b.ref(), stale}}, {3, b.ref(), {}}};
    EXPECT_EQ(code_of([&] {
                  HeldBuffers held(*t.table, offsets, messages, sizeof *messages, 3, "Work");
              }),
              Errc::stale);
    {
        HeldBuffers held(*t.table, offsets, messages, sizeof *messages, 1, "Work");
    }
    {
        HeldBuffers held(*t.table, offsets, messages, sizeof *messages, 1, "Work");
        held.sent();
    }
    const BufferRef ref = b.ref();
    b.close();
    EXPECT_FALSE(w.alive.expired());
    t.drop(0, ref);
    t.table->collect();
    EXPECT_FALSE(w.alive.expired()) << "one message, two fields";
    t.drop(0, ref);
    t.table->collect();
    EXPECT_TRUE(w.alive.expired());
}

TEST(table, a_stopped_program_lets_go_of_everything_but_open_handles)
{
    Tables t;
    Watched kept;
    Watched sent;
    Buffer a = kept.in(t);
    Buffer b = sent.in(t);
    send(t, b.ref());
    b.close();
    EXPECT_FALSE(sent.alive.expired());
    t.table->stop();
    EXPECT_TRUE(sent.alive.expired());
    EXPECT_FALSE(kept.alive.expired());
    EXPECT_EQ(*static_cast<int*>(a.data()), 7);
    EXPECT_EQ(code_of([&] { t.table->allocate(1, BufferKind::device); }), Errc::closed);
    a.close();
    EXPECT_TRUE(kept.alive.expired());
}

TEST(table, an_owner_may_call_back)
{
    Tables t;
    BufferStats seen;
    int word = 0;
    Buffer b = t.table->wrap(&word, sizeof word, {&word, [&](int*) { seen = t.table->stats(); }});
    send(t, b.ref());
    t.drop(0, b.ref());
    Buffer other = t.table->allocate(100, BufferKind::pinned);
    b.close();
    EXPECT_EQ(seen.open, 1u);
    EXPECT_EQ(seen.bytes, 100u);
}

// Workers hand references on, keep some in their state, and look at all of them; the host sends,
// closes and collects. Whatever resolves, holds what its buffer was filled with.
TEST(table, many_threads)
{
    constexpr uint32_t rounds = 1000;
    Tables t(8);
    struct Cell {
        std::atomic<uint64_t> value{0};
    };
    std::vector<Cell> mail(4); // one letter for each worker
    std::atomic<bool> stop{false};
    std::atomic<uint32_t> bad{0};
    std::atomic<uint64_t> resolved{0};
    std::atomic<uint64_t> stale{0};
    std::vector<std::thread> workers;
    const auto table = t.table;
    for (uint32_t id = 0; id < 4; ++id) {
        workers.emplace_back([&, id] {
            BufferEntry* mine = t.entries(id / 2);
            uint32_t& turn = t.turn_of(id / 2, id % 2);
            uint64_t kept = 0;
            const auto look = [&](BufferRef ref) {
                detail::buffer_fence();
                const BufferEntry* e = detail::find_buffer(mine, 8, ref);
                if (e == nullptr) {
                    stale.fetch_add(1);
                    return;
                }
                const auto* words =
                    reinterpret_cast<const uint64_t*>(load<Scope::gpu>(&e->address));
                for (int i = 0; i < 4; ++i) {
                    bad += words[i] != ref.generation();
                }
                resolved.fetch_add(1);
            };
            for (uint64_t n = id; !stop.load(); ++n) {
                const BufferRef ref{mail[id].value.exchange(0)};
                if (!ref && kept == 0) {
                    sched_yield();
                    continue;
                }
                store<Scope::gpu>(&turn, turn + 1);
                look({kept}); // not counted: gone, or whole
                if (ref) {
                    look(ref);
                    if (n % 3 != 0) {
                        uint64_t none = 0;
                        detail::add_reference(mine, 8, ref);
                        if (!mail[(id + n) % 4].value.compare_exchange_strong(none, ref.value)) {
                            detail::drop_reference(mine, 8, ref);
                        }
                    }
                    kept = ref.value;
                    detail::drop_reference(mine, 8, ref);
                }
                store<Scope::gpu, Order::release>(&turn, turn + 1);
            }
        });
    }
    std::atomic<uint32_t> freed{0};
    for (uint32_t i = 0; i < rounds; ++i) {
        auto* words = new uint64_t[4];
        Buffer b;
        for (;;) { // ends: workers let go of what they have
            try {
                b = table->wrap(words, 32, {words, [&](uint64_t* p) {
                                                std::fill_n(p, 4, ~uint64_t{0});
                                                delete[] p;
                                                ++freed;
                                            }});
                break;
            } catch (const Error& e) { // the owner that was given is gone
                ASSERT_EQ(e.code(), Errc::exhausted);
                words = new uint64_t[4];
                sched_yield();
            }
        }
        std::fill_n(words, 4, b.ref().generation());
        const Work m{i, b.ref(), {}};
        HeldBuffers held(*table, first_only, &m, sizeof m, 1, "Work");
        uint64_t none = 0;
        if (mail[i % 4].value.compare_exchange_strong(none, b.ref().value)) {
            held.sent();
        }
    }
    while (table->stats().waiting != 0) { // ends: every letter is handled or dropped in the end
        sched_yield();
    }
    stop = true;
    for (std::thread& w : workers) {
        w.join();
    }
    EXPECT_EQ(bad.load(), 0u);
    EXPECT_GE(freed.load(), rounds);
    EXPECT_GT(resolved.load(), 0u);
}

TEST(free_list, classes_and_reuse)
{
    using List = FreeList<int>;
    EXPECT_EQ(List::size_class(1), 4096u);
    EXPECT_EQ(List::size_class(4096), 4096u);
    EXPECT_EQ(List::size_class(4097), 8192u);
    EXPECT_EQ(List::size_class(2u << 20), 2u << 20);
    EXPECT_EQ(List::size_class((2u << 20) + 1), 4u << 20);
    EXPECT_EQ(List::size_class(5u << 20), 6u << 20);
    List list;
    EXPECT_FALSE(list.take(4096));
    list.give(4096, 7);
    EXPECT_FALSE(list.take(8192));
    EXPECT_EQ(list.take(4096), 7);
    EXPECT_FALSE(list.take(4096));
    list.give(8192, 1);
    list.give(4096, 2);
    int sum = 0;
    list.drain([&](int block) { sum += block; });
    EXPECT_EQ(sum, 3);
    EXPECT_FALSE(list.take(4096));
}

} // namespace

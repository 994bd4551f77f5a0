// SPDX-License-Identifier: Apache-2.0
// Whoever keeps a device's primary context lets it go again, after all that was taken in it, also
// when any call of the driver's fails half way. On a driver that is not there (fake_driver.cpp).
#include "load_fake_driver.hpp"

#include "../../apps/graph/src/engine.hpp"
#include "../../apps/wave/src/engine.hpp"
#include "actor/backend.hpp"
#include "device/opening.hpp"
#include "group/member.hpp"
#include "memory/arena_memory.hpp"
#include "memory/space.hpp"
#include "task/backend.hpp"
#include <denizen/base/interrupt.hpp>
#include <denizen/device/primary_context.hpp>
#include <denizen/device/residents.hpp>

#include <denizen/infer/gpu.hpp>
#include <denizen/radio/resident_receiver.hpp>
#include <gtest/gtest.h>

namespace {

using namespace denizen;
using gpu::device_info;
using gpu::PrimaryContext;

FakeDriver* const fake = load_fake_driver(DENIZEN_FAKE_DRIVER);

const Code code{std::vector<char>(64), nullptr};

// What keeps a context: each takes all that it does, and gives it back.
struct Keeper {
    const char* name;
    void (*use)();
};

void keep_context() { const PrimaryContext context(device_info(0)); }
void keep_arena() { make_gpu_arena_memory(0)->allocate(4096, 256); }
void keep_space()
{
    const auto space = make_gpu_space(0, 2, 4096);
    for (const BufferKind kind : {BufferKind::device, BufferKind::pinned}) {
        space->allocate(4096, kind);
    }
}
void keep_program()
{
    Image image;
    image.cubin = code.cubin;
    Options options;
    options.mapped = false;
    make_gpu_backend(image, options, 0, {})->allocate(4096, 4096, 4096);
}
void keep_partitioned()
{
    Image image;
    image.cubin = code.cubin;
    Options options;
    options.mapped = false;
    options.partition = 2;
    make_gpu_backend(image, options, 0, {})->allocate(4096, 4096, 4096);
}
// One whose code is exchanged: both modules are given back.
void keep_exchanged()
{
    Image image;
    image.cubin = code.cubin;
    image.to_exchange = true;
    Options options;
    options.mapped = false;
    const auto backend = make_gpu_backend(image, options, 0, {});
    backend->allocate(4096, 4096, 4096);
    Shared shared{};
    shared.breath.ns = 2'000'000;
    backend->wire(shared);
    backend->exchange(image);
}
void keep_tasks()
{
    task::Image image;
    image.kernel = []() -> void* { return nullptr; };
    task::Options options;
    options.device = Device::gpu(0);
    task::make_gpu_backend(image, options)->allocate(4096, 4096);
}
void keep_searches()
{
    graph::Csr line; // 0 - 1
    line.offsets = {0, 1, 2};
    line.neighbours = {1, 0};
    line.weights = {1, 1};
    graph::make_gpu_engine(line, 0, code);
}
void keep_group()
{
    group::Layout layout;
    layout.ranks = 2;
    layout.channels = 1;
    layout.slots = group::run_packets;
    layout.stage_bytes = 32;
    layout.heap_bytes = 4096;
    group::make_gpu_members(layout, 0, code);
}
void keep_wave()
{
    wave::State state;
    state.geometry.n[0] = state.geometry.n[1] = state.geometry.n[2] = 8;
    state.kinds.assign(512, 0);
    wave::make_gpu_engine(state, 0, 1, code, code);
}
void keep_model()
{
    const auto chip = infer::on_gpu(0, code);
    chip->device(4096, "a test");
    chip->host(4096);
}
void keep_scan() { radio::scan_on_gpu(0, code)->memory(4096); }

class primary_context : public testing::TestWithParam<Keeper> {
protected:
    void SetUp() override
    {
        ASSERT_NE(fake, nullptr);
        *fake = {};
    }
};

TEST_P(primary_context, is_let_go_after_all_that_was_taken_in_it)
{
    GetParam().use();
    EXPECT_GT(fake->calls, 0);
    EXPECT_EQ(fake->contexts, 0);
    EXPECT_EQ(fake->held, 0);
    EXPECT_EQ(fake->late, 0);
    EXPECT_EQ(fake->out_of_context, 0);
}

TEST_P(primary_context, is_let_go_whichever_call_fails)
{
    GetParam().use();
    const int calls = fake->calls;
    int thrown = 0;
    for (int call = 1; call <= calls; ++call) {
        *fake = {};
        fake->fail_at = call;
        try {
            GetParam().use();
        } catch (const Error&) {
            ++thrown;
        }
        EXPECT_EQ(fake->contexts, 0) << "call " << call << " of " << calls;
        EXPECT_EQ(fake->held, 0) << "call " << call << " of " << calls;
        EXPECT_EQ(fake->late, 0) << "call " << call << " of " << calls;
    }
    EXPECT_GT(thrown, 0);
}

INSTANTIATE_TEST_SUITE_P(
    gpu, primary_context,
    testing::Values(Keeper{"context", keep_context}, Keeper{"arena", keep_arena},
                    Keeper{"space", keep_space}, Keeper{"program", keep_program},
                    Keeper{"partitioned", keep_partitioned}, Keeper{"exchanged", keep_exchanged},
                    Keeper{"tasks", keep_tasks}, Keeper{"searches", keep_searches},
                    Keeper{"group", keep_group}, Keeper{"wave", keep_wave},
                    Keeper{"scan", keep_scan}, Keeper{"model", keep_model}),
    [](const auto& keeper) { return keeper.param.name; });

// A program of this process that would stay on the GPU.
struct Staying : gpu::Resident {
    Staying() { gpu::residents().add(this); }
    ~Staying() { gpu::residents().remove(this); }
    void ask_to_leave() override { away = true; }
    bool off() override { return away; }
    void let_return() override { away = false; }
    int ordinal() const override { return 0; }
    uint32_t blocks() const override { return 1; }
    bool anywhere() const override { return true; }

    bool away = false;
};

// Nobody of this process is on the GPU: it is opened while a program for it is compiled.
TEST(opening, takes_the_context_and_lets_it_go)
{
    *fake = {};
    gpu::Opening(0, 1, false).end();
    EXPECT_GT(fake->calls, 0);
    EXPECT_EQ(fake->contexts, 0);
}

TEST(opening, leaves_a_gpu_alone_that_a_program_of_this_process_is_on)
{
    *fake = {};
    const Staying program;
    gpu::Opening(0, 1, false).end();
    EXPECT_EQ(fake->calls, 0);
}

// Who then needs the GPU is told.
TEST(opening, fails_without_a_word)
{
    *fake = {};
    fake->fail_at = 1;
    gpu::Opening(0, 1, false).end();
    gpu::Opening(7, 1, false).end(); // there is no such GPU
    EXPECT_EQ(fake->contexts, 0);
}

struct Pressed {};

// Ctrl-C while a kernel runs.
void pressed()
{
    if (fake->busy) throw Pressed{};
}

// The kernels are told that it is late, and whoever had to leave for the search comes back.
TEST(search, leaves_when_it_is_interrupted)
{
    ASSERT_NE(fake, nullptr);
    *fake = {};
    graph::Csr line; // 0 - 1
    line.offsets = {0, 1, 2};
    line.neighbours = {1, 0};
    line.weights = {1, 1};
    const auto engine = graph::make_gpu_engine(line, 0, code);
    Staying program;
    fake->endless = true;
    const auto interrupted = [&](auto&& search) {
        const Interruptible interruptible(&pressed);
        denizen::detail::interrupt_watch.looked_ns = 0;
        EXPECT_THROW(search(), Pressed);
        EXPECT_FALSE(fake->busy) << "nobody has told the kernels";
        EXPECT_FALSE(program.away) << "it stays off the GPU";
        fake->busy = false;
    };
    for (const graph::Method method : {graph::Method::narrow, graph::Method::wide}) {
        interrupted([&] { engine->bfs(0, method); });
        interrupted([&] { engine->shortest_paths(0, method); });
    }
}

// Else a thread that captures a graph in the default mode would make our calls fail.
TEST(context_scope, is_not_about_others_captures)
{
    *fake = {};
    PrimaryContext context(device_info(0));
    {
        const gpu::ContextScope outer(context);
        EXPECT_EQ(fake->capture_mode, gpu::capture_relaxed);
        {
            const gpu::ContextScope inner(context);
            EXPECT_EQ(fake->capture_mode, gpu::capture_relaxed);
        }
        EXPECT_EQ(fake->capture_mode, gpu::capture_relaxed);
    }
    EXPECT_EQ(fake->capture_mode, 0) << "the thread's own";
    context.release();
    EXPECT_EQ(fake->contexts, 0);
}

TEST(primary_context_alone, moves_and_is_abandoned)
{
    ASSERT_NE(fake, nullptr);
    *fake = {};
    {
        PrimaryContext first(device_info(0));
        PrimaryContext second(device_info(1));
        EXPECT_EQ(fake->contexts, 2);
        first = std::move(second);
        EXPECT_EQ(first.device(), 1);
        PrimaryContext third(std::move(first));
        EXPECT_EQ(static_cast<gpu::Context>(first), nullptr);
        third.release();
        third.release();              // nothing more
        EXPECT_EQ(fake->contexts, 1); // the other one, which `second` has now
    }
    EXPECT_EQ(fake->contexts, 0);
    PrimaryContext(device_info(0)).abandon();
    EXPECT_EQ(fake->contexts, 1);
}

// A dead context says so when it is made current: destructors leave all as it is, and throw
// nothing.
TEST(primary_context_alone, stays_when_it_is_dead)
{
    ASSERT_NE(fake, nullptr);
    *fake = {};
    auto arena = make_gpu_arena_memory(0);
    const graph::Csr empty;
    auto searches = graph::make_gpu_engine(empty, 0, code);
    const int held = fake->held;
    fake->dead = true;
    arena.reset();
    searches.reset();
    EXPECT_EQ(fake->contexts, 2);
    EXPECT_EQ(fake->held, held);
}

} // namespace

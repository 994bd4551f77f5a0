// SPDX-License-Identifier: Apache-2.0
#include "engine.hpp"

#include <denizen/base/interrupt.hpp>
#include <denizen/task/kernel.hpp>

#include <cstring>

namespace denizen::graph {
namespace {

task::Image image_of(std::function<void*()> kernel)
{
    task::Image image;
    image.table = VisitProgram::table();
    image.names = {"near visit",         "middle visit",    "far visit",  "near hub's visit",
                   "middle hub's visit", "far hub's visit", "next window"};
    image.run_thread = [](const task::Shared& shared, uint32_t id) {
        task::run_thread<VisitProgram>(shared, id);
    };
    image.kernel = std::move(kernel);
    return image;
}

task::Options options_of(const Csr& graph, const Device& device, uint32_t threads)
{
    task::Options options;
    options.device = device;
    options.workers = device.kind == Device::Kind::cpu ? threads : 0;
    options.counters = 1;
    options.futures = 1;
    options.ingress_slots = 2;
    // What finds no room waits for the next window: crates are shipped with one task at worst.
    options.arena_bytes = std::max(options.arena_bytes, uint64_t{32} * graph.vertices());
    return options;
}

} // namespace

Visitors::Visitors(const Csr& graph, const Device& device, uint32_t threads,
                   std::function<void*()> kernel)
    : runtime_(image_of(std::move(kernel)), options_of(graph, device, threads))
{
}

double Visitors::run(Visits* search, uint32_t source)
{
    // The monitor has answered: the workers are on their processor.
    const uint32_t group = runtime_.open_group(nanoseconds(limit_ns));
    const VisitProgram::Words task = VisitProgram::encode(
        Visit<task::Priority::high, task::Grain::thread>{detail::VisitsAt(search), source}, group);
    const uint64_t begin = now_ns();
    runtime_.spawn(task.word, sizeof task.word / sizeof task.word[0], 1, std::chrono::seconds(1));
    task::Ended ended;
    try {
        ended = runtime_.wait(group, 2 * nanoseconds(limit_ns));
    } catch (...) { // interrupted: the tasks write into the caller's arrays
        const Interruptible never(nullptr);
        runtime_.cancel(group);
        runtime_.wait(group, 2 * nanoseconds(limit_ns));
        runtime_.close_group(group);
        throw;
    }
    const double seconds = static_cast<double>(now_ns() - begin) * 1e-9;
    runtime_.close_group(group);
    if (ended.cancelled != task::Cancelled::no) {
        throw Error(Errc::timeout, "the search was not done after 30 s and gave up");
    }
    return seconds;
}

} // namespace denizen::graph

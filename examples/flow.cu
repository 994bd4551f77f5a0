// SPDX-License-Identifier: Apache-2.0
// Flow: four buffers go round through two blocks, one of this file's on a thread, one resident on
// the device. A source that has sent all four waits until one comes back, so what is under way is
// bounded. `flow cpu` has the resident block on CPU threads even where there is a GPU.
#include <denizen/dsp/resident/program.hpp>
#include <denizen/flow/blocks.hpp>
#include <denizen/flow/graph.hpp>
#include <denizen/flow/resident.hpp>

#include <algorithm>
#include <cstdio>

namespace {

namespace flow = denizen::flow;

struct Clip : flow::Block { // samples above the limit become the limit
    flow::InPlace<float> samples{*this, "samples"};
    float limit;

    Clip(std::string name, float limit_) : Block(std::move(name)), limit(limit_) {}
    void work() override
    {
        for (float& x : samples.samples()) x = std::min(x, limit); // the buffer itself
        samples.pass();
    }
};

} // namespace

int main(int argc, char**)
{
    denizen::Options options;
    options.device = argc > 1 ? denizen::Device::cpu() : denizen::Device::automatic();
    flow::Resident resident(flow::resident::image(), options);

    std::vector<float> given(100'000);
    for (size_t i = 0; i < given.size(); ++i) given[i] = static_cast<float>(i % 1000);
    flow::Flowgraph graph;
    auto& source = graph.add<flow::VectorSource<float>>("source", given);
    auto& clip = graph.add<Clip>("clip", 500.0f);
    auto& line = graph.add<flow::ResidentSaxpy>("line", resident, 2.0f, 1.0f);
    auto& sink = graph.add<flow::VectorSink<float>>("sink");
    graph.circuit("samples", source.out, 4, 1024);
    graph.connect(source.out, clip.samples);
    graph.connect(clip.samples, line.samples);
    graph.connect(line.samples, sink.in);
    graph.start(); // a thread for each block that is not resident
    graph.wait(std::chrono::seconds(60));

    bool right = sink.samples.size() == given.size();
    for (size_t i = 0; right && i < given.size(); ++i) {
        right = sink.samples[i] == 2 * std::min(given[i], 500.0f) + 1;
    }
    std::printf("%zu samples, %s\n", sink.samples.size(), right ? "all right" : "some are wrong");
    return right ? 0 : 1;
}

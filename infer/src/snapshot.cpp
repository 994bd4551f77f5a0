// SPDX-License-Identifier: Apache-2.0
#include "states_file.hpp"

#include <denizen/actor/detail/snapshot_file.hpp>

#include <cstring>

namespace denizen::infer {
namespace {

constexpr uint32_t states_layout = 1;

// What a file's model and the one that reads it must have in common: all that the states' meaning
// depends on.
SnapshotSection shape_of(const Plan& plan)
{
    SnapshotSection shape("shape");
    shape.put(static_cast<uint32_t>(plan.widths.size()));
    for (const uint32_t width : plan.widths) shape.put(width);
    for (const Step& step : plan.steps) {
        shape.put_text(to_string(step.kind));
        shape.put(static_cast<uint32_t>(step.inputs.size()));
        for (const uint32_t input : step.inputs) shape.put(input);
        shape.put(step.taps);
        shape.put(step.taps > 0 ? step.settings.dilation : 0u);
        shape.put(static_cast<uint32_t>(step.settings.relu));
    }
    return shape;
}

} // namespace

void write_states(const std::string& path, const Plan& plan, uint32_t streams,
                  const std::vector<float>& all, uint64_t deadline_ns)
{
    SnapshotSection states("states");
    states.put(streams);
    states.put(all.data(), all.size() * sizeof(float));
    write_snapshot(path, SnapshotKind::model, states_layout, {shape_of(plan), std::move(states)},
                   deadline_ns);
}

std::vector<float> read_states(const std::string& path, const Plan& plan, uint32_t streams)
{
    const SnapshotFile file(path, SnapshotKind::model, states_layout);
    SnapshotBytes shape = file.section("shape");
    const SnapshotSection own = shape_of(plan);
    const auto given = shape.take(shape.left());
    if (!std::equal(given.begin(), given.end(), own.bytes().begin(), own.bytes().end())) {
        file.refuse("is of another model; give it to one of the same layers and widths");
    }
    SnapshotBytes states = file.section("states");
    const auto held = states.take<uint32_t>();
    if (held != streams) {
        file.refuse("holds " + std::to_string(held) + " streams, and the model has " +
                    std::to_string(streams) + "; give it as many");
    }
    std::vector<float> all(plan.kept_floats * streams);
    if (states.left() != all.size() * sizeof(float)) {
        states.refuse("has " + std::to_string(states.left()) + " bytes of states, not " +
                      std::to_string(all.size() * sizeof(float)));
    }
    if (!all.empty()) {
        std::memcpy(all.data(), states.take(states.left()).data(), all.size() * sizeof(float));
    }
    return all;
}

} // namespace denizen::infer

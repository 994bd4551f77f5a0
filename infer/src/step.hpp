// SPDX-License-Identifier: Apache-2.0
// One part's work on a step: its units of each op, one after the other.
#pragma once

#include "aligned.hpp"
#include "barrier.hpp"
#include "plan.hpp"
#include "weights.hpp"

#include <vector>

namespace denizen::infer {

// What all parts are told of a step.
struct StepJob {
    const Weights* weights = nullptr;
    const float* input = nullptr; // padded; a token lies in its first four bytes
    float* state = nullptr;       // the stream's
    uint64_t position = 0;        // steps that it has had since it began with zeros
};

class Part {
public:
    // `values`: plan.value_floats, which all parts share, as they do the barrier.
    Part(const Plan& plan, Format format, uint32_t number, float* values, Barrier& barrier);

    // Returns when all parts are done.
    void run(const StepJob& job);

    // As of the last step.
    const float* value(uint32_t number) const { return at_[number]; }

private:
    void multiply(const Step& step, size_t op, const StepJob& job, const Segment* segments,
                  size_t count, float* out, size_t units_apart);
    void recurrent_op(const Step& step, size_t op, const StepJob& job);
    void conv1d(const Step& step, size_t op, const StepJob& job);
    void concat(const Step& step);

    const Plan& plan_;
    const Format format_;
    const uint32_t number_;
    float* const values_;
    Barrier& barrier_;
    uint32_t meetings_ = 0;
    std::vector<const float*> at_; // of each value, in this step
    Aligned<float> room_;          // sums of gates, or a softmax
    std::vector<Segment> segments_;
};

} // namespace denizen::infer

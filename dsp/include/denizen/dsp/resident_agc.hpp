// SPDX-License-Identifier: Apache-2.0
// Automatic gain control on the resident runtime: the twin of flow::Agc (signal.hpp). Host only.
#pragma once

#include <denizen/dsp/agc.hpp>
#include <denizen/flow/resident.hpp>

namespace denizen::flow {

// y = g x, where the gain g makes |y| settle at `reference`; see dsp::Agc, which throws what this
// does. Each gain is made from the one before: one worker has the whole stream.
template <class Sample>
class ResidentAgc : public ResidentOf<Sample, Sample> {
public:
    ResidentAgc(std::string name, Resident& resident, float reference, float rate, float most)
        : ResidentOf<Sample, Sample>(std::move(name), resident,
                                     sizeof(Sample) == sizeof(float) ? "agc, real" : "agc, complex",
                                     0, 1, {most, std::min(1.0f, most)}, rate, rate * reference)
    {
        const dsp::Agc<Sample> refuses(reference, rate, most);
        this->keeps_state();
    }
};

} // namespace denizen::flow

// SPDX-License-Identifier: Apache-2.0
// The resident program of flow graphs. In a file compiled by nvcc it is compiled for the GPU and
// the CPU, else for the CPU alone.
//
//   namespace flow = denizen::flow;
//   flow::Resident gpu(flow::resident::image());          // the blocks of kinds.hpp
//   flow::Resident more(flow::resident::image<Square>()); // and one's own
#pragma once

#include <denizen/actor/runtime.hpp>
#include <denizen/dsp/resident/chain_worker.hpp>

namespace denizen::flow::resident {

// What Resident is made of.
struct ProgramImage {
    Image image;
    std::vector<std::string> kinds;
};

template <class... More>
ProgramImage image()
{
    return {image_of<Program<More...>>(),
            {Saxpy::name, Fir<float, float>::name, Fir<Iq, float>::name, Fir<Iq, Iq>::name,
             Mixer::name, Multiply::name, MagnitudeSquared::name, DemodulateFm::name,
             Resample<float, float>::name, Resample<Iq, float>::name, Resample<Iq, Iq>::name,
             Transforms::name, Channels::name, Agc<float>::name, Agc<Iq>::name, More::name...}};
}

} // namespace denizen::flow::resident

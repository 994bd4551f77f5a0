// SPDX-License-Identifier: Apache-2.0
// The resident program of flow graphs. In a file compiled by nvcc it is compiled for the GPU and
// the CPU, else for the CPU alone.
//
//   denizen::flow::Resident gpu(denizen::flow::resident::image());            // the blocks of
//   kinds.hpp denizen::flow::Resident more(denizen::flow::resident::image<Square>());   // and
//   one's own kinds
#pragma once

#include <denizen/flow/resident/worker.hpp>
#include <denizen/runtime.hpp>

namespace denizen::flow::resident {

template <class... More>
using Crew = Worker<Saxpy, Fir<float, float>, Fir<Iq, float>, Fir<Iq, Iq>, Multiply,
                    MagnitudeSquared, DemodulateFm, More...>;

// The messages' order is what Resident knows their types by.
template <class... More>
using Program =
    denizen::Program<Actors<Crew<More...>>, denizen::Messages<Setup, Values, Scalars, Job, Done>>;

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
             Multiply::name, MagnitudeSquared::name, DemodulateFm::name, More::name...}};
}

} // namespace denizen::flow::resident

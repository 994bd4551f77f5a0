// SPDX-License-Identifier: Apache-2.0
// What resident blocks run on: a worker that knows the blocks of kinds*.hpp, and one's own.
#pragma once

#include <denizen/actor/kernel.hpp>
#include <denizen/dsp/resident/kinds.hpp>
#include <denizen/dsp/resident/kinds_circuits.hpp>
#include <denizen/dsp/resident/kinds_state.hpp>
#include <denizen/flow/resident/worker.hpp>

namespace denizen::flow::resident {

template <class... More>
using ChainWorker =
    Worker<Saxpy, Fir<float, float>, Fir<Iq, float>, Fir<Iq, Iq>, Mixer, Multiply, MagnitudeSquared,
           DemodulateFm, Resample<float, float>, Resample<Iq, float>, Resample<Iq, Iq>, Transforms,
           Channels, Agc<float>, Agc<Iq>, More...>;

// The messages' order is what Resident knows their types by.
template <class... More>
using Program = denizen::Program<Actors<ChainWorker<More...>>,
                                 denizen::Messages<Setup, Values, Scalars, Job, Done>>;

} // namespace denizen::flow::resident

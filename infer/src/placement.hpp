// SPDX-License-Identifier: Apache-2.0
// How many blocks of a chip a model gets, and whether they are one cluster.
#pragma once

#include "deal.hpp"

#include <denizen/infer/chip.hpp>
#include <denizen/infer/engine.hpp>

namespace denizen::infer {

struct Placement {
    Deal deal;
    bool cluster = false;
};

// A cluster where the model and the wanted rounds fit there: an exchange takes a third of the time.
// Else no more SMs than it fits in: others have room beside it, and an exchange among more takes
// longer. At last all that are free.
// Throws bad_argument if there are not so many SMs, and with the bytes that are missing if the
// model does not fit.
Placement placed(Chip& chip, const Plan& plan, const Options& options);

} // namespace denizen::infer

// SPDX-License-Identifier: Apache-2.0
// What a worker on a CPU thread does for its host's links (cluster/link.hpp): between its rounds it
// takes what goes to other hosts to its wire, and what has come to the workers, so that a message
// does not wait for a link's own threads to be given a core. It is the host's code
// (src/actor/far_duty.cpp), which one pointer in Shared leads to; null on a GPU, and in a program
// that is of no cluster.
#pragma once

#include <denizen/base/target.hpp>

namespace denizen {

enum class Duty : uint32_t {
    look,    // the worker is between two rounds. True: it is to look again rather than sleep
    no_room, // it is in a handler, whose messages to other hosts find no room. True: some was made,
             // for which it may have waited a little
    parked,  // it is between two rounds, and such messages are parked. True: some room was made
    rest,    // it is about to sleep. True: it may
};

struct LinkDuty {
    bool (*see)(LinkDuty& duty, uint32_t node, uint32_t worker, Duty what) = nullptr;
};

} // namespace denizen

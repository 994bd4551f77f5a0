// SPDX-License-Identifier: Apache-2.0
// The GPU's times: every submission of the driver library ends with the release of a semaphore that
// has a time stamp, at one address of its channel. What the last one has left there is logged.
#pragma once

#include "channels.hpp"

namespace denizen::lens {

// Looks for such a release among `n` words of a pushbuffer segment. Inline data may look like one:
// who reads the log takes only what the decoded stream releases.
void learn_release(Channel& c, const uint32_t* words, uint32_t n);

// A ReleaseRecord if there is another payload than at the last call. Safe in a signal handler.
void log_release(Channel& c, uint32_t number);

// Of all channels, at the end.
void log_last_releases();

} // namespace denizen::lens

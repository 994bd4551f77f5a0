// SPDX-License-Identifier: Apache-2.0
// The codes of errors, which exist on both sides. The exception is the host's: error.hpp.
#pragma once

#include <denizen/base/target.hpp>

namespace denizen {

enum class Errc : uint32_t {
    ok = 0,
    full,         // a ring has no room and the deadline has passed
    empty,        // nothing to receive
    closed,       // the ring or the runtime has been closed
    oversize,     // the message is larger than the ring, the buffer or the protocol allows
    wrong_type,   // the actor has no handler for the message, or the reply is of another type
    no_actor,     // the address names no live actor
    peer_dead,    // the other side of a ring is gone
    timeout,      // the deadline has passed
    stuck,        // a handler does not return
    exhausted,    // a fixed resource (actors, state memory, reply cells, outbox) is used up
    bad_argument, // the caller's value is outside its range
    no_device,    // no GPU, or no driver
    driver,       // the CUDA driver reported an error
    compile,      // program text does not compile
    failed,       // a handler has failed
    stale,        // the buffer was freed, or never existed
    bad_snapshot, // the file is truncated, altered, or of another program
    host_lost,    // a host of the cluster is gone, or was silent for too long
    no_fit,       // so many workers do not fit on the device
};

DENIZEN_HD inline const char* to_string(Errc code)
{
    switch (code) {
    case Errc::ok: return "ok";
    case Errc::full: return "full";
    case Errc::empty: return "empty";
    case Errc::closed: return "closed";
    case Errc::oversize: return "oversize";
    case Errc::wrong_type: return "wrong type";
    case Errc::no_actor: return "no actor";
    case Errc::peer_dead: return "peer dead";
    case Errc::timeout: return "timeout";
    case Errc::stuck: return "stuck";
    case Errc::exhausted: return "exhausted";
    case Errc::bad_argument: return "bad argument";
    case Errc::no_device: return "no device";
    case Errc::driver: return "driver";
    case Errc::compile: return "compile";
    case Errc::failed: return "failed";
    case Errc::stale: return "stale buffer";
    case Errc::bad_snapshot: return "bad snapshot";
    case Errc::host_lost: return "host lost";
    case Errc::no_fit: return "does not fit";
    }
    return "unknown";
}

} // namespace denizen

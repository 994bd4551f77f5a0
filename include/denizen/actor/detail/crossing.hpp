// SPDX-License-Identifier: Apache-2.0
// Which orders an actor may give to an actor of another host: the worker sends them to that host's
// link, and the other side gives them to the actor's worker (far.hpp).
#pragma once

#include <denizen/actor/detail/system_op.hpp>

namespace denizen {

DENIZEN_HD constexpr bool crosses_hosts(SystemOp op)
{
    return (op >= SystemOp::stop && op <= SystemOp::drain) || op == SystemOp::watch ||
           op == SystemOp::unwatch;
}

} // namespace denizen

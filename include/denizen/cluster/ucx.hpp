// SPDX-License-Identifier: Apache-2.0
// This side of a link over UCX: a worker of UCX and its address, which the other side has to have
// before a Link is made of it. UCX is loaded when it is first used. Host only.
#pragma once

#include <memory>
#include <string>

namespace denizen {

class UcxEnd {
public:
    // `library`: libucp.so.0 with its path. `loopback`: reached from this machine alone, over TCP;
    // otherwise UCX chooses among what the machine has (UCX_TLS, UCX_NET_DEVICES).
    // Errc::no_device: there is no such library, it is too old, or it does not start.
    static std::shared_ptr<UcxEnd> open(const std::string& library, bool loopback);
    virtual ~UcxEnd() = default;
    virtual const std::string& address() const = 0; // bytes
    // Whether UCX knows a way to the other side's. Errc::no_device says why not.
    virtual void reach(const std::string& address) const = 0;
};

} // namespace denizen

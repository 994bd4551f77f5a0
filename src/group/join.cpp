// SPDX-License-Identifier: Apache-2.0
// Ranks of processes that meet: on one host, or over the network, where rank 0 decides whether they
// share memory.
#include "meeting.hpp"
#include "nccl.hpp"

#include <denizen/device/driver.hpp>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

namespace denizen {

using namespace group;

namespace {

std::unique_ptr<Member> join_on_host(const std::string& path, uint32_t rank, uint32_t ranks,
                                     Device device, const GroupOptions& options, const Code& code)
{
    const bool on_gpu = device.kind == Device::Kind::gpu;
    Hello hello;
    hello.layout = layout_of(ranks, on_gpu, options);
    hello.rank = rank;
    hello.on_gpu = on_gpu ? 1 : 0;
    const std::vector<Choice> table = table_of(on_gpu, hello.layout, options);
    std::copy(table.begin(), table.end(), hello.table);
    hello.choices = static_cast<uint32_t>(table.size());
    auto member = on_gpu ? join_gpu(path, hello, options.timeout, device.ordinal, code)
                         : join_cpu(path, hello, options.timeout);
    equip(*member, options);
    member->begin_check();
    member->end_check();
    return member;
}

// A folder of this process's own, for the socket of ranks that met over the network.
class Folder {
public:
    ~Folder()
    {
        if (!path_.empty()) rmdir(path_.c_str());
    }
    std::string make()
    {
        const char* const own = std::getenv("XDG_RUNTIME_DIR");
        for (const std::string place : {own != nullptr ? own : "", "/tmp"}) {
            std::string path = place + "/denizen-XXXXXX";
            if (place.empty() || path.size() > 80 || mkdtemp(path.data()) == nullptr) continue;
            path_ = path;
            return path_ + "/socket";
        }
        throw Error(Errc::failed, "no folder for the group's socket can be made in "
                                  "XDG_RUNTIME_DIR or /tmp");
    }

private:
    std::string path_;
};

// Rank 0's decision: one host or several?
Decision decide(const std::vector<Visit>& ranks, Folder& folder)
{
    Decision decision;
    decision.engine = static_cast<Engine>(ranks[0].engine);
    std::string hosts;
    for (const Visit& v : ranks) {
        if (std::strcmp(v.host, ranks[0].host) != 0)
            hosts = " (rank " + std::to_string(v.rank) + ")";
    }
    if (decision.engine == Engine::memory && !hosts.empty()) {
        throw Error(Errc::bad_argument, "the ranks are on several hosts" + hosts +
                                            ", which share no memory: use the engine nccl");
    }
    if (decision.engine == Engine::automatic) {
        decision.engine = hosts.empty() ? Engine::memory : Engine::nccl;
    }
    if (decision.engine == Engine::memory) {
        const std::string path = folder.make();
        std::memcpy(decision.start, path.c_str(), path.size() + 1);
        return decision;
    }
    if (ranks[0].on_gpu == 0) {
        throw Error(Errc::bad_argument,
                    "between hosts" + hosts + " a group needs GPUs: NCCL has no other ranks");
    }
    const nccl::UniqueId id = nccl::new_id();
    std::memcpy(decision.start, id.bytes, sizeof id.bytes);
    return decision;
}

std::unique_ptr<Member> join_over_network(const std::string& address, uint32_t rank, uint32_t ranks,
                                          Device device, const GroupOptions& options,
                                          const Code& code)
{
    Visit mine;
    if (options.token.size() < 8 || options.token.size() > most_token) {
        throw Error(Errc::bad_argument,
                    "a group that meets at " + address + " needs a token of 8 to " +
                        std::to_string(most_token) +
                        " bytes, the same on all ranks: others can reach that address too");
    }
    if (ranks > most_ranks || options.timeout.count() <= 0) {
        throw Error(Errc::bad_argument, "options of a group are out of range: up to " +
                                            std::to_string(most_ranks) +
                                            " ranks, a time limit above 0");
    }
    const bool on_gpu = device.kind == Device::Kind::gpu;
    if (options.engine == Engine::nccl) { // what can be known at once
        if (!on_gpu) {
            throw Error(Errc::bad_argument, "the engine nccl is for GPUs; ranks on the CPU of one "
                                            "host use memory");
        }
        nccl::library();
    }
    mine.rank = rank;
    mine.ranks = ranks;
    mine.engine = static_cast<uint32_t>(options.engine);
    mine.on_gpu = on_gpu ? 1 : 0;
    std::strncpy(mine.host, host_name().c_str(), sizeof mine.host - 1);
    const std::string name = on_gpu ? gpu::device_info(device.ordinal).name : "CPU";
    std::strncpy(mine.device, name.c_str(), sizeof mine.device - 1);
    Folder folder;
    const Meeting meeting =
        meet_over_network(address, mine, options.token, options.timeout,
                          [&](const std::vector<Visit>& visits) { return decide(visits, folder); });
    if (meeting.decision.engine == Engine::memory) {
        return join_on_host(meeting.decision.start, rank, ranks, device, options, code);
    }
    nccl::UniqueId id;
    std::memcpy(id.bytes, meeting.decision.start, sizeof id.bytes);
    auto member = join_nccl(id, rank, ranks, device.ordinal, options);
    for (uint32_t r = 0; r < ranks; ++r) {
        if (r != rank) member->links.push_back({r, meeting.devices[r], 0, false});
    }
    return member;
}

} // namespace

Group Group::join(const std::string& address, uint32_t rank, uint32_t ranks, Device device,
                  const GroupOptions& options, const Code& code)
{
    if (rank >= ranks) {
        throw Error(Errc::bad_argument, "rank " + std::to_string(rank) + " of a group of " +
                                            std::to_string(ranks) + "; ranks count from 0");
    }
    if (is_network_address(address)) {
        return Group(join_over_network(address, rank, ranks, device, options, code));
    }
    if (options.engine == Engine::nccl) {
        throw Error(Errc::bad_argument, "ranks of the engine nccl meet over TCP: give "
                                        "tcp://HOST:PORT (on one host tcp://127.0.0.1:PORT) "
                                        "instead of " +
                                            address);
    }
    return Group(join_on_host(address, rank, ranks, device, options, code));
}

} // namespace denizen

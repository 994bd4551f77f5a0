// SPDX-License-Identifier: Apache-2.0
// Ranks on GPUs that reach each other's memory: all in one process, or one process each. Taking and
// mapping memory and loading code may wait for what is resident: the resident programs of this
// process leave for that moment.
#include "gpu_member.hpp"

#include <cstring>
#include <unistd.h>

namespace denizen::group {
namespace {

gpu::Device device_of(const DeviceInfo& info)
{
    gpu::Device device = 0;
    check(driver().device_get(&device, info.ordinal), "cuDeviceGet");
    return device;
}

void check_reach(const DeviceInfo& from, const DeviceInfo& to)
{
    int can = 0;
    check(driver().device_can_access_peer(&can, device_of(from), device_of(to)),
          "cuDeviceCanAccessPeer");
    if (can == 0) {
        throw Error(Errc::no_device, from.name + " (GPU " + std::to_string(from.ordinal) +
                                         ") cannot reach the memory of " + to.name + " (GPU " +
                                         std::to_string(to.ordinal) +
                                         "): a group needs GPUs with peer access");
    }
}

bool have_atomics(const DeviceInfo& from, const DeviceInfo& to)
{
    int can = 0;
    check(
        driver().device_get_p2p_attribute(&can, p2p_native_atomics, device_of(from), device_of(to)),
        "cuDeviceGetP2PAttribute");
    return can != 0;
}

// The verdict is decided by a compare-exchange in rank 0's memory.
void check_atomics(const GroupLink& link, uint32_t rank)
{
    if (!link.atomics) {
        throw Error(Errc::no_device,
                    "rank " + std::to_string(rank) + " and rank " + std::to_string(link.peer) +
                        " have no atomic operations on each other's memory (no NVLink between "
                        "them): a group needs them");
    }
}

} // namespace

Members make_gpu_members(const Layout& layout, int first, const Code& code)
{
    Members members;
    off_the_gpu("a group", [&] {
        std::vector<std::unique_ptr<gpu::Chip>> chips;
        std::vector<DeviceInfo> infos;
        std::vector<int> ordinals;
        for (uint32_t r = 0; r < layout.ranks; ++r) {
            infos.push_back(device_info(first + static_cast<int>(r)));
            ordinals.push_back(infos.back().ordinal);
            chips.push_back(std::make_unique<gpu::Chip>(infos.back(), "a group"));
        }
        std::vector<std::shared_ptr<RankMemory>> memory;
        for (uint32_t r = 0; r < layout.ranks; ++r) {
            for (const DeviceInfo& other : infos) {
                if (other.ordinal != infos[r].ordinal) check_reach(infos[r], other);
            }
            memory.push_back(std::make_shared<RankMemory>(*chips[r], layout.bytes(), ordinals));
        }
        for (uint32_t r = 0; r < layout.ranks; ++r) {
            // Into `members` at once: a member that goes waits for the residents, and may not do so
            // here.
            auto* const member = new GpuMember(std::move(chips[r]), layout, r, code);
            members.emplace_back(member);
            member->wire(memory);
            member->clear();
            for (uint32_t peer = 0; peer < layout.ranks; ++peer) {
                if (peer == r) continue;
                member->links.push_back(
                    {peer, infos[peer].name, 0, have_atomics(infos[r], infos[peer])});
                check_atomics(member->links.back(), r);
            }
        }
    });
    return members;
}

std::unique_ptr<Member> join_gpu(const std::string& path, Hello hello,
                                 std::chrono::nanoseconds timeout, int ordinal, const Code& code)
{
    const DeviceInfo info = device_info(ordinal);
    std::shared_ptr<RankMemory> mine;
    std::unique_ptr<GpuMember> member;
    int descriptor = -1;
    const auto clear = [&] {
        // The peers write here as soon as they know the descriptor: cleared before that.
        member->wire(std::vector<std::shared_ptr<RankMemory>>(hello.layout.ranks, mine));
        member->clear();
    };
    off_the_gpu("a group", [&] {
        auto chip = std::make_unique<gpu::Chip>(info, "a group");
        mine = std::make_shared<RankMemory>(*chip, hello.layout.bytes(),
                                            std::vector<int>{info.ordinal});
        member = std::make_unique<GpuMember>(std::move(chip), hello.layout, hello.rank, code);
        clear();
        descriptor = mine->export_descriptor();
    });
    hello.bytes = mine->bytes();
    hello.process = static_cast<int32_t>(getpid());
    std::strncpy(hello.device, info.name.c_str(), sizeof hello.device - 1);
    std::memcpy(hello.uuid, info.uuid.bytes.data(), sizeof hello.uuid);
    Peers peers;
    try {
        peers = meet_peers(path, hello, descriptor, timeout);
    } catch (...) {
        close(descriptor);
        throw;
    }
    close(descriptor);
    const auto close_all = [&] {
        for (const int fd : peers.memory) close(fd);
    };
    try {
        off_the_gpu("a group", [&] {
            std::vector<std::shared_ptr<RankMemory>> memory;
            for (uint32_t r = 0; r < hello.layout.ranks; ++r) {
                memory.push_back(r == hello.rank ? mine
                                                 : std::make_shared<RankMemory>(
                                                       member->chip(), peers.hello[r].bytes,
                                                       std::vector<int>{ordinal}, peers.memory[r]));
            }
            member->wire(std::move(memory));
        });
        for (uint32_t r = 0; r < hello.layout.ranks; ++r) {
            if (r == hello.rank) continue;
            GroupLink link{r, peers.hello[r].device, 0, true};
            for (int i = 0; i < device_count(); ++i) { // if this process sees the peer's GPU too
                const DeviceInfo other = device_info(i);
                if (std::memcmp(other.uuid.bytes.data(), peers.hello[r].uuid, sizeof hello.uuid) ==
                        0 &&
                    other.ordinal != info.ordinal) {
                    check_reach(info, other);
                    link.atomics = have_atomics(info, other);
                }
            }
            check_atomics(link, hello.rank);
            member->links.push_back(link);
        }
    } catch (...) {
        close_all();
        throw;
    }
    close_all();
    const Hello& first = peers.hello[0];
    member->table.assign(first.table, first.table + first.choices);
    return member;
}

} // namespace denizen::group

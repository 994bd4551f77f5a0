// SPDX-License-Identifier: Apache-2.0
#include "partition.hpp"

#include <denizen/base/error.hpp>

#include <map>
#include <string>

namespace denizen::gpu {

struct Split {
    std::vector<DevResource> groups; // of as many SMs each: the fewest that a partition can have
    std::vector<bool> taken;
};

namespace {

void check_driver(const DeviceInfo& info, uint32_t sms)
{
    if (driver().green_ctx_stream_create != nullptr) return;
    const int version = info.driver_cuda_version;
    throw Error(Errc::no_device, "partition = " + std::to_string(sms) +
                                     " needs a driver of CUDA 12.5 or newer; this one is of CUDA " +
                                     std::to_string(version / 1000) + "." +
                                     std::to_string(version % 1000 / 10) +
                                     ": update it, or give no partition");
}

std::shared_ptr<Split> split(const DeviceInfo& info, Device device)
{
    const Driver& cu = driver();
    DevResource all;
    check(cu.device_get_dev_resource(device, &all, resource_sm), "cuDeviceGetDevResource",
          info.name);
    constexpr unsigned least = 1; // the driver makes it the fewest that there can be
    unsigned count = 0;
    check(cu.dev_sm_resource_split_by_count(nullptr, &count, &all, nullptr, 0, least),
          "cuDevSmResourceSplitByCount", info.name);
    auto made = std::make_shared<Split>();
    made->groups.resize(count);
    check(cu.dev_sm_resource_split_by_count(made->groups.data(), &count, &all, nullptr, 0, least),
          "cuDevSmResourceSplitByCount", info.name);
    made->groups.resize(count);
    made->taken.resize(count);
    if (count == 0) {
        throw Error(Errc::no_device, info.name + " has no partitions of its SMs: give none");
    }
    return made;
}

// The driver makes one context of several groups only if they are of the same split: a device has
// one as long as it has a partition.
std::shared_ptr<Split> split_of(const DeviceInfo& info, Device device)
{
    static auto* known = new std::map<int, std::weak_ptr<Split>>; // outlives static runtimes
    std::weak_ptr<Split>& kept = (*known)[info.ordinal];
    std::shared_ptr<Split> found = kept.lock();
    if (found == nullptr) kept = found = split(info, device);
    return found;
}

// The first groups that no partition has.
std::vector<std::size_t> free_groups(const Split& split, const DeviceInfo& info, uint32_t sms)
{
    const uint32_t each = split.groups[0].of.sm_count;
    const std::string asked = "partition = " + std::to_string(sms) + "; ";
    if (sms % each != 0 || sms / each > split.groups.size()) {
        throw Error(Errc::bad_argument, asked + "SMs of " + info.name + " are partitioned by " +
                                            std::to_string(each) +
                                            ": use a multiple of that, at most " +
                                            std::to_string(each * split.groups.size()));
    }
    std::vector<std::size_t> free;
    for (std::size_t i = 0; i < split.groups.size(); ++i) {
        if (!split.taken[i]) free.push_back(i);
    }
    const std::size_t wanted = sms / each;
    if (free.size() < wanted) {
        throw Error(Errc::exhausted,
                    asked + "of the " + std::to_string(each * split.groups.size()) + " SMs of " +
                        info.name + " that partitions can have, other programs of this process " +
                        "leave " + std::to_string(each * free.size()) +
                        ": use a smaller one, or close one of those");
    }
    free.resize(wanted);
    return free;
}

} // namespace

Partition::Partition(const DeviceInfo& info, uint32_t sms)
{
    check_driver(info, sms);
    const Driver& cu = driver();
    Device device = 0;
    check(cu.device_get(&device, info.ordinal), "cuDeviceGet");
    split_ = split_of(info, device);
    groups_ = free_groups(*split_, info, sms);
    std::vector<DevResource> resources;
    for (const std::size_t group : groups_) resources.push_back(split_->groups[group]);
    ResourceDesc description = nullptr; // the driver's: there is no call to give it back
    check(cu.dev_resource_generate_desc(&description, resources.data(),
                                        static_cast<unsigned>(resources.size())),
          "cuDevResourceGenerateDesc", info.name);
    check(cu.green_ctx_create(&context_, description, device, green_ctx_default_stream),
          "cuGreenCtxCreate", std::to_string(sms) + " SMs of " + info.name);
    for (const std::size_t group : groups_) split_->taken[group] = true;
}

Partition::~Partition()
{
    driver().green_ctx_destroy(context_);
    for (const std::size_t group : groups_) split_->taken[group] = false;
}

Stream Partition::open_stream(int priority) const
{
    Stream stream = nullptr;
    check(driver().green_ctx_stream_create(&stream, context_, stream_non_blocking, priority),
          "cuGreenCtxStreamCreate");
    return stream;
}

} // namespace denizen::gpu

// SPDX-License-Identifier: Apache-2.0
// One rank's memory on a GPU, mapped for some devices of this process: made by cuMemCreate, and as
// a POSIX descriptor for other processes. Multicast objects are never made.
#pragma once

#include <denizen/device/chip.hpp>

#include <denizen/base/error.hpp>

#include <string>
#include <vector>

namespace denizen::group {

class RankMemory {
public:
    // Made on `chip`; or, with a descriptor, another process's.
    RankMemory(const gpu::Chip& chip, uint64_t bytes, const std::vector<int>& users,
               int descriptor = -1)
    {
        const gpu::ContextScope scope(chip.context());
        gpu::MemProps props;
        props.handle_types = gpu::handle_posix_fd;
        props.location.id = chip.info().ordinal;
        size_t unit = 0;
        gpu::check(driver_.mem_get_allocation_granularity(&unit, &props, 0),
                   "cuMemGetAllocationGranularity", chip.info().name);
        bytes_ = (bytes + unit - 1) / unit * unit;
        if (descriptor < 0) {
            const gpu::Result result = driver_.mem_create(&handle_, bytes_, &props, 0);
            if (result == gpu::error_out_of_memory) {
                throw Error(Errc::exhausted, "no " + std::to_string(bytes_ >> 20) +
                                                 " MiB left on " + chip.info().name +
                                                 " for a rank of a group; give it less heap, "
                                                 "channels or stage_bytes");
            }
            gpu::check(result, "cuMemCreate", chip.info().name);
        } else {
            void* const by_value = reinterpret_cast<void*>(static_cast<intptr_t>(descriptor));
            gpu::check(
                driver_.mem_import_from_shareable_handle(&handle_, by_value, gpu::handle_posix_fd),
                "cuMemImportFromShareableHandle", chip.info().name);
        }
        try {
            gpu::check(driver_.mem_address_reserve(&at_, bytes_, 0, 0, 0), "cuMemAddressReserve");
            gpu::check(driver_.mem_map(at_, bytes_, 0, handle_, 0), "cuMemMap");
            mapped_ = true;
            std::vector<gpu::MemAccess> access(users.size());
            for (size_t i = 0; i < users.size(); ++i) access[i].location.id = users[i];
            gpu::check(driver_.mem_set_access(at_, bytes_, access.data(), access.size()),
                       "cuMemSetAccess", "the GPUs of a group");
        } catch (...) {
            give_back();
            throw;
        }
    }
    ~RankMemory() { give_back(); }
    RankMemory(const RankMemory&) = delete;
    RankMemory& operator=(const RankMemory&) = delete;

    unsigned char* at() const { return reinterpret_cast<unsigned char*>(at_); }
    uint64_t bytes() const { return bytes_; }
    int export_descriptor() const
    {
        int fd = -1;
        gpu::check(driver_.mem_export_to_shareable_handle(&fd, handle_, gpu::handle_posix_fd, 0),
                   "cuMemExportToShareableHandle");
        return fd;
    }

private:
    void give_back()
    {
        if (mapped_) driver_.mem_unmap(at_, bytes_);
        if (at_ != 0) driver_.mem_address_free(at_, bytes_);
        driver_.mem_release(handle_);
    }

    const gpu::Driver& driver_ = gpu::driver();
    uint64_t bytes_ = 0;
    gpu::MemHandle handle_ = 0;
    gpu::DevicePtr at_ = 0;
    bool mapped_ = false;
};

} // namespace denizen::group

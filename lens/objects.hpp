// SPDX-License-Identifier: Apache-2.0
// What the process has of the driver: open device files, RM objects by (client, handle), and which
// memory object is mapped where. Fed by the hooks, one thread at a time; never touched by the fault
// handler.
#pragma once

#include "format.hpp"
#include "rm.hpp"

#include <atomic>
#include <cstdint>
#include <pthread.h>

namespace denizen::lens {

// What a mapping of a device file turned out to be.
struct Mapping {
    bool is_known = false; // the file was prepared for it by an RM_MAP_MEMORY
    bool is_doorbell = false;
    uint32_t gpu = 0;
    uint32_t class_id = 0;
    uint32_t bar1 = 0; // as PageRecord
};

class Objects {
public:
    // `path` was opened as `fd`; returns whether it is a device file of the driver.
    bool opened(int fd, const char* path);
    void duplicated(int from, int to);
    void closed(int fd);
    bool is_device(int fd) const;

    // After a successful ioctl on a device file.
    void after_ioctl(uint64_t request, const void* argument);
    // Before and after a mapping: what it will be, and where it lies.
    Mapping expect(int fd, uint64_t length, int protection, int flags) const;
    void mapped(int fd, uint64_t address, uint64_t length);
    bool unmapped(uint64_t address, uint64_t length); // whether something was there
    void moved(uint64_t from, uint64_t length, uint64_t to);

    // Of what is mapped now, MemoryRecords: for a log that begins late.
    void log_memories() const;

    void set_abi(const Abi& abi) { abi_ = &abi; }
    // What no longer fits into the tables, or nullptr.
    const char* gap() const { return gap_.load(std::memory_order_relaxed); }

private:
    struct Descriptor {
        enum class Kind : uint8_t { other, device } kind;
        Aperture aperture; // of what is mapped through it
        bool is_prepared;
        uint32_t client, device, memory;
        uint64_t offset, length;
    };
    struct Object {
        uint64_t key; // client << 32 | handle; 0 empty
        uint32_t parent, class_id;
        uint32_t extra; // device: its instance; group: engine; usermode: bar1
        bool is_gone;
    };
    struct Memory {
        uint64_t address, length, offset;
        uint32_t client, handle;
        Aperture aperture;
    };
    static constexpr uint32_t descriptors = 65536, objects = 32768, memories = 16384;

    void handle(uint32_t number, uint64_t bytes, const void* argument);
    void record(uint32_t number, uint64_t bytes, const void* argument) const;
    void allocated(uint32_t client, uint32_t parent, uint32_t handle, uint32_t class_id,
                   const void* params);
    void freed(uint32_t client, uint32_t handle);
    static void drop(Object& o);
    static void log_memory(const Memory& m, bool is_gone);
    void controlled(uint32_t client, uint32_t object, uint32_t command, const void* params);
    void map_prepared(const void* argument);
    Object* find(uint32_t client, uint32_t handle);
    const Object* find(uint32_t client, uint32_t handle) const;
    Object* insert(uint32_t client, uint32_t handle);
    uint32_t gpu_of(uint32_t client, uint32_t handle) const;
    void find_userds();
    uint64_t userd_address(uint32_t channel) const;

    const Abi* abi_ = nullptr;
    std::atomic<const char*> gap_{nullptr};
    uint32_t memory_count_ = 0;
    Descriptor descriptor_[descriptors] = {};
    Object object_[objects] = {};
    Memory memory_[memories] = {};
};

// The one of the process and its lock.
extern Objects the_objects;
extern pthread_mutex_t objects_mutex;

} // namespace denizen::lens

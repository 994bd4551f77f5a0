// SPDX-License-Identifier: Apache-2.0
// A GPU as whoever lives or launches there opens it: its context, streams, kernels by name, and
// memory that is given back together. Resident programs, searches of a graph, the wave and groups
// all begin here.
//
// Hazard: taking and freeing memory and loading code wait for what is resident. All calls are made
// while the resident programs of this process are off the GPU, the destructor's too.
#pragma once

#include <denizen/device/launch.hpp>
#include <denizen/device/primary_context.hpp>
#include <denizen/device/residents.hpp>

#include <denizen/base/code.hpp>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace denizen::gpu {

class MappedMemory;
class Partition;

// `needs` and of what: "groups need 9.0 (H100)". Errc::no_device.
void check_capability(const DeviceInfo& info, int major, const std::string& needs);

enum class StreamPriority {
    ordinary,
    highest // an incarnation does not wait behind blocks of other kernels that are queued
};

class Chip {
public:
    // Keeps the context of a GPU and opens a stream. `what` it is for, as errors name it: "a search
    // of a graph of 5 vertices". `partition`: kernels on stream() run on so many SMs of their own
    // (src/device/partition.hpp); 0: on any.
    Chip(DeviceInfo info, std::string what, StreamPriority priority = StreamPriority::ordinary,
         uint32_t partition = 0);
    ~Chip();
    Chip(const Chip&) = delete;
    Chip& operator=(const Chip&) = delete;

    // Makes a Chip, then `use()` takes what it needs there, with the context current. What is taken
    // goes back before this throws, while the programs are off the GPU still.
    template <class Use>
    static void open(std::unique_ptr<Chip>& chip, DeviceInfo info, std::string what,
                     StreamPriority priority, Use&& use, uint32_t partition = 0)
    {
        chip = std::make_unique<Chip>(std::move(info), std::move(what), priority, partition);
        try {
            const ContextScope scope(chip->context());
            use();
        } catch (...) {
            chip.reset();
            throw;
        }
    }
    // Asks the programs to leave, and gives everything back. If one is stuck it stays taken: better
    // than to wait for ever.
    static void close(std::unique_ptr<Chip>& chip);
    // What was taken stays until the process ends: somebody may write there, or the context is
    // dead.
    void abandon() noexcept;

    // The partition goes back, if there is one: stream() is another from then on. Not while kernels
    // are there. It stays if another program of the process does not leave the GPU for that.
    void leave_partition();

    const DeviceInfo& info() const { return info_; }
    const PrimaryContext& context() const { return context_; }
    Stream stream() const { return streams_[0]; }
    unsigned sms() const { return static_cast<unsigned>(info_.sm_count); }

    // Everything from here on: with the context of this GPU current (ContextScope).

    Stream open_stream(StreamPriority priority);

    // Kernels out of a cubin, where one is called `prefix` + name, or out of the program itself; of
    // a cubin all, or those that it has. `what`: the cubin, as an error names it. Returns its
    // module, if there is one.
    Module load(const Code& code, const std::string& prefix, const std::vector<std::string>& names,
                const std::string& what, bool all = true);
    Module load_module(const std::vector<char>& cubin, const std::string& what);
    const std::map<std::string, Function>& functions() const { return functions_; }
    Function function(const std::string& name) const { return functions_.at(name); }
    // So much shared memory a block of the kernel may ask for.
    void allow_shared(const std::string& name, size_t bytes) const;
    // The same; returns how many such blocks may be resident, none where that is too much.
    uint32_t allow(const std::string& name, unsigned threads, size_t shared_bytes) const;

    // Of undefined content; error_out_of_memory and others as the driver says.
    [[nodiscard]] Result try_take(DevicePtr& memory, size_t bytes);
    // The same; Errc::exhausted.
    template <class T>
    T* take(size_t count)
    {
        return static_cast<T*>(take_bytes(std::max<size_t>(1, count) * sizeof(T)));
    }
    template <class T>
    T* take_zeros(size_t count)
    {
        T* const memory = take<T>(count);
        set(memory, 0, std::max<size_t>(1, count) * sizeof(T));
        return memory;
    }
    void free(const void* memory);

    // Grows `memory` to at least `count`, which are zero then; else it stays as it is.
    template <class T>
    void reserve(T*& memory, size_t& have, size_t count)
    {
        if (count <= have) return;
        free(memory);
        memory = nullptr;
        have = 0;
        memory = take_zeros<T>(count);
        have = count;
    }

    // Zero-filled memory of the host that the GPU reaches at the same address. `what`: in an error.
    void* take_host(size_t bytes, const std::string& what = {});
    void free_host(void* memory);
    // The same, as long as somebody holds it.
    std::shared_ptr<void> pinned(size_t bytes) const;
    // Device memory that the CPU stores to (src/device/mapped.hpp); nullptr and why not.
    const MappedMemory* map(size_t bytes, std::string& why_not);

    // On the stream.
    void set(void* memory, unsigned char value, size_t bytes) const
    {
        check(driver().memset_d8_async(reinterpret_cast<DevicePtr>(memory), value, bytes, stream()),
              "cuMemsetD8Async");
    }
    void set_word(uint32_t* word, uint32_t value) const
    {
        check(driver().memset_d32_async(reinterpret_cast<DevicePtr>(word), value, 1, stream()),
              "cuMemsetD32Async");
    }

    // These two wait for the stream.
    template <class T>
    void put(T* to, const T* from, size_t count) const
    {
        if (count == 0) return;
        check(driver().memcpy_htod_async(reinterpret_cast<DevicePtr>(to), from, count * sizeof(T),
                                         stream()),
              "cuMemcpyHtoDAsync");
        wait();
    }
    template <class T>
    void put(T* to, const std::vector<T>& from) const
    {
        put(to, from.data(), from.size());
    }
    template <class T>
    void fetch(T* to, const T* from, size_t count) const
    {
        check(driver().memcpy_dtoh_async(to, reinterpret_cast<DevicePtr>(from), count * sizeof(T),
                                         stream()),
              "cuMemcpyDtoHAsync");
        wait();
    }
    void wait() const
    {
        check(driver().stream_synchronize(stream()), "cuStreamSynchronize", info_.name);
    }

    // On the stream. Arguments must have exactly the kernel's types.
    template <class... Arguments>
    void launch(const std::string& name, const Shape& shape, Arguments... arguments) const
    {
        gpu::launch(function(name), shape, stream(), name, arguments...);
    }

private:
    void* take_bytes(size_t bytes);

    DeviceInfo info_;
    std::string what_;
    PrimaryContext context_;
    std::unique_ptr<Partition> partition_; // goes before the context, and after the streams
    std::vector<Stream> streams_;
    std::vector<Module> modules_;
    std::map<std::string, Function> functions_;
    std::vector<DevicePtr> memory_;
    std::vector<void*> host_;
    std::vector<std::unique_ptr<MappedMemory>> mapped_;
};

} // namespace denizen::gpu

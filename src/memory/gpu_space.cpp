// SPDX-License-Identifier: Apache-2.0
// A GPU's memory for buffers: device memory from a stream-ordered pool, page-locked memory and
// CPU-mapped device memory from free lists. Beside a resident program only those calls are made
// that do not wait for it; whatever may wait (making and growing a pool, locking pages, freeing)
// is done while the programs of the process are off the GPU.
#include "device/mapped.hpp"
#include "free_list.hpp"
#include "space.hpp"
#include <denizen/base/error.hpp>
#include <denizen/device/chip.hpp>

#include <algorithm>
#include <mutex>

namespace denizen {
namespace {

using namespace gpu;

constexpr uint64_t mib = uint64_t{1} << 20;

class GpuSpace final : public Space {
public:
    GpuSpace(int ordinal, int count, uint64_t reserve_bytes)
        : info_(device_info(ordinal)), count_(count)
    {
        off_the_gpu("a pool for buffers", [&] { open(reserve_bytes); });
    }

    ~GpuSpace() override
    {
        // If a program is stuck, or the context is dead, what we have stays taken: better than to
        // wait for ever.
        bool given_back = false;
        try {
            given_back = without_residents([this] { give_back(); });
        } catch (const Error&) {
        }
        if (!given_back) {
            mapped_.drain([](auto& block) { static_cast<void>(block.release()); });
            chip_->abandon();
        }
    }

    std::shared_ptr<Storage> allocate(uint64_t bytes, BufferKind kind) override
    {
        auto storage = std::make_shared<Storage>();
        storage->bytes = bytes;
        storage->kind = kind;
        const std::lock_guard guard(mutex_);
        const ContextScope scope(chip_->context());
        switch (kind) {
        case BufferKind::device: take_device(*storage); break;
        case BufferKind::pinned: take_pinned(*storage); break;
        case BufferKind::mapped:
            if (count_ > 1) {
                throw Error(Errc::bad_argument,
                            "a mapped buffer lies on the first of a program's GPUs, and handlers "
                            "on the others would not reach it; use pinned or device");
            }
            take_mapped(*storage);
            break;
        default:
            throw Error(Errc::bad_argument, std::string("a program on a GPU has no ") +
                                                to_string(kind) +
                                                " buffers; use device, pinned or mapped");
        }
        if (under_sanitizer()) residents().renew(info_.ordinal);
        return storage;
    }

private:
    void open(uint64_t reserve_bytes)
    {
        chip_ = std::make_unique<Chip>(info_, "buffers");
        try {
            const ContextScope scope(chip_->context());
            MemPoolProps props;
            props.location.id = info_.ordinal;
            check(driver_.mem_pool_create(&pool_, &props), "cuMemPoolCreate", info_.name);
            uint64_t keep = ~uint64_t{0}; // nothing goes back to the system before the end
            check(driver_.mem_pool_set_attribute(pool_, pool_release_threshold, &keep),
                  "cuMemPoolSetAttribute", "release threshold");
            // Whoever gets memory uses it at once, not in the order of our stream: the pool must
            // not answer with memory that is free only after something else on the GPU.
            int no = 0;
            check(driver_.mem_pool_set_attribute(pool_, pool_internal_dependencies, &no),
                  "cuMemPoolSetAttribute", "internal dependencies");
            for (int peer = 1; peer < count_; ++peer) {
                MemAccess access;
                access.location.id = info_.ordinal + peer;
                check(driver_.mem_pool_set_access(pool_, &access, 1), "cuMemPoolSetAccess",
                      "device " + std::to_string(access.location.id));
            }
            grow(reserve_bytes);
        } catch (...) {
            give_back();
            throw;
        }
    }

    void give_back()
    {
        {
            const ContextScope scope(chip_->context());
            pinned_.drain([&](void* p) { driver_.mem_free_host(p); });
            mapped_.drain([](auto& block) { block.reset(); });
            if (pool_ != nullptr) {
                driver_.mem_pool_destroy(pool_);
            }
        }
        chip_.reset();
    }

    // ---- device memory

    // What a block takes of the pool at most: the driver cuts large ones from pages of 2 MiB.
    static uint64_t share(uint64_t bytes)
    {
        const uint64_t unit = bytes < mib ? 512 : 2 * mib;
        return (bytes + unit - 1) / unit * unit;
    }

    // While no program is resident: makes the pool hold `bytes` more than it does.
    void grow(uint64_t bytes)
    {
        uint64_t reserved = 0;
        check(driver_.mem_pool_get_attribute(pool_, pool_reserved, &reserved),
              "cuMemPoolGetAttribute");
        DevicePtr block = 0;
        // Larger than all that is free now, so that the pool cannot answer out of that.
        const uint64_t size = share(bytes + (reserved > used_ ? reserved - used_ : 0));
        check_pool(driver_.mem_alloc_from_pool_async(&block, size, pool_, chip_->stream()), size);
        driver_.mem_free_async(block, chip_->stream());
        chip_->wait();
        check(driver_.mem_pool_get_attribute(pool_, pool_reserved, &reserved_),
              "cuMemPoolGetAttribute");
    }

    void check_pool(Result result, uint64_t bytes) const
    {
        if (result == error_out_of_memory) {
            throw Error(Errc::exhausted, "no device memory for a buffer of " +
                                             std::to_string(bytes) + " bytes on " + info_.name +
                                             "; close others");
        }
        check(result, "cuMemAllocFromPoolAsync", std::to_string(bytes) + " bytes");
    }

    void take_device(Storage& storage)
    {
        const uint64_t size = share(storage.bytes);
        DevicePtr p = 0;
        const auto take = [&] {
            check_pool(driver_.mem_alloc_from_pool_async(&p, size, pool_, chip_->stream()), size);
            // Nothing but frees is on this stream: this returns as soon as those have been seen.
            const Result result = driver_.stream_synchronize(chip_->stream());
            if (result != success) driver_.mem_free_async(p, chip_->stream());
            check(result, "cuStreamSynchronize");
        };
        // Twice the room that is needed, because what is free may lie in pieces. Else the pool
        // grows, which may wait for all that runs.
        if (used_ + 2 * size <= reserved_) {
            take();
        } else {
            off_the_gpu("the pool for buffers", [&] {
                grow(std::max(2 * size, 64 * mib));
                take();
            });
        }
        used_ += size;
        storage.data = reinterpret_cast<unsigned char*>(p);
        storage.owner = owned(storage.data, [size](GpuSpace& space, void* block) {
            space.driver_.mem_free_async(reinterpret_cast<DevicePtr>(block), space.chip_->stream());
            space.used_ -= size;
        });
    }

    // ---- memory that the CPU reaches

    void take_pinned(Storage& storage)
    {
        const uint64_t size = FreeList<void*>::size_class(storage.bytes);
        void* p = nullptr;
        if (const auto kept = pinned_.take(size)) {
            p = *kept;
        } else {
            off_the_gpu("page-locked memory", [&] {
                check(driver_.mem_host_alloc(&p, size, host_alloc_portable | host_alloc_device_map),
                      "cuMemHostAlloc", std::to_string(size) + " bytes");
            });
        }
        storage.data = storage.cpu = static_cast<unsigned char*>(p); // one address for both
        storage.owner =
            owned(p, [size](GpuSpace& space, void* block) { space.pinned_.give(size, block); });
    }

    void take_mapped(Storage& storage)
    {
        const uint64_t size = FreeList<void*>::size_class(storage.bytes);
        std::unique_ptr<MappedMemory> memory;
        if (auto kept = mapped_.take(size)) {
            memory = std::move(*kept);
        } else {
            std::string why;
            off_the_gpu("CPU-mapped memory", [&] {
                auto made = MappedMemory::try_create(info_.ordinal, info_.uuid, size, &why);
                if (made) {
                    memory = std::make_unique<MappedMemory>(std::move(*made));
                }
            });
            if (!memory) {
                throw Error(Errc::no_device, info_.name + " has no CPU-mapped device memory: " +
                                                 why + "; use pinned or device");
            }
        }
        storage.data = reinterpret_cast<unsigned char*>(memory->device());
        storage.cpu = reinterpret_cast<unsigned char*>(memory->host());
        storage.owner = owned(memory.release(), [size](GpuSpace& space, void* block) {
            space.mapped_.give(size,
                               std::unique_ptr<MappedMemory>(static_cast<MappedMemory*>(block)));
        });
    }

    // An owner that gives the block back to this space, which lives as long.
    template <class Give>
    std::shared_ptr<void> owned(void* block, Give give)
    {
        auto self = std::static_pointer_cast<GpuSpace>(shared_from_this());
        return {block, [self, give](void* p) {
                    const std::lock_guard guard(self->mutex_);
                    try {
                        const ContextScope scope(self->chip_->context());
                        give(*self, p);
                    } catch (const Error&) { // a dead context: nothing is left to give back to
                    }
                }};
    }

    const Driver& driver_ = driver();
    DeviceInfo info_;
    int count_;                  // GPUs that reach the pool, this one and those after it
    std::unique_ptr<Chip> chip_; // its stream: allocations
    std::mutex mutex_;
    MemPool pool_ = nullptr;
    uint64_t reserved_ = 0; // bytes that the pool holds
    uint64_t used_ = 0;     // and of them in buffers
    FreeList<void*> pinned_;
    FreeList<std::unique_ptr<MappedMemory>> mapped_;
};

} // namespace

std::shared_ptr<Space> make_gpu_space(int ordinal, int count, uint64_t reserve_bytes)
{
    return std::make_shared<GpuSpace>(ordinal, count, reserve_bytes);
}

} // namespace denizen

// SPDX-License-Identifier: Apache-2.0
// A resident model's blocks on a GPU, through the driver; their keeper keeps them there. Taking and
// freeing memory and loading code wait for what is resident: it happens while the programs of this
// process that would stay are off the GPU.
#include <denizen/infer/gpu.hpp>

#include "../../src/device/mapped.hpp"
#include "../../src/device/staged_copies.hpp"

#include <denizen/base/process.hpp>
#include <denizen/device/functions.hpp>
#include <denizen/device/keeper.hpp>
#include <denizen/device/primary_context.hpp>
#include <denizen/device/residents.hpp>

#include <array>
#include <cstring>
#include <map>
#include <thread>
#include <utility>
#include <vector>

namespace denizen::infer {
namespace {

using namespace gpu;
using detail::ResidentModel;

constexpr uint64_t patience_ns = 5'000'000'000; // for the blocks to leave: a breath
constexpr size_t static_bytes = 1024;           // of shared memory: Turn, and the driver's own

class GpuChip final : public Chip {
public:
    GpuChip(int ordinal, const Code& code, uint64_t breath_ns)
        : driver_(driver()), info_(device_info(ordinal)), breath_ns_(breath_ns)
    {
        if (!code.runs_on_gpu()) {
            throw Error(Errc::no_device, "the kernels of resident models were not compiled for a "
                                         "GPU: call on_gpu() from a file compiled by nvcc, or give "
                                         "it a cubin");
        }
        if (!info_.cooperative_launch || info_.major < 8) {
            throw Error(Errc::no_device, info_.name + " has compute capability " +
                                             std::to_string(info_.major) + "." +
                                             std::to_string(info_.minor) +
                                             "; resident models need 8.0 (A100) or newer");
        }
        off_the_gpu("the model", [&] { open(code); });
    }

    ~GpuChip() override
    {
        if (!process_.here()) {
            mapped_.release(); // the driver is the parent's
            context_.abandon();
            return;
        }
        stop();
        bool free = false;
        try { // if a program is stuck, what we have stays taken: better than to wait for ever
            free = without_residents([this] { give_back(); });
        } catch (const Error&) { // or a dead context: nothing is left to give back
        }
        if (!free) {
            mapped_.release();
            context_.abandon();
        }
    }

    const std::string& name() const override { return info_.name; }

    uint32_t most_blocks() override
    {
        const std::lock_guard guard(residents().mutex);
        const uint32_t taken = residents().taken(info_.ordinal);
        const auto sms = static_cast<uint32_t>(info_.sm_count);
        return taken < sms ? sms - taken : 0;
    }

    size_t shared_bytes() const override { return info_.shared_bytes - static_bytes; }

    bool clusters(Format format, uint32_t blocks, size_t bytes) override
    {
        const auto found = functions_.find(kernel_name(format, true));
        if (info_.major < 9 || found == functions_.end() || under_sanitizer()) {
            return false;
        }
        const ContextScope scope(context_);
        int compiled_for = 0;
        if (driver_.func_get_attribute(&compiled_for, func_ptx_version, found->second) != success ||
            compiled_for < 90 ||
            (blocks > 8 &&
             driver_.func_set_attribute(found->second, func_non_portable_cluster, 1) != success)) {
            return false;
        }
        LaunchAttribute attribute;
        const LaunchConfig config = configure(blocks, bytes, true, attribute);
        int room = 0;
        return driver_.occupancy_max_active_clusters(&room, found->second, &config) == success &&
               room >= 1;
    }

    void* device(size_t bytes, const std::string& what) override
    {
        DevicePtr p = 0;
        off_the_gpu("the model", [&] {
            const ContextScope scope(context_);
            if (driver_.mem_alloc(&p, bytes) != success) {
                throw Error(Errc::exhausted, "there is no memory on " + info_.name + " for " +
                                                 what + ": " + std::to_string(bytes) + " bytes");
            }
            device_.push_back(p);
            gpu::check(driver_.memset_d8_async(p, 0, bytes, copies_stream_), "cuMemsetD8Async");
            gpu::check(driver_.stream_synchronize(copies_stream_), "cuStreamSynchronize");
        });
        return reinterpret_cast<void*>(p);
    }

    void* host(size_t bytes) override
    {
        void* p = nullptr;
        off_the_gpu("the model", [&] { p = take_host(bytes); });
        return p;
    }

    Slots slots(size_t bytes) override
    {
        std::string why_not;
        std::optional<MappedMemory> made;
        off_the_gpu("the model", [&] {
            const ContextScope scope(context_);
            made = MappedMemory::try_create(info_.ordinal, info_.uuid, bytes, &why_not);
        });
        if (!made) {
            auto* const p = static_cast<Packet*>(host(bytes));
            return {p, p, false};
        }
        mapped_ = std::make_unique<MappedMemory>(std::move(*made));
        return {reinterpret_cast<Packet*>(mapped_->host()),
                reinterpret_cast<const Packet*>(mapped_->device()), true};
    }

    void write(void* device, const void* from, size_t bytes) override
    {
        if (!copies_.write(device, from, bytes)) lost();
    }
    void read(void* to, const void* device, size_t bytes) override
    {
        if (!copies_.read(to, device, bytes)) lost();
    }

    void start(const ResidentModel& model, Format format, bool clusters) override
    {
        clusters_ = clusters;
        kernel_ = functions_.at(kernel_name(format, clusters));
        model_ = model;
        model_.term.ns = breath_ns_;
        model_.term.state = reinterpret_cast<Term*>(term_);
        model_.term.words = words_;
        model_.term.blocks = model.blocks;
        Kept kept;
        kept.name = "the resident model";
        kept.grid = std::to_string(model.blocks) + " blocks of " +
                    std::to_string(detail::block_threads / 32) + " warps" +
                    (clusters ? " in one cluster" : "");
        kept.blocks = model.blocks;
        kept.anywhere = !clusters;
        kept.breath_ns = breath_ns_;
        kept.tick_ns = 2'000'000;
        kept.words = words_;
        kept.command = term_ + offsetof(Term, over);
        kept.stream = stream_;
        kept.context = &context_;
        kept.info = info_;
        kept.launch = launching(model_);
        keeper_.start(std::move(kept));
    }

    void hold() override
    {
        keeper_.hold();
        const uint64_t begin = now_ns();
        while (!keeper_.held()) { // ends as the blocks leave, or in time
            if (failed(nullptr)) lost();
            if (now_ns() - begin > patience_ns) {
                keeper_.let_go();
                throw Error(Errc::stuck,
                            "the resident model did not leave " + info_.name + " within 5 s");
            }
            std::this_thread::yield();
        }
    }

    void let_go() override { keeper_.let_go(); }

    void change(const ResidentModel& model) override
    {
        const TermRef term = model_.term;
        model_ = model;
        model_.term = term;
        keeper_.exchange(launching(model_));
    }

    void stop() override
    {
        if (!keeper_.resident()) {
            return;
        }
        keeper_.command(Command::stop);
        try {
            if (keeper_.join(patience_ns)) {
                return;
            }
        } catch (const Error&) { // a dead context
        }
        keeper_.abandon();
    }

    bool failed(std::string* why) const override
    {
        if (!keeper_.failed()) {
            return false;
        }
        std::string text;
        if (why != nullptr && keeper_.failure(text) != Errc::ok) *why = text;
        return true;
    }

private:
    [[noreturn]] void lost() const
    {
        std::string why = "the memory of " + info_.name + " is lost; start a new process";
        failed(&why);
        throw Error(Errc::peer_dead, why);
    }

    static std::string kernel_name(Format format, bool clusters)
    {
        return std::string(clusters ? "near_" : "far_") + to_string(format);
    }

    // Zero-filled.
    void* take_host(size_t bytes)
    {
        const ContextScope scope(context_);
        void* p = nullptr;
        gpu::check(driver_.mem_host_alloc(&p, bytes, host_alloc_portable | host_alloc_device_map),
                   "cuMemHostAlloc", std::to_string(bytes) + " bytes");
        host_.push_back(p);
        std::memset(p, 0, bytes);
        return p;
    }

    LaunchConfig configure(uint32_t blocks, size_t bytes, bool clusters,
                           LaunchAttribute& attribute) const
    {
        // Blocks wait for each other: all are there, or none.
        attribute.id = clusters ? launch_cluster_dimension : launch_cooperative;
        if (clusters) {
            attribute.value.cluster[0] = blocks;
            attribute.value.cluster[1] = attribute.value.cluster[2] = 1;
        } else {
            attribute.value.cooperative = 1;
        }
        LaunchConfig config;
        config.grid[0] = blocks;
        config.block[0] = detail::block_threads;
        config.shared_bytes = static_cast<unsigned>(bytes);
        config.stream = stream_;
        config.attributes = &attribute;
        config.attribute_count = 1;
        return config;
    }

    std::function<void(uint32_t, bool)> launching(const ResidentModel& model) const
    {
        return [this, model](uint32_t number, bool successor) {
            ResidentModel next = model;
            next.term.incarnation = number;
            next.term.successor = successor ? 1 : 0;
            void* arguments[] = {&next};
            LaunchAttribute attribute;
            const LaunchConfig config =
                configure(next.blocks, next.shared_bytes, clusters_, attribute);
            gpu::check(driver_.launch_kernel_ex(&config, kernel_, arguments, nullptr),
                       "cuLaunchKernelEx", "a resident model");
        };
    }

    void open(const Code& code)
    {
        context_ = PrimaryContext(info_);
        try {
            const ContextScope scope(context_);
            int least = 0;
            int greatest = 0;
            gpu::check(driver_.ctx_get_stream_priority_range(&least, &greatest),
                       "cuCtxGetStreamPriorityRange");
            // An incarnation does not wait behind blocks of other kernels that are queued.
            gpu::check(driver_.stream_create_with_priority(&stream_, stream_non_blocking, greatest),
                       "cuStreamCreateWithPriority");
            gpu::check(driver_.stream_create_with_priority(&copies_stream_, stream_non_blocking, 0),
                       "cuStreamCreateWithPriority");
            copies_.open(context_, copies_stream_,
                         static_cast<std::byte*>(take_host(StagedCopies::staging_bytes)));
            words_ = static_cast<ResidentWords*>(take_host(sizeof(ResidentWords)));
            gpu::check(driver_.mem_alloc(&term_, sizeof(Term)), "cuMemAlloc");
            device_.push_back(term_);
            gpu::check(driver_.memset_d8_async(term_, 0, sizeof(Term), stream_), "cuMemsetD8Async");
            load(code);
        } catch (...) {
            give_back();
            throw;
        }
    }

    // A cubin has the kernels of one format.
    void load(const Code& code)
    {
        std::vector<std::string> names;
        for (const Format format : {Format::fp32, Format::bf16, Format::fp16}) {
            for (const bool clusters : {false, true})
                names.push_back(kernel_name(format, clusters));
        }
        if (code.cubin.empty()) {
            functions_ = load_functions(code, module_, "denizen_infer_", names, "resident models'");
        } else {
            gpu::check(driver_.module_load_data(&module_, code.cubin.data()), "cuModuleLoadData",
                       "the cubin of resident models");
            for (const std::string& one : names) {
                Function function = nullptr;
                if (driver_.module_get_function(&function, module_,
                                                ("denizen_infer_" + one).c_str()) == success) {
                    functions_[one] = function;
                }
            }
        }
        for (const auto& [one, function] : functions_) {
            gpu::check(driver_.func_set_attribute(function, func_max_dynamic_shared,
                                                  static_cast<int>(shared_bytes())),
                       "cuFuncSetAttribute", "dynamic shared memory of " + one);
            // Once for nothing, while nobody is here who stays: a kernel's first launch may load
            // code, which waits for all that runs.
            ResidentModel nothing{};
            void* arguments[] = {&nothing};
            gpu::check(driver_.launch_kernel(function, 1, 1, 1, detail::block_threads, 1, 1, 0,
                                             stream_, arguments, nullptr),
                       "cuLaunchKernel", one);
        }
        gpu::check(driver_.stream_synchronize(stream_), "cuStreamSynchronize");
    }

    void give_back()
    {
        {
            const ContextScope scope(context_);
            mapped_.reset();
            for (void* p : host_) driver_.mem_free_host(p);
            for (const DevicePtr p : device_) driver_.mem_free(p);
            if (module_ != nullptr) driver_.module_unload(module_);
            for (const Stream stream : {stream_, copies_stream_}) {
                if (stream != nullptr) driver_.stream_destroy(stream);
            }
        }
        context_.release();
    }

    const Driver& driver_;
    Process process_;
    DeviceInfo info_;
    uint64_t breath_ns_;
    PrimaryContext context_;
    Stream stream_ = nullptr;
    Stream copies_stream_ = nullptr;
    StagedCopies copies_;
    Module module_ = nullptr;
    Functions functions_;
    Function kernel_ = nullptr;
    bool clusters_ = false;
    DevicePtr term_ = 0;
    ResidentWords* words_ = nullptr;
    std::vector<DevicePtr> device_;
    std::vector<void*> host_;
    std::unique_ptr<MappedMemory> mapped_;
    ResidentModel model_{};
    Keeper keeper_;
};

} // namespace

std::unique_ptr<Chip> on_gpu(int ordinal, const Code& code,
                             std::optional<std::chrono::microseconds> breath)
{
    return std::make_unique<GpuChip>(ordinal, code, breath_ns_of(breath));
}

} // namespace denizen::infer

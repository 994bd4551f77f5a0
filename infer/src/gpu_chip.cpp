// SPDX-License-Identifier: Apache-2.0
// A resident model's blocks on a GPU, through the driver; their keeper keeps them there. Taking and
// freeing memory and loading code wait for what is resident: it happens while the programs of this
// process that would stay are off the GPU.
#include <denizen/infer/gpu.hpp>

#include "../../src/device/mapped.hpp"
#include "../../src/device/staged_copies.hpp"

#include <denizen/base/process.hpp>
#include <denizen/device/chip.hpp>
#include <denizen/device/keeper.hpp>

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
        : info_(device_info(ordinal)), code_(code), breath_ns_(breath_ns)
    {
        if (!code.runs_on_gpu()) {
            throw Error(Errc::no_device, "the kernels of resident models were not compiled for a "
                                         "GPU: call on_gpu() from a file compiled by nvcc, or give "
                                         "it a cubin");
        }
        check_capability(info_, 8, "resident models need 8.0 (A100)");
        off_the_gpu("the model", [&] {
            gpu::Chip::open(chip_, info_, "the model", StreamPriority::highest,
                            [&] { open(code); });
        });
    }

    ~GpuChip() override
    {
        if (!process_.here()) {
            chip_->abandon(); // the driver is the parent's
            return;
        }
        stop();
        gpu::Chip::close(chip_);
    }

    std::unique_ptr<Chip> another() const override
    {
        return std::make_unique<GpuChip>(info_.ordinal, code_, breath_ns_);
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

    uint32_t clusters(Format format, uint32_t blocks, size_t bytes) override
    {
        const auto found = chip_->functions().find(kernel_name(format, true));
        if (info_.major < 9 || found == chip_->functions().end() || under_sanitizer()) {
            return 0;
        }
        const ContextScope scope(chip_->context());
        const Driver& cu = driver();
        int compiled_for = 0;
        if (cu.func_get_attribute(&compiled_for, func_ptx_version, found->second) != success ||
            compiled_for < 90 ||
            (blocks > 8 &&
             cu.func_set_attribute(found->second, func_non_portable_cluster, 1) != success)) {
            return 0;
        }
        const Configured config(shape(blocks, bytes, true), chip_->stream());
        int room = 0;
        return cu.occupancy_max_active_clusters(&room, found->second, config) == success && room > 0
                   ? static_cast<uint32_t>(room)
                   : 0;
    }

    void* device(size_t bytes, const std::string& what) override
    {
        DevicePtr p = 0;
        off_the_gpu("the model", [&] {
            const ContextScope scope(chip_->context());
            if (chip_->try_take(p, bytes) != success) {
                throw Error(Errc::exhausted, "there is no memory on " + info_.name + " for " +
                                                 what + ": " + std::to_string(bytes) + " bytes");
            }
            chip_->set(reinterpret_cast<void*>(p), 0, bytes);
            chip_->wait();
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
        const MappedMemory* mapped = nullptr;
        off_the_gpu("the model", [&] {
            const ContextScope scope(chip_->context());
            mapped = chip_->map(bytes, why_not);
        });
        if (mapped == nullptr) {
            auto* const p = static_cast<Packet*>(host(bytes));
            return {p, p, false};
        }
        return {reinterpret_cast<Packet*>(mapped->host()),
                reinterpret_cast<const Packet*>(mapped->device()), true};
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
        kernel_ = chip_->function(kernel_name(format, clusters));
        model_ = model;
        model_.term.ns = breath_ns_;
        model_.term.state = reinterpret_cast<Term*>(term_);
        model_.term.words = words_;
        model_.term.blocks = model.blocks;
        Kept kept(*chip_, shape(model.blocks, model.shared_bytes, clusters));
        kept.name = "the resident model";
        if (clusters) kept.grid += " in one cluster";
        kept.breath_ns = breath_ns_;
        kept.words = words_;
        kept.command = term_ + offsetof(Term, over);
        kept.launch = launching();
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
        keeper_.exchange(launching());
    }

    void stop() override { keeper_.end(patience_ns); }

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
        const ContextScope scope(chip_->context());
        return chip_->take_host(bytes, std::to_string(bytes) + " bytes");
    }

    // Blocks wait for each other: all are there, or none.
    static Shape shape(uint32_t blocks, size_t bytes, bool clusters)
    {
        return {.blocks = {blocks, 1, 1},
                .threads = {detail::block_threads, 1},
                .shared_bytes = bytes,
                .together = !clusters,
                .cluster = clusters ? blocks : 0};
    }

    std::function<void(uint32_t, bool)> launching() const
    {
        return by_term(model_, [this](const ResidentModel& next) {
            launch(kernel_, shape(next.blocks, next.shared_bytes, clusters_), chip_->stream(),
                   "a resident model", next);
        });
    }

    void open(const Code& code)
    {
        copies_.open(*chip_, StreamPriority::ordinary);
        words_ = static_cast<ResidentWords*>(take_host(sizeof(ResidentWords)));
        gpu::check(chip_->try_take(term_, sizeof(Term)), "cuMemAlloc");
        chip_->set(reinterpret_cast<void*>(term_), 0, sizeof(Term));
        std::vector<std::string> names;
        for (const Format format : {Format::fp32, Format::bf16, Format::fp16}) {
            for (const bool clusters : {false, true})
                names.push_back(kernel_name(format, clusters));
        }
        // A cubin has the kernels of one format.
        chip_->load(code, "denizen_infer_", names, "the cubin of resident models", false);
        for (const auto& [one, function] : chip_->functions()) {
            gpu::check(driver().func_set_attribute(function, func_max_dynamic_shared,
                                                   static_cast<int>(shared_bytes())),
                       "cuFuncSetAttribute", "dynamic shared memory of " + one);
            // Once for nothing, while nobody is here who stays: a kernel's first launch may load
            // code, which waits for all that runs.
            launch(function, {.threads = {detail::block_threads, 1}}, chip_->stream(), one,
                   ResidentModel{});
        }
        chip_->wait();
    }

    Process process_;
    DeviceInfo info_;
    Code code_;
    uint64_t breath_ns_;
    std::unique_ptr<gpu::Chip> chip_;
    StagedCopies copies_;
    Function kernel_ = nullptr;
    bool clusters_ = false;
    DevicePtr term_ = 0;
    ResidentWords* words_ = nullptr;
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

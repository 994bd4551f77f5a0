// SPDX-License-Identifier: Apache-2.0
// A rank on a GPU: its kernels and streams, the check of its links, and the resident group's teams,
// which a keeper keeps there.
#pragma once

#include "link_rate.hpp"
#include "member.hpp"
#include "rank_memory.hpp"

#include "device/mapped.hpp"
#include <denizen/device/keeper.hpp>

#include <denizen/base/clock.hpp>
#include <denizen/group/detail/links.hpp>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <thread>

namespace denizen::group {

using namespace gpu;

class GpuMember final : public Member {
public:
    GpuMember(std::unique_ptr<gpu::Chip> chip, const Layout& layout, uint32_t rank,
              const Code& code)
        : chip_(std::move(chip))
    {
        ref.layout = layout;
        ref.rank = rank;
        on_gpu = true;
        device = chip_->info().name;
        gpu::check_capability(chip_->info(), 9, "groups need 9.0 (H100)");
        const ContextScope scope(chip_->context());
        copies_ = chip_->open_stream(gpu::StreamPriority::ordinary);
        resident_stream_ = chip_->open_stream(gpu::StreamPriority::highest);
        DevicePtr reading = 0;
        check(chip_->try_take(reading, sizeof(LinkReading)), "cuMemAlloc", device);
        reading_ = reinterpret_cast<LinkReading*>(reading);
        placed_ = chip_->take<GroupRef>(1);
        load_code(code);
    }

    ~GpuMember() override
    {
        try { // if a program is stuck, what we have stays taken: better than to wait for ever
            without_residents([this] {
                const ContextScope scope(chip_->context());
                driver().stream_synchronize(chip_->stream());
                memory_.clear();
            });
        } catch (const Error&) { // a dead context: nothing is left to give back
        }
        gpu::Chip::close(chip_);
    }

    // Every rank's memory; this one's own is cleared by clear().
    void wire(std::vector<std::shared_ptr<RankMemory>> memory)
    {
        memory_ = std::move(memory);
        for (uint32_t r = 0; r < ref.layout.ranks; ++r) ref.memory[r] = memory_[r]->at();
    }

    void run(const Call& call, void* stream) override
    {
        const Function function = call_of(call);
        if (function == nullptr) throw_lack();
        launch_kernel(function, early(call.channels), stream_of(stream), ref, call);
    }

    void run_norm(const NormCall& call, void* stream) override
    {
        if (norm_ == nullptr) {
            throw Error(Errc::bad_argument, "the group has no kernel for all_reduce_norm: give it "
                                            "one by Group::add_norm()");
        }
        launch_kernel(norm_, early(call.channels), stream_of(stream), ref, call);
    }
    bool lacks_norm() const override { return norm_ == nullptr; }
    void add_norm(const Code& code) override
    {
        off_the_gpu("a group", [&] { load_kernels(code); });
    }

    bool lacks(const Call& call, bool resident) const override
    {
        if (!resident) return call_of(call) == nullptr;
        return (is_rare(call) ? rare_serve_ : serve_) == nullptr;
    }

    // By any thread: one of a process may load the code of all ranks.
    void add_code(const Code& code, bool resident) override
    {
        off_the_gpu("a group", [&] {
            load_kernels(code);
            if (resident && rare_serve_ != nullptr) make_ready(rare_serve_);
        });
    }

    void wait(void* stream) override
    {
        {
            const ContextScope scope(chip_->context());
            check(driver().stream_synchronize(stream_of(stream)), "cuStreamSynchronize", device);
        }
        uint32_t word = 0;
        read(&word, &ref.control(ref.rank)->poison, sizeof word);
        if (word != 0) throw_verdict(*this, Verdict::of(word));
    }

    void read(void* to, const void* from, size_t bytes) const override
    {
        const ContextScope scope(chip_->context());
        check(driver().memcpy_dtoh_async(to, reinterpret_cast<DevicePtr>(from), bytes, copies_),
              "cuMemcpyDtoHAsync", device);
        check(driver().stream_synchronize(copies_), "cuStreamSynchronize", device);
    }

    void begin_check() override
    {
        const ContextScope scope(chip_->context());
        chip_->put(placed_, &ref, 1); // whole: wire() and equip() came before
        chip_->set(reading_, 0, sizeof(LinkReading));
        launch_kernel(check_, plain(1), chip_->stream(), ref, uint32_t{max_ranks}, 0ull, reading_);
    }
    const GroupRef* placed() const override { return placed_; }

    void end_check() override
    {
        wait(nullptr); // throws if a rank did not come
        LinkReading reading;
        read(&reading, reading_, sizeof reading);
        const uint64_t bytes = std::min<uint64_t>(ref.layout.bytes(), uint64_t{64} << 20) / 16 * 16;
        for (GroupLink& link : links) {
            if ((reading.bad >> link.peer & 1) != 0) {
                throw Error(Errc::failed,
                            "rank " + std::to_string(ref.rank) + " (" + device + ") and rank " +
                                std::to_string(link.peer) + " (" + link.device +
                                ") do not read what the other writes, though the driver says that "
                                "they reach each other: leave one of them out");
            }
            const LinkRate rate =
                rate_of(ref.rank, link.peer, bytes, least_gbs,
                        [this](uint32_t rank, uint64_t some) { return read_rate(rank, some); });
            link.gbs = rate.gbs;
            if (rate.broken) {
                char text[64];
                std::snprintf(text, sizeof text, "%.3g GB/s, less than %.3g", link.gbs, least_gbs);
                throw Error(Errc::failed, "rank " + std::to_string(ref.rank) + " (" + device +
                                              ") reads rank " + std::to_string(link.peer) + " (" +
                                              link.device + ") at " + text +
                                              ": the transport is broken (see nvidia-smi topo -m "
                                              "and -p2p), or allow it by least_gbs");
            }
        }
    }

    Mailbox open_mailbox(uint32_t teams) override
    {
        if (serve_ == nullptr) throw_lack();
        Mailbox box{};
        box.teams = teams;
        off_the_gpu("a group", [&] {
            const ContextScope scope(chip_->context());
            if (!asked_for_inbox_) {
                asked_for_inbox_ = true;
                std::string why_not; // the host's memory does as well, some 2 us later
                inbox_ = chip_->map(ring, why_not);
            }
            // With the host: the ring, two packets, the teams' words, and the keeper's.
            const size_t words = (ring + line + sizeof(uint32_t) * teams + line - 1) / line * line;
            void* const host = chip_->take_host(words + sizeof(ResidentWords));
            auto* const bytes = static_cast<unsigned char*>(host);
            box.post = box.inbox = reinterpret_cast<Packet*>(bytes); // unified addresses: the
            box.left = reinterpret_cast<Packet*>(bytes + ring);      // device's too
            box.failed = box.left + 1;
            box.done = reinterpret_cast<uint32_t*>(bytes + ring + line);
            box.term.words = reinterpret_cast<ResidentWords*>(bytes + words);
            box.term.blocks = teams;
            DevicePtr near = 0;
            const Result result = chip_->try_take(near, near_bytes);
            if (result != success) chip_->free_host(host);
            check(result, "cuMemAlloc", device);
            box.relay = reinterpret_cast<Packet*>(near);
            box.term.state = reinterpret_cast<Term*>(near + ring);
            box.stay = reinterpret_cast<Stay*>(near + ring + sizeof(Term));
            check(driver().memset_d8_async(near, 0, near_bytes, resident_stream_),
                  "cuMemsetD8Async");
            check(driver().memset_d32_async(near + ring + sizeof(Term) + offsetof(Stay, number), 1,
                                            1, resident_stream_),
                  "cuMemsetD32Async");
            if (inbox_ != nullptr) {
                box.post = reinterpret_cast<Packet*>(inbox_->host());
                box.inbox = box.relay = reinterpret_cast<Packet*>(inbox_->device());
                check(driver().memset_d8_async(reinterpret_cast<DevicePtr>(box.inbox), 0, ring,
                                               resident_stream_),
                      "cuMemsetD8Async");
            }
            make_ready(serve_);
        });
        return box;
    }

    void put_on(const Mailbox& box, uint64_t breath_ns) override
    {
        box_ = box;
        box_.term.ns = breath_ns;
        posted_.store(0, std::memory_order_relaxed);
        Kept kept(*chip_, together(box.teams));
        kept.name = "the resident group's rank " + std::to_string(ref.rank);
        kept.breath_ns = breath_ns;
        kept.ends_by_itself = true; // after the lease, or when its peers have come
        kept.words = box.term.words;
        kept.command = reinterpret_cast<DevicePtr>(&box.term.state->over);
        kept.stream = resident_stream_;
        kept.launch = by_term(box_, [this](const Mailbox& next) {
            launch_kernel(serve_, together(next.teams), resident_stream_, ref, next);
        });
        kept.needed = [this] {
            const uint32_t left = Direct::load(box_.left).sequence;
            return static_cast<int32_t>(posted_.load(std::memory_order_relaxed) - left) >= 0;
        };
        keeper_ = std::make_unique<Keeper>();
        keeper_->start(std::move(kept));
    }

    void posted(uint32_t number) override
    {
        posted_.store(number, std::memory_order_relaxed);
        keeper_->wake(); // has a fence between the two; partner: the keeper's, before `needed`
        std::string text;
        if (keeper_->failed()) throw Error(keeper_->failure(text), text);
    }

    uint32_t launches() const override { return static_cast<uint32_t>(keeper_->launches()); }
    uint64_t incarnations() const override { return keeper_->incarnations(); }

    void serve_rare() override
    {
        if (serve_ == rare_serve_) return;
        if (rare_serve_ == nullptr) throw_lack();
        // An incarnation that is queued already is launched with the kernel that it has. So the
        // teams leave first; calls that are posted stay where they are.
        const uint64_t deadline = now_ns() + patience_ns();
        keeper_->hold();
        while (!keeper_->held() && !keeper_->failed() && now_ns() < deadline) {
            std::this_thread::yield(); // ends with the teams' calls, which have a deadline
        }
        if (keeper_->held()) serve_ = rare_serve_.load();
        keeper_->let_go();
        std::string text;
        if (keeper_->failed()) throw Error(keeper_->failure(text), text);
        if (serve_ != rare_serve_) {
            throw Error(Errc::stuck, "the resident group's rank " + std::to_string(ref.rank) +
                                         " does not leave its GPU to take the kernels of more "
                                         "types");
        }
    }

    void close_mailbox(const Mailbox& box) override
    {
        if (keeper_) keeper_->end(patience_ns());
        keeper_.reset();
        try {
            const ContextScope scope(chip_->context());
            driver().stream_synchronize(resident_stream_); // ends: see mailbox.hpp
            without_residents([&] {
                const ContextScope inner(chip_->context());
                chip_->free(reinterpret_cast<unsigned char*>(box.term.state) - ring);
                chip_->free_host(reinterpret_cast<unsigned char*>(box.left) - ring);
            });
        } catch (const Error&) { // a dead context
        }
    }

    const gpu::Chip& chip() const { return *chip_; }
    void clear()
    {
        const ContextScope scope(chip_->context());
        chip_->set(memory_[ref.rank]->at(), 0, ref.layout.stages());
        chip_->wait();
    }

private:
    static constexpr size_t ring = sizeof(Packet) * posts * post_packets; // of a mailbox
    static constexpr size_t near_bytes = ring + sizeof(Term) + sizeof(Stay);
    static_assert(ring % line == 0 && sizeof(Term) % alignof(Stay) == 0);

    // A team may wait for its peers until the group's deadline.
    uint64_t patience_ns() const { return 2 * ref.timeout_ns + 5'000'000'000; }

    // Once for nothing, while nobody is here who stays: a kernel's first launch may load code,
    // which waits for all that runs.
    void make_ready(Function serve)
    {
        launch_kernel(serve, together(1), resident_stream_, ref, Mailbox{});
        check(driver().stream_synchronize(resident_stream_), "cuStreamSynchronize", device);
    }

    [[noreturn]] void throw_lack() const
    {
        if (call_of(Call{}) == nullptr) {
            throw Error(Errc::bad_argument,
                        "the group is called by handlers and tasks only: to launch its kernels, "
                        "make it in a file without DENIZEN_GROUP_INSIDE_ONLY");
        }
        throw Error(Errc::bad_argument,
                    "the group's kernels are those of launched calls of f32, f16, bf16 and i32: "
                    "give it those of other types and of resident groups by Group::add_code()");
    }

    Stream stream_of(void* stream) const
    {
        return stream != nullptr ? static_cast<Stream>(stream) : chip_->stream();
    }

    void load_code(const Code& code)
    {
        if (!code.runs_on_gpu()) {
            throw Error(Errc::bad_argument, "a group on GPUs needs its kernels: compile the file "
                                            "that makes it with nvcc, or give a cubin");
        }
        load_kernels(code);
        check_ = loaded("check");
        if (check_ == nullptr) {
            throw Error(Errc::bad_argument, "the groups' cubin has no kernel denizen_group_check: "
                                            "compile it of denizen/group/kernels.hpp");
        }
    }

    // Those that `code` has.
    void load_kernels(const Code& code)
    {
        const ContextScope scope(chip_->context());
        std::vector<std::string> names{"check", "call_rare", "serve", "serve_common", "norm"};
        for (uint32_t t = 0; t < types; ++t) {
            if (is_common(static_cast<Type>(t))) names.push_back(call_name(static_cast<Type>(t)));
        }
        chip_->load(code, "denizen_group_", names, "the groups' cubin", false);
        for (uint32_t t = 0; t < types; ++t) {
            const auto type = static_cast<Type>(t);
            call_[t] = loaded(is_common(type) ? call_name(type) : "call_rare");
        }
        norm_ = loaded("norm");
        rare_serve_ = loaded("serve");
        if (serve_ == nullptr) {
            const Function common = loaded("serve_common");
            serve_ = common != nullptr ? common : rare_serve_.load();
        }
    }
    static std::string call_name(Type type) { return std::string("call_") + to_string(type); }
    // Null: missing.
    Function loaded(const std::string& name) const
    {
        const auto at = chip_->functions().find(name);
        return at != chip_->functions().end() ? at->second : nullptr;
    }

    // What is launched for it; null: missing.
    Function call_of(const Call& call) const
    {
        const Type type = call.kind == Kind::barrier ? Type::f32 : moved(call).type;
        return call_[static_cast<uint32_t>(type)];
    }

    static Shape plain(unsigned blocks)
    {
        return {.blocks = {blocks, 1, 1}, .threads = {team_threads, 1}};
    }
    static Shape together(unsigned blocks)
    {
        return {.blocks = {blocks, 1, 1}, .threads = {team_threads, 1}, .together = true};
    }
    static Shape early(unsigned blocks)
    {
        return {.blocks = {blocks, 1, 1}, .threads = {team_threads, 1}, .early = true};
    }

    // Arguments must have exactly the kernel's types.
    template <class... Arguments>
    void launch_kernel(Function function, const Shape& shape, Stream stream, Arguments... arguments)
    {
        const ContextScope scope(chip_->context());
        launch(function, shape, stream, "a group's", arguments...);
    }

    // 10^9 bytes a second, by the GPU's clock.
    double read_rate(uint32_t rank, uint64_t bytes)
    {
        const ContextScope scope(chip_->context());
        chip_->set(reading_, 0, sizeof(LinkReading));
        launch_kernel(check_, plain(2 * chip_->sms()), chip_->stream(), ref, rank, 0ull + bytes,
                      reading_);
        LinkReading reading;
        chip_->fetch(&reading, reading_, 1);
        return static_cast<double>(bytes) / static_cast<double>(reading.ns());
    }

    std::unique_ptr<gpu::Chip> chip_;
    Stream copies_ = nullptr; // not behind a call's kernel
    Stream resident_stream_ = nullptr;
    LinkReading* reading_ = nullptr;
    GroupRef* placed_ = nullptr;
    // Null: missing.
    Function check_ = nullptr;
    std::atomic<Function> call_[types] = {};
    std::atomic<Function> norm_{nullptr};
    std::atomic<Function> serve_{nullptr};      // what incarnations of the resident group are
    std::atomic<Function> rare_serve_{nullptr}; // with all types
    std::vector<std::shared_ptr<RankMemory>> memory_;
    const MappedMemory* inbox_ = nullptr; // of resident groups
    bool asked_for_inbox_ = false;
    Mailbox box_{}; // of the resident group, if there is one
    std::atomic<uint32_t> posted_{0};
    std::unique_ptr<gpu::Keeper> keeper_;
};

} // namespace denizen::group

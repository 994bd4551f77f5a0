// SPDX-License-Identifier: Apache-2.0
// Ranks on GPUs that reach each other's memory: all in one process, or one process each. Symmetric
// memory is device memory made by cuMemCreate and mapped for those who use it (other processes get
// it as a POSIX descriptor); multicast objects are never made. Taking and mapping memory and
// loading code may wait for what is resident: the resident programs of this process leave for that
// moment.
#include "member.hpp"

#include "device/mapped.hpp"
#include <denizen/device/functions.hpp>
#include <denizen/device/keeper.hpp>
#include <denizen/device/primary_context.hpp>
#include <denizen/device/residents.hpp>

#include <denizen/base/clock.hpp>
#include <denizen/group/detail/links.hpp>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <functional>
#include <optional>
#include <thread>
#include <unistd.h>

namespace denizen::group {
namespace {

using namespace gpu;

struct Chip {
    explicit Chip(int ordinal) : info(device_info(ordinal)), context(info) {}

    DeviceInfo info;
    PrimaryContext context;
};

// One rank's memory, mapped for some devices of this process.
class Mapped {
public:
    // Made on `chip`; or, with a descriptor, another process's.
    Mapped(const Chip& chip, uint64_t bytes, const std::vector<int>& users, int descriptor = -1)
    {
        const ContextScope scope(chip.context);
        MemProps props;
        props.handle_types = handle_posix_fd;
        props.location.id = chip.info.ordinal;
        size_t unit = 0;
        check(driver_.mem_get_allocation_granularity(&unit, &props, 0),
              "cuMemGetAllocationGranularity", chip.info.name);
        bytes_ = (bytes + unit - 1) / unit * unit;
        if (descriptor < 0) {
            const Result result = driver_.mem_create(&handle_, bytes_, &props, 0);
            if (result == error_out_of_memory) {
                throw Error(Errc::exhausted, "no " + std::to_string(bytes_ >> 20) +
                                                 " MiB left on " + chip.info.name +
                                                 " for a rank of a group; give it less heap, "
                                                 "channels or stage_bytes");
            }
            check(result, "cuMemCreate", chip.info.name);
        } else {
            void* const by_value = reinterpret_cast<void*>(static_cast<intptr_t>(descriptor));
            check(driver_.mem_import_from_shareable_handle(&handle_, by_value, handle_posix_fd),
                  "cuMemImportFromShareableHandle", chip.info.name);
        }
        try {
            check(driver_.mem_address_reserve(&at_, bytes_, 0, 0, 0), "cuMemAddressReserve");
            check(driver_.mem_map(at_, bytes_, 0, handle_, 0), "cuMemMap");
            mapped_ = true;
            std::vector<MemAccess> access(users.size());
            for (size_t i = 0; i < users.size(); ++i) access[i].location.id = users[i];
            check(driver_.mem_set_access(at_, bytes_, access.data(), access.size()),
                  "cuMemSetAccess", "the GPUs of a group");
        } catch (...) {
            give_back();
            throw;
        }
    }
    ~Mapped() { give_back(); }
    Mapped(const Mapped&) = delete;
    Mapped& operator=(const Mapped&) = delete;

    unsigned char* at() const { return reinterpret_cast<unsigned char*>(at_); }
    uint64_t bytes() const { return bytes_; }
    int export_descriptor() const
    {
        int fd = -1;
        check(driver_.mem_export_to_shareable_handle(&fd, handle_, handle_posix_fd, 0),
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

    const Driver& driver_ = driver();
    uint64_t bytes_ = 0;
    MemHandle handle_ = 0;
    DevicePtr at_ = 0;
    bool mapped_ = false;
};

class GpuMember final : public Member {
public:
    GpuMember(std::shared_ptr<Chip> chip, const Layout& layout, uint32_t rank, const Code& code)
        : chip_(std::move(chip)), driver_(driver())
    {
        ref.layout = layout;
        ref.rank = rank;
        on_gpu = true;
        device = chip_->info.name;
        if (!chip_->info.cooperative_launch || chip_->info.major < 9) {
            throw Error(Errc::no_device, device + " has compute capability " +
                                             std::to_string(chip_->info.major) + "." +
                                             std::to_string(chip_->info.minor) +
                                             "; groups need 9.0 (H100) or newer");
        }
        try {
            const ContextScope scope(chip_->context);
            check(driver_.stream_create_with_priority(&stream_, stream_non_blocking, 0),
                  "cuStreamCreateWithPriority");
            check(driver_.stream_create_with_priority(&copies_, stream_non_blocking, 0),
                  "cuStreamCreateWithPriority");
            int least = 0;
            int greatest = 0;
            check(driver_.ctx_get_stream_priority_range(&least, &greatest),
                  "cuCtxGetStreamPriorityRange");
            // An incarnation does not wait behind blocks of other kernels that are queued.
            check(driver_.stream_create_with_priority(&resident_stream_, stream_non_blocking,
                                                      greatest),
                  "cuStreamCreateWithPriority");
            check(driver_.mem_alloc(&result_, sizeof(uint32_t)), "cuMemAlloc", device);
            load_code(code);
        } catch (...) {
            give_back();
            throw;
        }
    }

    ~GpuMember() override
    {
        try { // if a program is stuck, what we have stays taken: better than to wait for ever
            without_residents([this] { give_back(); });
        } catch (const Error&) { // a dead context: nothing is left to give back
        }
    }

    // Every rank's memory; this one's own is cleared by clear().
    void wire(std::vector<std::shared_ptr<Mapped>> memory)
    {
        memory_ = std::move(memory);
        for (uint32_t r = 0; r < ref.layout.ranks; ++r) ref.memory[r] = memory_[r]->at();
    }

    void run(const Call& call, void* stream) override
    {
        Function function = functions_.at("call");
        if (is_rare(call)) {
            function = rare_call_;
            if (function == nullptr) throw_lack();
        }
        launch_kernel(function, call.channels, Launch::early, stream_of(stream), ref, call);
    }

    bool lacks_rare(bool resident) const override
    {
        return (resident ? rare_serve_ : rare_call_) == nullptr;
    }

    // By any thread: one of a process may load the code of all ranks.
    void add_code(const Code& code, bool resident) override
    {
        off_the_gpu("a group", [&] {
            const ContextScope scope(chip_->context);
            std::vector<std::string> names{"call"};
            if (resident) names.emplace_back("serve");
            const Functions more =
                load_functions(code, more_.emplace_back(), "denizen_group_", names, "the groups'");
            if (resident) {
                make_ready(more.at("serve"));
                rare_serve_ = more.at("serve");
            }
            rare_call_ = more.at("call");
        });
    }

    void wait(void* stream) override
    {
        {
            const ContextScope scope(chip_->context);
            check(driver_.stream_synchronize(stream_of(stream)), "cuStreamSynchronize", device);
        }
        uint32_t word = 0;
        read(&word, &ref.control(ref.rank)->poison, sizeof word);
        if (word != 0) throw_verdict(*this, Verdict::of(word));
    }

    void read(void* to, const void* from, size_t bytes) const override
    {
        const ContextScope scope(chip_->context);
        check(driver_.memcpy_dtoh_async(to, reinterpret_cast<DevicePtr>(from), bytes, copies_),
              "cuMemcpyDtoHAsync", device);
        check(driver_.stream_synchronize(copies_), "cuStreamSynchronize", device);
    }

    void begin_check() override
    {
        launch_kernel(functions_.at("check"), 1, Launch::plain, stream_, ref, uint32_t{max_ranks},
                      0ull, reinterpret_cast<uint32_t*>(result_));
    }

    void end_check() override
    {
        wait(nullptr); // throws if a rank did not come
        uint32_t bad = 0;
        read(&bad, reinterpret_cast<const void*>(result_), sizeof bad);
        for (GroupLink& link : links) {
            if ((bad >> link.peer & 1) != 0) {
                throw Error(Errc::failed,
                            "rank " + std::to_string(ref.rank) + " (" + device + ") and rank " +
                                std::to_string(link.peer) + " (" + link.device +
                                ") do not read what the other writes, though the driver says that "
                                "they reach each other: leave one of them out");
            }
            link.gbs = read_rate(link.peer);
            if (link.gbs < least_gbs) {
                char rate[64];
                std::snprintf(rate, sizeof rate, "%.3g GB/s, less than %.3g", link.gbs, least_gbs);
                throw Error(Errc::failed, "rank " + std::to_string(ref.rank) + " (" + device +
                                              ") reads rank " + std::to_string(link.peer) + " (" +
                                              link.device + ") at " + rate +
                                              ": the transport is broken (see nvidia-smi topo -m "
                                              "and -p2p), or allow it by least_gbs");
            }
        }
    }

    Mailbox open_mailbox(uint32_t teams) override
    {
        Mailbox box{};
        box.teams = teams;
        off_the_gpu("a group", [&] {
            const ContextScope scope(chip_->context);
            if (!asked_for_inbox_) {
                asked_for_inbox_ = true;
                std::string why_not; // the host's memory does as well, some 2 us later
                inbox_ =
                    MappedMemory::try_create(chip_->info.ordinal, chip_->info.uuid, ring, &why_not);
            }
            // With the host: the ring, two packets, the teams' words, and the keeper's.
            const size_t words = (ring + line + sizeof(uint32_t) * teams + line - 1) / line * line;
            void* host = nullptr;
            check(driver_.mem_host_alloc(&host, words + sizeof(ResidentWords),
                                         host_alloc_portable | host_alloc_device_map),
                  "cuMemHostAlloc");
            std::memset(host, 0, words + sizeof(ResidentWords));
            auto* const bytes = static_cast<unsigned char*>(host);
            box.post = box.inbox = reinterpret_cast<Packet*>(bytes); // unified addresses: the
            box.left = reinterpret_cast<Packet*>(bytes + ring);      // device's too
            box.failed = box.left + 1;
            box.done = reinterpret_cast<uint32_t*>(bytes + ring + line);
            box.term.words = reinterpret_cast<ResidentWords*>(bytes + words);
            box.term.blocks = teams;
            DevicePtr near = 0;
            const Result result = driver_.mem_alloc(&near, near_bytes);
            if (result != success) driver_.mem_free_host(host);
            check(result, "cuMemAlloc", device);
            box.relay = reinterpret_cast<Packet*>(near);
            box.term.state = reinterpret_cast<Term*>(near + ring);
            box.stay = reinterpret_cast<Stay*>(near + ring + sizeof(Term));
            check(driver_.memset_d8_async(near, 0, near_bytes, resident_stream_),
                  "cuMemsetD8Async");
            check(driver_.memset_d32_async(near + ring + sizeof(Term) + offsetof(Stay, number), 1,
                                           1, resident_stream_),
                  "cuMemsetD32Async");
            if (inbox_) {
                box.post = reinterpret_cast<Packet*>(inbox_->host());
                box.inbox = box.relay = reinterpret_cast<Packet*>(inbox_->device());
                check(driver_.memset_d8_async(reinterpret_cast<DevicePtr>(box.inbox), 0, ring,
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
        Kept kept;
        kept.name = "the resident group's rank " + std::to_string(ref.rank);
        kept.grid = std::to_string(box.teams) + " blocks of " + std::to_string(team_threads / 32) +
                    " warps";
        kept.blocks = box.teams;
        kept.breath_ns = breath_ns;
        kept.ends_by_itself = true; // after the lease, or when its peers have come
        kept.tick_ns = 2'000'000;
        kept.words = box.term.words;
        kept.command = reinterpret_cast<DevicePtr>(&box.term.state->over);
        kept.stream = resident_stream_;
        kept.context = &chip_->context;
        kept.info = chip_->info;
        kept.launch = [this](uint32_t number, bool successor) {
            Mailbox next = box_;
            next.term.incarnation = number;
            next.term.successor = successor ? 1 : 0;
            launch_kernel(serve_, next.teams, Launch::together, resident_stream_, ref, next);
        };
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
        if (lacks_rare(true)) throw_lack();
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
        if (keeper_ && keeper_->resident()) take_off();
        keeper_.reset();
        try {
            const ContextScope scope(chip_->context);
            driver_.stream_synchronize(resident_stream_); // ends: see mailbox.hpp
            without_residents([&] {
                const ContextScope inner(chip_->context);
                driver_.mem_free(reinterpret_cast<DevicePtr>(box.term.state) - ring);
                driver_.mem_free_host(host_of(box));
            });
        } catch (const Error&) { // a dead context
        }
    }

    const Chip& chip() const { return *chip_; }
    void clear()
    {
        const ContextScope scope(chip_->context);
        check(driver_.memset_d8_async(reinterpret_cast<DevicePtr>(memory_[ref.rank]->at()), 0,
                                      ref.layout.stages(), stream_),
              "cuMemsetD8Async");
        check(driver_.stream_synchronize(stream_), "cuStreamSynchronize", device);
    }
    bool atomics_with(const Chip& other) const
    {
        int can = 0;
        check(driver_.device_get_p2p_attribute(&can, p2p_native_atomics, chip_->context.device(),
                                               other.context.device()),
              "cuDeviceGetP2PAttribute");
        return can != 0;
    }

private:
    static constexpr size_t ring = sizeof(Packet) * posts * post_packets; // of a mailbox
    static constexpr size_t near_bytes = ring + sizeof(Term) + sizeof(Stay);
    static_assert(ring % line == 0 && sizeof(Term) % alignof(Stay) == 0);

    static void* host_of(const Mailbox& box)
    {
        return reinterpret_cast<unsigned char*>(box.left) - ring;
    }

    // A team may wait for its peers until the group's deadline.
    uint64_t patience_ns() const { return 2 * ref.timeout_ns + 5'000'000'000; }

    // Once for nothing, while nobody is here who stays: a kernel's first launch may load code,
    // which waits for all that runs.
    void make_ready(Function serve)
    {
        launch_kernel(serve, 1, Launch::together, resident_stream_, ref, Mailbox{});
        check(driver_.stream_synchronize(resident_stream_), "cuStreamSynchronize", device);
    }

    [[noreturn]] static void throw_lack()
    {
        throw Error(Errc::bad_argument,
                    "the group's kernels are those of f32, f16, bf16 and i32: give it those of the "
                    "other types by Group::add_code()");
    }

    void take_off()
    {
        keeper_->command(Command::stop);
        try {
            if (keeper_->join(patience_ns())) return;
        } catch (const Error&) { // a dead context
        }
        keeper_->abandon();
    }

    void give_back()
    {
        const ContextScope scope(chip_->context);
        if (stream_ != nullptr) driver_.stream_synchronize(stream_);
        if (result_ != 0) driver_.mem_free(result_);
        if (module_ != nullptr) driver_.module_unload(module_);
        for (const Module module : more_) driver_.module_unload(module);
        for (const Stream s : {stream_, copies_, resident_stream_}) {
            if (s != nullptr) driver_.stream_destroy(s);
        }
        inbox_.reset();
        memory_.clear();
    }

    Stream stream_of(void* stream) const
    {
        return stream != nullptr ? static_cast<Stream>(stream) : stream_;
    }

    void load_code(const Code& code)
    {
        if (!code.runs_on_gpu()) {
            throw Error(Errc::bad_argument, "a group on GPUs needs its kernels: compile the file "
                                            "that makes it with nvcc, or give a cubin");
        }
        functions_ = load_functions(code, module_, "denizen_group_", {"call", "check", "serve"},
                                    "the groups'");
        serve_ = functions_.at("serve");
        Function found = nullptr;
        const bool common =
            module_ != nullptr &&
            driver_.module_get_function(&found, module_, "denizen_group_common") == success;
        if (common) return;
        rare_call_ = functions_.at("call");
        rare_serve_ = functions_.at("serve");
    }

    enum class Launch {
        plain,
        together, // all blocks at once, or an error
        early,    // its blocks may come while the kernel before is ending, and wait themselves
    };

    // Arguments must have exactly the kernel's types.
    template <class... Arguments>
    void launch_kernel(Function function, unsigned blocks, Launch launch, Stream stream,
                       Arguments... arguments)
    {
        const ContextScope scope(chip_->context);
        void* pointers[] = {&arguments...};
        LaunchAttribute attribute;
        if (launch == Launch::together) {
            attribute.id = launch_cooperative;
            attribute.value.cooperative = 1;
        } else {
            attribute.id = launch_programmatic_serialization;
            attribute.value.programmatic_serialization = 1;
        }
        LaunchConfig config;
        config.grid[0] = blocks;
        config.block[0] = team_threads;
        config.stream = stream;
        config.attributes = &attribute;
        config.attribute_count = launch == Launch::plain ? 0 : 1;
        check(driver_.launch_kernel_ex(&config, function, pointers, nullptr), "cuLaunchKernelEx",
              "a group's");
    }

    // 10^9 bytes a second, the best of three, by the host's clock: 64 MiB take 0.2 ms at best.
    double read_rate(uint32_t peer)
    {
        const uint64_t bytes = std::min<uint64_t>(ref.layout.bytes(), uint64_t{64} << 20) / 16 * 16;
        // Other programs of this GPU take turns with us, of some milliseconds each: a reading that
        // waited for its turn says nothing of the link.
        constexpr uint64_t patience_ns = 1'000'000'000;
        double best = 0;
        const uint64_t began = now_ns();
        for (int i = 0; i < 3 || (best < least_gbs && now_ns() - began < patience_ns); ++i) {
            const uint64_t begin = now_ns();
            launch_kernel(functions_.at("check"), static_cast<unsigned>(2 * chip_->info.sm_count),
                          Launch::plain, stream_, ref, peer, 0ull + bytes,
                          reinterpret_cast<uint32_t*>(result_));
            const ContextScope scope(chip_->context);
            check(driver_.stream_synchronize(stream_), "cuStreamSynchronize", device);
            best =
                std::max(best, static_cast<double>(bytes) / static_cast<double>(now_ns() - begin));
        }
        return best;
    }

    std::shared_ptr<Chip> chip_;
    const Driver& driver_;
    Stream stream_ = nullptr;
    Stream copies_ = nullptr; // not behind a call's kernel
    Stream resident_stream_ = nullptr;
    Module module_ = nullptr;
    DevicePtr result_ = 0;
    Functions functions_;
    std::vector<Module> more_;                  // by add_code()
    std::atomic<Function> serve_{nullptr};      // what incarnations of the resident group are
    std::atomic<Function> rare_call_{nullptr};  // with the rare types; null: missing
    std::atomic<Function> rare_serve_{nullptr}; // with all types; null: missing
    std::vector<std::shared_ptr<Mapped>> memory_;
    std::optional<MappedMemory> inbox_; // of resident groups
    bool asked_for_inbox_ = false;
    Mailbox box_{}; // of the resident group, if there is one
    std::atomic<uint32_t> posted_{0};
    std::unique_ptr<gpu::Keeper> keeper_;
};

void check_reach(const Chip& from, const Chip& to)
{
    int can = 0;
    check(driver().device_can_access_peer(&can, from.context.device(), to.context.device()),
          "cuDeviceCanAccessPeer");
    if (can == 0) {
        throw Error(Errc::no_device, from.info.name + " (GPU " + std::to_string(from.info.ordinal) +
                                         ") cannot reach the memory of " + to.info.name + " (GPU " +
                                         std::to_string(to.info.ordinal) +
                                         "): a group needs GPUs with peer access");
    }
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
        std::vector<std::shared_ptr<Chip>> chips;
        std::vector<int> ordinals;
        for (uint32_t r = 0; r < layout.ranks; ++r) {
            chips.push_back(std::make_shared<Chip>(first + static_cast<int>(r)));
            ordinals.push_back(chips.back()->info.ordinal);
        }
        std::vector<std::shared_ptr<Mapped>> memory;
        for (const auto& chip : chips) {
            for (const auto& other : chips) {
                if (other != chip) check_reach(*chip, *other);
            }
            memory.push_back(std::make_shared<Mapped>(*chip, layout.bytes(), ordinals));
        }
        for (uint32_t r = 0; r < layout.ranks; ++r) {
            // Into `members` at once: a member that goes waits for the residents, and may not do so
            // here.
            auto* const member = new GpuMember(chips[r], layout, r, code);
            members.emplace_back(member);
            member->wire(memory);
            member->clear();
            for (uint32_t peer = 0; peer < layout.ranks; ++peer) {
                if (peer == r) continue;
                member->links.push_back(
                    {peer, chips[peer]->info.name, 0, member->atomics_with(*chips[peer])});
                check_atomics(member->links.back(), r);
            }
        }
    });
    return members;
}

std::unique_ptr<Member> join_gpu(const std::string& path, Hello hello,
                                 std::chrono::nanoseconds timeout, int ordinal, const Code& code)
{
    std::shared_ptr<Chip> chip;
    std::shared_ptr<Mapped> mine;
    std::unique_ptr<GpuMember> member;
    int descriptor = -1;
    const auto clear = [&] {
        // The peers write here as soon as they know the descriptor: cleared before that.
        member->wire(std::vector<std::shared_ptr<Mapped>>(hello.layout.ranks, mine));
        member->clear();
    };
    off_the_gpu("a group", [&] {
        chip = std::make_shared<Chip>(ordinal);
        mine = std::make_shared<Mapped>(*chip, hello.layout.bytes(),
                                        std::vector<int>{chip->info.ordinal});
        member = std::make_unique<GpuMember>(chip, hello.layout, hello.rank, code);
        clear();
        descriptor = mine->export_descriptor();
    });
    hello.bytes = mine->bytes();
    hello.process = static_cast<int32_t>(getpid());
    std::strncpy(hello.device, chip->info.name.c_str(), sizeof hello.device - 1);
    std::memcpy(hello.uuid, chip->info.uuid.bytes.data(), sizeof hello.uuid);
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
            std::vector<std::shared_ptr<Mapped>> memory;
            for (uint32_t r = 0; r < hello.layout.ranks; ++r) {
                memory.push_back(r == hello.rank ? mine
                                                 : std::make_shared<Mapped>(
                                                       *chip, peers.hello[r].bytes,
                                                       std::vector<int>{ordinal}, peers.memory[r]));
            }
            member->wire(std::move(memory));
        });
        for (uint32_t r = 0; r < hello.layout.ranks; ++r) {
            if (r == hello.rank) continue;
            GroupLink link{r, peers.hello[r].device, 0, true};
            for (int i = 0; i < device_count(); ++i) { // if this process sees the peer's GPU too
                const DeviceInfo info = device_info(i);
                if (std::memcmp(info.uuid.bytes.data(), peers.hello[r].uuid, sizeof hello.uuid) ==
                        0 &&
                    info.ordinal != chip->info.ordinal) {
                    const Chip other(i);
                    check_reach(*chip, other);
                    link.atomics = member->atomics_with(other);
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

// SPDX-License-Identifier: Apache-2.0
// A rank whose collectives are NCCL's, for ranks that do not reach one another's memory. NCCL's
// communicator is not blocking, so every wait here ends: when it is done, with NCCL's error, or at
// the deadline, and then the communicator is aborted and the group is of no more use, as one of
// ours is that has been poisoned.
#include "nccl.hpp"

#include <denizen/device/chip.hpp>

#include <denizen/base/clock.hpp>

#include <algorithm>
#include <cstdlib>
#include <dlfcn.h>
#include <future>
#include <memory>
#include <optional>
#include <sched.h>
#include <thread>
#include <time.h>
#include <utility>

namespace denizen::group {
namespace nccl {
namespace {

Library load()
{
    const char* const multicast = std::getenv("NCCL_NVLS_ENABLE");
    if (multicast != nullptr && std::string(multicast) != "0") {
        throw Error(Errc::bad_argument, std::string("NCCL_NVLS_ENABLE is ") + multicast +
                                            ": multicast objects must not be made; start the "
                                            "process with NCCL_NVLS_ENABLE=0");
    }
    setenv("NCCL_NVLS_ENABLE", "0", 1);
    const char* const named = std::getenv("DENIZEN_NCCL");
    const char* const name = named != nullptr ? named : "libnccl.so.2";
    void* const handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
        const char* const why = dlerror();
        throw Error(Errc::no_device, std::string("no NCCL: ") + (why != nullptr ? why : name) +
                                         "; install nvidia-nccl-cu13 (PyTorch brings it) and set "
                                         "DENIZEN_NCCL to its libnccl.so.2");
    }
    Library table{};
    std::string missing;
    const auto entry = [&](auto& function, const char* symbol) {
        function =
            reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(handle, symbol));
        if (function == nullptr) missing += (missing.empty() ? "" : ", ") + std::string(symbol);
    };
    entry(table.get_version, "ncclGetVersion");
    entry(table.get_error_string, "ncclGetErrorString");
    entry(table.get_last_error, "ncclGetLastError");
    entry(table.get_unique_id, "ncclGetUniqueId");
    entry(table.comm_init_rank_config, "ncclCommInitRankConfig");
    entry(table.comm_get_async_error, "ncclCommGetAsyncError");
    entry(table.comm_finalize, "ncclCommFinalize");
    entry(table.comm_destroy, "ncclCommDestroy");
    entry(table.comm_abort, "ncclCommAbort");
    entry(table.all_reduce, "ncclAllReduce");
    entry(table.reduce_scatter, "ncclReduceScatter");
    entry(table.all_gather, "ncclAllGather");
    entry(table.broadcast, "ncclBroadcast");
    entry(table.send, "ncclSend");
    entry(table.recv, "ncclRecv");
    entry(table.group_start, "ncclGroupStart");
    entry(table.group_end, "ncclGroupEnd");
    int version = 0;
    if (missing.empty()) table.get_version(&version);
    if (version < oldest) {
        throw Error(Errc::no_device, std::string(name) + " is too old" +
                                         (missing.empty() ? " (" + std::to_string(version) + ")"
                                                          : ": it lacks " + missing) +
                                         "; a group between hosts needs NCCL 2.18 or newer");
    }
    return table;
}

} // namespace

const Library& library()
{
    static const Library table = load(); // not kept if it throws
    return table;
}

UniqueId new_id()
{
    UniqueId id;
    if (const Result result = library().get_unique_id(&id); result != success) {
        throw Error(Errc::failed, std::string("ncclGetUniqueId: ") +
                                      library().get_error_string(result) + "; see NCCL_DEBUG=WARN");
    }
    return id;
}

} // namespace nccl

namespace {

using namespace nccl;

int type_of(Type type)
{
    switch (type) {
    case Type::f32: return float32;
    case Type::f16: return float16;
    case Type::bf16: return bfloat16;
    case Type::f64: return float64;
    case Type::i64: return int64;
    case Type::u8: return uint8;
    case Type::f8e4m3: return float8_e4m3;
    case Type::f8e5m2: return float8_e5m2;
    case Type::i32: break;
    }
    return int32;
}

int op_of(Op op)
{
    switch (op) {
    case Op::sum: return sum;
    case Op::min: return nccl::min;
    case Op::max: return nccl::max;
    case Op::avg: break;
    }
    return avg;
}

// What a thread does that looks at something again and again.
void rest(uint32_t looks)
{
    if (looks < 4096) {
        if (looks % 32 == 0) sched_yield();
        return;
    }
    const timespec nap{0, 50'000};
    nanosleep(&nap, nullptr);
}

class NcclMember final : public Member {
public:
    NcclMember(uint32_t rank, uint32_t ranks, int ordinal, const GroupOptions& options)
        : driver_(gpu::driver()), nccl_(library())
    {
        ref.layout.ranks = ranks;
        ref.layout.heap_bytes = options.heap_bytes;
        ref.rank = rank;
        ref.timeout_ns = static_cast<uint64_t>(options.timeout.count());
        on_gpu = true;
        shares_memory = false;
        chip_ = std::make_shared<gpu::Chip>(gpu::device_info(ordinal), "a group over NCCL");
        device = chip_->info().name;
        const gpu::ContextScope scope(chip_->context());
        memory_ = chip_->take_zeros<unsigned char>(options.heap_bytes + line);
        chip_->wait();
    }
    ~NcclMember() override
    {
        try {
            const bool off = without_residents([this] {
                end_communicator();
                chip_.reset();
            });
            if (!off) {
                chip_->abandon(); // a program is stuck: who gives memory back would wait for it
            }
        } catch (const Error&) { // a dead context: nothing is left to give back
        }
    }

    // Until all ranks are there.
    void connect(const UniqueId& id)
    {
        const gpu::ContextScope scope(chip_->context());
        Config config;
        const auto ranks = static_cast<int>(ref.layout.ranks);
        settle(nccl_.comm_init_rank_config(&comm_, ranks, id, static_cast<int>(ref.rank), &config),
               "ncclCommInitRankConfig", Errc::timeout,
               "not all ranks of " + std::to_string(ranks) + " came to NCCL within " +
                   denizen::detail::seconds(ref.timeout_ns) +
                   "; see NCCL_DEBUG=INFO, NCCL_SOCKET_IFNAME");
    }

    void plan(Call& call) const override
    {
        check_call(*this, call);
        const auto refuse = [&](const std::string& why) {
            throw Error(Errc::bad_argument,
                        std::string(to_string(call.kind)) + " over NCCL: " + why);
        };
        if (call.algorithm != Algorithm::automatic) {
            refuse(std::string("the algorithm \"") + to_string(call.algorithm) +
                   "\" is one for ranks that share memory; NCCL has its own: use \"automatic\"");
        }
        const bool whole =
            call.type == Type::i32 || call.type == Type::i64 || call.type == Type::u8;
        if (reduces(call.kind) && call.op == Op::avg && whole) {
            refuse(std::string("there is no avg of ") + to_string(call.type) +
                   " that all its versions agree on; use sum, and divide");
        }
        if (reduces(call.kind) && type_of(call.type) >= float8_e4m3 && version() < with_float8) {
            refuse(std::string("sums of ") + to_string(call.type) +
                   " came with 2.24, and this is " + std::to_string(version()) +
                   "; install nvidia-nccl-cu13 2.24 or newer, or sum in f16");
        }
        if (call.kind == Kind::all_to_all && call.in == call.out && call.count != 0) {
            refuse("input and output must not be the same");
        }
    }

    void run(const Call& call, void* stream) override
    {
        look();
        last_ = text_of(call);
        if (call.count == 0 && call.kind != Kind::barrier) return;
        const gpu::ContextScope scope(chip_->context());
        settle(enqueue(call, stream_of(stream)), "the call", Errc::peer_dead, nobody_came());
    }

    void wait(void* stream) override
    {
        look();
        const gpu::ContextScope scope(chip_->context());
        const uint64_t deadline = now_ns() + ref.timeout_ns;
        for (uint32_t looks = 1;; ++looks) { // ends when the work is, with an error, or in time
            const gpu::Result state = driver_.stream_query(stream_of(stream));
            if (state != gpu::error_not_ready) {
                gpu::check(state, "cuStreamQuery", device);
                break;
            }
            ask_nccl();
            if (now_ns() > deadline) fail(Errc::peer_dead, nobody_came());
            rest(looks);
        }
        ask_nccl();
    }

    void look() const override
    {
        if (poison_) throw *poison_;
    }

    void read(void* to, const void* from, size_t bytes) const override
    {
        const gpu::ContextScope scope(chip_->context());
        chip_->fetch(static_cast<unsigned char*>(to), static_cast<const unsigned char*>(from),
                     bytes);
    }

    // NCCL connects the ranks at their first call: it is made here.
    void begin_check() override
    {
        Call barrier;
        barrier.algorithm = Algorithm::automatic;
        run(barrier, nullptr);
    }
    void end_check() override { wait(nullptr); }

    unsigned char* heap() const override { return memory_ + line; }

private:
    int version() const
    {
        int version = 0;
        nccl_.get_version(&version);
        return version;
    }

    Stream stream_of(void* stream) const
    {
        return stream != nullptr ? static_cast<Stream>(stream) : chip_->stream();
    }

    Result enqueue(const Call& as_called, Stream stream)
    {
        const Call call = moved(as_called);
        const int type = type_of(call.type);
        switch (call.kind) {
        case Kind::barrier: return nccl_.all_reduce(memory_, memory_, 1, int32, sum, comm_, stream);
        case Kind::all_reduce:
            return nccl_.all_reduce(call.in, call.out, call.count, type, op_of(call.op), comm_,
                                    stream);
        case Kind::reduce_scatter:
            return nccl_.reduce_scatter(call.in, call.out, call.count, type, op_of(call.op), comm_,
                                        stream);
        case Kind::all_gather:
            return nccl_.all_gather(call.in, call.out, call.count, type, comm_, stream);
        case Kind::broadcast:
            return nccl_.broadcast(call.in, call.out, call.count, type, static_cast<int>(call.root),
                                   comm_, stream);
        case Kind::all_to_all:
        case Kind::all_reduce_norm: break; // never comes here: run_norm() refuses it
        }
        const uint64_t bytes = call.count * size_of(call.type);
        Result result = nccl_.group_start();
        for (uint32_t r = 0; result == success && r < ref.layout.ranks; ++r) {
            const auto peer = static_cast<int>(r);
            result = nccl_.send(static_cast<const unsigned char*>(call.in) + r * bytes, call.count,
                                type, peer, comm_, stream);
            if (result != success && result != in_progress) break;
            result = nccl_.recv(static_cast<unsigned char*>(call.out) + r * bytes, call.count, type,
                                peer, comm_, stream);
            if (result == in_progress) result = success; // group_end() tells
        }
        const Result end = nccl_.group_end();
        return result != success ? result : end;
    }

    std::string nobody_came() const
    {
        return "rank " + std::to_string(ref.rank) + " waited " +
               denizen::detail::seconds(ref.timeout_ns) + " for the other ranks in " + last_ +
               " (NCCL)" + no_more_use(*this);
    }

    // Until what NCCL has begun is accepted.
    void settle(Result result, const char* what, Errc late, const std::string& why_late)
    {
        const uint64_t deadline = now_ns() + ref.timeout_ns;
        for (uint32_t looks = 1; result == in_progress; ++looks) { // ends in time
            if (nccl_.comm_get_async_error(comm_, &result) != success) result = remote_error;
            if (result == in_progress && now_ns() > deadline) fail(late, why_late);
            rest(looks);
        }
        if (result != success) fail(Errc::failed, explain(what, result));
    }

    // Has NCCL found out by itself that something is wrong?
    void ask_nccl()
    {
        Result state = success;
        const Result asked = nccl_.comm_get_async_error(comm_, &state);
        if (asked != success) state = asked;
        if (state == success || state == in_progress) return;
        fail(state == remote_error ? Errc::peer_dead : Errc::failed, explain(last_.c_str(), state));
    }

    std::string explain(const char* what, Result result) const
    {
        const char* const more = comm_ != nullptr ? nccl_.get_last_error(comm_) : nullptr;
        return "rank " + std::to_string(ref.rank) + ", " + what + ": NCCL says \"" +
               nccl_.get_error_string(result) + "\"" +
               (more != nullptr && *more != '\0' ? std::string(" (") + more + ")" : "") +
               no_more_use(*this);
    }

    [[noreturn]] void fail(Errc code, const std::string& why)
    {
        poison_.emplace(code, why);
        if (comm_ != nullptr) end_by(nccl_.comm_abort); // what is on a stream ends
        throw Error(*poison_);
    }

    // An end has no "in progress": an abort waits for threads of NCCL's that may be trying to
    // connect for minutes. If it is not done in time it goes on by itself, and gives the chip
    // back.
    void end_by(Result (*how)(Comm))
    {
        const auto patience = std::min<std::chrono::nanoseconds>(
            std::chrono::nanoseconds(ref.timeout_ns), std::chrono::seconds(5));
        const auto ended = std::make_shared<std::promise<void>>();
        const std::future<void> end = ended->get_future();
        try {
            std::thread([how, ended, comm = std::exchange(comm_, nullptr), chip = chip_]() mutable {
                try {
                    const gpu::ContextScope scope(chip->context());
                    how(comm);
                } catch (const Error&) { // a dead context
                }
                chip.reset();
                ended->set_value();
            }).detach();
        } catch (const std::system_error&) { // no thread to be had: NCCL's own time out
            return;
        }
        end.wait_for(patience);
    }

    void end_communicator()
    {
        if (comm_ == nullptr) return;
        const gpu::ContextScope scope(chip_->context());
        try {
            settle(nccl_.comm_finalize(comm_), "ncclCommFinalize", Errc::timeout, "");
            end_by(nccl_.comm_destroy);
        } catch (const Error&) { // aborted
        }
    }

    const gpu::Driver& driver_;
    const Library& nccl_;
    // NCCL uses it until a communicator has ended, which may be after this member is gone.
    std::shared_ptr<gpu::Chip> chip_;
    unsigned char* memory_ = nullptr; // the barrier's word, then the heap
    Comm comm_ = nullptr;
    std::string last_ = "nothing yet";
    std::optional<Error> poison_;
};

} // namespace

std::unique_ptr<Member> join_nccl(const UniqueId& id, uint32_t rank, uint32_t ranks, int ordinal,
                                  const GroupOptions& options)
{
    std::unique_ptr<NcclMember> member;
    off_the_gpu("a group",
                [&] { member = std::make_unique<NcclMember>(rank, ranks, ordinal, options); });
    // Not in there: another rank of this process may have to come first. NCCL takes memory and
    // loads code now, which may wait for a program that is on the GPU, and then the deadline ends
    // it.
    member->connect(id);
    member->begin_check();
    member->end_check();
    return member;
}

} // namespace denizen::group

// SPDX-License-Identifier: Apache-2.0
// A group: ranks with symmetric memory that do collectives together, on the GPUs of a host or on
// threads or processes of the CPU. Host only; ref.hpp is what kernels and threads see of it.
//
//   auto ranks = denizen::Group::local(2, denizen::Device::gpu()); // GPU 0 and 1, this process
//   for (auto& r : ranks) r.all_reduce(in[r.rank()], out[r.rank()], count, Type::f32);
//   for (auto& r : ranks) r.wait();
//
//   auto mine = denizen::Group::join("/run/user/1000/job.sock", rank, 4,
//   denizen::Device::gpu(rank));
//
//   options.token = "...";                                        // ranks on several hosts: NCCL
//   auto mine = denizen::Group::join("tcp://node0:29500", rank, 16, denizen::Device::gpu(rank % 8),
//                                    options);
//
// If a rank does not come within the time limit, or calls something else than the others, the group
// is poisoned: every rank's next wait throws the same error (Errc::peer_dead, Errc::bad_argument),
// and the group cannot be used any more. Multicast objects are never made.
#pragma once

#include <denizen/base/code.hpp>
#include <denizen/base/device.hpp>
#include <denizen/group/norm.hpp>
#include <denizen/group/ref.hpp>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#if defined(__CUDACC__)
#include <cuda_runtime_api.h>
#include <denizen/group/kernels.hpp>
#endif

namespace denizen {

namespace group {

#if defined(__CUDACC__)
namespace detail {

static inline void* group_kernel(const std::string& name)
{
#if defined(DENIZEN_GROUP_INSIDE_ONLY)
    if (name != "check") return nullptr;
#endif
    if (name == "serve_common") return nullptr; // `serve` has these types
    const denizen::detail::NamedKernel kernels[] = {
        {"check", reinterpret_cast<const void*>(&denizen_group_check)},
#if !defined(DENIZEN_GROUP_INSIDE_ONLY)
        {"call_f32", reinterpret_cast<const void*>(&denizen_group_call_f32)},
        {"call_f16", reinterpret_cast<const void*>(&denizen_group_call_f16)},
        {"call_bf16", reinterpret_cast<const void*>(&denizen_group_call_bf16)},
        {"call_i32", reinterpret_cast<const void*>(&denizen_group_call_i32)},
        {"call_rare", reinterpret_cast<const void*>(&denizen_group_call_rare)},
        {"serve", reinterpret_cast<const void*>(&denizen_group_serve)},
        {"norm", reinterpret_cast<const void*>(&denizen_group_norm)},
#endif
    };
    return denizen::detail::function_of(kernels, name, "the groups");
}

} // namespace detail

static inline Code compiled_code() { return {{}, &detail::group_kernel}; }
#else
inline Code compiled_code() { return {}; }
#endif

class Member;

// What carries the data. Between hosts that is NCCL, which is loaded at run time.
enum class Engine : uint32_t {
    automatic, // memory, if all ranks are on one host
    memory,    // that all ranks reach
    nccl
};
inline const char* to_string(Engine engine)
{
    return engine == Engine::memory ? "memory" : engine == Engine::nccl ? "nccl" : "automatic";
}

} // namespace group

struct GroupOptions {
    std::chrono::nanoseconds timeout = std::chrono::seconds(10); // of every wait, and of join()
    uint64_t heap_bytes = 0;                                     // of each rank, for allocate()
    uint32_t channels = 0;    // at most 256; 0: 128 on a GPU, 4 on the CPU
    uint32_t slots = 0;       // packets of a channel and peer; 0: 1024 on a GPU, 512 on the CPU
    uint32_t stage_bytes = 0; // of a channel; 0: 512 KiB on a GPU, 64 KiB on the CPU
    double least_gbs = 10;    // GPUs: a slower link between two of them is an error; 0: any
    std::vector<group::Choice> table;   // what `automatic` chooses; empty: a built-in table
    uint32_t renew = group::most_turns; // see Layout
    group::Engine engine = group::Engine::automatic;
    std::string token; // for tcp://: 8 to 127 bytes that all ranks know, and nobody else
};

// What the start of the group found out about the link from this rank to a peer.
struct GroupLink {
    uint32_t peer = 0;
    std::string device; // of the peer
    double gbs = 0;     // read by this rank's processors, 10^9 bytes/s; 0: not measured (CPU)
    bool atomics = true;
};

class Group {
public:
    // All ranks in this process. On the CPU each rank is used by one thread; on GPUs the ranks are
    // as many GPUs from `first` on. Errc::bad_argument, no_device, exhausted, failed (a link is
    // broken or too slow), stuck (a resident program does not leave).
    static std::vector<Group> local(uint32_t ranks, Device first, const GroupOptions& options = {},
                                    const Code& code = group::compiled_code());

    // This process is one rank of several, which all call this with the same `address`. An address
    // is a socket in the file system, which rank 0 makes with mode 0600 and removes when all have
    // come; or tcp://HOST:PORT, where rank 0 listens on its HOST until all have come, and every
    // rank needs GroupOptions::token. Over tcp:// ranks that are all on one host share memory,
    // unless they ask for the engine NCCL. Ranks on several hosts need NCCL and GPUs. Errc::timeout
    // names who did not come. Errc::bad_argument names who has other options, another user or
    // another token. Errc::no_device: there is no NCCL.
    static Group join(const std::string& address, uint32_t rank, uint32_t ranks, Device device,
                      const GroupOptions& options = {}, const Code& code = group::compiled_code());

    ~Group(); // nobody may use its memory any more
    Group(Group&&) noexcept;
    Group& operator=(Group&&) noexcept;

    uint32_t rank() const;
    uint32_t ranks() const;
    bool on_gpu() const;
    const std::string& device() const; // its name
    const char* engine() const;        // "memory" or "nccl"
    const std::vector<GroupLink>& links() const;
    const std::vector<group::Choice>& table() const; // empty over NCCL, which chooses by itself

    // For kernels and threads. Valid as long as the group. Errc::bad_argument over NCCL.
    const GroupRef& ref() const;
    // The same, where the rank's device reaches it: for tasks and handlers that get an address.
    const GroupRef* address() const;

    // Symmetric memory: all ranks allocate the same blocks in the same order. Peers read data that
    // lie in it, at the same place on all ranks, without a copy. On all ranks or on none a call's
    // data must lie there. Aligned to 256; lives as long as the group. Errc::exhausted.
    void* allocate(uint64_t bytes);

    // Whether `call` needs a kernel that the group has not been given: for a launch, or for the
    // teams of a ResidentGroup. Kernels that nvcc compiled hold all types. Python compiles the
    // launches of common types for a new group, the others and what stays when they are called for.
    bool lacks(const group::Call& call, bool resident) const;
    // More kernels: `code` has denizen_group_call_rare, or, for `resident`, denizen_group_serve
    // with all types or denizen_group_serve_common. Not within the capture of a graph.
    // Errc::bad_argument, stuck.
    void add_code(const Code& code, bool resident);

    // One collective; group::Kind says what `count` is and where the data lie. On a GPU the call is
    // enqueued on `stream` (a CUstream, which may be capturing a graph; null: the group's own), and
    // wait() or check() throw its errors. On the CPU it is done, or has thrown, on return. `in` and
    // `out` are aligned to their elements, and are the same or do not overlap.
    void run(group::Call call, void* stream = nullptr);

    void all_reduce(const void* in, void* out, uint64_t count, group::Type type,
                    group::Op op = group::Op::sum, void* stream = nullptr);
    void reduce_scatter(const void* in, void* out, uint64_t count, group::Type type,
                        group::Op op = group::Op::sum, void* stream = nullptr);
    void all_gather(const void* in, void* out, uint64_t count, group::Type type,
                    void* stream = nullptr);
    void broadcast(const void* in, void* out, uint64_t count, group::Type type, uint32_t root,
                   void* stream = nullptr);
    void all_to_all(const void* in, void* out, uint64_t count, group::Type type,
                    void* stream = nullptr);
    void barrier(void* stream = nullptr);

    // norm.hpp says what it does; enqueued or done as run() is. Errc::bad_argument: another type,
    // data that are missing or overlap, or a group over NCCL.
    void all_reduce_norm(group::NormCall call, void* stream = nullptr);
    // Whether the kernel for it is missing, since Python compiles it for the first call. Then,
    // the kernel: `code` has denizen_group_norm. Not within the capture of a graph.
    bool lacks_norm() const;
    void add_norm(const Code& code);

    // wait() returns when the work on `stream` is done. Both throw if the group is poisoned;
    // check() does not wait.
    void wait(void* stream = nullptr);
    void check() const;

private:
    friend class ResidentGroup;
    explicit Group(std::unique_ptr<group::Member> member);
    std::unique_ptr<group::Member> member_;
};

} // namespace denizen

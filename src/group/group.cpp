// SPDX-License-Identifier: Apache-2.0
// Group: options, the plan of a call (which algorithm, how many channels, from where), errors. What
// depends on the device is behind Member.
#include "meeting.hpp"
#include "nccl.hpp"

#include <denizen/device/residents.hpp>

#include <denizen/group/detail/perform.hpp>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

namespace denizen {

namespace group {
namespace {

// What automatic means until denizen tune has measured. On a GPU a block of 512 threads sends 6 KB
// of packets at once.
std::vector<Choice> built_in(bool on_gpu, uint32_t ranks)
{
    constexpr uint64_t kib = 1024;
    if (!on_gpu) {
        return {{16 * kib, Algorithm::one_shot, 1},
                {0, ranks == 2 ? Algorithm::pull : Algorithm::pull_twice, 1}};
    }
    std::vector<Choice> rows{{6 * kib, Algorithm::one_shot, 1}};
    if (ranks == 2) { // measured on two H200s
        rows.push_back({96 * kib, Algorithm::one_shot, 32});
        rows.push_back({384 * kib, Algorithm::one_shot, 64});
        rows.push_back({2048 * kib, Algorithm::two_shot, 64});
        rows.push_back({16384 * kib, Algorithm::push, 128});
        rows.push_back({0, Algorithm::push_twice, 128});
    } else {
        rows.push_back({64 * kib, Algorithm::one_shot, 12});
        rows.push_back({512 * kib, Algorithm::two_shot, 44});
        rows.push_back({2048 * kib, Algorithm::two_shot, 128});
        rows.push_back({0, Algorithm::push_twice, 128});
    }
    return rows;
}

void check_table(const std::vector<Choice>& table, uint32_t channels)
{
    if (table.size() > max_choices) {
        throw Error(Errc::bad_argument, "the table has " + std::to_string(table.size()) +
                                            " rows; at most " + std::to_string(max_choices));
    }
    for (const Choice& row : table) {
        if (row.algorithm == Algorithm::automatic ||
            static_cast<uint32_t>(row.algorithm) >= algorithms || row.channels == 0) {
            throw Error(Errc::bad_argument,
                        "a row of the table names no algorithm or no channels (there are " +
                            std::to_string(channels) + ")");
        }
    }
}

Layout layout_of(uint32_t ranks, bool on_gpu, const GroupOptions& o)
{
    if (ranks < 1 || ranks > max_ranks) {
        throw Error(Errc::bad_argument, "a group of " + std::to_string(ranks) +
                                            " ranks; it can have 1 to " +
                                            std::to_string(max_ranks));
    }
    Layout layout;
    layout.ranks = ranks;
    layout.channels = o.channels != 0 ? o.channels : on_gpu ? 128 : 4;
    const uint32_t slots = o.slots != 0 ? o.slots : on_gpu ? 1024 : 512;
    layout.slots = (slots + run_packets - 1) / run_packets * run_packets;
    const uint32_t stage = o.stage_bytes != 0 ? o.stage_bytes : on_gpu ? 512 << 10 : 64 << 10;
    const uint32_t unit = line * ranks;
    layout.stage_bytes = (stage + unit - 1) / unit * unit;
    layout.heap_bytes = o.heap_bytes;
    layout.renew = o.renew;
    if (layout.channels > max_channels || layout.slots > 1u << 16 || o.stage_bytes > 64u << 20 ||
        o.timeout.count() <= 0 || o.renew < 4 || o.renew > most_turns) {
        throw Error(Errc::bad_argument,
                    "options of a group are out of range: channels up to " +
                        std::to_string(max_channels) +
                        ", slots up to 65536, stages up to 64 MiB, a time limit above 0");
    }
    return layout;
}

void equip(Member& member, const GroupOptions& o)
{
    member.ref.timeout_ns = static_cast<uint64_t>(o.timeout.count());
    member.least_gbs = o.least_gbs;
    for (Choice& row : member.table)
        row.channels = std::min(row.channels, member.ref.layout.channels);
    std::copy(member.table.begin(), member.table.end(), member.ref.table);
    member.ref.choices = static_cast<uint32_t>(member.table.size());
}

std::vector<Choice> table_of(bool on_gpu, const Layout& layout, const GroupOptions& o)
{
    check_table(o.table, layout.channels);
    return o.table.empty() ? built_in(on_gpu, layout.ranks) : o.table;
}

std::string name_of(const Packet& called)
{
    if (called.sequence == 0) return "nothing yet";
    Call call;
    call.kind = static_cast<Kind>(called.word[0] & 15);
    if (call.kind == Kind::barrier) return text_of(call);
    call.type = static_cast<Type>(called.word[0] >> 4 & 15);
    call.op = static_cast<Op>(called.word[0] >> 8 & 15);
    call.root = called.word[0] >> 18 & 15;
    call.count = called.word[1] | (uint64_t{called.word[2]} & 0xffff) << 32;
    const auto algorithm = static_cast<Algorithm>(called.word[0] >> 12 & 15);
    std::string text = text_of(call) + " (" + to_string(algorithm) + ", " +
                       std::to_string(called.word[0] >> 22) + " channels";
    text += (called.word[0] >> 16 & 3) != 0
                ? ", symmetric memory " + std::to_string(called.word[2] >> 16) + ")"
                : ")";
    return text;
}

bool overlap(const unsigned char* a, uint64_t a_bytes, const unsigned char* b, uint64_t b_bytes)
{
    return a < b + b_bytes && b < a + a_bytes;
}

} // namespace

std::string text_of(const Call& call)
{
    if (call.kind == Kind::barrier) return "barrier";
    std::string text = std::string(to_string(call.kind)) + " of " + std::to_string(call.count) +
                       " " + to_string(call.type);
    if (reduces(call.kind)) text += std::string(", ") + to_string(call.op);
    if (call.kind == Kind::broadcast) text += ", root " + std::to_string(call.root);
    return text;
}

std::string no_more_use(const Member& member)
{
    return "; the group of " + std::to_string(member.ref.layout.ranks) +
           " is of no more use, make a new one";
}

void check_call(const Member& member, const Call& call)
{
    const uint32_t ranks = member.ref.layout.ranks;
    if (static_cast<uint32_t>(call.kind) >= kinds || static_cast<uint32_t>(call.type) >= types ||
        static_cast<uint32_t>(call.op) >= ops ||
        static_cast<uint32_t>(call.algorithm) >= algorithms || call.root >= ranks ||
        call.count >> 46 != 0) {
        throw Error(Errc::bad_argument, "a call of a group is out of range: root " +
                                            std::to_string(call.root) + " of " +
                                            std::to_string(ranks) + " ranks, " +
                                            std::to_string(call.count) + " elements");
    }
    if (call.kind == Kind::barrier || call.count == 0) return;
    const uint32_t size = size_of(call.type);
    const uint64_t bytes = call.count * size;
    const auto* const in = static_cast<const unsigned char*>(call.in);
    auto* const out = static_cast<unsigned char*>(call.out);
    const uint64_t in_bytes = bytes * (scatters(call.kind) ? ranks : 1);
    const uint64_t out_bytes = bytes * (gathers(call.kind) ? ranks : 1);
    if (in == nullptr || out == nullptr || reinterpret_cast<uintptr_t>(in) % size != 0 ||
        reinterpret_cast<uintptr_t>(out) % size != 0) {
        throw Error(Errc::bad_argument, std::string(to_string(call.kind)) +
                                            ": data are missing or not aligned to their elements");
    }
    const uint64_t mine = bytes * member.ref.rank;
    const bool in_place = call.kind == Kind::all_gather       ? in == out + mine
                          : call.kind == Kind::reduce_scatter ? out == in + mine
                                                              : in == out;
    if (!in_place && overlap(in, in_bytes, out, out_bytes)) {
        throw Error(Errc::bad_argument,
                    std::string(to_string(call.kind)) +
                        ": input and output overlap; use the same places, or others");
    }
}

void Member::plan(Call& call) const
{
    check_call(*this, call);
    const Choice& choice = ref.choice(call.count * size_of(call.type));
    if (call.algorithm == Algorithm::automatic) {
        call.algorithm = choice.algorithm;
        if (call.channels == 0) call.channels = choice.channels;
    }
    if (call.channels == 0) call.channels = choice.channels;
    call.channels = std::min(call.channels, ref.layout.channels);
    call.in_place = call.out_place = 0;
    call.algorithm = only_for(call.kind, call.type, call.algorithm);
    if (call.kind == Kind::barrier) call.count = 0;
    if (call.count == 0) {
        if (call.kind != Kind::barrier) call.algorithm = Algorithm::one_shot;
        call.channels = 1;
        return;
    }
    find_places(ref, call);
}

void Member::look() const
{
    uint32_t word = 0;
    read(&word, &ref.control(ref.rank)->poison, sizeof word);
    if (word != 0) throw_verdict(*this, Verdict::of(word));
}

bool Member::lacks_rare(bool) const { return false; }
void Member::add_code(const Code&, bool) {}

Mailbox Member::open_mailbox(uint32_t)
{
    throw Error(Errc::bad_argument,
                "a group between hosts (NCCL) has no kernels that stay: its calls are enqueued on "
                "streams; use a group of one host for what is called without a launch");
}
void Member::put_on(const Mailbox& box, uint64_t) { open_mailbox(box.teams); }
void Member::posted(uint32_t) { open_mailbox(0); }
void Member::close_mailbox(const Mailbox&) {}

void throw_verdict(const Member& member, Verdict verdict)
{
    const auto called = [&](uint32_t rank) {
        Packet packet;
        member.read(&packet, &member.ref.control(rank)->called, sizeof packet);
        return name_of(packet);
    };
    const std::string culprit = "rank " + std::to_string(verdict.culprit);
    const std::string accuser = "rank " + std::to_string(verdict.accuser);
    const std::string end = no_more_use(member);
    if (verdict.code == Errc::bad_argument) {
        throw Error(verdict.code, culprit + " called " + called(verdict.culprit) + ", but " +
                                      accuser + " called " + called(verdict.accuser) + end);
    }
    if (verdict.code == Errc::closed) {
        throw Error(verdict.code, culprit + " was interrupted in " + called(verdict.culprit) + end);
    }
    throw Error(verdict.code, accuser + " waited " +
                                  denizen::detail::seconds(member.ref.timeout_ns) + " for " +
                                  culprit + " in " + called(verdict.accuser) + end);
}

} // namespace group

using namespace group;

Group::Group(std::unique_ptr<Member> member) : member_(std::move(member)) {}
Group::~Group() = default;
Group::Group(Group&&) noexcept = default;
Group& Group::operator=(Group&&) noexcept = default;

std::vector<Group> Group::local(uint32_t ranks, Device first, const GroupOptions& options,
                                const Code& code)
{
    const bool on_gpu = first.kind == Device::Kind::gpu ||
                        (first.kind == Device::Kind::automatic && gpu_present() &&
                         (!code.cubin.empty() || code.function != nullptr));
    const Layout layout = layout_of(ranks, on_gpu, options);
    const std::vector<Choice> table = table_of(on_gpu, layout, options);
    Members members =
        on_gpu ? make_gpu_members(layout, first.ordinal, code) : make_cpu_members(layout);
    for (auto& member : members) {
        member->table = table;
        equip(*member, options);
        if (!on_gpu) {
            for (uint32_t r = 0; r < ranks; ++r) {
                if (r != member->ref.rank) member->links.push_back({r, "CPU", 0, true});
            }
        }
    }
    for (auto& member : members) member->begin_check();
    for (auto& member : members) member->end_check();
    std::vector<Group> groups;
    for (auto& member : members) groups.push_back(Group(std::move(member)));
    return groups;
}

namespace {

std::unique_ptr<Member> join_on_host(const std::string& path, uint32_t rank, uint32_t ranks,
                                     Device device, const GroupOptions& options, const Code& code)
{
    const bool on_gpu = device.kind == Device::Kind::gpu;
    Hello hello;
    hello.layout = layout_of(ranks, on_gpu, options);
    hello.rank = rank;
    hello.on_gpu = on_gpu ? 1 : 0;
    const std::vector<Choice> table = table_of(on_gpu, hello.layout, options);
    std::copy(table.begin(), table.end(), hello.table);
    hello.choices = static_cast<uint32_t>(table.size());
    auto member = on_gpu ? join_gpu(path, hello, options.timeout, device.ordinal, code)
                         : join_cpu(path, hello, options.timeout);
    equip(*member, options);
    member->begin_check();
    member->end_check();
    return member;
}

// A folder of this process's own, for the socket of ranks that met over the network.
class Folder {
public:
    ~Folder()
    {
        if (!path_.empty()) rmdir(path_.c_str());
    }
    std::string make()
    {
        const char* const own = std::getenv("XDG_RUNTIME_DIR");
        for (const std::string place : {own != nullptr ? own : "", "/tmp"}) {
            std::string path = place + "/denizen-XXXXXX";
            if (place.empty() || path.size() > 80 || mkdtemp(path.data()) == nullptr) continue;
            path_ = path;
            return path_ + "/socket";
        }
        throw Error(Errc::failed, "no folder for the group's socket can be made in "
                                  "XDG_RUNTIME_DIR or /tmp");
    }

private:
    std::string path_;
};

// Rank 0's decision: one host or several?
Decision decide(const std::vector<Visit>& ranks, Folder& folder)
{
    Decision decision;
    decision.engine = static_cast<Engine>(ranks[0].engine);
    std::string hosts;
    for (const Visit& v : ranks) {
        if (std::strcmp(v.host, ranks[0].host) != 0)
            hosts = " (rank " + std::to_string(v.rank) + ")";
    }
    if (decision.engine == Engine::memory && !hosts.empty()) {
        throw Error(Errc::bad_argument, "the ranks are on several hosts" + hosts +
                                            ", which share no memory: use the engine nccl");
    }
    if (decision.engine == Engine::automatic) {
        decision.engine = hosts.empty() ? Engine::memory : Engine::nccl;
    }
    if (decision.engine == Engine::memory) {
        const std::string path = folder.make();
        std::memcpy(decision.start, path.c_str(), path.size() + 1);
        return decision;
    }
    if (ranks[0].on_gpu == 0) {
        throw Error(Errc::bad_argument,
                    "between hosts" + hosts + " a group needs GPUs: NCCL has no other ranks");
    }
    const nccl::UniqueId id = nccl::new_id();
    std::memcpy(decision.start, id.bytes, sizeof id.bytes);
    return decision;
}

std::unique_ptr<Member> join_over_network(const std::string& address, uint32_t rank, uint32_t ranks,
                                          Device device, const GroupOptions& options,
                                          const Code& code)
{
    Visit mine;
    if (options.token.size() < 8 || options.token.size() > most_token) {
        throw Error(Errc::bad_argument,
                    "a group that meets at " + address + " needs a token of 8 to " +
                        std::to_string(most_token) +
                        " bytes, the same on all ranks: others can reach that address too");
    }
    if (ranks > most_ranks || options.timeout.count() <= 0) {
        throw Error(Errc::bad_argument, "options of a group are out of range: up to " +
                                            std::to_string(most_ranks) +
                                            " ranks, a time limit above 0");
    }
    const bool on_gpu = device.kind == Device::Kind::gpu;
    if (options.engine == Engine::nccl) { // what can be known at once
        if (!on_gpu) {
            throw Error(Errc::bad_argument, "the engine nccl is for GPUs; ranks on the CPU of one "
                                            "host use memory");
        }
        nccl::library();
    }
    mine.rank = rank;
    mine.ranks = ranks;
    mine.engine = static_cast<uint32_t>(options.engine);
    mine.on_gpu = on_gpu ? 1 : 0;
    std::strncpy(mine.host, host_name().c_str(), sizeof mine.host - 1);
    const std::string name = on_gpu ? gpu::device_info(device.ordinal).name : "CPU";
    std::strncpy(mine.device, name.c_str(), sizeof mine.device - 1);
    Folder folder;
    const Meeting meeting =
        meet_over_network(address, mine, options.token, options.timeout,
                          [&](const std::vector<Visit>& visits) { return decide(visits, folder); });
    if (meeting.decision.engine == Engine::memory) {
        return join_on_host(meeting.decision.start, rank, ranks, device, options, code);
    }
    nccl::UniqueId id;
    std::memcpy(id.bytes, meeting.decision.start, sizeof id.bytes);
    auto member = join_nccl(id, rank, ranks, device.ordinal, options);
    for (uint32_t r = 0; r < ranks; ++r) {
        if (r != rank) member->links.push_back({r, meeting.devices[r], 0, false});
    }
    return member;
}

} // namespace

Group Group::join(const std::string& address, uint32_t rank, uint32_t ranks, Device device,
                  const GroupOptions& options, const Code& code)
{
    if (rank >= ranks) {
        throw Error(Errc::bad_argument, "rank " + std::to_string(rank) + " of a group of " +
                                            std::to_string(ranks) + "; ranks count from 0");
    }
    if (is_network_address(address)) {
        return Group(join_over_network(address, rank, ranks, device, options, code));
    }
    if (options.engine == Engine::nccl) {
        throw Error(Errc::bad_argument, "ranks of the engine nccl meet over TCP: give "
                                        "tcp://HOST:PORT (on one host tcp://127.0.0.1:PORT) "
                                        "instead of " +
                                            address);
    }
    return Group(join_on_host(address, rank, ranks, device, options, code));
}

uint32_t Group::rank() const { return member_->ref.rank; }
uint32_t Group::ranks() const { return member_->ref.layout.ranks; }
bool Group::on_gpu() const { return member_->on_gpu; }
const std::string& Group::device() const { return member_->device; }
const std::vector<GroupLink>& Group::links() const { return member_->links; }
const std::vector<Choice>& Group::table() const { return member_->table; }
const char* Group::engine() const
{
    return to_string(member_->shares_memory ? Engine::memory : Engine::nccl);
}
const GroupRef& Group::ref() const
{
    if (!member_->shares_memory) {
        throw Error(Errc::bad_argument,
                    "kernels cannot take part in a group between hosts (NCCL): its ranks share no "
                    "memory; call it from the host");
    }
    return member_->ref;
}

void* Group::allocate(uint64_t bytes)
{
    const uint64_t size = (bytes + 255) / 256 * 256;
    const uint64_t room = member_->ref.layout.heap_bytes;
    if (size < bytes || size > room - member_->allocated) {
        throw Error(Errc::exhausted, "the group's symmetric memory has " +
                                         std::to_string(room - member_->allocated) + " of " +
                                         std::to_string(room) + " bytes left, not " +
                                         std::to_string(bytes) + "; give it more (heap_bytes)");
    }
    void* const at = member_->heap() + member_->allocated;
    member_->allocated += size;
    return at;
}

bool Group::lacks(const Call& call, bool resident) const
{
    return is_rare(call) && member_->lacks_rare(resident);
}

void Group::add_code(const Code& code, bool resident)
{
    member_->process.check("the group");
    member_->add_code(code, resident);
}

void Group::run(Call call, void* stream)
{
    member_->process.check("the group");
    member_->plan(call);
    member_->run(call, stream);
}

namespace {

Call call_of(Kind kind, const void* in, void* out, uint64_t count, Type type, Op op = Op::sum,
             uint32_t root = 0)
{
    Call call;
    call.kind = kind;
    call.type = type;
    call.op = op;
    call.algorithm = Algorithm::automatic;
    call.root = root;
    call.channels = 0;
    call.count = count;
    call.in = in;
    call.out = out;
    return call;
}

} // namespace

void Group::all_reduce(const void* in, void* out, uint64_t count, Type type, Op op, void* stream)
{
    run(call_of(Kind::all_reduce, in, out, count, type, op), stream);
}
void Group::reduce_scatter(const void* in, void* out, uint64_t count, Type type, Op op,
                           void* stream)
{
    run(call_of(Kind::reduce_scatter, in, out, count, type, op), stream);
}
void Group::all_gather(const void* in, void* out, uint64_t count, Type type, void* stream)
{
    run(call_of(Kind::all_gather, in, out, count, type), stream);
}
void Group::broadcast(const void* in, void* out, uint64_t count, Type type, uint32_t root,
                      void* stream)
{
    run(call_of(Kind::broadcast, in, out, count, type, Op::sum, root), stream);
}
void Group::all_to_all(const void* in, void* out, uint64_t count, Type type, void* stream)
{
    run(call_of(Kind::all_to_all, in, out, count, type), stream);
}
void Group::barrier(void* stream)
{
    run(call_of(Kind::barrier, nullptr, nullptr, 0, Type::f32), stream);
}

void Group::wait(void* stream)
{
    member_->process.check("the group");
    member_->wait(stream);
}

void Group::check() const { member_->look(); }

} // namespace denizen

// SPDX-License-Identifier: Apache-2.0
// Group: the plan of a call (which algorithm, how many channels, from where), and errors. What
// depends on the device is behind Member.
#include "member.hpp"

#include "base/round_up.hpp"

#include <denizen/device/residents.hpp>

#include <denizen/group/detail/perform.hpp>

#include <algorithm>

namespace denizen {

namespace group {
namespace {

// The reverse of signature_of().
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
    const char* const hash =
        call.kind == Kind::all_reduce_norm ? ", the hash of its width " : ", symmetric memory ";
    text +=
        (called.word[0] >> 16 & 3) != 0 ? hash + std::to_string(called.word[2] >> 16) + ")" : ")";
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

const Choice& Member::choice(Kind kind, uint64_t bytes) const
{
    const Choice* found = nullptr;
    for (const Choice& row : table) {
        if (row.kind != kind) continue;
        found = &row;
        if (bytes <= row.up_to) break; // else the last one of the kind
    }
    return found != nullptr ? *found : ref.choice(bytes);
}

void Member::plan(Call& call) const
{
    check_call(*this, call);
    const Choice& its = choice(call.kind, call.count * size_of(call.type));
    const bool automatic = call.algorithm == Algorithm::automatic;
    if (automatic) call.algorithm = its.algorithm;
    if (call.channels == 0) call.channels = its.channels;
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
    if (automatic && on_gpu) push_what_is_not_there(call);
}

void check_norm(const Member& member, const NormCall& norm)
{
    if (!can_norm(norm.type) || norm.width == 0 || norm.rows >> 32 != 0 ||
        norm.rows * norm.width >> 46 != 0 || norm.channels > member.ref.layout.channels) {
        throw Error(Errc::bad_argument,
                    "all_reduce_norm of " + std::to_string(norm.rows) + " x " +
                        std::to_string(norm.width) + " " + to_string(norm.type) + " by " +
                        std::to_string(norm.channels) +
                        " channels; it takes f32, f16 or bf16, rows of one element and more, and " +
                        std::to_string(member.ref.layout.channels) + " channels");
    }
    const uint32_t size = size_of(norm.type);
    const uint64_t row = uint64_t{norm.width} * size;
    const struct {
        const char* name;
        const void* at;
        uint64_t bytes;
    } data[] = {{"the input", norm.in, norm.rows * row},
                {"the residual", norm.residual, norm.rows * row},
                {"the weight", norm.weight, row},
                {"the sum", norm.sum, norm.rows * row},
                {"the output", norm.out, norm.rows * row}};
    for (const auto& one : data) {
        if (one.at == nullptr || reinterpret_cast<uintptr_t>(one.at) % size != 0) {
            throw Error(Errc::bad_argument, std::string("all_reduce_norm: ") + one.name +
                                                " is missing or not aligned to its elements");
        }
    }
    for (const uint32_t written : {3u, 4u}) {
        for (uint32_t i = 0; i < written; ++i) {
            const bool same = (written == 3 && i == 1) || (written == 4 && i == 0);
            if (same && data[i].at == data[written].at) continue;
            if (overlap(static_cast<const unsigned char*>(data[i].at), data[i].bytes,
                        static_cast<const unsigned char*>(data[written].at), data[written].bytes)) {
                throw Error(Errc::bad_argument,
                            std::string("all_reduce_norm: ") + data[written].name + " overlaps " +
                                data[i].name +
                                "; the output may be the input, and the sum the residual");
            }
        }
    }
}

void Member::run_norm(const NormCall&, void*)
{
    throw Error(Errc::bad_argument, "a group between hosts (NCCL) has no all_reduce_norm: call "
                                    "all_reduce, then add and normalise");
}

void Member::look() const
{
    uint32_t word = 0;
    read(&word, &ref.control(ref.rank)->poison, sizeof word);
    if (word != 0) throw_verdict(*this, Verdict::of(word));
}

bool Member::lacks(const Call&, bool) const { return false; }
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

const GroupRef* Group::address() const
{
    ref(); // throws over NCCL
    return member_->placed();
}

void* Group::allocate(uint64_t bytes)
{
    const uint64_t size = round_up(bytes, 256);
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

bool Group::lacks(const Call& call, bool resident) const { return member_->lacks(call, resident); }

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

void Group::all_reduce_norm(NormCall call, void* stream)
{
    member_->process.check("the group");
    if (!member_->shares_memory) member_->run_norm(call, stream); // which it refuses
    check_norm(*member_, call);
    if (call.rows == 0) return;
    if (call.channels == 0) call.channels = member_->ref.layout.channels;
    call.channels = static_cast<uint32_t>(std::min<uint64_t>(call.channels, call.rows));
    member_->run_norm(call, stream);
}

bool Group::lacks_norm() const { return member_->lacks_norm(); }

void Group::add_norm(const Code& code)
{
    member_->process.check("the group");
    member_->add_norm(code);
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

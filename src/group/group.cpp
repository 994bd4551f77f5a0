// SPDX-License-Identifier: Apache-2.0
// Group: options, the plan of a call (which algorithm, how many channels, from where), errors. What
// depends on the device is behind Seat.
#include "seat.hpp"

#include "../backend.hpp"

#include <denizen/group/perform.hpp>

#include <algorithm>
#include <cstring>

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
    std::vector<Choice> rows{{6 * kib, Algorithm::one_shot, 1},
                             {64 * kib, Algorithm::one_shot, 12}};
    if (ranks == 2) {
        rows.push_back({512 * kib, Algorithm::one_shot, 44});
        rows.push_back({4096 * kib, Algorithm::pull, 64});
        rows.push_back({0, Algorithm::pull, 128});
    } else {
        rows.push_back({512 * kib, Algorithm::two_shot, 44});
        rows.push_back({4096 * kib, Algorithm::pull_twice, 64});
        rows.push_back({0, Algorithm::pull_twice, 128});
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
    const uint32_t slots = o.slots != 0 ? o.slots : 512;
    layout.slots = (slots + run_packets - 1) / run_packets * run_packets;
    const uint32_t stage = o.stage_bytes != 0 ? o.stage_bytes : on_gpu ? 256 << 10 : 64 << 10;
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

void equip(Seat& seat, const GroupOptions& o)
{
    seat.ref.timeout_ns = static_cast<uint64_t>(o.timeout.count());
    seat.least_gbs = o.least_gbs;
    for (Choice& row : seat.table) row.channels = std::min(row.channels, seat.ref.layout.channels);
    std::copy(seat.table.begin(), seat.table.end(), seat.ref.table);
    seat.ref.choices = static_cast<uint32_t>(seat.table.size());
}

std::vector<Choice> table_of(bool on_gpu, const Layout& layout, const GroupOptions& o)
{
    check_table(o.table, layout.channels);
    return o.table.empty() ? built_in(on_gpu, layout.ranks) : o.table;
}

std::string name_of(const Packet& called)
{
    if (called.sequence == 0) return "nothing yet";
    const auto kind = static_cast<Kind>(called.word[0] & 15);
    if (kind == Kind::barrier) return "barrier";
    const uint64_t count = called.word[1] | (uint64_t{called.word[2]} & 0xffff) << 32;
    const auto algorithm = static_cast<Algorithm>(called.word[0] >> 12 & 15);
    std::string text = std::string(to_string(kind)) + " of " + std::to_string(count) + " " +
                       to_string(static_cast<Type>(called.word[0] >> 4 & 15));
    if (reduces(kind)) {
        text += std::string(", ") + to_string(static_cast<Op>(called.word[0] >> 8 & 15));
    }
    if (kind == Kind::broadcast) text += ", root " + std::to_string(called.word[0] >> 18 & 15);
    text += std::string(" (") + to_string(algorithm) + ", " + std::to_string(called.word[0] >> 22) +
            " channels";
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

void plan(const Seat& seat, Call& call)
{
    const Layout& layout = seat.ref.layout;
    if (static_cast<uint32_t>(call.kind) >= kinds || static_cast<uint32_t>(call.type) >= types ||
        static_cast<uint32_t>(call.op) >= ops ||
        static_cast<uint32_t>(call.algorithm) >= algorithms || call.root >= layout.ranks ||
        call.count >> 46 != 0) {
        throw Error(Errc::bad_argument, "a call of a group is out of range: root " +
                                            std::to_string(call.root) + " of " +
                                            std::to_string(layout.ranks) + " ranks, " +
                                            std::to_string(call.count) + " elements");
    }
    const uint32_t size = size_of(call.type);
    const uint64_t bytes = call.count * size;
    const Choice& choice = seat.ref.choice(bytes);
    if (call.algorithm == Algorithm::automatic) {
        call.algorithm = choice.algorithm;
        if (call.channels == 0) call.channels = choice.channels;
    }
    if (call.channels == 0) call.channels = choice.channels;
    call.channels = std::min(call.channels, layout.channels);
    call.in_place = call.out_place = 0;
    if (call.kind == Kind::barrier) {
        call.count = 0;
        call.channels = 1;
        return;
    }
    call.algorithm = only_for(call.kind, call.algorithm);
    const auto* const in = static_cast<const unsigned char*>(call.in);
    auto* const out = static_cast<unsigned char*>(call.out);
    if (call.count == 0) {
        call.algorithm = Algorithm::one_shot;
        call.channels = 1;
        return;
    }
    const uint64_t in_bytes = bytes * (scatters(call.kind) ? layout.ranks : 1);
    const uint64_t out_bytes = bytes * (gathers(call.kind) ? layout.ranks : 1);
    if (in == nullptr || out == nullptr || reinterpret_cast<uintptr_t>(in) % size != 0 ||
        reinterpret_cast<uintptr_t>(out) % size != 0) {
        throw Error(Errc::bad_argument, std::string(to_string(call.kind)) +
                                            ": data are missing or not aligned to their elements");
    }
    const uint64_t mine = bytes * seat.ref.rank;
    const bool in_place = call.kind == Kind::all_gather       ? in == out + mine
                          : call.kind == Kind::reduce_scatter ? out == in + mine
                                                              : in == out;
    if (!in_place && overlap(in, in_bytes, out, out_bytes)) {
        throw Error(Errc::bad_argument,
                    std::string(to_string(call.kind)) +
                        ": input and output overlap; use the same places, or others");
    }
    find_places(seat.ref, call);
}

void throw_verdict(const Seat& seat, Verdict verdict)
{
    const auto called = [&](uint32_t rank) {
        Packet packet;
        seat.read(&packet, &seat.ref.control(rank)->called, sizeof packet);
        return name_of(packet);
    };
    const std::string culprit = "rank " + std::to_string(verdict.culprit);
    const std::string accuser = "rank " + std::to_string(verdict.accuser);
    const std::string end = "; the group of " + std::to_string(seat.ref.layout.ranks) +
                            " is of no more use, make a new one";
    if (verdict.code == Errc::bad_argument) {
        throw Error(verdict.code, culprit + " called " + called(verdict.culprit) + ", but " +
                                      accuser + " called " + called(verdict.accuser) + end);
    }
    throw Error(verdict.code, accuser + " waited " + denizen::detail::seconds(seat.ref.timeout_ns) +
                                  " for " + culprit + " in " + called(verdict.accuser) + end);
}

} // namespace group

using namespace group;

Group::Group(std::unique_ptr<Seat> seat) : seat_(std::move(seat)) {}
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
    Seats seats = on_gpu ? make_gpu_seats(layout, first.ordinal, code) : make_cpu_seats(layout);
    for (auto& seat : seats) {
        seat->table = table;
        equip(*seat, options);
        if (!on_gpu) {
            for (uint32_t r = 0; r < ranks; ++r) {
                if (r != seat->ref.rank) seat->links.push_back({r, "CPU", 0, true});
            }
        }
    }
    for (auto& seat : seats) seat->begin_check();
    for (auto& seat : seats) seat->end_check();
    std::vector<Group> groups;
    for (auto& seat : seats) groups.push_back(Group(std::move(seat)));
    return groups;
}

Group Group::join(const std::string& path, uint32_t rank, uint32_t ranks, Device device,
                  const GroupOptions& options, const Code& code)
{
    const bool on_gpu = device.kind == Device::Kind::gpu;
    Hello hello;
    hello.layout = layout_of(ranks, on_gpu, options);
    if (rank >= ranks) {
        throw Error(Errc::bad_argument, "rank " + std::to_string(rank) + " of a group of " +
                                            std::to_string(ranks) + "; ranks count from 0");
    }
    hello.rank = rank;
    hello.on_gpu = on_gpu ? 1 : 0;
    const std::vector<Choice> table = table_of(on_gpu, hello.layout, options);
    std::copy(table.begin(), table.end(), hello.table);
    hello.choices = static_cast<uint32_t>(table.size());
    auto seat = on_gpu ? join_gpu(path, hello, options.timeout, device.ordinal, code)
                       : join_cpu(path, hello, options.timeout);
    equip(*seat, options);
    seat->begin_check();
    seat->end_check();
    return Group(std::move(seat));
}

uint32_t Group::rank() const { return seat_->ref.rank; }
uint32_t Group::ranks() const { return seat_->ref.layout.ranks; }
bool Group::on_gpu() const { return seat_->on_gpu; }
const std::string& Group::device() const { return seat_->device; }
const std::vector<GroupLink>& Group::links() const { return seat_->links; }
const std::vector<Choice>& Group::table() const { return seat_->table; }
const GroupRef& Group::ref() const { return seat_->ref; }

void* Group::allocate(uint64_t bytes)
{
    const uint64_t size = (bytes + 255) / 256 * 256;
    const uint64_t room = seat_->ref.layout.heap_bytes;
    if (size < bytes || size > room - seat_->allocated) {
        throw Error(Errc::exhausted, "the group's symmetric memory has " +
                                         std::to_string(room - seat_->allocated) + " of " +
                                         std::to_string(room) + " bytes left, not " +
                                         std::to_string(bytes) + "; give it more (heap_bytes)");
    }
    void* const at = seat_->ref.heap(rank()) + seat_->allocated;
    seat_->allocated += size;
    return at;
}

void Group::run(Call call, void* stream)
{
    plan(*seat_, call);
    seat_->run(call, stream);
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

void Group::wait(void* stream) { seat_->wait(stream); }

void Group::check() const
{
    uint32_t word = 0;
    seat_->read(&word, &seat_->ref.control(rank())->poison, sizeof word);
    if (word != 0) throw_verdict(*seat_, Verdict::of(word));
}

} // namespace denizen

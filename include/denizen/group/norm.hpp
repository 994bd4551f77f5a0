// SPDX-License-Identifier: Apache-2.0
// What stands between two layers whose matrices are shared out, in one kernel: the sum of all
// ranks' rows, the sum with the residual, and the RMS norm of that. On their own these are an
// all-reduce, and a kernel that reads its result again.
//
//   sum[row] = residual[row] + sum over ranks of in[row]              rounded once
//   out[row] = sum[row] / sqrt(mean of sum[row]^2 + eps) * weight     in f32, rounded once
//
// By packets, as one_shot: for the rows of a decoding step. A row is the work of one channel's
// team, so as many blocks take part as there are rows. All ranks get the same bits.
#pragma once

#include <denizen/group/detail/packets.hpp>

namespace denizen::group {

// Plain data. The same on all ranks but for addresses and eps.
struct NormCall {
    Type type = Type::bf16; // f32, f16 or bf16
    uint32_t width = 0;     // elements of a row
    uint64_t rows = 0;
    uint32_t channels = 0;          // that take part; 0: one for each row, if there are as many
    float eps = 1e-6f;              // of all rows' mean squares
    const void* in = nullptr;       // this rank's part: rows x width
    const void* residual = nullptr; // rows x width
    const void* weight = nullptr;   // width
    void* sum = nullptr;            // rows x width; may be `residual`
    void* out = nullptr;            // rows x width; may be `in`
};

DENIZEN_HD constexpr bool can_norm(Type type)
{
    return type == Type::f32 || type == Type::f16 || type == Type::bf16;
}

// How it is compared between ranks, and named in errors.
DENIZEN_HD inline Call call_of(const NormCall& norm)
{
    Call call;
    call.kind = Kind::all_reduce_norm;
    call.type = norm.type;
    call.channels = norm.channels;
    call.count = norm.rows * norm.width;
    call.in_place = norm.width; // ranks compare a hash of it (signature_of)
    return call;
}

// Elements of one row, from `at` on, as a packet has them.
template <class T>
struct Piece {
    T value[per_packet<T>];

    DENIZEN_HD Piece(const void* from, uint64_t at, uint64_t left)
        : Piece(pick<T>(static_cast<const unsigned char*>(from) + at * sizeof(T), left))
    {
    }
    DENIZEN_HD explicit Piece(const Packet& p) { copy_bytes(value, p.word, sizeof value); }
    DENIZEN_HD void place_at(void* to, uint64_t at, uint64_t left) const
    {
        Packet p{};
        copy_bytes(p.word, value, sizeof value);
        place<T>(static_cast<unsigned char*>(to) + at * sizeof(T), p, left);
    }
};

// The turn to go on from (Channel::go_on).
template <class T, uint32_t N, class Memory>
DENIZEN_HD inline uint32_t norm_of(Channel<Memory> channel, const NormCall norm)
{
    using Who = typename Memory::Team;
    constexpr uint32_t each = per_packet<T>;
    const GroupRef& g = channel.group();
    const uint32_t me = channel.rank();
    const uint32_t ranks = ranks_of<N>(channel);
    const uint32_t slots = g.layout.slots;
    const uint32_t packets = (norm.width + each - 1) / each; // of a row
    DENIZEN_ROLLED
    for (uint64_t row = channel.index(); row < norm.rows; row += norm.channels) {
        const uint64_t begin = row * norm.width;
        float squares = 0;
        DENIZEN_ROLLED
        for (uint32_t first = 0; first < packets; first += slots) { // a turn: what an inbox holds
            const uint32_t some = packets - first < slots ? packets - first : slots;
            const bool proven = channel.known(); // each peer sends `some` > 0 packets
            const auto left = [&](uint32_t i) { return norm.width - uint64_t{first + i} * each; };
            const auto own = [&](uint32_t i) {
                return pick<T>(static_cast<const unsigned char*>(norm.in) +
                                   (begin + uint64_t{first + i} * each) * sizeof(T),
                               left(i));
            };
            channel.open_turn(proven);
            const uint64_t mine = g.inbox_offset(channel.index(), channel.turn(), 0, me);
            DENIZEN_ROLLED
            for (uint32_t i = Who::rank(); i < some; i += Who::size()) {
                const Packet p = own(i);
                DENIZEN_ROLLED
                for (uint32_t step = 1; step < ranks; ++step) {
                    send_packet(channel, channel.peer(step), mine, i, p);
                }
            }
            const Packet* const inbox = g.inbox(me, channel.index(), channel.turn(), 0, 0);
            bool good = true;
            DENIZEN_ROLLED
            for (uint32_t i = Who::rank(); good && i < some; i += Who::size()) {
                const Packet here = own(i);
                Packet got[N] = {};
                DENIZEN_UNROLL
                for (uint32_t r = 0; r < N; ++r) {
                    if (r == me) got[r] = here;
                }
                good = collect<N>(channel, inbox, slots, i, max_ranks, got);
                if (!good) break;
                const uint64_t at = begin + uint64_t{first + i} * each;
                Piece<T> sum(norm.residual, at, left(i));
                DENIZEN_UNROLL
                for (uint32_t k = 0; k < each; ++k) {
                    float whole = 0;
                    DENIZEN_UNROLL
                    for (uint32_t r = 0; r < N; ++r) {
                        if (r < ranks) whole += widen(Piece<T>(got[r]).value[k]);
                    }
                    sum.value[k] = Narrow<T>::of(widen(sum.value[k]) + whole);
                    const float is = widen(sum.value[k]); // beyond the row's end: 0
                    squares += is * is;
                }
                sum.place_at(norm.sum, at, left(i));
            }
            if (!channel.close_turn(good, proven)) return 0;
        }
        const float mean = Who::sum(squares) / static_cast<float>(norm.width);
        const float scale = 1.0f / root(mean + norm.eps);
        // Each thread reads the sums that it has written itself.
        DENIZEN_ROLLED
        for (uint32_t first = 0; first < packets; first += slots) {
            DENIZEN_ROLLED
            for (uint32_t i = first + Who::rank(); i < packets && i < first + slots;
                 i += Who::size()) {
                const uint64_t left = norm.width - uint64_t{i} * each;
                const uint64_t at = begin + uint64_t{i} * each;
                const Piece<T> weight(norm.weight, uint64_t{i} * each, left);
                Piece<T> y(norm.sum, at, left);
                DENIZEN_UNROLL
                for (uint32_t k = 0; k < each; ++k) {
                    y.value[k] = Narrow<T>::of(widen(y.value[k]) * scale * widen(weight.value[k]));
                }
                y.place_at(norm.out, at, left);
            }
        }
    }
    return channel.turn();
}

// This channel's rows. Every thread of the team; `norm` is complete. False: the group is poisoned.
template <class Memory>
DENIZEN_HD inline bool all_reduce_norm(Channel<Memory>& channel, const NormCall& norm)
{
    if (channel.index() >= norm.channels) return true;
    if (!channel.begin(call_of(norm))) return false;
    const auto as = [&]<class T>(T) {
        return channel.go_on(
            for_ranks<T>(channel, [&]<uint32_t N>() { return norm_of<T, N>(channel, norm); }));
    };
    switch (norm.type) {
    case Type::f32: return as(float{});
    case Type::f16: return as(Half{});
    case Type::bf16: return as(BFloat{});
    default: return false; // the host refuses it
    }
}

} // namespace denizen::group

#if (defined(__CUDACC__) || defined(__CUDACC_RTC__)) && !defined(DENIZEN_GROUP_INSIDE_ONLY)

// One block for each channel.
DENIZEN_GROUP_KERNEL __launch_bounds__(512)
    denizen_group_norm(const __grid_constant__ denizen::GroupRef group,
                       const __grid_constant__ denizen::group::NormCall call)
{
    denizen::group::await_kernel_before();
    denizen::group::Channel<> channel(group, blockIdx.x);
    all_reduce_norm(channel, call);
    denizen::group::let_kernel_behind_launch();
    channel.close();
}

#endif

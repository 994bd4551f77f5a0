// SPDX-License-Identifier: Apache-2.0
// A persistent all-reduce, like MPI_Allreduce_init: work that all its calls have in common is done
// once. On the device a short call takes as long as its instructions do. all_reduce() has some 350
// of them around one way over the link; a call of AllReduce has about a hundred.
//
//   denizen::group::Channel channel(group, blockIdx.x);
//   denizen::group::AllReduce<float> sum(channel, gridDim.x, in, out, count); // all threads
//   for (...) { ...; if (!sum(channel)) return; } // all ranks as often
//   channel.close();
//
// That holds for one_shot and results of at most one packet for each thread, which are
// 12 * channels * threads bytes. Any other call, the first call, and a call after a different call
// of the channel are done by all_reduce().
#pragma once

#include <denizen/group/detail/perform.hpp>

namespace denizen::group {

template <class T, class Memory = Direct>
class AllReduce {
    using Team = typename Memory::Team;

public:
    // Called by all threads of a team, on all ranks with the same arguments but for the addresses.
    // The data must stay at these addresses. `channels`, `algorithm`: as in all_reduce().
    DENIZEN_HD AllReduce(const Channel<Memory>& channel, uint32_t channels, const T* in, T* out,
                         uint64_t count, Op op = Op::sum,
                         Algorithm algorithm = Algorithm::automatic)
        : call_(call_of(channel, Kind::all_reduce, channels, in, out, count, op, algorithm, 0)),
          signature_(signature_of(call_))
    {
        const Dealt number{channel.index(), channels};
        const uint64_t packets = (count + each - 1) / each;
        if (channel.index() >= channels || packets > uint64_t{channels} * Team::size() ||
            Team::size() > channel.group().layout.slots || number(0) >= packets ||
            call_.algorithm != Algorithm::one_shot) {
            return;
        }
        short_ = true;
        const uint64_t element = uint64_t{number(Team::rank())} * each;
        left_ = element < count ? count - element : 0;
        in_ = reinterpret_cast<const unsigned char*>(in) + element * sizeof(T);
        out_ = reinterpret_cast<unsigned char*>(out) + element * sizeof(T);
        const GroupRef& g = channel.group();
        const uint64_t mine = sizeof(Packet) * Team::rank();
        to_ = g.inbox_offset(channel.index(), 0, 0, channel.rank()) + mine;
        from_ = g.memory[channel.rank()] + g.inbox_offset(channel.index(), 0, 0, 0) + mine;
        odd_ = g.inbox_offset(channel.index(), 1, 0, 0) - g.inbox_offset(channel.index(), 0, 0, 0);
    }

    // Called by all threads of the team that made this object. False: the group is poisoned, and
    // every later call returns false, too.
    DENIZEN_HD bool operator()(Channel<Memory>& channel) const
    {
        if (!short_ || !channel.repeats(signature_)) return perform_as<T>(channel, call_);
        return for_ranks<T>(channel, [&]<uint32_t N>() { return turn<N>(channel); });
    }

private:
    static constexpr uint32_t each = per_packet<T>;

    template <uint32_t N>
    DENIZEN_HD bool turn(Channel<Memory>& channel) const
    {
        channel.open_turn(true);
        bool good = true;
        if (left_ != 0) {
            const GroupRef& g = channel.group();
            const uint32_t ranks = ranks_of<N>(channel);
            const uint64_t side = (channel.turn() & 1) != 0 ? odd_ : 0;
            Packet own = pick<T>(in_, left_);
            own.sequence = channel.sequence();
            DENIZEN_UNROLL
            for (uint32_t step = 1; step < N; ++step) {
                if (step >= ranks) break;
                channel.memory().store(
                    reinterpret_cast<Packet*>(g.memory[channel.peer(step)] + to_ + side), own);
            }
            Packet got[N];
            DENIZEN_UNROLL
            for (uint32_t r = 0; r < N; ++r) got[r] = own;
            good = collect<N>(channel, reinterpret_cast<const Packet*>(from_ + side),
                              g.layout.slots, 0, max_ranks, got);
            if (good) place<T>(out_, reduced<T>(call_.op, got, ranks), left_);
        }
        return channel.close_turn(good, true);
    }

    Call call_;
    Packet signature_;
    bool short_ = false; // there is a turn, of at most one packet for each thread
    uint64_t left_ = 0;  // elements from this thread's packet on; 0: it has none
    const unsigned char* in_ = nullptr;
    unsigned char* out_ = nullptr;
    uint64_t to_ = 0; // where this thread's packet goes in each peer's memory, in even turns
    const unsigned char* from_ = nullptr; // where rank 0's comes from
    uint64_t odd_ = 0;                    // how far from there in odd turns
};

} // namespace denizen::group

// SPDX-License-Identifier: Apache-2.0
// The porter of a resident simulation: a thread that looks for the host's orders, and does nothing
// else, and the porch, where it lays the next one for the conductor (control.hpp).
#pragma once

#include <denizen/base/atomic.hpp>
#include <denizen/wave/detail/checkpoint.hpp>
#include <denizen/wire/spsc.hpp>

namespace denizen::wave {

DENIZEN_HD inline RingView ring_from(RingView ring, uint32_t position)
{
    ring.start = position;
    return ring;
}

// The consumer of the orders. It asks for all packets of two slots at once: of a ring in the host's
// memory a device would else wait for each of them.
class Orders {
public:
    DENIZEN_HD explicit Orders(const RingView& ring)
        : ring_(ring), head_(ring.start), credited_(ring.start)
    {
    }

    DENIZEN_HD bool try_receive(Header& header, Command& order)
    {
        if (seen_ == 0) look();
        if (seen_ == 0) {
            give_credit();
            return false;
        }
        const Packet* const p = packet_[2 - seen_];
        header = decode(p[0]);
        for (uint32_t i = 0; i < 9; ++i) order.word[i] = p[1 + i / 3].word[i % 3];
        --seen_;
        ++head_;
        if (head_ - credited_ > ring_.mask >> 2) give_credit();
        return true;
    }

    DENIZEN_HD void give_credit()
    {
        if (credited_ == head_) return;
        // Release: partner of the producer's acquire.
        store<Scope::system, Order::release>(&ring_.words->credit, head_);
        credited_ = head_;
    }

    DENIZEN_HD uint32_t position() const { return head_; }

private:
    DENIZEN_HD void look()
    {
        DENIZEN_UNROLL
        for (uint32_t i = 0; i < 8; ++i) {
            packet_[i / 4][i % 4] = load_packet<Scope::system>(
                &ring_.slots[(head_ + i / 4) & ring_.mask].packet[i % 4]);
        }
        bool here[2] = {true, true};
        DENIZEN_UNROLL
        for (uint32_t i = 0; i < 8; ++i) {
            here[i / 4] &= packet_[i / 4][i % 4].sequence == head_ + i / 4 + 1;
        }
        if (!here[0]) return;
        seen_ = here[1] ? 2 : 1;
        if (seen_ == 1) {
            for (uint32_t i = 0; i < 4; ++i) packet_[1][i] = packet_[0][i];
        }
    }

    RingView ring_;
    uint32_t head_;
    uint32_t credited_;
    uint32_t seen_ = 0; // slots that have been looked at and not taken: the last of packet_
    Packet packet_[2][4];
};

// Between two threads of a block.
struct Porch {
    Command order;
    Header header;
    uint32_t full = 0;
    uint32_t closed = 0; // by the conductor
    uint32_t left = 0;   // the porter has
    uint32_t orders = 0; // and has taken so many
    // It has looked once at least: however short a breath, commands get through.
    uint32_t looked = 0;
};

DENIZEN_HD inline Porch porch_of(const Checkpoint& from)
{
    Porch porch;
    porch.order = from.order;
    porch.header = from.header;
    porch.full = from.waiting;
    return porch;
}

DENIZEN_HD inline void carry(Orders orders, Porch& porch)
{
    Backoff idle;
    bool looked = false;
    // Ends when the conductor closes the porch.
    while (load<Scope::block>(&porch.closed) == 0) {
        // Acquire: partner of the conductor's release when it has taken what lay there.
        if (load<Scope::block, Order::acquire>(&porch.full) == 0 &&
            orders.try_receive(porch.header, porch.order)) {
            store<Scope::block, Order::release>(&porch.full, 1u); // partner: conductor's acquire
            idle.reset();
        } else if (!DENIZEN_ON_DEVICE) {
            idle.pause();
        }
        if (!looked) store<Scope::block>(&porch.looked, 1u);
        looked = true;
    }
    orders.give_credit();
    porch.orders = orders.position();
    // Release: partner of the conductor's acquire.
    store<Scope::block, Order::release>(&porch.left, 1u);
}

} // namespace denizen::wave

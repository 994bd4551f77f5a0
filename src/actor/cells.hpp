// SPDX-License-Identifier: Apache-2.0
// Reply cells: where the answers to `ask` arrive. A cell is a slot (or several, if the program has
// long messages) in host memory that one ask owns; the worker writes the reply there, every packet
// carrying the ask's address as its sequence, and the asking thread polls it. No ring, nobody in
// between. A reply of at most 8 bytes is a single packet.
//
// A cell whose ask gave up is not given out again before its late reply has come: a reply to an old
// ask can never be taken for a new one's. The 12-bit lap in the address is the second guard.
#pragma once

#include "port.hpp"

#include <denizen/actor/address.hpp>
#include <denizen/actor/detail/layout.hpp>

#include <cstring>
#include <mutex>
#include <vector>

namespace denizen {

class Cells {
public:
    void open(Slot* slots, uint32_t slots_per_cell, uint32_t count)
    {
        slots_ = slots;
        per_cell_ = slots_per_cell;
        laps_.assign(count, 0);
        for (uint32_t i = count; i-- > 0;) {
            free_.push_back(i);
        }
    }

    size_t count() const { return laps_.size(); }

    // False if all cells are taken.
    bool take(Address& ticket)
    {
        const std::lock_guard guard(lock_);
        if (free_.empty()) {
            reclaim();
        }
        if (free_.empty()) {
            return false;
        }
        const uint32_t cell = free_.back();
        free_.pop_back();
        // Laps start at 1: a zero-filled cell never matches, whose sequence would be address 0's.
        ticket = Address::reply_cell(cell, ++laps_[cell]);
        return true;
    }

    // The address of the ask that has this cell, if the low bits of its lap are these (of `laps`, a
    // power of two); 0 if it has another.
    Address taken(uint32_t cell, uint32_t lap, uint32_t laps)
    {
        const std::lock_guard guard(lock_);
        const bool same = ((laps_[cell] ^ lap) & (laps - 1)) == 0 && laps_[cell] != 0;
        return {same ? Address::reply_cell(cell, laps_[cell]).value : 0};
    }

    // True once the whole reply has arrived; then `h` is its header.
    bool arrived(Address ticket, Header& h) const
    {
        const Slot* cell = slots_ + static_cast<size_t>(ticket.cell()) * per_cell_;
        const Packet first = load_packet<Scope::system>(&cell->packet[0]);
        if (first.sequence != ticket.value) {
            return false;
        }
        h = decode(first);
        if ((h.flags & flag_compact) != 0) {
            return true;
        }
        const uint32_t n = slots_for(h.length);
        for (uint32_t i = 0; i < n; ++i) {
            for (const Packet& p : cell[i].packet) {
                if (load_packet<Scope::system>(&p).sequence != ticket.value + i) {
                    return false;
                }
            }
        }
        return true;
    }

    // The stamp of a traced reply that has arrived.
    uint64_t stamp(Address ticket, const Header& h) const
    {
        const Slot* cell = slots_ + static_cast<size_t>(ticket.cell()) * per_cell_;
        uint64_t stamp = 0;
        for (uint32_t i = 0; i < stamp_bytes; ++i) {
            const uint32_t at = packet_payload + payload_bytes(h) + i; // behind the header packet
            const uint32_t place = at / packet_payload;
            const Packet p = load_packet<Scope::system>(&cell[place / 4].packet[place % 4]);
            const uint32_t byte = p.word[at % packet_payload / 4] >> at % 4 * 8 & 0xff;
            stamp |= static_cast<uint64_t>(byte) << i * 8;
        }
        return stamp;
    }

    // Copies the payload of an arrived reply, at most `room` bytes, and frees the cell.
    void finish(Address ticket, const Header& h, void* reply, uint32_t room)
    {
        Slot* cell = slots_ + static_cast<size_t>(ticket.cell()) * per_cell_;
        auto* bytes = static_cast<unsigned char*>(reply);
        const uint32_t bytes_sent = payload_bytes(h);
        const uint32_t length = bytes_sent < room ? bytes_sent : room;
        if ((h.flags & flag_compact) != 0) {
            if (length != 0) { // an acknowledgement has none, and its asker no room
                const uint32_t words[2] = {h.destination, h.sender}; // see store_compact()
                std::memcpy(bytes, words, length);
            }
            release(ticket, 0);
            return;
        }
        for (uint32_t place = 1, at = 0; at < length; ++place, at += packet_payload) {
            const Packet p = load_packet<Scope::system>(&cell[place / 4].packet[place % 4]);
            const uint32_t part = length - at < packet_payload ? length - at : packet_payload;
            std::memcpy(bytes + at, p.word, part);
        }
        release(ticket, slots_for(h.length));
    }

    // Returns a cell whose ask was never sent, its lap too: with the lap used up for nothing, 4,096
    // of these would bring the last reply's back.
    void give_back(Address ticket)
    {
        const std::lock_guard guard(lock_);
        --laps_[ticket.cell()];
        free_.push_back(ticket.cell());
    }

    // Gives up on a reply that has not arrived.
    void abandon(Address ticket)
    {
        const std::lock_guard guard(lock_);
        abandoned_.push_back(ticket);
    }

    // For a snapshot: calls `put(lap, open)` for each cell, `open` if its reply is still to come.
    // An ask that has a cell and has not been sent counts too: restored, its cell is never free.
    template <class Put>
    void save(Put&& put)
    {
        const std::lock_guard guard(lock_);
        std::vector<bool> open(laps_.size(), true);
        for (const uint32_t cell : free_) {
            open[cell] = false;
        }
        for (uint32_t cell = 0; cell < laps_.size(); ++cell) {
            Header h;
            put(laps_[cell], open[cell] && !arrived(Address::reply_cell(cell, laps_[cell]), h));
        }
    }

    // What save() told, of a program that nobody has asked yet. Those who waited are gone: their
    // cells are free when the late replies have come.
    void restore(std::vector<uint32_t> laps, const std::vector<bool>& open)
    {
        laps_ = std::move(laps);
        free_.clear();
        for (auto cell = static_cast<uint32_t>(laps_.size()); cell-- > 0;) {
            if (open[cell]) {
                abandoned_.push_back(Address::reply_cell(cell, laps_[cell]));
            } else {
                free_.push_back(cell);
            }
        }
    }

private:
    void release(Address ticket, uint32_t n)
    {
        clear(ticket, n);
        const std::lock_guard guard(lock_);
        free_.push_back(ticket.cell());
    }

    // Clears a reply of n slots but for its first packet. The others are not rewritten by every
    // reply: their sequences would match again when the lap wraps.
    void clear(Address ticket, uint32_t n)
    {
        Slot* cell = slots_ + static_cast<size_t>(ticket.cell()) * per_cell_;
        for (uint32_t place = 1; place < 4 * n; ++place) {
            store_packet<Scope::system>(&cell[place / 4].packet[place % 4], {{0, 0, 0}, 0});
        }
    }

    void reclaim() // with the lock held
    {
        for (size_t i = 0; i < abandoned_.size();) {
            Header h;
            if (arrived(abandoned_[i], h)) {
                clear(abandoned_[i], (h.flags & flag_compact) != 0 ? 0 : slots_for(h.length));
                free_.push_back(abandoned_[i].cell());
                abandoned_[i] = abandoned_.back();
                abandoned_.pop_back();
            } else {
                ++i;
            }
        }
    }

    Slot* slots_ = nullptr;
    uint32_t per_cell_ = 1;
    SpinLock lock_;
    std::vector<uint32_t> free_;
    std::vector<uint32_t> laps_;
    std::vector<Address> abandoned_;
};

} // namespace denizen

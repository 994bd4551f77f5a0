// SPDX-License-Identifier: Apache-2.0
// Urgent messages overtake on a wire: the receiver looks ahead of what it has not delivered, and
// takes urgent messages out of their turn. Their places stay where they are, and are passed over
// when their turn comes, and so they keep their order: sequence numbers, bounds and
// acknowledgements know nothing of it. A sender leaves the last of a wire's room to urgent
// messages, so that there is some when the receiver is held up.
#pragma once

#include <deque>
#include <functional>

#include <denizen/wire/slot.hpp>

namespace denizen::cluster {

using IsUrgent = std::function<bool(const Header&)>;

// Positions of messages, which only grow; 32 bits may wrap.
template <class Position>
class Ahead {
public:
    // From where to look: all before it is known, or has had its turn. `next`: whose turn it is.
    Position from(Position next)
    {
        const Position behind = next - looked_;
        if (behind != 0 && behind < (~Position{0} >> 1)) {
            looked_ = next;
        }
        return looked_;
    }
    // The message there ends at `end`.
    void see(Position at, Position end, bool urgent)
    {
        if (urgent) {
            found_.push_back(at);
        }
        looked_ = end;
    }
    // One to be taken out of its turn.
    bool any() const { return !found_.empty(); }
    Position first() const { return found_.front(); }
    void take_first()
    {
        taken_.push_back(found_.front());
        found_.pop_front();
    }
    // It is the turn of an urgent message there. True: it has been taken, and is passed over.
    bool pass(Position at)
    {
        if (taken_.empty() || taken_.front() != at) {
            return false;
        }
        taken_.pop_front();
        return true;
    }

private:
    Position looked_ = 0;
    std::deque<Position> found_;
    std::deque<Position> taken_;
};

} // namespace denizen::cluster

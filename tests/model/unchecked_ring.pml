/* SPDX-License-Identifier: Apache-2.0
 *
 * Models include/denizen/flow/detail/unchecked_ring.hpp and channel.hpp: two rings to one receiver that sleeps on one
 * bell, and the items' way back.
 *
 * ITEMS items belong to each sender; a ring has SLOTS slots. A sender sends an item whenever it has one
 * back, without looking at the ring. Its store sits in a store buffer while it goes on to look whether
 * the receiver sleeps; light_fence does nothing about that, heavy_fence empties the buffers. Sender 1
 * may stop for good before any send, and the items of the other still arrive. A sender sends SENDS
 * times at most.
 *
 * Checked: no slot is written before what it held was read; every item arrives in its sender's order;
 * when nothing moves any more, nothing sent is unread (no wake-up is lost).
 */
#ifndef SLOTS
#define SLOTS 2
#endif
#ifndef ITEMS
#define ITEMS 2
#endif
#define SENDS 4
#define AT(ring, ticket) ((ring) * SLOTS + (ticket) % SLOTS)

byte arrived[2 * SLOTS]; /* ticket + 1, as in memory */
byte buffered[2];        /* stores that are not visible yet: the ring's last ones */
byte tail[2];
byte head[2];
byte own[2]; /* items at their sender */
byte sleeping;
byte bell;
bool asleep;

inline drain_buffer(ring) {
    do
    :: buffered[ring] > 0 ->
        arrived[AT(ring, tail[ring] - buffered[ring])] = tail[ring] - buffered[ring] + 1;
        buffered[ring]--
    :: else -> break
    od
}

#define READY(ring) (arrived[AT(ring, head[ring])] == head[ring] + 1)

proctype Sender(bit me) {
    do
    :: d_step {
           tail[me] < SENDS && own[me] > 0 ->
           assert(tail[me] - head[me] < SLOTS); /* else an unread item is overwritten */
           own[me]--;
           tail[me]++;
           buffered[me]++
       }
       if
       :: sleeping > 0 ->
           bell++;
           asleep = false /* futex wake */
       :: sleeping == 0
       fi
    :: tail[me] == SENDS -> break
    :: me == 1 -> break /* it is preempted and never comes back */
    od
}

proctype StoreBuffers() {
end:
    do
    :: d_step { buffered[0] > 0 -> arrived[AT(0, tail[0] - buffered[0])] = tail[0] - buffered[0] + 1; buffered[0]-- }
    :: d_step { buffered[1] > 0 -> arrived[AT(1, tail[1] - buffered[1])] = tail[1] - buffered[1] + 1; buffered[1]-- }
    od
}

proctype Receiver() {
    byte seen;
end:
    do
    :: d_step { READY(0) -> head[0]++; own[0]++ } /* received, and on its way back */
    :: d_step { READY(1) -> head[1]++; own[1]++ }
    :: !READY(0) && !READY(1) ->
        seen = bell;
        sleeping++;
#ifndef PLANTED_NO_HEAVY_FENCE
        d_step { drain_buffer(0); drain_buffer(1) }
#endif
        if
#ifndef PLANTED_LOOK_AT_ONE
        :: READY(0) || READY(1)
        :: !READY(0) && !READY(1) ->
#else
        :: READY(0)
        :: !READY(0) ->
#endif
            atomic {
                if
                :: bell == seen -> asleep = true
                :: else
                fi
            }
end_asleep:
            !asleep
        fi;
        sleeping--
    od
}

proctype Audit() {
    timeout -> assert(head[0] == SENDS && head[0] == tail[0] && head[1] == tail[1] &&
                      own[0] == ITEMS && own[1] == ITEMS)
}

init {
    atomic {
        own[0] = ITEMS;
        own[1] = ITEMS;
        run Sender(0);
        run Sender(1);
        run StoreBuffers();
        run Receiver();
        run Audit()
    }
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Models include/denizen/wire/wait.hpp: ring_bell, sleep_on_bell, over base/fence.hpp.
 *
 * Two producers, two consumers that sleep on one bell. A producer's store of a message sits in its
 * store buffer while it goes on to read `sleeping`; light_fence does nothing about that. heavy_fence
 * empties the store buffers of all. Consumer 0 sleeps without a time-out; consumer 1 may wake by
 * time-out whenever it likes, and may then go away, as one does that got a message and works on it.
 * Who clears the bit `unrung` rings, in two steps; the others do not. PLANTED_BELL_FIRST rings before
 * it clears the bit, PLANTED_KEEPS_BIT does not set it where somebody sleeps already, and with
 * PLANTED_ONE_FLAG who gets up clears it for all.
 *
 * Checked: when nothing moves any more, no message lies there while consumer 0 sleeps beside it.
 */
#ifndef MESSAGES
#define MESSAGES 2
#endif

byte published; /* in memory, not yet taken */
byte buffered;  /* in the producers' store buffers */
byte sleeping;
bool unrung;
byte bell;
bool asleep[2];

inline ring() {
    d_step { bell++; asleep[0] = false; asleep[1] = false } /* futex wake */
}

proctype Producer() {
    byte sent;
    bool mine;
    do
    :: sent < MESSAGES ->
        d_step { buffered++; sent++ }
        if
        :: unrung ->
#ifdef PLANTED_BELL_FIRST
            ring();
            unrung = false
#else
            d_step { mine = unrung; unrung = false }
            if
            :: mine -> ring()
            :: !mine
            fi
#endif
        :: !unrung
        fi
    :: sent == MESSAGES -> break
    od
}

proctype StoreBuffer() {
end:
    do
    :: d_step { buffered > 0 -> published = published + buffered; buffered = 0 }
    od
}

proctype Consumer(bit me) {
    byte seen;
end:
    do
    :: d_step { published > 0 -> published-- }
    :: published == 0 ->
        seen = bell;
        sleeping++;
#ifdef PLANTED_KEEPS_BIT
        unrung = unrung || sleeping == 1;
#else
        unrung = true;
#endif
#ifndef PLANTED_NO_HEAVY_FENCE
        d_step { published = published + buffered; buffered = 0 } /* heavy_fence */
#endif
        if
        :: published > 0
        :: published == 0 ->
            atomic { /* futex wait: sleeps only if nobody has rung since */
                if
                :: bell == seen -> asleep[me] = true
                :: else
                fi
            }
end_asleep:
            if
            :: !asleep[me]
            :: me == 1 -> asleep[me] = false /* time-out */
            fi
        fi;
#ifdef PLANTED_ONE_FLAG
        d_step { sleeping--; unrung = false }
#else
        d_step { sleeping--; unrung = unrung && sleeping != 0 }
#endif
    :: me == 1 -> break
    od
}

/* Runs when no other process can move. */
proctype Audit() {
    timeout -> assert(published + buffered == 0)
}

init {
    atomic {
        run Producer();
        run Producer();
        run StoreBuffer();
        run Consumer(0);
        run Consumer(1);
        run Audit()
    }
}

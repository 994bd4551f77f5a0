/* SPDX-License-Identifier: Apache-2.0
 *
 * Models include/denizen/wire/wait.hpp: ring_bell, sleep_on_bell, over base/fence.hpp.
 *
 * One producer, two consumers that sleep on one bell. The producer's store of a message sits in its
 * store buffer while it goes on to read `sleeping`; light_fence does nothing about that. heavy_fence
 * empties the store buffers of all. Consumer 0 sleeps without a time-out; consumer 1 may wake by
 * time-out whenever it likes, and may then go away, as one does that got a message and works on it.
 *
 * Checked: when nothing moves any more, no message lies there while consumer 0 sleeps beside it.
 */
#ifndef MESSAGES
#define MESSAGES 4
#endif

byte published; /* in memory, not yet taken */
byte buffered;  /* in the producer's store buffer */
byte sleeping;
byte bell;
bool asleep[2];

proctype Producer() {
    byte sent;
    do
    :: sent < MESSAGES ->
        d_step { buffered++; sent++ }
        if
        :: sleeping > 0 ->
#ifdef PLANTED_ONE_FLAG
            sleeping = 0;
#endif
            bell++;
            d_step { asleep[0] = false; asleep[1] = false } /* futex wake */
        :: sleeping == 0
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
#ifdef PLANTED_ONE_FLAG
        sleeping = 1;
#else
        sleeping++;
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
        sleeping = 0
#else
        sleeping--
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
        run StoreBuffer();
        run Consumer(0);
        run Consumer(1);
        run Audit()
    }
}

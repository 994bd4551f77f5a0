/* SPDX-License-Identifier: Apache-2.0
 *
 * Models include/denizen/wire/mpmc.hpp: send, receive, over wire/slot.hpp (Vyukov's bounded queue).
 *
 * Two producers and two consumers. The sequence of a slot's first packet says whose turn it is: t is
 * free for ticket t, t + 1 holds ticket t; a consumer frees with t + CAP. A producer reads the tail,
 * looks whether all slots it needs are free, takes their tickets by one compare-exchange and writes.
 * A consumer reads the head, looks at the header, takes the message by one compare-exchange, waits for
 * every packet, reads it, and frees its slots. A compare-exchange succeeds if nobody moved the word
 * since it was read: that a thread sleeps there for exactly 2^32 tickets is left out.
 *
 * Checked: nothing lost or duplicated, order per producer (by order of tickets), nothing torn, no
 * deadlock.
 */
#define WRITERS 4 /* producers 0, 1; consumers 2, 3 */
#include "memory.inc"
#ifndef NUMS
#define NUMS 2
#endif

byte tail = START;
byte head = START;
byte expected[2];

/* What a process has read and not yet acted on. Whoever moves the word sets the other one of its kind
 * back to IDLE: its compare-exchange is going to fail, and what it has read until then is not used. */
mtype = { IDLE, LOOKS, READY, OWNS };
mtype state[4] = IDLE;
byte ticket[4];
byte m[4]; /* message, as its header says */
byte i[4]; /* slots and */
byte p[4]; /* packets looked at */

#define FORGET(x) ticket[x] = 0; m[x] = 0; i[x] = 0; p[x] = 0; state[x] = IDLE
#define MOVED(other)                                                   \
    if                                                                 \
    :: state[other] == LOOKS || state[other] == READY -> FORGET(other) \
    :: else                                                            \
    fi

proctype Producer(bit me) {
    byte number, slots, last, s, w;
    do
    :: d_step { state[me] == IDLE -> ticket[me] = tail; state[me] = LOOKS }
    :: atomic {
           state[me] == LOOKS && seq[AT(ticket[me] + i[me], 0)] == WRAP(ticket[me] + i[me]) ->
           i[me]++;
           if
           :: state[me] = READY
           :: i[me] < MAX_SLOTS
           fi
       }
    :: atomic {
           state[me] == READY ->
           slots = i[me];
           tail = WRAP(tail + slots);
           MOVED(1 - me);
           choose_last();
           do
           :: s < slots -> issue_slot(me, ticket[me], s, BODY(me, number, slots, last)); s++
           :: else -> break
           od;
           number = (number + 1) % NUMS;
           slots = 0; last = 0; s = 0;
           FORGET(me)
       }
    od
}

#define HERE (seq[AT(ticket[me] + i[me], p[me])] == FULL(ticket[me] + i[me]))

inline free_slots() {
    j = 0;
    do
    :: j < SLOTS(m[me]) ->
        ISSUE(me, AT(ticket[me] + j, 0), WRAP(ticket[me] + j + CAP), POISON);
        j++
    :: else -> break
    od;
    j = 0
}

proctype Consumer(byte me) {
    byte j;
    do
    :: d_step { state[me] == IDLE -> ticket[me] = head; state[me] = LOOKS }
    :: d_step { state[me] == LOOKS && HERE -> m[me] = body[AT(ticket[me], 0)]; state[me] = READY }
    :: atomic {
           state[me] == READY ->
           head = WRAP(head + SLOTS(m[me]));
           MOVED(5 - me);
           assert(m[me] != POISON && NUMBER(m[me]) == expected[WHO(m[me])]);
           expected[WHO(m[me])] = (expected[WHO(m[me])] + 1) % NUMS;
           state[me] = OWNS
#ifdef PLANTED_EARLY_FREE
           ;
           free_slots() /* before it has read them */
#endif
       }
    :: atomic {
#ifdef PLANTED_EARLY_FREE
           state[me] == OWNS ->
#else
           state[me] == OWNS && HERE ->
#endif
           assert(i[me] + p[me] == 0 /* the header has been read */ ||
                  p[me] >= PAYLOAD(m[me], i[me]) || body[AT(ticket[me] + i[me], p[me])] == m[me]);
           p[me]++;
           if
           :: p[me] == AWAITED(m[me], i[me]) -> p[me] = 0; i[me]++
           :: else
           fi;
           if
           :: i[me] == SLOTS(m[me]) && p[me] == 0 ->
               poison(ticket[me], SLOTS(m[me]));
#ifndef PLANTED_EARLY_FREE
               free_slots();
#endif
               FORGET(me)
           :: else
           fi
       }
    od
}

proctype Memory() {
    do
    VISIBLE_ANY
    od
}

init {
    byte s;
    initialise(1 - CAP);
    d_step {
        do
        :: s < CAP -> seq[s * PK] = WRAP(FIRST(s)); s++
        :: else -> break
        od;
        s = 0
    }
    atomic {
        run Producer(0);
        run Producer(1);
        run Consumer(2);
        run Consumer(3);
        run Memory()
    }
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Models include/denizen/actor/detail/worker.hpp: round, post, write_or_park, park, flush,
 * advance.
 *
 * Two workers that answer each other, inboxes of CAP slots, and a host that always has one more
 * message in each worker's host ring. A handler sends on at most one message per message (to the other
 * worker; a message from the host starts HOPS of them). A send reads the credit, draws its ticket,
 * and writes its slot if that credit covers it; else the message is parked in the sender's outbox
 * with its ticket, and written by a later flush. While anything is parked anywhere (Board::jammed) a
 * worker takes from its host ring only if no more than LET_IN messages are (jams_itself(): half an
 * outbox where workers are few), and does so at any time: the real one now and then.
 *
 * Checked: nothing lost, duplicated or reordered between two workers; no slot written before it is
 * free; no deadlock; and no outbox ever holds more than OUTBOX messages, whatever the host sends.
 * That holds because of the rule for the host ring: with a look at the own outbox alone
 * (PLANTED_OWN_GATE), or with a limit for each outbox and none for all together
 * (PLANTED_LIMIT_OF_EACH), the population grows until some other worker's outbox is full. A handler
 * that waits for its slot instead of parking (PLANTED_WAIT) deadlocks. With LET_IN 0 the host is shut
 * out while anything is parked, and half the outbox is enough.
 * Left out: the late visibility of stores (mpsc.pml has it).
 */
#define CAP 2
#ifndef MOD
#define MOD 16
#endif
#ifndef HOPS
#define HOPS 2
#endif
#ifndef OUTBOX
#define OUTBOX 6 /* what can be alive with LET_IN 0 less the ring in front, and LET_IN */
#endif
#ifndef LET_IN
#define LET_IN 2
#endif
#define WRAP(x) ((x) & (MOD - 1))
#define SLOT(w, ticket) ((w) * CAP + ((ticket) & (CAP - 1)))

/* Per worker: its inbox, and its outbox (all messages for the other one). */
byte tail[2];
byte head[2];
byte credit[2];
byte seq[2 * CAP];  /* sequence of a slot, modulo MOD; the slot of ticket t holds it if it is t + 1 */
byte hops[2 * CAP];
byte number[2 * CAP];
byte parked[2];
byte parked_ticket[2 * OUTBOX];
byte parked_hops[2 * OUTBOX];
byte parked_number[2 * OUTBOX];

#define ARRIVED(w) (seq[SLOT(w, head[w])] == WRAP(head[w] + 1))

inline write(to, ticket, h, n) {
    /* The slot is free: its last message has been taken and its credit returned. */
    assert(WRAP(ticket - credit[to]) < CAP && WRAP(ticket - head[to]) < CAP);
    seq[SLOT(to, ticket)] = WRAP(ticket + 1);
    hops[SLOT(to, ticket)] = h;
    number[SLOT(to, ticket)] = n
}

inline forget(place) {
    parked_ticket[place] = 0;
    parked_hops[place] = 0;
    parked_number[place] = 0
}

#define CAN_FLUSH (parked[me] > 0 && WRAP(parked_ticket[me * OUTBOX] - credit[1 - me]) < CAP)

/* Writes what has room by now, keeps the rest in order. */
inline flush() {
    i = 0;
    kept = 0;
    do
    :: i < parked[me] ->
        if
        :: WRAP(parked_ticket[me * OUTBOX + i] - credit[1 - me]) < CAP ->
            write(1 - me, parked_ticket[me * OUTBOX + i], parked_hops[me * OUTBOX + i],
                  parked_number[me * OUTBOX + i])
        :: else ->
            parked_ticket[me * OUTBOX + kept] = parked_ticket[me * OUTBOX + i];
            parked_hops[me * OUTBOX + kept] = parked_hops[me * OUTBOX + i];
            parked_number[me * OUTBOX + kept] = parked_number[me * OUTBOX + i];
            kept++
        fi;
        i++
    :: else -> break
    od;
    i = kept;
    do
    :: i < parked[me] -> forget(me * OUTBOX + i); i++
    :: else -> break
    od;
    parked[me] = kept;
    kept = 0;
    i = 0
}

#if defined(PLANTED_OWN_GATE)
#define GATE (parked[me] > LET_IN)
#elif defined(PLANTED_LIMIT_OF_EACH)
#define GATE (parked[0] > LET_IN || parked[1] > LET_IN)
#else
#define GATE (parked[0] + parked[1] > LET_IN)
#endif

proctype Worker(bit me) {
    byte seen, ticket, left, i, kept, sent, expected;
    bit from_ring;
    do
    :: atomic { /* what this round serves */
           if
           :: ARRIVED(me) -> from_ring = false
           :: !GATE -> from_ring = true /* at any time: the real worker prefers the inbox */
           fi;
           if
           :: from_ring -> left = HOPS
           :: else ->
               left = hops[SLOT(me, head[me])];
               assert(number[SLOT(me, head[me])] == expected);
               expected = 1 - expected
           fi
       }
       if
       :: left > 0 ->
           seen = credit[1 - me];
           atomic {
               ticket = tail[1 - me];
               tail[1 - me] = WRAP(ticket + 1);
               left--
           }
           atomic {
               if
               :: WRAP(ticket - seen) < CAP -> write(1 - me, ticket, left, sent)
               :: else ->
#ifdef PLANTED_WAIT
                   WRAP(ticket - credit[1 - me]) < CAP -> write(1 - me, ticket, left, sent)
#else
                   assert(parked[me] < OUTBOX);
                   parked_ticket[me * OUTBOX + parked[me]] = ticket;
                   parked_hops[me * OUTBOX + parked[me]] = left;
                   parked_number[me * OUTBOX + parked[me]] = sent;
                   parked[me]++
#endif
               fi;
               sent = 1 - sent;
               ticket = 0;
               seen = 0;
               left = 0
           }
       :: else
       fi;
       atomic {
           if
           :: from_ring
           :: else -> head[me] = WRAP(head[me] + 1)
           fi;
           from_ring = 0;
           if
           :: WRAP(head[me] - credit[me]) > (CAP - 1) / 4 -> credit[me] = head[me]
           :: else
           fi;
           flush()
       }
    :: atomic { /* nothing to serve: only the outbox */
           !ARRIVED(me) && CAN_FLUSH -> flush()
       }
    :: atomic { !ARRIVED(me) && credit[me] != head[me] -> credit[me] = head[me] }
    od
}

init {
    byte s;
    d_step {
        do
        :: s < CAP ->
            seq[s] = WRAP(s + 1 - CAP);
            seq[CAP + s] = WRAP(s + 1 - CAP);
            s++
        :: else -> break
        od;
        s = 0
    }
    atomic {
        run Worker(0);
        run Worker(1)
    }
}

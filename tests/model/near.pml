/* SPDX-License-Identifier: Apache-2.0
 *
 * Models include/denizen/actor/detail/near.hpp with post.hpp (draw), outbox.hpp (park, flush) and kernel.hpp
 * (enter_near, leave_near): a near ring, from worker 0 to worker 1 of a cluster.
 *
 * The sender draws a ticket for every message; one whose slot is not free by the credit in its box is
 * parked, with its ticket, and written by a later flush, in any order with others that have room. The
 * receiver gives credit back after any message it likes, and always when it finds nothing; the store
 * becomes visible late, as the slots do, in any order. A slot is one location here (packets of a slot:
 * mpsc.pml).
 *
 * Both leave when they like: first each puts what it knows into its box, then it waits for the other
 * at the cluster barrier, behind which all stores of both are visible and none follows; then it copies
 * its box to global memory, and its shared memory is gone (POISON). Coming back it copies the box
 * and waits for the other again before it writes.
 *
 * Checked: nothing lost, doubled or reordered, no slot written before it is free, no deadlock. With no
 * barrier before the box is put away (PLANTED_NO_BARRIER) a late store is lost; with none behind the
 * copy on the way in (PLANTED_EARLY_SEND) the copy overwrites it; heads that are not kept with the box
 * (PLANTED_FORGOTTEN_HEAD) name messages that were read; credit that is given before the message is
 * read (PLANTED_EARLY_CREDIT) lets the next lap overwrite it; and credit that is withheld on leaving
 * (PLANTED_WITHHELD_CREDIT) never comes, since a worker that is back takes all as given.
 *
 * LEAVES bounds how often they leave, so that a message that is lost ends in a deadlock.
 */
#ifndef CAP
#define CAP 2
#endif
#ifndef MOD
#define MOD 8
#endif
#ifndef OUTBOX
#define OUTBOX 2
#endif
#ifndef LEAVES
#define LEAVES 2
#endif
#define START (MOD - 1)
#define WRAP(x) ((x) & (MOD - 1))
#define AT(ticket) ((ticket) & (CAP - 1))
#define POISON 255

/* Boxes in shared memory: the receiver's slots and head, the sender's tail and credit; and as kept in
 * global memory while the program is off the GPU. The number of a message is its ticket's parity. */
byte seq[CAP];
byte number[CAP];
byte head;
byte tail;
byte credit;
byte kept_seq[CAP];
byte kept_number[CAP];
byte kept_head = START;
byte kept_tail = START;
byte kept_credit = START;

/* Issued and not yet visible: one store per location. */
bool out[CAP];
byte out_seq[CAP];
byte out_number[CAP];
bool credit_out;
byte credit_late;

/* In the outbox, which is in global memory. */
byte parked;
byte parked_ticket[OUTBOX];
byte parked_number[OUTBOX];

bool leave; /* the command */
byte off;   /* workers whose boxes are put away */
byte on;    /* workers that may come back */
byte arrived; /* at the barrier */
byte passed;

#define ROOM(ticket) (WRAP((ticket) - credit) < CAP)

inline issue(ticket, n) {
    assert(!out[AT(ticket)]);
    out[AT(ticket)] = true;
    out_seq[AT(ticket)] = WRAP((ticket) + 1);
    out_number[AT(ticket)] = n
}

#define SLOT_VISIBLE(x)                \
    d_step {                           \
        out[x] ->                      \
        assert(number[x] == POISON);   \
        seq[x] = out_seq[x];           \
        number[x] = out_number[x];     \
        out[x] = false;                \
        out_seq[x] = 0;                \
        out_number[x] = 0              \
    }

proctype Memory() {
    do
    :: SLOT_VISIBLE(0)
    :: SLOT_VISIBLE(1)
    :: d_step { credit_out -> credit = credit_late; credit_out = false; credit_late = 0 }
    od
}

#define NOTHING_LATE (!out[0] && !out[1] && !credit_out)

/* barrier.cluster: release what this worker has stored, wait for both. The last one to arrive opens
 * it; nobody arrives again before both have passed. */
inline meet() {
    atomic { passed == 0 -> arrived++ };
    atomic {
        arrived == 2 && NOTHING_LATE ->
        passed++;
        if
        :: passed == 2 -> passed = 0; arrived = 0
        :: else
        fi
    }
}

#ifdef PLANTED_NO_BARRIER
#define MEET_BEFORE_LEAVING skip
#else
#define MEET_BEFORE_LEAVING meet()
#endif
#ifdef PLANTED_EARLY_SEND
#define MEET_AFTER_COMING skip
#else
#define MEET_AFTER_COMING meet()
#endif

/* The program comes back when both have left. */
#define REST off++; d_step { on > 0 -> on-- }

proctype Sender() {
    byte sent, ticket;
    do
    :: atomic { /* a message; credit and tail are in this worker's own box */
           parked < OUTBOX ->
           ticket = tail;
           tail = WRAP(tail + 1);
           if
           :: ROOM(ticket) -> issue(ticket, sent)
           :: else ->
               parked_ticket[parked] = ticket;
               parked_number[parked] = sent;
               parked++
           fi;
           sent = 1 - sent;
           ticket = 0
       }
    :: atomic { /* flush: whichever has room, so that every order is covered */
           parked > 0 && ROOM(parked_ticket[0]) ->
           issue(parked_ticket[0], parked_number[0]);
           parked--;
           parked_ticket[0] = parked_ticket[parked];
           parked_number[0] = parked_number[parked];
           parked_ticket[parked] = 0;
           parked_number[parked] = 0
       }
    :: atomic {
           parked == 2 && ROOM(parked_ticket[1]) ->
           issue(parked_ticket[1], parked_number[1]);
           parked--;
           parked_ticket[1] = 0;
           parked_number[1] = 0
       }
    :: leave ->
       MEET_BEFORE_LEAVING;
       d_step { kept_tail = tail; kept_credit = credit; tail = POISON; credit = POISON };
       REST;
       d_step { tail = kept_tail; credit = kept_credit; kept_tail = 0; kept_credit = 0 };
       MEET_AFTER_COMING
    od
}

#define HERE (seq[AT(head)] == WRAP(head + 1))
#define GIVE d_step { given != head && !credit_out -> credit_out = true; credit_late = head; given = head }

proctype Receiver() {
    byte expected;
    byte given = START; /* credit as stored */
    do
    :: d_step {
           HERE ->
           assert(number[AT(head)] == expected);
           number[AT(head)] = POISON;
           expected = 1 - expected;
           head = WRAP(head + 1)
       }
    :: GIVE
#ifdef PLANTED_EARLY_CREDIT
    :: d_step {
           HERE && given == head && !credit_out ->
           given = WRAP(head + 1);
           credit_out = true;
           credit_late = given
       }
#endif
    :: leave ->
#ifndef PLANTED_WITHHELD_CREDIT
       if
       :: GIVE
       :: given == head
       fi;
#endif
       MEET_BEFORE_LEAVING;
       d_step {
#ifndef PLANTED_FORGOTTEN_HEAD
           kept_head = head;
#endif
           kept_seq[0] = seq[0]; kept_seq[1] = seq[1];
           kept_number[0] = number[0]; kept_number[1] = number[1];
           head = POISON; given = 0;
           seq[0] = POISON; seq[1] = POISON;
           number[0] = POISON; number[1] = POISON
       };
       REST;
       d_step {
           head = kept_head; given = kept_head;
           seq[0] = kept_seq[0]; seq[1] = kept_seq[1];
           number[0] = kept_number[0]; number[1] = kept_number[1];
#ifndef PLANTED_FORGOTTEN_HEAD
           kept_head = 0;
#endif
           kept_seq[0] = 0; kept_seq[1] = 0;
           kept_number[0] = 0; kept_number[1] = 0
       };
       MEET_AFTER_COMING
    od
}

/* The monitor's word, and the host that brings the program back. */
proctype Host() {
    byte leaves;
end:
    do
    :: d_step { leaves < LEAVES && !leave && on == 0 -> leave = true; leaves++ }
    :: d_step { off == 2 -> off = 0; on = 2; leave = false }
    od
}

init {
    d_step {
        head = START;
        tail = START;
        credit = START;
        /* As if the tickets before had been read. */
        seq[AT(START)] = WRAP(START + 1 - CAP);
        seq[AT(START + 1)] = WRAP(START + 2 - CAP);
        number[0] = POISON;
        number[1] = POISON
    }
    atomic {
        run Sender();
        run Receiver();
        run Memory();
        run Host()
    }
}

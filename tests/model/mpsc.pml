/* SPDX-License-Identifier: Apache-2.0
 *
 * Models include/denizen/wire/mpsc.hpp: send, try_send, receive, return of credit, over wire/slot.hpp.
 *
 * Two producers draw tickets from one shared tail, one consumer with a private head, one shared word
 * `credit`. A producer chooses freely between
 *   send:     tickets by fetch_add, then slot by slot: wait until credit covers it, issue it;
 *   try_send: read tail and credit, give up if credit does not cover the last slot, else reserve by
 *             compare-exchange, then the same.
 * Messages and the consumer are those of spsc.pml. A compare-exchange succeeds if nobody moved the
 * tail since it was read: that a thread sleeps there for exactly 2^32 tickets is left out.
 *
 * Checked: nothing lost or duplicated, order per producer (numbers), nothing torn, no deadlock.
 */
#define WRITERS 2
#include "memory.inc"
#ifndef NUMS
#define NUMS 2
#endif
#include "consumer.inc"

byte tail = START;
byte watch[2]; /* has the tail moved since this producer read it? */
#define WATCHES 1
#define LOST 2
#define MOVE_TAIL                            \
    tail = WRAP(tail + slots);               \
    if                                       \
    :: watch[1 - me] -> watch[1 - me] = LOST \
    :: else                                  \
    fi

#define COVERED(n) (WRAP(ticket - credit) + (n) <= CAP)

proctype Producer(bit me) {
    byte number, slots, last, ticket, i, w;
    do
    :: if
       :: atomic { choose_slots(); ticket = tail; MOVE_TAIL }
       :: d_step { ticket = tail; watch[me] = WATCHES }
          if
          :: COVERED(1) -> slots = 1
          :: MAX_SLOTS == 2 && COVERED(2) -> slots = 2
          :: d_step { !COVERED(MAX_SLOTS) -> ticket = 0; watch[me] = 0 }
             goto refused
          fi;
          if
          :: d_step { watch[me] == WATCHES -> watch[me] = 0; MOVE_TAIL }
          :: d_step { watch[me] == LOST -> ticket = 0; slots = 0; watch[me] = 0 }
             goto refused /* another attempt is another try_send */
          fi
       fi;
       do
       :: atomic {
              COVERED(i + 1) ->
              if
              :: last == 0 -> choose_last()
              :: else
              fi;
              issue_slot(me, ticket, i, BODY(me, number, slots, last));
              i++;
              if
              :: i == slots ->
                  number = (number + 1) % NUMS;
                  slots = 0; last = 0; i = 0; ticket = 0;
                  break
              :: else
              fi
          }
       od;
refused:
       skip
    od
}

init {
    byte s;
    initialise(1 - CAP);
    atomic {
        run Producer(0);
        run Producer(1);
        run Consumer();
        run Memory()
    }
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Models include/denizen/wire/spsc.hpp: send, receive, return of credit, over wire/slot.hpp.
 *
 * One producer with a private tail, one consumer with a private head, one shared word `credit` (the
 * consumer's position). Messages of one or two slots, the last slot of one or two packets, chosen
 * freely. The producer issues all slots of a message as soon as credit covers the last one. The
 * consumer returns credit after any message it likes (so every batch size is covered), and always
 * when it finds a packet missing. The store of credit becomes visible late, too.
 *
 * Checked: nothing lost, duplicated or reordered (numbers), nothing torn (bodies), no deadlock.
 */
#define WRITERS 1
#include "memory.inc"
#ifndef NUMS
#define NUMS 2
#endif
#include "consumer.inc"


proctype Producer() {
    byte tail = START;
    byte number, slots, last, i, w;
    do
    :: choose_slots();
       choose_last();
       d_step {
           WRAP(tail + slots - 1 - credit) < CAP ->
           i = 0;
           do
           :: i < slots -> issue_slot(0, tail, i, BODY(0, number, slots, last)); i++
           :: else -> break
           od;
           tail = WRAP(tail + slots);
           number = (number + 1) % NUMS;
           slots = 0;
           last = 0;
           i = 0
       }
    od
}

init {
    byte s;
    initialise(1 - CAP);
    atomic {
        run Producer();
        run Consumer();
        run Memory()
    }
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Models include/denizen/flow/detail/parking.hpp: a coroutine that two notifiers wake and that one of two
 * workers resumes.
 *
 * A notifier publishes an item, then changes the word in one step. The coroutine takes items until it
 * finds none, then suspends by a compare-exchange; a word that has changed is cleared first and looked
 * behind. The notifier's publication is visible before its change of the word (a release); nothing else
 * is assumed of the order of stores.
 *
 * Checked: the coroutine is scheduled once for each suspension and runs on one worker at a time; when
 * nothing moves any more, every item was received (no wake-up is lost).
 */
#define SENDS 3
#define NOTIFIED 1
#define SUSPENDED 2

byte items;
byte word = SUSPENDED;
byte queued;
byte running;
byte received;

proctype Notifier() {
    byte old;
    byte sent;
    do
    :: sent < SENDS ->
        sent++;
#ifndef PLANTED_LATE_PUBLISH
        items++;
#endif
        d_step { old = word; word = word | NOTIFIED }
#ifdef PLANTED_LATE_PUBLISH
        items++;
#endif
        if
#ifdef PLANTED_EVERY_NOTIFIER
        :: (old & SUSPENDED) != 0 ->
#else
        :: old == SUSPENDED ->
#endif
            assert(queued == 0 && running == 0);
            queued++
        :: else
        fi
    :: sent == SENDS -> break
    od
}

proctype Worker() {
end:
    do
    :: d_step { queued > 0 -> queued--; running++ }
       assert(running == 1);
       word = 0;
look:
       if
       :: d_step { items > 0 -> items--; received++ }
          goto look
       :: items == 0 /* settled() says no */
       fi;
suspend:
       if
#ifdef PLANTED_STORE
       :: d_step { word = SUSPENDED; running-- }
#else
       :: d_step { word == 0 -> word = SUSPENDED; running-- } /* it may run elsewhere from here on */
#endif
#ifdef PLANTED_LOOK_FIRST
       :: word != 0 ->
          if
          :: items > 0 -> goto look
          :: items == 0
          fi;
          word = 0;
          goto suspend
#else
       :: word != 0 ->
          word = 0;
          goto look
#endif
       fi
    od
}

proctype Audit() {
    timeout -> assert(items == 0 && received == 2 * SENDS && running == 0)
}

init {
    atomic {
        run Notifier();
        run Notifier();
        run Worker();
        run Worker();
        run Audit()
    }
}

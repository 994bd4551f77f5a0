/* SPDX-License-Identifier: Apache-2.0
 *
 * Models the edge between running and parked: src/device/keeper.cpp (wake, keep, rest), src/actor/asking.hpp
 * (send_header, pending), include/denizen/actor/kernel.hpp, detail/monitor.hpp (run_worker, run_monitor,
 * scan).
 *
 * Two host threads send messages into the host rings of two workers; each message makes its worker send
 * one to the other worker's inbox, which has room for INBOX. The monitor tells the workers to leave
 * whenever it likes. A worker leaves between two messages, also with more waiting or parked: they hold
 * tickets, so the last scan is not quiet. When both have left, the program has; the keeper then
 * looks whether a host ring or an inbox holds anything, else announces that it sleeps, looks again, and
 * sleeps on a bell. A sender publishes under the port's lock, then looks whether the keeper sleeps or
 * the program has left. Messages are counted; their contents are the ring models' business.
 *
 * A worker says that it has left in memory that outlives the launch: when the program is back, it goes
 * on saying so until the worker has come as far as to say otherwise, while the monitor may be looking
 * already. So the monitor believes it only when it has told the workers to leave. It may then still be
 * wrong about a worker that has said nothing yet. The launch is over when the workers have really left,
 * and what the monitor told the host of the host rings before is older than what such a worker does.
 *
 * Unlocking is a store: it and the tail it publishes sit in the sender's store buffer while the
 * sender goes on to look whether anybody sleeps. The keeper never wakes by time-out here.
 *
 * Checked: when nothing moves any more, no message is left in a host ring, an inbox or an outbox, and all
 * workers have left; and no worker stays that nobody can tell to leave any more.
 */
#ifndef MESSAGES
#define MESSAGES 2 /* of sender 0; the other sends one less */
#endif
#ifndef INBOX
#define INBOX 1
#endif

mtype = { RUNNING, LEFT };
mtype mode = RUNNING;
bool command_leave;
bool quiet;
bool worker_left[2]; /* says the worker, or said it at the end of the last launch */
bool on[2] = true;   /* it is in this launch and has not left */
bool said[2];        /* it has said so */

byte ring_tail[2]; /* drawn by the host */
byte ring_done[2]; /* handled by the worker */
byte ring_told[2]; /* told to the host */
byte inbox_tail[2];
byte inbox_written[2];
byte inbox_done[2];
byte parked[2]; /* in the outbox of this worker, for the other one */

bool locked;
bool unlock_buffered[2];
byte sleeping;
byte bell;
bool asleep;

/* Sender w sends into host ring w; who shares a host ring is settled by the lock. */
proctype Sender(bit me) {
    byte sent;
    bool look;
    do
    :: sent < MESSAGES - me ->
        d_step { !locked -> locked = true; ring_tail[me]++; unlock_buffered[me] = true; sent++ }
        look = sleeping > 0 || mode == LEFT;
        if
        :: look ->
            bell++;
            asleep = false /* futex wake */
        :: else
        fi;
        look = false
    :: sent == MESSAGES - me -> break
    od
}

proctype StoreBuffer() {
end:
    do
    :: d_step { unlock_buffered[0] -> unlock_buffered[0] = false; locked = false }
    :: d_step { unlock_buffered[1] -> unlock_buffered[1] = false; locked = false }
    od
}

/* The packets of a message reach the worker before or after the tail reaches the keeper. */
#define RING_HAS (ring_tail[me] != ring_done[me] && parked[me] == 0)
#define INBOX_HAS (inbox_written[me] != inbox_done[me])
#define ROOM(to) (inbox_written[to] - inbox_done[to] < INBOX)
#define CAN_FLUSH (parked[me] > 0 && ROOM(1 - me))
#define WORK (RING_HAS || INBOX_HAS || CAN_FLUSH)

proctype Worker(bit me) {
end_left:
    do
    :: d_step { on[me] && !said[me] -> said[me] = true; worker_left[me] = false }
    :: d_step {
           said[me] && RING_HAS ->
           inbox_tail[1 - me]++;
           if
           :: ROOM(1 - me) -> inbox_written[1 - me]++
           :: else -> parked[me]++
           fi;
           ring_done[me]++
       }
    :: d_step { said[me] && INBOX_HAS -> inbox_done[me]++ }
    :: d_step { said[me] && CAN_FLUSH -> parked[me]--; inbox_written[1 - me]++ }
#ifdef PLANTED_STAY
    :: said[me] && !WORK && parked[me] == 0 ->
#else
    :: said[me] ->
#endif
        if
        :: d_step { command_leave -> worker_left[me] = true; said[me] = false; on[me] = false }
        :: !command_leave -> assert(mode == RUNNING) /* else nobody will ever tell it */
        fi
    od
}

proctype Monitor() {
end_left:
    do
    :: atomic {
           mode == RUNNING && !command_leave ->
           command_leave = true
       }
#ifdef PLANTED_LAST_LAUNCH
    :: mode == RUNNING && worker_left[0] && worker_left[1] ->
#else
    :: mode == RUNNING && command_leave && worker_left[0] && worker_left[1] ->
#endif
        d_step {
            ring_told[0] = ring_done[0];
            ring_told[1] = ring_done[1];
            quiet = inbox_tail[0] == inbox_done[0] && inbox_tail[1] == inbox_done[1]
        }
        mode = LEFT
    od
}

inline look_for_work() {
    d_step {
        !locked -> /* the port's lock, taken and given back */
#ifdef PLANTED_ONLY_RINGS
        needed = ring_tail[0] != ring_told[0] || ring_tail[1] != ring_told[1]
#else
        needed = !quiet || ring_tail[0] != ring_told[0] || ring_tail[1] != ring_told[1]
#endif
    }
}

proctype Keeper() {
    byte seen;
    bool needed;
end:
    do
    :: mode == LEFT && !on[0] && !on[1] ->
        look_for_work();
        if
        :: !needed ->
            seen = bell;
            sleeping++;
#ifndef PLANTED_LOOK_ONCE
            look_for_work();
#endif
            if
            :: !needed ->
                atomic {
                    if
                    :: bell == seen -> asleep = true
                    :: else
                    fi
                }
end_asleep:
                !asleep
            :: else
            fi;
            sleeping--
        :: else
        fi;
        if
        :: needed ->
            d_step {
                command_leave = false;
                on[0] = true;
                on[1] = true;
                needed = false;
                mode = RUNNING
            }
        :: else
        fi
    od
}

proctype Audit() {
    timeout -> assert(mode == LEFT && !on[0] && !on[1] && ring_tail[0] == ring_done[0] &&
                      ring_tail[1] == ring_done[1] && inbox_tail[0] == inbox_done[0] &&
                      inbox_tail[1] == inbox_done[1] && parked[0] + parked[1] == 0)
}

init {
    atomic {
        run Sender(0);
        run Sender(1);
        run StoreBuffer();
        run Worker(0);
        run Worker(1);
        run Monitor();
        run Keeper();
        run Audit()
    }
}

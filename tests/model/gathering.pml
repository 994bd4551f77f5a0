/* SPDX-License-Identifier: Apache-2.0
 *
 * Models include/denizen/task/detail/gathering.hpp (announce, end, go_on) with worker.hpp (run, gives_way,
 * hand_over, leave): two warps of a block, either of which may announce a task of the block, while a breath
 * ends, its gate is shut, and the program is told to leave.
 *
 * A warp acts on the command that it saw at its last look: it may come to the gate late, or from a gate that
 * has been shut long ago. Whoever comes to an announced task waits for the other warp.
 *
 * Checked: both warps leave, so none waits for one that has gone; a task that was announced has been run by
 * both.
 */
#define TASKS 2
#define FREE 0
#define ANNOUNCED 1
#define LEAVING 2
#ifdef PLANTED_ONE_STATE
#define HANDING_OVER LEAVING
#else
#define HANDING_OVER 3
#endif

mtype = { RUN, GO, LEAVE };
mtype command = RUN;
bit shut;
byte state;      /* Place::state */
byte arrived;    /* at the block's barrier */
byte phase;      /* of it */
byte announced;  /* ever */
byte ran;        /* by a warp each */

inline barrier() {
    atomic {
        seen = phase;
        arrived++;
        if
        :: arrived == 2 -> arrived = 0; phase++
        :: else
        fi
    }
    phase != seen
}

/* All warps of the block: everyone is here, the announcer opens the place, everyone is through. */
inline meet() {
    barrier();
    if
    :: announcer -> state = FREE
    :: else
    fi;
    ran++;
    barrier()
}

proctype Warp() {
    mtype told;
    byte seen;
    bit announcer;
    do
    :: state == ANNOUNCED || announcer -> meet(); announcer = 0
    :: !announcer -> told = command;
        if
        :: told == LEAVE ->
            atomic {
                if
                :: state == FREE || state == HANDING_OVER -> state = LEAVING
                :: else
                fi
            }
            if
            :: state != ANNOUNCED -> break
            :: else
            fi
        :: told == GO ->
            atomic {
                if
                :: state == FREE -> state = HANDING_OVER; told = RUN
                :: state == ANNOUNCED
                :: else -> told = RUN
                fi
            }
            if
            :: told == RUN ->
                shut; /* it waits at the gate */
                atomic {
                    if
                    :: state == HANDING_OVER -> state = FREE
                    :: else
                    fi
                }
            :: else
            fi
        :: told == RUN
        fi
    :: !announcer && announced < TASKS ->
        atomic {
            if
            :: state == FREE && announced < TASKS -> state = ANNOUNCED; announced++; announcer = 1
            :: else
            fi
        }
    od
}

active proctype Monitor() {
    command = GO;
    shut = 1;
    if
    :: command = RUN
    :: skip
    fi;
    command = LEAVE
}

/* Nothing moves any more. */
active proctype Audit() {
    timeout ->
    assert(ran == 2 * announced && arrived == 0)
}

init {
    atomic {
        run Warp();
        run Warp()
    }
}

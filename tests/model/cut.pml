/* SPDX-License-Identifier: Apache-2.0
 *
 * Models how the teams of a resident group leave: include/denizen/group/detail/mailbox.hpp (take_message,
 * take_at_end, may_take, end_stay), include/denizen/device/detail/term.hpp (came_too_late, leave_gpu).
 *
 * Two ranks of two teams do CALLS calls. In each call a team waits for the same team of the other rank. The
 * hosts post as they like. A team sees the end of its incarnation whenever it likes, between two calls;
 * the first team of rank 0 may also say that the program leaves the GPU. When all teams of an incarnation have
 * returned, its successor begins, each team when it likes. One that begins after the program has left
 * returns at once; then the program is off until its host has posted a call that has not been taken.
 *
 * Checked: there is always something that can go on, so that no team waits for one that waits for it;
 * the teams of a rank leave before the same call, and each goes on there; no team of an incarnation
 * returns as one that has begun too late while another goes on.
 */
#ifndef CALLS
#define CALLS 2
#endif
#define NONE 2 /* no incarnation: they are numbered modulo 2, as one successor is queued */

byte posted[2]; /* the last call's number; the first is 1 */
byte at[4];     /* the call that a team is in, or was in last; team t of rank r is 2 * r + t */

byte incarnation[2];
bool successor[2];
bool begins[4] = true; /* the team may begin */
byte returned[2];     /* teams of this incarnation that have, */
byte left[2];         /* and those of them that had not begun too late */
byte over[2] = NONE;
bool off[2]; /* the program is off the GPU, and its host knows */
byte stay[4] = 1;
byte cut[2];
byte come[2];

proctype Host(bit r) {
    do
    :: posted[r] < CALLS -> posted[r]++
    :: posted[r] == CALLS -> break
    od
}

/* Of a rank's GPU, and its keeper. */
proctype Stream(bit r) {
end:
    do
    :: d_step {
           returned[r] == 2 ->
           assert(left[r] == 0 || left[r] == 2);
           returned[r] = 0;
           left[r] = 0;
           if
           :: over[r] != NONE && over[r] != incarnation[r] -> off[r] = true
           :: else ->
               incarnation[r] = (incarnation[r] + 1) % 2;
               successor[r] = true;
               begins[2 * r] = true;
                begins[2 * r + 1] = true
           fi
       }
    :: d_step {
           off[r] && posted[r] >= stay[2 * r] ->
           off[r] = false;
           over[r] = NONE;
           incarnation[r] = 0;
           successor[r] = false;
           begins[2 * r] = true;
                begins[2 * r + 1] = true
       }
    od
}

#define HERE (posted[r] >= number)

proctype Team(bit r; bit t) {
    byte number;
    bool ending;
end_returned:
    atomic {
        begins[2 * r + t] ->
        begins[2 * r + t] = false;
        number = stay[2 * r + t]
    }
    if
#ifdef PLANTED_NO_NUMBER
    :: over[r] != NONE && successor[r] ->
#else
    :: over[r] != NONE && over[r] != incarnation[r] && successor[r] ->
#endif
        atomic {
            number = 0;
            returned[r]++;
            goto end_returned
        }
    :: else
    fi;
look:
    if
    :: !ending && HERE -> goto call
    :: atomic { !ending && r == 0 && t == 0 && over[r] == NONE -> over[r] = incarnation[r] }
        goto look
    :: atomic {
           !ending -> /* step 1 */
           ending = true;
           if
           :: come[r] == 0 || number > cut[r] -> cut[r] = number
           :: else
           fi;
           come[r]++
       }
#ifdef PLANTED_OWN_TIME
        goto leave
#else
        goto look
#endif
    :: ending && HERE -> /* step 2 */
        if
        :: number < cut[r] -> goto call
        :: atomic { number >= cut[r] && come[r] == 2 -> goto leave }
#ifndef PLANTED_WAITS
        :: atomic { number >= cut[r] && come[r] < 2 -> cut[r] = number + 1; goto call }
#endif
        fi
    :: ending && come[r] == 2 && number == cut[r] -> goto leave /* step 3 */
    fi;
call:
    at[2 * r + t] = number;
    atomic {
        at[2 * (1 - r) + t] >= number -> /* the peer's team is there, or was */
        number++;
        goto look
    }
leave:
    atomic {
        stay[2 * r + t] = number;
        left[r]++;
        if
        :: left[r] == 2 ->
#ifndef PLANTED_OWN_TIME
            assert(stay[2 * r] == stay[2 * r + 1]);
#endif
            cut[r] = 0;
            come[r] = 0
        :: else
        fi;
        number = 0;
        ending = false;
        returned[r]++;
        goto end_returned
    }
}

init {
    atomic {
        run Host(0);
        run Host(1);
        run Stream(0);
        run Stream(1);
        run Team(0, 0);
        run Team(0, 1);
        run Team(1, 0);
        run Team(1, 1)
    }
}

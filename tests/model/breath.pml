/* SPDX-License-Identifier: Apache-2.0
 *
 * Models include/denizen/device/detail/breath.hpp (acknowledge, pass_gate, await_gate, hand_over,
 * next_attempt), actor/kernel.hpp (run_worker), actor/detail/monitor.hpp (run_monitor) and src/device/keeper.cpp
 * (see_to_successor, rest, launch).
 *
 * A monitor and two workers are an incarnation: three processes that begin anew when all of them have
 * ended and another launch is in the stream. The keeper queues successors until the program has left,
 * and launches it anew when there is work then. The host asks the program to leave once, and sends
 * MESSAGES, whenever it likes. A worker handles a message in two steps: between them it does not look.
 * The end of a breath may come at any time (a launch that is held up brings it early), at most BREATHS times; the monitor may lose its patience
 * at the gate at any time, at most IMPATIENT times, and then asks for acknowledgements anew.
 *
 * Each access to the command and to the gates is atomic; the order of memory is left out. A late worker that waits at its acknowledgement is one that handles
 * nothing before it looks again.
 *
 * Checked: an incarnation ends as a whole, none of it beginning while another is there; nobody is at
 * the gate of an attempt before; what is asked for before an incarnation has begun makes it end; when
 * nothing moves any more, all messages have been handled and nobody waits at the gate.
 */
#ifndef BREATHS
#define BREATHS 1
#endif
#ifndef IMPATIENT
#define IMPATIENT 1
#endif
#ifndef MESSAGES
#define MESSAGES 1
#endif
#define WORKERS 2
#ifdef PLANTED_ONE_GATE
#define GATE(a) 0
#else
#define GATE(a) ((a) % 2)
#endif
#define SHUT 100
#define MOST 12 /* launches */

mtype = { RUN, LEAVE };
mtype host_command = RUN; /* Control::command */
mtype board = RUN;        /* Board::command: the command, */
byte soon;                /* the number of the attempt that it goes with, 0: none, */
bit go;                   /* and whether the gate is open */
byte attempt;             /* Breath::attempt */
byte gate[2]; /* of even and of odd attempts */
bit pending;  /* the gate of the attempt has not been opened */
byte acked[WORKERS];

byte queued = 1; /* launches, ever */
byte begun;      /* incarnations */
byte ended;      /* as the monitor told the host */
byte on;         /* processes of the running incarnation */
bit fresh[MOST];    /* this launch is not a successor */
bit left;        /* Control::mode */
bit gone[WORKERS]; /* Status::mode is left */
byte breaths;
byte patience;
byte ring[WORKERS]; /* messages that wait */
byte handled;
byte sent;

/* The stream: the next launch begins when the one before has ended. */
active proctype Stream() {
end:
    do
    :: atomic {
           on == 0 && begun < queued ->
           begun++;
           on = WORKERS + 1;
           if
           :: fresh[begun] -> board = RUN; soon = 0; go = 0 /* the memset before the launch */
           :: else
           fi
       }
    od
}

proctype Worker(bit me) {
    byte mine; /* the incarnation that it has been in */
    byte told_soon;
    bit told_go, inside;
    mtype told = RUN;
end:
    do
    :: begun > mine ->
        mine = begun;
        do
        :: inside -> inside = 0; atomic { handled++; ring[me]-- } /* the handler returns */
        :: !inside ->
            atomic { told = board; told_soon = soon; told_go = go };
            assert(mine == begun);
            if
            :: told == LEAVE -> gone[me] = 1; atomic { on--; break }
            :: told != LEAVE && told_soon != 0 && !told_go -> acked[me] = told_soon; gone[me] = 0
            :: told != LEAVE && told_go ->
                gate[GATE(told_soon)]++;
                gate[GATE(told_soon)] == WORKERS || gate[GATE(told_soon)] >= SHUT; /* waits */
                if
                :: gate[GATE(told_soon)] == WORKERS -> atomic { on--; break }
                :: gate[GATE(told_soon)] >= SHUT -> assert(soon == told_soon || !go)
                fi
            :: else -> gone[me] = 0
            fi;
            if
            :: ring[me] > 0 -> inside = 1
            :: else
            fi;
            /* Nothing has changed: a look that would find the same is left out. */
end_idle:
            inside || board != told || soon != told_soon || go != told_go || ring[me] > 0
        od;
        told_soon = 0; told_go = 0; told = RUN
    od
}

/* The gate is emptied before the attempt is told of. */
inline next_attempt() {
    if
    :: !pending ->
        pending = 1;
        attempt++;
        gate[GATE(attempt)] = 0
    :: else
    fi;
    atomic { go = 0; soon = attempt }
}

proctype Monitor() {
    byte mine, n;
    bit leaves;
end:
    do
    :: begun > mine ->
        mine = begun;
        leaves = 0;
#ifdef PLANTED_ANSWERS_THE_HOST
        if
        :: 0
#else
        if
        :: !fresh[mine] && board == LEAVE -> /* the program has left while this was queued */
#endif
            atomic { ended = mine; on-- }
        :: else ->
end_turn:
            do
            :: !leaves && host_command == LEAVE -> leaves = 1; atomic { board = LEAVE; soon = 0; go = 0 }
            :: leaves && gone[0] && gone[1] ->
                atomic { ended = mine; left = 1; on--; break }
#ifdef PLANTED_ANSWERS_THE_HOST
            :: !leaves && host_command == RUN && board == LEAVE -> board = RUN
#endif
            :: !leaves && host_command == RUN && soon == 0 && breaths < BREATHS ->
                breaths++;
                next_attempt()
            :: !leaves && soon != 0 && acked[0] == soon && acked[1] == soon ->
                go = 1;
                pending = 0;
                if
                :: gate[GATE(soon)] == WORKERS
                :: patience < IMPATIENT -> patience++
                fi;
#ifdef PLANTED_SHUTS_ANYWAY
                n = gate[GATE(soon)];
                gate[GATE(soon)] = SHUT + n;
#else
                atomic {
                    n = gate[GATE(soon)];
                    if
                    :: n == WORKERS
                    :: else -> gate[GATE(soon)] = SHUT + n
                    fi
                }
#endif
                if
                :: n == WORKERS ->
#ifndef PLANTED_LEAVES_GO
                    atomic { soon = 0; go = 0 }
#endif
                    atomic { ended = mine; on--; break }
                :: else ->
#ifdef PLANTED_SAME_ATTEMPT
                    atomic { go = 0 }
#else
                    next_attempt();
#endif
                fi
            od
        fi;
        n = 0
    od
}

/* Sends, asks the program to leave, and lets it come back. */
proctype Host() {
    bit to;
    do
    :: sent < MESSAGES ->
        if
        :: to = 0
        :: to = 1
        fi;
        atomic { ring[to]++; sent++ }
    :: host_command = LEAVE;
        if
        :: left
        :: true
        fi;
        host_command = RUN;
        break
    od;
    do
    :: sent < MESSAGES -> atomic { ring[0]++; sent++ }
    :: else -> break
    od
}

proctype Keeper() {
    bit l;
end:
    do
    :: l = left;
        if
        :: !l && queued - ended < (host_command == LEAVE -> 1 : 2) && queued < MOST - 1 ->
            queued++
        :: l && ended == queued && sent > handled && queued < MOST - 1 ->
            atomic { queued++; fresh[queued] = 1; host_command = RUN; left = 0 }
        :: else ->
            /* It sleeps until one of these changes. */
end_asleep:
            left != l || (!left && queued - ended < (host_command == LEAVE -> 1 : 2) && queued < MOST - 1) ||
                (left && ended == queued && sent > handled && queued < MOST - 1)
        fi
    od
}

/* Nothing moves any more. */
proctype Audit() {
    timeout ->
    assert(handled == sent);
    assert(gate[0] <= WORKERS || gate[0] >= SHUT);
    assert(gate[1] <= WORKERS || gate[1] >= SHUT);
    assert(on == 0 || on == WORKERS + 1)
}

init {
    atomic {
        fresh[1] = 1;
        run Worker(0);
        run Worker(1);
        run Monitor();
        run Host();
        run Keeper();
        run Audit()
    }
}

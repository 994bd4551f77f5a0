/* SPDX-License-Identifier: Apache-2.0
 *
 * Models apps/transactions/include/denizen/transactions/detail/shard.hpp: Feed, Step, go_on, finish, pass_on, wait.
 *
 * PARTS parts take BATCHES batches through three passes, with a gate before each. A part that may wait
 * counts itself among those who wait in the same word that it passes the gate by; it may give up at any
 * time, and looks once more when it takes itself out. Whoever opens a gate tells all parts, unless all
 * wait there; whoever is told what it has done already does nothing. The host feeds AHEAD batches before one has come back, and tells one part again, whenever
 * it likes, to begin some pass, as after a failure. Gates are words of their own here for each batch;
 * each access to one is a read-modify-write, so the order of memory is left out.
 *
 * Checked: a part begins a pass only when all that it reads has been written, and never twice; nobody
 * waits for ever: all batches come back.
 */
#ifndef PARTS
#define PARTS 2
#endif
#ifndef BATCHES
#define BATCHES 2
#endif
#ifndef AHEAD
#define AHEAD 2
#endif
#define LOOKS 2 /* every so-many-th batch a part goes back to its messages */

#define SPLIT 0
#define JUDGE 1
#define SEARCH 2
#define FINISH 3
#define AT(pass, batch) ((batch) * 4 + (pass))
#define GATES (4 * (BATCHES + 1))

byte passed[GATES];  /* of the gate before a pass; of SPLIT: fed */
byte waiting[GATES]; /* parts */
byte done[GATES];    /* parts, a bit each */
byte back;           /* batches that have come back */
chan step[PARTS] = [8] of { byte, bit }; /* gate; whether it is Feed */

#define EVERYBODY ((1 << PARTS) - 1)
/* How often a gate is passed until it is open: that of the first batch is not passed by searches. */
#ifdef PLANTED_DOES_NOT_AWAIT_SEARCH
#define LATER_JUDGE PARTS
#else
#define LATER_JUDGE (2 * PARTS)
#endif
#define OPENS(g) \
    ((g) % 4 == SPLIT -> 1 : ((g) % 4 == JUDGE && (g) != JUDGE -> LATER_JUDGE : PARTS))
#define OPEN(g) (passed[g] >= OPENS(g))

inline tell(g) {
    to = 0;
    do
    :: to < PARTS -> step[to]!g, 0; to++
    :: else -> break
    od
}

/* Leaves `now`: whether this part goes on behind gate g at once. */
inline wait(g) {
    if
    :: OPEN(g)
    :: true /* its patience is at an end */
    fi;
    atomic {
        waiting[g]--;
#ifdef PLANTED_GIVES_UP_BLINDLY
        if
        :: now = OPEN(g)
        :: now = 0
        fi
#else
        now = OPEN(g)
#endif
    }
}

inline pass_on(g, could) {
    atomic {
        waits = could;
        now = waiting[g]; /* before */
#ifdef PLANTED_COUNTS_ITSELF_TWICE
        now = now + waits;
#endif
        passed[g]++;
        waiting[g] = waiting[g] + waits;
        last = (passed[g] == OPENS(g))
    }
    if
    :: last && now + waits < PARTS -> tell(g)
    :: else
    fi;
    now = 0;
    if
    :: waits -> wait(g)
    :: else
    fi
}

proctype Part(byte me) {
    byte due, now, to, before;
    bit last, waits, feed;
end:
    do
    :: step[me]?due, feed ->
        now = 1;
        if
        :: feed && !OPEN(due) ->
            atomic { before = waiting[due]; passed[due] = 1 }
            if
            :: before + 1 < PARTS -> tell(due)
            :: else
            fi
        :: else -> now = OPEN(due)
        fi;
        do
        :: now && !(done[due] & (1 << me)) ->
            /* What the pass reads has been written. */
            assert(due % 4 != SPLIT || passed[due] == 1);
            assert(due % 4 != JUDGE || done[due - 1] == EVERYBODY);
            assert(due % 4 != JUDGE || due == JUDGE || done[due - 3] == EVERYBODY);
            assert(due % 4 != SEARCH || done[due - 1] == EVERYBODY);
            done[due] = done[due] | (1 << me);
            if
            :: due % 4 == SPLIT ->
                due++;
                pass_on(due, (due == JUDGE || (done[due - 3] & (1 << me)) != 0))
            :: due % 4 == JUDGE ->
                due++;
                pass_on(due, 1)
            :: due % 4 == SEARCH ->
                atomic {
                    passed[due + 1]++;
                    if
                    :: OPEN(due + 1) -> back++
                    :: else
                    fi
                }
                due = due + 3;
                before = (done[due - 1] & (1 << me)) != 0;
                pass_on(due, before);
                if
                :: before || me == 0 || (due / 4) % LOOKS == 0
                :: else ->
                    due--;
                    waiting[due]++;
                    wait(due)
                fi
            fi
        :: else -> break
        od;
        due = 0; now = 0; to = 0; before = 0; last = 0; waits = 0; feed = 0
    od
}

proctype Host() {
    byte batch, part, gate;
    bit again;
    do
    :: batch < BATCHES && batch - back < AHEAD -> step[0]!AT(SPLIT, batch), 1; batch++
    :: !again && batch > 0 ->
        select(part : 0 .. PARTS - 1);
        select(gate : 0 .. 2);
        step[part]!AT(gate, batch - 1), 0;
        again = 1; part = 0; gate = 0
    :: back == BATCHES && again -> break
    od
}

init {
    atomic {
        byte k = 0;
        do
        :: k < PARTS -> run Part(k); k++
        :: else -> break
        od;
        run Host()
    }
}

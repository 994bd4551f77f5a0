/* SPDX-License-Identifier: Apache-2.0
 *
 * Models how a drain knows that nothing is under way: Status in include/denizen/actor/detail/board.hpp,
 * Worker::tell() in worker.hpp, check_quiet() in quiet.hpp.
 *
 * Two workers with near rings to each other and to themselves, and a message from the host in each
 * one's host ring. A handler sends what it likes while the BUDGET lasts. A message is under way from its
 * ticket on, in a ring or parked, until its handler has returned; it reaches its receiver late. Now
 * and then, between two handlers, a worker tells its tails, waits until they are seen (the fence), and
 * then tells the positions up to which it has handled. Stores become visible late, in any order but
 * for the fence. The real worker tells only when it has nothing to do, which is less often.
 *
 * The monitor reads all positions, then all tails. It calls the program quiet if each pair is equal;
 * the host calls it drained if its host rings, too, were handled by the same positions.
 *
 * Checked: what is drained has no message under way. Each half of the rule is needed: positions told
 * first (PLANTED_HEADS_FIRST), or as soon as a message is handled (PLANTED_LIVE_HEADS), no fence
 * between (PLANTED_RELAXED), a scan that reads pair by pair (PLANTED_ONE_PASS) or the tails first
 * (PLANTED_TAILS_READ_FIRST): each calls a program drained that is not.
 */
#ifndef BUDGET
#define BUDGET 3
#endif
#define RING(from, to) (2 * (from) + (to))

byte budget = BUDGET;
byte tail[4];    /* tickets drawn */
byte arrived[4]; /* of these, seen by the receiver */
byte head[4];    /* of these, handled */
bool ring_done[2];

/* As told, and stores on their way. */
byte told_tail[4];
byte told_head[4];
bool told_done[2];
bool tail_out[4];
bool head_out[4];
bool done_out[2];
byte late_tail[4];
byte late_head[4];

#define TAIL_VISIBLE(r) d_step { tail_out[r] -> told_tail[r] = late_tail[r]; tail_out[r] = false; late_tail[r] = 0 }
#define HEAD_VISIBLE(r) d_step { head_out[r] -> told_head[r] = late_head[r]; head_out[r] = false; late_head[r] = 0 }
#define DONE_VISIBLE(w) d_step { done_out[w] -> told_done[w] = true; done_out[w] = false }
#define ARRIVES(r) d_step { arrived[r] < tail[r] -> arrived[r]++ }

proctype Memory() {
end:
    do
    :: ARRIVES(0) :: ARRIVES(1) :: ARRIVES(2) :: ARRIVES(3)
    :: TAIL_VISIBLE(0) :: TAIL_VISIBLE(1) :: TAIL_VISIBLE(2) :: TAIL_VISIBLE(3)
    :: HEAD_VISIBLE(0) :: HEAD_VISIBLE(1) :: HEAD_VISIBLE(2) :: HEAD_VISIBLE(3)
    :: DONE_VISIBLE(0) :: DONE_VISIBLE(1)
    od
}

#define TELL_TAIL(r)                                              \
    if                                                            \
    :: tail[r] != told_tail[r] -> tail_out[r] = true; late_tail[r] = tail[r] \
    :: else                                                       \
    fi
#define TELL_HEAD(r)                                              \
    if                                                            \
    :: head[r] != told_head[r] -> head_out[r] = true; late_head[r] = head[r] \
    :: else                                                       \
    fi

/* One worker's stores are issued in one step: their order is lost anyway. */
inline tell_tails() {
    d_step { TELL_TAIL(RING(me, 0)); TELL_TAIL(RING(me, 1)) }
}
inline tell_heads() {
    d_step {
        TELL_HEAD(RING(0, me));
        TELL_HEAD(RING(1, me));
        if
        :: ring_done[me] && !told_done[me] -> done_out[me] = true
        :: else
        fi
    }
}
#define TAILS_SEEN (!tail_out[RING(me, 0)] && !tail_out[RING(me, 1)])
#define HEADS_SEEN (!head_out[RING(0, me)] && !head_out[RING(1, me)] && !done_out[me])

inline handler() {
    do
    :: d_step { budget > 0 -> budget--; tail[RING(me, 0)]++ }
    :: d_step { budget > 0 -> budget--; tail[RING(me, 1)]++ }
    :: break
    od
}

inline handled(r) {
#ifdef PLANTED_LIVE_HEADS
    d_step { head[r]++; head_out[r] = true; late_head[r] = head[r] }
#else
    head[r]++
#endif
}

proctype Worker(bit me) {
end:
    do
    :: !ring_done[me] -> handler(); ring_done[me] = true
    :: head[RING(0, me)] < arrived[RING(0, me)] -> handler(); handled(RING(0, me))
    :: head[RING(1, me)] < arrived[RING(1, me)] -> handler(); handled(RING(1, me))
#ifdef PLANTED_HEADS_FIRST
    :: tell_heads();
       HEADS_SEEN;
       tell_tails()
#else
    :: tell_tails();
#ifndef PLANTED_RELAXED
       TAILS_SEEN;
#endif
       tell_heads()
#endif
    od
}

#define UNDER_WAY                                                                               \
    ((tail[0] - head[0]) + (tail[1] - head[1]) + (tail[2] - head[2]) + (tail[3] - head[3]) +    \
     (ring_done[0] -> 0 : 1) + (ring_done[1] -> 0 : 1))

inline read_heads() {
    done = told_done[0];
    done = done && told_done[1];
    at[0] = told_head[0];
    at[1] = told_head[1];
    at[2] = told_head[2];
    at[3] = told_head[3]
}
inline compare_tails() {
    quiet = quiet && at[0] == told_tail[0];
    quiet = quiet && at[1] == told_tail[1];
    quiet = quiet && at[2] == told_tail[2];
    quiet = quiet && at[3] == told_tail[3]
}

/* One scan, at any time: what an earlier one has read does not matter to it. */
proctype Monitor() {
    byte at[4];
    bool quiet = true;
    bool done;
#ifdef PLANTED_ONE_PASS
    done = told_done[0];
    done = done && told_done[1];
    quiet = quiet && told_head[0] == told_tail[0];
    quiet = quiet && told_head[1] == told_tail[1];
    quiet = quiet && told_head[2] == told_tail[2];
    quiet = quiet && told_head[3] == told_tail[3];
#else
#ifdef PLANTED_TAILS_READ_FIRST
    at[0] = told_tail[0];
    at[1] = told_tail[1];
    at[2] = told_tail[2];
    at[3] = told_tail[3];
    quiet = quiet && at[0] == told_head[0];
    quiet = quiet && at[1] == told_head[1];
    quiet = quiet && at[2] == told_head[2];
    quiet = quiet && at[3] == told_head[3];
    done = told_done[0];
    done = done && told_done[1];
#else
    read_heads();
    compare_tails();
#endif
#endif
    if
    :: quiet && done -> assert(UNDER_WAY == 0)
    :: else
    fi
}

init {
    atomic {
        run Memory();
        run Worker(0);
        run Worker(1);
        run Monitor()
    }
}

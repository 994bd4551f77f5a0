/* SPDX-License-Identifier: Apache-2.0
 *
 * Models include/denizen/task/detail/tokens.hpp, settle.hpp and mailbox.hpp: how the end of a group of tasks is seen.
 *
 * Two workers. A task is in a worker's deque, where others steal it, or in a mailbox, or runs. Each
 * task has a token; a worker keeps the tokens of tasks that have ended (its pool) for those it spawns,
 * takes new ones by adding to the group's word, and gives the pool back when it finds nothing to do.
 * A task that goes to a mailbox takes the rest of its worker's pool with it. The monitor reads the
 * word: 0 means that nothing runs nor can run.
 *
 * An addition is issued and performed later, as is the publishing of what a batch has spawned; the
 * release that publishes waits until the worker's additions have been performed. What is given back
 * is performed at any time after it was issued.
 *
 * Checked: a word of 0 is never read while there is a task or a pool, the word never falls below 0,
 * and when all is done it becomes 0. Planted: tasks that are published before their tokens have been
 * added (PLANTED_LATE_TOKENS), a pool given back while a task of the worker still runs, tokens of
 * that task included (PLANTED_EARLY_RETURN), mail that goes without a token of its own
 * (PLANTED_FREE_MAIL), a fetched token whose addition is not waited for before the mail goes
 * (PLANTED_UNORDERED_MAIL).
 */
#ifndef BUDGET
#define BUDGET 4
#endif
#define N 2

byte budget = BUDGET; /* tasks that may still be spawned */
short word = 1;       /* the host's first task has its token */
byte deque[N];        /* tasks that others see */
byte fresh[N];        /* spawned, not published */
byte pool[N];
byte adding[N];  /* tokens whose addition is under way */
byte giving[N];  /* tokens on their way back */
bool running[N];
byte mail[N];    /* tokens in the mailbox; 0: empty */

#define ALIVE (deque[0] + deque[1] + fresh[0] + fresh[1] + running[0] + running[1] + \
               (mail[0] > 0) + (mail[1] > 0))

proctype Memory() {
end:
    do
    :: d_step { adding[0] > 0 -> word = word + adding[0]; adding[0] = 0 }
    :: d_step { adding[1] > 0 -> word = word + adding[1]; adding[1] = 0 }
    :: d_step { giving[0] > 0 -> word = word - giving[0]; giving[0] = 0; assert(word >= 0) }
    :: d_step { giving[1] > 0 -> word = word - giving[1]; giving[1] = 0; assert(word >= 0) }
    od
}

/* The task of a batch: it may spawn into the deque, and mail one task to the other worker. */
inline run_task() {
    do
    :: d_step { budget > 0 && fresh[me] < 2 -> budget--; fresh[me]++ }
    :: atomic {
           budget > 0 && mail[1 - me] == 0 -> /* nobody else sends there */
           budget--;
           if
           :: pool[me] > 0 -> sent = pool[me]; pool[me] = 0
           :: pool[me] == 0 ->
#ifdef PLANTED_FREE_MAIL
               sent = 1
#else
               sent = 2; /* one to spare */
               adding[me] = adding[me] + 2
#endif
           fi
       };
#ifndef PLANTED_UNORDERED_MAIL
       adding[me] == 0;
#endif
       d_step { mail[1 - me] = sent; sent = 0 }
    :: break
    od
}

/* After the batch: its own token is free, and what it has spawned needs tokens. */
inline settle() {
    d_step {
        running[me] = false;
#ifndef PLANTED_EARLY_RETURN
        pool[me]++;
#endif
        if
        :: fresh[me] <= pool[me] -> pool[me] = pool[me] - fresh[me]
        :: else -> adding[me] = adding[me] + fresh[me] - pool[me]; pool[me] = 0
        fi
    };
#ifndef PLANTED_LATE_TOKENS
    adding[me] == 0; /* the release */
#endif
    d_step { deque[me] = deque[me] + fresh[me]; fresh[me] = 0 }
}

proctype Worker(bit me) {
    byte sent;
end:
    do
    :: atomic { deque[me] > 0 -> deque[me]--; running[me] = true } run_task(); settle()
    :: atomic { deque[1 - me] > 0 -> deque[1 - me]--; running[me] = true } run_task(); settle()
    :: d_step {
           mail[me] > 0 && giving[me] == 0 ->
           running[me] = true;
#ifdef PLANTED_EARLY_RETURN
           giving[me] = mail[me];
#else
           pool[me] = pool[me] + mail[me] - 1;
#endif
           mail[me] = 0
       }
       run_task(); settle()
    :: d_step { deque[me] == 0 && mail[me] == 0 && pool[me] > 0 && giving[me] == 0 ->
           giving[me] = pool[me]; pool[me] = 0 }
    od
}

/* The monitor, at any time. */
proctype Monitor() {
end:
    word == 0 -> assert(ALIVE == 0)
}

/* When everything has come to rest, the word says so: otherwise nobody would ever learn of it. */
proctype End() {
end:
    atomic {
        ALIVE == 0 && pool[0] + pool[1] + giving[0] + giving[1] + adding[0] + adding[1] == 0 ->
        assert(word == 0)
    }
}

init {
    atomic {
        deque[0] = 1;
        run Memory();
        run Worker(0);
        run Worker(1);
        run Monitor();
        run End()
    }
}

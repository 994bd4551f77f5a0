/* SPDX-License-Identifier: Apache-2.0
 *
 * Models the reference-counted return of a broadcast quantum: OutputPort::send and
 * InputPort::give_back in src/flow/port.cpp.
 *
 * One source, QUANTA quanta, two readers that read each at the same time. A read (of the quantum's
 * contents) may take effect late, up to the reader's release, as a processor may delay it; the source
 * writes only when a quantum has come back. A reader first looks whether it is the last one (count 1)
 * and then needs no read-modify-write.
 *
 * Checked: a reader sees the contents it was sent; a quantum comes back once for each sending; when
 * nothing moves any more, all are at home.
 */
#define QUANTA 2
#define SENDS 4

byte contents[QUANTA];
byte readers[QUANTA];
byte home[QUANTA]; /* how often it is there: 0 or 1 */
chan ring0 = [QUANTA] of { byte, byte };
chan ring1 = [QUANTA] of { byte, byte };

proctype Source() {
    byte sent;
    byte q;
    do
    :: sent < SENDS ->
        q = 0;
        if
        :: atomic { home[0] == 1 -> home[0] = 0; q = 0 }
        :: atomic { home[1] == 1 -> home[1] = 0; q = 1 }
        fi;
        sent++;
        contents[q] = sent;
#ifdef PLANTED_LATE_COUNT
        ring0!q, sent;
        readers[q] = 2;
        ring1!q, sent
#else
        readers[q] = 2;
        assert(nfull(ring0) && nfull(ring1)); /* they never overfill */
        ring0!q, sent;
        ring1!q, sent
#endif
    :: sent == SENDS -> break
    od
}

inline give_back() {
#ifdef PLANTED_LOOK_THEN_STORE
    count = readers[q];
    readers[q] = count - 1;
    if
    :: count == 1 -> home[q]++
    :: else
    fi
#else
    count = readers[q];
    if
    :: count == 1 -> home[q]++
    :: else ->
        d_step { count = readers[q]; readers[q] = readers[q] - 1 }
        if
        :: count == 1 -> home[q]++
        :: else
        fi
    fi
#endif
    assert(home[q] <= 1)
}

proctype Reader(bit me) {
    byte q;
    byte expected;
    byte count;
end:
    do
    :: (me == 0 && nempty(ring0)) || (me == 1 && nempty(ring1)) ->
       if
       :: me == 0 -> ring0?q, expected
       :: me == 1 -> ring1?q, expected
       fi;
#ifdef PLANTED_RELAXED_RELEASE
       give_back();
       assert(contents[q] == expected)
#else
       assert(contents[q] == expected);
       give_back()
#endif
    od
}

proctype Audit() {
    timeout -> assert(home[0] == 1 && home[1] == 1)
}

init {
    atomic {
        home[0] = 1;
        home[1] = 1;
        run Source();
        run Reader(0);
        run Reader(1);
        run Audit()
    }
}

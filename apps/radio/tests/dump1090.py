# SPDX-License-Identifier: Apache-2.0
"""The detector of antirez's dump1090 (efe64db), as its source describes it, in NumPy.

A second opinion on any signal: what it finds, the receiver has to find. In dump1090's recording it
finds what that program does, message by message (test_reference.py). Not for speed.

The method is Salvatore Sanfilippo's, its correction of the phase Oliver Jowett's; dump1090 is under
the BSD licence of three clauses. The words here are our own.
"""

import numpy as np

GENERATOR = 0x1FFF409  # of the parity, ICAO Annex 10 volume IV
PREAMBLE, SHORT, LONG = 16, 56, 112  # samples, bits, bits; a bit is two samples


def remainder(bits, length):
    """Of a message as a number: 0, or what its parity is overlaid with."""
    for at in range(length - 1, 23, -1):
        if bits >> at & 1:
            bits ^= GENERATOR << (at - 24)
    return bits


ONE_BIT = {n: {remainder(1 << at, n): 1 << at for at in range(n - 5)} for n in (SHORT, LONG)}


def levels(signal):
    """Of unsigned bytes I, Q around 127: 0 to 65535 as dump1090 scales them."""
    i, q = np.frombuffer(signal, np.uint8).astype(np.int64).reshape(-1, 2).T - 127
    return np.round(np.hypot(i, q) * 360).astype(np.uint16).astype(np.int64)


def candidates(m):
    """Where the first ten samples rise and fall as a preamble's, and what should be low is low."""
    end = len(m) - 2 * (PREAMBLE // 2 + LONG)
    at = [m[k : k + end] for k in range(15)]
    shape = (at[0] > at[1]) & (at[1] < at[2]) & (at[2] > at[3]) & (at[3] < at[0])
    shape &= (at[4] < at[0]) & (at[5] < at[0]) & (at[6] < at[0])
    shape &= (at[7] > at[8]) & (at[8] < at[9]) & (at[9] > at[6])
    high = (at[0] + at[2] + at[7] + at[9]) // 6
    for k in (4, 5, 11, 12, 13, 14):
        shape &= at[k] < high
    return np.flatnonzero(shape)


def corrected(m, j):
    """The samples of a message whose edges fall between samples: each freed of its neighbour's."""
    data = m[j + PREAMBLE : j + PREAMBLE + 2 * LONG].tolist()
    on_time = int(m[j] + m[j + 2] + m[j + 7] + m[j + 9])
    early = 2 * int(m[j - 1] + m[j + 6])
    late = 2 * int(m[j + 3] + m[j + 10])
    more = 16384 * max(early, late) // (max(early, late) + on_time)

    def scale(k, up):
        data[k] = min(data[k] * (16384 + more if up else 16384 - more) // 16384, 65535)

    if early > late:
        scale(2 * LONG - 1, True)
        for k in range(2 * LONG - 2, 0, -2):
            scale(k - 1, data[k] <= data[k + 1])
    else:
        scale(0, True)
        for k in range(0, 2 * LONG - 2, 2):
            scale(k + 2, data[k] > data[k + 1])
    return data


def bits_of(data):
    """A bit is its half that is higher; near levels repeat the bit before. None: noise."""
    bits = []
    for first, second in zip(data[::2], data[1::2], strict=True):
        if bits and abs(first - second) < 256:
            bits.append(bits[-1])
        elif first == second:
            return None  # only the first bit can be without a decision
        else:
            bits.append(int(first > second))
    return bits


class Detector:
    """``messages`` of one signal, each as hexadecimal digits, in their order."""

    def __init__(self):
        self._seen = set()  # addresses of messages whose parity was right as received

    def messages(self, signal):
        m = levels(signal)
        found, free = [], 0
        for j in candidates(m):
            if j < free:
                continue  # within a message
            for again in (False, True):
                plain = m[j + PREAMBLE : j + PREAMBLE + 2 * LONG]
                bits = bits_of(corrected(m, j) if again and j else plain.tolist())
                if bits is None:
                    continue
                length = LONG if int("".join(map(str, bits[:5])), 2) in range(16, 22) else SHORT
                swing = np.abs(plain[: 2 * length : 2] - plain[1 : 2 * length : 2]).sum()
                if swing // (length // 2) < 10 * 255:
                    break  # too even for a message
                frame = self.checked(bits[:length])
                if frame is not None:
                    found.append(frame)
                    free = j + PREAMBLE + 2 * length + 1
                    break
        return found

    def checked(self, bits):
        """The message, one bit repaired if its type allows that; None if it is none."""
        length = len(bits)
        message = int("".join(map(str, bits)), 2)
        df, rest = message >> (length - 5), remainder(message, length)
        address = message >> (length - 32) & 0xFFFFFF
        if df not in (11, 17, 18):  # the parity is overlaid with the address
            good = df in (0, 4, 5, 16, 20, 21, 24) and rest in self._seen
        elif rest == 0:
            self._seen.add(address)
            good = True
        elif rest in ONE_BIT[length]:
            message ^= ONE_BIT[length][rest]
            good = True
        else:  # overlaid with the interrogator
            good = df == 11 and rest < 80 and address in self._seen
        return f"{message:0{length // 4}x}" if good else None

# SPDX-License-Identifier: Apache-2.0
"""Random submissions against the decoders: real ones with words changed, and words like headers.

Whatever a GPU might be sent is decoded in bounded steps, each word once. A submission is an input;
the deep test has 10,000,000 of them, or DENIZEN_FUZZ_INPUTS. One that fails is told with the seed
of its process and its number there.
"""

import os
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import stream as s

from denizen.lens import log
from denizen.lens.decode import Stream

CAPTURES = Path(__file__).with_name("captures")
MANY = int(os.environ.get("DENIZEN_FUZZ_INPUTS", "10000000"))
BATCH = 2_000
LONGEST = 24  # words of an input
# Methods with a meaning, and some that no class has.
METHODS = np.array(
    [0, 0x5C, 0x6C, 0x100, 0x180, 0x1B0, 0x1B4, 0x2B4, 0x2BC, 0x2C0, 0x300, 0x318, 0x320, 0x41C,
     0x700, 0x1B00, 0x1B0C, 0x3800, 0x3804, 0x3FFC],
    np.uint32,
)  # fmt: skip
VALUES = np.array([0, 1, 2, 4, 0x41, 0x182, 0x586, 0xC8B5, 0xCBC0, 0xCB97, 0xFFFFFFFF], np.uint32)


def real_words():
    """What an H100 was sent, segment after segment."""
    found = []
    for path in sorted(CAPTURES.glob("*.lens.gz")):
        capture = log.read(path)
        for submission in capture.submissions[:400]:
            found += [words[:400] for words in submission.segments if words is not None]
    return np.concatenate(found)


def headers(rng, n):
    """Words that begin a packet, of every kind."""
    kinds = rng.choice(np.array([0, 1, 2, 3, 4, 5, 6, 7], np.uint32), n)
    counts = rng.choice(np.array([0, 1, 1, 2, 4, 64, 8191], np.uint32), n)
    subchannels = rng.integers(0, 8, n, np.uint32)
    return kinds << 29 | counts << 16 | subchannels << 13 | rng.choice(METHODS, n) >> 2


def pool(rng, real):
    """What a batch's inputs are cut from."""
    n = 6_000
    words = rng.choice(VALUES, n)
    made = rng.random(n) < 0.4
    words[made] = headers(rng, int(made.sum()))
    at = int(rng.integers(0, max(1, len(real) - n)))
    whole = real[at : at + n].copy()
    changed = rng.random(len(whole)) < 0.03
    whole[changed] = rng.integers(0, 1 << 32, int(changed.sum()), np.uint32)
    return np.concatenate([words, whole])


def fuzz(seed, inputs):
    """Decode ``inputs`` submissions; the operations that were found."""
    rng, real = np.random.default_rng(seed), real_words()
    operations = done = 0
    while done < inputs:
        words = pool(rng, real)
        n = min(BATCH, inputs - done)
        starts = rng.integers(0, len(words), n).tolist()
        lengths = rng.integers(0, LONGEST + 1, n).tolist()
        odd = rng.random(n).tolist()
        of = Stream((0xC86F, 0xC56F, 0xFFFF)[int(rng.integers(3))], None)
        for i, (start, length) in enumerate(zip(starts, lengths, strict=True)):
            data = words[start : start + length]
            entries = [s.entry(0x1000, len(data))]
            if odd[i] < 0.1:  # entries that say more or less than there is
                entries = [s.entry(0x1000, len(data) + 3), 0x123456789, s.extended_base(5 << 40)]
            try:
                found = of.submission(entries, [data])
            except Exception as error:
                raise AssertionError(f"seed {seed}, input {done + i}: {data.tolist()}") from error
            seen = sum(found.methods.values()) + sum(found.unknown.values())
            if seen > len(data) + 5 or len(found.problems) > 1:
                raise AssertionError(f"seed {seed}, input {done + i}: {seen} of {len(data)} words")
            operations += len(found.operations)
        done += n
    return operations


def test_thousands_of_random_submissions():
    assert fuzz(1, 4_000) > 400  # not all of it is nonsense


@pytest.mark.deep
def test_ten_million_random_submissions():
    workers = os.cpu_count() or 1
    seed = int.from_bytes(os.urandom(4), "little")
    share = -(-MANY // workers)
    with ProcessPoolExecutor(workers) as processes:
        found = list(processes.map(fuzz, range(seed, seed + workers), [share] * workers))
    assert sum(found) > MANY // 10

# SPDX-License-Identifier: Apache-2.0
"""Lens: what each function of the CUDA API made the driver submit, read from a capture.

    denizen lens --mode full -o run.lens -- python train.py      makes one, where there is a GPU
    python lens.py run.lens

Without a file: what an H100's driver submitted for some small graphs and copies, as the tests keep
it.
"""

import gzip
import sys
import tempfile
from collections import Counter
from pathlib import Path

from denizen.lens import log, summary

KEPT = Path(__file__).parents[1] / "tests/lens/captures/h100-580.159.04-small.lens.gz"


def read_kept() -> log.Capture:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "small.lens"
        path.write_bytes(gzip.decompress(KEPT.read_bytes()))
        return log.read(path)


def main(file: str | None = None) -> None:
    capture = log.read(file) if file else read_kept()
    submitted: Counter[str] = Counter()  # bytes, by function
    kinds: Counter[str] = Counter()  # operations, by kind
    for submission, decoded in summary.decoded(capture):
        submitted[summary.api_of(capture, submission.doorbell)] += submission.doorbell.bytes
        if decoded:  # not in mode count
            kinds.update(operation.kind for operation in decoded.operations)

    (most, size), *_ = submitted.most_common()
    print(f"{submitted.total():,} bytes by {len(submitted)} functions, {size:,} by {most}")
    print(f"{kinds['launch']} launches, {kinds['copy'] + kinds['inline copy']} copies")
    if submitted.total() != summary.summarize(capture).bytes:
        sys.exit("some submission was not counted")


if __name__ == "__main__":
    main(*sys.argv[1:])

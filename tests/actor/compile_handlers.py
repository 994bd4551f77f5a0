# SPDX-License-Identifier: Apache-2.0
"""Compiles the tests' programs with handlers in Python for a GPU, where there need be none:

    python tests/actor/compile_handlers.py OUT [ARCHITECTURE]

With DENIZEN_TEST_CUBINS=OUT the tests then run on a GPU machine that has no Numba, and with
DENIZEN_CACHE=OUT so does `denizen bench handlers`.
"""

import os
import random
import sys
import tempfile
import time
from pathlib import Path

import calculator
import clock_handlers
import plant_handlers
import plants
import random_handlers
import sample_handlers

import denizen
from denizen.lab import handlers

SEEDS = range(6)  # of test_handler_properties.py's programs for a GPU


def programs(folder: Path):
    yield "bench", handlers.in_python()
    yield "mixed", calculator.mixed()
    for module in (calculator, sample_handlers, plant_handlers, plants, clock_handlers):
        yield module.__name__, module.program()
    for seed in SEEDS:
        text = random_handlers.module_text(random.Random(seed), 10)
        module = random_handlers.load(text, folder / f"seed{seed}.py")
        yield f"seed {seed}", denizen.Program(actors=random_handlers.actors_of(module))


def main() -> None:
    os.environ["DENIZEN_CACHE"] = os.path.abspath(sys.argv[1])
    architecture = int(sys.argv[2]) if len(sys.argv) > 2 else 90
    with tempfile.TemporaryDirectory() as folder:
        for name, program in programs(Path(folder)):
            begin = time.perf_counter()
            program.compile_gpu(architecture)
            print(f"{name}: {time.perf_counter() - begin:.1f} s", flush=True)


if __name__ == "__main__":
    main()

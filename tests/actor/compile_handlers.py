# SPDX-License-Identifier: Apache-2.0
"""Compiles the tests' programs with handlers in Python for a GPU, where there need be none:

    python tests/actor/compile_handlers.py OUT [ARCHITECTURE]

With DENIZEN_TEST_CUBINS=OUT the tests then run on a GPU machine that has no Numba, and with
DENIZEN_CACHE=OUT so does `denizen bench handlers`.
"""

import importlib.util
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
import unusual_handlers

import denizen
from denizen import tasks
from denizen.flow.resident import compile_gpu
from denizen.lab import handlers

ROOT = Path(__file__).resolve().parents[2]
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
    module = random_handlers.load(unusual_handlers.text(), folder / "unusual.py")
    cases = [getattr(module, f"Case{i}") for i in range(len(unusual_handlers.CASES))]
    yield "unusual", denizen.Program(actors=cases, name="unusual")
    examples = ROOT / "examples"
    queens = imported(examples / "nqueens.py").Begin
    yield "nqueens", tasks.Program(tasks=[queens], name="Begin")
    flights = imported(examples / "flights.py")
    yield (
        "flights",
        denizen.Program(actors=[flights.Aircraft, flights.Airport], name="Aircraft and Airport"),
    )
    module = imported(ROOT / "tests" / "task" / "test_tasks_in_python.py")
    yield "tasks", module.program()
    boss = imported(ROOT / "tests" / "actor" / "test_tasks_of_actors.py").Boss
    yield "tasks of actors", denizen.Program(actors=[boss])
    door = imported(ROOT / "tests" / "actor" / "test_behaviours.py").Door
    yield "behaviours", denizen.Program(actors=[door], name="Door")
    yield "a warp's task", tasks.Program(tasks=[module.Warp], name="Warp")


def imported(path: Path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main() -> None:
    os.environ["DENIZEN_CACHE"] = os.path.abspath(sys.argv[1])
    architecture = int(sys.argv[2]) if len(sys.argv) > 2 else 90
    with tempfile.TemporaryDirectory() as folder:
        for name, program in programs(Path(folder)):
            begin = time.perf_counter()
            program.compile_gpu(architecture)
            print(f"{name}: {time.perf_counter() - begin:.1f} s", flush=True)
    kinds = imported(ROOT / "tests" / "flow" / "test_kinds.py").KINDS
    compile_gpu([k.code for k in kinds], architecture)


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""Compiles the tests' programs with handlers in Python for a GPU, where there need be none:

    python tests/actor/compile_handlers.py OUT [ARCHITECTURE]

With DENIZEN_TEST_CUBINS=OUT the tests then run on a GPU machine that has no Numba.
"""

import os
import sys
import time

import calculator
import plant_handlers
import sample_handlers


def main() -> None:
    os.environ["DENIZEN_CACHE"] = os.path.abspath(sys.argv[1])
    architecture = int(sys.argv[2]) if len(sys.argv) > 2 else 90
    for module in (sample_handlers, plant_handlers, calculator):
        begin = time.perf_counter()
        module.program().compile_gpu(architecture)
        print(f"{module.__name__}: {time.perf_counter() - begin:.1f} s", flush=True)


if __name__ == "__main__":
    main()

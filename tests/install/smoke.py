# SPDX-License-Identifier: Apache-2.0
"""smoke.py [WHEEL]: what an installed wheel must do, beside NumPy and nothing else of Python's.

With PyTorch installed, it is imported after denizen, and both throw and catch exceptions of C++.
"""

import importlib.util
import json
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np

import denizen
from denizen import _core, graph

MOST = 20_000_000


def the_file(wheel: Path) -> None:
    assert re.search(r"-cp311-abi3-manylinux_2_\d+_x86_64", wheel.name), wheel.name
    assert wheel.stat().st_size <= MOST, f"{wheel.stat().st_size:,} bytes"
    with zipfile.ZipFile(wheel) as held:
        names = held.namelist()
        (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        needs = re.findall(r"^Requires-Dist: (\S+)", held.read(metadata).decode(), re.MULTILINE)
        (notices,) = (name for name in names if name.endswith("licenses/THIRD_PARTY_NOTICES"))
        noticed = held.read(notices).decode()
        (bill,) = (name for name in names if name.endswith(".dist-info/sboms/denizen.cdx.json"))
        compiled_in = json.loads(held.read(bill))["components"]
    assert {"nanobind", "robin-map"} <= {part["name"] for part in compiled_in}
    for part in compiled_in:
        assert part["version"] and part["licenses"], part
        assert part["name"].lower() in noticed.lower(), f"{part['name']} has no notice"
    assert any(need.startswith("nanobind-backend") for need in needs), needs
    assert not [name for name in names if "libstdc++" in name or "/bin/" in name]


def the_module() -> None:
    """The module is of the stable ABI, and libstdc++ is the process's own."""
    assert _core.__file__.endswith(".abi3.so"), _core.__file__
    read = subprocess.run(
        ["readelf", "-d", _core.__file__], capture_output=True, text=True, check=True
    )
    needed = re.findall(r"NEEDED.*\[(.+?)\]", read.stdout)
    assert "libstdc++.so.6" in needed, needed
    loaded = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines()}
    assert len([path for path in loaded if "libstdc++" in path]) == 1


def an_error_of_ours() -> None:
    """Thrown in C++, caught here."""
    try:
        graph.Graph([0, 2], [5, 5])
    except denizen.ArgumentError:
        return
    raise AssertionError("a graph with a neighbour that is not there was taken")


def beside_torch() -> None:
    if importlib.util.find_spec("torch") is None:
        print("PyTorch is not installed: not tried beside it")
        return
    import torch  # noqa: PLC0415

    try:
        torch.zeros(2) @ torch.zeros(3)
    except RuntimeError:
        an_error_of_ours()
        print(f"beside PyTorch {torch.__version__}")
        return
    raise AssertionError("PyTorch multiplied vectors of two lengths")


def an_actor() -> None:
    tick = denizen.message("Tick", [("n", "u4")])
    total = denizen.message("Total", [("sum", "u8")])
    program = denizen.Program(
        "struct Counter { uint64_t sum = 0;"
        "  void on(const Tick& m, auto&) { sum += m.n; }"
        "  void on(const Total&, auto& ctx) { ctx.reply(Total{sum}); } };",
        actors=["Counter"],
        messages=[tick, total],
    )
    with denizen.Runtime(program, "auto") as rt:
        counters = rt.spawn("Counter", 100)
        ticks = np.ones(1000, tick.dtype)
        rt.send_many(np.repeat(counters, 10), ticks)
        assert rt.ask(counters[99], total(sum=0))["sum"] == 10
        print(f"an actor on {rt.description['device']}")


def the_tour() -> None:
    """Every part, with what comes with the wheel."""
    with tempfile.TemporaryDirectory() as folder:
        words = ["-m", "denizen", "tour", "-o", f"{folder}/tour.html"]
        done = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        passed = re.search(r"(\d+) of (\d+) stops passed.* s", done.stdout)
        assert passed[1] == passed[2], done.stdout
        print(passed[0])


def main() -> None:
    if len(sys.argv) > 1:
        the_file(Path(sys.argv[1]))
        the_module()
    an_error_of_ours()
    an_actor()
    beside_torch()
    the_tour()
    print(f"denizen {denizen.__version__} works in {sys.prefix}, Python {sys.version.split()[0]}")


main()

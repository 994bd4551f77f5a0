# SPDX-License-Identifier: Apache-2.0
"""What is shipped: extras, notices, and how the module is linked."""

import re
import shutil
import subprocess
import sys
import tomllib
from itertools import chain
from pathlib import Path

import pytest

from denizen import _core, extras

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_all_is_every_extra():
    extras = dict(PROJECT["optional-dependencies"])
    (everything,) = extras.pop("all")
    assert everything == f"denizen[{','.join(sorted(extras))}]"


def test_what_an_error_has_pip_install_is_named_by_packages_of_an_index():
    own = PROJECT["optional-dependencies"]
    assert extras.of("handlers") == f"'{own['handlers'][0]}'"
    names = {re.split("[<>=]", one)[0] for one in re.findall("'(.*?)'", extras.of("handlers-gpu"))}
    wanted = [*own["gpu"], *own["handlers"], *own["handlers-gpu"][1:]]
    assert names == {re.split("[<>=]", one)[0] for one in wanted}


def test_a_dependency_is_named_once():
    every = [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]
    every = list(chain.from_iterable(every))
    names = [re.split(r"[<>=\[]", one)[0] for one in every if not one.startswith("denizen[")]
    assert len(names) == len(set(names))


def test_errors_name_extras_that_there_are():
    pages = [*(ROOT / "python").rglob("*.py"), *(ROOT / "docs").glob("*.md"), ROOT / "README.md"]
    texts = [path.read_text(encoding="utf-8") for path in pages]
    named = {
        extra
        for text in texts
        for extra in re.findall(r'MissingPackageError\("[^"]+", "(\w+)"\)', text)
        + re.findall(r"denizen\[(\w+)\]", text)
    }
    assert named <= PROJECT["optional-dependencies"].keys()
    # What cannot be had by name is not named: errors name the package that is missing.
    assert not {text for text in texts if re.search(r"MissingPackageError\([^)]*denizen\[", text)}


def test_notices_are_shipped():
    notices = (ROOT / "THIRD_PARTY_NOTICES").read_text(encoding="utf-8")
    assert "THIRD_PARTY_NOTICES" in PROJECT["license-files"]
    for work in ("nanobind", "robin-map", "CUB", "libcu++", "CUDA runtime", "open-gpu-doc"):
        assert work in notices


def test_development_is_pinned():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = {line.split("==")[0].lower().replace("_", "-") for line in lines if "==" in line}
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    for one in (
        *groups["dependency-groups"]["dev"],
        *groups["dependency-groups"]["docs"],
        *groups["dependency-groups"]["wheel"],
    ):
        assert re.split(r"[<>=\[]", one)[0].lower() in pinned


def test_what_only_tests_need_has_no_other_licence_in_what_is_shipped():
    """pyModeS is under the GPL, pm4py the AGPL, sigmf the LGPL: tests alone compare with them."""
    dev = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["dependency-groups"]
    apart = {"pymodes": "pyModeS", "pm4py": "pm4py", "sigmf": "sigmf"}
    assert apart.keys() <= {
        re.split(r"[<>=\[]", one)[0] for one in dev["dev"] if isinstance(one, str)
    }
    wanted = {
        re.split(r"[<>=\[]", one)[0].lower()
        for one in chain(PROJECT["dependencies"], *PROJECT["optional-dependencies"].values())
    }
    assert not wanted & apart.keys()
    imports = re.compile(rf"^\s*(?:import|from) (?:{'|'.join(apart.values())})\b", re.MULTILINE)
    for path in (ROOT / "python").rglob("*.py"):
        assert not imports.search(path.read_text(encoding="utf-8")), path


def test_tables_of_classes_have_their_notice():
    """NVIDIA's headers are under the MIT license, which wants its text to go with them."""
    notices = (ROOT / "THIRD_PARTY_NOTICES").read_text(encoding="utf-8")
    assert any((ROOT / "python" / "denizen" / "lens" / "classes").iterdir())
    part = notices[notices.index("open-gpu-doc") :]
    assert "Permission is hereby granted" in part
    assert "NVIDIA CORPORATION" in part


LENS = Path(_core.__file__).parent / "lib" / "libdenizen_lens.so"


@pytest.mark.parametrize("shipped", [Path(_core.__file__), LENS], ids=["module", "lens"])
def test_what_is_shipped_is_bound_when_it_is_loaded(shipped):
    readelf = shutil.which("readelf") or pytest.skip("no readelf")
    if not shipped.exists():
        pytest.skip(f"no {shipped.name} beside the module")
    shown = subprocess.run(
        [readelf, "-W", "-d", "-l", str(shipped)], capture_output=True, text=True, check=True
    ).stdout
    assert "GNU_RELRO" in shown
    assert "BIND_NOW" in shown or re.search(r"FLAGS_1.*NOW", shown)


def test_the_module_checks_its_copies():
    readelf = shutil.which("readelf") or pytest.skip("no readelf")
    shown = subprocess.run(
        [readelf, "-W", "--dyn-syms", _core.__file__], capture_output=True, text=True, check=True
    ).stdout
    if "__tsan_" in shown or "__asan_" in shown:
        pytest.skip("a sanitizer watches copies")
    assert re.search(r"__\w+_chk@", shown)


def test_importing_denizen_imports_no_application_and_no_compiler():
    code = "import sys, denizen; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules = done.stdout.split()
    parts = {name.split(".")[1] for name in modules if name.startswith("denizen.")}
    guests = {"ab", "apps", "dsp", "flow", "graph", "group", "iq", "lab", "lens", "procmine"}
    guests |= {"radio", "tasks", "top", "tour", "wave"}
    assert guests <= {path.stem for path in (ROOT / "python" / "denizen").iterdir()}
    assert not parts & guests
    assert not {"asyncio", "llvmlite", "numba", "torch", "cupy"} & set(modules)

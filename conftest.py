# SPDX-License-Identifier: Apache-2.0
"""For all tests: Ctrl-C works in what they start, every process gives them the same names, those
marked ``gpu`` are skipped where there is none, and what they compile is theirs and, where the
environment has DENIZEN_QUICK_TESTS, not optimised.

A shell has its background jobs ignore SIGINT, and what they start inherits that.
Where tests run so, no test of an interrupt could find one.
"""

import contextlib
import importlib.util
import itertools
import os
import re
import shlex
import signal
from pathlib import Path

import pytest

UNOPTIMISED = Path(__file__).parent / "tests/support/unoptimised/g++"

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items):
    """Processes that share a run (pytest -n) compare names: none may have what each process has its
    own of, an object's address or the order of a set of several.
    """
    for item in items:
        given = item.callspec.params.values() if hasattr(item, "callspec") else ()
        several = [v for v in given if isinstance(v, set | frozenset) and len(v) > 1]
        if re.search(r" at 0x[0-9a-f]{6,}", item.nodeid) or any(
            str(v) in item.nodeid for v in several
        ):
            raise pytest.UsageError(
                f"{item.nodeid}: an address, or a set's order, is another in each process; use ids="
            )
    on_gpu = [item for item in items if item.get_closest_marker("gpu")]
    if on_gpu and (problem := _gpu_problem()):
        for item in on_gpu:
            item.add_marker(pytest.mark.skip(reason=problem))


@pytest.fixture(
    params=[
        (1, "rings", "cpu:1"),
        (2, "tcp", "cpu:1"),
        (3, "rings", "cpu:1"),
        pytest.param((2, "rings", "gpu:0"), marks=pytest.mark.gpu),
    ],
    ids=str,
)
def hosts_of_work(request):
    """Over what an application spreads its work: how many hosts, their links, each one's device."""
    return request.param


@pytest.fixture
def load(tmp_path):
    """A module of a text, as a user's file."""
    numbers = itertools.count()

    def load(text):
        path = tmp_path / f"user{next(numbers)}.py"
        path.write_text(text)
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory):
    """Compiled programs are kept for this run alone, by all processes that share it: each is
    compiled once, and in nobody's own cache.
    """
    run = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:  # a process has a folder of its own below the run's
        run = run.parent
    folder = run / "programs"
    folder.mkdir(exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DENIZEN_CACHE", str(folder))
        if "DENIZEN_QUICK_TESTS" in os.environ and "CXX" not in os.environ:
            patch.setenv("CXX", shlex.quote(str(UNOPTIMISED)))
            patch.setenv("DENIZEN_PARSED", str(run / "parsed"))
        yield folder


@pytest.fixture
def unoptimised(monkeypatch):
    """NVRTC and nvJitLink optimise nothing, in a tenth of the time: where code for a GPU is made
    and not run.
    """
    from denizen import CompileError, _core, compilers  # noqa: PLC0415

    with contextlib.suppress(CompileError):  # there is none: what the test says to that
        compilers.find_nvrtc()
        if _core.nvrtc_version() >= 13000:  # an older one does not know the option
            flags = (*compilers.GPU_FLAGS, "--Ofast-compile=max")
            monkeypatch.setattr(compilers, "GPU_FLAGS", flags)
            link_flags = compilers.link_flags
            monkeypatch.setattr(
                compilers,
                "link_flags",
                lambda *given: [*link_flags(*given), "-O0", "-Xptxas=--Ofast-compile=max"],
            )


def _gpu_problem():
    """Why there is no GPU, or nothing."""
    import denizen  # noqa: PLC0415  (tests of tools need none)
    from denizen import _core  # noqa: PLC0415

    return denizen.gpu_problem() or ("" if _core.gpu_count() > 0 else "the driver sees no GPU")

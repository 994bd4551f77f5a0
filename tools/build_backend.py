# SPDX-License-Identifier: Apache-2.0
"""PEP 517 backend: scikit-build-core's, which asks for the pinned CUDA compiler wheels as well
where no nvcc is installed and the device half is not switched off."""

import os
import sys
import tomllib
from pathlib import Path

import scikit_build_core.build as backend
from scikit_build_core.build import *  # noqa: F403

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import nvcc  # noqa: E402


def cuda(settings: dict | None) -> list[str]:
    said = [f"{key}={value}" for key, value in (settings or {}).items()]
    said += [os.environ.get("CMAKE_ARGS", ""), os.environ.get("SKBUILD_CMAKE_DEFINE", "")]
    if "DENIZEN_CUDA=OFF" in " ".join(said) or nvcc.installed():
        return []
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]["cuda"]


def get_requires_for_build_wheel(config_settings: dict | None = None) -> list[str]:
    return backend.get_requires_for_build_wheel(config_settings) + cuda(config_settings)


def get_requires_for_build_editable(config_settings: dict | None = None) -> list[str]:
    return backend.get_requires_for_build_editable(config_settings) + cuda(config_settings)

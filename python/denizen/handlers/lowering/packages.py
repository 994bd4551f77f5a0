# SPDX-License-Identifier: Apache-2.0
"""numba.core and numba.cuda, by one set of names."""

from __future__ import annotations

from importlib import import_module
from types import SimpleNamespace
from typing import Any

# By name: where it is in Numba, and in numba-cuda.
_PLACES = {
    "types": ("core.types", "types"),
    "cgutils": ("core.cgutils", "cgutils"),
    "errors": ("core.errors", "core.errors"),
    "models": ("core.datamodel.models", "datamodel.models"),
    "templates": ("core.typing.templates", "typing.templates"),
    "register_model": ("extending.register_model", "extending.register_model"),
    "typeof": ("extending.typeof_impl", "extending.typeof_impl"),
    "infer_global": ("core.typing.templates.infer_global", "cudadecl.registry.register_global"),
    "infer_getattr": ("core.typing.templates.infer_getattr", "cudadecl.registry.register_attr"),
    "lower": ("core.imputils.lower_builtin", "cudaimpl.registry.lower"),
    "lower_cast": ("core.imputils.lower_cast", "cudaimpl.registry.lower_cast"),
    "lower_constant": ("core.imputils.lower_constant", "cudaimpl.registry.lower_constant"),
    "lower_getattr": (
        "core.imputils.lower_getattr_generic",
        "cudaimpl.registry.lower_getattr_generic",
    ),
}


def package(cuda: bool) -> SimpleNamespace:
    """These of one of the two."""
    root = "numba.cuda" if cuda else "numba"
    found = {name: _at(f"{root}.{places[cuda]}") for name, places in _PLACES.items()}
    return SimpleNamespace(cuda=cuda, **found)


def _at(path: str) -> Any:
    """A module, or what is in one."""
    try:
        return import_module(path)
    except ModuleNotFoundError:
        owner, _, name = path.rpartition(".")
        return getattr(_at(owner), name)

# SPDX-License-Identifier: Apache-2.0
"""Checks a JSON value against the part of JSON Schema that ``record.schema.json`` uses.

The schema file is the one description of a record; this reads it without a dependency, so that a
machine with nothing but NumPy can write records. A keyword it does not know is an error here, never
a check silently left out. The tests compare it with PyPI's jsonschema.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

_KNOWN = {
    "$schema", "$defs", "$ref", "title", "description", "type", "required", "properties",
    "additionalProperties", "items", "minItems", "maxItems", "minLength", "minimum",
    "const", "pattern",
}  # fmt: skip


class SchemaError(ValueError):
    """A value breaks the schema; the message begins with the path of the offending part."""


@cache
def record_schema() -> dict[str, Any]:
    """The schema of a record, parsed."""
    text = files("denizen.lab").joinpath("record.schema.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


def _has_type(value: object, name: str) -> bool:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    match name:
        case "object":
            return isinstance(value, dict)
        case "array":
            return isinstance(value, list)
        case "string":
            return isinstance(value, str)
        case "boolean":
            return isinstance(value, bool)
        case "null":
            return value is None
        case "number":
            return number
        case "integer":
            return number and float(value).is_integer()  # type: ignore[arg-type]
    raise SchemaError(f"the schema asks for an unknown type {name!r}")


def check(value: Any, schema: Mapping[str, Any], *, root: Mapping[str, Any], at: str = "") -> None:
    """Raise :class:`SchemaError` unless ``value`` fits ``schema``; ``$ref`` are in ``root``."""
    where = at or "record"
    if unknown := set(schema) - _KNOWN:
        raise SchemaError(f"{where}: schema keyword {sorted(unknown)[0]!r} is not supported")
    if "$ref" in schema:
        part: Any = root
        for step in schema["$ref"].removeprefix("#/").split("/"):
            part = part[step]
        check(value, part, root=root, at=at)
    if "type" in schema:
        types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        if not any(_has_type(value, name) for name in types):
            raise SchemaError(f"{where}: expected {' or '.join(types)}, got {value!r:.60}")
    if "const" in schema and value != schema["const"]:
        raise SchemaError(f"{where}: expected {schema['const']!r}, got {value!r:.60}")
    if isinstance(value, str):
        if len(value) < schema.get("minLength", 0):
            raise SchemaError(f"{where}: the text is empty")
        if "pattern" in schema and not re.search(schema["pattern"], value):
            raise SchemaError(f"{where}: {value!r:.60} does not match {schema['pattern']}")
    elif isinstance(value, list):
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
            raise SchemaError(f"{where}: a list of {len(value)} is too short or too long")
        for i, item in enumerate(value):
            check(item, schema.get("items", {}), root=root, at=f"{where}[{i}]")
    elif isinstance(value, dict):
        for name in schema.get("required", ()):
            if name not in value:
                raise SchemaError(f"{where}: {name!r} is missing")
        known = schema.get("properties", {})
        others = schema.get("additionalProperties", True)
        for name, item in value.items():
            inside = f"{at}.{name}" if at else name
            if name in known:
                check(item, known[name], root=root, at=inside)
            elif others is False:
                raise SchemaError(f"{inside}: no such field")
            elif others is not True:
                check(item, others, root=root, at=inside)
    elif _has_type(value, "number") and value < schema.get("minimum", value):
        raise SchemaError(f"{where}: {value} is less than {schema['minimum']}")


def check_record(value: Any) -> None:
    """Raise :class:`SchemaError` unless ``value`` is a benchmark record."""
    check(value, record_schema(), root=record_schema())

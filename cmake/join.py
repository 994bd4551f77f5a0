# SPDX-License-Identifier: Apache-2.0
"""Writes one source that is several: join.py OUT SOURCE...

What their headers bring is then parsed and compiled once. What a source has outside of named
namespaces, and in those of denizen, gets a namespace of its own: there names of several sources
would meet. Messages of the compiler name the sources and their lines. Only for a compile that is
never linked.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path


def apart(source: Path, number: int) -> Iterator[str]:
    """The lines of a source with its own names in namespaces."""
    outer, inner = f"file_{number}", f"inner_{number}"
    end = close = ""  # of the named namespace that is open; else `outer` is
    lines = source.read_text().splitlines()
    yield from (f"namespace {outer} {{", f'#line 1 "{source}"')
    for k, line in enumerate(lines, 1):
        named = re.match(r"namespace ([\w:]+) \{$", line)
        if line.startswith("#include") and not end:
            yield from (
                "}",
                from_its_folder(line, source),
                f"namespace {outer} {{",
                f"#line {k + 1}",
            )
        elif named and not end:
            end, close = f"}} // namespace {named[1]}", "}"
            yield f"}} {line}"
            if named[1].startswith("denizen"):
                close = "} }"
                yield from (f"namespace {inner} {{ using namespace ::{outer};", f"#line {k + 1}")
        elif end and line == end:
            end = ""
            yield f"{close} namespace {outer} {{"
        else:
            yield re.sub(r"^int main\(", "int run(", line)
    yield "}"
    yield from (
        f"#undef {found[1]}" for line in lines if (found := re.match(r"#define (\w+)", line))
    )


def from_its_folder(line: str, source: Path) -> str:
    """An #include that names a file beside the source names it in full."""
    found = re.match(r'#include "(.+)"', line)
    beside = source.parent / found[1] if found else None
    return f'#include "{beside}"' if beside and beside.exists() else line


def main(out: str, *sources: str) -> None:
    lines = [line for number, one in enumerate(sources) for line in apart(Path(one), number)]
    Path(out).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])

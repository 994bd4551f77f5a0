#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# check.sh core|all PREFIX: builds a stranger's project against the installed tree and runs it. In a tree
# with the core alone the library holds no symbol of the kit or an application.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
wanted=$1 prefix=$2
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
cmake -S "$here" -B "$build" -G Ninja -DWANTED="$wanted" -DCMAKE_PREFIX_PATH="$prefix" >"$build.log" 2>&1 ||
    { cat "$build.log" >&2; exit 1; }
rm -f "$build.log"
grep -q "^denizen_DIR:PATH=$prefix/" "$build/CMakeCache.txt" ||
    { echo "another denizen than $prefix's was found" >&2; exit 1; }
cmake --build "$build"
"$build/consumer"
if [ "$wanted" = core ]; then
    library=$(find "$prefix" -name libdenizen_core.a)
    foreign=$(nm -C --defined-only "$library" 2>/dev/null |
        grep -E ' denizen::(dsp|graph|infer|procmine|radio|transactions|wave)::' | head -5 || true)
    [ -z "$foreign" ] || { echo "the core's library holds: $foreign" >&2; exit 1; }
    [ ! -d "$prefix/include/denizen/wave" ] || { echo 'the core installs headers of applications' >&2; exit 1; }
fi
echo "$wanted: a stranger's project found $prefix and ran"

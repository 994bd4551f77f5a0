#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs every model through spin, as many at a time as there are cores. Passes if no model has an error,
# every state was looked at, every statement was reached, and every planted bug was found. --whole: the
# largest models also with all of their bounds, ten million states each. One argument: only that model.
set -u
models=$(cd "$(dirname "$0")" && pwd)
whole=
if [ "${1:-}" = --whole ]; then
    whole=yes
    shift
fi
only=${1:-}
for tool in spin gcc; do
    command -v $tool >/dev/null || { echo "$tool not found: apt-get install $tool" >&2; exit 1; }
done
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# Most searches end sooner than gcc, which takes 0.5 s at -O0, 1.2 s at -O1 and 2 s at -O2: -O1 is for those
# of all states of the larger models, and for plants that are found late.
large=' breath cut gates mpmc mpsc outbox quiet unchecked_ring '
found_late=' outbox quiet '

# verify <models to optimise> <folder> <model> <spin's options...>: leaves spin's verdict in <folder>/out. 2 GB,
# 3 million steps deep.
verify() {
    local level=-O0
    [[ $1 == *" $3 "* ]] && level=-O1
    shift
    (mkdir -p "$1" && cd "$1" && spin -a "${@:3}" "$models/$2.pml" >out 2>&1 &&
        gcc $level -w -DSAFETY -DCOLLAPSE -DMEMLIM=2000 -o pan pan.c >>out 2>&1 &&
        timeout 480 ./pan -m3000000 >out 2>&1)
}

say() { # <folder> <verdict> <model and options>
    printf '%-6s %-45s %s\n' "$2" "$3" \
        "$(sed -nE 's/^ *([0-9]+) states, stored.*/\1 states/p; s/.*elapsed time (.*) seconds/\1 s/p' "$1/out" | paste -sd' ')"
    if [ "$2" = FAILED ]; then
        touch "$folder/failed"
        cat "$1/out"
    fi
}

check_that_it_holds() { # <folder> <model> <options...>
    if verify "$large" "$@" && grep -q 'errors: 0$' "$1/out" &&
        ! grep -Eq 'max search depth too small|reached -DMEMLIM|not completed' "$1/out" &&
        ! grep -E '\.(pml|inc):[0-9]+, state' "$1/out" | grep -qv -- '"-end-"'; then
        say "$1" ok "${*:2}"
    else
        say "$1" FAILED "${*:2}"
    fi
}

check_that_it_is_found() { # <folder> <model> <options...>
    verify "$found_late" "$@"
    if grep -Eq 'errors: [1-9]' "$1/out"; then
        say "$1" found "${*:2}"
    else
        say "$1" FAILED "${*:2} (a planted bug that was not found)"
    fi
}

running=0
begin() { # <check> <model> <options...>
    [ -z "$only" ] || [ "$only" = "$2" ] || return 0
    if [ $running -ge "$(nproc)" ]; then
        wait -n
        running=$((running - 1))
    fi
    running=$((running + 1))
    "$1" "$(mktemp -d "$folder/XXXXXX")" "${@:2}" &
}
holds() { begin check_that_it_holds "$@"; }
holds_in_whole() { [ -z "$whole" ] || holds "$@"; }
finds() { begin check_that_it_is_found "$@"; }

holds spsc
holds spsc -DCAP=4 -DPK=1 -DMOD=16
finds spsc -DPLANTED_EARLY_CREDIT
finds spsc -DPLANTED_HEADER_ONLY
finds spsc -DPLANTED_SHORT_WRITE
finds spsc -DPLANTED_UNAWAITED_PADDING

holds mpsc -DNUMS=1
holds_in_whole mpsc
finds mpsc -DPLANTED_EARLY_CREDIT
finds mpsc -DPLANTED_HEADER_ONLY
finds mpsc -DPLANTED_LAZY_CREDIT
finds mpsc -DPLANTED_SHORT_WRITE
finds mpsc -DPLANTED_UNAWAITED_PADDING

holds mpmc
finds mpmc -DPLANTED_EARLY_FREE
finds mpmc -DPLANTED_SHORT_WRITE
finds mpmc -DPLANTED_UNAWAITED_PADDING

holds bell
finds bell -DPLANTED_NO_HEAVY_FENCE
finds bell -DPLANTED_ONE_FLAG
finds bell -DPLANTED_BELL_FIRST
finds bell -DPLANTED_KEEPS_BIT

holds park -DMESSAGES=1
holds_in_whole park
finds park -DPLANTED_LAST_LAUNCH
finds park -DPLANTED_LOOK_ONCE
finds park -DPLANTED_ONLY_RINGS
finds park -DPLANTED_STAY

holds breath
finds breath -DPLANTED_ANSWERS_THE_HOST
finds breath -DPLANTED_LEAVES_GO
finds breath -DPLANTED_SAME_ATTEMPT
finds breath -DPLANTED_SHUTS_ANYWAY
finds breath -DPLANTED_ONE_GATE -DIMPATIENT=2

holds cut -DCALLS=1
holds_in_whole cut
finds cut -DPLANTED_NO_NUMBER -DCALLS=1
finds cut -DPLANTED_OWN_TIME -DCALLS=1
finds cut -DPLANTED_WAITS -DCALLS=1

holds gathering
finds gathering -DPLANTED_ONE_STATE

holds parking
finds parking -DPLANTED_EVERY_NOTIFIER
finds parking -DPLANTED_LATE_PUBLISH
finds parking -DPLANTED_LOOK_FIRST
finds parking -DPLANTED_STORE

holds outbox -DHOPS=1
holds_in_whole outbox
holds outbox -DLET_IN=0 -DOUTBOX=4
finds outbox -DPLANTED_LIMIT_OF_EACH
finds outbox -DPLANTED_OWN_GATE
finds outbox -DPLANTED_WAIT

holds near
finds near -DPLANTED_EARLY_CREDIT
finds near -DPLANTED_EARLY_SEND
finds near -DPLANTED_FORGOTTEN_HEAD
finds near -DPLANTED_NO_BARRIER
finds near -DPLANTED_WITHHELD_CREDIT

holds quiet -DBUDGET=2
holds_in_whole quiet
finds quiet -DPLANTED_HEADS_FIRST -DBUDGET=2
finds quiet -DPLANTED_LIVE_HEADS -DBUDGET=2
finds quiet -DPLANTED_ONE_PASS -DBUDGET=2
finds quiet -DPLANTED_RELAXED -DBUDGET=2
finds quiet -DPLANTED_TAILS_READ_FIRST -DBUDGET=2

holds unchecked_ring
finds unchecked_ring -DITEMS=3
finds unchecked_ring -DPLANTED_LOOK_AT_ONE
finds unchecked_ring -DPLANTED_NO_HEAVY_FENCE

holds share
finds share -DPLANTED_LATE_COUNT
finds share -DPLANTED_LOOK_THEN_STORE
finds share -DPLANTED_RELAXED_RELEASE

holds tokens
finds tokens -DPLANTED_EARLY_RETURN
finds tokens -DPLANTED_FREE_MAIL
finds tokens -DPLANTED_LATE_TOKENS
finds tokens -DPLANTED_UNORDERED_MAIL

holds gates
finds gates -DPLANTED_COUNTS_ITSELF_TWICE
finds gates -DPLANTED_DOES_NOT_AWAIT_SEARCH
finds gates -DPLANTED_GIVES_UP_BLINDLY

wait
[ ! -e "$folder/failed" ]

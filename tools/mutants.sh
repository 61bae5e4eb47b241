#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# mutants.sh: score the host tests by mutation for MINUTES (30); T is a glob over the mutated
# files, SEED (1) decides the sample, EQUIVALENT=1 runs only those that are listed as
# equivalent, SURVIVORS=LOG only those that survived in a log before, MOST=N at most so many.
# Survivors and the table go to the terminal; build/mutants/log has every mutant.
# --selftest checks the scorer itself.
. "$(dirname "$0")/lib.sh"

MINUTES=${MINUTES:-30} T=${T:-*} SEED=${SEED:-1}
"$TOP/tools/roots.sh" builder
mkdir -p "$BUILD/mutants"
# shellcheck disable=SC2016
quietly "$BUILD/mutants/build.log" in_builder bash -euc 'cd /src/tools/mutants
    CARGO_TARGET_DIR=/src/build/mutants/lister nice cargo build -q --locked --release' ||
    failed "the list of mutants" "$BUILD/mutants/build.log" "correct what the log tells"
if [ "${1:-}" = --selftest ]; then
    in_builder nice python3 /src/tools/mutants.py --selftest /src/build/mutants/lister/release/mutants </dev/null
    exit
fi
lock "mutants-$(key "$TOP")"
args=(--minutes "$MINUTES" --files "$T" --seed "$SEED" --log /src/build/mutants/log)
[ -z "${EQUIVALENT:-}" ] || args+=(--equivalent)
[ -z "${SURVIVORS:-}" ] || args+=(--again "/src/${SURVIVORS#"$TOP"/}")
[ -z "${MOST:-}" ] || args+=(--most "$MOST")
in_builder nice python3 /src/tools/mutants.py /src /src/build/mutants \
    /src/build/mutants/lister/release/mutants "${args[@]}" </dev/null

#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# fuzz.sh: coverage-guided fuzzing of the engines that build on the host, MINUTES in total (30), one
# target after another (T= selects). Inputs that reach new code are kept in the cache; a minimal set
# of them replaces tools/testing/host/fuzz/corpus, which "make test" replays. Inputs that cause a
# failure are left in build/fuzz/TARGET/, and the exit status is 1.
. "$(dirname "$0")/lib.sh"

MINUTES=${MINUTES:-30} T=${T:-*}
# Limits of the checked-in corpus, per target.
most_files=300 most_bytes=204800
"$TOP/tools/roots.sh" builder
lock fuzz

targets=()
for name in packets rings wire cm ucma; do
    # shellcheck disable=SC2053
    if [[ $name == $T ]]; then targets+=("$name"); fi
done
[ ${#targets[@]} -gt 0 ] || die "no fuzz target is called $T" "give T=packets, rings, wire, cm or ucma"

log=$BUILD/fuzz.log
say "building the fuzz targets (first time: 2 minutes)"
# Coverage is asked of every crate of the target, but not of build scripts: hence --target.
# shellcheck disable=SC2016
quietly "$log" in_builder bash -euc 'cd /src/tools/testing/host
    export CARGO_TARGET_DIR=/c/target-fuzz CXX=clang++ CC=clang
    export RUSTFLAGS="-Ccodegen-units=1 -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4
        -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table
        -Cllvm-args=-sanitizer-coverage-trace-compares"
    # Trees share the target folder: rebuild the crates of the tree itself.
    for name in rdma-wire rxe-sim rxe-mem rdma-cm-engine rdma-ucma-engines rxe-fuzz; do cargo clean -q --release --target x86_64-unknown-linux-gnu -p "$name"; done
    nice cargo build -j2 --release --target x86_64-unknown-linux-gnu -p rxe-fuzz --features libfuzzer --bins
    mkdir -p /src/build/fuzz
    cp /c/target-fuzz/x86_64-unknown-linux-gnu/release/fuzz-{packets,rings,wire,cm,ucma} /src/build/fuzz/' ||
    failed "the fuzz targets" "$log" "correct what the log tells"

bad=0
for name in "${targets[@]}"; do
    seconds=$((MINUTES * 60 / ${#targets[@]}))
    out=$BUILD/fuzz/$name
    kept=$TOP/tools/testing/host/fuzz/corpus/$name
    mkdir -p "$out" "$kept" "$CACHE/fuzz/$name"
    say "fuzzing $name for $(minutes "$seconds")"
    # shellcheck disable=SC2016
    in_builder bash -c 'cd /src/build/fuzz && exec nice ./fuzz-$1 -max_total_time=$2 -max_len=1024 -len_control=40 -timeout=20 \
        -rss_limit_mb=2048 -use_value_profile=1 -print_final_stats=1 -artifact_prefix="$1/" /c/fuzz/$1 /src/tools/testing/host/fuzz/corpus/$1' \
        fuzz "$name" "$seconds" >"$out/log" 2>&1 </dev/null || { say "$name: an input breaks it, see ${out#"$TOP"/}"; tail -n 20 "$out/log" >&2; bad=1; }
    grep -E '^stat::number_of_executed_units|^stat::average_exec' "$out/log" >&2 || :
    grep -E 'DONE|cov:' "$out/log" | tail -n 1 >&2 || :
    # Existing inputs are kept; the fewest others that reach further edges are added. The number of
    # hits does not matter here. (Without the folder it starts from scratch.)
    rm -rf "$out/min"
    cp -r "$kept" "$out/min"
    # shellcheck disable=SC2016
    quietly "$out/merge" in_builder bash -c 'cd /src/build/fuzz && exec nice ./fuzz-$1 -set_cover_merge=1 -use_counters=0 -use_value_profile=0 \
        -max_len=1024 -timeout=20 "$1/min" /c/fuzz/$1 /src/tools/testing/host/fuzz/corpus/$1' fuzz "$name" || say "$name: the corpus was not minimised"
    files=$(find "$out/min" -type f | wc -l)
    bytes=$(find "$out/min" -type f -printf '%s\n' | awk '{ s += $1 } END { print s + 0 }')
    say "$name: $files inputs of $bytes bytes reach every edge that is known"
    if [ "$files" -gt 20 ] && [ "$files" -lt $most_files ] && [ "$bytes" -lt $most_bytes ]; then
        rm -rf "$kept"
        cp -r "$out/min" "$kept"
    else
        say "$name: that is not kept (more than 20 and less than $most_files files, $most_bytes bytes)"
    fi
done
exit $bad

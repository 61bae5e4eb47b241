#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# check.sh [fmt|format]: checks that need no guest. Formatting, clippy on the host crates, mechanical house
# rules, the count of unsafe code, the tables of ib_uverbs, functions that panic (if make panics
# built these sources), compile-fail cases and clippy on the kernel crates (if modules were built),
# shell syntax (and shellcheck if it is installed). fmt only formats the Rust sources and updates
# the counts and the page of ib_uverbs' ABI; format only checks the formatting.
. "$(dirname "$0")/lib.sh"

"$TOP/tools/roots.sh" builder
bad=0
step() { # NAME CMD...
    local name=$1
    shift
    if "$@" >"$BUILD/check.log" 2>&1 </dev/null; then
        say "check: $name: ok"
        grep '^|' "$BUILD/check.log" >&2 || : # a table is for the reader
    else
        say "check: $name: FAILED"
        tail -n 40 "$BUILD/check.log" >&2
        bad=1
    fi
}

# shellcheck disable=SC2016
format() { # RUSTFMT-OPTIONS...: over every Rust file, since Kbuild joins them, not cargo
    in_builder bash -c 'cd /src && find . \( -path ./.git -o -path ./build -o -name target \) -prune -o -name "*.rs" -print |
        sort | xargs -r rustfmt --edition 2021 "$@"' format "$@"
}
abi() { # write|check: the page of ib_uverbs' ABI, by the headers and the C module of the kernel source
    local newer
    "$TOP/tools/kernel.sh" --unpack
    in_builder python3 /src/tools/uverbs_abi.py "$1" "/c/$("$TOP/tools/kernel.sh" --source)" </dev/null || return
    # The next version has more objects. Its source is not fetched for this.
    if [ ! -e "$CACHE/archive-7.3.ok" ]; then return; fi
    newer=$("$TOP/tools/kernel.sh" --source stock-7.3)
    if done_with "$newer"; then in_builder python3 /src/tools/uverbs_abi.py "$1" "/c/$newer" </dev/null; fi
}
if [ "${1:-}" = format ]; then
    format --check -l
    exit
fi
if [ "${1:-}" = fmt ]; then
    format
    abi write
    in_builder python3 /src/tools/unsafe.py write </dev/null
    in_builder python3 /src/tools/edge.py write </dev/null
    "$TOP/tools/bench/check.sh" mark
    "$TOP/tools/panics.sh" write
    exit
fi
step "rustfmt (make fmt formats)" format --check -l
if [ -e "$TOP/tools/testing/host/Cargo.toml" ]; then
    step "clippy, host crates" host_cargo clippy -q -j2 --all-targets -- -D warnings
fi
step "house rules" "$TOP/tools/lint.sh"
step "the edge (tools/edge.py)" in_builder python3 /src/tools/edge.py check
step "unsafe code (make fmt updates Documentation/unsafe.md)" in_builder python3 /src/tools/unsafe.py check
step "the ABI of ib_uverbs, in C and in Rust (make fmt updates Documentation/uverbs-abi.md)" abi check
step "functions that panic (tools/panics.sh)" "$TOP/tools/panics.sh" check
step "dependencies of ib_core's modules" in_builder python3 /src/tools/knots.py
step "exported symbols" in_builder python3 /src/tools/exports.py
if compgen -G "$BUILD/modules-*/core/.main.o.cmd" >/dev/null; then
    step "what must not compile" "$TOP/tools/compile_fail.sh"
    step "clippy, kernel crates" "$TOP/tools/clippy.sh"
else
    say "check: what must not compile; clippy, kernel crates: skipped, no modules are built"
fi
step "figures: self-test, age of the tables (make fmt updates the lines)" "$TOP/tools/bench/check.sh"
step "shell syntax" bash -c 'for f in tools/*.sh tools/*/*.sh tools/*/*/*.sh .ci/run; do bash -n "$f" || exit 1; done'
if command -v shellcheck >/dev/null; then
    step "shellcheck" bash -c 'shellcheck -x -S warning -e SC1091,SC2034,SC2154 tools/*.sh tools/*/*.sh tools/*/*/*.sh .ci/run'
fi
step "python syntax" in_builder bash -c 'cd /src && for f in $(find tools -name "*.py"); do
    python3 -c "import ast, sys; ast.parse(open(sys.argv[1]).read())" "$f" || exit 1; done'
exit $bad

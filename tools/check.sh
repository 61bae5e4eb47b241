#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# check.sh: what needs no guest. Formatting, clippy on the host crates, the house
# rules that a machine can see, shell syntax (and shellcheck where it is installed).
. "$(dirname "$0")/lib.sh"

"$TOP/tools/roots.sh" builder
bad=0
step() { # NAME CMD...
    local name=$1
    shift
    if "$@" >"$BUILD/check.log" 2>&1 </dev/null; then
        say "check: $name: ok"
    else
        say "check: $name: FAILED"
        tail -n 40 "$BUILD/check.log" >&2
        bad=1
    fi
}

# rustfmt follows mod declarations, so crate roots would do; but kernel files are
# joined by Kbuild, so each file is given by itself.
# shellcheck disable=SC2016
step "rustfmt" in_builder bash -c 'cd /src && find rust core mad rw umem cm cma ucma uverbs rdmavt hw ulp tools -name "*.rs" \
    -not -path "*/target/*" 2>/dev/null | xargs -r rustfmt --check --edition 2021 --config skip_children=true 2>/dev/null ||
    find rust hw tools -name "*.rs" -not -path "*/target/*" 2>/dev/null | xargs -r rustfmt --check --edition 2021'
if [ -e "$TOP/tools/testing/host/Cargo.toml" ]; then
    step "clippy, host crates" in_builder bash -c 'cd /src/tools/testing/host &&
        CARGO_TARGET_DIR=/c/target nice cargo clippy -q -j2 --all-targets -- -D warnings'
fi
step "house rules" "$TOP/tools/lint.sh"
step "shell syntax" bash -c 'for f in tools/*.sh tools/*/*.sh tools/testing/guest/*.sh .ci/run; do bash -n "$f" || exit 1; done'
if command -v shellcheck >/dev/null; then
    step "shellcheck" bash -c 'shellcheck -x -S warning -e SC1091,SC2034,SC2154 tools/*.sh tools/*/*.sh tools/testing/guest/*.sh .ci/run'
fi
step "python syntax" in_builder bash -c 'cd /src && for f in $(find tools -name "*.py"); do
    python3 -c "import ast, sys; ast.parse(open(sys.argv[1]).read())" "$f" || exit 1; done'
exit $bad

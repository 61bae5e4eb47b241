# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# mutants.py on a small crate, some of whose functions are tested: what is to be killed is, what
# is to survive does, and the score follows from both.

scorer() {
    local status=0
    "$TOP/tools/mutants.sh" --selftest >"$work/mutants" || status=$?
    grep -A 1 '^not ok' "$work/mutants"
    [ "$status" = 0 ] &&
        [ "$(grep -c '^ok - mutants: ' "$work/mutants")" = "$(sed -n 's/^1\.\.//p' "$work/mutants")" ]
}
check "mutants: the scorer tells killed from survived" scorer

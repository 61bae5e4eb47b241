#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# panics.sh [MODULE...]: list every reference of our modules to a function that panics, with
# the function it is in. Fails if there is one.
#
# The modules are those of build/modules-overflow, which this script builds first
# (modules.sh with OVERFLOW=1: overflow checks on, debug assertions off, as distribution
# kernels have them). MODULE is a module's name, as ib_core; by default all modules that are
# not tests are examined. PANICS_DIR=DIR examines DIR as it is and builds nothing.
#
# A function that panics is one of `core::panicking`, or one of those that core has for a
# single purpose and that panic on all paths (`unwrap_failed`, `slice_index_fail`, ...).
. "$(dirname "$0")/lib.sh"

KERNEL=${KERNEL:-fast}
dir=${PANICS_DIR:-build/modules-overflow}
cd "$TOP"
[ -n "${PANICS_DIR:-}" ] || OVERFLOW=1 tools/modules.sh "$KERNEL"

if [ $# -gt 0 ]; then
    modules=$(printf '%s.ko\n' "$@")
else
    modules=$(cd "$dir" && ls ./*.ko | sed 's|^\./||' | grep -vE '^(countdev|fakeib|softpair|.*kunit.*|.*_test)\.ko$') || :
fi
[ -n "$modules" ] || die "there is no module in $dir" "build them with OVERFLOW=1 tools/modules.sh"

# MODULE: lines of "count, function that panics, function that refers to it".
references() {
    # shellcheck disable=SC2016
    in_builder bash -euc '
        "$1"llvm-objdump -t "$2" >/tmp/symbols
        "$1"llvm-objdump -r "$2" >/tmp/relocations
        awk '\''
            FNR == 1 { file++ }
            # OFFSET FLAGS SECTION SIZE NAME, where FLAGS is of seven columns and F a function.
            file == 1 && substr($0, 18, 7) ~ /F/ {
                rest = substr($0, 26)
                split(rest, f, /[ \t]+/)
                n = ++count[f[1]]
                start[f[1], n] = $1 ""
                size[f[1], n] = f[2]
                name[f[1], n] = f[3]
                if (f[3] ~ /^\./) name[f[1], n] = f[4]
            }
            file == 2 && /^RELOCATION RECORDS FOR/ { section = substr($4, 2, length($4) - 3) }
            file == 2 && $2 ~ /^R_/ {
                split($3, target, /[-+]0x/)
                if (target[1] !~ /4core9panicking|(unwrap|expect|_index|error|mismatch)_fail(ed)?|panic_already|panic_const|panic_nounwind|slice_(start|end)_index|rust_begin_unwind|rust_panic/) next
                within = "(" section ")"
                # Numbers of one width, compared as text: 3e000 is no power of ten.
                at = $1 ""
                for (i = 1; i <= count[section]; i++)
                    if (start[section, i] <= at && (best == "" || start[section, i] >= best)) {
                        best = start[section, i]
                        within = name[section, i]
                    }
                best = ""
                print target[1], within
            }'\'' /tmp/symbols /tmp/relocations | sort | uniq -c | "$1"llvm-cxxfilt
        ' panics "$LLVM_PREFIX" "/src/$dir/$1" </dev/null
}

bad=0
for module in $modules; do
    [ -e "$dir/$module" ] || die "$dir/$module is missing" "name a module without .ko"
    found=$(references "$module")
    if [ -z "$found" ]; then
        echo "$module: no reference to a function that panics"
    else
        echo "$module: $(awk '{ n += $1 } END { print n }' <<<"$found") references to functions that panic"
        printf '%s\n' "$found"
        bad=1
    fi
done
exit $bad

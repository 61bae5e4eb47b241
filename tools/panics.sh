#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# panics.sh [MODULE...]: list every reference of our modules to a function that panics, with the
# function it is in. Fails unless the references are those of tools/panics-known.txt.
# panics.sh check      the same without building. If the modules are not those of the sources, it
#                      passes, but with CI= it fails: there make panics comes first
# panics.sh write      remove from tools/panics-known.txt what is not there any more
# panics.sh selftest   whether a reference that is not in the list is found
#
# The modules are those of build/modules-overflow, which this script builds first
# (modules.sh with OVERFLOW=1: overflow checks on, debug assertions off, as distribution
# kernels have them). MODULE is a module's name, as ib_core; by default all modules that are
# not tests are examined. PANICS_DIR=DIR examines DIR as it is and builds nothing.
#
# A function that panics is one of `core::panicking`, or one of those that core has for a
# single purpose and that panic on all paths (`unwrap_failed`, `slice_index_fail`, ...).
#
# tools/panics-known.txt has a line for each function and what it refers to: "module, function that
# panics, symbol", demangled and without hashes. Lines are removed from it, not added.
. "$(dirname "$0")/lib.sh"

KERNEL=${KERNEL:-fast}
KNOWN=${PANICS_KNOWN:-tools/panics-known.txt}
dir=${PANICS_DIR:-build/modules-overflow}
cd "$TOP"
export LC_ALL=C

# Source files of the modules.
sources() {
    find Kbuild cm cma core hw iwcm mad rust rw samples ucma umad umem uverbs -type f \
        \( -name '*.rs' -o -name '*.[chS]' -o -name 'Kbuild*' \) -print0 |
        sort -z | xargs -0 sha256sum | sha256sum
}

# MODULE: lines of "count, function that panics, function that refers to it".
references() {
    # shellcheck disable=SC2016
    in_builder bash -euc '
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
            }'\'' <("$1"llvm-objdump -t "$2") <("$1"llvm-objdump -r "$2") | sort | uniq -c | "$1"llvm-cxxfilt
        ' panics "$LLVM_PREFIX" "/src/$dir/$1" </dev/null
}

# examine MODULE.ko...: prints the references, and compares those of these modules with the list.
examine() {
    local module found have=
    for module in "$@"; do
        [ -e "$dir/$module" ] || die "$dir/$module is missing" "name a module without .ko"
        found=$(references "$module")
        if [ -z "$found" ]; then
            echo "$module: no reference to a function that panics"
            continue
        fi
        echo "$module: $(awk '{ n += $1 } END { print n }' <<<"$found") references to functions that panic"
        printf '%s\n' "$found"
        have+=$(listed "$module" "$found")$'\n'
    done
    compare "$(printf '%s\n' "${@%.ko}")" "$(sort -u <<<"$have")"
}

# listed MODULE.ko REFERENCES: print them as lines of the list.
listed() {
    sed -E "s/^ *[0-9]+ /${1%.ko} /" <<<"$2"
}

# compare MODULES LINES: whether the lines equal those of the list for these modules.
compare() {
    local known new gone
    known=$(sed '/^#/d' "$KNOWN" | awk 'NR == FNR { one[$1]; next } $1 in one' <(printf '%s\n' "$1") - | sort -u)
    new=$(comm -23 <(grep . <<<"$2") <(grep . <<<"$known"))
    gone=$(comm -13 <(grep . <<<"$2") <(grep . <<<"$known"))
    if [ -n "$new" ]; then
        echo "references to functions that panic which are not in $KNOWN; none may come:"
        echo "$new"
    fi
    if [ -n "$gone" ]; then
        echo "lines of $KNOWN that are not there any more (tools/panics.sh write removes them):"
        echo "$gone"
    fi
    [ -z "$new$gone" ]
}

# rewrite LINES: keep the lines of the list that are in LINES.
rewrite() {
    local kept
    kept=$(comm -12 <(grep . <<<"$1" | sort -u) <(sed '/^#/d' "$KNOWN" | sort -u))
    { grep '^#' "$KNOWN"; grep . <<<"$kept" || :; } >"$KNOWN.new"
    mv "$KNOWN.new" "$KNOWN"
}

# judges GOOD|BAD WHAT LIST: whether the planted module passes with this list.
judges() {
    local is=GOOD
    KNOWN=build/panics-selftest/known
    printf '%s\n' "# planted" "$3" >"$KNOWN"
    examine planted.ko >/dev/null || is=BAD
    [ "$is" = "$1" ] || { echo "judged wrongly, $is: $2"; return 1; }
}

selftest() {
    local panics=_RNvNtCs1_4core9panicking9panic_fmt wrong=0
    local one="planted core::panicking::panic_fmt planted"
    dir=build/panics-selftest
    mkdir -p "$dir"
    printf '%s\n' "void $panics(void);" "void planted(void);" "void planted(void) { $panics(); }" >"$dir/planted.c"
    in_builder "${LLVM_PREFIX}clang" -c -O1 "/src/$dir/planted.c" -o "/src/$dir/planted.ko" </dev/null
    judges BAD "a reference that is not listed" "" || wrong=1
    judges GOOD "a reference that is listed" "$one" || wrong=1
    judges BAD "a listed reference that is not there" "$one"$'\n'"${one}_too" || wrong=1
    judges GOOD "a line of another module" "$one"$'\n'"other $panics planted" || wrong=1
    return $wrong
}

modules() { # all modules that are not tests
    (cd "$dir" && ls ./*.ko | sed 's|^\./||' | grep -vE '^(cmcalls|countdev|fakeib|fakeverbs|iwstub|.*kunit.*|.*_test)\.ko$')
}

case ${1:-} in
selftest)
    selftest
    exit
    ;;
check | write)
    (selftest) || exit
    if [ "$(sources)" != "$(cat "$dir/sources" 2>/dev/null)" ]; then
        echo "| references to functions that panic | not counted: make panics builds the modules |"
        [ -z "${CI:-}" ]
        exit
    fi
    ;;
*)
    if [ -z "${PANICS_DIR:-}" ]; then
        made_from=$(sources)
        rm -f "$dir/sources"
        OVERFLOW=1 tools/modules.sh "$KERNEL"
        echo "$made_from" >"$dir/sources"
    fi
    ;;
esac

names=()
case ${1:-} in
'' | check | write) mapfile -t names < <(modules) ;;
*) names=("${@/%/.ko}") ;;
esac
[ ${#names[@]} -gt 0 ] || die "there is no module in $dir" "build them with OVERFLOW=1 tools/modules.sh"
case ${1:-} in
write)
    rewrite "$(for name in "${names[@]}"; do listed "$name" "$(references "$name")"; done)"
    ;;
check)
    status=0
    examine "${names[@]}" || status=$?
    echo "| references to functions that panic | $(grep -vc '^#' "$KNOWN") functions in $(basename "$KNOWN") |"
    exit $status
    ;;
*) examine "${names[@]}" ;;
esac

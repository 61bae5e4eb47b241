#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# lint.sh: house rules that can be checked mechanically. Prints each violation, fails if there is
# any.
. "$(dirname "$0")/lib.sh"
cd "$TOP"

# Source files of the tree, with or without git.
list() { find . \( -name .git -o -path ./build -o -name target \) -prune -o -type f -name "$1" -print | sed 's|^\./||' | sort; }
mapfile -t rust < <(list '*.rs')
found=$(
    for f in "${rust[@]}"; do
        # Every unsafe block, impl and extern has its SAFETY within eight lines above.
        awk -v f="$f" '
            /SAFETY:|# Safety/ { last = NR; have = 1 }
            /^[ \t]*\/\// { if (have && last == NR - 1) last = NR; next }
            /(^|[^a-z_"])unsafe[ ]*(\{|impl|extern)/ {
                if (/unsafe extern "C" fn|type .*unsafe extern|: *(Option<)?unsafe extern/) next
                if (!have || NR - last > 8) print f ":" NR ": unsafe without a SAFETY near it"
            }' "$f"
        head -n 1 "$f" | grep -q 'SPDX-License-Identifier: GPL-2.0' || echo "$f: no licence line at the top"
        head -n 12 "$f" | grep -q '^//!' || echo "$f: no header doc"
        n=$(wc -l <"$f")
        [ "$n" -le 800 ] || echo "$f: $n lines, more than 800"
    done
    for f in $(list '*.sh') $(list '*.py') $(list '*.c') $(list '*.h') $(list Kbuild) Makefile; do
        head -n 3 "$f" | grep -q 'SPDX-License-Identifier' || echo "$f: no licence line at the top"
    done
    # Tests may unwrap: they are in tools/, in test modules at the end, or so named.
    for f in "${rust[@]}"; do
        case $f in tools/* | *test*) continue ;; esac
        awk -v f="$f" '/#\[cfg\(test\)\]|#\[kunit_tests|#\[cfg\(CONFIG_.*KUNIT/ { exit }
            /^[ \t]*\/\// { next }
            /\.unwrap\(\)|\.expect\(|panic!\(|todo!\(|unimplemented!\(|unreachable!\(/ { print f ":" NR ": may panic: " $0 }' "$f"
    done
    for f in "${rust[@]}"; do
        case $f in */proto/* | rust/wire/*) grep -nE '(^|[^a-z_])(bindings|kernel)::' "$f" | grep -vE '^[0-9]+:[ \t]*//' |
            sed "s|^|$f:|; s|\$| (a pure engine knows no kernel)|" ;; esac
    done
    # Work on a system queue outlasts the module, unless its object keeps it (rdma::workqueue). Softirqs are
    # waited for at unload.
    for f in "${rust[@]}"; do
        case $f in rust/workqueue.rs | rust/cm/context.rs) continue ;; esac
        grep -nE '(workqueue::|^ *)system(_[a-z]+)*(\(\)|;|,)' "$f" | grep -vE 'system_bh|enqueue_system' | sed "s|^|$f:|; s|\$| (work may outlast the module: workqueue::enqueue_system)|"
    done
    # A SAFETY comment names the invariant or guarantee.
    for f in "${rust[@]}"; do
        case $f in tools/*) continue ;; esac
        grep -nE "(SAFETY|INVARIANT): (As above|By this function's duty)[.]?$" "$f" | sed "s|^|$f:|; s|$| (which promise, and where is it stated?)|"
    done
    # Names for which the field has a word: single retransmit, request, unsolicited response, delayed acknowledgement,
    # doorbell, retransmitting; the last two hide traits. And no command is told to mend anything.
    for f in "${rust[@]}"; do
        grep -nE '(struct|enum|trait|type|fn|mod|let( mut)?) (Mend|mending|Question|Ask|Ghost|Rides?|rides?|bell|went_back|Send|From)\>' "$f" |
            sed "s|^|$f:|; s|\$| (a name that the field has a word for)|"
    done
    for f in $(list '*.sh') $(list '*.py'); do
        case $f in tools/testing/* | tools/lint.sh) continue ;; esac
        grep -nE '"[^"]*\<mends?\>[^"]*"' "$f" | sed "s|^|$f:|; s|\$| (correct, or update)|"
    done
    # Files named in documents exist. (CONTRIBUTING.md has an example of a new module.)
    files=$(list '*')
    for f in $(list '*.md'); do
        grep -noE '`[a-z0-9_/-]+/[a-z0-9_-]+\.(rs|sh|py|c|h)`' "$f" | tr -d '`' | while IFS=: read -r n name; do
            case $name in hw/hello/main.rs) continue ;; esac
            grep -qE "(^|/)$name\$" <<<"$files" || echo "$f:$n: there is no $name"
        done
    done
    # No paths of a single machine, nor addresses of package registries.
    list '*' | grep -vE '\.lock$|^tools/lint.sh$' | xargs -r grep -nIE \
        '(^|[^A-Za-z0-9_./-])/(work|farm)/|/root/\.cache|https?://[a-z.]*(debian\.org|crates\.io|pypi\.org)' |
        sed 's|$| (a path or address of one machine)|'
    true
)
if [ -n "$found" ]; then
    printf '%s\n' "$found"
    exit 1
fi

# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# KTAP from a shell script. A test sources this, runs its cases and calls finish:
#   check NAME CMD...     the case passes when CMD exits 0
#   refuse NAME CMD...    the case passes when CMD exits non-zero (and not by a signal)
#   skip NAME REASON      REASON names what is missing
#   needs CONFIG_A CONFIG_B -- NAME   ends the test, with NAME skipped, if the kernel lacks one
#   check_with MODULE NAME CMD...   as check; skipped if a module of ours that is not
#                         whole yet lacks a symbol without which MODULE cannot load
# CMD may be a function. Its output becomes diagnostic lines of a failed case.

ktap_n=0 ktap_bad=0
echo "KTAP version 1"

ktap_result() { # "ok"|"not ok" NAME [OUTPUT-FILE]
    ktap_n=$((ktap_n + 1))
    if [ "$1" != ok ]; then
        ktap_bad=1
        if [ -n "${3:-}" ]; then tail -n 25 "$3" | sed 's/^/# /'; fi
    fi
    echo "$1 $ktap_n - $2"
}

check() {
    local name=$1 log start=$SECONDS
    shift
    log=$(mktemp)
    if "$@" >"$log" 2>&1; then
        ktap_result ok "$name"
        [ $((SECONDS - start)) -lt 5 ] || note "that took $((SECONDS - start)) s"
    else
        echo "exit status $? of: $*" >>"$log"
        ktap_result "not ok" "$name" "$log"
    fi
    rm -f "$log"
}

refuse() {
    local name=$1 log status=0
    shift
    log=$(mktemp)
    "$@" >"$log" 2>&1 || status=$?
    if [ "$status" -gt 0 ] && [ "$status" -lt 124 ]; then
        ktap_result ok "$name"
    else
        echo "exit status $status, a refusal was expected, of: $*" >>"$log"
        ktap_result "not ok" "$name" "$log"
    fi
    rm -f "$log"
}

skip() {
    ktap_n=$((ktap_n + 1))
    echo "ok $ktap_n - $1 # SKIP $2"
}

# has_config SYMBOL...: whether the guest's kernel has all these options; else the first that it
# lacks is in the variable without.
has_config() {
    without=
    for without; do grep -q "^$without=[ym]" "${SHARE_DIR:-/share}/config" || return; done
}

# needs SYMBOL... -- NAME: goes on when the kernel has these options; else the case NAME is
# skipped, and the test is over.
needs() {
    local name=${*: -1}
    has_config "${@:1:$#-2}" && return
    skip "$name" "this kernel has no $without"
    finish
}

# lacking MODULE: the first symbol for want of which MODULE, or one it needs, did not load.
lacking() {
    local needed
    if [ -d "/sys/module/$1" ] || [ -z "${PARTIAL:-}" ]; then return 1; fi
    modprobe -q "$1" && return 1
    for needed in $(modprobe --show-depends "$1" | sed -nE 's|.*/([^/]*)\.ko.*|\1|p' | tr - _); do
        dmesg | grep -oE "$needed: Unknown symbol [a-zA-Z0-9_]+" | head -n 1 | grep . && return
    done
    return 1
}

check_with() {
    local module=$1 symbol
    shift
    if symbol=$(lacking "$module"); then
        skip "$1" "$module does not load on our $PARTIAL: $symbol"
    else
        check "$@"
    fi
}

# Information that is not a case, shown in the log.
note() { echo "# $*"; }

finish() {
    echo "1..$ktap_n"
    exit "$ktap_bad"
}

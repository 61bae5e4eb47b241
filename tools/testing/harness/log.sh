# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# What the runner reads: the kernel log.

. "$here/guest/reports.sh"

# --- a warning that is known of a C module hides no other
cut='[ 1.0] ------------[ cut here ]------------'
isert='[ 1.0] WARNING: at iscsit_release_cmd+0xc8/0xe0 [iscsi_target_mod], CPU#0: kworker/0:1H/48'
only_known() { printf '%s\n' a "$cut" "$isert" "b" >"$work/log" && ! reports "$work/log"; }
named() { known_reports "$work/log" | grep -c '^ok - iscsit_release_cmd .*# SKIP .*isert' | grep -qx 1; }
not_hidden() {
    printf '%s\n' "$cut" "[ 1.0] WARNING: at other+0x1/0x2 [ib_core]" "$isert" "$cut" "$isert" "[ 1.0] BUG: x" >"$work/log" &&
        reports "$work/log" >"$work/found"
    printf '%s\n' "$cut" "[ 1.0] WARNING: at other+0x1/0x2 [ib_core]" "[ 1.0] BUG: x" | diff - "$work/found"
}
check "reports: a known one is none" only_known
check "reports: it is named" named
check "reports: others are seen beside it" not_hidden

# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# What in a kernel log is a report of something wrong: for run.sh, and the harness' own tests.

bad='WARNING:|BUG:|BUG |INFO: task .* blocked|INFO: rcu|Oops|KASAN|KFENCE|UBSAN|kernel panic|soft lockup|possible recursive locking|possible circular locking|inconsistent lock state|suspicious RCU usage|sleeping function called|scheduling while atomic|refcount_t:|list_(add|del) corruption|ODEBUG:|unregister_netdevice: waiting|workqueue lockup|rust_kernel: panicked|cut here'

# What a C module warns of by itself, whatever is below it, and why.
known='WARNING: at iscsit_release_cmd[+].*[[]iscsi_target_mod[]]'
because='the C isert frees a logout that is in its list still, if the initiator hangs up before it has acknowledged the answer'

# reports LOG: the lines that report something, but for what is known. Fails if there is none.
reports() {
    awk -v bad="$bad" -v known="$known" '
        function tell(line) { if (line ~ bad) { print line; found = 1 } }
        $0 ~ known { if (held !~ /cut here/) tell(held); held = ""; next }
        { tell(held); held = $0 }
        END { tell(held); exit !found }' "$1"
}

# known_reports LOG: a skipped case for each known one, that says so.
known_reports() {
    grep -oE "$known" "$1" | sed -E "s/.* at (\w+).*/ok - \1 does not warn # SKIP $because/"
}

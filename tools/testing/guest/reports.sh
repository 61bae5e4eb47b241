# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Which lines of a kernel log report an error, and which part of a log belongs to which test:
# for run.sh, test.sh and the tests of the harness.

# By their source: lib/bug.c, panic and oops; hung tasks, stalls, lockups; KASAN, KFENCE, UBSAN,
# KCSAN, KMSAN; lockdep, which also says when it ends, as kmemleak does; the scheduler; hardened
# lists, reference counts, debug objects; sysfs, net, softirqs, tasks that end in a section.
bad='WARNING:|(^|[^A-Z_])BUG[: ]|cut here|Oops|[Kk]ernel panic|Kernel mode fault|rust_kernel: panicked'
bad+='|INFO: task .* blocked|INFO: rcu|detected (expedited )?stall|kthread starved|soft lockup|hard LOCKUP|workqueue lockup'
bad+='|KASAN|KFENCE|UBSAN|KCSAN|KMSAN'
bad+='|possible recursive locking|possible circular locking|inconsistent lock state|suspicious RCU usage'
bad+='|trying to register non-static key|turning off the locking correctness validator|INFO: lockdep is turned off'
bad+='|kmemleak: .*([Mm]emory pool empty|Cannot allocate a kmemleak_object|detector disabled)'
bad+='|sleeping function called|scheduling while atomic|exited with (preempt_count|irqs disabled)|huh, entered softirq'
bad+='|refcount_t:|list_(add|del) corruption|ODEBUG:|object .* is (NOT )?on stack .*annotated|ref_tracker: reference already released'
bad+='|unregister_netdevice: waiting|cannot create duplicate filename'

# Warnings of the C kernel that do not depend on our modules: pattern, function that warns, reason.
# Where it comes, there is a skipped case, which skips.txt must list.
known=('WARNING: at iscsit_release_cmd[+].*[[]iscsi_target_mod[]]' 'WARNING: arch/um/drivers/virtio_pcidev[.]c:'
    'BUG: KCSAN: data-race in xas_load / xas_store')
known_names=('iscsit_release_cmd' 'virtio_pcidev' 'xas_delete_node')
known_because=('the C isert frees a logout that is in its list still, if the initiator hangs up before it has acknowledged the answer'
    'User-Mode Linux has no PCI device for its emulated bus, and says so at boot'
    'lib/xarray.c takes the last entry out of an array by a plain write of one word, which readers load with rcu_dereference')

# A data race is a report if one of its two accesses is ours. The kernel has races of its own, most
# of which its maintainers know and tolerate. Of each access the first lines of the stack tell: a helper in
# C, or a function of C's that was given what is ours to read, is at the very top.
ours='[[](ib_core|rdma_rxe|ib_umad|ib_uverbs|ib_uverbs_support|ib_cm|iw_cm|rdma_cm|rdma_ucm|fakeib|fakeverbs|iwstub|softpair|softpair_check|rdma_echo|rdma_ulp_check|cmcalls|countdev|rdma_kunit|rdma_kunit_core|rdma_kunit_umem|rxe_kunit)[]]'
races() {
    awk -v ours="$ours" '
        { text = $0; sub(/\r$/, "", text); sub(/^(\[[^]]*\] ?)+/, "", text) }
        text ~ /^BUG: KCSAN: / { held = $0; mine = 0; top = 0; next }
        held == "" { print; next }
        text ~ / by (task|interrupt)|^(read|write|race).* to 0x/ { top = 3 }
        top && text ~ /^ / { top--; if (text ~ ours) mine = 1 }
        text ~ /^=+$/ { if (mine) print held; held = "" }
        END { if (held != "") print held }' "$1"
}

# our_modules: names of the modules of ours that the guest has: in updates/, and those that a patched
# kernel has among its own, or built in.
our_modules() {
    local tree
    tree=/lib/modules/$(uname -r)
    {
        ls "$tree"/updates/*.ko
        sed -nE 's#^(kernel/drivers/infiniband/rust/[^:]*\.ko)(:.*)?$#\1#p' "$tree"/modules.{dep,builtin}
    } 2>/dev/null | sed 's#.*/##; s#\.ko$##' | tr - _
}

# looks_for_races [FILE FOLDER]: whether KCSAN is on, by its own word, and all modules of ours are
# instrumented. A kernel without the one or modules without the other are silent.
looks_for_races() {
    local module
    grep -qx 'enabled: 1' "${1:-/sys/kernel/debug/kcsan}" || return
    for module in "${2:-/lib/modules/$(uname -r)/updates}"/*.ko; do
        # A stack of C has none.
        if [ -e "$module" ] && ! grep -q __tsan_read8 "$module"; then return 1; fi
    done
}

# checks_locks [FILE]: whether lockdep is on. It switches itself off with its first report.
checks_locks() { grep -q 'debug_locks: *1$' "${1:-/proc/lockdep_stats}" 2>/dev/null; }

# reports LOG: the lines that report a problem, except known ones. Fails if there is none.
#
# A test that makes the kernel warn, since that is what the kernel must do, writes a line
# "rdma-test warns COUNT PATTERN" into the log before: so many warnings that match are no reports
# then. It is one if fewer come.
reports() {
    local IFS='|'
    races "$1" | awk -v bad="$bad" -v known="${known[*]}" '
        function tell(line) { if (line ~ bad) { print line; found = 1 } }
        function quiet() { if (held !~ /cut here/) tell(held); held = "" }
        function end() { tell(held); held = ""; if (due > 0) { print due " more warnings should have come: " wanted; found = 1 } }
        /rdma-test warns / {
            end(); sub(/\r$/, ""); sub(/.*rdma-test warns /, "")
            due = $1; wanted = $0; sub(/^[0-9]+ /, "", wanted); next
        }
        due > 0 && /WARNING: / && $0 ~ wanted { quiet(); due--; next }
        $0 ~ known { quiet(); next }
        # Another CPU may write a line or two between the mark and the warning.
        held ~ /cut here/ && $0 !~ bad && ++between <= 2 { next }
        { tell(held); held = $0; between = 0 }
        END { end(); exit !found }'
}

# known_reports LOG: a skipped case for each known one, that says so.
known_reports() {
    local i
    for i in "${!known[@]}"; do
        awk -v known="${known[i]}" -v skipped="ok - ${known_names[i]} does not warn # SKIP ${known_because[i]}" '$0 ~ known { print skipped }' "$1"
    done
}

# The runner writes two markers per test into the kernel log, with its number.
mark_begin() { echo "rdma-test begin $1 $2"; }
mark_end() { echo "rdma-test end $1 $2"; }

# of_test NUMBER LOG: the lines of a test. Fails if the log does not have its beginning: what is
# left of the log is printed.
of_test() {
    if ! grep -qF "rdma-test begin $1 " "$2"; then
        cat "$2"
        return 1
    fi
    awk -v begin="rdma-test begin $1 " -v end="rdma-test end $1 " '
        index($0, end) { on = 0 }
        on
        index($0, begin) { on = 1 }' "$2"
}

# of_no_test <LOG: the lines of a boot before, between and after its tests. Fails if the log does
# not have the boot's beginning.
of_no_test() {
    awk '
        /Linux version/ { found = 1 }
        /rdma-test begin / { on = 1 }
        !on
        /rdma-test end / { on = 0 }
        END { exit !found }'
}

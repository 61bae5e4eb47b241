# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# What kmemleak suspects, on the kernel that has it. The runner asks after each test.

kmemleak=/sys/kernel/debug/kmemleak

# When modules of the C stack were at work alone: lines "FROM TO", in jiffies. What they have
# leaked may be found much later.
c_alone=/run/c-alone
jiffies() { awk '/^jiffies:/ { print $2; exit }' /proc/timer_list; }

# The C ib_uverbs of Linux 7.2 leaks a reference to the calling process when the ioctl is refused
# a context (UVERBS_METHOD_GET_CONTEXT: it frees the context without rdma_restrack_put). The
# process then keeps its task_struct, its signal_struct, its credentials and what a security
# module keeps of both. These are left out, and only these: a leaked mm_struct, struct pid or open
# file of a process is reported, as is a process that is leaked while ib_uverbs is not the C one, or
# in a test that does not have contexts refused. These do, by hostile programs (80), by failing
# allocations (47) and by devices that go while they are opened (46):
refusing='46-races 47-storm 80-hostile'

# sizes TEST: those of a task_struct and a signal_struct, if the test has contexts refused, by the C
# ib_uverbs.
slabs=/sys/kernel/slab
sizes() {
    if [[ " $refusing " == *" ${1:-none} "* ]] && stack | grep -qx 'ib_uverbs c'; then
        cat $slabs/task_struct/object_size $slabs/signal_cache/object_size
    fi
}

# leaks TEST: prints what it suspects, and forgets it. Says nothing of what is less than 5 s old.
leaks() {
    [ -w $kmemleak ] || return 0
    # What a register or a page in flight hides is found the second time.
    echo scan >$kmemleak
    if grep -q . $kmemleak; then
        sleep 6
        echo scan >$kmemleak
    fi
    # shellcheck disable=SC2046
    suspects $(sizes "${1:-}") <$kmemleak
    echo clear >$kmemleak
}

# suspects [TASK SIGNAL] <REPORT: the report without what C modules leaked, working alone, and
# without processes if the sizes of a task_struct and a signal_struct are given. The functions
# that allocate these may be inlined into copy_process; the others that it calls may be, too.
suspects() {
    awk -v c_alone=$c_alone -v task="${1:-}" -v signal="${2:-}" '
    BEGIN { while ((getline line <c_alone) > 0) { split(line, span); from[++spans] = span[1]; to[spans] = span[2] } }
    # A line of the backtrace is "    function+0x1/0x2".
    function frame(line) { sub(/^ */, "", line); sub(/[+].*/, "", line); return line }
    function of_a_process() {
        if (!task || !signal) return 0
        if (caller ~ /^(prepare_creds|copy_creds|prepare_kernel_cred)$/) return 1
        if (caller ~ /^(security_prepare_creds|security_task_alloc|lsm_cred_alloc|lsm_task_alloc|lsm_blob_alloc)$/) return report ~ /copy_process|prepare_creds/
        if (caller ~ /^(dup_task_struct|copy_signal|copy_process)$/) return size == task || size == signal
        return 0
    }
    function end(i) {
        for (i = 1; i <= spans; i++) if (born >= from[i] && born <= to[i]) report = ""
        if (!of_a_process()) printf "%s", report
        report = caller = ""
    }
    /^unreferenced object/ { end(); size = $NF; gsub(/[^0-9]/, "", size) }
    / jiffies / { born = $NF }
    /^ +backtrace/ { traced = 1; report = report $0 "\n"; next }
    !/^ / { traced = 0 }
    traced && caller == "" && frame($0) !~ /^(__)?(kmem_cache|kmalloc|kzalloc|kvmalloc|kmemleak|slab|krealloc|kmemdup)/ { caller = frame($0) }
    { report = report $0 "\n" }
    END { end() }'
}

# old_leaks: the same for the test that calls it, when all that there is has become old enough.
old_leaks() {
    [ -w $kmemleak ] || return 0
    sleep 6
    leaks "$(basename "$0" .sh)"
}

# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# What kmemleak suspects, on the kernel that has it. The runner asks after each test.

kmemleak=/sys/kernel/debug/kmemleak

# When modules of the C stack were at work alone: lines "FROM TO", in jiffies. What they have
# leaked may be found much later.
c_alone=/tmp/c-alone
jiffies() { awk '/^jiffies:/ { print $2; exit }' /proc/timer_list; }

# leaks: prints what it suspects, and forgets it. Says nothing of what is less than 5 s old.
leaks() {
    [ -w $kmemleak ] || return 0
    # What a register or a page in flight hides is found the second time.
    echo scan >$kmemleak
    if grep -q . $kmemleak; then
        sleep 6
        echo scan >$kmemleak
    fi
    awk -v c_alone=$c_alone "$of_ours" $kmemleak
    echo clear >$kmemleak
}

# The C ib_uverbs of Linux 7.2 keeps a process for ever whom the ioctl refused a context, as
# hostile programs and failing allocations have it: it frees the context without its
# rdma_restrack_put. So processes are left out. (That our core lets them go is KUnit's to see.)
of_ours='
    BEGIN { while ((getline line <c_alone) > 0) { split(line, span); from[++spans] = span[1]; to[spans] = span[2] } }
    function end(i) {
        for (i = 1; i <= spans; i++) if (born >= from[i] && born <= to[i]) report = ""
        if (report !~ /copy_process|do_execveat_common/) printf "%s", report
        report = ""
    }
    /^unreferenced object/ { end() }
    / jiffies / { born = $NF }
    { report = report $0 "\n" }
    END { end() }'

# old_leaks: the same, when all that there is has become old enough.
old_leaks() {
    [ -w $kmemleak ] || return 0
    sleep 6
    leaks
}

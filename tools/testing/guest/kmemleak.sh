# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# What kmemleak suspects, on the kernel that has it. The runner asks after each test.

kmemleak=/sys/kernel/debug/kmemleak

# leaks: prints what it suspects, and forgets it. Says nothing of what is less than 5 s old.
leaks() {
    [ -w $kmemleak ] || return 0
    # What a register or a page in flight hides is found the second time.
    echo scan >$kmemleak
    if grep -q . $kmemleak; then
        sleep 6
        echo scan >$kmemleak
    fi
    cat $kmemleak
    echo clear >$kmemleak
}

# old_leaks: the same, when all that there is has become old enough.
old_leaks() {
    [ -w $kmemleak ] || return 0
    sleep 6
    leaks
}

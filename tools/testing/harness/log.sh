# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# What the runner reads: the kernel log, and kmemleak's reports.

. "$here/guest/reports.sh"
. "$here/guest/kmemleak.sh"

# --- which lines are reports: as the kernel's source has them
seen_line() {
    echo "[ 1.0] $1" >"$work/log"
    reports "$work/log"
}
while read -r line; do
    check "reports: $line" seen_line "$line"
done <<'LINES'
WARNING: possible circular locking dependency detected
INFO: trying to register non-static key.
turning off the locking correctness validator.
INFO: lockdep is turned off.
INFO: task rping:123 blocked for more than 61 seconds.
rcu: INFO: rcu_preempt self-detected stall on CPU
INFO: rcu_preempt detected expedited stalls on CPUs/tasks: {
watchdog: CPU0: Watchdog detected hard LOCKUP on cpu 0
Kernel panic - not syncing: Kernel mode fault at addr 0x8, ip 0x60a1
Oops: general protection fault, probably for non-canonical address 0xdead: 0000 [#1]
rust_kernel: panicked at core/main.rs:1:2:
BUG kmalloc-64 (Not tainted): Right Redzone overwritten
BUG: KASAN: slab-use-after-free in rxe_x+0x1/0x2
note: kworker[7] exited with preempt_count 1
note: kworker[7] exited with irqs disabled
softirq: huh, entered softirq 3 NET_RX 00 with preempt_count 00000100, exited with 00000101?
sysfs: cannot create duplicate filename '/class/infiniband/rxe1'
ODEBUG: object 00000000 is on stack 00000001, but NOT annotated.
kmemleak: Memory pool empty, consider increasing CONFIG_DEBUG_KMEMLEAK_MEM_POOL_SIZE
ref_tracker: reference already released.
unregister_netdevice: waiting for v1 to become free. Usage count = 2
LINES
quiet_line() { ! seen_line "$1"; }
while read -r line; do
    check "no report: $line" quiet_line "$line"
done <<'LINES'
Linux version 7.2.0 (builder@machine) (clang version 19.1.7) #1 SMP
Kernel command line: root=/dev/vda rw oops=panic panic=-1 loglevel=6
kasan: KernelAddressSanitizer initialized (generic)
Lock dependency validator: Copyright (c) 2006 Red Hat, Inc., Ingo Molnar
kmemleak: Kernel memory leak detector initialized (mem pool available: 39000)
traps: hostile[12] general protection fault ip:401136 sp:7ffd error:0 in hostile
rcu: Preemptible hierarchical RCU implementation.
** This means that this is a DEBUG kernel and it is     **
LINES

# --- a data race is a report if one of its accesses is ours
race() { # TOP-OF-ONE-STACK TOP-OF-THE-OTHER
    local rule='[ 1.0] =================================================================='
    printf '%s\n' "$rule" '[ 1.0] BUG: KCSAN: data-race in a / b' '[ 1.0] ' '[ 1.0] write to 0xffff8881 of 8 bytes by task 80 on cpu 1:' \
        "[ 1.0]  $1" '[ 1.0]  x+0x1/0x2' '[ 1.0]  y+0x1/0x2' '[ 1.0]  caller+0x1/0x2 [rdma_rxe]' '[ 1.0] ' \
        '[ 1.0] read to 0xffff8881 of 8 bytes by interrupt on cpu 0:' "[ 1.0]  $2" '[ 1.0] ' "$rule" >"$work/log"
    reports "$work/log"
}
race_of_theirs() { ! race 'a+0x1/0x2' 'b+0x1/0x2'; }
race_on_console() { race_of_theirs && sed -i 's/$/\r/' "$work/log" && ! reports "$work/log"; }
race_at_end() { echo '[ 1.0] BUG: KCSAN: data-race in a / b' >"$work/log" && reports "$work/log"; }
race_and_more() { race_of_theirs && echo '[ 1.1] BUG: x' >>"$work/log" && [ "$(reports "$work/log")" = '[ 1.1] BUG: x' ]; }
race_of_xarray() { # whether the race that is known is left out, and told of as a skipped case
    race 'x+0x1/0x2 [rdma_kunit]' 'b+0x1/0x2' >/dev/null || return
    sed -i 's|data-race in a / b|data-race in xas_load / xas_store|' "$work/log"
    ! reports "$work/log" && known_reports "$work/log" | grep -q '^ok - xas_delete_node does not warn # SKIP '
}
check "reports: the data race that is known of the xarray" race_of_xarray
check "reports: a data race, the first access ours" race 'a+0x1/0x2 [ib_core]' 'b+0x1/0x2'
check "reports: a data race, the second access ours" race 'a+0x1/0x2' 'b+0x1/0x2 [rdma_rxe]'
check "reports: no data race of others" race_of_theirs
check "reports: no data race of others on a console" race_on_console
check "reports: a data race that is cut off" race_at_end
check "reports: what comes after a race of others" race_and_more
looking() { # WORD-OF-KCSAN SYMBOL-OF-A-MODULE
    mkdir -p "$work/updates"
    echo "$1" >"$work/kcsan"
    echo __tsan_read8 >"$work/updates/a.ko"
    echo "$2" >"$work/updates/b.ko"
    looks_for_races "$work/kcsan" "$work/updates"
}
not_looking() { ! looking "$@"; }
check "looks_for_races: on, all modules instrumented" looking 'enabled: 1' __tsan_read8
looking_at_c() { echo 'enabled: 1' >"$work/kcsan" && looks_for_races "$work/kcsan" "$work/none"; }
check "looks_for_races: on, a stack of C" looking_at_c
check "looks_for_races: off" not_looking 'enabled: 0' __tsan_read8
check "looks_for_races: a module is not instrumented" not_looking 'enabled: 1' memcpy

checking() { printf ' hardirqs last...\n debug_locks:   %s\n' "$1" >"$work/stats" && checks_locks "$work/stats"; }
check "checks_locks: on" checking 1
refuse "checks_locks: off" checking 0
refuse "checks_locks: a kernel without lockdep" checks_locks "$work/nothing"

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
torn() { printf '%s\n' a "$cut" "$@" "$isert" "b" >"$work/log" && ! reports "$work/log"; }
check "reports: a known one, with a line of another CPU in it" torn "[ 1.0] Callback from call_rcu_tasks() invoked."
refuse "reports: a known one long after the mark" torn x y z
refuse "reports: a known one, with another report in it" torn "$cut"
check "reports: it is named" named
two_named() { printf '%s\n' "$cut" "$isert" a "$cut" "$isert" >"$work/log" && [ "$(known_reports "$work/log" | grep -c SKIP)" = 2 ]; }
check "reports: others are seen beside it" not_hidden
check "reports: each is named" two_named

# --- a warning that a test causes, and tells of before
told='[ 0.9] rdma-test warns 2 [[]ib_uverbs[]]'
ours_warns='[ 1.0] WARNING: at end+0x1/0x2 [ib_uverbs], CPU#0: kworker/0:1H/48'
as_told() { printf '%s\n' a "$told" "$cut" "$ours_warns" b "$cut" "$ours_warns" c >"$work/log" && ! reports "$work/log"; }
told_but() { # EXPECTED LINE...
    local expected=$1
    shift
    printf '%s\n' "$told" "$@" >"$work/log"
    reports "$work/log" >"$work/found" && grep -qF -- "$expected" "$work/found" && [ "$(wc -l <"$work/found")" = "${lines:-1}" ]
}
check "reports: warnings that a test told of are none" as_told
check "reports: one that does not come" told_but '1 more warnings' "$cut" "$ours_warns"
check "reports: a test that begins after that" told_but '2 more warnings' "$(mark_begin 2 b)" "$told" "$cut" "$ours_warns" "$cut" "$ours_warns"
lines=2 check "reports: one more than was told" told_but "$ours_warns" "$cut" "$ours_warns" "$cut" "$ours_warns" "$cut" "$ours_warns"
lines=2 check "reports: another module warns" told_but 'core' "$cut" "[ 1.0] WARNING: at a+0x1/0x2 [core]" "$cut" "$ours_warns" "$cut" "$ours_warns"
lines=1 check "reports: an error that is no warning" told_but 'BUG: x [ib_uverbs]' "$cut" "$ours_warns" "$cut" "$ours_warns" "[ 1.1] BUG: x [ib_uverbs]"

# --- whose lines are which
cat >"$work/whole" <<'LINES'
[ 0.0] Linux version 7.2.0
[ 0.1] early
[ 1.0] rdma-test begin 1 10-a
[ 1.1] of a
[ 1.2] rdma-test end 1 10-a
[ 1.3] between
[ 2.0] rdma-test begin 11 11-b
[ 2.1] of b
[ 2.2] rdma-test end 11 11-b
[ 3.0] late
LINES
of() { # LINES CMD...
    local want=$1
    shift
    "$@" >"$work/found" || { cat "$work/found"; return 1; }
    printf "%b" "$want" | diff - "$work/found"
}
first_of() { of '[ 1.1] of a\n' of_test 1 "$work/whole"; }
second_of() { of '[ 2.1] of b\n' of_test 11 "$work/whole"; }
open_end() { head -n 8 "$work/whole" >"$work/part"; of '[ 2.1] of b\n' of_test 11 "$work/part"; }
lost() { # what is left of the log, and a failure
    sed 1,3d "$work/whole" >"$work/part"
    ! of_test 1 "$work/part" >"$work/found" && diff "$work/part" "$work/found"
}
outside() { of_no_test <"$work/whole" >"$work/found" && grep -v 'rdma-test' "$work/found" | cut -d' ' -f3- | xargs | grep -qx 'Linux version 7.2.0 early between late'; }
outside_lost() { sed 1d "$work/whole" | of_no_test >"$work/found" && return 1; grep -q early "$work/found"; }
died_in() { head -n 8 "$work/whole" | of_no_test >"$work/found" && ! grep 'of b' "$work/found" && grep -q between "$work/found"; }
check "log: a test's lines" first_of
check "log: another's" second_of
check "log: of a test that did not end" open_end
check "log: a lost beginning is told" lost
check "log: what belongs to no test" outside
check "log: the boot's lost beginning is told" outside_lost
check "log: a death belongs to its test" died_in

# --- run.sh, without a guest
share=$work/guest-share
mkdir -p "$share/tests"
cp "$here"/guest/{run,scale,kmemleak,reports,ktap}.sh "$share/tests/"
echo 'two_nodes_gone() { :; }' >"$share/tests/rdma.sh"
stub stack 'echo "ib_core rust"; echo "rdma_rxe rust"'
# shellcheck disable=SC2016
stub dmesg 'if [ -e "$KMSG.lost" ]; then tail -n 1 "$KMSG"; else cat "$KMSG"; fi'
run_tests() { # NAME BODY...: the tests of one guest
    rm -rf "$share/results" "$work/kmsg" "$work/kmsg.lost"
    : >"$share/tests/list"
    while [ $# -gt 0 ]; do
        echo "$1 2" >>"$share/tests/list"
        printf '%s\n' "$2" >"$share/tests/$1.sh"
        shift 2
    done
    SHARE_DIR=$share KMSG=$work/kmsg KERNEL=fast STACK=rust PATH=$work/stubs:$PATH bash "$share/tests/run.sh" </dev/null
}
told() { grep -qxF -- "$2" "$share/results/$1.ktap" || { cat "$share/results/$1.ktap"; return 1; }; } # TEST LINE
case_of='. ./ktap.sh; check a true; finish'
plain() {
    run_tests 10-a "$case_of" 11-b 'echo "ok 1 - b"; printf "# cut off"; exit 3' || return
    told 10-a "1..1" && told 10-a "# ended: 0" && told 10-a "# modules: ib_core=rust rdma_rxe=rust" && told 11-b "# ended: 3" &&
        ! grep '^not ok' "$share/results"/*.ktap && [ "$(xargs <"$share/results/finished")" = "10-a 11-b" ]
}
its_own() {
    # shellcheck disable=SC2016
    run_tests 10-a "$case_of" 11-b "echo 'BUG: x' >>\"\$KMSG\"; $case_of" 12-c "$case_of" || return
    told 11-b "not ok - kernel log" && told 11-b "# BUG: x" && ! grep '^not ok' "$share/results"/1[02]*.ktap && [ "$(cat "$share/results/11-b.dmesg")" = "BUG: x" ]
}
# shellcheck disable=SC2016
marker_lost() { run_tests 10-a 'touch "$KMSG.lost"; '"$case_of" && told 10-a "not ok - kernel log: the beginning of this test is lost"; }
hangs() { run_tests 10-a 'sleep 30' && told 10-a "# ended: 124"; }
check "run: what is told of a test" plain
check "run: a report is the test's in which it came" its_own
check "run: a lost marker is a failure" marker_lost
check "run: a hang" hangs
rm -f "$work/stubs"/{stack,dmesg}

# --- of kmemleak's report only a process that the C ib_uverbs holds is left out
c_alone=$work/c-alone
: >"$c_alone"
object() { # SIZE FRAME...
    printf 'unreferenced object 0xffff888004a3b100 (size %s):\n  comm "bash", pid 7, jiffies %s\n' "$1" "${born:-4294900000}"
    printf '  hex dump (first 32 bytes):\n    00 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00  ................\n  backtrace (crc 1234):\n'
    shift
    printf '    %s+0x1/0x2\n' "$@"
}
fork=(copy_process kernel_clone __do_sys_clone do_syscall_64)
left_out() { ! object "$@" | suspects 4096 1088 | grep .; }
reported() { object "$@" | suspects 4096 1088 >"$work/found"; object "$@" | diff - "$work/found"; }
check "kmemleak: the task is left out" left_out 4096 kmem_cache_alloc_node_noprof "${fork[@]}"
check "kmemleak: its signal_struct" left_out 1088 kmem_cache_alloc_noprof "${fork[@]}"
check "kmemleak: its credentials" left_out 192 kmem_cache_alloc_noprof prepare_creds copy_creds "${fork[@]}"
check "kmemleak: credentials of an exec" left_out 192 kmem_cache_alloc_noprof prepare_creds prepare_exec_creds do_execveat_common
check "kmemleak: what SELinux keeps of it" left_out 48 __kmalloc_noprof security_prepare_creds prepare_creds "${fork[@]}"
check "kmemleak: its memory is reported" reported 1408 kmem_cache_alloc_noprof mm_alloc alloc_bprm do_execveat_common
check "kmemleak: and where copy_mm is inlined" reported 1408 kmem_cache_alloc_noprof "${fork[@]}"
check "kmemleak: its struct pid is reported" reported 176 kmem_cache_alloc_noprof alloc_pid "${fork[@]}"
check "kmemleak: its files are reported" reported 704 kmem_cache_alloc_noprof dup_fd "${fork[@]}"
check "kmemleak: any other object is" reported 4096 __kmalloc_noprof ib_alloc rust_thing
unasked() { object 4096 kmem_cache_alloc_node_noprof "${fork[@]}" | suspects "" "" | grep -q copy_process; }
check "kmemleak: nothing is left out where no context is refused" unasked
mixed_report() {
    { object 4096 kmem_cache_alloc_node_noprof "${fork[@]}"; object 64 __kmalloc_noprof ib_alloc; object 1088 kmem_cache_alloc_noprof "${fork[@]}"; } |
        suspects 4096 1088 >"$work/found"
    object 64 __kmalloc_noprof ib_alloc | diff - "$work/found"
}
check "kmemleak: others are seen beside it" mixed_report
alone() { echo "4294900000 4294900010" >"$c_alone"; ! object 64 __kmalloc_noprof ib_alloc | suspects | grep . && born=4294900011 object 64 x | suspects | grep -q unreferenced; }
check "kmemleak: what the C stack leaks when alone" alone
slabs=$work/slab
mkdir -p "$slabs"/{task_struct,signal_cache}
echo 4096 >"$slabs/task_struct/object_size"
echo 1088 >"$slabs/signal_cache/object_size"
sizes_are() { # WANT TEST STACK-LINE
    local line=$3
    stack() { printf '%s\n' 'ib_core rust' "$line"; }
    [ "$(sizes "$2" | xargs)" = "$1" ]
}
check "kmemleak: a test that has contexts refused" sizes_are "4096 1088" 80-hostile "ib_uverbs c"
check "kmemleak: a test that has not" sizes_are "" 20-pingpong "ib_uverbs c"
check "kmemleak: no test" sizes_are "" "" "ib_uverbs c"
check "kmemleak: an ib_uverbs of ours" sizes_are "" 80-hostile "ib_uverbs rust"
unset -f stack

# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# What the runner reads: the kernel log, and kmemleak's reports.

. "$here/guest/reports.sh"
. "$here/guest/kmemleak.sh"

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

# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# KUnit suites run while their module is loaded, and print KTAP into the kernel log. A test
# sources this after ktap.sh.

# log_from_here: what the kernel logs from now on is what logged prints.
log_mark=0
log_from_here() {
    log_mark=$((log_mark + 1))
    echo "kunit.sh $$ begin $log_mark" >/dev/kmsg
}
logged() {
    dmesg -t | awk -v m="kunit.sh $$ begin $log_mark" 'on { print } $0 == m { on = 1; found = 1 } END { exit !found }'
}

# suites_of MODULE SUITE...: loads MODULE; its suites are those named, each has as many cases as
# its plan says and a result, and each case is a case here.
suites_of() {
    local module=$1 line suite= cases=0 plan= seen=
    shift
    log_from_here
    check "$module loads" freshly "$module"
    logged >/tmp/kunit || ktap_result "not ok" "$module: the kernel log has its beginning"
    # Nested KTAP: "# Subtest: SUITE" and results are indented, the suite's own result is not.
    while IFS= read -r line; do
        case $line in
        "    # Subtest: "*) suite=${line#*: } cases=0 plan= ;;
        "    1.."*) plan=${line#*..} ;;
        "    ok "*)
            cases=$((cases + 1))
            ktap_result ok "$suite: ${line#*ok * }"
            ;;
        "    not ok "*)
            cases=$((cases + 1))
            grep -B 8 -F -- "$line" /tmp/kunit >/tmp/why
            ktap_result "not ok" "$suite: ${line#*not ok * }" /tmp/why
            ;;
        "ok "*" $suite" | "not ok "*" $suite")
            [ "$cases" = "$plan" ] || ktap_result "not ok" "$suite: $cases cases of ${plan:-an unknown number}"
            [ "${line%% *}" = ok ] || ktap_result "not ok" "$suite: the suite as a whole"
            seen+=" $suite"
            ;;
        esac
    done </tmp/kunit
    check "the suites of $module" same_words "$seen" "$*"
}
# freshly MODULE [PARAMETER=VALUE...]: loads it, also if it was loaded before.
freshly() {
    if [ -d "/sys/module/$1" ]; then rmmod "$1" || return; fi
    modprobe "$@"
}
# same_words WORDS WANTED: in any order. (The guest has no /dev/fd for <().)
same_words() {
    xargs -n 1 <<<"$2" | sort >/tmp/wanted
    xargs -n 1 <<<"$1" | sort | diff /tmp/wanted -
}

# The suites that compare the core's engines, wrappers and objects with the loaded core.
core_suites=(core_addresses core_contexts core_device core_modify_qp core_pack core_polling core_rates
    core_roce core_sg_pages core_verbs rdma_core_restrack)
# Those of user memory, with the loaded core as well.
umem_suites=(umem_dmabuf umem_mmap_entries umem_odp umem_pinned)

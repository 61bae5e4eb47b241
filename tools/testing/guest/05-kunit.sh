# SPDX-License-Identifier: GPL-2.0
# limit: 120
# short
# Modules of tests load and unload, and their KUnit suites pass; so do the checks of
# softpair_check, which runs the example driver.
. ./ktap.sh
. ./rdma.sh
. ./kunit.sh
. ./reports.sh

if [ "$STACK" != rust ]; then
    skip "KUnit suites" "STACK=$STACK has no module with one"
    finish
fi

# softpair_check prints KTAP as well, behind its name.
softpair_check() {
    local line cases=0 plan=
    log_from_here
    check "softpair_check loads" freshly softpair_check
    logged >/tmp/kunit || ktap_result "not ok" "softpair_check: the kernel log has its beginning"
    grep '^softpair_check: ' /tmp/kunit >/tmp/softpair
    while IFS= read -r line; do
        line=${line#softpair_check: }
        case $line in
        "ok "*) ktap_result ok "softpair_check: ${line#*- }" ;;
        "not ok "*) ktap_result "not ok" "softpair_check: ${line#*- }" /tmp/kunit ;;
        1..*) plan=${line#*..}; continue ;;
        *) continue ;;
        esac
        cases=$((cases + 1))
    done </tmp/softpair
    check "softpair_check: $cases cases, as planned" test "$cases" = "$plan"
}
unloaded() { # MODULE...
    local m
    for m; do rmmod "$m" || return; done
}

kunit_modules=
if has_config CONFIG_KUNIT; then
    kunit_modules="rxe_kunit rdma_kunit_umem rdma_kunit_core rdma_kunit"
    suites_of rdma_kunit rdma_accounted rdma_crc32 rdma_gate rdma_kvec rdma_list rdma_nospec rdma_shared_ring rdma_sync rdma_table rdma_timer rdma_workqueue
    suites_of rdma_kunit_core "${core_suites[@]}"
    suites_of rdma_kunit_umem "${umem_suites[@]}"
    suites_of rxe_kunit rxe_memory
else
    skip "KUnit suites" "this kernel has no $without"
fi
# So long that the drain of softpair_check comes while a message is held.
check "softpair loads" freshly softpair hold_ms=100
softpair_check
for m in countdev fakeib fakeverbs; do check "$m loads" freshly $m; done
# shellcheck disable=SC2086
check "all of them unload" unloaded fakeverbs fakeib countdev softpair_check softpair $kunit_modules
# What the tree builds, and no list above names.
known="cmcalls countdev fakeib fakeverbs ib_cm ib_core ib_umad ib_uverbs ib_uverbs_support iw_cm iwstub rdma_cm rdma_echo rdma_rxe rdma_ucm rdma_ulp_check softpair softpair_check $kunit_modules"
check "no module is left out" same_words "$(our_modules | xargs)" "$known"
finish

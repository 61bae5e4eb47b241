# SPDX-License-Identifier: GPL-2.0
# limit: 120
# short
# The KUnit suites that our modules carry run when the module is loaded; here their
# results are read and passed on, case by case.
. ./ktap.sh

for m in /lib/modules/"$(uname -r)"/updates/*.ko; do
    if [ -e "$m" ]; then modprobe "$(basename "$m" .ko)" 2>/dev/null; fi
done
dmesg -t >/tmp/kunit
found= suite=
# The kernel log has them as nested KTAP: "# Subtest: SUITE", then indented results.
while IFS= read -r line; do
    case $line in
    "    # Subtest: "*) suite=${line#*: } ;;
    "    ok "*) found=1; ktap_result ok "$suite: ${line#*ok * }" ;;
    "    not ok "*)
        found=1
        grep -B 8 -F -- "$line" /tmp/kunit >/tmp/why
        ktap_result "not ok" "$suite: ${line#*not ok * }" /tmp/why
        ;;
    esac
done </tmp/kunit
[ -n "$found" ] || skip "KUnit suites" "no loaded module carries a KUnit suite (STACK=$STACK)"
finish

# SPDX-License-Identifier: GPL-2.0
# limit: 120
# Mistakes of a program, each with the status the standard wants at both ends.
. ./ktap.sh
. ./rdma.sh

check "two nodes" two_nodes
within 100 ip netns exec n1 errors rxe1 "$(gid 1 10.0.1.1)" >/tmp/errors 2>&1
status=$?
while read -r line; do
    case $line in
    "ok "*) ktap_result ok "${line#ok }" ;;
    "not ok "*)
        echo "$line" >/tmp/why
        line=${line#not ok }
        ktap_result "not ok" "${line%%:*}" /tmp/why
        ;;
    end) ;;
    *) note "$line" ;;
    esac
done </tmp/errors
check "the program came to its end (status $status)" grep -qx end /tmp/errors
finish

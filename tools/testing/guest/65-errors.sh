# SPDX-License-Identifier: GPL-2.0
# limit: 120
# Mistakes of a program, each with the status the standard wants at both ends.
. ./ktap.sh
. ./rdma.sh

check "two nodes" two_nodes
status=0
within 100 ip netns exec n1 errors rxe1 "$(gid 1 10.0.1.1)" >/tmp/errors 2>&1 || status=$?
cases_of "the program" $status /tmp/errors
finish

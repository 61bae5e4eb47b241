# SPDX-License-Identifier: GPL-2.0
# limit: 400
# A bad wire: netem on both ends, every byte verified.
. ./ktap.sh
. ./rdma.sh

# Trains are taken apart before they meet netem, which would lose or spare them whole.
lost() { on 0 tc -s qdisc show | awk '/dropped/ { gsub(/[^0-9]/, "", $7); n += $7 } END { print n + 0 }'; }
under() { # NETEM-OPTIONS...
    verify_pair 60 -r 16 -n 12 -l 30000 -T $impatience || return
    echo "$(lost) packets were lost"
    case $1 in loss) [ "$(lost)" -ge 3 ] ;; esac
}

# Control messages of the verifier go over a UNIX socket and do not suffer.
check "two nodes, a bridge between" two_bridged
for case in "loss 1%" "loss 10%" "delay 3ms 2ms reorder 25% 50%" "duplicate 5%" "corrupt 2%" "loss 3% duplicate 2% delay 2ms 1ms"; do
    # shellcheck disable=SC2086
    check "netem $case" bad_wire both $case
    # shellcheck disable=SC2086
    check "data under $case" under $case
done
check "a good wire again" bad_wire both delay 0ms
check "data after all that" verify_pair 30 -r 5
finish

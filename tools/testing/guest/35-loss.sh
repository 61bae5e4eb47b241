# SPDX-License-Identifier: GPL-2.0
# limit: 400
# A bad wire: netem on both ends, every byte verified.
. ./ktap.sh
. ./rdma.sh

# Not "replace", which keeps what the new options do not name.
clean() {
    local i
    for i in 1 2; do on $i tc qdisc del dev v$i root || return; done
}
wire() { # NETEM-OPTIONS...
    local i
    clean 2>/dev/null
    for i in 1 2; do on $i tc qdisc add dev v$i root netem limit 10000 "$@" || return; done
}

# Control messages of the verifier go over a UNIX socket and do not suffer.
check "two nodes" two_nodes
for case in "loss 1%" "loss 10%" "delay 3ms 2ms reorder 25% 50%" "duplicate 5%" "corrupt 2%" "loss 3% duplicate 2% delay 2ms 1ms"; do
    # shellcheck disable=SC2086
    check "netem $case" wire $case
    check "data under $case" verify_pair 60 -r 12 -n 12 -l 30000 -T $impatience
done
check "a clean wire again" clean
check "data after all that" verify_pair 30 -r 5
finish

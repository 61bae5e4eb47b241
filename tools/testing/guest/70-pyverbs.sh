# SPDX-License-Identifier: GPL-2.0
# limit: 400
# rdma-core's own test suite (fetched into the guest at set-up), file by file, since
# some files crash inside libibverbs on any software provider. The counts are shown
# beside the C peer's of pyverbs-peer.tsv. A case passes when the file comes to an
# end as it does on the peer and no fewer of its tests pass; a hang fails.
. ./ktap.sh
. ./rdma.sh

suite=/opt/rdma-core-tests
[ -d $suite/tests ] || { skip "pyverbs" "rdma-core's tests are not in the guest root"; finish; }
ip link add pv0 type veth peer name pv1
ip addr add 10.0.2.1/24 dev pv0
ip addr add fd02::1/64 dev pv0 nodad
ip link set pv0 mtu 4200 up
ip link set pv1 mtu 4200 up
check "a device for it" rdma link add rxepv type rxe netdev pv0
sleep 1

main='
import sys
sys.path[:0] = ["tests", "."]
from args_parser import parser
parser.parse_args()
import unittest
unittest.main(module=None)'

counts() { # LOG: "ok skip fail error"
    grep -cE '\.\.\. ok$' "$1"
    grep -cE '\.\.\. skipped' "$1"
    grep -cE '\.\.\. (FAIL|unexpected success)$' "$1"
    grep -cE '\.\.\. ERROR$' "$1"
}

: >/share/results/pyverbs.tsv
sum=0 peer_sum=0
for file in "$suite"/tests/test_*.py; do
    name=$(basename "$file" .py)
    # These are for other makers' hardware.
    case $name in test_mlx5* | test_efa* | test_cuda*) continue ;; esac
    log=/share/results/pyverbs-$name.log
    (cd $suite && within 60 python3 -c "$main" --dev rxepv --gid 1 -v "tests.$name") >"$log" 2>&1
    status=$?
    # shellcheck disable=SC2046
    set -- $(counts "$log")
    end=done
    case $status in 124 | 137) end=hang ;; 13[0-9] | 14[0-9]) end=crash ;; esac
    printf '%s\t%s\t%s\t%s\t%s\t%s\n' "$name" "$1" "$2" "$3" "$4" "$end" >>/share/results/pyverbs.tsv
    peer=$(grep -P "^$name\t" pyverbs-peer.tsv 2>/dev/null | cut -f2-)
    peer_end=${peer##*$'\t'}
    note "$name: ok $1 skip $2 fail $3 error $4 $end; the C peer: ${peer:-unknown}"
    sum=$((sum + $1)) peer_sum=$((peer_sum + $(echo "${peer:-0}" | cut -f1)))
    if [ $end = done ] || { [ $end = crash ] && [ "${peer_end:-crash}" = crash ]; }; then
        ktap_result ok "$name comes to an end"
    else
        ktap_result "not ok" "$name comes to an end" "$log"
    fi
    # The C driver refuses this, and its tests are skipped.
    if [ "$name" = test_odp ] && ours rdma_rxe; then
        check "test_odp: implicit memory" grep -qE '^test_odp_implicit_rc_traffic .*ok$' "$log"
    fi
    # What a core without a connection manager cannot do is not compared.
    with=check
    if [ "$name" = test_rdmacm ]; then with="check_with rdma_ucm"; fi
    $with "$name: no fewer pass than on the C peer" test "$1" -ge "$(echo "${peer:-0}" | cut -f1)"
done
note "in all $sum ok, the C peer $peer_sum"
check "device removal afterwards" within 30 rdma link del rxepv
ip link del pv0
finish

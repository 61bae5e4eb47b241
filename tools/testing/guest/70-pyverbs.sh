# SPDX-License-Identifier: GPL-2.0
# limit: 900
# rdma-core's own test suite (fetched into the guest at set-up), file by file, since some files crash
# inside libibverbs on any software provider. pyverbs-peer.tsv has what each test comes to on the C
# stack. A file comes to its end unless it crashes on the peer, and each test that passes on the
# peer passes; a test that does something else there may do anything here but hang.
. ./ktap.sh
. ./rdma.sh

suite=/opt/rdma-core-tests
[ -d $suite/tests ] || { skip "pyverbs" "rdma-core's tests are not in the guest root"; finish; }
ground() {
    ip link add pv0 type veth peer name pv1 && ip addr add 10.0.2.1/24 dev pv0 && ip addr add fd02::1/64 dev pv0 nodad &&
        ip link set pv0 mtu 4200 up && ip link set pv1 mtu 4200 up && rdma link add rxepv type rxe netdev pv0
}
check "a device for it" ground
check "the stack is the one asked for" as_asked ib_core rdma_rxe
sleep 1

main='
import sys
sys.path[:0] = ["tests", "."]
from args_parser import parser
parser.parse_args()
import unittest
unittest.main(module=None)'

# results LOG: "TEST ok|skip|fail|error" for each test that has a result; unittest's line is
# "TEST (CLASS) ... RESULT", with a text of the test's own between on some lines.
results() {
    python3 - "$1" <<'END'
import re
import sys

words = {"ok": "ok", "skipped": "skip", "FAIL": "fail", "unexpected": "fail", "expected": "ok", "ERROR": "error"}
test = None
for line in open(sys.argv[1], encoding="utf-8", errors="replace"):
    if found := re.match(r"(test\w*) \(([\w.]+)\)", line):
        test = found[2].removesuffix("." + found[1]) + "." + found[1]
    found = re.search(r"(?:^|\.\.\. )(ok|skipped|FAIL|unexpected|expected|ERROR)\b", line)
    if test and found:
        print(test, words[found[1]], sep="\t")
        test = None
END
}
# no_fewer PEER OURS: each test of the peer that is ok there is ok here.
no_fewer() {
    echo "$(grep -cP '\tok$' "$1") ok on the C peer, $(grep -cP '\tok$' "$2") here; not ok here:"
    grep -P '\tok$' "$2" >/tmp/ok
    ! grep -P '\tok$' "$1" | grep -vxFf /tmp/ok
}

: >/share/results/pyverbs.tsv
sum=0 peer_sum=0 files=
for file in "$suite"/tests/test_*.py; do
    name=$(basename "$file" .py)
    # These are for other makers' hardware.
    case $name in test_mlx5* | test_efa* | test_cuda*) continue ;; esac
    files+=" $name"
    log=/share/results/pyverbs-$name.log
    (cd $suite && within 150 python3 -c "$main" --dev rxepv --gid 1 -v "tests.$name") >"$log" 2>&1
    status=$?
    end=done
    case $status in 124 | 137) end=hang ;; 13[0-9] | 14[0-9]) end=crash ;; esac
    results "$log" >/tmp/results
    { printf '%s\t\t%s\n' "$name" $end; sed "s/^/$name\t/" /tmp/results; } >>/share/results/pyverbs.tsv
    grep -P "^$name\t" pyverbs-peer.tsv | cut -f2- >/tmp/peer
    peer_end=$(sed -n 's/^\t//p' /tmp/peer)
    ok=$(grep -cP '\tok$' /tmp/results)
    peer_ok=$(grep -cP '\tok$' /tmp/peer)
    sum=$((sum + ok)) peer_sum=$((peer_sum + peer_ok))
    note "$name: $ok ok of $(wc -l </tmp/results), $end; the C peer: $peer_ok ok of $(grep -vc '^	' /tmp/peer), ${peer_end:-unknown}"
    if [ $end = done ] || [ $end:$peer_end = crash:crash ]; then
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
    $with "$name: what passes on the C peer passes" no_fewer /tmp/peer /tmp/results
done
note "in all $sum ok, the C peer $peer_sum"
same_files() {
    cut -f1 pyverbs-peer.tsv | sort -u >/tmp/wanted
    xargs -n 1 <<<"$files" | sort | diff /tmp/wanted -
}
if [ "$STACK" != c ]; then check "the files of the suite are the peer's" same_files; fi
check "device removal afterwards" within 60 rdma link del rxepv
ip link del pv0
finish

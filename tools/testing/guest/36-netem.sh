# SPDX-License-Identifier: GPL-2.0
# limit: 700
# A sweep of bad wires: loss up to 20 %, reordering, duplicates, corruption, delay with
# jitter, on the way of the requests (there), of the answers (back), of both. Every byte is
# verified, and nobody may hang.
. ./ktap.sh
. ./rdma.sh

# dropped WAY: how many packets the qdisc of that way has lost.
dropped() {
    local i=2
    [ "$1" != back ] || i=1
    on 0 tc -s qdisc show dev b$i | sed -n 's/.*dropped \([0-9]*\).*/\1/p'
}

# sweep LIMIT WAY TIMEOUT-CODE NETEM-OPTIONS...
sweep() {
    local limit=$1 way=$2 code=$3 try status given_up=0
    shift 3
    bad_wire "$way" "$@" || return
    for try in 1 2 3; do
        status=0
        verify_pair "$limit" -r 4 -n 12 -l 20000 -T "$code" >/tmp/sweep 2>&1 || status=$?
        if [ $status = 0 ]; then break; fi
        cat /tmp/sweep
        # A queue pair tries seven times without progress and says so (IBTA 9.9.2): at
        # 20 % that may happen once in a while. Anything else may not, and not always.
        [ "$1 $2" = "loss 20%" ] && grep -q 'retry counter exceeded' /tmp/sweep &&
            ! grep -q 'WRONG\|WRITTEN\|COMPLETION' /tmp/sweep || return $status
        given_up=$((given_up + 1))
    done
    [ $status = 0 ] || return $status
    if [ "$1" = loss ]; then lost=$((lost + $(dropped "$way"))); fi
    echo "given up $given_up times"
}

check "two nodes, a bridge between" two_bridged
check "data on a good wire" verify_pair 30 -r 4 -n 12 -l 20000
at_least() { echo "$lost packets were lost"; [ "$lost" -ge "$1" ]; }

for way in there back both; do
    lost=0
    for loss in 1 2 5 10 20; do
        check "loss $loss %, $way" sweep 60 $way $impatience loss $loss%
    done
    check "packets were lost, $way" at_least 15
    check "reordered, $way" sweep 60 $way $impatience delay 3ms 1ms reorder 25% 50%
    check "duplicates, $way" sweep 60 $way $impatience duplicate 10%
    check "corrupt, $way" sweep 60 $way $impatience corrupt 5%
    check "delay 100 ms with jitter of 30, $way" sweep 90 $way 18 delay 100ms 30ms
done
check "a good wire again" bad_wire both delay 0ms
check "data after all that" verify_pair 30 -r 5
finish

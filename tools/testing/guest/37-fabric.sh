# SPDX-License-Identifier: GPL-2.0
# limit: 1200
# InfiniBand ports, which the driver fakeib has, brought up by opensm: tools of management,
# events, partitions, IPoIB and rdma_cm over it, on the core that is loaded; then, if that is
# ours, the same on the C core, where all must look the same.
. ./ktap.sh
. ./rdma.sh
. ./two_cores.sh

with_fakeib "a fabric"
dir=/tmp/c
if ours ib_core; then dir=/tmp/ours; fi

has() { grep -qE "$2" "$dir/$1.txt" || { tail -n 30 "$dir/$1.txt"; return 1; }; }
times() { # NAME PATTERN COUNT
    local n
    n=$(grep -cE "$2" "$dir/$1.txt")
    [ "$n" = "$3" ] || { echo "$n times, not $3"; grep -E "$2" "$dir/$1.txt"; return 1; }
}

if ours ib_core; then
    check "all unloads" unload_core
    check "our core loads" our_core
else
    check "the C core is loaded" loaded_as ib_core c
fi
check "the steps" run_steps ./fabric_steps.sh "$dir"
note "$(paste -sd, "$dir.log")"
check "what was waited for came" unbroken "$dir"
check "ports begin in INIT" times before 'state:2: INIT' 2
check "a device below a device" has before 'type smi parent fakeib0'
check "a directed route over the switch" has before 'PortGuid:\.*0x0266616b65690101'
check "opensm brings the ports up" times up 'ports/1/state:4: ACTIVE' 2
check "sminfo" has up 'SMINFO_MASTER'
check "ibnetdiscover" has tools '^Switch.2 "S-0266616b6569ff00"'
check "saquery" times tools 'NodeRecord dump' 3
check "a path of the subnet administration" has tools 'dlid\.+3'
check "perfquery" has tools 'PortXmitPkts'
check "ibping" has answers '3 packets transmitted, 3 received'
check "ibv_ud_pingpong and ibv_rc_pingpong by LIDs" times answers '50 iters' 4
check "the link goes" times links 'state:1: DOWN' 1
check "and the events of it" times links 'PORT_(ERR|ACTIVE)' 2
check "partition keys come" times partitions 'pkeys/2:0x8002' 1
check "and the events of them" times partitions 'PKEY_CHANGE' 4
check "LIDs of several paths" times lids 'lid_mask_count:2' 4
check "events of LIDs and managers" times lids '(LID|SM)_CHANGE' 6
check "IPoIB" times ipoib '[23] received, 0% packet loss' 3
check "IPoIB multicast" times ipoib 'from fe80::' 2
check "datagrams and connections of rdma_cm, and a group" times connections '^return status 0' 6
check "rping" times connections "^(0: .*rping -c|rping's server: 0)" 2
check "IPoIB of another partition, and after the link was gone" times children 'received, 0% packet loss' 4
check "the end" has gone '^0: rmmod fakeib'
if ours ib_core; then
    check "our core unloads" unload_core fakeib ib_ipoib
    from=$(jiffies)
    check "the C core loads" c_core
    check "the steps on the C core" run_steps ./fabric_steps.sh /tmp/c
    check "the C core unloads" unload_core fakeib ib_ipoib
    c_ran "$from"
    check "our core loads again" our_core
    same_as names 11
    note "$(cat /tmp/ours/*.txt | wc -l) lines compared"
fi
finish

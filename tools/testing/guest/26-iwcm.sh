# SPDX-License-Identifier: GPL-2.0
# limit: 420
# iw_cm beside what 26-iwarp sends through it: a provider and a consumer that misuse it (iwstub),
# its sysctl, and the port mapper: a program in its place, right and wrong, and iwpmd itself. What
# both modules answer to a mapper is compared.
. ./ktap.sh
. ./rdma.sh

c_iw_cm() { unload && insmod "/lib/modules/$(uname -r)/kernel/drivers/infiniband/core/iw_cm.ko" && loaded_as iw_cm c && ready; }
our_iw_cm() { unload && modprobe iw_cm && loaded_as iw_cm rust && ready; }
# The module that STACK asks for.
asked_iw_cm() { if ours iw_cm; then our_iw_cm; else unload && modprobe iw_cm && ready; fi; }
unload() {
    local m
    for m in iwstub siw rdma_ucm rdma_cm iw_cm; do
        [ ! -d /sys/module/$m ] || rmmod $m || return
    done
}
ready() { modprobe rdma_ucm && siws; }
# siw on both ends of a cable, and none of soft-RoCE.
siws() {
    local i
    modprobe siw || return
    for i in 1 2; do on $i rdma link show | grep -q "siw$i/" || on $i rdma link add siw$i type siw netdev v$i || return; done
}
ground() {
    local i
    two_nodes || return
    for i in 1 2; do on $i rdma link del rxe$i || return; done
}
# stub [ARG...]: iwstub runs all its cases when it is loaded.
stub() {
    local status=0
    echo "iwstub begins: $*" >/dev/kmsg
    within 100 modprobe iwstub "$@" || return
    dmesg | awk '/iwstub begins/ { n = 0 } sub(/^.*iwstub: /, "") { lines[n++] = $0 } END { for (i = 0; i < n; i++) print lines[i] }' >/tmp/iwstub
    grep -q '^not ok' /tmp/iwstub && status=1
    # As the programs end: with the line "end".
    grep -qx "end $status" /tmp/iwstub && sed -i "s/^end $status\$/end/" /tmp/iwstub
    cases_of iwstub $status /tmp/iwstub "$prefix"
    rmmod iwstub
}

# The sysctl of both modules has these limits.
backlog_sysctl() {
    local file=/proc/sys/net/iw_cm/default_backlog
    [ "$(cat $file)" = 256 ] && [ "$(stat -c %a $file)" = 644 ] || return
    echo 7 >$file && [ "$(cat $file)" = 7 ] || return
    refused_as 'Invalid argument' bash -c "echo -1 >$file" && refused_as 'Invalid argument' bash -c "echo 2147483648 >$file" || return
    echo 2147483647 >$file && echo 0 >$file && [ "$(cat $file)" = 0 ] && echo 256 >$file && [ ! -e /proc/self/net/iw_cm ]
}

# answers FILE: what the module answers to messages of a mapper.
answers() {
    within 60 python3 ./iwpm.py answers >"$1" || { tail -n 5 "$1"; return 1; }
    [ "$(tail -n 1 "$1")" = end ] && [ "$(wc -l <"$1")" -gt 25 ]
}
same() { # C OURS
    diff -U 1 "$1" "$2" && ! grep -q 'no answer' "$2"
}

# connects PORT [CMD...]: node 1 connects to port 7000 of node 2, as PORT, and disconnects. Without
# data: the C siw loses some, see chance.txt. A listener is in the list before its port is mapped:
# CMD, or a moment, is waited for as well.
connects() {
    local server status=0 port=$1
    shift
    within 40 ip netns exec n2 ucmatose -b 10.0.1.2 -p 7000 -C 0 -c 1 >/tmp/iwcm-server 2>&1 &
    server=$!
    accepting 2 || status=1
    [ $# = 0 ] || wait_until 20 "$@" || status=1
    sleep $SCALE
    within 40 ip netns exec n1 ucmatose -s 10.0.1.2 -p "$port" -C 0 -c 1 || status=1
    if [ $status != 0 ]; then kill $server 2>/dev/null; fi
    wait $server || status=1
    [ $status = 0 ] || tail -n 5 /tmp/iwcm-server
    return $status
}
# mapped MODE FILE: a connection, with a mapper that answers as MODE says.
mapped() {
    local mode=$1 file=$2 mapper status=0 port=7000
    # Nobody listens there, but its mapping is the listener's port.
    if [ "$mode" = map ]; then port=7500; fi
    python3 ./iwpm.py serve "$mode" $((SCALE * 8 + 60)) >"$file" 2>&1 &
    mapper=$!
    wait_until 20 grep -qx ready "$file" || status=1
    connects $port grep -q '^ADD' "$file" || status=1
    if [ "$mode" = late ]; then wait_until 20 grep -q '^late:' "$file" || status=1; fi
    sleep 1
    kill $mapper 2>/dev/null
    wait $mapper
    # Automatic ports differ, which side ends first, and when a result is read.
    sed -i -E 's/10\.0\.1\.1:[0-9]+/10.0.1.1:PORT/g' "$file"
    { grep -vE '^(REMOVE|result)' "$file"; grep -E '^(REMOVE|result)' "$file" | sort; } >"$file.sorted" && mv "$file.sorted" "$file"
    [ $status = 0 ] || tail -n 20 "$file"
    return $status
}
has() { # FILE WORDS...
    local file=$1 words
    shift
    for words; do grep -qE -- "$words" "$file" || { echo "missing: $words"; cat "$file"; return 1; }; done
}
# A mapper that says nothing costs ten seconds; both sides wait at the same time.
slow() { # SECONDS CMD...
    local least=$1 start=$SECONDS
    shift
    "$@" || return
    echo "$((SECONDS - start)) seconds"
    [ $((SECONDS - start)) -ge "$least" ]
}

# Peers that never connect do not cost memory for ever: C keeps each of them, in 512 bytes.
bounded() {
    local before after
    within 60 python3 ./iwpm.py flood 2000 || return
    before=$(memory_in_use)
    within 120 python3 ./iwpm.py flood 12000 || return
    after=$(memory_in_use)
    echo "$((after - before)) kB more"
    [ $((after - before)) -lt 4000 ]
}

# The program itself; its peer is the same one, since its sockets are in this namespace.
real_mapper() {
    local status=0
    iwpmd >/tmp/iwpmd 2>&1 || { cat /tmp/iwpmd; return 1; }
    sleep $SCALE
    pgrep -x iwpmd || return
    connects 7000 || status=1
    pkill -x iwpmd
    wait_until 20 not pgrep -x iwpmd || status=1
    return $status
}
gone() { on 1 rdma link del siw1; on 2 rdma link del siw2; unload && two_nodes_gone; }

needs CONFIG_RDMA_SIW -- "iw_cm"
check "two nodes" ground
modules="c"
if ours iw_cm; then modules="c our"; fi
for one in $modules; do
    check "the module is loaded: $one" "${one}_iw_cm"
    check "the sysctl: $one" backlog_sysctl
    check "a mapper's messages: $one" answers /tmp/iwpm-$one
    check "ports are mapped: $one" mapped map /tmp/iwpm-map-$one
    check "a mapper refuses: $one" mapped refuse /tmp/iwpm-refuse-$one
    check "a mapper answers wrongly: $one" mapped wrong /tmp/iwpm-wrong-$one
    prefix="$one: "
    stub
done
check "what the kernel asked" has /tmp/iwpm-map-c 'REG_PID v2 siw2 iWarpPortMapperUser' 'ADD 10.0.1.2:7000 1' 'QUERY 10.0.1.1:PORT 10.0.1.2:7500 1' 'MAPINFO 10.0.1.2:7000 10.0.1.2:7000 1' 'REMOVE 10.0.1.2:7000'
if ours iw_cm; then
    check "both answer a mapper alike" same /tmp/iwpm-c /tmp/iwpm-our
    for one in map refuse wrong; do
        check "both ask a mapper alike: $one" same /tmp/iwpm-$one-c /tmp/iwpm-$one-our
    done
    prefix="wrong: "
    stub wrong=1
    check "only an administrator is the mapper" within 60 python3 ./iwpm.py unprivileged
    # Debug kernels keep freed memory for a while.
    if [ "$KERNEL" = fast ]; then check "peers that never connect" bounded; fi
    check "a mapper says nothing" slow 10 mapped silent /tmp/iwpm-silent
    check "a mapper answers too late" slow 10 mapped late /tmp/iwpm-late
    check "late answers are refused" has /tmp/iwpm-late 'late: -22'
    check "iwpmd" real_mapper
    check "without a mapper again" connects 7000
fi
check "all go" gone
finish

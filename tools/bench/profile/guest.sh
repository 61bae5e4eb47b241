#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The guest's part of a profile: each case is run twice, short and long, between marks.
# CASES is put in front by run.sh. The n-th case makes the counts 2n and 2n + 1.
cd /share/tests || exit 1
. ./rdma.sh
# As long as perftest waits for an answer by itself: figures are compared with older ones.
patience=14
. /share/env
# The functions of tools/bench/guest.sh that are of use here.
. /share/pairs.sh

two_nodes 4200 || exit 1
cat /proc/kallsyms >/share/symbols

# counted CASE COUNT CMD...: one of the two runs.
counted() {
    local name=$1 count=$2
    shift 2
    mark begin
    if ! "$@" >/tmp/profile 2>&1; then
        tail -n 5 /tmp/profile
        echo "P|$name|failed"
    fi
    mark end
    echo "P|$name|$count"
}

# twice CASE SHORT LONG CMD...: with the count behind CMD.
twice() {
    local name=$1 short=$2 long=$3
    shift 3
    # Caches, slabs and neighbours are warm after this one.
    "$@" "$short" >/dev/null 2>&1
    counted "$name" "$short" "$@" "$short"
    counted "$name" "$long" "$@" "$long"
}

connections() {
    cm_port=$((${cm_port:-7300} + 1))
    on 2 cmtime -b 10.0.1.2 -p $cm_port -c "$1" >/dev/null 2>&1 &
    accepting 2
    within 60 ip netns exec n1 cmtime -s 10.0.1.2 -b 10.0.1.1 -p $cm_port -c "$1"
    kill $! 2>/dev/null
    wait $! 2>/dev/null
    return 0
}

devinfo() {
    local i
    for i in $(seq "$1"); do on 1 ibv_devinfo -v || return; done
}

link_show() {
    local i
    for i in $(seq "$1"); do rdma link show || return; done
}

# A device on a network device of its own, whose addresses come or go.
bench_device() {
    [ ! -e /sys/class/infiniband/bench ] || return 0
    ip link add v9 type veth peer name v8
    ip link set v9 up
    ip link set v8 up
    rdma link add bench type rxe netdev v9
    sleep 3
}

address_list() {
    for i in $(seq 0 $(($1 - 1))); do echo "addr add 10.9.$((i / 250)).$((i % 250 + 1))/16 dev v9"; done >/tmp/addresses
}

addresses_come() {
    timed -g "bench:$(($1 + 1))" come ip -batch /tmp/addresses
}

# Without the files and the program of those that come.
addresses_went() {
    ip addr flush dev v9 scope global
    sleep 1
}

addresses_came() { address_list "$1" && addresses_come "$1"; }

addresses_go() { timed -g bench:1 go ip addr flush dev v9 scope global; }

stream() { # WHERE TOOL ARG... COUNT
    local where=$1 tool=$2 run=(pair 60 v4)
    shift 2
    port=$((port + 1))
    if [ "$where" = loop ]; then run=(loop); fi
    "${run[@]}" "$tool" "${@:1:$#-1}" -n "${!#}"
}

# between CASE SHORT LONG BEFORE CMD AFTER: as twice, and around each run, what is not counted.
between() {
    local name=$1 count
    "$4" "$2" && "$5" "$2" && "$6" "$2"
    for count in "$2" "$3"; do
        "$4" "$count"
        counted "$name" "$count" "$5" "$count"
        "$6" "$count"
    done
}

# kernel_user USER: its ends are set up once.
kernel_user() {
    if [ -z "${here:-}" ]; then
        COUNTED=1 . /share/ulp.sh
        one_device || exit 1
    fi
    [[ " ${users:-} " == *" $1 "* ]] || "use_$1" || { echo "$1 cannot be set up"; exit 1; }
    users+=" $1"
}

for case in $CASES; do
    where=${case%%-*}
    case $case in
    nvme-* | iser-* | srp-* | nfs-* | smb-*)
        IFS=- read -r user pattern size <<<"$case"
        kernel_user "$user"
        case $size in
        128k) twice "$case" 100 300 access "$pattern" "$size" ;;
        *) twice "$case" 500 1500 access "$pattern" "$size" ;;
        esac
        ;;
    rds-*) kernel_user rds && twice "$case" 200 600 datagram "${case#rds-}" ;;
    *-send-64) twice "$case" 2000 6000 stream "$where" ib_send_bw -s 64 -e ;;
    *-write-64) twice "$case" 2000 6000 stream "$where" ib_write_bw -s 64 ;;
    *-send-64k) twice "$case" 50 150 stream "$where" ib_send_bw -m 1024 -s 65536 -e ;;
    *-read-64k) twice "$case" 50 150 stream "$where" ib_read_bw -m 1024 -s 65536 -e ;;
    *-read-64k-4096) twice "$case" 50 150 stream "$where" ib_read_bw -m 4096 -s 65536 -e ;;
    *-ud-64) twice "$case" 2000 6000 stream "$where" ib_send_bw -c UD -s 64 -e ;;
    *-ud-512) twice "$case" 2000 6000 stream "$where" ib_send_bw -c UD -s 512 -e ;;
    *-ud-2k) twice "$case" 2000 6000 stream "$where" ib_send_bw -c UD -s 2048 -e ;;
    *-ud-lat) twice "$case" 300 900 stream "$where" ib_send_lat -c UD -s 8 -e ;;
    *-uc-4k) twice "$case" 2000 6000 stream "$where" ib_send_bw -c UC -m 4096 -s 4096 -e ;;
    *-send-lat) twice "$case" 300 900 stream "$where" ib_send_lat -s 8 -e ;;
    *-read-lat) twice "$case" 300 900 stream "$where" ib_read_lat -s 8 -e ;;
    connect) twice connect 20 60 connections ;;
    doorbell | notify) twice "$case" 2000 6000 on 1 rates rxe1 "$case" ;;
    mr | pd) twice "$case" 500 1500 on 1 rates rxe1 "$case" ;;
    context) twice "$case" 200 600 on 1 rates rxe1 "$case" ;;
    devinfo) twice "$case" 1 3 devinfo ;;
    link) twice link 10 30 link_show ;;
    qp | cq) twice "$case" 40 120 on 1 rates rxe1 "$case" ;;
    addresses-come) bench_device && between $case 100 500 address_list addresses_come addresses_went ;;
    addresses-go) bench_device && between $case 100 500 addresses_came addresses_go true ;;
    *) echo "no such case: $case" ;;
    esac
done

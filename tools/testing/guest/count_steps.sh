# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# count_steps.sh DIR: the driver countdev (tools/testing/countdev) through everything that a
# core does with counters. What is seen goes to DIR/NAME.txt; DIR/names has their order.
set -u
dir=$1
rm -rf "$dir"
mkdir -p "$dir"
top=/sys/class/infiniband/count0
port=$top/ports/1
fail=/sys/module/countdev/parameters/fail

# What the driver logged since the last time.
seen=0
logged() {
    dmesg -t | grep '^countdev: ' >/tmp/logged
    tail -n +$((seen + 1)) /tmp/logged
    seen=$(wc -l </tmp/logged)
}
step() { # CMD...: an operation, what it says, and what the driver saw of it
    local status=0
    "$@" >/tmp/step 2>&1 || status=$?
    echo "$status: $*"
    # A refusal in words is each core's own.
    sed 's/pid [0-9]*/pid N/; s/^.*\.sh: line [0-9]*: //; s/^Error: .*/Error: words/' /tmp/step
    logged
}
command() { echo "$1" >$port/countdev/command; }
write() { echo "$1" >"$2"; }
with() { # FAILING-METHOD CMD...
    echo "$1" >$fail
    shift
    step "$@"
    echo >$fail
}
part() { # NAME FUNCTION
    "$2" >"$dir/$1.txt" 2>&1
    echo "$1" >>"$dir/names"
}
stat() { step rdma statistic "$@"; }
link=(link count0/1)

files() {
    local bad
    step modprobe countdev
    python3 ./sysfs.py $top
    step cat $port/mute
    step write x $port/mute
    ip netns add n1 && ip netns exec n1 python3 ./sysfs.py $top
    ip netns del n1
    with process_mad cat $port/counters/link_downed
    with "get_hw_stats" cat $top/ports/2/hw_counters/port_a
    with "get_hw_stats, some" cat $top/ports/2/hw_counters/port_a
    for bad in 0 10000 10001 -5 '' ' 5' 0x10 99999999999; do step write "$bad" $port/hw_counters/lifespan; done
    step cat $port/hw_counters/lifespan
    step write 500 $top/hw_counters/lifespan
    step cat $top/hw_counters/lifespan
    step write short $top/node_desc
    step cat $top/node_desc
    step write "$(printf 'y%.0s' $(seq 100))" $top/node_desc
    step cat $top/node_desc
}
optional() {
    stat show "${link[@]}"
    stat mode supported "${link[@]}"
    stat mode "${link[@]}"
    stat set "${link[@]}" optional-counters optional_x
    stat mode "${link[@]}"
    stat set "${link[@]}" optional-counters optional_y
    stat unset "${link[@]}" optional-counters
    stat mode "${link[@]}"
    stat set "${link[@]}" optional-counters port_a
    with modify_hw_stat rdma statistic set "${link[@]}" optional-counters optional_x
    stat mode "${link[@]}"
}
manual() {
    step command +0
    step command +0
    step command +1
    stat qp mode "${link[@]}"
    with counter_bind_qp rdma statistic qp bind "${link[@]}" lqpn 5
    with counter_alloc_stats rdma statistic qp bind "${link[@]}" lqpn 5
    stat qp mode "${link[@]}"
    stat qp bind "${link[@]}" lqpn 5
    stat qp show "${link[@]}"
    with counter_update_stats rdma statistic qp show "${link[@]}"
    step cat $port/hw_counters/port_b
    step cat $top/ports/2/hw_counters/port_b
    stat qp bind "${link[@]}" lqpn 5
    stat qp bind "${link[@]}" lqpn 77
    stat qp bind "${link[@]}" lqpn 6 cntn 9
    stat qp bind "${link[@]}" lqpn 6 cntn 1
    step command i1
    stat qp bind "${link[@]}" lqpn 6 cntn 1
    stat qp bind link count0/2 lqpn 6
    stat qp bind link count0/3 lqpn 6
    stat qp show "${link[@]}"
    stat qp set "${link[@]}" auto type on
    stat qp unbind "${link[@]}" cntn 2 lqpn 5
    stat qp unbind link count0/2 cntn 1 lqpn 6
    stat qp unbind "${link[@]}" cntn 1 lqpn 5
    stat qp unbind "${link[@]}" cntn 1 lqpn 5
    stat qp show "${link[@]}"
    with counter_unbind_qp rdma statistic qp unbind "${link[@]}" cntn 1 lqpn 6
    stat qp unbind "${link[@]}" cntn 1 lqpn 6
    stat qp show "${link[@]}"
    # Its counts remain those of the port.
    step cat $port/hw_counters/port_b
}
automatic() {
    stat qp set "${link[@]}" auto type on
    stat qp mode "${link[@]}"
    stat qp bind "${link[@]}" lqpn 6
    for n in 0 1 2; do step command i$n; done
    stat qp show "${link[@]}"
    stat qp set "${link[@]}" auto type,pid on
    stat qp unbind "${link[@]}" cntn 2 lqpn 5
    step command -0
    with counter_unbind_qp bash -c "echo -1 >$port/countdev/command"
    stat qp show "${link[@]}"
    step command -2
    stat qp set "${link[@]}" auto pid on optional-counters on
    step command +0
    step bash -c "echo +0 >$port/countdev/command"
    step command +1
    for n in 3 4 5; do step command i$n; done
    stat qp show "${link[@]}"
    stat qp set "${link[@]}" auto off
    stat qp mode "${link[@]}"
    # If the driver reports nothing at the end, the last values count.
    step command +0
    step command i6
    stat qp bind "${link[@]}" lqpn 11
    stat qp show "${link[@]}"
    with counter_update_stats bash -c "echo -6 >$port/countdev/command"
    step cat $port/hw_counters/port_b
    step rmmod countdev
}
agents() {
    local can
    for can in 0 512 1024; do
        step modprobe countdev ports=1 capabilities=$can
        python3 ./sysfs.py $port/counters
        step rmmod countdev
    done
}
refused() {
    local method
    # Not "get_hw_stats, some": there the C core has a warning.
    for method in query_port alloc_hw_device_stats alloc_hw_port_stats get_hw_stats \
        "get_hw_stats of the device"; do
        step modprobe countdev fail="\"$method\""
        step ls /sys/class/infiniband
    done
    step modprobe countdev gids=0
    step ls $port/gids
    step rmmod countdev
}

logged >/dev/null
for name in files optional manual automatic agents refused; do part $name $name; done

# SPDX-License-Identifier: GPL-2.0
# limit: 900
# Thousands of requests of programs to ib_uverbs that are almost right, the same ones to the C modules
# (ib_uverbs, ib_uverbs_support) and to those of them that are ours, in one guest: each must be
# answered alike, but for uverbs-differences.txt. The C modules answer twice: what they do not answer
# alike themselves would say nothing.
. ./ktap.sh
. ./rdma.sh

# STACK=rust means the modules of ours that there are.
is_ours() { ours "$1" && [ -e "/lib/modules/$(uname -r)/updates/$1.ko" ]; }
have_ours() { is_ours ib_uverbs || is_ours ib_uverbs_support; }
module_file() { echo "/lib/modules/$(uname -r)/kernel/drivers/infiniband/core/$1.ko"; }
# Drivers for whose devices there are nodes need not go, but rdma_ucm uses ib_uverbs. What uses
# ib_uverbs_support besides (mlx5_ib) is not in the guest.
no_uverbs() {
    local m
    for m in rdma_ucm ib_uverbs ib_uverbs_support; do
        if [ -d "/sys/module/$m" ]; then rmmod $m || return; fi
    done
}
c_uverbs() {
    no_uverbs && insmod "$(module_file ib_uverbs_support)" && insmod "$(module_file ib_uverbs)" &&
        loaded_as ib_uverbs c && loaded_as ib_uverbs_support c && has_nodes
}
our_uverbs() {
    local m kind
    no_uverbs && modprobe ib_uverbs || return
    for m in ib_uverbs ib_uverbs_support; do
        kind=c
        if is_ours $m; then kind=rust; fi
        loaded_as $m $kind || return
    done
    has_nodes
}
has_nodes() {
    local device
    for device in $devices; do wait_until 20 has_node "$device" || return; done
}

# answers FILE DEVICE OPTION...: by the module that is loaded, into FILE
answers() {
    local file=$1 device=$2
    shift 2
    within 150 python3 ./uverbs_answers.py "$@" "$device" 26 "$requests" >"$file" 2>"$file.log" || {
        echo "exit status $?"
        tail -n 12 "$file.log"
        tail -n 3 "$file"
        return 1
    }
    [ "$(tail -n 1 "$file")" = end ]
}
# same_answers FILE FILE [DIFFERENCES]: both kinds must be among them, or nothing was compared.
same_answers() {
    local file
    grep -qE '^[A-Z_]+\.[A-Z_]+ .* -> 0' "$1" && grep -qE '^write .* -> [0-9]' "$1" && grep -qE -- '-> E' "$1" || return
    for file in "$1" "$2"; do
        grep -v '^coverage: ' "$file" | grep -vEf /tmp/allowed >"$file.compared"
        [ -s "$file.compared" ] || return
    done
    diff -U 1 "$1.compared" "$2.compared" | head -n 60 >/tmp/differ
    cat /tmp/differ
    [ ! -s /tmp/differ ]
}
# allowed [FILE]: the lines that may differ are those of the FILE, or none.
allowed() {
    echo '^$' >/tmp/allowed
    if [ -n "${1:-}" ]; then grep -v '^#' "$1" | cut -f 1 | grep . >>/tmp/allowed || :; fi
}
covered() {
    local line
    while read -r line; do note "$1: $line"; done < <(grep '^coverage: ' "$2")
    note "$1: $(wc -l <"$2") answers, of them $(grep -cE -- '-> E' "$2") refusals"
}
# The C rxe cannot leave files behind, so there its device stays.
removed() { [ "$1" = fakeib0 ] || ours rdma_rxe; }
removal() { case $1 in fakeib0) echo "rmmod fakeib" ;; *) echo "ip netns exec n1 rdma link del $1" ;; esac; }
ends_with_gone() { grep -qx 'the node is gone: True' "$1" && grep -qx 'the removal ended: 0' "$1"; }
# back DEVICE: on the same interface it has the same GUID and, when they all are there, the same GIDs.
back() {
    case $1 in
    fakeib0) modprobe fakeib ;;
    *) on 1 rdma link add "$1" type rxe netdev v1 && gid 1 10.0.1.1 && gid 1 fd01::1 ;;
    esac && has_nodes
}
anew() { on 1 rdma link del "$1" && back "$1"; }

requests=400
[ "$KERNEL" = fast ] || requests=60
careful=
[ "$KERNEL" = fast ] || careful=--careful
devices="rxe1"
check "two nodes" two_nodes
if [ "$STACK" != c ]; then
    check "fakeib loads" modprobe fakeib
    devices="rxe1 fakeib0"
fi
check "ib_uverbs loads" modprobe ib_uverbs
check "there are nodes" has_nodes

# As it will be in each later run.
if removed rxe1; then check "rxe1 is made anew" anew rxe1; fi
# Which modules answer: two runs of the C modules, and one of ours behind them.
runs="c again"
if have_ours; then runs="c again ours"; fi
for one in $runs; do
    case $one in
    ours) check "our modules are loaded" our_uverbs ;;
    c) if have_ours; then check "the C modules are loaded" c_uverbs; fi ;;
    esac
    for device in $devices; do
        options=()
        if removed "$device"; then options=(--remove "$(removal "$device")"); fi
        check "requests to $device: $one" answers "/tmp/$one-$device" "$device" $careful "${options[@]}"
        cp "/tmp/$one-$device" "/share/results/uverbs-$one-$device.log"
        cp "/tmp/$one-$device.log" "/share/results/uverbs-$one-$device-errors.log"
        if removed "$device"; then
            check "its device went meanwhile: $one" ends_with_gone "/tmp/$one-$device"
            check "$device is there again: $one" back "$device"
        fi
    done
done
for device in $devices; do
    allowed
    check "the C modules answer alike twice: $device" same_answers "/tmp/c-$device" "/tmp/again-$device"
    covered "$device, C" "/tmp/c-$device"
done
if have_ours; then
    for device in $devices; do
        allowed uverbs-differences.txt
        check "answers alike: $device" same_answers "/tmp/c-$device" "/tmp/ours-$device"
        if is_ours ib_uverbs; then
            check "SOURCE_QPN needs a right by ioctl, too: $device" grep -qx 'nobody: QP.CREATE SOURCE_QPN -> EPERM' "/tmp/ours-$device"
        fi
        covered "$device, ours" "/tmp/ours-$device"
    done
else
    skip "requests to both modules" "neither module is ours (STACK=$STACK)"
fi
finish

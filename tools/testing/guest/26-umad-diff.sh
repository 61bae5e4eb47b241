# SPDX-License-Identifier: GPL-2.0
# limit: 300
# Thousands of requests of programs to ib_umad that are almost right, the same ones to the C module
# and to ours, in one guest: each must be answered alike.
. ./ktap.sh
. ./rdma.sh

if ! ours ib_umad; then
    skip "requests to both modules" "the ib_umad is not ours (STACK=$STACK)"
    finish
fi

c_umad() { rmmod ib_umad && insmod "/lib/modules/$(uname -r)/kernel/drivers/infiniband/core/ib_umad.ko" && loaded_as ib_umad c; }
our_umad() { rmmod ib_umad && modprobe ib_umad && loaded_as ib_umad rust; }

# DEVICE GID INDEX: by the module that is loaded, into FILE
answers() { # FILE DEVICE GID INDEX
    local file=$1
    shift
    within 100 python3 ./umad_answers.py "$@" 26 "$requests" >"$file" || { tail -n 5 "$file"; return 1; }
    [ "$(tail -n 1 "$file")" = end ]
}
same_answers() { # NAME
    # Both kinds must be among them, or nothing was compared.
    grep -qE '^write .* -> [0-9]' "/tmp/c-$1" && grep -qE -- '-> E' "/tmp/c-$1" || return
    diff -U 1 "/tmp/c-$1" "/tmp/ours-$1" | head -n 60 >/tmp/differ
    cat /tmp/differ
    [ ! -s /tmp/differ ]
}

requests=1500
[ "$KERNEL" = fast ] || requests=400

check "two nodes" two_nodes
check "ib_umad loads" modprobe ib_umad
modprobe fakeib
index=$(gid 1 fd01::1)
for one in ours c; do
    check "the module is loaded: $one" "${one/ours/our}_umad"
    check "requests by GIDs: $one" answers /tmp/$one-gids rxe1 fd01::2 "$index"
    check "requests by LIDs: $one" answers /tmp/$one-lids fakeib0 - 0
done
check "answers alike, by GIDs" same_answers gids
check "answers alike, by LIDs" same_answers lids
note "$(cat /tmp/ours-gids /tmp/ours-lids | wc -l) answers compared"
check "our module is loaded again" our_umad
finish

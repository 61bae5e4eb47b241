#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# run.sh CASE...: where the instructions of a message, a connection or an object go, and
# its locked operations and CRC calls: per symbol, counted by a plugin of the emulator in
# the difference of a long and a short run. Cases: {wire,loop}-{send-64, write-64,
# send-64k, read-64k, read-64k-4096, send-lat, read-lat, ud-64, ud-512, ud-2k, ud-lat, uc-4k}, connect, mr, pd, qp,
# cq, context, doorbell and notify (see tools/bench/rates.c: instructions inside the system call are all
# but those of programs and of the driver), devinfo, link (rdma link show), addresses-come, addresses-go (of the core: STACK=ib_core). A latency
# case counts whole round trips. USER-ACCESS-SIZE is a request of a kernel user (tools/bench/ulp.sh), as
# nvme-read-128k or srp-randwrite-4k; rds-4k is a datagram.
#   STACK=c for the C driver; TOP_SYMBOLS=50 how many symbols are shown.
# Counts and symbols are left in build/profile-STACK, with + for commas.
. "$(dirname "$0")/../../lib.sh"

[ $# != 0 ] || set -- wire-send-64k
stack=${STACK:-rust}
# A comma would end an option of the emulator.
out=$BUILD/profile-${stack//,/+}
mkdir -p "$out/share"
rm -f "$out"/count.*
in_builder gcc -O2 -Wall -Wextra -shared -fPIC -o "/src/${out#"$TOP"/}/plugin.so" /src/tools/bench/profile/plugin.c </dev/null ||
    die "the plugin does not compile" "see the lines above"
{
    echo "CASES='$*'"
    cat "$TOP/tools/bench/profile/guest.sh"
} >"$out/script"
cp "$TOP/tools/bench/ulp.sh" "$out/share/"
sed -n '/^loop()/,/^}/p' "$TOP/tools/bench/guest.sh" >"$out/share/pairs.sh"
ICOUNT=1 ACCEL=tcg STACK=$stack SHARE=$out/share QUIET=1 TIMEOUT=${TIMEOUT:-1800} \
    PLUGIN="/src/${out#"$TOP"/}/plugin.so,out=/src/${out#"$TOP"/}/count" \
    "$TOP/tools/boot.sh" "$out/guest" "$out/script" || say "the guest did not end well; see ${out#"$TOP"/}/guest"
in_builder python3 /src/tools/bench/profile/table.py "/src/${out#"$TOP"/}" "${TOP_SYMBOLS:-50}" </dev/null

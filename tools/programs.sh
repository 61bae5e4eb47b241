#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# programs.sh: compile the suite's C programs against the guest's own libraries, in
# build/bin, where they are older than their sources.
. "$(dirname "$0")/lib.sh"

src=$TOP/tools/testing/guest/src
shopt -s nullglob
mkdir -p "$BUILD/bin"
# Guests that are booted at the same time come here at the same time.
lock "programs-$(key "$TOP")"
for file in "$src"/*.c "$TOP"/tools/bench/*.c; do
    name=$(basename "$file" .c)
    newer=
    for part in "$file" "$src"/*.h; do
        if [ ! "$BUILD/bin/$name" -nt "$part" ]; then newer=$part; fi
    done
    [ -n "$newer" ] || continue
    in_guest_root gcc -O2 -Wall -Wextra -Wno-sign-compare -pthread -o "/src/build/bin/$name.new" \
        "/src/${file#"$TOP"/}" -libverbs -Wl,--as-needed -lrdmacm </dev/null ||
        die "the test program $name.c does not compile" "see the lines above"
    mv "$BUILD/bin/$name.new" "$BUILD/bin/$name"
done

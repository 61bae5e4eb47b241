#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# check.sh [mark]: whether the tables of performance.md name their tree, and say so where they
# are older than the code; mark writes those lines. First the self-test of table.py and ages.sh.
. "$(dirname "$0")/../lib.sh"
cd "$TOP"
page=Documentation/performance.md
ages=$BUILD/bench-ages
if [ "${1:-}" != mark ]; then
    in_builder python3 /src/tools/bench/selftest.py </dev/null
    repo=$(mktemp -d)
    trap 'rm -rf "$repo"' EXIT
    (
        cd "$repo"
        git init -q
        commit() { git -c user.name=t -c user.email=t@t commit -q --allow-empty -am "$1"; git rev-parse HEAD; }
        mkdir core umem
        echo 1 | tee core/a umem/a >/dev/null
        git add .
        one=$(commit one)
        echo 2 >umem/a
        two=$(commit two)
        want="$one core|same $one core umem|older $two core umem|same $two-dirty core|older 0123456789ab core|older"
        got=$(printf '%s\n' "$one core" "$one core umem" "$two core umem" "$two-dirty core" "0123456789ab core" | "$TOP/tools/bench/ages.sh" | xargs)
        if [ "$got" != "$want" ]; then echo "ages.sh: $got"; exit 1; fi
    ) || die "tools/bench/ages.sh fails its self-test" "see the line above"
fi
in_builder python3 /src/tools/bench/table.py trees "/src/$page" </dev/null | tools/bench/ages.sh >"$ages"
in_builder python3 /src/tools/bench/table.py "${1:-check}" "/src/$page" /src/build/bench-ages </dev/null

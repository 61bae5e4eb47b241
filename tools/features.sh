#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# features.sh LINUX: what rust/features.Kbuild finds in the kernel source LINUX, one feature a line.
set -euo pipefail
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
sed -nE 's/.*\(call rdma-feature,([a-z0-9_]+),(.*),([^,)]+)\).*/\1,\3,\2/p' "$top/rust/features.Kbuild" |
    while IFS=, read -r name file pattern; do
        if grep -qE "$pattern" "$1/$file"; then echo "$name"; fi
    done

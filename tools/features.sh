#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# features.sh LINUX: what rust/features.Kbuild finds in the kernel source LINUX, one feature a line.
set -euo pipefail
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck disable=SC2016
printf 'include %s\n$(info $(rdma-features))\nall:;@:\n' "$top/rust/features.Kbuild" |
    env -u MAKEFLAGS -u MAKELEVEL make -s --no-print-directory -f - srctree="$1" | xargs -r -n1

# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Debug kernels are slower: every limit in seconds is multiplied by SCALE.
case ${KERNEL:-fast} in
fast | patched | patched-y) SCALE=1 ;;
um | stock | stock-*) SCALE=2 ;;
um-lockdep) SCALE=3 ;;
*) SCALE=6 ;;
esac
if [ -n "${ICOUNT:-}" ]; then SCALE=4; fi

#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# clean.sh clean|distclean: remove build/, and for distclean the cache as well.
. "$(dirname "$0")/lib.sh"

if mountpoint -q "$CACHE" || grep -q " $CACHE/" /proc/mounts; then
    die "something is mounted under $CACHE" "unmount it first"
fi
say "removing $BUILD ($(du -sh "$BUILD" 2>/dev/null | cut -f1))"
rm -rf --one-file-system "$BUILD"
if [ "$1" = distclean ]; then
    say "removing $CACHE ($(du -sh "$CACHE" 2>/dev/null | cut -f1)): roots, kernels, crates"
    rm -rf --one-file-system "$CACHE"
fi

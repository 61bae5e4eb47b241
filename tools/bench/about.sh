# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# about: the lines of figures that name the tree, the kernel and the date. Sourced after lib.sh.
about() {
    local tree name version
    tree=$(git -C "$TOP" describe --always --abbrev=12 2>/dev/null || echo unknown)
    # The page that receives the figures is no part of what is measured.
    git -C "$TOP" diff --quiet HEAD -- . ':!*.md' ':!*.svg' 2>/dev/null || tree+=-dirty
    "$TOP/tools/kernel.sh" "$KERNEL"
    name=$("$TOP/tools/kernel.sh" --name "$KERNEL")
    version=$(cat "$CACHE/$name/include/config/kernel.release" 2>/dev/null || echo unknown)
    printf '%s\n' "#tree|$tree" "#kernel|$name|$version" "#date|$(date -u +%F)"
}

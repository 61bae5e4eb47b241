#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# ages.sh: reads lines "TREE PATH...", and adds to each "|same", "|older" (PATHs of the present
# tree differ from those of the commit TREE) or "|unknown" (no git tree, or a shallow one that lacks
# it). Runs outside the builder root, where a linked worktree's repository is not visible.
set -u
while read -r tree paths; do
    age=unknown
    if commit=$(git rev-parse -q --verify "${tree%-dirty}^{commit}" 2>/dev/null); then
        # shellcheck disable=SC2086
        if git diff --quiet "$commit" -- $paths; then age=same; else age=older; fi
        # Changes that were never committed cannot be compared.
        case $tree in *-dirty) age=older ;; esac
    elif [ "$(git rev-parse --is-shallow-repository 2>/dev/null)" = false ]; then
        # The whole history lacks it, as after a rebase.
        age=older
    fi
    echo "$tree $paths|$age"
done

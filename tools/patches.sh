#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# patches.sh: the series build/patches-7.2 for `git am`, which adds the modules of this tree to the
# source of Linux 7.2, beside the ones in C. VERSION=7.3, or KERNEL=stock-7.3, is for 7.3.
# SOURCE=DIR is another pristine source; of it only the files that the series changes are read.
# tools/patches has the messages, the changes of the kernel's files, and what a patch adds. Files that
# are not in git are left out where there is git. The date of the series is that of the last commit,
# its author the one that git is configured for: the same tree gives the same series.
#
# patches.sh --inputs prints a hash of what the series is made from.
. "$(dirname "$0")/lib.sh"

parts=$TOP/tools/patches
into=drivers/infiniband/rust
stamp=$(git -C "$TOP" log -1 --format=%ct 2>/dev/null || stat -c %Y "$TOP/Kbuild")

# lines of the list: NAME FOLDER...
series() { grep -v '^#' "$parts/series"; }
# ours FOLDER...: files of the modules, without suites that are modules of tests.
ours() {
    {
        git -C "$TOP" ls-files "$@" 2>/dev/null || (cd "$TOP" && find "$@" -type f)
    } | grep -v '/kunit\.rs$' | LC_ALL=C sort -u
}
mapfile -t folders < <(series | cut -s -d ' ' -f 2- | xargs -n1)
if [ "${1:-}" = --inputs ]; then
    cd "$TOP"
    ours "${folders[@]}" Kbuild Documentation/core_locking.md Documentation/provider.md Documentation/ulp.md tools/patches tools/patches.sh |
        xargs sha256sum | sha256sum | cut -c1-12
    exit
fi

version=${VERSION:-7.2}
if [ -z "${VERSION:-}" ] && [ "${KERNEL:-}" = stock-7.3 ]; then version=7.3; fi
case $version in
7.2) of=() ;;
7.3) of=(stock-7.3) ;;
*) die "there is no series for VERSION=$version" "VERSION= is 7.2 or 7.3" ;;
esac
if [ -z "${SOURCE:-}" ]; then
    "$TOP/tools/kernel.sh" --unpack "${of[@]}"
    SOURCE=$CACHE/$("$TOP/tools/kernel.sh" --source "${of[@]}")
fi
[ -e "$SOURCE/drivers/infiniband/core/Makefile" ] || die "$SOURCE is not a source of Linux" "give SOURCE=DIR"
[ ! -e "$SOURCE/$into" ] || die "$SOURCE has $into already" "give SOURCE= a pristine one"
name=$(git -C "$TOP" config user.name || echo "The rust-rdma authors")
mail=$(git -C "$TOP" config user.email || sed -n 's/^Maintainer: .*<\(.*\)>/\1/p' "$TOP/tools/deb/control")

out=$BUILD/patches-$version
tree=$BUILD/patches.tree
log=$BUILD/patches.log
rm -rf --one-file-system "$out" "$tree"
mkdir -p "$tree"
# Nothing but the arguments here decides what git writes.
repo() {
    GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=$name GIT_AUTHOR_EMAIL=$mail \
        GIT_COMMITTER_NAME=$name GIT_COMMITTER_EMAIL=$mail GIT_AUTHOR_DATE="$stamp +0000" GIT_COMMITTER_DATE="$stamp +0000" \
        git -C "$tree" -c core.fsync=none -c gc.auto=0 -c core.autocrlf=false -c core.abbrev=12 -c diff.algorithm=myers "$@" >>"$log" 2>&1 ||
        { tail -n 20 "$log" >&2; die "git $1 failed" "see the lines above; tools/patches is written for $version"; }
}
# Kbuild without what is only used out of the kernel's tree, and without modules that come later.
kbuild() {
    local line
    awk '/^# \[out of tree$/ { out = 1 } !out; /^# out of tree\]$/ { out = 0 }' "$TOP/Kbuild" | cat -s |
        sed '/^# Kernel side of the build/,/^#$/d' |
        while IFS= read -r line; do
            case $line in
            "include "*) [ -e "$tree/$into/${line#*'$(src)/'}" ] || continue ;;
            esac
            printf '%s\n' "$line"
        done | sed -e :a -e '/^\n*$/{$d;N;ba' -e '}'
}
add() { mkdir -p "$tree/$into" && ours "$@" | (cd "$TOP" && xargs cp --parents -t "$tree/$into"); } # FOLDER...
documents() {
    cp "$parts/rust.rst" "$tree/Documentation/infiniband/"
    (cd "$TOP" && cp --parents Documentation/{core_locking,provider,ulp}.md "$tree/$into/")
}

: >"$log"
repo init -q -b series
sed -n 's|^diff --git a/.* b/||p' "$parts"/*.patch | sort -u | while IFS= read -r file; do
    mkdir -p "$(dirname "$tree/$file")"
    cp "$SOURCE/$file" "$tree/$file"
    chmod 644 "$tree/$file"
done
repo add -A
repo commit -q -m "Linux $version"
while read -r -a patch; do
    # Each patch is a second later than the one before, so that they stay in order.
    stamp=$((stamp + 1))
    sed "s/@MAINTAINER@/$name <$mail>/" "$parts/${patch[0]}.patch" >"$BUILD/patches.diff"
    repo apply --index "$BUILD/patches.diff"
    if [ ${#patch[@]} -gt 1 ]; then
        add "${patch[@]:1}"
        kbuild >"$tree/$into/Kbuild"
    fi
    if [ "${patch[0]}" = 12-documentation ]; then documents; fi
    { sed '/^---$/,$d' "$BUILD/patches.diff"; printf '\nSigned-off-by: %s <%s>\n' "$name" "$mail"; } >"$BUILD/patches.message"
    repo add -A -f
    repo commit -q --cleanup=whitespace -F "$BUILD/patches.message"
done < <(series)
count=$(series | wc -l)
repo format-patch -q --no-signature --zero-commit --no-renames --numbered --subject-prefix="PATCH" -o "$out" "HEAD~$count"
rm -rf --one-file-system "$tree" "$BUILD"/patches.{log,diff,message}
say "$count patches for Linux $version in ${out#"$TOP"/}: git am them to a pristine source"

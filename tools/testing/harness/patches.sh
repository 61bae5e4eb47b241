# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# The series of make patches: the same each time, accepted by git am for 7.2 and 7.3, each patch
# compiles; two kernels of the patched source, with all modules that we have in Rust, loadable and
# built in, with overflow checks: they boot, and pass the tests that are marked short, except those
# marked for the distribution's kernels only.

twice() {
    local one=$BUILD/patches-7.2 two=$work/first
    VERSION=7.2 "$TOP/tools/patches.sh" || return
    rm -rf "$two"
    mv "$one" "$two"
    VERSION=7.2 "$TOP/tools/patches.sh" && diff -r "$one" "$two"
}
# Files of the kernel that the series changes are enough for git am.
applies() { # VERSION KERNEL...
    local version=$1 source file
    shift
    source=$CACHE/$("$TOP/tools/kernel.sh" --source "$@")
    VERSION=$version KERNEL='' "$TOP/tools/patches.sh" || return
    rm -rf --one-file-system "$work/am"
    git init -q "$work/am" || return
    sed -n 's|^diff --git a/.* b/||p' "$BUILD/patches-$version"/*.patch | sort -u | while IFS= read -r file; do
        [ -e "$source/$file" ] || continue
        mkdir -p "$work/am/$(dirname "$file")"
        cp "$source/$file" "$work/am/$file"
    done
    (
        cd "$work/am" && git add -A && export GIT_{AUTHOR,COMMITTER}_{NAME=x,EMAIL=x@x.example} &&
            git commit -q -m "Linux $version" && git am "$BUILD/patches-$version"/*.patch
    ) && (cd "$TOP" && git ls-files rust core mad rw umem umad iwcm uverbs cm cma ucma hw/rxe | grep -v '/kunit\.rs$') |
        while IFS= read -r file; do cmp "$TOP/$file" "$work/am/drivers/infiniband/rust/$file" || exit; done
}
log_of() { echo "$CACHE/$("$TOP/tools/kernel.sh" --name "$1").log"; }
no_warning() { ! grep -nE 'warning:|WARNING:' "$(log_of "$1")"; }
each_compiles() { # KERNEL; the patches and their seconds are shown if one does not.
    EACH_PATCH=1 "$TOP/tools/kernel.sh" "$1"
    local status=$?
    cat "$(log_of "$1" | sed 's/log$/each/')"
    return $status
}
# The modules, as the kernel's own list has them.
is_own() { # KERNEL LIST
    local folder=$CACHE/$("$TOP/tools/kernel.sh" --name "$1")/mods/lib/modules
    sed -n 's|^kernel/drivers/infiniband/rust/\([a-z_]*\)\.ko.*|\1|p' "$folder"/*/"$2" | sort | diff - <(
        printf '%s\n' ib_cm ib_core ib_umad ib_uverbs ib_uverbs_support iw_cm rdma_cm rdma_rxe rdma_ucm)
}
short_suite() { # KERNEL
    local names
    names=$(cd "$TOP/tools/testing/guest" && grep -lE '^# short(: um|: lockdep|$)' ./[0-9]*.sh | xargs -n1 basename -s .sh | paste -sd '|')
    env -u WORK KERNEL="$1" STACK=rust SHORT= TEST_DIR="patches-$1" T="@($names)" "$TOP/tools/test.sh" || return
}
told() { # KERNEL: rust-rdma-status in the guest
    printf '%s\n' 'rust-rdma-status' 'rust-rdma-status --short >/tmp/short; cat /tmp/short' \
        '[ "$(grep -c " rust$" /tmp/short)" = 9 ] && ! grep -E "^(ib_core|rdma_rxe) .*c$" /tmp/short' >"$work/status"
    KERNEL=$1 STACK=rust TIMEOUT=300 "$TOP/tools/boot.sh" "$work/told" "$work/status"
}

check "the same tree gives the same series" twice
check "git am takes it, for 7.2, and nothing is missing" applies 7.2
seven_three=$("$TOP/tools/kernel.sh" --source stock-7.3 2>/dev/null) || seven_three=
if [ -n "$seven_three" ] && done_with "$seven_three"; then
    check "git am takes it, for 7.3, and nothing is missing" applies 7.3 stock-7.3
    check "each patch for 7.3 compiles" each_compiles patched-7.3
    check "without a warning" no_warning patched-7.3
else
    skip "git am takes it, for 7.3, and nothing is missing" "the source of 7.3 is not in the cache"
fi
check "each patch compiles, then the kernel is built" each_compiles patched
check "without a warning" no_warning patched
check "its modules are the ones in Rust" is_own patched modules.order
check "short suite, loadable modules" short_suite patched
check "rust-rdma-status tells that they are Rust" told patched
check "the kernel with all built in is built" "$TOP/tools/kernel.sh" patched-y
check "without a warning" no_warning patched-y
check "the ones in Rust are built in" is_own patched-y modules.builtin
check "short suite, built in" short_suite patched-y
check "rust-rdma-status tells that they are built in" told patched-y

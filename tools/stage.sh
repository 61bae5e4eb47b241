#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# stage.sh KERNEL STACK DIR: fill DIR with the module tree that a guest mounts as
# its modules folder: the kernel's own modules, and those of our modules that STACK
# selects under updates/, where depmod prefers them, as on a real machine.
#   STACK=rust  all of our modules     STACK=c  none     STACK=a,b  these and the tests' drivers
#
# stage.sh --partial STACK prints the modules in STACK that do not yet implement everything
# that their C peers do; STACK=rust omits these.
. "$(dirname "$0")/lib.sh"

PARTIAL=""
is_partial() { [[ " $PARTIAL " == *" $1 "* ]]; }
if [ "$1" = --partial ]; then
    for name in ${2//,/ }; do if is_partial "$name"; then echo "$name"; fi; done | xargs
    exit
fi

kernel=$1 stack=$2 dir=$3
kdir=$CACHE/$("$TOP/tools/kernel.sh" --name "$kernel")
release=$(cat "$kdir/include/config/kernel.release")

if [ "$stack" != c ]; then "$TOP/tools/modules.sh" "$kernel"; fi
# modules.order, not a listing of files: a module that was removed from Kbuild is not built.
mapfile -t built < <(sed "s|^|$BUILD/modules-$kernel/|; s|\.o\$|.ko|" "$BUILD/modules-$kernel/modules.order" 2>/dev/null | sort)
chosen=()
# A patched kernel has our modules among its own; only those that test are added.
case $kernel:$stack in patched*:rust) ;; patched*) die "the kernel $kernel has no modules in C that ours replace" "use STACK=rust" ;; esac
case $stack in
c) ;;
rust)
    for ko in "${built[@]}"; do is_partial "$(basename "$ko" .ko)" || chosen+=("$ko"); done
    [ ${#chosen[@]} -gt 0 ] || die "STACK=rust, but the tree builds no module" "use STACK=c"
    ;;
*)
    # The tests' drivers replace no C module: they are available with every stack that has modules
    # of ours.
    tests="cmcalls countdev fakeib fakeverbs iwstub"
    [ "${RDMA_TESTS:-}" != n ] || tests=
    for name in ${stack//,/ } $tests; do
        found=
        for ko in "${built[@]}"; do
            if [ "$(basename "$ko" .ko)" = "$name" ]; then chosen+=("$ko"); found=1; fi
        done
        [ -n "$found" ] || die "STACK names $name, which is not built" \
            "built are: $(for ko in "${built[@]}"; do basename "$ko" .ko; done | xargs)"
    done
    ;;
esac

rm -rf --one-file-system "$dir"
mkdir -p "$dir/lib/modules"
cp -al "$kdir/mods/lib/modules/$release" "$dir/lib/modules/" 2>/dev/null ||
    cp -a "$kdir/mods/lib/modules/$release" "$dir/lib/modules/"
mkdir -p "$dir/lib/modules/$release/updates"
for ko in "${chosen[@]}"; do cp "$ko" "$dir/lib/modules/$release/updates/"; done
echo 'search updates built-in' >"$dir/depmod.conf"
inside=/src/${dir#"$TOP"/}
in_builder depmod -C "$inside/depmod.conf" -b "$inside" "$release" ||
    die "depmod failed over $dir" "see the lines above"

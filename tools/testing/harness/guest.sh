# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# What needs the real roots and the fast kernel: modules put in by make install are the ones
# that load.

check "kernel: no such tarball" says "cannot be read" env LINUX_TARBALL=/nonexistent "$TOP/tools/kernel.sh" fast
check "kernel: no such kernel" says "unknown kernel" "$TOP/tools/kernel.sh" slow
check "stack: no such module" says "not built" "$TOP/tools/stage.sh" fast no_such "$work/mods"

# A root as a machine has it: the stock modules, and a build tree beside.
"$TOP/tools/kernel.sh" fast
kernel=$("$TOP/tools/kernel.sh" --name fast)
root=$work/root
mkdir -p "$root/lib/modules"
cp -a "$CACHE/$kernel/mods/lib/modules/." "$root/lib/modules/"
release=$(ls "$root/lib/modules")
own() { # install|uninstall
    XDG_CACHE_HOME=/tmp DESTDIR=${root/"$TOP"//src} KDIR=/c/$kernel PASS="XDG_CACHE_HOME DESTDIR KDIR" \
        in_builder make -s -C /src "$1" </dev/null
}
state() { (cd "$root/lib/modules/$release" && find . ! -name '*.ko' -type f -exec sha256sum {} + -o -name '*.ko' -print | sort); }
in_builder depmod -b "${root/"$TOP"//src}" "$release" </dev/null
state >"$work/before"
check "make install" own install
state >"$work/first"
check "make install once more" own install
once() { state | diff "$work/first" -; }
check "the second changed nothing" once
no_tests() { ls "$root/lib/modules/$release/updates/rust-rdma" && ! find "$root" -name '*kunit*.ko' -path '*updates*' | grep .; }
check "only real modules are installed" no_tests
cat >"$work/script" <<'END'
mount --bind /share/root/lib/modules /usr/lib/modules || exit 1
modprobe rdma_rxe || exit 1
modinfo -n rdma_rxe
modinfo -n ib_core
stack
stack | grep rust | sort | diff - /share/want
END
loads() { # MODULE...: those of ours that a guest takes that has this root's modules
    mkdir -p "$work/share"
    rm -rf "$work/share/root"
    cp -al "$root" "$work/share/root"
    printf '%s rust\n' "$@" >"$work/share/want"
    STACK=c KERNEL=fast NODES=1 LOAD= SHARE=$work/share "$TOP/tools/boot.sh" "$work/guest" "$work/script"
}
check "the installed modules are the ones that load" loads ib_core rdma_rxe
check "make uninstall" own uninstall
restored() { state | diff "$work/before" -; }
check "everything is as it was" restored
check "make uninstall once more" own uninstall
rm -rf --one-file-system "$work/share" "$work/root" "$work/guest"

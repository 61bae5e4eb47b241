#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Tests of tools/ itself, as `make test T=harness`: each cause of failure gives one line
# that names it and a remedy, nothing half-made is taken for good, and modules put in by
# make install are the ones that load. Prints KTAP. Works in build/harness.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/guest/ktap.sh"
set +e

work=$BUILD/harness
rm -rf --one-file-system "$work"
mkdir -p "$work/stubs" "$work/kdir/include/config" "$work/kdir/rust"

# says PATTERN CMD...: CMD fails, with exactly one line "error: CAUSE; REMEDY", which
# has PATTERN, and with no other complaint.
says() {
    local pattern=$1 status=0
    shift
    "$@" >"$work/log" 2>&1 </dev/null || status=$?
    cat "$work/log"
    [ "$status" = 1 ] && grep -q "^error: .*$pattern.*; " "$work/log" &&
        [ "$(grep -vc '^== ' "$work/log")" = 1 ]
}

stub() { # NAME TEXT: a program of that name, before all others in PATH
    printf '#!/bin/bash\n%s\n' "$2" >"$work/stubs/$1"
    chmod +x "$work/stubs/$1"
}

# --- make install refuses what it cannot build for
conf=$work/kdir/include/config/auto.conf
install_to() { # KDIR
    mkdir -p "$work/away/lib/modules/7.2.0-mine"
    KDIR=$1 DESTDIR=$work/away PATH=$work/stubs:$PATH "$TOP/tools/install.sh" install
}
stub depmod 'exit 0'
stub bindgen ''
stub rustc 'echo "rustc 1.0.0 (another)"'
check "install: no headers" says "not a kernel build tree" install_to /nonexistent
echo 7.2.0-mine >"$work/kdir/include/config/kernel.release"
touch "$work/kdir/Makefile"
echo CONFIG_INFINIBAND=m >"$conf"
check "install: a kernel without Rust" says "built without Rust" install_to "$work/kdir"
echo CONFIG_RUST=y >>"$conf"
check "install: headers without rust/" says "built without Rust" install_to "$work/kdir"
touch "$work/kdir/rust/libkernel.rmeta"
echo 'CONFIG_RUSTC_VERSION_TEXT=rustc 1.85.1 (theirs)' >>"$conf"
check "install: another rustc" says "built with rustc 1.85.1 (theirs)" install_to "$work/kdir"
printf 'CONFIG_CC_IS_CLANG=y\nCONFIG_CLANG_VERSION=990000\n' >>"$conf"
check "install: no such clang" says "clang-99 is missing" install_to "$work/kdir"
sed -i '/INFINIBAND/d' "$conf"
check "install: a kernel without RDMA" says "no RDMA modules" install_to "$work/kdir"
rmdir "$work/away/lib/modules/7.2.0-mine"
check "uninstall: no such kernel" says "does not exist" \
    env KDIR="$work/kdir" DESTDIR="$work/away" PATH="$work/stubs:$PATH" "$TOP/tools/install.sh" uninstall

# --- a warning that is known of a C module hides no other
. "$(dirname "$0")/guest/reports.sh"
cut='[ 1.0] ------------[ cut here ]------------'
isert='[ 1.0] WARNING: at iscsit_release_cmd+0xc8/0xe0 [iscsi_target_mod], CPU#0: kworker/0:1H/48'
only_known() { printf '%s\n' a "$cut" "$isert" "b" >"$work/log" && ! reports "$work/log"; }
named() { known_reports "$work/log" | grep -c '^ok - iscsit_release_cmd .*# SKIP .*isert' | grep -qx 1; }
not_hidden() {
    printf '%s\n' "$cut" "[ 1.0] WARNING: at other+0x1/0x2 [ib_core]" "$isert" "$cut" "$isert" "[ 1.0] BUG: x" >"$work/log" &&
        reports "$work/log" >"$work/found"
    printf '%s\n' "$cut" "[ 1.0] WARNING: at other+0x1/0x2 [ib_core]" "[ 1.0] BUG: x" | diff - "$work/found"
}
check "reports: a known one is none" only_known
check "reports: it is named" named
check "reports: others are seen beside it" not_hidden

# --- the roots, with mmdebstrap played by a stub
builder() { # [VAR=VALUE...]
    env XDG_CACHE_HOME="$work/cache" MIRROR=http://127.0.0.1:9 PATH="$work/stubs:$PATH" "$@" "$TOP/tools/roots.sh" builder
}
cache=$work/cache/rust-rdma
nothing_kept() { [ -z "$(ls -d "$cache"/builder-*.ok "$cache"/builder-????????????/ 2>/dev/null)" ]; }

# shellcheck disable=SC2016
half='for a; do case $a in */builder-*.tmp) mkdir -p "$a/half"; echo "$a" >"$a/half/x" ;; esac; done'
stub mmdebstrap 'echo "Err:1 Could not connect to 127.0.0.1:9 (127.0.0.1). - connect (111: Connection refused)"; exit 1'
check "roots: no network" says "a download failed (.*Could not connect" builder
check "roots: nothing is kept of it" nothing_kept
stub mmdebstrap "$half; echo 'cannot write: No space left on device'; exit 1"
check "roots: the disk fills up" says "the disk is full" builder
check "roots: nothing is kept of it" nothing_kept
stub mmdebstrap "$half; echo 'E: something else'; exit 1"
refuse "roots: another failure shows the log's end" builder
check "roots: nothing is kept of it" nothing_kept
check "roots: too small a disk is seen before" says "GiB and .* GiB free" \
    unshare -m bash -c 'mount -t tmpfs -o size=64m small "$1" && shift && "$@"' sh "$work/cache" \
    env XDG_CACHE_HOME="$work/cache" MIRROR=http://127.0.0.1:9 PATH="$work/stubs:$PATH" "$TOP/tools/roots.sh" builder
stub mmdebstrap "$half; sleep 60"
interrupted() {
    local pid group
    setsid env XDG_CACHE_HOME="$work/cache" MIRROR=http://127.0.0.1:9 PATH="$work/stubs:$PATH" \
        "$TOP/tools/roots.sh" builder </dev/null &
    pid=$!
    for _ in $(seq 100); do [ -n "$(ls "$cache"/builder-*.tmp/half/x 2>/dev/null)" ] && break; sleep 0.1; done
    group=$(ps -o pgid= -p $pid | tr -d ' ')
    kill -INT -- "-$group"
    sleep 0.2
    kill -KILL -- "-$group" 2>/dev/null
    wait $pid
    [ -n "$(ls "$cache"/builder-*.tmp/half/x)" ] && nothing_kept
}
check "roots: interrupted half-way" interrupted
# shellcheck disable=SC2016
stub mmdebstrap 'for a; do case $a in */builder-*.tmp) mkdir "$a" && touch "$a/whole" ;; esac; done'
again() { builder && [ -e "$cache"/builder-*/whole ] && [ ! -e "$cache"/builder-*/half ] && ls "$cache"/builder-*.ok; }
check "roots: and made anew by the next make" again
quiet() { [ -z "$(builder 2>&1)" ]; }
check "roots: quiet when there is nothing to do" quiet
rm -rf "$cache"

# A make that waits for another's lock has locks of its own; killed, it must give them up.
orphan() (
    mkdir -p "$cache"
    exec 8>"$cache/builder.lock" 9>"$work/held"
    flock 8
    flock 9
    builder 8>&- &
    exec 9>&-
    sleep 1
    kill -KILL "$(pgrep -P $! -f roots.sh || echo $!)"
    flock -w 10 "$work/held" true
)
check "locks: a killed waiter holds none" orphan
mkdir -p "$work/few"
ln -s /usr/sbin/* /usr/bin/* "$work/few/" 2>/dev/null
rm -f "$work/few/mmdebstrap" "$work/few/apt-get" "$work/stubs/mmdebstrap"
check "roots: no mmdebstrap and no way to get it" says "mmdebstrap is missing" builder PATH="$work/few"

# --- the rest needs the real roots and the fast kernel
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
finish

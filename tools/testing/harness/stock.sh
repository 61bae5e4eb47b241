# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# The choice of a distribution kernel, with the archive played by a stub of unshare, which
# stands for all that runs in the builder root; and what make run does without one.

cache=$work/cache/rust-rdma
stock() { # [VAR=VALUE...] ARG...
    env XDG_CACHE_HOME="$work/cache" PATH="$work/stubs:$PATH" "$@"
}
mkdir -p "$cache/$(builder_name)/var/lib/dpkg"
printf 'Package: rustc\nVersion: 1\n\nPackage: gcc-14\nVersion: 2\n' >"$cache/$(builder_name)/var/lib/dpkg/status"
prints() { # TEXT CMD...
    local text=$1
    shift
    [ "$("$@" 2>"$work/log")" = "$text" ] || { cat "$work/log"; return 1; }
}
release() { stock "$@" "$TOP/tools/stock.sh" --release stock; }
name() { stock "$TOP/tools/stock.sh" --name "$1"; }

stub unshare 'exit 0'
unfit_archive() {
    local status=0
    release >"$work/log" 2>&1 || status=$?
    cat "$work/log"
    [ $status = 3 ] && [ "$(grep -c '^error: .*the archive has no Linux 7.2.*; use KERNEL=fast' "$work/log")" = 1 ]
}
check "stock: an archive without a release that fits: status 3, one line" unfit_archive
stub unshare 'echo "Err:1 Could not connect to 127.0.0.1:9"  >&2; exit 1'
check "stock: no network" says "a download failed" release
stub unshare 'echo "7.2.98+deb13-amd64 7.2.98-1~bpo13+1"'
check "stock: a release is chosen" prints 7.2.98+deb13-amd64 release
name stock >"$work/name" 2>/dev/null
stub unshare 'echo "7.2.99+deb13-amd64 7.2.99-1~bpo13+1"'
check "stock: the choice is kept" prints 7.2.98+deb13-amd64 release
refreshed() { # The stub gives no packages.
    stock REFRESH=1 "$TOP/tools/stock.sh" stock && return 1
    release
}
check "stock: REFRESH=1 asks again" prints 7.2.99+deb13-amd64 refreshed
other_name() { ! name stock | grep -qxFf "$work/name"; }
check "stock: another release has another name in the cache" other_name
both_versions() { name stock | grep '^kernel-stock-' && name stock-7.3 2>/dev/null | grep '^kernel-stock-7.3-'; }
check "stock: the versions have names of their own" both_versions

# An archive that has another release each time it is asked, and lacks what was asked for.
# shellcheck disable=SC2016
moved_on() { # WHAT TEXT: WHAT fails for 7.2.1, with that text
    rm -f "$cache"/{archive-*,unfit-*,kernel-*}
    mkdir -p "$cache/linux"
    stub unshare 'case "$*" in
        *" choose 7.2 7.2.1+"*) echo "7.2.2+deb13-amd64 7.2.2-1" ;;
        *" choose 7.2"*) if [ -e "$ASKED" ]; then echo "7.2.2+deb13-amd64 7.2.2-1"; else echo "7.2.1+deb13-amd64 7.2.1-1"; fi
            touch "$ASKED" ;;
        *" fetch "*) [ "$FAILS" != fetch ] || [[ "$*" != *7.2.1-1* ]] || { echo "$TEXT"; exit 1; }
            args="$*" dir=${args##* fetch }
            dir=$CACHE/${dir%% *}/root/usr/src
            mkdir -p "$dir"
            touch "$dir/linux-source-7.2.tar.xz" ;;
        *metadata.sh*) [[ "$*" == *" 7.2.1+deb13-amd64" ]] || exit 1
            echo "$TEXT"; exit 3 ;;
        esac'
    # The source of the stub cannot be unpacked.
    stub tar 'exit 0'
    rm -f "$work/asked"
    FAILS=$1 TEXT=$2 ASKED=$work/asked stock "$TOP/tools/stock.sh" stock >"$work/log2" 2>&1
    FAILS='' ASKED=$work/asked release
    rm -f "$work/stubs/tar"
}
check "stock: a release that left the archive is not asked for again" prints 7.2.2+deb13-amd64 \
    moved_on fetch "E: Version '7.2.1-1' for 'linux-base' was not found"
check "stock: a release whose metadata cannot be made is passed over" prints 7.2.2+deb13-amd64 \
    moved_on metadata "unfit: another compiler"
rm -rf "$cache" "$work/stubs/unshare"

# make run, with the kernel and the boot played by stubs.
mkdir -p "$work/run/tools"
cp "$TOP"/tools/{lib,run}.sh "$work/run/tools/"
printf '#!/bin/bash\n' | tee "$work/run/tools/roots.sh" >"$work/run/tools/modules.sh"
run_with() { # STATUS KERNEL [STATUS OF STOCK-7.3]
    printf '#!/bin/bash\n[ "$1" != stock-7.3 ] || exit %s\nexit %s\n' "${3:-$1}" "$1" >"$work/run/tools/kernel.sh"
    # shellcheck disable=SC2016
    printf '#!/bin/bash\necho "booted $KERNEL"\n' >"$work/run/tools/boot.sh"
    chmod +x "$work"/run/tools/*.sh
    KERNEL=$2 stock "$work/run/tools/run.sh"
}
check "stock: make run takes it" prints "booted stock" run_with 0 stock
check "stock: make run takes 7.3 where 7.2 does not fit" prints "booted stock-7.3" run_with 3 stock 0
check "stock: make run falls back to fast" prints "booted fast" run_with 3 stock
refuse "stock: make run fails when the fetch fails" run_with 1 stock
# What make gives to the scripts.
cp "$TOP/Makefile" "$work/run/"
# shellcheck disable=SC2016
for script in run test; do printf '#!/bin/bash\necho "%s ${KERNEL:-none}"\n' $script >"$work/run/tools/$script.sh"; done
printf '#!/bin/bash\n' >"$work/run/tools/clean.sh"
chmod +x "$work"/run/tools/*.sh
made() { env -u KERNEL -u MAKEFLAGS -u MAKELEVEL make -s -C "$work/run" "$@"; }
check "make run takes the distribution's kernel" prints "run stock" made run
check "make clean run, too" prints "run stock" made clean run
check "make run KERNEL=fast does not" prints "run fast" made run KERNEL=fast
check "make test takes fast" prints "test fast" made test
rm -rf "$work/run"

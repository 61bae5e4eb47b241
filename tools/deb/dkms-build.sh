#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# dkms-build.sh check RELEASE: can modules be built for the kernel RELEASE? Status 1, and a message that
# says what is missing, if not. Otherwise the metadata of the kernel crate is made, if it is not there yet:
# once for each version of the kernel's headers, in /var/cache/rust-rdma/RELEASE, from the headers and the
# source package of the same version. /var/cache/rust-rdma/RELEASE/build is then a kernel tree to build
# modules against.
# dkms-build.sh build RELEASE: the same, and build the modules into modules/ of the current folder.
# dkms.conf calls both.
# dkms-build.sh metadata RELEASE: as check, for make install.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
action=$1 release=$2
cache=/var/cache/rust-rdma
made=$cache/$release
log=$cache/$release.log
unfit=$cache/$release.unfit
headers=/usr/src/linux-headers-$release
version=$(cut -d. -f1,2 <<<"$release")
tarball=$(ls /usr/src/"linux-source-$version".tar.* 2>/dev/null | head -n 1 || :)
# The only C file in which rust/features.Kbuild looks.
tells=drivers/infiniband/core/umem.c
script=$here/metadata.sh
[ -e "$script" ] || script=$here/../metadata.sh

missing=()
# version_of PACKAGE: empty if its files are not there. dkms runs in scripts of kernel packages, while dpkg
# has not configured them, nor others that come with them.
version_of() {
    dpkg-query -W -f '${db:Status-Status} ${Version}\n' "$1" 2>/dev/null |
        sed -nE 's/^(installed|half-configured|unpacked|triggers-[a-z]+) //p' || :
}
headers_version=$(version_of "linux-headers-$release")
config() { sed -nE "s/^CONFIG_$1=\"?([^\"]*)\"?\$/\1/p" "$headers/.config"; } # OPTION
# A revision of a Debian package may have the same release with another configuration.
# An older version of this package did not keep the file.
is_made() { [ -e "$made/ok" ] && [ -e "$made/source/$tells" ] && [ "$(cat "$made/ok")" = "$headers_version" ]; }
# What metadata that could not be made was made of: with the same, it is not tried again.
ingredients() {
    local tool
    echo "$headers_version $(sha256sum <"$headers/.config")"
    for tool in gcc ld pahole rustc bindgen; do $tool --version 2>/dev/null | sed -n 1p || echo "no $tool"; done
}

check() {
    local want text tool
    if [ ! -e "$headers/.config" ] || [ ! -e "$headers/Module.symvers" ]; then
        missing+=("the headers: apt install linux-headers-$release")
        return
    fi
    if [ "$(config RUST)" != y ] || [ "$(config INFINIBAND)" != m ]; then
        missing+=("a kernel with Rust, and with RDMA as modules")
        return
    fi
    # The metadata can only be read by the compiler that wrote it.
    want=$(config RUSTC_VERSION_TEXT)
    text=$(rustc --version 2>/dev/null) || text=none
    [ "$want" = "$text" ] || missing+=("the compiler \"$want\" (here: $text): apt install rustc")
    want=$(config GCC_VERSION)
    if ! [[ $want =~ ^[1-9][0-9]*$ ]]; then
        missing+=("a kernel that gcc compiled (this one: $(config CC_VERSION_TEXT))")
    elif want=$((want / 10000)) && ! gcc -dumpfullversion 2>/dev/null | grep -q "^$want\."; then
        missing+=("gcc-$want as gcc: apt install gcc")
    fi
    for tool in bindgen bc bison flex make pahole python3; do
        command -v "$tool" >/dev/null || missing+=("$tool")
    done
    if is_made; then return; fi
    want=${headers_version:+=$headers_version}
    if [ -z "$tarball" ] || [ "$(version_of "linux-source-$version")" != "$headers_version" ]; then
        missing+=("the kernel's source, in the version of its headers: apt install linux-source-$version$want")
    fi
    if [ "$(df -Pk /var/cache | awk 'NR == 2 { print int($4 / 1048576) }')" -lt 4 ]; then
        missing+=("4 GiB of free space in /var/cache, for some minutes")
    fi
    [ -w /var/cache ] || missing+=("permission to write into /var/cache: run it as root")
    if [ "$action" != metadata ] && [ -e "$unfit" ] && [ "$(tail -n +2 "$unfit")" = "$(ingredients)" ]; then
        missing+=("$(head -n 1 "$unfit")")
    fi
}

# What of the source a build of modules needs: everything but the code of other parts.
prune() { # SOURCE
    find "$1" -type f \( -name '*.c' -o -name '*.S' -o -name '*.rst' -o -name '*.dts*' -o -name '*.yaml' -o -name '*.json' \) \
        -not -path "$1/scripts/*" -not -path "$1/tools/*" -not -path "$1/$tells" -delete
    rm -rf "$1"/{Documentation,sound,samples,LICENSES,tools/testing,tools/perf}
    find "$1/arch" -mindepth 1 -maxdepth 1 -type d -not -name x86 -exec rm -rf {} +
    find "$1" -type d -empty -delete
}

metadata() {
    local why
    mkdir -p "$cache"
    exec 9>"$cache/lock"
    flock 9
    if is_made; then return; fi
    echo "rust-rdma: making the metadata of the kernel crate for Linux $release: some minutes (log: $log)"
    rm -rf "$made" "$unfit"
    mkdir -p "$made/source"
    trap 'rm -rf "$made"' EXIT
    # The source and the build folder are needed together: they refer to each other.
    if tar -xf "$tarball" -C "$made/source" --strip-components=1 >"$log" 2>&1 &&
        bash "$script" "$headers" "$made/source" "$made/build" "$release" >>"$log" 2>&1; then
        prune "$made/source"
        echo "$headers_version" >"$made/ok"
        trap - EXIT
        return
    fi
    # An error of dkms would leave the kernel's own packages unconfigured.
    grep -m 10 -E 'rror|No such file' "$log" || :
    why=$(sed -n 's/^unfit: //p' "$log" | tail -n 1)
    why="metadata of the kernel crate: ${why:-it could not be made} (log: $log)"
    { echo "$why"; ingredients; } >"$unfit"
    missing+=("$why")
}

# depmod does not define which of two folders of updates/ it prefers.
if [ "$action" != metadata ] && [ -d "/lib/modules/$release/updates/rust-rdma" ]; then
    echo "rust-rdma: Linux $release has the modules of a make install, which stay in use: make uninstall, then dpkg-reconfigure rust-rdma-dkms"
    exit 1
fi
check
if [ ${#missing[@]} = 0 ] && ! is_made; then metadata; fi
if [ ${#missing[@]} -gt 0 ]; then
    echo "rust-rdma: no modules in Rust for Linux $release: the C modules stay in use. What is missing:"
    printf '  %s\n' "${missing[@]}"
    [ "$action" = metadata ] || echo "  then: dpkg-reconfigure rust-rdma-dkms"
    exit 1
fi
[ "$action" = build ] || exit 0
mkdir -p modules
make -j"${JOBS:-$(nproc)}" -C "$made/build" "M=$PWD" "MO=$PWD/modules" RDMA_TESTS=n CONFIG_DEBUG_INFO_BTF_MODULES= \
    "RDMA_VERSION=$(sed -n 's/^PACKAGE_VERSION="\(.*\)"/\1/p' "$here/dkms.conf")" modules

#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# dkms-build.sh check RELEASE: say what the build for the kernel RELEASE lacks, if anything (status 1).
# dkms-build.sh build RELEASE: build the modules into modules/ of the current folder. dkms.conf calls
# both. The metadata of the kernel crate is made once for each kernel, in /var/cache/rust-rdma, from
# the headers and the source package of the same version.
# dkms-build.sh metadata RELEASE: make that only; /var/cache/rust-rdma/RELEASE/build is then a kernel
# tree to build modules against. make install calls it for a distribution's kernel.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
action=$1 release=$2
cache=/var/cache/rust-rdma
headers=/usr/src/linux-headers-$release
version=$(cut -d. -f1,2 <<<"$release")
tarball=$(ls /usr/src/"linux-source-$version".tar.* 2>/dev/null | head -n 1 || :)
made=$cache/$release
script=$here/metadata.sh
[ -e "$script" ] || script=$here/../metadata.sh

missing=()
version_of() { dpkg-query -W -f '${db:Status-Status} ${Version}' "$1" 2>/dev/null | sed -n 's/^installed //p'; }
check() {
    local want text compiler tool
    if [ ! -e "$headers/.config" ] || [ ! -e "$headers/Module.symvers" ]; then
        missing+=("the headers: apt install linux-headers-$release")
        return
    fi
    # The cache was made by the compiler that was there then.
    want=$(sed -n 's/^CONFIG_RUSTC_VERSION_TEXT="\(.*\)"$/\1/p' "$headers/.config")
    text=$(rustc --version 2>/dev/null) || text=none
    [ "$want" = "$text" ] || missing+=("the compiler \"$want\" (here: $text): apt install rustc")
    compiler=gcc-$(($(sed -n 's/^CONFIG_GCC_VERSION=//p' "$headers/.config") / 10000))
    gcc -dumpfullversion 2>/dev/null | grep -q "^${compiler#gcc-}\." || missing+=("$compiler as gcc: apt install gcc")
    for tool in bindgen bc bison flex make pahole; do
        command -v "$tool" >/dev/null || missing+=("$tool")
    done
    if [ -e "$made/ok" ]; then return; fi
    want=$(version_of "linux-headers-$release")
    if [ -z "$tarball" ] || [ "$(version_of "linux-source-$version")" != "$want" ]; then
        missing+=("the kernel's source, in the version of its headers: apt install linux-source-$version=$want")
    fi
    if [ "$(df -Pk /var/cache | awk 'NR == 2 { print int($4 / 1048576) }')" -lt 4 ]; then
        missing+=("4 GiB of free space in /var/cache, for some minutes")
    fi
}

# What of the source a build of modules needs: everything but the code of other parts.
prune() { # SOURCE
    find "$1" -type f \( -name '*.c' -o -name '*.S' -o -name '*.rst' -o -name '*.dts*' -o -name '*.yaml' -o -name '*.json' \) \
        -not -path "$1/scripts/*" -not -path "$1/tools/*" -delete
    rm -rf "$1"/{Documentation,sound,samples,LICENSES,tools/testing,tools/perf}
    find "$1/arch" -mindepth 1 -maxdepth 1 -type d -not -name x86 -exec rm -rf {} +
    find "$1" -type d -empty -delete
}

metadata() {
    local log=$cache/$release.log
    if [ -e "$made/ok" ]; then return; fi
    echo "rust-rdma: making the metadata of the kernel crate for Linux $release: some minutes (log: $log)"
    rm -rf "$made"
    mkdir -p "$made/source"
    trap 'rm -rf "$made"' EXIT
    # The source and the build folder are needed together: they refer to each other.
    tar -xf "$tarball" -C "$made/source" --strip-components=1
    bash "$script" "$headers" "$made/source" "$made/build" "$release" >"$log" 2>&1 || {
        tail -n 20 "$log"
        echo "rust-rdma: the metadata could not be made (log: $log)"
        exit 1
    }
    prune "$made/source"
    touch "$made/ok"
    trap - EXIT
}

check
if [ ${#missing[@]} -gt 0 ]; then
    echo "rust-rdma: no modules in Rust for Linux $release: the C modules stay in use. What is missing:"
    printf '  %s\n' "${missing[@]}"
    [ "$action" = metadata ] || echo "  then: dpkg-reconfigure rust-rdma-dkms"
    exit 1
fi
[ "$action" != check ] || exit 0
mkdir -p "$cache"
exec 9>"$cache/lock"
flock 9
metadata
[ "$action" = build ] || exit 0
mkdir -p modules
make -j"${JOBS:-$(nproc)}" -C "$made/build" "M=$PWD" "MO=$PWD/modules" RDMA_TESTS=n CONFIG_DEBUG_INFO_BTF_MODULES= \
    "RDMA_VERSION=$(sed -n 's/^PACKAGE_VERSION="\(.*\)"/\1/p' "$here/dkms.conf")" modules

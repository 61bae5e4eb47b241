#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# kernel.sh NAME: build the stock kernel NAME (fast, lockdep, um, um-lockdep or kcsan), if it
# is not in the cache, or one with our modules in it (patched, patched-y: see patched.sh), or fetch a
# distribution's (stock, stock-7.3: see stock.sh). patched-7.3 only compiles drivers/infiniband in the
# patched source of 7.3.
# kernel.sh --name NAME prints its name in the cache, kernel.sh --source [NAME] that of
# the source, which kernel.sh --unpack [NAME] only unpacks.
# LINUX_TARBALL= gives another source than the builder root's linux-source-7.2.
. "$(dirname "$0")/lib.sh"

# Increase it when a change of the recipe below changes its result.
RECIPE=1

declare -A fragments=([fast]="base x86 fast hardware" [lockdep]="base x86 lockdep" [um]="base um" [um-lockdep]="base um um-lockdep" [kcsan]="base x86 kcsan"
    [patched]="base x86 fast patched" [patched-7.3]="base x86 fast patched" [patched-y]="base x86 fast patched patched-y")
declare -A expected=([fast]=15 [lockdep]=16 [um]=9 [um-lockdep]=9 [kcsan]=20 [patched]=25 [patched-7.3]=10 [patched-y]=10)
# Compiler flags of what is built into one kernel. clang, with the large code model of User-Mode Linux,
# puts data of more than 64 KiB into sections of its own, which the kernel's linker script does not
# know: lockdep would not take a lock in such data for a static object, and switch itself off at boot.
# (Modules are loaded too far away for code that has this flag.)
declare -A cflags=([um-lockdep]="-Xclang -mlarge-data-threshold=2147483647")
# The version that the source is of.
series=7.2
case " $* " in *" patched-7.3 "*) series=7.3 COMPILE_ONLY=1 ;; esac

# debian_version PACKAGE...: installed versions, from the builder root's records.
debian_version() {
    awk -v want=" $* " '/^Package: / { p = $2 } /^Version: / && index(want, " " p " ") { print p, $2 }' \
        "$CACHE/$(builder_name)/var/lib/dpkg/status"
}

source_name() {
    if [ $series = 7.3 ]; then
        "$TOP/tools/stock.sh" --source stock-7.3
    elif [ -n "${LINUX_TARBALL:-}" ]; then
        [ -r "$LINUX_TARBALL" ] || die "LINUX_TARBALL=$LINUX_TARBALL cannot be read" "give the path of a linux-7.2.x tarball"
        echo "linux/src-$(sha256sum <"$LINUX_TARBALL" | cut -c1-12)"
    else
        echo "linux/src-$(key "$(debian_version linux-source-7.2)")"
    fi
}

# fragment NAME: the configuration fragment; of two lines for a symbol the last one counts.
fragment() {
    local f
    for f in ${fragments[$1]}; do cat "$TOP/tools/kernel/$f.config"; done |
        awk -F= '/^CONFIG_/ { if (!($1 in v)) order[n++] = $1; v[$1] = $0 } END { for (i = 0; i < n; i++) print v[order[i]] }'
}

name_of() {
    local folder
    case $1 in
    patched | patched-7.3 | patched-y)
        folder=$(name_of_any patched) || exit
        [ "$1" = patched-y ] && echo "$folder-y" || echo "$folder-m"
        ;;
    *) name_of_any "$1" ;;
    esac
}
name_of_any() {
    local src
    src=$(source_name) || exit # -e does not reach into a command's arguments
    echo "kernel-$1-$(key "$RECIPE" "$src" "$(fragment "$1")" "$(debian_version rustc clang-19 lld-19 bindgen gcc-14)" ${cflags[$1]:+"CFLAGS_KERNEL=${cflags[$1]}"})"
}

unpack() { # SOURCE NAME
    local src=$1 tarball
    done_with "$src" && return
    if [ $series = 7.3 ]; then
        "$TOP/tools/stock.sh" --unpack stock-7.3
        return
    fi
    # stock.sh unpacks the same source.
    lock source-7.2
    done_with "$src" && return
    say "unpacking the kernel source: under a minute"
    need_space 4 "the kernel source"
    mkdir -p "$CACHE/linux"
    tarball=${LINUX_TARBALL:-$(ls "$CACHE/$(builder_name)"/usr/src/linux-source-7.2.tar.* 2>/dev/null || :)}
    [ -n "$tarball" ] || die "the builder root has no linux-source-7.2" "give LINUX_TARBALL= (a linux-7.2.x tarball)"
    rm -rf "${CACHE:?}/$src.tmp" "${CACHE:?}/$src"
    mkdir "$CACHE/$src.tmp"
    tar -xf "$tarball" -C "$CACHE/$src.tmp" --strip-components=1 ||
        die "$tarball could not be unpacked" "check the file and the free space of $CACHE"
    grep -q '^VERSION = 7$' "$CACHE/$src.tmp/Makefile" && grep -q '^PATCHLEVEL = 2$' "$CACHE/$src.tmp/Makefile" ||
        die "$tarball is not a Linux 7.2 source" "the project builds against 7.2.x"
    mv "$CACHE/$src.tmp" "$CACHE/$src"
    publish "$src"
}

# Symbols of the fragment that the resulting .config lacks.
missing() { # FRAGMENT CONFIG
    awk -F= 'NR == FNR { if (/^CONFIG_/) have[$1] = $0; next }
        $2 == "n" { if ($1 in have) print $0; next }
        have[$1] != $0 { print $0 }' "$2" "$1"
}

# A read with timeout from an empty pipe instead of sleep: no child is left behind that would hold
# the lock when this is killed.
heartbeat() { # LOG NAME MINUTES
    local start=$SECONDS pipe
    exec {pipe}<> <(:)
    until read -r -t 60 -u "$pipe"; do
        say "kernel $2: $(((SECONDS - start) / 60)) of about $3 minutes, $(grep -cE '^  (CC|RUSTC|LD|AR)' "$1") files"
    done
}

build() { # KERNEL NAME
    local kernel=$1 name=$2 log=$CACHE/$2.log start=$SECONDS src pulse lost arch=x86_64
    src=$(source_name)
    unpack "$src"
    ! user_mode "$kernel" || arch=um
    need_space 6 "a kernel build"
    say "kernel $kernel: about ${expected[$kernel]} minutes on 2 cores (log: $log)"
    mkdir -p "$CACHE/$name"
    fragment "$kernel" >"$CACHE/$name/wanted.config"
    local mk="make -C /c/$src O=/c/$name ARCH=$arch LLVM=$LLVM_PREFIX"
    quietly "$log" in_builder bash -euc "$mk KCONFIG_ALLCONFIG=/c/$name/wanted.config allnoconfig" ||
        failed "the kernel could not be configured" "$log" "see the lines above"
    lost=$(missing "$CACHE/$name/wanted.config" "$CACHE/$name/.config")
    [ -z "$lost" ] || die "this source does not take: $(echo $lost)" "correct tools/kernel/*.config"
    heartbeat "$log" "$kernel" "${expected[$kernel]}" &
    pulse=$!
    # shellcheck disable=SC2064
    trap "kill $pulse 2>/dev/null || :" EXIT
    quietly "$log" in_builder nice make -C "/c/$src" O="/c/$name" ARCH=$arch LLVM=$LLVM_PREFIX \
        ${cflags[$kernel]:+"CFLAGS_KERNEL=${cflags[$kernel]}"} -j"${JOBS:-$(nproc)}" all || failed "kernel $kernel did not build" "$log" "see the lines above; make again resumes"
    kill $pulse 2>/dev/null || :
    install_modules "$name" $arch
    # Remove files that only the kernel's own link needs; scripts, rust and headers are kept.
    find "$CACHE/$name" \( -path "*/scripts" -o -path "*/rust" -o -path "*/tools" -o -path "*/mods" \) -prune -o \
        -type f \( -name '*.o' -o -name '*.a' -o -name '*.ko' -o -name '.*.cmd' \) -print |
        grep -v '/module-common.o$' | xargs -r rm -f
    say "kernel $kernel built in $(minutes $((SECONDS - start)))"
}

# The C modules, in mods/ of the kernel's folder, as the guest mounts them.
install_modules() { # NAME ARCH
    quietly "$CACHE/$1.install.log" in_builder bash -euc "
        make -C /c/$1 ARCH=$2 LLVM=$LLVM_PREFIX INSTALL_MOD_PATH=/c/$1/mods INSTALL_MOD_STRIP=1 modules_install
        rm -f /c/$1/mods/lib/modules/*/build" || failed "the kernel's modules could not be installed" "$CACHE/$1.install.log" "see the lines above, then make again"
}

"$TOP/tools/roots.sh" builder
# A distribution's kernel is fetched, not built.
case ${1:-} in stock | stock-*) exec "$TOP/tools/stock.sh" "$1" ;; esac
case ${2:-} in stock | stock-*) exec "$TOP/tools/stock.sh" "$1" "$2" ;; esac
if [ "${1:-}" = --adopt ]; then adopt=$3; shift; fi
if [ "${1:-}" = --name ]; then name_of "$2"; exit; fi
if [ "${1:-}" = --source ]; then source_name; exit; fi
if [ "${1:-}" = --has ]; then . "$TOP/tools/patched.sh"; patched_is_there "$2"; exit; fi
if [ "${1:-}" = --unpack ]; then
    src=$(source_name)
    unpack "$src"
    exit
fi
[ -n "${fragments[${1:-}]:-}" ] || die "unknown kernel '${1:-}'" "KERNEL= is fast, um, um-lockdep, lockdep, kcsan, stock, stock-7.3, patched, patched-y or debug (um, then um-lockdep)"
case $1 in patched*) . "$TOP/tools/patched.sh"; make_patched "$1"; exit ;; esac
name=$(name_of "$1")
done_with "$name" && exit
lock kernel
# --adopt NAME DIR: use a folder of the cache, in which the same source was built manually, as the
# kernel NAME. Its configuration must have all symbols of the fragment.
if [ -n "${adopt:-}" ]; then
    fragment "$1" >"$CACHE/$adopt/wanted.config"
    lost=$(missing "$CACHE/$adopt/wanted.config" "$CACHE/$adopt/.config")
    [ -z "$lost" ] || die "$adopt lacks $(echo $lost)" "configure and build it so"
    install_modules "$adopt" x86_64
    ln -sfn "$adopt" "$CACHE/$name"
    publish "$name"
    exit
fi
done_with "$name" || { build "$1" "$name"; publish "$name"; }

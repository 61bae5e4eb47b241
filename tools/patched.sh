# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Part of kernel.sh: the kernels patched and patched-y, of a source to which the series of make
# patches was applied; all modules that we have are in Rust, loadable or built in. The configuration
# is that of fast, without mlx5 and hfi1, with overflow checks. Both are built in one folder, which
# stays in the cache with its object files, as does the patched copy of the source: when the series or
# the configuration changes, what depends on the change is built again. What the guest and test
# modules need of a kernel is copied from there to a folder of its own.
#
# EACH_PATCH=1 makes kernel.sh compile drivers/infiniband after each patch, whatever the cache
# has, before it builds the kernel. The seconds are in the log NAME.each. COMPILE_ONLY=1 compiles that
# folder after the last patch, and builds no kernel.

# The folder in which both are built.
patched_work() { name_of_any patched; }
# The patched copy of the source.
patched_source() { local src; src=$(source_name) || exit; echo "linux/patched-$(key "$src")"; }
# kernel.sh --has patched: the cache has that folder, with a kernel of this series or another.
patched_is_there() { done_with "$(patched_source)" && [ -e "$CACHE/$(patched_work)/vmlinux" ]; }
# The kernel is in the cache, of the series that this tree makes.
patched_is_done() { # NAME
    done_with "$1" && [ "$(cat "$CACHE/$1/series" 2>/dev/null)" = "$("$TOP/tools/patches.sh" --inputs)" ]
}

# A repository with the pristine files that the series changes: git am does not look at others.
am_begin() {
    local file src=$CACHE/$1
    rm -rf --one-file-system "$BUILD/am"
    mkdir -p "$BUILD/am"
    am init -q
    sed -n 's|^diff --git a/.* b/||p' "$BUILD/patches-$series"/*.patch | sort -u | while IFS= read -r file; do
        [ -e "$src/$file" ] || continue
        mkdir -p "$BUILD/am/$(dirname "$file")"
        cp "$src/$file" "$BUILD/am/$file"
    done
    am add -A
    am commit -q -m pristine
}
am() {
    GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=x GIT_AUTHOR_EMAIL=x@x.example \
        GIT_COMMITTER_NAME=x GIT_COMMITTER_EMAIL=x@x.example git -C "$BUILD/am" -c core.fsync=none -c gc.auto=0 "$@"
}
# The patched copy becomes what is in the repository. Files that are the same are not touched, so
# that make does not see them as new.
am_copy() { # COPY
    local file
    (cd "$BUILD/am" && git ls-files) | while IFS= read -r file; do
        cmp -s "$BUILD/am/$file" "$1/$file" && continue
        mkdir -p "$(dirname "$1/$file")"
        cp "$BUILD/am/$file" "$1/$file"
    done
    (cd "$1" && find drivers/infiniband/rust Documentation/infiniband/rust.rst -type f 2>/dev/null || :) | while IFS= read -r file; do
        [ -e "$BUILD/am/$file" ] || rm "$1/$file"
    done
}

patched_make() { # TARGET...
    in_builder nice -n 10 make -C "/c/$(patched_source)" O="/c/$(patched_work)" ARCH=x86_64 LLVM=$LLVM_PREFIX -j"${JOBS:-$(nproc)}" "$@"
}
patched_configure() { patched_make KCONFIG_ALLCONFIG="/c/$(patched_work)/wanted.config" allnoconfig; }
# after_patch NUMBER: the folder of the subsystem compiles, with the modules there are.
after_patch() {
    patched_configure && patched_make prepare drivers/infiniband/ || return
    # The first two patches and the last one have no module.
    local modules=$(($1 < 3 ? 0 : $1 - 2)) chosen
    [ "$modules" -le 9 ] || modules=9
    chosen=$(grep -cxFf <(grep '_RUST=y' "$TOP/tools/kernel/patched.config") "$CACHE/$(patched_work)/.config" || :)
    [ "$chosen" = $modules ] || { echo "error: $chosen modules are in Rust, not $modules"; return 1; }
}

build_patched() { # KERNEL NAME
    local kernel=$1 name=$2 log=$CACHE/$2.log start=$SECONDS src copy work patch number=0 since pulse lost inputs
    src=$(source_name)
    copy=$(patched_source)
    work=$(patched_work)
    unpack "$src"
    need_space 8 "a kernel build"
    inputs=$("$TOP/tools/patches.sh" --inputs)
    VERSION=$series "$TOP/tools/patches.sh"
    if ! done_with "$copy"; then
        say "a copy of the source, to be patched: a minute"
        rm -rf --one-file-system "${CACHE:?}/$copy"
        cp -a "$CACHE/$src" "$CACHE/$copy"
        publish "$copy"
    fi
    mkdir -p "$CACHE/$work"
    fragment "$kernel" >"$CACHE/$work/wanted.config"
    : >"$log"
    heartbeat "$log" "$kernel" "${expected[$kernel]}" &
    pulse=$!
    # shellcheck disable=SC2064
    trap "kill $pulse 2>/dev/null || :" EXIT
    am_begin "$src"
    : >"$CACHE/$name.each"
    for patch in "$BUILD/patches-$series"/*.patch; do
        number=$((number + 1)) since=$SECONDS
        am am -q "$patch" >>"$log" 2>&1 || failed "git am refused $(basename "$patch")" "$log" "see the lines above"
        [ -n "${EACH_PATCH:-}" ] || continue
        am_copy "$CACHE/$copy"
        after_patch $number >>"$log" 2>&1 </dev/null ||
            failed "the kernel does not build after $(basename "$patch")" "$log" "see the lines above"
        echo "$((SECONDS - since)) $(basename "$patch")" >>"$CACHE/$name.each"
    done
    am_copy "$CACHE/$copy"
    rm -rf --one-file-system "$BUILD/am"
    if [ -n "${COMPILE_ONLY:-}" ]; then
        after_patch $number >>"$log" 2>&1 </dev/null || failed "the patched kernel does not compile" "$log" "see the lines above"
        kill $pulse 2>/dev/null || :
        say "drivers/infiniband compiled in the patched source of $series, in $(minutes $((SECONDS - start)))"
        return
    fi
    patched_configure >>"$log" 2>&1 </dev/null || failed "the kernel could not be configured" "$log" "see the lines above"
    lost=$(missing "$CACHE/$work/wanted.config" "$CACHE/$work/.config")
    # shellcheck disable=SC2086
    [ -z "$lost" ] || die "this source does not take: $(echo $lost)" "correct tools/kernel/*.config"
    patched_make all >>"$log" 2>&1 </dev/null || failed "kernel $kernel did not build" "$log" "see the lines above; make again resumes"
    kill $pulse 2>/dev/null || :
    rm -rf --one-file-system "$CACHE/$work/mods" "${CACHE:?}/$name" "$CACHE/$name.ok"
    install_modules "$work" x86_64
    # Object files are of use in the first folder only.
    mkdir "$CACHE/$name"
    (cd "$CACHE/$work" && find . \( -path ./scripts -o -path ./tools -o -path ./rust -o -path ./mods \) -print0 -prune -o \
        -type f \( -name '*.o' -o -name '*.a' -o -name '*.ko' -o -name '.*.cmd' -o -name 'vmlinux*' -o -name '.tmp_vmlinux*' \) -prune -o ! -type d -print0 |
        xargs -0 cp -a --parents -t "$CACHE/$name")
    find "$CACHE/$work" -name module-common.o -printf '%P\n' | (cd "$CACHE/$work" && xargs -r cp -a --parents -t "$CACHE/$name")
    echo "$inputs" >"$CACHE/$name/series"
    publish "$name"
    say "kernel $kernel built in $(minutes $((SECONDS - start)))"
}

# make_patched KERNEL
make_patched() {
    local name
    name=$(name_of "$1")
    [ -z "${EACH_PATCH:-}${COMPILE_ONLY:-}" ] && patched_is_done "$name" && return
    lock kernel-patched
    [ -z "${EACH_PATCH:-}${COMPILE_ONLY:-}" ] && patched_is_done "$name" && return
    build_patched "$1" "$name"
}

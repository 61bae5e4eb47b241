# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# What every script of tools/ shares: where things are kept, how progress and
# failure are told, and how a command is run in the builder root. Sourced, never
# run. All long-lived results live in one cache outside the tree; a result X
# counts only when its stamp X.ok exists, and the stamp is written last, so an
# interrupted or failed step is never taken for a finished one.

set -euo pipefail
umask 022

TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/rust-rdma
BUILD=$TOP/build
LLVM_PREFIX=/usr/lib/llvm-19/bin/
mkdir -p "$CACHE" "$BUILD"

# say TEXT: print a progress line.
say() { printf '== %s\n' "$*" >&2; }

# die CAUSE REMEDY: print a line with both, and fail.
die() { printf 'error: %s; %s\n' "$1" "$2" >&2; exit 1; }

# key TEXT...: a short hash of the arguments.
key() { printf '%s\n' "$@" | sha256sum | cut -c1-12; }

# words FILE: the lines of a list file without comments, joined by commas.
words() { sed 's/#.*//' "$1" | xargs -n1 | paste -sd,; }

done_with() { [ -e "$CACHE/$1.ok" ] && [ -e "$CACHE/$1" ]; }
publish() { touch "$CACHE/$1.ok"; }

# lock NAME: wait until no other make works on NAME, and hold the lock until exit.
lock() {
    local fd
    exec {fd}>"$CACHE/$1.lock"
    flock -n "$fd" && return
    say "waiting for another make that works on $1"
    # A single call without timeout would outlive this script if that were killed, and keep the
    # locks that it inherited.
    until flock -w 5 "$fd"; do :; done
}

need_root() {
    [ "$(id -u)" = 0 ] || die "this step makes mounts and a chroot" "run make as root"
}

# need_space GIB WHAT
need_space() {
    local free
    free=$(df -Pk "$CACHE" | awk 'NR == 2 { print int($4 / 1048576) }')
    [ "$free" -ge "$1" ] ||
        die "$2 needs $1 GiB and $CACHE has $free GiB free" "free some space or set XDG_CACHE_HOME"
}

# user_mode KERNEL: whether it is a program of the host, User-Mode Linux.
user_mode() { case $1 in um | um-*) ;; *) false ;; esac; }

# minutes SECONDS: for progress lines.
minutes() { printf '%d min %02d s' $(($1 / 60)) $(($1 % 60)); }

# quietly LOG CMD...: run with all output in LOG.
quietly() {
    local log=$1
    shift
    "$@" >"$log" 2>&1 </dev/null
}

# failed WHAT LOG REMEDY: fail with the cause that LOG shows. A common cause is reported in one
# line; otherwise the end of LOG is shown.
failed() {
    local line
    if grep -qi 'no space left on device\|enough free space\|disk quota exceeded' "$2"; then
        die "$1: the disk is full" "free some space for $CACHE or set XDG_CACHE_HOME, then make again"
    fi
    if grep -qE 'Killed( |$)|[Oo]ut of memory|SIGKILL' "$2"; then
        die "$1: it was killed, as a machine out of memory does (log: $2)" "make again with JOBS=1"
    fi
    line=$(grep -m 1 -E 'Could not connect|Unable to connect|Could not resolve|Temporary failure resolving|Failed to fetch|Connection (refused|timed out)|404 +Not Found|failed to download|SSL (certificate|connect)' "$2" | cut -c1-160 || :)
    if [ -n "$line" ]; then
        die "$1: a download failed ($line)" "check the network and proxy settings, or give another MIRROR=, then make again"
    fi
    tail -n 15 "$2" >&2
    die "$1 (log: $2)" "$3"
}

builder_name() { echo "builder-$(key "$(words "$TOP/tools/roots/builder.packages")" trixie)"; }
guest_name() {
    echo "guest-$(key "$(words "$TOP/tools/roots/guest.packages")" "$(cat "$TOP/tools/guest/stub.sh")" trixie)"
}

# in_root ROOT CMD...: run CMD in the chroot ROOT, in a separate mount namespace, with the source
# tree at /src and the cache at /c. Only the environment variables named here are passed. The host's
# resolver, certificates and cargo configuration are available, because cargo fetches crates from
# inside.
in_root() {
    local root=$1
    shift
    need_root
    # shellcheck disable=SC2016
    TOP=$TOP CACHE=$CACHE root=$root \
        cargo_conf=${CARGO_HOME:-$HOME/.cargo}/config.toml \
        unshare -m bash -euc '
        for d in proc dev sys; do mount --rbind "/$d" "$root/$d"; done
        mkdir -p "$root/src" "$root/c" "$CACHE/cargo"
        mount --bind "$TOP" "$root/src"
        mount --bind "$CACHE" "$root/c"
        mount -t tmpfs tmp "$root/tmp"
        for f in /etc/resolv.conf /etc/ssl/certs/ca-certificates.crt; do
            if [ -e "$f" ] && [ -e "$root$f" ]; then mount --bind "$(readlink -f "$f")" "$root$f"; fi
        done
        if [ -e "$cargo_conf" ]; then cp "$cargo_conf" "$CACHE/cargo/config.toml"; fi
        keep=()
        for v in TERM http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY ${PASS:-}; do
            if [ -n "${!v+x}" ]; then keep+=("$v=${!v}"); fi
        done
        exec chroot "$root" /usr/bin/env -i HOME=/root LC_ALL=C.UTF-8 CARGO_HOME=/c/cargo \
            PATH=/usr/sbin:/usr/bin:/sbin:/bin "${keep[@]}" "$@"' in_root "$@"
}

in_builder() { in_root "$CACHE/$(builder_name)" "$@"; }
# host_cargo ARG...: run cargo on the host tests. All trees share one target folder, for the
# dependencies. Cargo would confuse two trees at the same path, so the workspace itself is rebuilt
# when the tree changes.
host_cargo() (
    lock target
    # shellcheck disable=SC2016
    in_builder bash -euc 'cd /src/tools/testing/host
        export CARGO_TARGET_DIR=/c/target
        if [ "$(cat /c/target/tree 2>/dev/null)" != "$0" ]; then
            for name in $(sed -n "/^\[package\]/,/^\[/s/^name = \"\(.*\)\"/\1/p" */Cargo.toml); do
                cargo clean -q -p "$name"
                cargo clean -q --release -p "$name"
            done
            mkdir -p /c/target
            echo "$0" >/c/target/tree
        fi
        exec nice cargo "$@"' "$TOP" "$@"
)

in_guest_root() { in_root "$CACHE/$(guest_name)" "$@"; }

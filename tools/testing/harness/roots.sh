# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# The roots, with a stub for mmdebstrap: an incomplete root is never used.

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
# shellcheck disable=SC2016
stub mmdebstrap 'case "$*" in *linux-source*) echo "E: Unable to locate package linux-source-7.2"; exit 1 ;; esac
for a; do case $a in */builder-*.tmp) mkdir "$a" && touch "$a/whole" ;; esac; done'
check "roots: an archive without the source of 7.2" again
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

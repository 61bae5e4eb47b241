#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# boot.sh OUT SCRIPT: boot one guest (or NODES=2 on one wire), run SCRIPT in it as
# root with our modules loaded, and return its exit status. OUT, a folder of
# build/, then contains for each node N: consoleN and shareN/, with output, dmesg and the
# files that the script wrote to /share. Status 124: killed at TIMEOUT; 125: the guest died.
#
#   KERNEL=fast  STACK=rust (STACK1=, STACK2= per node)  NODES=1  TIMEOUT=300
#   SHARE=DIR    more files for the share     LOAD="..."  modules to load first
#
# The suite's helpers and programs are in the guest as /share/tests: a script may
# start with ". /share/tests/rdma.sh" and "two_nodes".
#
#   SHELL_MODE=1 a shell on this terminal     ICOUNT=1    one instruction, one ns
#   QUIET=1      leave the output in OUT only SMP=2 MEM=2G ACCEL=tcg|kvm
#   PLUGIN=FILE,ARGS   a plugin of the emulator (tools/bench/profile)
. "$(dirname "$0")/lib.sh"

out=$1 script=$2
KERNEL=${KERNEL:-fast} STACK=${STACK:-rust} NODES=${NODES:-1} TIMEOUT=${TIMEOUT:-300}
SMP=${SMP:-2} MEM=${MEM:-2G}
[ -r "$script" ] || die "the script $script cannot be read" "give SCRIPT=FILE"

"$TOP/tools/roots.sh" guest
"$TOP/tools/kernel.sh" "$KERNEL"
mkdir -p "$BUILD/bin"
[ "${RDMA_TESTS:-}" = n ] || "$TOP/tools/programs.sh"
kernel=$("$TOP/tools/kernel.sh" --name "$KERNEL")
image=$(guest_name).img
mkdir -p "$out"
out=$(cd "$out" && pwd)
inside=/src/${out#"$TOP"/}

# Use KVM only if a stock guest boots on it; checked once per boot of this machine.
probe_accel() {
    local stamp
    if [ -n "${ACCEL:-}" ]; then echo "$ACCEL"; return; fi
    lock probe
    stamp=$CACHE/kvm-$(cut -c1-8 /proc/sys/kernel/random/boot_id)
    if [ ! -e "$stamp" ]; then
        rm -f "$CACHE"/kvm-*
        echo tcg >"$stamp"
        if [ -w /dev/kvm ] && in_builder timeout 20 qemu-system-x86_64 -accel kvm -cpu host -m 512M \
            -display none -no-reboot -serial stdio -kernel "/c/$1" -append 'console=ttyS0 panic=-1' \
            </dev/null 2>/dev/null | grep -q 'Unable to mount root'; then
            echo kvm >"$stamp"
        fi
    fi
    cat "$stamp"
}

# The guest's clock: see tsc.c. Empty on a host without such a counter. Both functions are called in
# a subshell, which ends the lock.
tsc_khz() {
    local stamp
    lock probe
    stamp=$CACHE/tsc-$(cut -c1-8 /proc/sys/kernel/random/boot_id)
    if [ ! -e "$stamp" ]; then
        rm -f "$CACHE"/tsc-*
        in_builder bash -c 'gcc -O2 -o "$1" /src/tools/tsc.c 2>/dev/null && "$1"; rm -f "$1"' tsc "/tmp/tsc-$$" </dev/null >"$stamp.tmp" || :
        mv "$stamp.tmp" "$stamp"
    fi
    cat "$stamp"
}

prepare() { # NODE
    local n=$1 stack=STACK$1
    stack=${!stack:-$STACK}
    rm -f "$out/console$n" "$out/pid$n" "$out/wire"
    mkdir -p "$out/share$n"
    cp -r "$TOP"/tools/guest/. "$out/share$n/"
    mkdir -p "$out/share$n/bin" "$out/share$n/tests"
    cp -r "$TOP"/tools/testing/guest/*.* "$TOP/Documentation/uverbs-abi.md" "$BUILD/bin" "$out/share$n/tests/"
    "$TOP/tools/features.sh" "$CACHE/$("$TOP/tools/kernel.sh" --source "$KERNEL")" >"$out/share$n/tests/features"
    if [ -n "${SHARE:-}" ]; then cp -r "$SHARE/." "$out/share$n/"; fi
    install -m 755 "$TOP/tools/guest/stack.sh" "$out/share$n/bin/stack"
    install -m 755 "$TOP/tools/deb/rust-rdma-status" "$out/share$n/bin/rust-rdma-status"
    cp "$script" "$out/share$n/script"
    # Tests that need an option look it up here.
    cp "$CACHE/$kernel/.config" "$out/share$n/config"
    {
        echo "NODE=$n NODES=$NODES KERNEL=$KERNEL STACK=$stack SHELL_MODE=${SHELL_MODE:-}"
        echo "ICOUNT=${ICOUNT:-} DURATION=${DURATION:-} SEED=${SEED:-} PATIENCE=${PATIENCE:-} PARTIAL='$("$TOP/tools/stage.sh" --partial "$stack")'"
        if [ -n "${LOAD+x}" ]; then echo "LOAD='$LOAD'"; fi
        if user_mode "$KERNEL"; then echo "MODS_DIR=$inside/mods$n/lib/modules"; fi
    } >"$out/share$n/env"
    if [ "$n" = 1 ] || [ "$stack" != "${STACK1:-$STACK}" ]; then
        "$TOP/tools/stage.sh" "$KERNEL" "$stack" "$out/mods$n"
    else
        rm -rf --one-file-system "$out/mods$n"
        cp -al "$out/mods1" "$out/mods$n"
    fi
}

command_of() { # NODE: the emulator's command line, in cmd
    local n=$1 append hz
    # On a busy host the emulated timer is late, and the kernel, testing it at boot, would
    # panic ("IO-APIC + timer doesn't work"): no_timer_check leaves that test out.
    append="root=/dev/vda rw init=/rdma-init console=ttyS0 panic=-1 oops=panic loglevel=6 kunit.enable=1 kunit.autorun=1 tsc=nowatchdog no_timer_check ${APPEND:-}"
    # The guest's measurement of its clock and delay loop would be wrong as well: pass both values.
    if [ -z "${ICOUNT:-}" ] && [ "$accel" = tcg ] && [ -n "$tsc" ]; then
        hz=$(sed -n 's/^CONFIG_HZ=//p' "$CACHE/$kernel/.config" 2>/dev/null || :)
        append+=" tsc_early_khz=$tsc${hz:+ lpj=$((tsc * 1000 / hz))}"
    fi
    # Delays in microseconds for which an access is watched. With the kernel's default of 80,
    # another CPU makes little progress in the emulator.
    if [ "$KERNEL" = kcsan ]; then
        append+=" kcsan.early_enable=1 kcsan.skip_watch=2000 kcsan.udelay_task=300 kcsan.udelay_interrupt=60"
    fi
    if user_mode "$KERNEL"; then
        cmd=("/c/$kernel/linux" "mem=$MEM" "ncpus=$SMP" seccomp=on "ubd0=$inside/cow$n,/c/$image"
            root=/dev/ubda rw init=/rdma-init con=null con0=null,fd:1 kunit.enable=1 kunit.autorun=1 "share=$inside/share$n" panic=-1)
        # shellcheck disable=SC2206
        cmd+=(${APPEND:-})
        rm -f "$out/cow$n"
        return
    fi
    cmd=(qemu-system-x86_64 -display none -no-reboot -nodefaults -m "$MEM"
        -kernel "/c/$kernel/arch/x86/boot/bzImage" -append "$append"
        -drive "file=/c/$image,format=raw,if=virtio,snapshot=on,file.locking=off"
        -virtfs "local,path=$inside/share$n,mount_tag=share,security_model=none"
        -virtfs "local,path=$inside/mods$n/lib/modules,mount_tag=mods,security_model=none,readonly=on"
        -serial "file:$inside/console$n"
        -device virtio-rng-pci)
    if [ -e "$CACHE/$kernel/initrd" ]; then cmd+=(-initrd "/c/$kernel/initrd"); fi
    if [ -n "${ICOUNT:-}" ]; then
        cmd+=(-accel "tcg,thread=single" -icount "shift=0,sleep=off" -cpu max -smp 1)
    elif [ "$accel" = kvm ]; then
        cmd+=(-accel kvm -cpu host -smp "$SMP")
    else
        cmd+=(-accel "tcg,thread=multi" -cpu max -smp "$SMP")
    fi
    if [ -n "${PLUGIN:-}" ]; then cmd+=(-plugin "file=$PLUGIN"); fi
    if [ -n "${SHELL_MODE:-}" ]; then
        cmd+=(-device virtio-serial-pci -device "virtconsole,chardev=tty" -chardev "stdio,id=tty,signal=off")
    fi
    if [ "$NODES" = 2 ]; then
        # A stream does not drop packets when a guest is slow, as datagrams would.
        local side=server=on
        [ "$n" = 1 ] || side=server=off,reconnect-ms=200
        cmd+=(-device "virtio-net-pci,netdev=wire,mac=52:54:00:00:00:0$n"
            -netdev "stream,id=wire,$side,addr.type=unix,addr.path=$inside/wire")
    fi
}

start() { # NODE
    local cmd
    command_of "$1"
    # shellcheck disable=SC2016
    local run=(in_builder bash -c 'echo $$ >"$1"; shift; exec "$@"' start "$inside/pid$1" "${cmd[@]}")
    if [ -n "${SHELL_MODE:-}" ]; then
        "${run[@]}" <&0
    elif user_mode "$KERNEL"; then
        "${run[@]}" </dev/null >"$out/console$1" 2>&1 &
    else
        "${run[@]}" </dev/null >"$out/emulator$1" 2>&1 &
    fi
}

running() { [ -s "$out/pid$1" ] && kill -0 "$(cat "$out/pid$1")" 2>/dev/null; }

stop_all() {
    local n
    if [ -n "${follow:-}" ]; then kill "$follow" 2>/dev/null || :; fi
    for n in $(seq "$NODES"); do
        if running "$n"; then kill -9 "$(cat "$out/pid$n")" 2>/dev/null || :; fi
        rm -f "$out/pid$n" "$out/cow$n"
    done
}

# Time in seconds without console output after which a guest that has not reached init.sh is
# considered hung. None of our modules is loaded before that. (Seen about once in a hundred boots,
# after the disk was found.)
still=180

# boot_hangs NODE SECONDS: whether the node makes no progress, SECONDS after the start. Must be
# called periodically, because it compares the console with that of the last call.
declare -A length=() since=()
boot_hangs() {
    local now
    [ ! -e "$out/share$1/reached" ] || return
    now=$(stat -c %s "$out/console$1" 2>/dev/null || echo 0)
    if [ "$now" != "${length[$1]:-}" ]; then length[$1]=$now since[$1]=$2; fi
    [ $(($2 - since[$1])) -ge $still ]
}

# wait_all ATTEMPT: wait until all nodes have ended. 0: ended, 1: timeout, 2: a node hangs in its
# first boot.
wait_all() {
    local begun=$SECONDS n alive
    length=() since=()
    while :; do
        alive=
        for n in $(seq "$NODES"); do
            if ! running "$n"; then continue; fi
            alive=1
            if [ "$1" = 1 ] && boot_hangs "$n" $((SECONDS - begun)); then return 2; fi
        done
        [ -n "$alive" ] || return 0
        [ $((SECONDS - begun)) -lt "$TIMEOUT" ] || return 1
        sleep 0.2
    done
}

trap stop_all EXIT
trap 'exit 130' INT TERM
accel=tcg
tsc=$(tsc_khz)
user_mode "$KERNEL" || accel=$(probe_accel "$kernel/arch/x86/boot/bzImage")
for attempt in 1 2; do
    rm -rf --one-file-system "$out"/share?
    for n in $(seq "$NODES"); do prepare "$n"; : >"$out/share$n/output"; done
    for n in $(seq "$NODES"); do start "$n"; done
    if [ -n "${SHELL_MODE:-}" ]; then break; fi
    # The pid file appears a moment after the start.
    for _ in $(seq 50); do if [ -s "$out/pid$NODES" ]; then break; fi; sleep 0.1; done
    follow=
    if [ -z "${QUIET:-}" ]; then
        tail -q -n +1 -F "$out"/share?/output 2>/dev/null &
        follow=$!
    fi
    verdict=0
    wait_all $attempt || verdict=$?
    if [ -n "$follow" ]; then
        sleep 0.3
        kill "$follow" 2>/dev/null || :
        wait "$follow" 2>/dev/null || :
    fi
    if [ "$verdict" != 2 ]; then break; fi
    say "a guest hung while it booted, before any module of ours; booting again, once. Its console ended with:"
    for n in $(seq "$NODES"); do grep -a . "$out/console$n" 2>/dev/null | tail -n 2 >&2 || :; done
    stop_all
done

status=0
for n in $(seq "$NODES"); do
    s=$(cat "$out/share$n/status" 2>/dev/null || :)
    if [ -z "$s" ]; then
        if [ "${verdict:-0}" = 1 ]; then
            s=124
            say "node $n was killed after $TIMEOUT s (TIMEOUT=); its console: ${out#"$TOP"/}/console$n"
        else
            s=125
            say "node $n ended before the script did; its console: ${out#"$TOP"/}/console$n"
            tail -n 5 "$out/emulator$n" "$out/console$n" >&2 2>/dev/null || :
        fi
    fi
    [ "$status" != 0 ] || status=$s
done
exit "$status"

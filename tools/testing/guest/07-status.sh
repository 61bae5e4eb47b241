# SPDX-License-Identifier: GPL-2.0
# limit: 240
# short: stock stock-7.3
# rust-rdma-status: which modules are loaded, Rust or C, and whether modprobe would take them. It
# reads little of each file: on a distribution's kernel, modules with debugging information have
# tens of megabytes.
. ./ktap.sh
. ./rdma.sh

tree=/lib/modules/$(uname -r)
short() {
    within 60 rust-rdma-status --short >/tmp/status || return
    cat /tmp/status
    diff <(awk '{ print $1, $2 }' /tmp/status) <(stack) && ! grep another /tmp/status
}
full() {
    within 60 rust-rdma-status >/tmp/status || return
    cat /tmp/status
    awk '$2 != "-" && NR > 1 && !/another file/ { print $1, $2 }' /tmp/status | diff - <(stack)
}
takes() { # MODULE KIND FOLDER
    awk -v name="$1" -v kind="$2" -v folder="$tree/$3/" '$1 == name { print }
        $1 == name && $2 == kind && sub(/,$/, "", $(NF - 1)) && $3 ~ "^" kind && index($NF, folder) == 1 { found = 1 }
        END { exit !found }' /tmp/status
}
# A file that differs from the one of modprobe in its build ID alone.
other() { # MODULE FILE
    python3 - "/sys/module/$1/notes/.note.gnu.build-id" "$tree/updates/$1.ko" "$2" <<'END'
import sys
note, file = (open(name, "rb").read() for name in sys.argv[1:3])
assert file.count(note) == 1
open(sys.argv[3], "wb").write(file.replace(note, note[:-1] + bytes([note[-1] ^ 1])))
END
}
swap() { # MODULE FILE
    rmmod "$1" && insmod "$2"
}
tells() { # MODULE TEXT
    rust-rdma-status --short | tee /dev/stderr | grep -qE "^$1 +$2\$"
}
told_apart() {
    other ib_umad /tmp/other.ko && swap ib_umad /tmp/other.ko && tells ib_umad "rust [(]another file[)]"
}
c_instead() {
    swap ib_umad "$tree/kernel/drivers/infiniband/core/ib_umad.ko" && tells ib_umad "c [(]another file[)]"
}
back() { rmmod ib_umad && modprobe ib_umad && tells ib_umad rust; }

check "in short, what is loaded" short
check "in full, what is loaded" full
for name in ib_core rdma_rxe; do
    if ours $name; then
        check "modprobe takes our $name" takes $name rust updates
    else
        check "modprobe takes the kernel's $name" takes $name c kernel
    fi
done
if ours ib_umad; then
    check "another file of ours is told apart" told_apart
    check "so is the C module" c_instead
    check "ours again" back
fi
refuse "a wrong option" rust-rdma-status --long
finish

# SPDX-License-Identifier: GPL-2.0
# limit: 180
# The kernel's own tests of RDMA, tools/testing/selftests/rdma of the source that the
# guest's kernel was built from (put on the share by the runner, not part of this tree).
. ./ktap.sh
. ./rdma.sh

# The tests load and unload the driver themselves. One of them opens /dev/net/tun without loading its
# module, which udev's static node does where it is a module.
selftest() {
    local status=0
    modprobe tun
    within 60 bash "/share/selftests/rdma/$1" || status=$?
    ip -all netns del 2>/dev/null
    modprobe rdma_rxe
    return $status
}

# An empty folder would be no case at all.
there_are_some() { [ "$(ls /share/selftests/rdma/*.sh | tee /dev/stderr | wc -l)" -ge 4 ]; }
check "the kernel's selftests are there" there_are_some
for path in /share/selftests/rdma/*.sh; do
    name=$(basename "$path")
    case $name in
    *rping*) check_with rdma_ucm "$name" selftest "$name" ;;
    *) check "$name" selftest "$name" ;;
    esac
done
finish

# SPDX-License-Identifier: GPL-2.0
# limit: 400
# short
# The hooks of security modules, with SELinux and a policy of ours: queue pairs, shared ones, and
# agents of management on InfiniBand ports that may use a partition and that may not, on our core and
# then on the C one, where all must be the same. A policy cannot be taken out again: it is not
# enforced afterwards.
. ./ktap.sh
. ./rdma.sh
. ./two_cores.sh

needs CONFIG_SECURITY_INFINIBAND -- "hooks of security modules"
if ! grep -q selinux /sys/kernel/security/lsm 2>/dev/null && ! mount -t securityfs none /sys/kernel/security 2>/dev/null; then
    skip "hooks of security modules" "this kernel has no securityfs"
    finish
fi
if ! grep -q selinux /sys/kernel/security/lsm; then
    skip "hooks of security modules" "this kernel has no SELinux"
    finish
fi
with_fakeib "hooks of security modules"
load_policy() {
    checkpolicy -U allow -o /tmp/policy security.conf || return
    mountpoint -q /sys/fs/selinux || mount -t selinuxfs none /sys/fs/selinux || return
    # In one write.
    dd if=/tmp/policy of=/sys/fs/selinux/load bs=16M status=none
}
says() { grep -qxF -- "$1" /tmp/ours/security.txt || { cat /tmp/ours/security.txt; return 1; }; }

check "a policy is loaded" load_policy
on_both_cores "hooks of security modules" ./security_steps.sh fakeib
check "the steps end well" says "status 0"
check "a partition that is allowed" says "friend, red partition: ok"
check "one that is denied" says "stranger, red partition: EACCES"
check "a queue pair that loses access" says "the stranger in red is stopped: yes"
check "an agent that is denied" says "a stranger manages: EACCES"
check "one who may not open what is shared" says "a stranger opens it: EACCES"
check "one because of whom others may not" says "the friend takes it to red: EACCES"
check "a shared queue pair that loses access" says "what both have open is stopped: yes"
told() { [ "$(grep -c 'is told that$' /tmp/ours/told)" = 7 ] || { cat /tmp/ours/told; return 1; }; }
check "who is stopped is told" told
same_as names 1
finish

# SPDX-License-Identifier: GPL-2.0
"""paths.py DEVICE GID4 GID6: where a connected queue pair of DEVICE may lead. One line for
each destination: what came of it, and whether it took the second that a silent neighbour
is given."""
import errno
import ipaddress
import subprocess
import sys
import time

import pyverbs.enums as e
from pyverbs.addr import AHAttr, GID, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsError, PyverbsRDMAError
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr

from together import together

device, gid4, gid6 = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
ctx = Context(name=device)
pd = PD(ctx)
cq = CQ(ctx, 64)
TO_RTR = (e.IBV_QP_STATE | e.IBV_QP_AV | e.IBV_QP_PATH_MTU | e.IBV_QP_DEST_QPN | e.IBV_QP_RQ_PSN |
          e.IBV_QP_MAX_DEST_RD_ATOMIC | e.IBV_QP_MIN_RNR_TIMER)


def name_of(code):
    return errno.errorcode.get(abs(code), code) if code else "ok"


def code_of(call):
    try:
        call()
        return 0
    except PyverbsRDMAError as error:
        return error.error_code
    except PyverbsError as error:
        return error


def gid(text):
    if ipaddress.ip_address(text).version == 4:
        text = "::ffff:" + text
    return GID(ipaddress.IPv6Address(text).packed.hex(":", 2))


def init():
    cap = QPCap(max_send_wr=4, max_recv_wr=4, max_send_sge=1, max_recv_sge=1)
    qp = QP(pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=cq, rcq=cq, cap=cap))
    attr = QPAttr(qp_state=e.IBV_QPS_INIT, port_num=1)
    qp.modify(attr, e.IBV_QP_STATE | e.IBV_QP_PKEY_INDEX | e.IBV_QP_PORT | e.IBV_QP_ACCESS_FLAGS)
    return qp


def rtr(qp, dgid, sgid_index, mask=0, is_global=1, port=1, **more):
    route = GlobalRoute(dgid=gid(dgid), sgid_index=sgid_index, flow_label=more.pop("label", 0))
    attr = QPAttr(qp_state=e.IBV_QPS_RTR)
    attr.ah_attr = AHAttr(gr=route, is_global=is_global, port_num=port)
    attr.path_mtu, attr.dest_qp_num, attr.rq_psn = 3, qp.qp_num, 0
    attr.max_dest_rd_atomic, attr.min_rnr_timer = 1, 12
    for key, value in more.items():
        setattr(attr, key, value)
    return code_of(lambda: qp.modify(attr, TO_RTR | mask))


def case(name, *args, **kwargs):
    start = time.monotonic()
    code = rtr(init(), *args, **kwargs)
    waited = "waited" if time.monotonic() - start > 0.9 else "at once"
    # On a slow machine "at once" says nothing; a wait that should be is another matter.
    print(f"{name}: {name_of(code)}{', waited' if code == errno.ETIMEDOUT and waited == 'waited' else ''}")


case("own address", "10.0.1.1", gid4)
case("own address, IPv6", "fd01::1", gid6)
case("neighbour", "10.0.1.2", gid4)
case("neighbour, IPv6", "fd01::2", gid6)
case("neighbour with a flow label", "10.0.1.2", gid4, label=0x12345)
case("loopback", "127.0.0.1", gid4)
case("nobody there", "10.0.1.77", gid4)
case("nobody there, IPv6", "fd01::77", gid6)
case("no route", "203.0.113.9", gid4)
case("no route, IPv6", "2001:db8::9", gid6)
case("by a gateway", "198.51.100.9", gid4)
case("another family", "fd01::2", gid4)
case("another family, the other way", "10.0.1.2", gid6)
case("group", "224.0.0.5", gid4)
case("group, IPv6", "ff02::5", gid6)
case("zero", "::", gid6)
case("no such index", "10.0.1.2", 200)
case("empty index", "10.0.1.2", 30)
case("no global route", "10.0.1.2", gid4, is_global=0)
case("no such port", "10.0.1.2", gid4, port=2)
case("port 0", "10.0.1.2", gid4, port=0)
alternate = AHAttr(gr=GlobalRoute(dgid=gid("10.0.1.2"), sgid_index=gid4), is_global=1, port_num=1)
case("alternate path", "10.0.1.2", gid4, mask=e.IBV_QP_ALT_PATH, alt_ah_attr=alternate, alt_port_num=1)
case("PSN of 25 bits", "10.0.1.2", gid4, rq_psn=0x1000001)

# A neighbour that becomes known while it is waited for. That is a second, in which a busy machine may
# not get round to telling it.
for host in range(78, 83):
    late = subprocess.Popen(f"sleep 0.3; ip neigh replace 10.0.1.{host} lladdr 02:00:00:00:00:78 nud permanent dev v1",
                            shell=True)
    code = rtr(init(), f"10.0.1.{host}", gid4)
    late.wait()
    if code != errno.ETIMEDOUT:
        break
print(f"known later: {name_of(code)}")

# Two that change one queue pair at a time: each path's GID is given up once.
qp = init()
rtr(qp, "10.0.1.2", gid4)


def again():
    for i in range(200):
        attr = QPAttr(qp_state=e.IBV_QPS_RESET)
        code_of(lambda: qp.modify(attr, e.IBV_QP_STATE))
        attr = QPAttr(qp_state=e.IBV_QPS_INIT, port_num=1)
        code_of(lambda: qp.modify(attr, e.IBV_QP_STATE | e.IBV_QP_PKEY_INDEX | e.IBV_QP_PORT | e.IBV_QP_ACCESS_FLAGS))
        rtr(qp, "10.0.1.2", gid4)


together([again] * 4)
print("changed by four at a time")

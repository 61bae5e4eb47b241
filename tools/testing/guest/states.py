# SPDX-License-Identifier: GPL-2.0
"""states.py DEVICE1 GID1 DEVICE2 GID2: what states of queue pairs do, and what
attributes become of what is asked for. See ends.py."""
import sys

import pyverbs.enums as e
from pyverbs.wr import SGE, RecvWR, SendWR

from ends import *

dev1, gid1, dev2, gid2 = sys.argv[1:5]
del sys.argv[1:5]
PORT_MTU = e.IBV_MTU_1024


def ends():
    return End(dev1, int(gid1)), End(dev2, int(gid2))


def send(end, peer_end, qp, peer, kind, sge, ah=None):
    wr = SendWR(opcode=e.IBV_WR_SEND, num_sge=1, sg=[sge], send_flags=e.IBV_SEND_SIGNALED)
    if kind == e.IBV_QPT_UD:
        wr.set_wr_ud(ah, peer.qp_num, QKEY)
    qp.post_send(wr)


def sqe(kind):
    """A send that fails costs the send queue only (IBTA 10.3.1.7)."""
    a, b = ends()
    qp, peer = connect(a, b, kind)
    ah = a.ah_to(b) if kind == e.IBV_QPT_UD else None
    bad = SGE(a.base, 100, a.mr.lkey + 0x100)
    send(a, b, qp, peer, kind, bad, ah)
    equal("status of the bad send", a.statuses(), [e.IBV_WC_LOC_PROT_ERR])
    equal("state", state(qp), e.IBV_QPS_SQE)
    send(a, b, qp, peer, kind, a.sge(0, 100), ah)
    equal("status of a send in SQE", a.statuses(), [e.IBV_WC_WR_FLUSH_ERR])
    # The receive side goes on.
    qp.post_recv(RecvWR(sg=[a.sge(4096, 1000)], num_sge=1))
    send(b, a, peer, qp, kind, b.sge(0, 100), b.ah_to(a) if ah else None)
    equal("the peer's send", b.statuses(), [e.IBV_WC_SUCCESS])
    equal("receive in SQE", a.statuses(), [e.IBV_WC_SUCCESS])
    # And the user may go on.
    set_state(qp, e.IBV_QPS_RTS, e.IBV_QP_CUR_STATE, cur_qp_state=e.IBV_QPS_SQE)
    equal("state", state(qp), e.IBV_QPS_RTS)
    peer.post_recv(RecvWR(sg=[b.sge(4096, 1000)], num_sge=1))
    send(a, b, qp, peer, kind, a.sge(0, 100), ah)
    equal("a send afterwards", a.statuses(), [e.IBV_WC_SUCCESS])
    equal("its receive", b.statuses(), [e.IBV_WC_SUCCESS])
    set_state(qp, e.IBV_QPS_ERR)
    equal("state", state(qp), e.IBV_QPS_ERR)


def rc_has_no_sqe():
    a, b = ends()
    qp, peer = connect(a, b, e.IBV_QPT_RC)
    send(a, b, qp, peer, e.IBV_QPT_RC, SGE(a.base, 100, a.mr.lkey + 0x100))
    equal("status of the bad send", a.statuses(), [e.IBV_WC_LOC_PROT_ERR])
    equal("state", state(qp), e.IBV_QPS_ERR)


def path_mtu(kind):
    """A path MTU beyond the port's is clamped to it."""
    a, b = ends()
    qp, peer = connect(a, b, kind, mtu=e.IBV_MTU_4096)
    equal("path MTU", qp.query(e.IBV_QP_PATH_MTU)[0].path_mtu, PORT_MTU)
    a.mr.write("x" * 10000, 10000)
    peer.post_recv(RecvWR(sg=[b.sge(0, 10000)], num_sge=1))
    send(a, b, qp, peer, kind, a.sge(0, 10000))
    equal("a send of many packets", a.statuses(), [e.IBV_WC_SUCCESS])
    equal("its receive", b.statuses(), [e.IBV_WC_SUCCESS])
    equal("its bytes", b.mr.read(10000, 0), b"x" * 10000)


def small_path_mtu():
    """One below the port's is left alone."""
    a, b = ends()
    qp, _ = connect(a, b, e.IBV_QPT_RC, mtu=e.IBV_MTU_256)
    equal("path MTU", qp.query(e.IBV_QP_PATH_MTU)[0].path_mtu, e.IBV_MTU_256)


def read_depth():
    """Depths are rounded up to powers of two: the C driver asks four reads of who said three."""
    a, b = ends()
    kind = e.IBV_QPT_RC
    qp, peer = a.qp(kind), b.qp(kind)
    for own, end, far, far_end, asks, serves in ((qp, a, peer, b, 4, 4), (peer, b, qp, a, 3, 3)):
        to_init(own, kind)
        to_rtr(own, kind, end.path_to(far_end), far.qp_num, depth=serves)
        to_rts(own, kind, depth=asks)
    told = peer.query(e.IBV_QP_MAX_DEST_RD_ATOMIC | e.IBV_QP_MAX_QP_RD_ATOMIC)[0]
    equal("depths", (told.max_dest_rd_atomic, told.max_rd_atomic), (4, 4))
    # All at once; the last one has the C driver go on.
    set_state(qp, e.IBV_QPS_SQD)
    for i in range(12):
        if i == 11:
            set_state(qp, e.IBV_QPS_RTS)
        wr = SendWR(opcode=e.IBV_WR_RDMA_READ, num_sge=1, sg=[a.sge(0, 8000)], send_flags=e.IBV_SEND_SIGNALED)
        wr.set_wr_rdma(b.mr.rkey, b.base)
        qp.post_send(wr)
    equal("reads", a.statuses(12), [e.IBV_WC_SUCCESS] * 12)


def wrong_qkey():
    """A datagram with the wrong Q_Key is dropped, and counted where it comes to."""
    a, b = ends()
    kind = e.IBV_QPT_UD
    qp, peer = connect(a, b, kind)
    ah = a.ah_to(b)
    peer.post_recv(RecvWR(sg=[b.sge(4096, 1000)], num_sge=1))
    before = b.ctx.query_port(1).qkey_viol_cntr
    for key in QKEY + 1, QKEY + 2, QKEY:
        wr = SendWR(opcode=e.IBV_WR_SEND, num_sge=1, sg=[a.sge(0, key - QKEY + 1)], send_flags=e.IBV_SEND_SIGNALED)
        wr.set_wr_ud(ah, peer.qp_num, key)
        qp.post_send(wr)
    equal("sends", a.statuses(3), [e.IBV_WC_SUCCESS] * 3)
    got = b.wait()
    equal("bytes of what was received", [wc.byte_len for wc in got], [GRH + 1])
    equal("violations", b.ctx.query_port(1).qkey_viol_cntr - before, 2)


def flow_label():
    """Packets that the caller watches: flow label and traffic class of the path."""
    a, b = ends()
    for kind in e.IBV_QPT_RC, e.IBV_QPT_UD:
        qp, peer = connect(a, b, kind, flow_label=0xabcde, traffic_class=0x48)
        ah = a.ah_to(b, flow_label=0xabcde, traffic_class=0x48)
        peer.post_recv(RecvWR(sg=[b.sge(0, 1000)], num_sge=1))
        send(a, b, qp, peer, kind, a.sge(0, 100), ah)
        equal("a send", a.statuses(), [e.IBV_WC_SUCCESS])
        equal("its receive", b.statuses(), [e.IBV_WC_SUCCESS])
        if kind == e.IBV_QPT_UD:
            head = b.mr.read(40, 0)
            equal("the GRH", head[:4].hex(), "648abcde")


sys.exit(main({
    "sqe-ud": lambda: sqe(e.IBV_QPT_UD),
    "sqe-uc": lambda: sqe(e.IBV_QPT_UC),
    "rc-has-no-sqe": rc_has_no_sqe,
    "path-mtu-rc": lambda: path_mtu(e.IBV_QPT_RC),
    "path-mtu-uc": lambda: path_mtu(e.IBV_QPT_UC),
    "path-mtu-small": small_path_mtu,
    "read-depth": read_depth,
    "wrong-qkey": wrong_qkey,
    "flow-label": flow_label,
}))

# SPDX-License-Identifier: GPL-2.0
"""Queue pairs of two devices in one process, for tests that pyverbs suits best.

A case is a function; `main` runs those named on the command line, or all, and prints
"ok NAME" or "not ok NAME: why" and at last "end", as the programs in src do (result.h). Devices are seen from every
namespace, so one process can have both ends.
"""
import os
import sys
import time
import traceback

import pyverbs.enums as e
from pyverbs.addr import AH, AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

SCALE = 1 if os.environ.get("SCALE") is None else int(os.environ["SCALE"])
ALL = (e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE
       | e.IBV_ACCESS_REMOTE_READ | e.IBV_ACCESS_REMOTE_ATOMIC)
QKEY = 0x11111111
GRH = 40


class End:
    """One device: context, protection domain, a completion queue, a region."""

    def __init__(self, name, gid, size=1 << 16, access=ALL, address=None):
        self.ctx = Context(name=name)
        self.gid_index = gid
        self.gid = self.ctx.query_gid(1, gid)
        self.pd = PD(self.ctx)
        self.cq = CQ(self.ctx, 256)
        self.mr = MR(self.pd, size, access, address=address)
        self.base = self.mr.buf

    def qp(self, kind, pd=None, wr=64):
        cap = QPCap(max_send_wr=wr, max_recv_wr=wr, max_send_sge=4, max_recv_sge=4, max_inline_data=64)
        init = QPInitAttr(qp_type=kind, scq=self.cq, rcq=self.cq, cap=cap, sq_sig_all=1)
        return QP(pd or self.pd, init)

    def sge(self, offset, length, mr=None):
        mr = mr or self.mr
        return SGE(mr.buf + offset, length, mr.lkey)

    def path_to(self, peer, flow_label=0, traffic_class=0):
        route = GlobalRoute(dgid=peer.gid, sgid_index=self.gid_index, hop_limit=64,
                            flow_label=flow_label, traffic_class=traffic_class)
        return AHAttr(gr=route, is_global=1, port_num=1)

    def ah_to(self, peer, **more):
        return AH(self.pd, attr=self.path_to(peer, **more))

    def wait(self, count=1, limit=30.0):
        """The next completions, in order; fewer if they do not come in time."""
        got, end = [], time.monotonic() + limit * SCALE
        while len(got) < count and time.monotonic() < end:
            got += self.cq.poll(count - len(got))[1]
        return got

    def statuses(self, count=1, limit=30.0):
        return [wc.status for wc in self.wait(count, limit)]


def to_init(qp, kind, access=ALL):
    attr = QPAttr(port_num=1)
    attr.qp_state = e.IBV_QPS_INIT
    mask = e.IBV_QP_STATE | e.IBV_QP_PKEY_INDEX | e.IBV_QP_PORT
    if kind == e.IBV_QPT_UD:
        attr.qkey = QKEY
        mask |= e.IBV_QP_QKEY
    else:
        attr.qp_access_flags = access
        mask |= e.IBV_QP_ACCESS_FLAGS
    qp.modify(attr, mask)


def to_rtr(qp, kind, path=None, peer=None, mtu=e.IBV_MTU_1024, depth=4):
    attr = QPAttr()
    attr.qp_state = e.IBV_QPS_RTR
    mask = e.IBV_QP_STATE
    if kind != e.IBV_QPT_UD:
        attr.ah_attr = path
        attr.path_mtu = mtu
        attr.dest_qp_num = peer
        attr.rq_psn = 0
        mask |= e.IBV_QP_AV | e.IBV_QP_PATH_MTU | e.IBV_QP_DEST_QPN | e.IBV_QP_RQ_PSN
    if kind == e.IBV_QPT_RC:
        attr.max_dest_rd_atomic = depth
        attr.min_rnr_timer = 12
        mask |= e.IBV_QP_MAX_DEST_RD_ATOMIC | e.IBV_QP_MIN_RNR_TIMER
    qp.modify(attr, mask)


def to_rts(qp, kind, timeout=16, retry=7, rnr=7, depth=4):
    attr = QPAttr()
    attr.qp_state = e.IBV_QPS_RTS
    attr.sq_psn = 0
    mask = e.IBV_QP_STATE | e.IBV_QP_SQ_PSN
    if kind == e.IBV_QPT_RC:
        attr.timeout = timeout
        attr.retry_cnt = retry
        attr.rnr_retry = rnr
        attr.max_rd_atomic = depth
        mask |= e.IBV_QP_TIMEOUT | e.IBV_QP_RETRY_CNT | e.IBV_QP_RNR_RETRY | e.IBV_QP_MAX_QP_RD_ATOMIC
    qp.modify(attr, mask)


def connect(a, b, kind, access=ALL, mtu=e.IBV_MTU_1024, **path):
    """A queue pair at each end, connected with each other and ready to send."""
    qps = a.qp(kind), b.qp(kind)
    for qp, own, other, far in ((qps[0], a, qps[1], b), (qps[1], b, qps[0], a)):
        to_init(qp, kind, access)
        to_rtr(qp, kind, own.path_to(far, **path), other.qp_num, mtu)
        to_rts(qp, kind)
    return qps


def state(qp):
    return qp.query(e.IBV_QP_STATE)[0].qp_state


def set_state(qp, new, mask=0, **attrs):
    attr = QPAttr()
    attr.qp_state = new
    for name, value in attrs.items():
        setattr(attr, name, value)
    qp.modify(attr, mask | e.IBV_QP_STATE)


def equal(what, got, want):
    if got != want:
        raise AssertionError(f"{what} is {got}, not {want}")


def main(cases):
    wanted, bad = sys.argv[1:] or list(cases), 0
    for name in wanted:
        try:
            cases[name]()
            print("ok", name, flush=True)
        except Exception as error:  # Any failure is one failed case.
            bad = 1
            why = traceback.extract_tb(error.__traceback__)[-1]
            print(f"not ok {name}: {error} ({os.path.basename(why.filename)}:{why.lineno})", flush=True)
    print("end", flush=True)
    return bad

# SPDX-License-Identifier: GPL-2.0
"""Make objects of every kind on a device, print what came of each attempt, and wait.

    core_objects.py DEVICE
"""
import os
import sys
import time

import pyverbs.enums as e
from pyverbs.addr import AHAttr, GlobalRoute, AH
from pyverbs.cq import CQ, CompChannel
from pyverbs.device import Context
from pyverbs.mr import MR, MW
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsError
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr
from pyverbs.xrcd import XRCD, XRCDInitAttr

kept = []


def attempt(name, make):
    """Keep what make() returns; a refusal with its errno is a result as well."""
    try:
        thing = make()
        kept.append(thing)
        print(name, "ok")
        return thing
    except PyverbsError as error:
        print(name, getattr(error, "error_code", None), str(error).split(".")[0])
    except Exception as error:  # what the library itself refuses
        print(name, type(error).__name__)
    return None


ctx = Context(name=sys.argv[1])
kept.append(ctx)
pds = [attempt("pd", lambda: PD(ctx)) for _ in range(3)]
pd = pds[0]
channel = attempt("channel", lambda: CompChannel(ctx))
for size in (1, 16, 1000, 0, -1, 1 << 30):
    attempt(f"cq {size}", lambda: CQ(ctx, size))
cq = attempt("cq with channel", lambda: CQ(ctx, 64, None, channel, 0))
attempt("cq vector 9999", lambda: CQ(ctx, 64, None, channel, 9999))
for length in (1, 4096, 1 << 20):
    for access in (0, e.IBV_ACCESS_LOCAL_WRITE, e.IBV_ACCESS_REMOTE_WRITE,
                   e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_READ, 1 << 30):
        attempt(f"mr {length} {access:#x}", lambda: MR(pd, length, access))
for kind in (e.IBV_MW_TYPE_1, e.IBV_MW_TYPE_2):
    attempt(f"mw {kind}", lambda: MW(pd, kind))
for wr in (1, 100, 1 << 20):
    srq = attempt(f"srq {wr}", lambda: SRQ(pd, SrqInitAttr(SrqAttr(max_wr=wr, max_sge=1))))


def qp(kind, wr=16, sge=1, q=cq, attr=None):
    init = QPInitAttr(qp_type=kind, scq=q, rcq=q, cap=QPCap(max_send_wr=wr, max_recv_wr=wr, max_send_sge=sge, max_recv_sge=sge))
    return QP(pd, init, attr)


for kind in (e.IBV_QPT_RC, e.IBV_QPT_UC, e.IBV_QPT_UD, e.IBV_QPT_RAW_PACKET, 99):
    attempt(f"qp {kind}", lambda: qp(kind))
attempt("qp too large", lambda: qp(e.IBV_QPT_RC, wr=1 << 24))
attempt("qp too wide", lambda: qp(e.IBV_QPT_RC, sge=1 << 12))
# Every step of the states that leads nowhere, and those that do.
one = qp(e.IBV_QPT_RC)
kept.append(one)


def move(name, mask, **fields):
    attr = QPAttr(**{k: v for k, v in fields.items() if k in ("qp_state", "port_num", "path_mtu")})
    for k, v in fields.items():
        setattr(attr, k, v)
    attempt("modify " + name, lambda: one.modify(attr, mask) or name)


move("reset to rtr", e.IBV_QP_STATE, qp_state=e.IBV_QPS_RTR)
move("init, nothing given", e.IBV_QP_STATE, qp_state=e.IBV_QPS_INIT)
full = e.IBV_QP_STATE | e.IBV_QP_PKEY_INDEX | e.IBV_QP_PORT | e.IBV_QP_ACCESS_FLAGS
move("init, port 2", full, qp_state=e.IBV_QPS_INIT, port_num=2)
move("init", full, qp_state=e.IBV_QPS_INIT, port_num=1)
move("rtr, nothing given", e.IBV_QP_STATE, qp_state=e.IBV_QPS_RTR)
grh = GlobalRoute(dgid=ctx.query_gid(1, 0), sgid_index=0)
ah = AHAttr(gr=grh, is_global=1, port_num=1)
bad = AHAttr(gr=GlobalRoute(dgid=ctx.query_gid(1, 0), sgid_index=200), is_global=1, port_num=1)
none = AHAttr(is_global=0, port_num=1)
rtr = full = (e.IBV_QP_STATE | e.IBV_QP_AV | e.IBV_QP_PATH_MTU | e.IBV_QP_DEST_QPN | e.IBV_QP_RQ_PSN |
              e.IBV_QP_MAX_DEST_RD_ATOMIC | e.IBV_QP_MIN_RNR_TIMER)
for name, av in (("wild gid index", bad), ("no grh", none), ("whole", ah)):
    move("rtr, " + name, rtr, qp_state=e.IBV_QPS_RTR, ah_attr=av, dest_qp_num=one.qp_num, path_mtu=3,
         max_dest_rd_atomic=1, min_rnr_timer=12, rq_psn=0)
for name, av in (("ah wild gid index", bad), ("ah no grh", none), ("ah", ah)):
    attempt(name, lambda: AH(pd, attr=av))
ud = QPInitAttr(qp_type=e.IBV_QPT_UD, scq=cq, rcq=cq, cap=QPCap(max_send_wr=4, max_recv_wr=4, max_send_sge=1, max_recv_sge=1))
attempt("ud to rts", lambda: QP(pd, ud, QPAttr(port_num=1)))
# Soft-RoCE has none: the refusal is the core's.
attempt("xrcd", lambda: XRCD(ctx, XRCDInitAttr(e.IBV_XRCD_INIT_ATTR_FD | e.IBV_XRCD_INIT_ATTR_OFLAGS, os.O_CREAT, -1)))
print("READY", flush=True)
time.sleep(60)

# SPDX-License-Identifier: GPL-2.0
"""memcg.py GROUP charged | small | refused WHAT: objects of rxe1, made in the memory cgroup GROUP.

charged: a queue pair with rings and private storage of more than 24 MiB; at least so much is
added to memory.current. small: a queue pair of ordinary size. refused: makes WHAT (largest,
many, srq) until that is refused, which must be with ENOMEM.
"""

import errno
import re
import sys

import pyverbs.enums as e
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsError
from pyverbs.qp import QP, QPCap, QPInitAttr
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr

# A send ring of 2^14 slots of 1 KiB is 16 MiB; its private entries are 8 MiB.
CHARGED = 24 << 20


class Maker:
    def __init__(self):
        self.context = Context(name="rxe1")
        self.pd = PD(self.context)
        self.cq = CQ(self.context, 16)
        self.made = []

    def qp(self, send_wr, send_sge):
        cap = QPCap(max_send_wr=send_wr, max_recv_wr=1, max_send_sge=send_sge, max_recv_sge=1)
        init = QPInitAttr(qp_type=e.IBV_QPT_RC, scq=self.cq, rcq=self.cq, cap=cap)
        self.made.append(QP(self.pd, init))

    def srq(self):
        # Two rings: the first alone may fit.
        for _ in range(2):
            self.made.append(SRQ(self.pd, SrqInitAttr(SrqAttr(max_wr=(1 << 20) - 1, max_sge=27))))


def current(group):
    with open(f"{group}/memory.current", encoding="ascii") as f:
        return int(f.read())


def refused(maker, what):
    makes = {
        "largest": lambda: maker.qp(1 << 20, 32),
        "srq": maker.srq,
        # Large ones: near the limit a page fault of this process must still succeed.
        "many": lambda: [maker.qp((1 << 14) - 1, 32) for _ in range(1000)],
    }[what]
    try:
        makes()
    except PyverbsError as error:
        print(f"{len(maker.made)} made, then: {error}")
        number = getattr(error, "error_code", 0) or 0
        found = re.search(r"Errno: (\d+)", str(error))
        return 0 if errno.ENOMEM in (number, int(found[1]) if found else 0) else 1
    print("nothing was refused")
    return 1


def main(group, what, *args):
    maker = Maker()
    if what == "refused":
        return refused(maker, *args)
    before = current(group)
    maker.qp(*((1 << 14) - 1, 32) if what == "charged" else (64, 1))
    more = current(group) - before
    print(f"{more} bytes were charged")
    return 0 if what == "small" or more >= CHARGED else 1


sys.exit(main(*sys.argv[1:]))

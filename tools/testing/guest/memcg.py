# SPDX-License-Identifier: GPL-2.0
"""memcg.py GROUP charged | small | refused WHAT: objects of rxe1, made in the memory cgroup GROUP.

charged: a queue pair with rings and private storage of more than 24 MiB; at least so much is
added to memory.current. small: a queue pair of ordinary size. refused: makes WHAT (largest,
many, srq, odp) until that is refused, which must be with ENOMEM.
"""

import ctypes
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

    def odp(self):
        """Registers 64 GiB of reserved addresses: the list of its pages takes 144 MiB."""
        length = 64 << 30
        libc = ctypes.CDLL(None, use_errno=True)
        libc.mmap.restype = ctypes.c_void_p
        libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
        # PROT_READ | PROT_WRITE; MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE
        address = libc.mmap(None, length, 3, 0x4022, -1, 0)
        if address == ctypes.c_void_p(-1).value:
            raise SystemExit(f"mmap: errno {ctypes.get_errno()}")
        from pyverbs.mr import MR

        access = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_ON_DEMAND
        self.made.append(MR(self.pd, length, access, address=address))


def current(group):
    with open(f"{group}/memory.current", encoding="ascii") as f:
        return int(f.read())


def refused(maker, what):
    makes = {
        "largest": lambda: maker.qp(1 << 20, 32),
        "srq": maker.srq,
        "odp": maker.odp,
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

# SPDX-License-Identifier: GPL-2.0
"""A client of samples/echo by librdmacm: echo_client.py ADDRESS PORT [COUNT [SECONDS]].

Sends COUNT messages of different sizes, compares what comes back, and keeps the connection for SECONDS;
then, or when the service ends the connection, prints "ended"."""

import random
import sys
import time

import pyverbs.cm_enums as ce
from pyverbs.cmid import CMID, AddrInfo
from pyverbs.enums import IBV_QPT_RC, IBV_SEND_SIGNALED
from pyverbs.qp import QPCap, QPInitAttr

SIZES = [1, 7, 64, 1023, 1024, 4096, 4097, 65536]


def exchange(cid, r, size):
    out, back = cid.reg_msgs(size), cid.reg_msgs(size)
    data = r.randbytes(size)
    out.write(data, size)
    cid.post_recv(back)
    cid.post_send(out, IBV_SEND_SIGNALED)
    for wc in (cid.get_send_comp(), cid.get_recv_comp()):
        if wc is None or wc.status:
            raise SystemExit(f"a message of {size} bytes: {wc}")
    if wc.byte_len != size or back.read(size, 0) != data:
        raise SystemExit(f"a message of {size} bytes came back as another one, of {wc.byte_len}")
    out.close()
    back.close()


def main():
    address, port = sys.argv[1:3]
    count = int(sys.argv[3]) if len(sys.argv) > 3 else len(SIZES)
    seconds = float(sys.argv[4]) if len(sys.argv) > 4 else 0
    r = random.Random(int(port) + count)
    info = AddrInfo(dst=address, dst_service=port, port_space=ce.RDMA_PS_TCP)
    cap = QPCap(max_send_wr=4, max_recv_wr=4)
    with CMID(creator=info, qp_init_attr=QPInitAttr(cap=cap, qp_type=IBV_QPT_RC)) as cid:
        cid.connect()
        for number in range(count):
            exchange(cid, r, SIZES[number % len(SIZES)])
        print("came back", flush=True)
        time.sleep(seconds)
    print("ended", flush=True)


main()

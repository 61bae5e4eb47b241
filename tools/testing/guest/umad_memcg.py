# SPDX-License-Identifier: GPL-2.0
"""Transfers that a program in a memory cgroup sends.

umad_memcg.py GROUP DEVICE GID INDEX charged|refused BYTES

charged: what is under way is added to memory.current of GROUP. refused: the write fails with ENOMEM.
The program's own bytes are those of the zero page, which is charged to nobody."""

import ctypes
import errno
import sys

from umad import Agents, gid
from umad_answers import header, libc, mad

# Headers of a MAD of a vendor's class.
HEADERS = 40


def current(group):
    with open(f"{group}/memory.current", encoding="ascii") as f:
        return int(f.read())


def main(group, device, to, index, what, count):
    count = int(count)
    agents = Agents(device)
    # There is no agent for the class on that node: the transfer is outstanding until it times out.
    agent = agents.register(0x38, 1, [], oui=0x1405, rmpp=1)
    head = header(agent, gid(to), int(index), timeout=600000)
    head += mad(0x38, method=1, size=HEADERS, rmpp=(1, 1, 1))[:-3] + (0x1405).to_bytes(3, "big")
    length = len(head) + count
    at = libc.mmap(None, length, 3, 0x4022, -1, 0)
    ctypes.memmove(at, head, len(head))
    before = current(group)
    ctypes.set_errno(0)
    got = libc.write(agents.fd, at, length)
    more, why = current(group) - before, errno.errorcode.get(ctypes.get_errno())
    print(f"a write of {length} bytes: {got}, {why}; {more} bytes more are charged")
    agents.close()
    if what == "refused":
        return 0 if (got, why) == (-1, "ENOMEM") else 1
    return 0 if got == length and more >= count else 1


sys.exit(main(*sys.argv[1:]))

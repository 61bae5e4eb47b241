# SPDX-License-Identifier: GPL-2.0
"""cgroup.py WHAT CONTEXTS OBJECTS [FILE]: open so many contexts of rxe1 (holds-other: of
rxe2) and make so many objects, all PDs, in the first.

holds: all can be made. refused: all but the last, which is refused with EAGAIN. keeps: as
holds, then write FILE and stay until killed.
"""

import ctypes
import errno
import os
import pathlib
import struct
import sys
import time

from pyverbs.device import Context
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsError


def context_by_write():
    """Opens rxe1 and asks for its context by the oldest command, IB_USER_VERBS_CMD_GET_CONTEXT.

    Where the newer ioctl is refused a context, the C ib_uverbs of Linux 7.2 keeps a reference
    of the process for ever (it frees the context without rdma_restrack_put).
    """
    nodes = pathlib.Path("/sys/class/infiniband_verbs").glob("uverbs*/ibdev")
    node = next(n.parent.name for n in nodes if n.read_text().strip() == "rxe1")
    fd = os.open(f"/dev/infiniband/{node}", os.O_RDWR)
    answer = ctypes.create_string_buffer(8)
    # Command, words in, words out; where the answer goes.
    os.write(fd, struct.pack("=IHHQ", 0, 4, 2, ctypes.addressof(answer)))
    return fd


def main(what, contexts, objects, *mark):
    made = []
    wanted = [lambda: Context(name="rxe2" if what == "holds-other" else "rxe1")] * int(contexts)
    wanted += [lambda: PD(made[0])] * int(objects)
    if what == "refused" and not int(objects):
        wanted[-1] = context_by_write
    for i, make in enumerate(wanted):
        last = i == len(wanted) - 1
        try:
            made.append(make())
        except (PyverbsError, OSError) as e:
            code = getattr(e, "error_code", 0) or getattr(e, "errno", 0) or 0
            print(f"object {i + 1} of {len(wanted)}: {e}")
            text = str(e)
            refused = code == errno.EAGAIN or f"Errno: {errno.EAGAIN}" in text or "temporarily" in text
            return 0 if what == "refused" and last and refused else 1
    if what == "refused":
        print("nothing was refused")
        return 1
    if what == "keeps":
        open(mark[0], "w", encoding="ascii").close()
        while True:
            time.sleep(1)
    return 0


sys.exit(main(*sys.argv[1:]))

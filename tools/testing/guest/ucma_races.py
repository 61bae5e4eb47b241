# SPDX-License-Identifier: GPL-2.0
"""Four hostile threads at shared contexts of /dev/infiniband/rdma_cm: every command at any of them, while
they are destroyed, move between two files to and fro, and files are closed with events in them.

ucma_races.py SECONDS SEED

Ends with the number of commands. What matters is what the kernel says."""

import os
import random
import struct
import sys
import threading
import time

from ucma import *

ONE = "10.0.1.1"
IDS = 12


class Shared:
    """Two files and the numbers of contexts that either may have."""

    def __init__(self):
        self.files = [Ucm(), Ucm()]
        self.ids = [0] * IDS
        self.joins = [0] * 4


def command(rng, s, fd):
    """A command with fields that are mostly right."""
    at = s[0]
    ids, joins = s[1].ids, s[1].joins
    id = rng.choice(ids)
    port = rng.choice([0, 7600, 7601, 7602])
    group = inet(f"239.1.1.{rng.randrange(3)}", 0)
    name = rng.choice(NAMES)
    body = {
        "CREATE_ID": lambda: struct.pack("=QQHB5x", rng.randrange(3), at, rng.choice([TCP, TCP, UDP, UDP, IB]), 2),
        "DESTROY_ID": lambda: struct.pack("=QII", at, id, 0),
        "BIND_IP": lambda: struct.pack("=Q", 0) + inet(rng.choice([ONE, ONE, "0.0.0.0"]), port) + struct.pack("=I", id),
        "RESOLVE_IP": lambda: bytes(28) + inet(ONE, rng.choice([7600, 7601, 7602])) + struct.pack("=II", id, rng.choice([1, 500])),
        "RESOLVE_ROUTE": lambda: struct.pack("=II", id, 500),
        "QUERY_ROUTE": lambda: struct.pack("=QII", at, id, 0),
        "CONNECT": lambda: param(b"x" * rng.randrange(57)) + struct.pack("=II8x", id, 0),
        "LISTEN": lambda: struct.pack("=II", id, rng.randrange(1, 5)),
        "ACCEPT": lambda: struct.pack("=Q", 6) + param(b"y") + struct.pack("=II8x", id, 0),
        "REJECT": lambda: struct.pack("=IBB2x", id, 0, 0) + bytes(256),
        "DISCONNECT": lambda: struct.pack("=I", id),
        "INIT_QP_ATTR": lambda: struct.pack("=QII", at, id, rng.randrange(1, 4)),
        "GET_EVENT": lambda: struct.pack("=Q", rng.choice([at, at, at, 8])),
        "GET_OPTION": lambda: b"",
        "SET_OPTION": lambda: struct.pack("=QIIII", at, id, 0, rng.choice([0, 3]), 1),
        "NOTIFY": lambda: struct.pack("=II", id, rng.choice([4, 7])),
        "JOIN_IP_MCAST": lambda: struct.pack("=QQ", rng.choice([at, at, 8]), 4) + group + struct.pack("=I", id),
        "LEAVE_MCAST": lambda: struct.pack("=QII", at, rng.choice(joins), 0),
        "MIGRATE_ID": lambda: struct.pack("=QII", at, id, rng.choice([f.fd for f in s[1].files])),
        "QUERY": lambda: struct.pack("=QII", at, id, rng.randrange(4)),
        "BIND": lambda: struct.pack("=IHH", id, 16, 0) + inet(ONE, port).ljust(128, b"\0"),
        "RESOLVE_ADDR": lambda: struct.pack("=IIHHI", id, 500, 0, 16, 0) + bytes(128) + inet(ONE, 7600).ljust(128, b"\0"),
        "JOIN_MCAST": lambda: struct.pack("=QQIHH", at, 4, id, 16, rng.randrange(2)) + group.ljust(128, b"\0"),
        "RESOLVE_IB_SERVICE": lambda: struct.pack("=IIQ", id, 0, 1) + bytes(64) + struct.pack("=II", 1, 0),
        "WRITE_CM_EVENT": lambda: struct.pack("=IIIIQ", id, 0, 18, 0, 1).ljust(320, b"\0"),
    }[name]()
    return name, body


def one(s, seed, end, counts):
    rng = random.Random(seed)
    edge = Edge()
    answer = ctypes.create_string_buffer(ROOM)
    at = ctypes.addressof(answer)
    calls = good = 0
    while time.monotonic() < end:
        name, body = command(rng, (at, s), None)
        file = rng.choice(s.files)
        data = struct.pack("=IHH", N[name], len(body), ROOM) + body
        got = libc.write(file.fd, edge.put(data), len(data))
        calls += 1
        if got > 0:
            good += 1
            value = struct.unpack_from("=I", answer.raw)[0]
            if name == "CREATE_ID":
                s.ids[rng.randrange(IDS)] = value
            elif name in ("JOIN_IP_MCAST", "JOIN_MCAST"):
                s.joins[rng.randrange(4)] = value
            elif name == "GET_EVENT" and struct.unpack_from("=I", answer.raw, 12)[0] == 4:
                s.ids[rng.randrange(IDS)] = struct.unpack_from("=I", answer.raw, 8)[0]
        if rng.randrange(2000) == 0:
            # Whoever has the old descriptor gets another file.
            which = rng.randrange(2)
            fresh = os.open(PATH, os.O_RDWR | os.O_NONBLOCK)
            os.dup2(fresh, s.files[which].fd)
            os.close(fresh)
    counts.append((calls, good))


def main():
    seconds, seed = int(sys.argv[1]), int(sys.argv[2])
    in_namespace("n1")
    s, counts = Shared(), []
    end = time.monotonic() + seconds
    threads = [threading.Thread(target=one, args=(s, f"{seed} {n}", end, counts)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for file in s.files:
        os.close(file.fd)
    print(f"{sum(c for c, _ in counts)} commands, of them {sum(g for _, g in counts)} succeeded")
    sys.exit(0 if len(counts) == 4 else 1)


main()

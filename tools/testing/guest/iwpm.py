# SPDX-License-Identifier: GPL-2.0
"""A port mapper for iw_cm, in place of iwpmd: its netlink messages, right and wrong.

    iwpm.py answers             messages to the kernel, and what it answers
    iwpm.py unprivileged        the same as another user; fails unless all are refused
    iwpm.py flood COUNT         addresses of peers that never connect
    iwpm.py serve MODE SECONDS  answers the requests of the kernel, and prints them

Modes: map (a listener's port is itself, port 7500 of a peer is 7000), wrong (the answer has another address), refuse,
silent (no answer), late (an answer after 11 seconds).
"""
import os
import select
import socket
import struct
import sys
import time

NETLINK_RDMA, CLIENT, GROUP = 20, 2, 2
REG_PID, ADD, QUERY, REMOVE, REMOTE_INFO, ERROR, MAPINFO, MAPINFO_NUM, HELLO = range(9)
NAMES = ["REG_PID", "ADD", "QUERY", "REMOVE", "REMOTE_INFO", "ERROR", "MAPINFO", "MAPINFO_NUM", "HELLO"]
LIBRARY = b"iWarpPortMapperUser\0"
DONE, NLERROR = 3, 2


def attr(kind, value):
    return struct.pack("HH", len(value) + 4, kind) + value + bytes(-len(value) % 4)


def u32(kind, value):
    return attr(kind, struct.pack("I", value))


def u16(kind, value):
    return attr(kind, struct.pack("H", value))


def address(ip, port):
    if ":" in ip:
        part = struct.pack("=HHI16sI", socket.AF_INET6, socket.htons(port), 0, socket.inet_pton(socket.AF_INET6, ip), 0)
    else:
        part = struct.pack("=HH4s", socket.AF_INET, socket.htons(port), socket.inet_aton(ip))
    return part + bytes(128 - len(part))


def text(storage):
    family, port = struct.unpack_from("=HH", storage)
    if family == socket.AF_INET:
        return f"{socket.inet_ntoa(storage[4:8])}:{socket.ntohs(port)}"
    if family == socket.AF_INET6:
        return f"[{socket.inet_ntop(socket.AF_INET6, storage[8:24])}]:{socket.ntohs(port)}"
    return f"family {family}"


def moved(storage, by):
    port = socket.ntohs(struct.unpack_from("=H", storage, 2)[0])
    return storage[:2] + struct.pack("=H", socket.htons(port + by)) + storage[4:]


def attrs(body):
    found = {}
    while len(body) >= 4:
        size, kind = struct.unpack_from("HH", body)
        if size < 4 or size > len(body):
            break
        found[kind] = body[4:size]
        body = body[(size + 3) & ~3:]
    return found


class Mapper:
    def __init__(self, member=True):
        self.nl = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_RDMA)
        self.nl.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        self.nl.bind((os.getpid(), 1 << (GROUP - 1) if member else 0))
        self.seq = 100

    def send(self, op, body, flags=1):
        self.seq += 1
        head = struct.pack("IHHII", 16 + len(body), CLIENT << 10 | op, flags, self.seq, os.getpid())
        self.nl.send(head + body)

    def messages(self, wait):
        if not select.select([self.nl], [], [], wait)[0]:
            return
        data = self.nl.recv(65536)
        while len(data) >= 16:
            size, kind, flags, seq, _pid = struct.unpack_from("IHHII", data)
            if size < 16 or size > len(data):
                break
            yield kind, flags, seq, data[16:size]
            data = data[(size + 3) & ~3:]

    def result(self):
        """The messages until the result of the last one that was sent, and the result."""
        lines = []
        end = time.monotonic() + 5
        while time.monotonic() < end:
            for kind, _flags, seq, body in self.messages(0.1):
                if kind in (DONE, NLERROR) and seq == self.seq:
                    # The kernel's lists of mappings end with an empty DONE, which has no number.
                    return lines, struct.unpack_from("i", body)[0] if len(body) >= 4 else 0
                lines.append(shown(kind, body))
        return lines, "no answer"


def shown(kind, body):
    if kind == DONE:
        return "end of list"
    op = kind & 0x3ff
    a = attrs(body)
    if op == HELLO:
        return f"HELLO version {struct.unpack_from('H', a[1])[0]}"
    if op == MAPINFO_NUM:
        return f"MAPINFO_NUM {struct.unpack('I', a[2])[0]}"
    if op in (MAPINFO, ADD, REMOVE, QUERY):
        values = [v for k, v in sorted(a.items())]
        if op != MAPINFO:
            values = values[1:]
        return f"{NAMES[op]} " + " ".join(text(v) if len(v) == 128 else str(struct.unpack("I", v)[0]) for v in values)
    if op == REG_PID:
        names = [a[k].split(b"\0")[0].decode() for k in (2, 3, 4)]
        return f"REG_PID {' '.join(names)} ({[len(a[k]) for k in sorted(a)]})"
    return f"op {op}"


A, B, C, D = address("10.0.1.1", 1), address("10.0.1.2", 2), address("10.0.1.3", 3), address("fd01::4", 4)
PEER = u32(1, 1) + attr(2, A) + attr(3, B) + attr(4, A) + attr(5, B) + u16(6, 0)
SENT = [
    ("hello 4", HELLO, u16(1, 4)),
    ("hello 3", HELLO, u16(1, 3)),
    ("hello 9", HELLO, u16(1, 9)),
    ("hello, last of two", HELLO, u16(1, 3) + u16(1, 4)),
    ("hello, unknown attribute", HELLO, u16(1, 4) + u32(77, 4)),
    ("hello, too short", HELLO, attr(1, b"a")),
    ("hello, longer", HELLO, attr(1, b"\4\0\0\0\0\0")),
    ("hello, nothing", HELLO, b""),
    ("mapinfo", MAPINFO, attr(1, LIBRARY) + u16(2, 4)),
    ("mapinfo, version 2", MAPINFO, attr(1, LIBRARY) + u16(2, 2)),
    ("mapinfo, other name", MAPINFO, attr(1, b"other\0") + u16(2, 4)),
    ("mapinfo, no end", MAPINFO, attr(1, LIBRARY[:-1]) + u16(2, 4)),
    ("mapinfo, long name", MAPINFO, attr(1, bytes(33)) + u16(2, 4)),
    ("mapinfo, no version", MAPINFO, attr(1, LIBRARY)),
    ("number", MAPINFO_NUM, u32(1, 0) + u32(2, 3) + u32(3, 3)),
    ("number, no first", MAPINFO_NUM, u32(2, 3) + u32(3, 3)),
    ("pid, nobody asked", REG_PID, u32(1, 7) + attr(2, b"siw1\0") + attr(3, LIBRARY) + u16(4, 4) + u16(5, 0)),
    ("pid, no error", REG_PID, u32(1, 7) + attr(2, b"siw1\0") + attr(3, LIBRARY) + u16(4, 4)),
    ("add, nobody asked", ADD, u32(1, 7) + attr(2, A) + attr(3, B) + u16(4, 0)),
    ("add, short address", ADD, u32(1, 7) + attr(2, A) + attr(3, B[:127]) + u16(4, 0)),
    ("query, nobody asked", QUERY, PEER),
    ("remove", REMOVE, u32(1, 7) + attr(2, A)),
    ("peer", REMOTE_INFO, PEER),
    ("peer, families differ", REMOTE_INFO, PEER + attr(4, D)),
    ("peer, no local", REMOTE_INFO, u32(1, 1) + attr(3, B) + attr(4, A) + attr(5, B) + u16(6, 0)),
    ("error, nobody asked", ERROR, u32(1, 7) + u16(2, 11)),
    ("error, no code", ERROR, u32(1, 7)),
    ("operation 9", 9, b""),
]


def answers(mapper):
    for name, op, body in SENT:
        mapper.send(op, body)
        lines, result = mapper.result()
        print(f"{name}: {'; '.join(lines + [str(result)])}")


def unprivileged():
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
    mapper = Mapper(member=False)
    refused = 0
    for name, op, body in SENT:
        mapper.send(op, body)
        lines, result = mapper.result()
        print(f"{name}: {'; '.join(lines + [str(result)])}")
        # Without a handler, nobody is asked for a permission.
        refused += result == (-22 if op in (REMOVE, 9) else -1) and not lines
    print(f"{refused} of {len(SENT)} refused")
    return refused != len(SENT)


def flood(mapper, count):
    for n in range(count):
        peer = address(socket.inet_ntoa(struct.pack(">I", 0x0b000000 + n)), 9)
        mapper.send(REMOTE_INFO, u32(1, 1) + attr(2, A) + attr(3, peer) + attr(4, A) + attr(5, peer) + u16(6, 0))
        mapper.result()


def serve(mapper, mode, seconds):
    """As iwpmd starts: says that it is there, and asks for all mappings."""
    mapper.send(HELLO, u16(1, 4))
    print("; ".join(mapper.result()[0]))
    mapper.send(MAPINFO, attr(1, LIBRARY) + u16(2, 4))
    print("; ".join(mapper.result()[0]))
    print("ready", flush=True)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for kind, _flags, seq, body in mapper.messages(0.2):
            if kind in (DONE, NLERROR):
                code = struct.unpack_from("i", body)[0] if len(body) >= 4 else 0
                print(f"result {code}", flush=True)
                continue
            print(shown(kind, body), flush=True)
            answer(mapper, mode, kind & 0x3ff, seq, attrs(body))


def answer(mapper, mode, op, seq, a):
    if op == REG_PID:
        # The C module notes what it asked for only after it has sent the request: an answer that is
        # faster stops the kernel (iwpm_register_pid).
        time.sleep(0.5)
        name = a[3].split(b"\0")[0] + b"\0"
        mapper.send(REG_PID, u32(1, seq) + attr(2, name) + attr(3, LIBRARY) + u16(4, 4) + u16(5, 0))
        return
    if op == QUERY:
        # The listener's mapping is in the list.
        mapper.send(MAPINFO, attr(1, LIBRARY) + u16(2, 4))
    if op not in (ADD, QUERY) or mode == "silent":
        return
    if mode == "refuse":
        mapper.send(ERROR, u32(1, seq) + u16(2, 11))
        return
    local = a[2]
    echoed = moved(local, 7) if mode == "wrong" else local
    if op == ADD:
        # An answer to another request, first.
        if mode == "wrong":
            mapper.send(ADD, u32(1, seq + 1000) + attr(2, local) + attr(3, local) + u16(4, 0))
        if mode == "late":
            time.sleep(11)
        mapper.send(ADD, u32(1, seq) + attr(2, echoed) + attr(3, local) + u16(4, 0))
        if mode == "late":
            print(f"late: {mapper.result()[1]}", flush=True)
    else:
        remote = a[3]
        mapped = moved(remote, -500) if mode == "map" else remote
        # The peer's mapper tells the peer's kernel, which is this one.
        mapper.send(REMOTE_INFO, u32(1, 0) + attr(2, remote) + attr(3, local) + attr(4, mapped) + attr(5, local) + u16(6, 0))
        mapper.send(QUERY, u32(1, seq) + attr(2, echoed) + attr(3, remote) + attr(4, local) + attr(5, mapped) + u16(6, 0))


def main():
    what = sys.argv[1]
    if what == "unprivileged":
        return unprivileged()
    mapper = Mapper(member=what == "serve")
    if what == "answers":
        answers(mapper)
    elif what == "flood":
        flood(mapper, int(sys.argv[2]))
    else:
        serve(mapper, sys.argv[2], int(sys.argv[3]))
    print("end")
    return 0


sys.exit(main())

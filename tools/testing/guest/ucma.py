# SPDX-License-Identifier: GPL-2.0
"""/dev/infiniband/rdma_cm, command by command: what ucma_answers.py and ucma_races.py share."""

import ctypes
import errno
import mmap
import os
import select
import socket
import struct
import time

PATH = "/dev/infiniband/rdma_cm"
libc = ctypes.CDLL(None, use_errno=True)
libc.write.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t]
libc.write.restype = ctypes.c_ssize_t
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]

NAMES = ["CREATE_ID", "DESTROY_ID", "BIND_IP", "RESOLVE_IP", "RESOLVE_ROUTE", "QUERY_ROUTE", "CONNECT",
         "LISTEN", "ACCEPT", "REJECT", "DISCONNECT", "INIT_QP_ATTR", "GET_EVENT", "GET_OPTION",
         "SET_OPTION", "NOTIFY", "JOIN_IP_MCAST", "LEAVE_MCAST", "MIGRATE_ID", "QUERY", "BIND",
         "RESOLVE_ADDR", "JOIN_MCAST", "RESOLVE_IB_SERVICE", "WRITE_CM_EVENT"]
N = {name: number for number, name in enumerate(NAMES)}
TCP, UDP, IPOIB, IB = 0x106, 0x111, 0x2, 0x13F
EVENT = 336
ROOM = 4096


class Edge:
    """Memory that ends at `end`, behind which there is none."""

    def __init__(self, size=1 << 14):
        size = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        start = libc.mmap(None, size + mmap.PAGESIZE, 3, 0x22, -1, 0)
        libc.munmap(start + size, mmap.PAGESIZE)
        self.end = start + size

    def put(self, data):
        ctypes.memmove(self.end - len(data), bytes(data), len(data))
        return self.end - len(data)


def inet(address, port):
    """A struct sockaddr_in or sockaddr_in6, in 28 bytes."""
    if ":" in address:
        return struct.pack("=HHI", socket.AF_INET6, socket.htons(port), 0) + socket.inet_pton(socket.AF_INET6, address) + bytes(4)
    return (struct.pack("=HH", socket.AF_INET, socket.htons(port)) + socket.inet_aton(address)).ljust(28, b"\0")


def param(private=b"", qpn=0x123456, valid=1, depth=1):
    return struct.pack("=II", qpn, 0) + private.ljust(256, b"\0") + bytes([len(private), 0, depth, depth, 0, 7, 7, valid])


class Ucm:
    """An open file. Answers of commands are in `self.answer`."""

    def __init__(self, flags=os.O_RDWR | os.O_NONBLOCK):
        self.fd = os.open(PATH, flags)
        self.edge = Edge()
        self.answer = ctypes.create_string_buffer(ROOM)
        self.at = ctypes.addressof(self.answer)

    def close(self):
        os.close(self.fd)
        libc.munmap(self.edge.end - (1 << 14), 1 << 14)

    def raw(self, data, there=None, length=None):
        """Writes bytes, of which only the first `there` are there."""
        at = self.edge.put(data if there is None else data[:there])
        ctypes.set_errno(0)
        got = libc.write(self.fd, at, len(data) if length is None else length)
        return got if got >= 0 else errno.errorcode[ctypes.get_errno()]

    def call(self, name, body, room=ROOM, size=None):
        head = struct.pack("=IHH", N[name] if isinstance(name, str) else name, len(body) if size is None else size, room)
        ctypes.memset(self.at, 0xEE, ROOM)
        return self.raw(head + body)

    def must(self, name, body, room=ROOM):
        got = self.call(name, body, room)
        if not isinstance(got, int):
            raise OSError(f"{name}: {got}")
        return self.answer.raw

    def create(self, space=TCP, uid=1, qp_type=0):
        return struct.unpack_from("=I", self.must("CREATE_ID", struct.pack("=QQHB5x", uid, self.at, space, qp_type)))[0]

    def destroy(self, id):
        return struct.unpack_from("=I", self.must("DESTROY_ID", struct.pack("=QII", self.at, id, 0)))[0]

    def bind(self, id, address, port):
        self.must("BIND_IP", struct.pack("=Q", 0) + inet(address, port) + struct.pack("=I", id))

    def event(self, seconds=3):
        """The next event: its number and its bytes; (None, b"") if there is none."""
        poll = select.poll()
        poll.register(self.fd)
        end = time.monotonic() + seconds
        while True:
            got = self.call("GET_EVENT", struct.pack("=Q", self.at), EVENT)
            if isinstance(got, int):
                data = self.answer.raw[:EVENT]
                # The end of a time that nobody waits for.
                if struct.unpack_from("=I", data, 12)[0] == 15:
                    continue
                return struct.unpack_from("=I", data, 12)[0], data
            if got != "EAGAIN":
                raise OSError(got)
            left = end - time.monotonic()
            if left <= 0:
                return None, b""
            poll.poll(max(1, left * 1000))

    def expect(self, number):
        got, data = self.event()
        if got != number:
            raise OSError(f"event {got} in place of {number}: {data[:24].hex()}")
        return data

    def resolve(self, id, to, port):
        self.must("RESOLVE_IP", bytes(28) + inet(to, port) + struct.pack("=II", id, 2000))
        self.expect(0)

    def route(self, id):
        self.must("RESOLVE_ROUTE", struct.pack("=II", id, 2000))
        self.expect(2)

    def listen(self, id, backlog=8):
        self.must("LISTEN", struct.pack("=II", id, backlog))

    def connect(self, id, private=b"hello", qpn=0x123456):
        self.must("CONNECT", param(private, qpn) + struct.pack("=II8x", id, 0))

    def accept(self, id, uid=7, valid=1):
        self.must("ACCEPT", struct.pack("=Q", uid) + param(b"yes", valid=valid) + struct.pack("=II8x", id, 0))


def in_namespace(name):
    fd = os.open(f"/run/netns/{name}", os.O_RDONLY)
    if libc.setns(fd, 0):
        raise OSError(ctypes.get_errno(), "setns")
    os.close(fd)

# SPDX-License-Identifier: GPL-2.0
"""User verbs without a library, against the driver fakeverbs.

fakeverbs.py objects     an object of every kind, what the driver saw of it, and its end
fakeverbs.py events      events and completions
fakeverbs.py unregister  the device goes while everything is open
fakeverbs.py forget      the device goes, and the driver refuses the end of objects
fakeverbs.py zap         the cost of many mappings of two processes, for time that is counted

Prints "ok CASE" or "not ok CASE: why", then "end"; exits 1 if a case failed."""

import ctypes
import errno
import fcntl
import mmap
import os
import select
import signal
import struct
import subprocess
import sys
import time
import traceback
import zlib

DEBUGFS = "/sys/kernel/debug/fakeverbs"
IOCTL = 3 << 30 | 24 << 16 | 0x1B << 8 | 1
DRIVER = 0x1000
UHW_IN, UHW_OUT = DRIVER, DRIVER + 1
ECHO = "<4I5Q"

# Objects, by their numbers for ioctl().
(DEVICE, PD, COMP_CHANNEL, CQ, QP, SRQ, AH, MR, MW, FLOW, XRCD, TABLE, WQ, FLOW_ACTION, DM,
 COUNTERS, ASYNC_EVENT, DMAH, DMABUF, COMP_CNTR) = range(20)
THING, STREAM, HIDDEN = DRIVER, DRIVER + 1, DRIVER + 2

# Commands of write().
(GET_CONTEXT, QUERY_DEVICE, QUERY_PORT, ALLOC_PD, DEALLOC_PD, CREATE_AH) = range(6)
(DESTROY_AH, REG_MR, REREG_MR, DEREG_MR, ALLOC_MW, DEALLOC_MW) = 8, 9, 11, 13, 14, 16
(CREATE_COMP_CHANNEL, CREATE_CQ, RESIZE_CQ, DESTROY_CQ, POLL_CQ, NOTIFY_CQ) = 17, 18, 19, 20, 21, 23
(CREATE_QP, QUERY_QP, MODIFY_QP, DESTROY_QP, POST_SEND, POST_RECV) = 24, 25, 26, 27, 28, 29
(ATTACH_MCAST, DETACH_MCAST, CREATE_SRQ, MODIFY_SRQ, QUERY_SRQ) = 30, 31, 32, 33, 34
(DESTROY_SRQ, POST_SRQ_RECV, OPEN_XRCD, CLOSE_XRCD, CREATE_XSRQ, OPEN_QP) = 35, 36, 37, 38, 39, 40
(CREATE_FLOW, DESTROY_FLOW, EX_CREATE_WQ, EX_MODIFY_WQ, EX_DESTROY_WQ) = 50, 51, 52, 53, 54
(CREATE_TABLE, DESTROY_TABLE, MODIFY_CQ) = 55, 56, 57

RC, UC, UD, RAW_PACKET, XRC_INI, XRC_TGT = 2, 3, 4, 8, 9, 10


# What the kernel has: see tools/features.sh.
with open(f"{os.path.dirname(os.path.abspath(__file__))}/features", encoding="utf-8") as known:
    FEATURES = known.read().split()

F_SETSIG = 10
POLL_IN = 1  # si_code
# Events that a program leaves unread.
MANY = 300


class Echo:
    """What the driver answered: see struct fv_echo."""

    def __init__(self, data):
        self.id, self.op, self.inlen, self.outlen, self.sent, *self.arg = struct.unpack(ECHO, data)


def attr(number, data=b"", out=None, raw=None, elem=0, new=False):
    return [number, data, out, raw, elem, new]


def put(number, fmt, *values):
    return attr(number, struct.pack("<" + fmt, *values))


def get(number, size):
    return attr(number, out=size)


def handle(number, value):
    """An object's handle, a file or a descriptor."""
    return attr(number, raw=value)


def new(number):
    """The handle or the file of an object to be."""
    return attr(number, raw=0, new=True)


class Verbs:
    """An open file of the device."""

    def __init__(self, node):
        self.fd = os.open(node, os.O_RDWR | os.O_CLOEXEC)

    def close(self):
        os.close(self.fd)

    def write(self, command, request, answer=None, echo=True):
        """A plain command. With an answer of so many bytes: it, and what the driver told."""
        driver = struct.pack("<Q", 0xD0 + command) if echo else b""
        size = (answer or 0) + (struct.calcsize(ECHO) if echo else 0)
        buf = ctypes.create_string_buffer((size + 3) // 4 * 4)
        if answer is not None:
            request = struct.pack("<Q", ctypes.addressof(buf)) + request
        data = request + driver
        head = struct.pack("<IHH", command, (len(data) + 8) // 4, len(buf) // 4)
        os.write(self.fd, head + data)
        if not echo:
            return buf.raw[:size]
        return buf.raw[:answer], Echo(buf.raw[answer:size])

    def extended(self, command, request, answer=0, echo=True):
        driver = struct.pack("<Q", 0xE0 + command) if echo else b""
        size = struct.calcsize(ECHO) if echo else 0
        buf = ctypes.create_string_buffer(answer + size)
        where = ctypes.addressof(buf) if answer or echo else 0
        head = struct.pack("<IHH", command | 1 << 31, len(request) // 8, answer // 8)
        head += struct.pack("<QHHI", where, len(driver) // 8, size // 8, 0)
        os.write(self.fd, head + request + driver)
        if not echo:
            return buf.raw[:answer]
        return buf.raw[:answer], Echo(buf.raw[answer:])

    def ioctl(self, obj, method, *attrs):
        """The values of the attributes that are answers or new handles, in this order."""
        kept, out = [], b""
        for number, data, size, raw, elem, _ in attrs:
            length, value = len(data), 0
            if raw is not None:
                value = raw
            elif size is not None:
                buf = ctypes.create_string_buffer(size)
                kept.append(buf)
                length, value = size, ctypes.addressof(buf)
            elif length <= 8:
                value = struct.unpack("<q", data.ljust(8, b"\0"))[0]
            else:
                buf = ctypes.create_string_buffer(data, length)
                kept.append(buf)
                value = ctypes.addressof(buf)
            out += struct.pack("<HHHBBq", number, length, 1, elem, 0, value)
        total = 24 + len(out)
        call = bytearray(struct.pack("<HHHHQII", total, obj, method, len(attrs), 0, 0, 0) + out)
        fcntl.ioctl(self.fd, IOCTL, call)
        values = []
        for i, (_, _, size, _, _, is_new) in enumerate(attrs):
            value = struct.unpack_from("<q", call, 24 + 16 * i + 8)[0]
            if is_new:
                values.append(value)
            elif size is not None:
                values.append(ctypes.string_at(value, size))
        return values


def same(what, got, want):
    if got != want:
        raise AssertionError(f"{what}: {got!r}, expected {want!r}")


def refused(error, run, *args):
    try:
        run(*args)
    except OSError as got:
        same("error", errno.errorcode[got.errno], errno.errorcode[error])
        return
    raise AssertionError(f"no {errno.errorcode[error]}")


def command(line):
    with open(f"{DEBUGFS}/command", "w") as f:
        f.write(line)


def calls(name=None):
    """What the driver was called for since the last time: (NAME, ID, ARGUMENTS, RESULT)."""
    with open(f"{DEBUGFS}/calls", "r+") as f:
        lines = [line.split() for line in f]
        f.write("\n")
    found = [(w[0], int(w[1]), [int(x) for x in w[2:6]], int(w[6])) for w in lines]
    return [c for c in found if name in (None, c[0])]


def called(name, ident=None, args=None):
    found = calls(name)
    same(f"calls of {name}", len(found), 1)
    if ident is not None:
        same(f"id of {name}", found[0][1], ident)
    if args is not None:
        same(f"arguments of {name}", found[0][2][:len(args)], list(args))
    return found[0]


def node_of(device="fakeverbs0"):
    base = "/sys/class/infiniband_verbs"
    for name in os.listdir(base):
        try:
            with open(f"{base}/{name}/ibdev") as f:
                if f.read().strip() == device:
                    return f"/dev/infiniband/{name}"
        except OSError:
            pass
    return None


def wait_for(what, run, seconds=60):
    end = time.monotonic() + seconds
    while not run():
        if time.monotonic() > end:
            raise AssertionError(f"waited in vain: {what}")
        time.sleep(0.02)


def tracked(kind):
    """How many objects of a kind the device has, as rdma tells."""
    told = subprocess.run(["rdma", "resource", "show", "fakeverbs0"], check=True, capture_output=True, text=True)
    words = told.stdout.split()
    return int(words[words.index(kind) + 1])


def u32(data, at=0):
    return struct.unpack_from("<I", data, at)[0]


class Everything:
    """A context with an object of every kind. Each method makes some, and checks them."""

    def __init__(self):
        self.ends = []
        self.fds = []
        calls()
        self.v = Verbs(node_of())
        answer, echo = self.v.write(GET_CONTEXT, b"", 8)
        self.async_fd, vectors = struct.unpack("<II", answer)
        self.fds.append(self.async_fd)
        same("vectors", vectors, 2)
        same("driver data", (echo.sent, echo.inlen, echo.outlen), (0xD0, 8, 56))
        self.context, self.offset = echo.id, echo.arg[0]
        called("alloc_ucontext", echo.id, [self.offset])

    def destroys(self, name, ident, obj, method, h, answer=None):
        """How it ends: with an answer, attribute 1, of CQ, QP, SRQ and WQ."""
        more = [get(1, answer)] if answer else []
        self.ends.append((name, ident, lambda: self.v.ioctl(obj, method, handle(0, h), *more)))

    def destroy_all(self):
        """In reverse order; the driver must be called for each, once."""
        while self.ends:
            name, ident, run = self.ends.pop()
            calls()
            run()
            called(name, ident)

    def queries(self):
        v = self.v
        answer, echo = v.extended(QUERY_DEVICE, struct.pack("<II", 0, 0), 304)
        same("vendor", u32(answer, 40), 0xFA4E)
        same("max_dm_size", struct.unpack_from("<Q", answer, 288)[0], 1 << 20)
        same("driver data", echo.sent, 0xE0 + QUERY_DEVICE)
        answer = v.write(QUERY_PORT, struct.pack("<B7x", 1), 40, echo=False)
        same("lid", struct.unpack_from("<H", answer, 22)[0], 5)
        refused(errno.EINVAL, v.write, QUERY_PORT, struct.pack("<B7x", 2), 40, False)
        calls()
        vectors, support, ident = v.ioctl(DEVICE, 4, get(0, 4), get(1, 8), get(DRIVER, 4))
        same("vectors", u32(vectors), 2)
        same("added attribute", u32(ident), self.context)
        called("query_ucontext", self.context)
        speed, = v.ioctl(DEVICE, 7, put(0, "Q", 1), get(1, 8))
        same("speed", struct.unpack("<Q", speed)[0], 1000)
        port, = v.ioctl(DEVICE, 2, put(0, "Q", 1), get(1, 48))
        same("lid", struct.unpack_from("<H", port, 22)[0], 5)
        entry, = v.ioctl(DEVICE, 6, put(0, "Q", 1), put(1, "Q", 0), put(2, "Q", 0), get(3, 32))
        same("gid", entry[:16].hex(), "fe80000000000000fa4e000000000001")
        entries, count = v.ioctl(DEVICE, 5, put(0, "Q", 32), get(2, 64), get(3, 8))
        same("gids", struct.unpack("<Q", count)[0], 1)
        same("gid of the table", entries[:16], entry[:16])

    def plain(self):
        v = self.v
        answer, echo = v.write(ALLOC_PD, b"", 4)
        self.pd, self.pd_id = u32(answer), echo.id
        same("driver data", (echo.sent, echo.inlen), (0xD0 + ALLOC_PD, 8))
        self.destroys("dealloc_pd", echo.id, PD, 0, self.pd)

        ah = struct.pack("<16sIBBBBHBBBBBB", b"", 0, 0, 0, 0, 0, 9, 3, 0, 0, 0, 1, 0)
        answer, echo = v.write(CREATE_AH, struct.pack("<QII", 0, self.pd, 0) + ah, 4)
        self.ah = u32(answer)
        same("AH", echo.arg, [self.pd_id, 9, 3, 0])
        self.destroys("destroy_ah", echo.id, AH, 0, self.ah)

        answer, echo = v.write(ALLOC_MW, struct.pack("<IB3x", self.pd, 2), 8)
        same("rkey", u32(answer, 4), echo.id)
        same("MW", echo.arg[:2], [2, self.pd_id])
        self.destroys("dealloc_mw", echo.id, MW, 0, u32(answer))
        refused(errno.EINVAL, v.write, ALLOC_MW, struct.pack("<IB3x", self.pd, 3), 8)

        answer, echo = v.write(OPEN_XRCD, struct.pack("<II", 0xFFFFFFFF, os.O_CREAT), 4)
        self.xrcd = u32(answer)
        self.destroys("dealloc_xrcd", echo.id, XRCD, 0, self.xrcd)

    def memory(self):
        v = self.v
        request = struct.pack("<QQQII", 0x10000, 0x3000, 0x20000, self.pd, 7)
        answer, echo = v.write(REG_MR, request, 12)
        mr = u32(answer)
        same("keys", struct.unpack_from("<II", answer, 4), (echo.id, echo.id))
        same("MR", echo.arg, [0x10000, 0x3000, 0x20000, 7])
        # Access changes in place, addresses make another one that takes over the handle.
        request = struct.pack("<IIQQQII", mr, 4, 0, 0, 0, 0, 1)
        answer, echo2 = v.write(REREG_MR, request, 8)
        same("rereg in place", (echo2.id, u32(answer)), (echo.id, echo.id))
        calls()
        request = struct.pack("<IIQQQII", mr, 1, 0x5000, 0x1000, 0x5000, 0, 0)
        answer, echo2 = v.write(REREG_MR, request, 8)
        same("rereg", u32(answer), echo2.id)
        called("dereg_mr", echo.id)
        self.destroys("dereg_mr", echo2.id, MR, 1, mr)
        lkey, rkey, length, iova = v.ioctl(MR, 3, handle(0, mr), get(1, 4), get(2, 4), get(3, 8), get(4, 8))
        same("query", (u32(lkey), u32(rkey), struct.unpack("<QQ", length + iova)),
             (echo2.id, echo2.id, (0x1000, 0x5000)))
        calls()
        sges = struct.pack("<QIIQII", 1, 100, 0, 2, 200, 0)
        v.ioctl(MR, 2, handle(0, self.pd), put(1, "Q", 1), put(2, "Q", 1), attr(3, sges))
        called("advise_mr", self.pd_id, [1, 1, 2, 300])

        calls()
        dmah, = v.ioctl(DMAH, 0, new(0), attr(2, elem=1), put(3, "B", 2))
        dmah_id = called("alloc_dmah", args=[6, 0, 1, 2])[1]
        self.destroys("dealloc_dmah", dmah_id, DMAH, 1, dmah)
        mr, lkey, rkey, echo = v.ioctl(
            MR, 5, new(0), handle(1, self.pd), handle(2, dmah), put(3, "Q", 0x7000),
            put(4, "Q", 0x1000), put(5, "Q", 0x2000), put(6, "I", 1), get(9, 4), get(10, 4),
            put(UHW_IN, "Q", 77), get(UHW_OUT, 56))
        echo = Echo(echo)
        same("MR by ioctl", (echo.sent, echo.arg), (77, [0x1000, 0x2000, 0x7000, 1 | dmah_id << 32]))
        same("keys", (u32(lkey), u32(rkey)), (echo.id, echo.id))
        self.destroys("dereg_mr", echo.id, MR, 1, mr)

        calls()
        dm, added = v.ioctl(DM, 0, new(0), put(1, "Q", 4096), put(2, "I", 3),
                            put(DRIVER, "Q", 1000), get(DRIVER + 1, 8))
        dm_id = called("alloc_dm", args=[4096, 3, 0, self.context])[1]
        same("added attribute", struct.unpack("<Q", added)[0], 1000 + dm_id)
        self.destroys("dealloc_dm", dm_id, DM, 1, dm)
        mr, _, _ = v.ioctl(MR, 0, new(0), put(1, "Q", 96), put(2, "Q", 1000), handle(3, self.pd),
                           put(4, "I", 1 << 5), handle(5, dm), get(6, 4), get(7, 4))
        ident = called("reg_dm_mr", args=[96, 1000, 0, 1 << 5 | dm_id << 32])[1]
        self.destroys("dereg_mr", ident, MR, 1, mr)

    def mapping(self):
        with mmap.mmap(self.v.fd, mmap.PAGESIZE, mmap.MAP_SHARED, mmap.PROT_READ,
                       offset=self.offset) as page:
            text = f"context {self.context}".encode()
            same("page", page[:len(text)], text)
        refused(errno.EINVAL, mmap.mmap, self.v.fd, mmap.PAGESIZE, mmap.MAP_SHARED,
                mmap.PROT_READ)
        fd, = self.v.ioctl(DMABUF, 0, new(0), put(1, "Q", self.offset // mmap.PAGESIZE))
        self.fds.append(fd)
        calls()
        mr, _, _ = self.v.ioctl(MR, 4, new(0), handle(1, self.pd), put(2, "Q", 0),
                                put(3, "Q", 4096), put(4, "Q", 0), put(5, "I", fd),
                                put(6, "I", 1), get(7, 4), get(8, 4))
        ident = called("reg_user_mr_dmabuf", args=[0, 4096, 0, 1])[1]
        self.destroys("dereg_mr", ident, MR, 1, mr)

    def queues(self):
        v = self.v
        answer = v.write(CREATE_COMP_CHANNEL, b"", 4, echo=False)
        self.channel = u32(answer)
        self.fds.append(self.channel)
        answer, echo = v.write(
            CREATE_CQ, struct.pack("<QIIiI", 0xC1, 32, 1, self.channel, 0), 8)
        self.cq, self.cq_id = u32(answer), echo.id
        same("CQ", (echo.arg[:3], u32(answer, 4)), ([32, 1, 0], 32))
        self.destroys("destroy_cq", echo.id, CQ, 1, self.cq, 8)
        cq, cqe, echo, added = v.ioctl(
            CQ, 0, new(0), put(1, "I", 16), put(2, "Q", 0xC2), handle(3, self.channel),
            put(4, "I", 0), put(5, "I", 1), get(6, 4), put(UHW_IN, "Q", 78), get(UHW_OUT, 56),
            put(DRIVER + 2, "Q", 5000), get(DRIVER + 3, 8))
        echo = Echo(echo)
        same("CQ by ioctl", (echo.sent, echo.arg[:3], u32(cqe)), (78, [16, 0, 1], 16))
        same("added attribute", struct.unpack("<Q", added)[0], 5000 + echo.id)
        self.destroys("destroy_cq", echo.id, CQ, 1, cq, 8)
        answer, echo = v.write(RESIZE_CQ, struct.pack("<II", cq, 64), 8)
        same("resize", (u32(answer), echo.arg[0]), (64, 64))
        calls()
        v.extended(MODIFY_CQ, struct.pack("<IIHHI", cq, 1, 9, 11, 0), echo=False)
        called("modify_cq", args=[9, 11])

        answer, echo = v.write(CREATE_SRQ, struct.pack("<QIIII", 0x51, self.pd, 20, 2, 0), 16)
        self.srq, self.srq_id = u32(answer), echo.id
        same("SRQ", echo.arg[:3], [0, 20, 2])
        self.destroys("destroy_srq", echo.id, SRQ, 1, self.srq, 4)
        v.write(MODIFY_SRQ, struct.pack("<IIII", self.srq, 2, 0, 7))
        answer = v.write(QUERY_SRQ, struct.pack("<II", self.srq, 0), 16, echo=False)
        same("query", struct.unpack("<III", answer[:12]), (20, 2, 7))
        request = struct.pack("<IIIIQII", self.srq, 1, 0, 16, 99, 0, 0)
        calls()
        v.write(POST_SRQ_RECV, request, 4, echo=False)
        called("post_srq_recv", self.srq_id, [0, 99])
        for kind, extra in ((1, 0), (2, 8)):
            request = struct.pack("<QIIIIIIII", 0x52, kind, self.pd, 20, 2, 0, extra, self.xrcd, self.cq)
            answer, echo = v.write(CREATE_XSRQ, request, 16)
            same("extended SRQ", echo.arg, [kind, 20, 2, extra << 32 | self.cq_id])
            if kind == 1:
                same("number", u32(answer, 12), echo.id)
            self.destroys("destroy_srq", echo.id, SRQ, 1, u32(answer), 4)
        srq, _, _, _, echo = v.ioctl(
            SRQ, 0, new(0), handle(1, self.pd), put(4, "Q", 1), put(5, "I", 4), put(6, "I", 1),
            put(7, "I", 0), put(9, "Q", 1), handle(2, self.xrcd), handle(3, self.cq), get(11, 4),
            get(12, 4), get(13, 4), get(UHW_OUT, 56))
        echo = Echo(echo)
        same("SRQ by ioctl", echo.arg, [1, 4, 1, self.cq_id])
        self.destroys("destroy_srq", echo.id, SRQ, 1, srq, 4)
        if "srq_buf_umem" in FEATURES:
            srq, _, _, echo = v.ioctl(
                SRQ, 0, new(0), handle(1, self.pd), put(4, "Q", 1), put(5, "I", 4), put(6, "I", 1),
                put(7, "I", 0), put(9, "Q", 0), attr(14, struct.pack("<IiIIQQ", 1, -1, 0, 0, 0xB000, 4096)),
                get(11, 4), get(12, 4), get(UHW_OUT, 56))
            echo = Echo(echo)
            same("SRQ with a buffer", echo.arg, [0, 4, 1, 0xB000])
            v.ioctl(SRQ, 1, handle(0, srq), get(1, 4))

    def make_counter(self, *more):
        calls()
        h, *answers = self.v.ioctl(COMP_CNTR, 0, new(0), *more)
        ident = called("create_comp_cntr")[1]
        self.destroys("destroy_comp_cntr", ident, COMP_CNTR, 1, h)
        return h, ident, *answers

    def attach(self, qp, counter, ops, fmt="I"):
        self.v.ioctl(QP, 2, handle(0, qp), handle(1, counter), put(2, fmt, ops))

    def completion_counters(self):
        v = self.v
        calls()
        most, value, ops = v.ioctl(DEVICE, 8, get(0, 4), get(1, 8), get(2, 4))
        same("caps", (u32(most), struct.unpack("<Q", value)[0], u32(ops)), (100, (1 << 48) - 1, 0x1F))
        called("query_comp_cntr_caps", args=[1])
        v.ioctl(DEVICE, 8)
        command("refuse query_comp_cntr_caps 1 5")
        refused(errno.EIO, v.ioctl, DEVICE, 8, get(0, 4))
        h, ident, added = self.make_counter(put(DRIVER, "Q", 3000), get(DRIVER + 1, 8))
        same("added attribute", struct.unpack("<Q", added)[0], 3000 + ident)
        self.counters = [(h, ident), self.make_counter()]
        command("refuse create_comp_cntr 1 11")
        refused(errno.EAGAIN, v.ioctl, COMP_CNTR, 0, new(0))

        def change(entry, op, value):
            v.ioctl(COMP_CNTR, 2, handle(0, h), put(1, "Q", entry), put(2, "Q", op), put(3, "Q", value))

        def read(entry, size=8):
            return v.ioctl(COMP_CNTR, 3, handle(0, h), put(1, "Q", entry), get(2, size))[0]

        calls()
        change(0, 0, 7)
        called("modify_comp_cntr", ident, [0, 0, 7])
        change(0, 1, 5)
        called("modify_comp_cntr", ident, [0, 1, 5])
        change(1, 0, 1 << 40)
        same("values", [struct.unpack("<Q", read(entry))[0] for entry in (0, 1)], [12, 1 << 40])
        # The driver knows the entries and what can be done with them; numbers have 32 bits.
        calls()
        for entry, op, value in ((2, 0, 1), (0, 2, 1), (0, 0, 1 << 48), (0, 1, (1 << 48) - 12)):
            refused(errno.EINVAL, change, entry, op, value)
            called("modify_comp_cntr", ident, [entry, op, value])
        refused(errno.EINVAL, change, 1 << 32, 0, 1)
        refused(errno.EINVAL, change, 0, 1 << 32, 1)
        refused(errno.EINVAL, read, 1 << 32)
        same("calls", calls(), [])
        refused(errno.EINVAL, read, 2)
        refused(errno.EINVAL, read, 0, 4)
        command("refuse modify_comp_cntr 1 5")
        refused(errno.EIO, change, 0, 0, 1)
        command("refuse read_comp_cntr 1 5")
        refused(errno.EIO, read, 0)
        same("value", struct.unpack("<Q", read(0))[0], 12)
        refused(errno.ENOENT, v.ioctl, COMP_CNTR, 3, handle(0, 0xFFF0), put(1, "Q", 0), get(2, 8))
        name, ident, run = self.ends[-1]
        command(f"refuse {name} 1 16")
        refused(errno.EBUSY, run)

    def counted(self):
        """Queue pairs with counters. They go with these, in whatever order the program ends."""
        v, (one, one_id), (other, other_id) = self.v, *self.counters
        qp, number = self.qp[RC], self.qps[RC]
        calls()
        self.attach(qp, one, 1 | 4)
        called("qp_attach_comp_cntr", number, [one_id, 5])
        # What is counted already, nothing, and what there is not: all that is not for the driver.
        for ops, fmt, error in ((4, "I", errno.EBUSY), (4 | 8, "I", errno.EBUSY), (5, "Q", errno.EBUSY),
                                (0, "I", errno.EINVAL), (64, "I", errno.EINVAL), (1 << 32, "Q", errno.EINVAL)):
            refused(error, self.attach, qp, other, ops, fmt)
        # Nor is a handle of a shared queue pair, even the first one.
        refused(errno.EINVAL, self.attach, self.tgt, other, 8)
        # That is looked at before the operations are.
        refused(errno.EINVAL, self.attach, self.tgt, other, 0)
        refused(errno.ENOENT, self.attach, qp, 0xFFF0, 8)
        refused(errno.EINVAL, self.attach, other, other, 8)
        same("calls", calls(), [])
        # The driver refuses: the operations are free still, and the counter is.
        refused(errno.EOPNOTSUPP, self.attach, qp, other, 32)
        command("refuse qp_attach_comp_cntr 1 12")
        refused(errno.ENOMEM, self.attach, qp, other, 2 | 8)
        name, ident, run = next(x for x in self.ends if x[1] == other_id)
        calls()
        command(f"refuse {name} 1 11")
        refused(errno.EAGAIN, run)
        self.attach(qp, other, 2 | 8, "Q")
        called("qp_attach_comp_cntr", number, [other_id, 10])
        # One counter of two queue pairs, and twice of one.
        self.attach(self.qp[UC], one, 1)
        self.attach(qp, one, 16)
        calls()
        for h in one, other:
            refused(errno.EBUSY, v.ioctl, COMP_CNTR, 1, handle(0, h))
        same("calls", calls(), [])

        # A queue pair that goes gives its counters back.
        third, third_id = self.make_counter()
        end = self.ends.pop()
        h, number, _ = self.make_qp(RC)
        self.attach(h, third, 1)
        self.attach(h, third, 2)
        command("refuse destroy_qp 1 16")
        refused(errno.EBUSY, v.ioctl, QP, 1, handle(0, h), get(1, 4))
        refused(errno.EBUSY, end[2])
        v.ioctl(QP, 1, handle(0, h), get(1, 4))
        calls()
        end[2]()
        called("destroy_comp_cntr", third_id)
        # And one that a queue pair uses which was made before it.
        last = self.make_counter()
        self.ends.insert(0, self.ends.pop())
        self.attach(self.qp[UD], last[0], 1)
        same("tracked counters", tracked("comp_cntr"), 3)

    def make_qp(self, kind, first=None, extra=(0, 0, 0)):
        comp_mask, flags, table = extra
        recv = 0 if comp_mask else 6
        request = struct.pack("<QIIIIIIIIIBBBBIIII", 0xAB, self.pd if first is None else first,
                              self.cq, self.cq, 0, 8, recv, 2, 1 if recv else 0, 0, 1, kind, 0, 0,
                              comp_mask, flags, table, 0)
        request += bytes(-len(request) % 8)
        answer, echo = self.v.extended(CREATE_QP, request, 40)
        h, number = struct.unpack_from("<II", answer)
        return h, number, echo

    def queue_pairs(self):
        v = self.v
        self.qp, self.qps = {}, {}
        for kind in (RC, UC, UD, RAW_PACKET, XRC_INI):
            h, number, echo = self.make_qp(kind)
            same("QP", (echo.id, echo.arg[0], echo.sent), (number, kind, 0xE0 + CREATE_QP))
            self.qp[kind], self.qps[kind] = h, number
            self.destroys("destroy_qp", number, QP, 1, h, 4)
        calls()
        h, number, _ = self.make_qp(XRC_TGT, self.xrcd)
        self.tgt, ident = h, called("create_qp")[1]
        same("QP of an XRC target", number, ident)
        self.destroys("destroy_qp", ident, QP, 1, h, 4)
        # Opened again: the other handle goes first, and the driver hears nothing of it.
        request = struct.pack("<QIIB7x", 0, self.xrcd, number, XRC_TGT)
        answer = v.write(OPEN_QP, request, 32, echo=False)
        same("opened", u32(answer, 4), number)
        calls()
        v.ioctl(QP, 1, handle(0, u32(answer)), get(1, 4))
        same("calls", calls("destroy_qp"), [])

        caps = struct.pack("<5I", 3, 4, 1, 1, 0)
        qp, _, number, echo, added = v.ioctl(
            QP, 0, new(0), handle(2, self.pd), handle(4, self.cq), handle(5, self.cq),
            put(7, "Q", 1), attr(8, caps), put(9, "Q", RC), get(13, 20), get(14, 4),
            get(UHW_OUT, 56), put(DRIVER + 2, "Q", 7000), get(DRIVER + 3, 8))
        echo = Echo(echo)
        same("QP by ioctl", (echo.arg[2], u32(number)), (3 << 32 | 4, echo.id))
        same("added attribute", struct.unpack("<Q", added)[0], 7000 + echo.id)
        self.destroys("destroy_qp", echo.id, QP, 1, qp, 4)

    def states(self):
        v = self.v
        request = bytearray(112)
        # To INIT: the state, a P_Key index, a port, a Q_Key.
        struct.pack_into("<III", request, 64, self.qp[UD], 1 | 1 << 4 | 1 << 5 | 1 << 6, 0x1234)
        request[96], request[104] = 1, 1
        calls()
        v.write(MODIFY_QP, bytes(request), echo=False)
        called("modify_qp", self.qps[UD], [0x71, 0, 1])
        answer = v.write(QUERY_QP, struct.pack("<II", self.qp[UD], 0x71), 128, echo=False)
        same("capabilities", struct.unpack_from("<4I", answer, 64), (8, 6, 2, 1))
        same("query", (u32(answer, 84), answer[108], answer[116]), (0x1234, 1, 1))
        # From INIT no way leads to RTS.
        struct.pack_into("<I", request, 68, 1)
        request[96] = 3
        refused(errno.EINVAL, v.write, MODIFY_QP, bytes(request), None, False)

    def work_queues(self):
        v = self.v
        wqs = []
        request = struct.pack("<IIQIIIIII", 0, 0, 0x77, self.pd, self.cq, 5, 2, 1, 0)
        answer, echo = v.extended(EX_CREATE_WQ, request, 24)
        wqs.append(u32(answer, 8))
        same("WQ", echo.arg, [5, 2, 1, self.cq_id])
        self.wq_id = echo.id
        self.destroys("destroy_wq", echo.id, WQ, 1, wqs[0], 4)
        wq, _, _, number, echo = v.ioctl(
            WQ, 0, new(0), handle(1, self.pd), handle(2, self.cq), put(3, "Q", 0x78),
            put(4, "Q", 0), put(6, "I", 3), put(7, "I", 1), put(8, "I", 0), get(9, 4), get(10, 4),
            get(11, 4), get(UHW_OUT, 56))
        echo = Echo(echo)
        same("WQ by ioctl", (echo.arg, echo.id), ([3, 1, 0, self.cq_id], u32(number)))
        self.destroys("destroy_wq", echo.id, WQ, 1, wq, 4)
        wqs.append(wq)
        _, echo2 = v.extended(EX_MODIFY_WQ, struct.pack("<6I", 1, wq, 1, 0, 0, 0))
        same("modified", echo2.arg[:2], [1, 1])
        request = struct.pack("<IIII", 0, 1, *wqs)
        answer, echo2 = v.extended(CREATE_TABLE, request, 16)
        same("table", echo2.arg[:2], [1, self.wq_id + echo.id])
        self.destroys("destroy_rwq_ind_table", echo2.id, TABLE, 0, u32(answer, 8))
        h, number, echo = self.make_qp(RAW_PACKET, extra=(1, 0, u32(answer, 8)))
        self.destroys("destroy_qp", number, QP, 1, h, 4)

    def flows(self):
        v = self.v
        calls()
        counters, = v.ioctl(COUNTERS, 0, new(0))
        counters_id = called("create_counters")[1]
        self.destroys("destroy_counters", counters_id, COUNTERS, 1, counters)
        action, ident = v.ioctl(FLOW_ACTION, DRIVER, new(DRIVER), get(DRIVER + 1, 4))
        action_id = u32(ident)
        self.destroys("destroy_flow_action", action_id, FLOW_ACTION, 1, action)
        refused(errno.EINVAL, v.ioctl, COUNTERS, 2, handle(0, counters), get(1, 24), put(2, "I", 1))
        specs = struct.pack("<IHH", 0x30, 32, 0) + struct.pack("<II4B", 0x01020304, 5, 0, 0, 0, 0)
        specs += struct.pack("<II4B", 0xFFFFFFFF, 0, 0, 0, 0, 0)
        specs += struct.pack("<IHHII", 0x1000, 16, 0, 0x99, 0)
        specs += struct.pack("<IHHII", 0x1002, 16, 0, action, 0)
        specs += struct.pack("<IHHII", 0x1003, 16, 0, counters, 0)
        request = struct.pack("<II", 0, self.qp[RAW_PACKET])
        request += struct.pack("<IHHB2xBI", 0, len(specs), 3, 4, 1, 0) + specs
        calls()
        answer, echo = v.extended(CREATE_FLOW, request, 8)
        same("flow", echo.arg, [self.qps[RAW_PACKET], 0, 4, 3])
        seen = [(c[2][0], c[2][2]) for c in calls("flow_spec")]
        same("specs", seen, [(0x30, 0x01020304), (0x1000, 0x99), (0x1002, action_id),
                             (0x1003, counters_id)])
        flow = u32(answer, 4)
        self.destroys("destroy_flow", echo.id, FLOW, 0, flow)
        values, = v.ioctl(COUNTERS, 2, handle(0, counters), get(1, 24), put(2, "I", 1))
        same("counters", struct.unpack("<3Q", values), tuple(1000 * counters_id + i for i in range(3)))
        group = bytes([0xFF, 0x0E] + [0] * 13 + [9])
        request = group + struct.pack("<IHH", self.qp[UD], 0xC001, 0)
        v.write(ATTACH_MCAST, request, echo=False)
        called("attach_mcast", self.qps[UD], [0xC001, 9])
        v.write(DETACH_MCAST, request, echo=False)
        called("detach_mcast", self.qps[UD], [0xC001, 9])

    def posts(self):
        v = self.v
        request = struct.pack("<IIII", self.qp[UD], 1, 1, 72)
        # UD: the address handle, the other's number, its key.
        request += struct.pack("<QIIII", 0xAAAA, 1, 2, 2, 0) + struct.pack("<IIII8xQ", self.ah, 77, 5, 0, 0)
        request = request[:16 + 56] + bytes(72 - 56) + struct.pack("<QII", 0x1000, 123, 0)
        calls()
        v.write(POST_SEND, request, 4, echo=False)
        called("post_send", self.qps[UD], [2, 0xAAAA])
        request = struct.pack("<IIIIQII", self.qp[RC], 1, 1, 16, 0xBBBB, 1, 0)
        request += struct.pack("<QII", 0x1000, 45, 0)
        v.write(POST_RECV, request, 4, echo=False)
        called("post_recv", self.qps[RC], [1, 0xBBBB])
        answer = v.write(POLL_CQ, struct.pack("<II", self.cq, 4), 8 + 4 * 48, echo=False)
        same("polled", u32(answer), 2)
        first = struct.unpack_from("<QIIIIIII", answer, 8)
        same("send", (first[0], first[4], first[6], first[7]), (0xAAAA, 123, self.qps[UD], 77))
        second = struct.unpack_from("<QIIIIIII", answer, 8 + 48)
        same("receive", (second[0], second[2], second[4], second[6]), (0xBBBB, 128, 45, self.qps[RC]))
        # No work request: a doorbell.
        request = struct.pack("<IIII", self.qp[RC], 0, 0, 72)
        v.write(POST_SEND, request, 4, echo=False)
        same("calls", calls("post_send"), [])

    def own(self):
        v = self.v
        things = []
        for value in (11, 22):
            h, ident = v.ioctl(THING, DRIVER, new(DRIVER), put(DRIVER + 1, "Q", value), get(DRIVER + 2, 4))
            things.append((h, u32(ident)))
            self.ends.append(("destroy_thing", u32(ident),
                              lambda h=h: v.ioctl(THING, DRIVER + 1, handle(DRIVER, h))))
        read = lambda h: struct.unpack("<Q", v.ioctl(THING, DRIVER + 2, handle(DRIVER, h), get(DRIVER + 1, 8))[0])[0]
        same("value", read(things[1][0]), 22)
        v.ioctl(THING, DRIVER + 3, handle(DRIVER, things[1][0]), put(DRIVER + 1, "Q", 23))
        same("value", read(things[1][0]), 23)
        types, = v.ioctl(THING, DRIVER + 5, handle(DRIVER, self.pd), handle(DRIVER + 1, things[0][0]),
                         get(DRIVER + 2, 8))
        same("types", struct.unpack("<II", types), (PD, THING))
        refused(errno.EBUSY, v.ioctl, THING, DRIVER + 5, handle(DRIVER, self.pd),
                handle(DRIVER + 1, self.pd), get(DRIVER + 2, 8))
        refused(errno.EPROTONOSUPPORT, v.ioctl, HIDDEN, DRIVER, put(DRIVER + 1, "Q", 1))
        refused(errno.EPROTONOSUPPORT, v.ioctl, THING, DRIVER + 6)

        calls()
        stream, = v.ioctl(STREAM, DRIVER, new(DRIVER))
        self.fds.append(stream)
        self.stream = stream
        stream_id = called("alloc_stream")[1]
        for value in (31, 32):
            v.ioctl(STREAM, DRIVER + 1, handle(DRIVER, stream), put(DRIVER + 1, "Q", value))
        same("read", [struct.unpack("<Q", os.read(stream, 8))[0] for _ in range(2)], [31, 32])

        copied = bytes(range(200))
        seen, out, three, echo = v.ioctl(
            THING, DRIVER + 4,
            put(DRIVER + 2, "Q", 1 << 63), put(DRIVER + 3, "5Q", 1, 2, 3, 4, 0),
            attr(DRIVER + 4, copied), put(DRIVER + 5, "Q", 7), put(DRIVER + 6, "I", 5),
            put(DRIVER + 7, "Q", 1 << 40 | 1), attr(DRIVER + 8, struct.pack("<3Q", 91, 92, 93), elem=2),
            handle(DRIVER + 9, 0), handle(DRIVER + 10, stream), handle(DRIVER + 11, self.cq),
            put(DRIVER + 12, "II", things[0][0], things[1][0]), get(DRIVER + 15, 120),
            get(DRIVER + 13, 8), get(DRIVER + 14, 40), put(UHW_IN, "Q", 79), get(UHW_OUT, 56))
        (value, a, b, c, d, constant, flags64, flags32, length, crc, enum, first, enum_len, raw, s_id,
         any_type, n, present, sum_ids) = struct.unpack_from("<7Q3IiQIi4IQ", seen)
        same("value", (value, struct.unpack("<Q", out)[0]), (1 << 63, 1 << 63))
        same("struct", (a, b, c, d), (1, 2, 3, 4))
        same("struct out", struct.unpack("<5Q", three), (1, 2, 3, 4, 0))
        same("constant and flags", (constant, flags32, flags64), (7, 5, 1 << 40 | 1))
        same("copied", (length, crc), (200, zlib.crc32(copied)))
        same("enum", (enum, first, enum_len), (2, 91, 24))
        same("raw fd", raw, 0)
        same("stream", s_id, stream_id)
        same("any object", any_type, CQ)
        same("array", (n, sum_ids), (2, things[0][1] + things[1][1]))
        same("present", present, (1 << 14) - 1)
        same("driver data", Echo(echo).sent, 79)
        # An empty one: only mandatory attributes.
        seen, = v.ioctl(THING, DRIVER + 4, put(DRIVER + 2, "Q", 1), get(DRIVER + 15, 120))
        fields = struct.unpack_from("<7Q3IiQIi4IQ", seen)
        same("defaults", (fields[5], fields[10], fields[13], fields[17]), (42, -2, -1, 1 << 13 | 1))
        refused(errno.EOPNOTSUPP, v.ioctl, THING, DRIVER + 4, put(DRIVER + 2, "Q", 1),
                put(DRIVER + 3, "5Q", 1, 2, 3, 4, 5))
        refused(errno.EINVAL, v.ioctl, THING, DRIVER + 4, put(DRIVER + 2, "Q", 1), put(DRIVER + 6, "I", 8))
        refused(errno.EINVAL, v.ioctl, THING, DRIVER + 4, put(DRIVER + 3, "3Q", 1, 2, 3))

    def handles(self):
        """INFO_HANDLES knows every object that has a handle."""
        for obj, count in ((PD, 1), (AH, 1), (MW, 1), (MR, 4), (XRCD, 1), (CQ, 2), (SRQ, 4), (QP, 8),
                           (WQ, 2), (TABLE, 1), (FLOW, 1), (FLOW_ACTION, 1), (COUNTERS, 1), (DM, 1),
                           (DMAH, 1), (THING, 2), (STREAM, 1), (COMP_CHANNEL, 1),
                           (ASYNC_EVENT, 1), (DMABUF, 1), *self.OF_FEATURES):
            total, listed = self.v.ioctl(DEVICE, 1, put(0, "Q", obj), get(1, 4), get(2, 64))
            same(f"handles of object {obj:#x}", u32(total), count)
            if obj not in (STREAM, COMP_CHANNEL, ASYNC_EVENT, DMABUF):
                same("different handles", len(set(struct.unpack_from(f"<{count}I", listed))), count)

    STEPS = ("queries", "plain", "memory", "mapping", "queues", "queue_pairs", "states", "work_queues", "flows",
             "posts", "own", "handles")
    OF_FEATURES = ()
    if "comp_cntr" in FEATURES:
        # Counters before queue pairs, which end first then.
        STEPS = (*STEPS[:5], "completion_counters", "queue_pairs", "counted", *STEPS[6:])
        OF_FEATURES = ((COMP_CNTR, 3),)

    def make_all(self):
        for step in self.STEPS:
            getattr(self, step)()

    def close(self):
        for fd in self.fds:
            os.close(fd)
        self.v.close()


failed = False


def case(name, run):
    global failed
    try:
        run()
        print(f"ok {name}", flush=True)
        return True
    except (AssertionError, OSError, struct.error, LookupError, ValueError, AttributeError) as error:
        failed = True
        traceback.print_exc(file=sys.stdout)
        print(f"not ok {name}: {error}", flush=True)
        return False


def objects():
    all_of = Everything()
    for step in all_of.STEPS:
        case(step.replace("_", " "), getattr(all_of, step))
    case("refusals", lambda: refusals(all_of))
    case("destroyed in reverse order", all_of.destroy_all)
    calls()
    all_of.close()
    case("the context goes", lambda: wait_for("dealloc_ucontext", lambda: calls("dealloc_ucontext")))
    left = Everything()
    if case("everything again", left.make_all):
        calls()
        case("closed with everything open", left.close)
        case("that context goes", lambda: wait_for("dealloc_ucontext", lambda: calls("dealloc_ucontext")))
    case("killed with everything open", killed)


def killed():
    ready, tell = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            Everything().make_all()
            os.write(tell, b".")
            time.sleep(600)
        finally:
            os._exit(1)
    os.close(tell)
    same("everything in the process", os.read(ready, 1), b".")
    calls()
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    wait_for("dealloc_ucontext", lambda: calls("dealloc_ucontext"))
    os.close(ready)
    if "comp_cntr" in FEATURES:
        same("tracked counters", tracked("comp_cntr"), 0)


def refusals(e):
    """An operation that fails: its error comes out, and the object is as it was."""
    command("refuse alloc_pd 1 11")
    refused(errno.EAGAIN, e.v.write, ALLOC_PD, b"", 4)
    name, ident, run = e.ends[-1]
    command(f"refuse {name} 2 16")
    refused(errno.EBUSY, run)
    refused(errno.EBUSY, run)
    calls()
    # Destroyed by the list of ends, as if nothing had been.
    command("sleep alloc_pd 300")
    start = time.monotonic()
    answer, _ = e.v.write(ALLOC_PD, b"", 4)
    command("sleep alloc_pd 0")
    if time.monotonic() - start < 0.3:
        raise AssertionError("it did not sleep")
    e.v.ioctl(PD, 0, handle(0, u32(answer)))


def event(fd):
    ready, _, _ = select.select([fd], [], [], 30)
    if not ready:
        raise AssertionError("no event")
    return struct.unpack("<QII", os.read(fd, 16))[:2]


def events():
    e = Everything()
    if not case("everything", e.make_all):
        return
    fd = e.async_fd

    def asynchronous():
        for kind, ident, number, element in (
                ("cq", e.cq_id, 0, 0xC1), ("qp", e.qps[RC], 4, 0xAB), ("srq", e.srq_id, 15, 0x51),
                ("wq", e.wq_id, 19, 0x77), ("port", 1, 10, 1)):
            command(f"event {kind} {ident} {number}")
            same(kind, event(fd), (element, number))
        refused(errno.ENOENT, command, "event qp 16000000 4")

    def completions():
        refused(errno.EAGAIN, lambda: nonblocking(e.channel))
        e.v.write(NOTIFY_CQ, struct.pack("<II", e.cq, 0), echo=False)
        command(f"complete {e.cq_id} 3")
        same("completion event", struct.unpack("<Q", os.read(e.channel, 8))[0], 0xC1)
        answer = e.v.write(POLL_CQ, struct.pack("<II", e.cq, 8), 8 + 8 * 48, echo=False)
        same("polled", u32(answer), 3)
        refused(errno.EAGAIN, lambda: nonblocking(e.channel))

    def signals():
        """With a signal of its own choice a program is told where the event is."""
        wanted = signal.SIGRTMIN + 3
        signal.pthread_sigmask(signal.SIG_BLOCK, [wanted])
        for fd, raise_one in ((e.async_fd, lambda: command("event port 1 10")),
                              (e.channel, notified)):
            fcntl.fcntl(fd, fcntl.F_SETOWN, os.getpid())
            fcntl.fcntl(fd, F_SETSIG, wanted)
            flags = fcntl.fcntl(fd, fcntl.F_GETFL)
            fcntl.fcntl(fd, fcntl.F_SETFL, flags | os.O_ASYNC)
            raise_one()
            told = signal.sigtimedwait([wanted], 30)
            if told is None:
                raise AssertionError("no signal")
            same("signal", (told.si_code, told.si_band & select.POLLIN), (POLL_IN, select.POLLIN))
            fcntl.fcntl(fd, fcntl.F_SETFL, flags)
            os.read(fd, 16)

    def notified():
        e.v.write(NOTIFY_CQ, struct.pack("<II", e.cq, 0), echo=False)
        command(f"complete {e.cq_id} 1")
        e.v.write(POLL_CQ, struct.pack("<II", e.cq, 8), 8 + 8 * 48, echo=False)

    def many():
        """Many events of one object wait: those of others are not delayed, nor is the end."""
        start = time.monotonic()
        for _ in range(MANY):
            command(f"event srq {e.srq_id} 15")
        raised = time.monotonic() - start
        start = time.monotonic()
        for _ in range(MANY):
            same("srq", event(e.async_fd), (0x51, 15))
        read = time.monotonic() - start
        print(f"# {MANY} events: raised in {raised:.1f} s, read in {read:.1f} s")

    def counts():
        name, ident, _ = next(x for x in e.ends if x[1] == e.srq_id)
        # One event was read, as the answer must tell.
        answer, = e.v.ioctl(SRQ, 1, handle(0, e.srq), get(1, 4))
        same("events", u32(answer), 1 + MANY)
        e.ends = [x for x in e.ends if x[1] != e.srq_id]

    case("asynchronous events", asynchronous)
    case("completions", completions)
    case("signals", signals)
    case("many events", many)
    case("events are counted", counts)
    case("destroyed in reverse order", e.destroy_all)
    e.close()


def nonblocking(fd):
    flags = fcntl.fcntl(fd, fcntl.F_GETFL)
    fcntl.fcntl(fd, fcntl.F_SETFL, flags | os.O_NONBLOCK)
    try:
        return os.read(fd, 64)
    finally:
        fcntl.fcntl(fd, fcntl.F_SETFL, flags)


class Forks:
    """Processes with copies of the mappings, which make others all the time until the end. They
    have a group of their own, and end with it."""

    def __init__(self):
        self.pid = os.fork()
        if not self.pid:
            os.setpgid(0, 0)
            for _ in range(2):
                os.fork()
            while True:
                child = os.fork()
                if not child:
                    os._exit(0)
                os.waitpid(child, 0)
        wait_for("a group", lambda: os.getpgid(self.pid) == self.pid)

    def end(self):
        os.killpg(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


class Copy:
    """A child process, which has copies of the mappings."""

    def __init__(self, page):
        asked, self.ask = os.pipe()
        self.told, tell = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            os.close(self.ask)
            if os.read(asked, 1):
                os.write(tell, page[:8])
            os._exit(0)
        os.close(asked)
        os.close(tell)

    def tells(self):
        """The first bytes of the page; ends the process."""
        os.write(self.ask, b"?")
        told = os.read(self.told, 8)
        os.waitpid(self.pid, 0)
        return told


def unregister():
    e = Everything()
    if not case("everything", e.make_all):
        return
    page = mmap.mmap(e.v.fd, mmap.PAGESIZE, mmap.MAP_SHARED, mmap.PROT_READ, offset=e.offset)
    one, other = (mmap.mmap(e.v.fd, mmap.PAGESIZE, mmap.MAP_SHARED,
                            mmap.PROT_READ | mmap.PROT_WRITE, offset=e.offset) for _ in range(2))
    child = Copy(one)
    forks = Forks()

    def gone():
        calls()
        command("unregister")
        wait_for("the device to go", lambda: not os.path.exists("/sys/class/infiniband/fakeverbs0"))
        wait_for("its last operation", lambda: calls("dealloc_ucontext"))

    def left():
        same("fatal", event(e.async_fd), (0, 8))
        same("page", page[:8], bytes(8))
        same("page that may be written", one[:8], bytes(8))
        one[:4] = b"left"
        same("page of another mapping", other[:8], b"left" + bytes(4))
        same("page of a copied mapping", child.tells(), b"left" + bytes(4))
        refused(errno.EIO, e.v.write, ALLOC_PD, b"", 4)
        refused(errno.EIO, e.v.ioctl, THING, DRIVER, new(DRIVER), put(DRIVER + 1, "Q", 1),
                get(DRIVER + 2, 4))
        refused(errno.EIO, os.read, e.stream, 8)
        refused(errno.EIO, os.read, e.channel, 8)
        # The handles stay, and the counts can be had.
        e.v.ioctl(CQ, 1, handle(0, e.cq), get(1, 8))

    def again():
        command("register")
        wait_for("a node", lambda: node_of() is not None)
        other = Everything()
        other.make_all()
        other.destroy_all()
        other.close()

    case("the device goes while everything is open", gone)
    forks.end()
    case("what stays of it", left)
    case("registered again beside it", again)
    for mapping in page, one, other:
        mapping.close()
    case("closed", e.close)


def will_warn(count, pattern):
    """The kernel warns so often next, which is no failure; see reports.sh."""
    with open("/dev/kmsg", "w") as f:
        f.write(f"rdma-test warns {count} {pattern}")


def forget():
    """Objects that the driver does not destroy are forgotten: their events go, as they do with
    objects that are destroyed, since the handles that the events refer to may go from then on."""
    def refusing():
        e = Everything()
        answer, _ = e.v.write(ALLOC_PD, b"", 4)
        e.pd = u32(answer)
        answer, _ = e.v.write(CREATE_CQ, struct.pack("<QIIiI", 0xC1, 32, 0, -1, 0), 8)
        e.cq = u32(answer)
        e.rc, number, _ = e.make_qp(RC)
        for _ in range(3):
            command(f"event qp {number} 4")
        return e

    one, other, ended = refusing(), refusing(), []

    def gone():
        command("refuse destroy_qp 1000 16")
        # One for each open file.
        will_warn(2, "[[]ib_uverbs[]]")
        calls()
        command("unregister")
        wait_for("the device to go", lambda: not os.path.exists("/sys/class/infiniband/fakeverbs0"))
        # The driver destroys what is left then.
        wait_for("the end of both domains", lambda: len(ended.extend(calls("dealloc_pd")) or ended) == 2)

    def handle_first():
        answer = one.v.write(DESTROY_QP, struct.pack("<II", one.rc, 0), 4, echo=False)
        same("events that were read", u32(answer), 0)
        # The memory of the handle goes after this.
        time.sleep(0.5)
        same("fatal", event(one.async_fd), (0, 8))
        refused(errno.EAGAIN, lambda: nonblocking(one.async_fd))
        one.close()

    def file_last():
        other.v.close()
        time.sleep(0.5)
        os.close(other.async_fd)

    def again():
        command("register")
        wait_for("a node", lambda: node_of() is not None)

    if case("the device goes, and the driver refuses the end of objects", gone):
        case("a forgotten object has no events", handle_first)
        case("the file of its events is the last one of the program", file_last)
        case("registered again", again)


class Mapper:
    """A process that maps a page of an open file as often as it is asked. It ends with this one."""

    TURN = 50

    def __init__(self, verbs, offset):
        asked, self.ask = os.pipe()
        self.told, tell = os.pipe()
        self.pid = os.fork()
        if self.pid:
            os.close(asked)
            os.close(tell)
            return
        os.close(self.ask)
        libc = ctypes.CDLL(None, use_errno=True)
        libc.mmap.restype = ctypes.c_void_p
        libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + 3 * [ctypes.c_int] + [ctypes.c_long]
        failed = ctypes.c_void_p(-1).value
        while os.read(asked, 1):
            for _ in range(self.TURN):
                if libc.mmap(None, mmap.PAGESIZE, mmap.PROT_READ, mmap.MAP_SHARED, verbs.fd, offset) == failed:
                    os._exit(1)
            os.write(tell, b".")
        os._exit(0)

    def turn(self):
        os.write(self.ask, b"?")
        same("told", os.read(self.told, 1), b".")

    def end(self):
        os.close(self.ask)
        os.close(self.told)
        os.waitpid(self.pid, 0)


def zap():
    def cost(turns):
        """How long it takes to take the pages away from mappings that two processes made by turns."""
        verbs = Verbs(node_of())
        answer, echo = verbs.write(GET_CONTEXT, b"", 8)
        one = Mapper(verbs, echo.arg[0])
        other = Mapper(verbs, echo.arg[0])
        for _ in range(turns):
            one.turn()
            other.turn()
        start = time.monotonic_ns()
        command("disassociate")
        took = time.monotonic_ns() - start
        other.end()
        one.end()
        os.close(u32(answer))
        verbs.close()
        return took

    def grows_as_number():
        half, whole = cost(80), cost(160)
        print(f"# 8000 mappings: {half / 1e6:.1f} ms, 16000: {whole / 1e6:.1f} ms")
        if 2 * whole > 5 * half:
            raise AssertionError("twice the mappings took more than 2.5 times as long")

    case("mappings of two processes are taken away one after another", grows_as_number)


if __name__ == "__main__":
    {"objects": objects, "events": events, "unregister": unregister, "forget": forget, "zap": zap}[sys.argv[1]]()
    print("end")
    sys.exit(failed)

# SPDX-License-Identifier: GPL-2.0
"""Requests to /dev/infiniband/umad* that are almost right, always the same ones: prints how each is
answered. Two modules ib_umad must print the same.

umad_answers.py DEVICE GID GID-INDEX SEED COUNT

DEVICE has a port with MADs; GID is where MADs go, or "-" if LIDs lead there."""

import ctypes
import errno
import fcntl
import mmap
import os
import random
import select
import signal
import socket
import struct
import sys
import time

from umad import ENABLE_PKEY, REGISTER2, UNREGISTER, gid, ioctl

REGISTER = ioctl(1, 28, 3)
MAD = 256
AGENTS = 32
BASE = "/sys/class/infiniband_mad"
libc = ctypes.CDLL(None, use_errno=True)
libc.ioctl.argtypes = [ctypes.c_int, ctypes.c_ulong, ctypes.c_void_p]
libc.write.argtypes = libc.read.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t]
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


class Edge:
    """Memory that ends at `end`, behind which there is none."""

    def __init__(self, size=1 << 16):
        size = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        start = libc.mmap(None, size + mmap.PAGESIZE, 3, 0x22, -1, 0)
        libc.munmap(start + size, mmap.PAGESIZE)
        self.end = start + size

    def put(self, data, there=None):
        """The address of the data, of which the last bytes are not there, but for `there`."""
        kept = len(data) if there is None else there
        ctypes.memmove(self.end - kept, bytes(data[:kept]), kept)
        return self.end - kept


def node(device, kind="umad"):
    for name in sorted(os.listdir(BASE)):
        if name.startswith(kind) and open(f"{BASE}/{name}/ibdev").read().strip() == device:
            return f"/dev/infiniband/{name}"
    return None


def call(function, *args):
    """The answer of a system call, an error by its name."""
    ctypes.set_errno(0)
    got = function(*args)
    return got if got >= 0 else errno.errorcode[ctypes.get_errno()]


def tried(run):
    try:
        return run()
    except OSError as error:
        return errno.errorcode[error.errno]


class Umad:
    def __init__(self, path, flags=os.O_RDWR | os.O_NONBLOCK):
        self.fd = os.open(path, flags)
        self.edge = Edge()

    def ioctl(self, command, data, there=None):
        at = self.edge.put(data, there)
        got = call(libc.ioctl, self.fd, command, at)
        kept = len(data) if there is None else there
        return got, ctypes.string_at(at, kept)

    def write(self, data, there=None):
        return call(libc.write, self.fd, self.edge.put(data, there), len(data))

    def read(self, size, there=None):
        there = size if there is None else there
        at = self.edge.put(bytes(there))
        return call(libc.read, self.fd, at, size), ctypes.string_at(at, there)


def register1(qpn=1, cls=0x21, version=1, methods=0, oui=0, rmpp=0):
    masks = [methods & (1 << 64) - 1, methods >> 64]
    return struct.pack("=IQQBBB3sBx", 7, *masks, qpn, cls, version, oui.to_bytes(3, "big"), rmpp)


def register2(qpn=1, cls=0x21, version=1, methods=0, oui=0, rmpp=0, flags=0, reserved=0):
    masks = [methods & (1 << 64) - 1, methods >> 64]
    return struct.pack("=IIBBHIQQIB3x", 7, qpn, cls, version, reserved, flags, *masks, oui, rmpp)


def header(agent, to, index, timeout=0, retries=0, qpn=1, lid=0, sl=0, bits=0, grh=None, hop=64,
           pkey=0, status=0, length=0, new=True, reserved=bytes(6)):
    use_grh = to is not None if grh is None else grh
    head = struct.pack("=IIIII", agent, status, timeout, retries, length)
    head += struct.pack(">IIHBBBBBB", qpn, 0x80010000, lid, sl, bits, use_grh, index, hop, 0)
    head += (to or bytes(16)) + struct.pack(">I", 0)
    return head + (struct.pack("=H6s", pkey, reserved) if new else b"")


def mad(cls=0x21, method=3, tid=1, attr=1, mod=0, version=1, base=1, size=MAD, rmpp=(0, 0, 0)):
    head = struct.pack(">BBBBHHQHHI", base, cls, version, method, 0, 0, tid, attr, 0, mod)
    head += struct.pack(">BBBB8x", *rmpp, 0)
    return head.ljust(size, b"\0")[:size]


def files(path):
    """What the file is, without any agent."""
    for flags in (os.O_RDONLY, os.O_WRONLY, os.O_RDWR):
        fd = os.open(path, flags | os.O_NONBLOCK)
        print("seek", tried(lambda: os.lseek(fd, 0, os.SEEK_CUR)))
        print("pread", tried(lambda: os.pread(fd, 128, 0)))
        print("pwrite", tried(lambda: os.pwrite(fd, bytes(128), 0)))
        print("mmap", tried(lambda: mmap.mmap(fd, 4096) and None))
        print("read", tried(lambda: os.read(fd, 128)))
        print("write", tried(lambda: os.write(fd, bytes(128))))
        print("fsync", tried(lambda: os.fsync(fd)))
        print("truncate", tried(lambda: os.ftruncate(fd, 0)))
        os.close(fd)
    u = Umad(path)
    for command in (0, 0x1B00, ioctl(1), ioctl(1, 28, 1), ioctl(1, 27, 3), ioctl(2, 8, 1), ioctl(5),
                    ioctl(4, 40, 1), ioctl(3, 4, 1), 0x5401, 0x541B, 0xFFFFFFFF):
        print(f"ioctl {command:#x}", u.ioctl(command, bytes(64))[0])
    poll = select.poll()
    poll.register(u.fd)
    print("poll", poll.poll(0)[0][1])
    os.close(u.fd)


def layouts(path, to, index):
    """When a file's header gets its new layout, by what it takes at least."""
    def least(u):
        return next(size for size in range(120) if u.read(size)[0] != "EINVAL")

    for name, steps in {
        "nothing": [],
        "pkey": [(ENABLE_PKEY, b"")],
        "first": [(REGISTER, register1())],
        "second": [(REGISTER2, register2())],
        "first, pkey": [(REGISTER, register1()), (ENABLE_PKEY, b"")],
        "pkey, first": [(ENABLE_PKEY, b""), (REGISTER, register1())],
        "first, second": [(REGISTER, register1()), (REGISTER2, register2())],
        "second, pkey": [(REGISTER2, register2()), (ENABLE_PKEY, b"")],
        "pkey, pkey": [(ENABLE_PKEY, b""), (ENABLE_PKEY, b"")],
        "refused second, pkey": [(REGISTER2, register2(cls=0x50, methods=2)), (ENABLE_PKEY, b"")],
        "second of which a part is missing, pkey":
            [(REGISTER2, register2(), 39), (ENABLE_PKEY, b"")],
    }.items():
        u = Umad(path)
        answers = [u.ioctl(step[0], step[1].ljust(8, b"\0"), *step[2:]) for step in steps]
        print(f"layout after {name}:", answers, least(u))
        os.close(u.fd)
    # As many agents as there is room for, and their places.
    u = Umad(path)
    print("agents", [u.ioctl(REGISTER2, register2(oui=0))[1][:4].hex() for _ in range(AGENTS + 2)])
    for place in (3, 30, 3, 0, AGENTS, AGENTS + 1, 1 << 31, (1 << 32) - 1):
        print("unregister", place, u.ioctl(UNREGISTER, struct.pack("=I", place))[0])
    print("again", [u.ioctl(REGISTER, register1()) for _ in range(4)])
    os.close(u.fd)


def registrations(u, r, count):
    for _ in range(count):
        what = dict(
            qpn=r.choice([0, 1, 1, 1, 1, 2, 255]),
            cls=r.choice([0, 0, 1, 2, 3, 4, 5, 7, 0x0F, 0x10, 0x20, 0x21, 0x2F, 0x30, 0x31, 0x4F,
                          0x50, 0x81, 0xFF]),
            version=r.choice([0, 1, 1, 1, 2, 8, 0x80, 0xFF]),
            methods=r.choice([0, 0, 2, 6, 1 << 127, 1 << 64, 1 << 3 | 1 << 65, (1 << 128) - 1]),
            oui=r.choice([0, 0x1405, 0x1405, 0xFFFFFF]),
            rmpp=r.choice([0, 0, 0, 1, 1, 2, 255]),
        )
        if r.random() < 0.4:
            command, body = REGISTER, register1(**what)
        else:
            if r.random() < 0.1:
                what["oui"] |= 1 << 24
            what["flags"] = r.choice([0, 0, 0, 1, 2, 3, 1 << 31])
            what["reserved"] = r.choice([0, 0, 1])
            command, body = REGISTER2, register2(**what)
        there = r.randrange(len(body)) if r.random() < 0.1 else None
        got, back = u.ioctl(command, body, there)
        print("register", what, there, "->", got, back.hex() if back != body[:there] else "same")
        # Refusals for want of room are asked for elsewhere.
        if got == 0:
            print("gone", u.ioctl(UNREGISTER, back[:4])[0])


def writes(u, r, to, index, count):
    agents = {}
    for name, what in {
        "plain": dict(cls=0x21), "vendor": dict(cls=0x30, oui=0x1405),
        "rmpp": dict(cls=0x31, oui=0x1405, rmpp=1),
        "user": dict(cls=0x32, oui=0x1405, rmpp=1, flags=1),
        "sa": dict(cls=3, version=2, rmpp=1), "smi": dict(cls=0x81, qpn=0),
    }.items():
        got, back = u.ioctl(REGISTER2, register2(**what))
        print("agent", name, got)
        agents[name] = struct.unpack_from("=I", back)[0] if got == 0 else 40
    # A place that was left.
    u.ioctl(UNREGISTER, struct.pack("=I", agents["plain"]))
    got, back = u.ioctl(REGISTER2, register2())
    print("the same place", struct.unpack_from("=I", back)[0] == agents["plain"])
    places = list(agents.values()) * 6 + [6, 31, 32, 33, 1 << 31, (1 << 32) - 1]
    for tid in range(count):
        cls = r.choice([0x21, 0x21, 0x30, 0x31, 0x32, 3, 4, 0x4F, 0, 0xFF])
        # No transfer is begun that would be sent for long, and none without an end.
        flags = r.choice([0, 0, 0, 1, 1])
        size = r.choice([0, 23, 24, 35, 36, 36, 55, 56, 57, 63, 64, 100, 255, 256, 256, 256, 257,
                         300, 512, 2000, 2048, 2049, 4000, 20000])
        head = dict(
            lid=r.choice([0, 1, 0xBFFF, 0xC000, 0xFFFF]),
            sl=r.choice([0, 0, 15, 16, 255]), bits=r.choice([0, 0, 0, 1, 255]),
            grh=r.choice([None, None, None, None, 0, 1, 2, 255]),
            qpn=r.choice([0, 1, 1, 1, 1 << 24, (1 << 32) - 1]),
            pkey=r.choice([0, 0, 0, 0, 1, 500, 0xFFFF]), status=r.choice([0, 0, 5]),
            timeout=r.choice([0, 0, 0, 20, 1 << 31]) if not flags else 20,
            retries=r.choice([0, 0, 0, 1]), hop=r.choice([64, 64, 0, 255]),
            length=r.choice([0, 0, 99]),
        )
        data = header(r.choice(places), to if r.random() < 0.9 else bytes(range(16)),
                      index if r.random() < 0.9 else r.choice([200, 255]), **head)
        data += mad(cls=cls, method=r.choice([3, 3, 5, 0x83, 0]), tid=tid, size=size,
                    rmpp=(r.choice([1, 1, 0]), r.choice([0, 1, 1, 2]), flags),
                    base=r.choice([1, 1, 1, 1, 0, 0x80]))
        there = r.randrange(len(data)) if r.random() < 0.1 else None
        print("write", tid, len(data), there, "->", u.write(data, there))
        if r.random() < 0.05:
            u.read(1 << 15)


def duplicates(path, to, index):
    """Sends that are like one that has not ended."""
    u = Umad(path)
    print(u.ioctl(ENABLE_PKEY, b""), end=" ")
    agents = [struct.unpack_from("=I", u.ioctl(REGISTER2, what)[1])[0] for what in (
        register2(cls=0x33, oui=1), register2(cls=0x33, oui=2, rmpp=1, flags=1),
        register2(cls=0x33, oui=3, rmpp=1))]
    print("agents", agents)
    for first in (3, 0x83):
        for tid in (9, 9 | 5 << 32):
            for agent in agents:
                for method in (3, 5, 0x83, 7):
                    for flags in (0, 1):
                        for place in (index, index):
                            data = header(agent, to, place, timeout=60000, lid=1 + flags)
                            data += mad(0x33, method, tid + first, rmpp=(1, 1, flags))
                            print("like", first, tid, agent, method, flags, u.write(data))
    os.close(u.fd)


def reads(path, to, index, new):
    """What one waiting MAD gives to reads of all kinds."""
    u = Umad(path)
    if new:
        u.ioctl(ENABLE_PKEY, bytes(8))
    agent = struct.unpack_from("=I", u.ioctl(REGISTER, register1())[1])[0]
    data = header(agent, to, index, timeout=50, length=77, status=3, new=new,
                  reserved=b"unused")
    print("sent", u.write(data + mad(tid=77)))
    ready, _, _ = select.select([u.fd], [], [], 60)
    print("ready", len(ready))
    for size in (0, 1, 55, 56, 63, 64, 79, 80, 87, 88, 89, 200):
        if size in (80, 88, 89, 200):
            for there in (0, 1, 55, 64, 79):
                print("read", size, there, u.read(size, there)[0])
        if size != (88 if new else 80) and size < 89:
            print("read", size, u.read(size)[0])
    got, back = u.read(300)
    # The upper half of the transaction is the agent's own.
    head = len(data)
    back = back[:head + 8] + bytes(4) + back[head + 12:]
    print("read", got, back[:max(got, 0) if isinstance(got, int) else 0].hex())
    print("read", u.read(300)[0])
    os.close(u.fd)


def running(pid, *names):
    with open(f"/proc/{pid}/stat", encoding="ascii") as f:
        return f.read().rsplit(") ", 1)[1][0] in names


def signals(path, to, index):
    """A MAD and then a signal reach a reader before it runs: the MAD is read."""
    cpu = min(os.sched_getaffinity(0))
    spinner = os.fork()
    if spinner == 0:
        os.sched_setaffinity(0, {cpu})
        while True:
            pass
    os.kill(spinner, signal.SIGSTOP)
    answers = set()
    for _ in range(10):
        u = Umad(path, os.O_RDWR)
        agent = struct.unpack_from("=I", u.ioctl(REGISTER, register1())[1])[0]
        reader = os.fork()
        if reader == 0:
            signal.signal(signal.SIGUSR1, lambda *_: None)
            signal.siginterrupt(signal.SIGUSR1, True)
            # The other one, of ordinary priority, goes first.
            os.sched_setaffinity(0, {cpu})
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
            os._exit({80: 0, "EINTR": 1}.get(u.read(400)[0], 2))
        while not all(running(reader, "S") for _ in range(3) if not time.sleep(0.02)):
            pass
        os.kill(spinner, signal.SIGCONT)
        u.write(header(agent, to, index, timeout=1, new=False) + mad())
        ended = (0, 0)
        while not select.select([u.fd], [], [], 0.01)[0] and ended[0] == 0:
            ended = os.waitpid(reader, os.WNOHANG)
        if ended[0] == 0:
            os.kill(reader, signal.SIGUSR1)
        os.kill(spinner, signal.SIGSTOP)
        if ended[0] == 0:
            ended = os.waitpid(reader, 0)
        answers.add({0: "the MAD", 1: "EINTR"}.get(os.waitstatus_to_exitcode(ended[1]), "?"))
        os.close(u.fd)
    os.kill(spinner, signal.SIGKILL)
    os.waitpid(spinner, 0)
    print("a MAD and a signal", sorted(answers))


def issm(path):
    if path is None:
        print("no issm")
        return
    first = os.open(path, os.O_RDWR)
    print("second", tried(lambda: os.open(path, os.O_RDWR | os.O_NONBLOCK)))
    print("read", tried(lambda: os.read(first, 10)))
    print("write", tried(lambda: os.write(first, b"a")))
    print("seek", tried(lambda: os.lseek(first, 0, os.SEEK_CUR)))
    print("pread", tried(lambda: os.pread(first, 10, 0)))
    print("ioctl", tried(lambda: fcntl.ioctl(first, ENABLE_PKEY)))
    poll = select.poll()
    poll.register(first)
    print("poll", poll.poll(0))
    os.close(first)
    again = tried(lambda: os.open(path, os.O_RDONLY | os.O_NONBLOCK))
    print("again", isinstance(again, int))
    if isinstance(again, int):
        os.close(again)


def nodes():
    for name in sorted(os.listdir(BASE)):
        at = f"{BASE}/{name}"
        if not os.path.isdir(at):
            print(name, open(at).read().strip(), oct(os.stat(at).st_mode))
            continue
        print(name, sorted(os.listdir(at)), open(f"{at}/dev").read().strip(),
              open(f"{at}/uevent").read().split(), oct(os.stat(f"/dev/infiniband/{name}").st_mode),
              [open(f"{at}/{f}").read() for f in ("ibdev", "port")],
              [oct(os.stat(f"{at}/{f}").st_mode) for f in ("ibdev", "port")])


def netlink(device):
    """RDMA_NLDEV_CMD_GET_CHARDEV: the nodes by the clients' names."""
    def attr(kind, data):
        return struct.pack("HH", 4 + len(data), kind) + data + bytes(-len(data) % 4)

    index = None
    s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 20)
    s.bind((0, 0))
    for index in range(40):
        # RDMA_NLDEV_CMD_GET of one index: its name.
        s.send(struct.pack("IHHII", 16 + 8, 5 << 10 | 1, 1, 1, 0) + attr(1, struct.pack("I", index)))
        if device.encode() + b"\0" in s.recv(65536):
            break
    for client in (b"umad\0", b"issm\0"):
        for port in (None, 0, 1, 2, 0xFFFFFFFF):
            body = attr(68, client) + attr(1, struct.pack("I", index))
            if port is not None:
                body += attr(3, struct.pack("I", port))
            s.send(struct.pack("IHHII", 16 + len(body), 5 << 10 | 15, 1, 1, 0) + body)
            data = s.recv(65536)
            kind = struct.unpack_from("H", data, 4)[0]
            what = struct.unpack_from("i", data, 16)[0] if kind == 2 else data[16:].hex()
            print("chardev", client, port, kind, what)


def main():
    device, to, index, seed, count = sys.argv[1:6]
    to = None if to == "-" else gid(to)
    index, r, count = int(index), random.Random(int(seed)), int(count)
    path = node(device)
    nodes()
    netlink(device)
    files(path)
    layouts(path, to, index)
    for new in (False, True):
        reads(path, to, index, new)
    duplicates(path, to, index)
    signals(path, to, index)
    issm(node(device, "issm"))
    for new in (False, True):
        u = Umad(path)
        if new:
            u.ioctl(ENABLE_PKEY, bytes(8))
        registrations(u, r, count)
        os.close(u.fd)
        u = Umad(path)
        u.ioctl(ENABLE_PKEY, bytes(8))
        writes(u, r, to, index, count)
        os.close(u.fd)
    print("end")


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: GPL-2.0
"""MADs of user space, by /dev/infiniband/umad*: agents, answers, timeouts, transfers.

umad.py HERE-DEVICE THERE-DEVICE HERE-GID THERE-GID HERE-INDEX THERE-INDEX

Prints what comes of each step, one line each, the same on every core."""

import ctypes
import fcntl
import os
import select
import struct
import sys
import time

HDR = 64
MAD = 256


def ioctl(nr, size=0, way=0):
    return way << 30 | size << 16 | 0x1B << 8 | nr


REGISTER2 = ioctl(4, 40, 3)
UNREGISTER = ioctl(2, 4, 1)
ENABLE_PKEY = ioctl(3)


class Agents:
    """An open file of a device."""

    def __init__(self, device):
        base = "/sys/class/infiniband_mad"
        names = [n for n in os.listdir(base) if n.startswith("umad")]
        for name in names:
            if open(f"{base}/{name}/ibdev").read().strip() == device:
                break
        self.fd = os.open(f"/dev/infiniband/{name}", os.O_RDWR)
        fcntl.ioctl(self.fd, ENABLE_PKEY)

    def register(self, cls, version, methods=(), oui=0, rmpp=0, flags=0, qpn=1):
        masks = [0, 0]
        for m in methods:
            masks[m // 64] |= 1 << (m % 64)
        req = bytearray(
            struct.pack("=IIBBHIQQIB3x", 0, qpn, cls, version, 0, flags, *masks, oui, rmpp)
        )
        fcntl.ioctl(self.fd, REGISTER2, req)
        return struct.unpack_from("=I", req)[0]

    def unregister(self, agent):
        fcntl.ioctl(self.fd, UNREGISTER, struct.pack("=I", agent))

    def send(self, agent, data, gid, index, timeout=0, retries=0, qpn=1, qkey=0x80010000):
        addr = struct.pack(
            ">IIHBBBBBB", qpn, qkey, 0, 0, 0, 1, index, 64, 0
        ) + gid + struct.pack(">I", 0)
        head = struct.pack("=IIIII", agent, 0, timeout, retries, 0) + addr
        head += struct.pack("=H6x", 0)
        assert len(head) == HDR, len(head)
        os.write(self.fd, head + data)

    def recv(self, seconds=30, size=1 << 17):
        ready, _, _ = select.select([self.fd], [], [], seconds)
        if not ready:
            return None
        data = os.read(self.fd, size)
        agent, status, _, _, length = struct.unpack_from("=IIIII", data)
        gid = data[HDR - 28:HDR - 12]
        return agent, status, length, data[HDR:], gid

    def close(self):
        os.close(self.fd)


def mad(cls, version, method, attr, tid=1, mod=0, status=0, data=b"", size=MAD):
    head = struct.pack(">BBBBHHQHHI", 1, cls, version, method, status, 0, tid, attr, 0, mod)
    return (head + data).ljust(size, b"\0")


def vendor(method, tid, payload, rmpp=0, oui=b"\x00\x14\x05", cls=0x30):
    # RMPP's header: version, type, flags. Of a transfer that the core makes, only the flag counts:
    # opensm leaves the rest empty.
    full = tid % 2
    active = struct.pack(">BBBBII", full, full, 1, 0, 0, 0) if rmpp else bytes(12)
    body = active + b"\0" + oui + payload
    head = struct.pack(">BBBBHHQHHI", 1, cls, 1, method, 0, 0, tid, 0x10, 0, 0)
    return head + body


def gid(text):
    import ipaddress
    return ipaddress.ip_address(text).packed


def say(what, answer):
    print(f"{what}: {answer}")


def attempt(what, run):
    try:
        run()
        say(what, "ok")
    except OSError as error:
        say(what, error.strerror)


def show(got):
    if got is None:
        return "nothing"
    _, status, length, data, _ = got
    _, _, _, method, mstatus, _, tid, attr = struct.unpack_from(">BBBBHHQH", data.ljust(24, b"\0"))
    return (f"status {status}, length {length}, method {method:#x}, "
            f"MAD status {mstatus:#x}, tid {tid & 0xffffffff}, attr {attr:#x}")


def main():
    here, there, here_gid, there_gid = sys.argv[1:5]
    here_index, there_index = int(sys.argv[5]), int(sys.argv[6])
    here_gid, there_gid = gid(here_gid), gid(there_gid)
    a, b = Agents(here), Agents(there)

    attempt("class 0", lambda: a.register(0, 1, [1]))
    attempt("class 0x50", lambda: a.register(0x50, 1, [1]))
    attempt("version 0x83", lambda: a.register(4, 0x83, [1]))
    attempt("vendor without OUI", lambda: a.register(0x30, 1, [1]))
    attempt("queue pair 0", lambda: a.register(1, 1, [1], qpn=0))
    attempt("SMI class on QP 1", lambda: a.register(1, 1, [1]))
    attempt("RMPP of a class without", lambda: a.register(4, 1, [1], rmpp=1))
    attempt("RMPP version 2", lambda: a.register(0x30, 1, [1], oui=0x1405, rmpp=2))
    pma = a.register(4, 1)
    one = b.register(0x31, 1, [1, 2], oui=0x1405)
    attempt("a method twice", lambda: b.register(0x31, 1, [2, 3], oui=0x1405))
    attempt("another OUI", lambda: b.register(0x31, 1, [2], oui=0x1406))
    b.unregister(one)
    attempt("again", lambda: b.register(0x31, 1, [1, 2], oui=0x1405))
    attempt("nine OUIs", lambda: [b.register(0x32, 1, [1], oui=i) for i in range(1, 10)])

    # The port's counters: the driver of the other node answers.
    port_select = bytes(40) + b"\0\x01" + bytes(190)
    a.send(pma, mad(4, 1, 1, 0x12, tid=7, data=port_select), there_gid, here_index, 20000, 2)
    say("port counters", show(a.recv()))
    # A class without an agent on that node.
    nobody = a.register(0x21, 1)
    a.send(nobody, mad(0x21, 1, 1, 1, tid=8), there_gid, here_index, 20000, 2)
    say("Get of what nobody has", show(a.recv()))
    a.send(nobody, mad(0x21, 1, 3, 1, tid=9), there_gid, here_index, 300, 1)
    say("Send to nobody", show(a.recv()))
    a.send(nobody, mad(0x21, 1, 3, 1, tid=10), there_gid, here_index, 0, 0)
    say("without a timeout", show(a.recv(1)))
    a.send(nobody, mad(0x21, 1, 3, 1, tid=11), there_gid, here_index, 5000, 0)
    a.unregister(nobody)
    say("unregistered with one sent", show(a.recv(1)))
    # More than an agent of this class may have under way: the rest waits for room, which comes
    # when the first are given up.
    sa = a.register(3, 2)
    for tid in range(100, 160):
        a.send(sa, mad(3, 2, 0x12, 0x35, tid=tid), there_gid, here_index, 60000, 2)
    start = time.monotonic()
    a.unregister(sa)
    say("unregistered with many waiting", "at once" if time.monotonic() - start < 30 else "late")

    # One MAD there and back, in a vendor's class.
    server = b.register(0x30, 1, [1, 2, 3], oui=0x1405, rmpp=1)
    client = a.register(0x30, 1, [], oui=0x1405, rmpp=1)
    a.send(client, vendor(1, 20, b"hello").ljust(MAD, b"\0"), there_gid, here_index, 30000, 1)
    got = b.recv()
    say("server", show(got))
    b.send(server, vendor(0x81, 20, b"world").ljust(MAD, b"\0")[:MAD], here_gid, there_index)
    # The upper half of the transaction ID is the client's agent: it is in the received MAD.
    say("client", show(a.recv(1)))
    tid = struct.unpack_from(">Q", got[3], 8)[0]
    b.send(server, vendor(0x81, tid, b"world").ljust(MAD, b"\0"), here_gid, there_index)
    got = a.recv()
    say("client", show(got))
    say("payload", got[3][40:45])

    # What is in place of an RMPP header, if it is no transfer: who has it sent by the core gets zeros.
    own = a.register(0x33, 1, [], oui=0x1405, rmpp=1, flags=1)
    none = a.register(0x34, 1, [], oui=0x1405)
    takers = [b.register(cls, 1, [1], oui=0x1405) for cls in (0x33, 0x34)]
    for who, agent, cls in (("the core", client, 0x30), ("the program", own, 0x33), ("nobody", none, 0x34)):
        data = bytearray(vendor(1, 22, b"single", cls=cls).ljust(MAD, b"\0"))
        data[24:36] = bytes([1, 1, 6, *range(0x41, 0x4A)])
        a.send(agent, bytes(data), there_gid, here_index)
        got = b.recv()
        say(f"RMPP header, if {who} does RMPP", got and got[3][24:36].hex())
    for agent in (own, none):
        a.unregister(agent)
    for agent in takers:
        b.unregister(agent)

    # Transfers of many MADs, with sizes around those of segments.
    for size in (1, 215, 216, 217, 432, 5000, 60000):
        payload = bytes((i * 7 + size) & 255 for i in range(size))
        a.send(client, vendor(1, 1000 + size, payload, rmpp=1), there_gid, here_index, 30000, 3)
        got = b.recv()
        ok = got is not None and got[3][40:40 + size] == payload
        say(f"request of {size}", f"{show(got)}, {'same' if ok else 'DIFFERENT'}")
        if got is None:
            continue
        tid = struct.unpack_from(">Q", got[3], 8)[0]
        answer = payload[::-1]
        b.send(server, vendor(0x81, tid, answer, rmpp=1), here_gid, there_index, 0, 3)
        got = a.recv()
        ok = got is not None and got[3][40:40 + size] == answer
        say(f"answer of {size}", f"{show(got)}, {'same' if ok else 'DIFFERENT'}")

    # A transfer that is not acknowledged.
    a.send(client, vendor(5, 31, bytes(3000), rmpp=1), there_gid, here_index, 400, 1)
    say("request of a method that nobody has", show(a.recv()))
    # Closed with much under way.
    for i in range(300):
        a.send(pma, mad(0x04, 1, 3, 0x12, tid=100 + i), there_gid, here_index, 5000, 3)
    a.send(client, vendor(1, 32, bytes(50000), rmpp=1), there_gid, here_index, 5000, 3)
    a.close()
    b.close()
    say("closed", "ok")


if __name__ == "__main__":
    main()

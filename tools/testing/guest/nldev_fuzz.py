# SPDX-License-Identifier: GPL-2.0
# nldev_fuzz.py SECONDS SEED: requests of RDMA_NL_NLDEV that are almost right, while devices
# come and go and others list them. Prints how they were answered.

import errno
import os
import random
import socket
import struct
import subprocess
import sys
import time

from together import together

ERROR, DONE = 2, 3
NETLINK_RDMA, NLDEV = 20, 5
NET_NS_FD, SYS_SET = 68, 7
NAMES = [b"rxe0\0", b"rxe1\0", b"a%d\0", b"\0", b"x" * 63 + b"\0", b"y" * 64]

indices = [0, 1, 99]
answers = {}
added = [0, 0]


def opened():
    s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_RDMA)
    s.bind((0, 0))
    s.settimeout(40)
    return s


def attr(kind, payload):
    length = 4 + len(payload)
    return struct.pack("HH", length, kind) + payload + b"\0" * (-length % 4)


def attributes(data):
    """The kind and the payload of each attribute."""
    while len(data) >= 4:
        length, kind = struct.unpack("HH", data[:4])
        if length < 4:
            return
        yield kind & 0x3FFF, data[4:length]
        data = data[(length + 3) & ~3 :]


def u32(kind, value):
    return attr(kind, struct.pack("I", value))


def ask(s, command, body, flags, client=NLDEV):
    """Sends a request and yields its answers; the last one is a word."""
    s.send(struct.pack("IHHII", 16 + len(body), client << 10 | command, flags, 1, 0) + body)
    while True:
        data = s.recv(65536)
        while len(data) >= 16:
            length, kind = struct.unpack("IH", data[:6])
            if kind in (ERROR, DONE):
                code = struct.unpack("i", data[16:20])[0]
                yield errno.errorcode.get(-code, str(code)) if code else "ok"
                return
            yield data[16:length]
            data = data[(length + 3) & ~3 :]


def body(r):
    out = b""
    for _ in range(r.randrange(0, 6)):
        what = r.random()
        if what < 0.3:
            # A copy: look() may shorten the list during the loop.
            out += u32(1, r.choice(tuple(indices)))
        elif what < 0.45:
            out += u32(3, r.choice([0, 1, 1, 1, 2, 0xFFFFFFFF]))
        elif what < 0.9:
            kind = r.randrange(0, 122)
            length = r.choice([0, 1, 2, 4, 4, 4, 4, 8, 8, 16, 64, 65, 130])
            payload = r.randbytes(length)
            if r.random() < 0.5:
                payload = (struct.pack("I", r.randrange(0, 40)) + bytes(130))[:length]
            if kind == 2:
                payload = r.choice(NAMES)
            if kind != NET_NS_FD:
                out += attr(kind | r.choice([0, 0, 0x8000]), payload)
        else:
            junk = r.randbytes(r.randrange(1, 24))
            out += junk + b"\0" * (-len(junk) % 4)
    return out


def requests(seed):
    r, s = random.Random(seed), opened()
    while time.time() < STOP:
        command = r.randrange(0, 33)
        # The way devices are shared stays.
        if command == SYS_SET:
            continue
        flags = r.choice([5, 0x305, 0x105, 0x205])
        word = list(ask(s, command, body(r), flags))[-1]
        answers[word] = answers.get(word, 0) + 1


def garbage(seed):
    r, s = random.Random(seed), opened()
    while time.time() < STOP:
        # Not nothing at all, which netlink refuses.
        s.send(r.randbytes(r.randrange(0, 16)) + bytes(r.randrange(1, 64)))


def tool(*args):
    quiet = subprocess.DEVNULL
    return subprocess.run(args, stdout=quiet, stderr=quiet, check=False).returncode


def lists():
    while time.time() < STOP:
        for what in ("dev", "link", "res", "res show qp", "res show pd", "statistic show"):
            tool("rdma", "-d", "-j", *what.split())


def look():
    s = opened()
    while time.time() < STOP:
        seen = [d for d in ask(s, 1, b"", 0x305) if not isinstance(d, str)]
        indices[:] = [struct.unpack("I", d[4:8])[0] for d in seen] * 3 + [0, 1, 99]
        time.sleep(0.1)


def churn(number):
    r = random.Random(SEED + number)
    while time.time() < STOP:
        name = f"rxe{number}"
        added[number] += not tool("rdma", "link", "add", name, "type", "rxe", "netdev", f"fuzz{number}")
        time.sleep(r.random())
        for name in os.listdir("/sys/class/infiniband"):
            if r.random() < 0.5:
                tool("rdma", "link", "del", name)


if __name__ == "__main__":
    STOP = time.time() + float(sys.argv[1])
    SEED = int(sys.argv[2])
    together([
        lambda: requests(SEED),
        lambda: requests(SEED + 1),
        lambda: garbage(SEED),
        lambda: churn(0),
        lambda: churn(1),
        lists,
        look,
    ])
    print(answers, "added:", added)
    # Something was done, something refused, and devices came: on a slow kernel and a busy
    # machine not much, so it is not how often that is judged.
    sys.exit(not (answers.get("ok", 0) > 10 and answers.get("EINVAL", 0) > 10 and all(added)))

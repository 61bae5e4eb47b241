# SPDX-License-Identifier: GPL-2.0
"""Requests of RDMA_NL_NLDEV that are almost right, always the same ones: prints how each that is
refused is refused, in numbers and in words, and where. Two cores must print the same.

Nothing is changed: what could is made unsound at its end."""

import errno
import random
import struct

import nldev_fuzz
from nldev_fuzz import ask, attr, attributes, u32

SOL_NETLINK, CAP_ACK, EXT_ACK = 270, 10, 11
MSG, OFFS = 1, 2
TLVS = 0x200
# Set, new and deleted links, system, counters, devices, pools.
CHANGE = (2, 3, 4, 7, 16, 18, 26, 27, 30)
NAMES = [b"nosuch\0", b"\0", b"x" * 63 + b"\0", b"y" * 64, b"z" * 64 + b"\0", b"a\0" + b"b" * 80]


def opened():
    s = nldev_fuzz.opened()
    for option in (CAP_ACK, EXT_ACK):
        s.setsockopt(SOL_NETLINK, option, 1)
    return s


def refusal(s, command, body):
    """The number, the words and the place that a request is refused with; None if it is not."""
    s.send(struct.pack("IHHII", 16 + len(body), 5 << 10 | command, 5, 1, 0) + body)
    while True:
        data = s.recv(65536)
        length, kind, flags = struct.unpack("IHH", data[:8])
        if kind != 2:
            continue
        code = struct.unpack("i", data[16:20])[0]
        words, place = "", ""
        for kind, payload in attributes(data[36:length] if flags & TLVS else b""):
            if kind == MSG:
                words = payload.rstrip(b"\0").decode()
            elif kind == OFFS:
                place = struct.unpack("I", payload)[0]
        if not code:
            return None
        return errno.errorcode.get(-code, str(-code)), words, place


def body(r, indices):
    out = b""
    for _ in range(r.randrange(0, 5)):
        what = r.random()
        if what < 0.35:
            out += u32(1, r.choice(indices))
        elif what < 0.5:
            out += u32(3, r.choice([0, 1, 1, 1, 2, 0xFFFFFFFF]))
        else:
            kind = r.randrange(0, 122)
            length = r.choice([0, 1, 2, 3, 4, 4, 4, 8, 8, 16, 64, 65, 130])
            payload = (struct.pack("I", r.randrange(0, 40)) + bytes(130))[:length]
            if kind == 2:
                payload = r.choice(NAMES)
            # Not the file of a namespace.
            if kind != 68:
                out += attr(kind | r.choice([0, 0, 0, 0x8000]), payload)
    if r.random() < 0.1:
        out += bytes(r.choice([1, 2, 3]))
    return out


def main():
    s = opened()
    seen = [d for d in ask(s, 1, b"", 0x305) if not isinstance(d, str)]
    indices = [struct.unpack("I", d[4:8])[0] for d in seen] + [0xFFFF]
    r = random.Random(1)
    for number in range(4000):
        command = r.randrange(0, 33)
        bad = body(r, indices)
        if command in CHANGE:
            bad += b"\0" * (-len(bad) % 4) + u32(r.choice([0, 121, 200]), 0)
        refused = refusal(s, command, bad)
        if refused:
            print(number, command, *refused)


if __name__ == "__main__":
    main()

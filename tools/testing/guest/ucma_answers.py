# SPDX-License-Identifier: GPL-2.0
"""Commands to /dev/infiniband/rdma_cm that are almost right, always the same ones: prints how each is
answered. Two modules rdma_ucm must print the same.

ucma_answers.py SEED COUNT

The namespaces n1 and n2 have devices at 10.0.1.1 and 10.0.1.2. Each command goes to a context that was
brought into a state; after one that succeeded, another context takes its place. COUNT is the number of
changed words for each command and state."""

import os
import random
import struct
import sys

from ucma import *

ONE, TWO = "10.0.1.1", "10.0.1.2"
PORT = 7471


class Setting:
    """A context in a state, its file, and what a command may name besides."""

    def __init__(self, state):
        self.files = []
        in_namespace("n1")
        self.ucm = self.open()
        self.other = self.open()
        self.state = state
        self.join = 0xFFFFFFFE
        self.id = None
        getattr(self, state)()
        self.foreign = self.other.create()
        self.dead = self.ucm.create()
        self.ucm.destroy(self.dead)
        self.null = os.open("/dev/null", os.O_RDWR)

    def open(self):
        self.files.append(Ucm())
        return self.files[-1]

    def close(self):
        os.close(self.null)
        for file in self.files:
            file.close()

    def new(self):
        self.id = self.ucm.create()

    def datagram(self):
        self.id = self.ucm.create(UDP)

    def bound(self, space=TCP):
        self.id = self.ucm.create(space)
        self.ucm.bind(self.id, ONE, 20001)

    def bound_datagram(self):
        self.bound(UDP)

    def joined(self):
        self.bound(UDP)
        self.ucm.must("JOIN_IP_MCAST", struct.pack("=QQ", self.ucm.at, 5) + inet("239.1.1.7", 0) + struct.pack("=I", self.id))
        self.join = struct.unpack_from("=I", self.ucm.answer.raw)[0]
        self.ucm.expect(12)

    def anywhere(self):
        self.id = self.ucm.create()
        self.ucm.bind(self.id, "0.0.0.0", PORT + 1)
        self.ucm.listen(self.id)

    def listening(self):
        self.bound()
        self.ucm.listen(self.id)

    def resolved(self):
        self.bound()
        self.ucm.resolve(self.id, TWO, PORT)

    def routed(self):
        self.resolved()
        self.ucm.route(self.id)

    def listener(self):
        in_namespace("n2")
        self.server = self.open()
        id = self.server.create(uid=9)
        self.server.bind(id, TWO, PORT)
        self.server.listen(id)
        in_namespace("n1")
        return id

    def connecting(self):
        self.listener()
        self.routed()
        self.ucm.connect(self.id)
        self.server.expect(4)

    def requested(self):
        """The passive end, before it accepts; the context is that of n2."""
        self.listener()
        self.routed()
        self.ucm.connect(self.id)
        data = self.server.expect(4)
        self.client, self.ucm = self.ucm, self.server
        self.id = struct.unpack_from("=I", data, 8)[0]

    def responded(self):
        self.requested()
        self.ucm.accept(self.id)
        self.client.expect(5)

    def connected(self):
        self.listener()
        self.routed()
        self.ucm.connect(self.id)
        data = self.server.expect(4)
        self.server.accept(struct.unpack_from("=I", data, 8)[0])
        self.ucm.expect(5)
        self.ucm.accept(self.id, valid=0)
        self.server.expect(9)

    def disconnected(self):
        self.connected()
        self.ucm.must("DISCONNECT", struct.pack("=I", self.id))
        self.ucm.event(0.3)

    def rejected(self):
        self.connecting()
        in_namespace("n1")
        self.server.close()
        self.files.remove(self.server)
        self.ucm.expect(8)


STATES = ["new", "datagram", "bound", "bound_datagram", "joined", "anywhere", "listening", "resolved", "routed",
          "connecting", "requested", "responded", "connected", "disconnected", "rejected"]
# Commands that an event follows, when they succeed.
FOLLOWED = {"RESOLVE_IP", "RESOLVE_ADDR", "RESOLVE_ROUTE", "JOIN_IP_MCAST", "JOIN_MCAST", "CONNECT", "ACCEPT", "REJECT", "DISCONNECT", "NOTIFY"}
# Commands that change nothing.
HARMLESS = {"QUERY", "QUERY_ROUTE", "INIT_QP_ATTR", "GET_EVENT", "CREATE_ID", "WRITE_CM_EVENT"}


def body(name, s):
    """A right command, and the offset of the context's number in it (None: there is none)."""
    at = s.ucm.at
    value = s.ucm.at + 2048
    group = inet("239.1.1.9", 0)
    return {
        "CREATE_ID": (struct.pack("=QQHB5x", 3, at, TCP, 2), None),
        "DESTROY_ID": (struct.pack("=QII", at, s.id, 0), 8),
        "BIND_IP": (struct.pack("=Q", 0) + inet(ONE, 19999) + struct.pack("=I", s.id), 36),
        "RESOLVE_IP": (bytes(28) + inet(TWO, PORT) + struct.pack("=II", s.id, 1000), 56),
        "RESOLVE_ROUTE": (struct.pack("=II", s.id, 1000), 0),
        "QUERY_ROUTE": (struct.pack("=QII", at, s.id, 0), 8),
        "CONNECT": (param(b"data") + struct.pack("=II8x", s.id, 0), 272),
        "LISTEN": (struct.pack("=II", s.id, 4), 0),
        "ACCEPT": (struct.pack("=Q", 6) + param(b"data") + struct.pack("=II8x", s.id, 0), 280),
        "REJECT": (struct.pack("=IBB2x", s.id, 4, 28) + b"nope".ljust(256, b"\0"), 0),
        "DISCONNECT": (struct.pack("=I", s.id), 0),
        "INIT_QP_ATTR": (struct.pack("=QII", at, s.id, 1), 8),
        "GET_EVENT": (struct.pack("=Q", at), None),
        "GET_OPTION": (b"", None),
        "SET_OPTION": (struct.pack("=QIIII", value, s.id, 0, 0, 1), 8),
        "NOTIFY": (struct.pack("=II", s.id, 8), 0),
        "JOIN_IP_MCAST": (struct.pack("=QQ", at, 4) + group + struct.pack("=I", s.id), 44),
        "LEAVE_MCAST": (struct.pack("=QII", at, s.join, 0), 8),
        "MIGRATE_ID": (struct.pack("=QII", at, s.id, s.ucm.fd), 8),
        "QUERY": (struct.pack("=QII", at, s.id, 0), 8),
        "BIND": (struct.pack("=IHH", s.id, 16, 0) + inet(ONE, 19999).ljust(128, b"\0"), 0),
        "RESOLVE_ADDR": (struct.pack("=IIHHI", s.id, 1000, 0, 16, 0) + bytes(128) + inet(TWO, PORT).ljust(128, b"\0"), 0),
        "JOIN_MCAST": (struct.pack("=QQIHH", at, 4, s.id, 16, 1) + group.ljust(128, b"\0"), 16),
        "RESOLVE_IB_SERVICE": (struct.pack("=IIQ", s.id, 0, 0x1234) + b"svc".ljust(64, b"\0") + struct.pack("=II", 1, 0), 0),
        "WRITE_CM_EVENT": (struct.pack("=IIIIQ", s.id, 0, 18, 5, 0x0102030405060708).ljust(320, b"\0"), 0),
    }[name]


def with_id(data, at, id):
    return data[:at] + struct.pack("=I", id) + data[at + 4:]


# Values of options that are right, by level and name.
PATHS = struct.pack("=II", 43, 0) + bytes(64)
OPTIONS = [(0, 0, b"\x08"), (0, 1, b"\1\0\0\0"), (0, 2, b"\1\0\0\0"), (0, 3, b"\x0e"), (0, 4, b"\1"), (1, 1, PATHS), (1, 1, bytes(72)),
           (1, 1, PATHS[:71]), (1, 1, b""), (1, 0, b""), (2, 0, b"\0"), (0, 0, b"12"), (0, 1, b"\1"), (0, 2, b"")]
# Room for the answer around each limit.
ROOMS = {"QUERY_ROUTE": [199, 200, 207, 208], "QUERY": [271, 272, 279, 280], "INIT_QP_ATTR": [143, 144], "GET_EVENT": [323, 324, 335, 336],
         "MIGRATE_ID": [0, 3]}


def variants(name, s, rng, count):
    """(text, how): `how()` calls, and returns the answer."""
    good, at = body(name, s)
    ucm = s.ucm
    value = ucm.at + 2048
    n = N[name]
    yield "right", lambda: ucm.call(name, good)
    if at is not None:
        for text, id in (("foreign", s.foreign), ("dead", s.dead), ("none", 0xFFFFFFF0)):
            yield f"{text} id", lambda id=id: ucm.call(name, with_id(good, at, id))
    yield "in is 0", lambda: ucm.call(name, good, size=0)
    yield "in is less", lambda: ucm.call(name, good, size=max(len(good) - 1, 0))
    yield "in is old", lambda: ucm.call(name, good, size=max(len(good) - 8, 0))
    yield "in is older", lambda: ucm.call(name, good, size=max(len(good) - 9, 0))
    yield "in is more", lambda: ucm.call(name, good, size=len(good) + 1)
    head = struct.pack("=IHH", n, len(good), ROOM)
    if good:
        yield "cut", lambda: ucm.raw(head + good, there=len(head) + len(good) - 1)
        yield "no body", lambda: ucm.raw(struct.pack("=IHH", n, 0, ROOM), there=8)
    if name in ("CREATE_ID", "DESTROY_ID", "QUERY_ROUTE", "QUERY", "INIT_QP_ATTR", "GET_EVENT", "JOIN_IP_MCAST", "JOIN_MCAST",
                "LEAVE_MCAST", "MIGRATE_ID"):
        where = 8 if name == "CREATE_ID" else 0
        yield "no answer", lambda: ucm.call(name, good[:where] + struct.pack("=Q", 8) + good[where + 8:])
        for room in ROOMS.get(name, [3, 4]):
            yield f"room {room}", lambda room=room: ucm.call(name, good, room)
    if name == "QUERY":
        for option, rooms in ((1, (7, 8, 79, 80, 152)), (2, (271, 272, 280)), (3, (7, 8, 183, 184)), (4, (280,))):
            for room in rooms:
                yield f"option {option}, room {room}", lambda option=option, room=room: ucm.call(name, good[:12] + struct.pack("=I", option), room)
    if name == "INIT_QP_ATTR":
        for state in range(8):
            yield f"state {state}", lambda state=state: ucm.call(name, good[:12] + struct.pack("=I", state))
    if name == "SET_OPTION":
        for level, option, data in OPTIONS:
            def there(level=level, option=option, data=data):
                ctypes.memmove(value, data, len(data))
                return ucm.call(name, struct.pack("=QIIII", value, s.id, level, option, len(data)))
            yield f"option {level} {option} {len(data)}", there
        yield "no value", lambda: ucm.call(name, struct.pack("=QIIII", 8, s.id, 0, 0, 1))
        yield "no value, unknown", lambda: ucm.call(name, struct.pack("=QIIII", 8, s.id, 7, 0, 1))
        yield "too long", lambda: ucm.call(name, struct.pack("=QIIII", 8, s.id, 0, 0, (4 << 20) + 1))
    if name == "MIGRATE_ID":
        for text, fd in (("other", s.other.fd), ("null", s.null), ("closed", 999), ("negative", 0xFFFFFFFF)):
            yield f"to {text}", lambda fd=fd: ucm.call(name, good[:12] + struct.pack("=I", fd))
        yield "to this one", lambda: s.other.call(name, struct.pack("=QII", s.other.at, s.id, ucm.fd))
    if name == "CREATE_ID" and s.state == "new":
        for space in (0, 1, IPOIB, UDP, IB, 0xFFFF):
            for kind in (0, 2, 3, 4, 9, 255):
                yield f"space {space:#x} {kind}", lambda space=space, kind=kind: ucm.call(name, good[:16] + struct.pack("=HB5x", space, kind))
    if name == "REJECT":
        for reason, lengths in ((0, (0,)), (1, (0,)), (35, (148,)), (28, (149, 255)), (255, (0,))):
            for length in lengths:
                yield f"reason {reason} {length}", lambda reason=reason, length=length: ucm.call(
                    name, good[:4] + bytes([length, reason]) + good[6:])
    if name in ("CONNECT", "ACCEPT"):
        base = 0 if name == "CONNECT" else 8
        for length in (56, 57, 196, 197):
            yield f"private {length}", lambda length=length: ucm.call(
                name, good[:base + 264] + bytes([length]) + good[base + 265:])
        yield "not valid", lambda: ucm.call(name, good[:base + 271] + b"\0" + good[base + 272:])
        yield "extra", lambda: ucm.call(name, good[:-8] + struct.pack("=II", 0x1234, 0x5678))
    if name == "NOTIFY":
        for event in (0, 4, 5, 7, 19, 0xFFFFFFFF):
            yield f"event {event}", lambda event=event: ucm.call(name, good[:4] + struct.pack("=I", event))
    if name == "LISTEN":
        for backlog in (0, 1, 1024, 1025, 0xFFFFFFFF):
            yield f"backlog {backlog}", lambda backlog=backlog: ucm.call(name, good[:4] + struct.pack("=I", backlog))
    if name == "WRITE_CM_EVENT":
        for event in (0, 4, 17, 19, 20, 0xFFFFFFFF):
            yield f"event {event}", lambda event=event: ucm.call(name, good[:8] + struct.pack("=I", event) + good[12:])
    # Words that are not addresses of memory, which would be somewhere else in the next run.
    skip = {0, 4} if name not in ("BIND_IP", "RESOLVE_IP") and struct.unpack_from("=Q", good.ljust(8, b"\0"))[0] == ucm.at else set()
    if name in ("CREATE_ID", "JOIN_IP_MCAST", "JOIN_MCAST"):
        skip |= {0, 4, 8, 12}
    if name == "SET_OPTION":
        skip |= {0, 4}
    words = [w for w in range(0, len(good) - 3, 4) if w not in skip and w != at and (w < 200 or w >= 264)]
    for _ in range(count if words else 0):
        word = rng.choice(words)
        new = rng.choice([0, 1, 2, 0x1B, 0x0A000101, 0xFFFF, 0xFF000000, 0xFFFFFFFF, rng.getrandbits(32)])
        yield f"word {word} {new:#x}", lambda word=word, new=new: ucm.call(name, with_id(good, word, new))


def masked(name, data):
    """The answer, without what is new in each run."""
    data = bytearray(data)
    if name in ("CREATE_ID", "JOIN_IP_MCAST", "JOIN_MCAST"):
        data[:4] = bytes(4) if data[:4] != b"\xee" * 4 else data[:4]
    if name == "INIT_QP_ATTR":
        data[24:32] = bytes(8)
    return bytes(data).rstrip(b"\xee").hex()


def event_text(data):
    if not data:
        return "none"
    kind = struct.unpack_from("=I", data, 12)[0]
    return f"{kind} uid {struct.unpack_from('=Q', data)[0]} {data[16:].hex().rstrip('0')}"


def run(state, name, seed, count):
    """All variants of a command in a state."""
    setting, index = None, 0
    while True:
        if setting is None:
            setting = Setting(state)
            # The same list each time: only where things are differs.
            ways = list(variants(name, setting, random.Random(f"{seed} {state} {name}"), count))
        if index == len(ways):
            break
        text, how = ways[index]
        index += 1
        got = how()
        answer = setting.ucm.answer.raw
        done = isinstance(got, int)
        line = f"{state}: {name} {text} -> {got}"
        if name == "GET_EVENT":
            line += f" [{event_text(answer.rstrip(bytes([0xEE]))) if done else ''}]"
        elif done and name != "SET_OPTION":
            line += f" [{masked(name, answer)}]"
        _, data = setting.ucm.event(0.25 if done and name in FOLLOWED else 0)
        print(line, "event", event_text(data))
        if done and name not in HARMLESS and not (name == "SET_OPTION" and text.startswith("option 0")):
            setting.close()
            setting = None
    setting.close()


def headers(count, rng):
    """Writes that have not the form of a command."""
    in_namespace("n1")
    ucm = Ucm()
    for length in range(8):
        print(f"header of {length} ->", ucm.raw(bytes(length)))
    for number in list(range(25, 40)) + [0x7FFFFFFF, 0x80000000, 0xFFFFFFFF]:
        print(f"command {number} ->", ucm.call(number, bytes(64)))
    print("header that is not there ->", ucm.raw(bytes(8), there=7))
    print("command 13 too short ->", ucm.call(13, b"", size=1))
    print("poll", select.poll().poll(0))
    for how in (os.O_RDONLY, os.O_WRONLY):
        fd = os.open(PATH, how | os.O_NONBLOCK)
        for text, run in (("read", lambda: os.read(fd, 8)), ("write", lambda: os.write(fd, bytes(8))), ("seek", lambda: os.lseek(fd, 0, 1)),
                          ("pwrite", lambda: os.pwrite(fd, bytes(8), 0)), ("writev", lambda: os.writev(fd, [bytes(4), bytes(28)]))):
            try:
                print(text, run())
            except OSError as error:
                print(text, errno.errorcode[error.errno])
        os.close(fd)
    ucm.close()


def main():
    seed, count = int(sys.argv[1]), int(sys.argv[2])
    states = sys.argv[3:] or STATES
    headers(count, random.Random(seed))
    for state in states:
        for name in NAMES:
            run(state, name, seed, count)
        sys.stdout.flush()
    print("end")


main()

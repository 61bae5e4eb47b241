#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""local_service.py MODE [GID=LID...]: the service for paths that the kernel asks by netlink
(RDMA_NL_LS), as ibacm is one. MODE: `answer` with the path that the LIDs make, `ways` with one
for each direction, too, `fail`, `silent`, or `noise`, which sends rubbish before each answer. `timeout MILLIS` sets how long
the kernel waits, and ends. Prints what it is asked, a line each."""
import ipaddress
import socket
import struct
import sys

NETLINK_RDMA, GROUP_LS, LS = 20, 3, 4
RESOLVE, SET_TIMEOUT, IP_RESOLVE = 0, 1, 2
REQUEST, FAILED = 1, 0x100
PATH, TIMEOUT = 1, 2
NAMES = {3: "service", 4: "dgid", 5: "sgid", 6: "tclass", 7: "pkey", 8: "qos", 9: "ip4", 10: "ip6"}
GMP, PRIMARY, OUTBOUND, INBOUND, BIDIRECTIONAL = 1, 1 << 1, 1 << 3, 1 << 4, 1 << 3 | 1 << 5


def attr(kind, payload):
    data = struct.pack("=HH", 4 + len(payload), kind) + payload
    return data + bytes(-len(data) % 4)


def message(op, flags, seq, body):
    return struct.pack("=IHHII", 16 + len(body), (LS << 10) + op, flags, seq, 0) + body


def attrs(body):
    while len(body) >= 4:
        size, kind = struct.unpack_from("=HH", body)
        if size < 4:
            return
        yield kind, body[4:size]
        body = body[(size + 3) & ~3 :]


def show(kind, payload):
    name = NAMES.get(kind & 0x3FFF & ~(1 << 13), str(kind))
    if name in ("dgid", "sgid", "ip6"):
        value = str(ipaddress.IPv6Address(payload))
    else:
        value = hex(int.from_bytes(payload, sys.byteorder))
    return f"{name}={value}" + ("" if kind & 1 << 13 else " (may be passed over)")


def path(wanted, lids):
    def lid(gid):
        return lids.get(gid, 0)

    dgid, sgid = wanted["dgid"], wanted["sgid"]
    record = bytes(8) + dgid + sgid + struct.pack(">HH", lid(dgid), lid(sgid))
    record += struct.pack(">IBBH", 0, 0, 0x81, wanted["pkey"])
    # Class and level of service, then MTU 2048, rate 2.5 Gb/s, life time: each exactly.
    record += struct.pack(">HBBBB", 0, 2 << 6 | 4, 2 << 6 | 2, 2 << 6 | 16, 0)
    return record + bytes(64 - len(record))


def answers(mode, seq, use, wanted, lids):
    if mode == "fail":
        return [message(RESOLVE, FAILED, seq, b"")]
    flags = PRIMARY | OUTBOUND if use == 1 else PRIMARY | GMP | BIDIRECTIONAL
    record = path(wanted, lids)
    right = attr(PATH, struct.pack("=II", flags, 0) + record)
    # One that is for something else is passed over.
    other = attr(PATH, struct.pack("=II", GMP, 0) + bytes(64))
    if mode == "ways" and use == 0:
        back = dict(wanted, dgid=wanted["sgid"], sgid=wanted["dgid"])
        right += attr(PATH, struct.pack("=II", PRIMARY | INBOUND, 0) + path(back, lids))
        right += attr(PATH, struct.pack("=II", PRIMARY | OUTBOUND, 0) + record)
    good = message(RESOLVE, 0, seq, other + right)
    if mode == "noise":
        return [
            message(RESOLVE, 0, seq + 77777, right),
            message(RESOLVE, REQUEST, seq, right),
            message(SET_TIMEOUT, 0, seq, attr(TIMEOUT, bytes(4))),
            message(SET_TIMEOUT, REQUEST, seq, attr(TIMEOUT, bytes(3))),
            message(IP_RESOLVE, 0, seq, attr(4, bytes(3))),
            good[: 16 + 3],
            good,
            good,
            message(RESOLVE, FAILED, seq, b""),
        ]
    return [good]


def main():
    mode, *rest = sys.argv[1:]
    netlink = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_RDMA)
    if mode == "timeout":
        netlink.bind((0, 0))
        netlink.send(message(SET_TIMEOUT, REQUEST, 1, attr(TIMEOUT, struct.pack("=I", int(rest[0])))))
        return
    netlink.bind((0, 1 << GROUP_LS - 1))
    lids = {}
    for pair in rest:
        gid, lid = pair.rsplit("=", 1)
        lids[ipaddress.IPv6Address(gid).packed] = int(lid, 0)
    print("ready", flush=True)
    while True:
        data = netlink.recv(65536)
        size, kind, _, seq, _ = struct.unpack_from("=IHHII", data)
        if kind >> 10 != LS:
            continue
        if kind & 0x3FF == IP_RESOLVE:
            print("address", *(show(*each) for each in attrs(data[20:size])), flush=True)
            continue
        name = data[16:80].rstrip(b"\0").decode()
        port, use = data[80:82]
        found = list(attrs(data[84:size]))
        print(f"path {name} {port} use={use}", *(show(*each) for each in found), flush=True)
        if mode == "silent":
            continue
        wanted = {"pkey": 0xFFFF}
        for number, payload in found:
            field = NAMES.get(number & ~(1 << 13))
            wanted[field] = int.from_bytes(payload, sys.byteorder) if field == "pkey" else payload
        for answer in answers(mode, seq, use, wanted, lids):
            netlink.send(answer)


main()

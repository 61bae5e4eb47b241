#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""nfqueue.py QUEUE: accepts each packet of a netfilter queue, until SIGTERM.

Prints "bound" when it may be used, and at its end how many packets to the port of RoCE it accepted.
"short N" are those that are not one whole datagram: their length differs from that of the UDP header.
"""
import signal
import socket
import struct
import sys

NETLINK_NETFILTER = 12
SUBSYSTEM = 3
PACKET, VERDICT, CONFIG = 0, 1, 2
HEADER, VERDICT_HEADER, PAYLOAD = 1, 2, 10
COMMAND, PARAMS, MAXLEN = 1, 2, 3
BIND, COPY_PACKET, ACCEPT = 1, 2, 1
PORT = 4791


def attribute(kind, data):
    return struct.pack("<HH", 4 + len(data), kind) + data.ljust((len(data) + 3) & ~3, b"\0")


def message(kind, queue, attributes, flags=1):
    body = struct.pack(">BBH", 0, 0, queue) + attributes
    return struct.pack("<IHHII", 16 + len(body), SUBSYSTEM << 8 | kind, flags, 0, 0) + body


def attributes(data):
    at = 0
    while at + 4 <= len(data):
        length, kind = struct.unpack_from("<HH", data, at)
        if length < 4:
            return
        yield kind & 0x3fff, data[at + 4:at + length]
        at += (length + 3) & ~3


def configure(netlink, queue, attribute):
    netlink.send(message(CONFIG, queue, attribute, flags=5))
    answer = netlink.recv(4096)
    error = struct.unpack_from("<i", answer, 16)[0]
    if error:
        sys.exit(f"queue {queue}: error {error}")


def is_whole(packet):
    """None if it is not to the port of RoCE."""
    if packet[0] >> 4 == 4:
        head, kind = (packet[0] & 15) * 4, packet[9]
    else:
        head, kind = 40, packet[6]
    if kind != 17 or struct.unpack_from(">H", packet, head + 2)[0] != PORT:
        return None
    return len(packet) == head + struct.unpack_from(">H", packet, head + 4)[0]


def main():
    queue = int(sys.argv[1])
    netlink = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_NETFILTER)
    netlink.setsockopt(socket.SOL_SOCKET, 33, 16 << 20)  # SO_RCVBUFFORCE
    netlink.bind((0, 0))
    configure(netlink, queue, attribute(COMMAND, struct.pack(">BBH", BIND, 0, 0)))
    configure(netlink, queue, attribute(PARAMS, struct.pack(">IB", 0xffff, COPY_PACKET)))
    configure(netlink, queue, attribute(MAXLEN, struct.pack(">I", 8192)))
    print("bound", flush=True)
    counts = {True: 0, False: 0, None: 0}

    def end(*_):
        print(f"{counts[True] + counts[False]} accepted, short {counts[False]}", flush=True)
        sys.exit(0)

    signal.signal(signal.SIGTERM, end)
    while True:
        data = netlink.recv(1 << 20)
        at = 0
        while at + 20 <= len(data):
            length, kind = struct.unpack_from("<IH", data, at)
            if kind == SUBSYSTEM << 8 | PACKET:
                found = dict(attributes(data[at + 20:at + length]))
                number = found[HEADER][:4]
                netlink.send(message(VERDICT, queue, attribute(VERDICT_HEADER, struct.pack(">I", ACCEPT) + number)))
                counts[is_whole(found[PAYLOAD])] += 1
            at += (length + 3) & ~3


main()

#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""rules.py CAPTURE SENT FIELD VALUE: whether a rule reached every packet.

CAPTURE has what came by the wire; each packet must be one datagram to the port of RoCE, there must be
SENT of them, and FIELD (class, ttl, source, port) of each must be VALUE, or any if VALUE is "any".
"""
import collections
import ipaddress
import struct
import sys

PORT = 4791
# No packet is longer: the largest MTU of these tests.
LONGEST = 4200


def packets(data):
    order = "<" if data[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1") else ">"
    at = 24
    while at + 16 <= len(data):
        kept, length = struct.unpack(order + "8xII", data[at:at + 16])
        yield data[at + 16:at + 16 + kept], length
        at += 16 + kept


def fields(frame):
    kind, ip = struct.unpack(">H", frame[12:14])[0], frame[14:]
    if kind == 0x8100:
        kind, ip = struct.unpack(">H", frame[16:18])[0], frame[18:]
    if kind == 0x0800 and ip[9] == 17:
        udp = ip[(ip[0] & 15) * 4:]
        found = {"class": ip[1] & 0xfc, "ttl": ip[8], "source": ipaddress.ip_address(ip[12:16])}
    elif kind == 0x86dd and ip[6] == 17:
        udp = ip[40:]
        found = {"class": (struct.unpack(">I", ip[:4])[0] >> 20) & 0xfc, "ttl": ip[7],
                 "source": ipaddress.ip_address(ip[8:24])}
    else:
        return None
    source, port = struct.unpack(">HH", udp[:4])
    found["port"] = source
    return {name: str(value) for name, value in found.items()} if port == PORT else None


def main():
    capture, sent, field, value = sys.argv[1:]
    seen, long = collections.Counter(), 0
    with open(capture, "rb") as file:
        for frame, length in packets(file.read()):
            found = fields(frame)
            if found:
                seen[found.get(field, "any")] += 1
                long += length > LONGEST + 18
    print(f"{sent} packets sent; {field} of those that came: {dict(seen)}, of several in one: {long}")
    if long or set(seen) != {value} or seen[value] != int(sent):
        sys.exit(1)


main()

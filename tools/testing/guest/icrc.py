#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""icrc.py FILE.pcap [ADDRESS]: check the ICRC of every RoCEv2 packet in a capture.

An independent reading of IBTA annex A17.3.3, with zlib's CRC. Prints how many packets
each sender sent, and of which opcodes; exits with 1 if an ICRC is wrong, if no packet
was found, or if ADDRESS is given and sent none.
"""
import collections
import struct
import sys
import zlib

PORT = 4791


def packets(path):
    """The Ethernet frames of a classic pcap file."""
    with open(path, "rb") as f:
        head = f.read(24)
        magic = struct.unpack("<I", head[:4])[0]
        order = "<" if magic in (0xA1B2C3D4, 0xA1B23C4D) else ">"
        while record := f.read(16):
            _, _, kept, length = struct.unpack(order + "IIII", record)
            data = f.read(kept)
            if kept == length:
                yield data


def datagram(frame):
    """(source, IP header and datagram, length of the IP header), if it is RoCEv2."""
    at, kind = 14, frame[12:14]
    if kind == b"\x81\x00":
        at, kind = 18, frame[16:18]
    if kind == b"\x08\x00" and frame[at + 9] == 17:
        size, total, source = 20, struct.unpack_from(">H", frame, at + 2)[0], frame[at + 12 : at + 16]
        if frame[at] != 0x45:
            return None
    elif kind == b"\x86\xdd" and frame[at + 6] == 17:
        size, total, source = 40, struct.unpack_from(">H", frame, at + 4)[0] + 40, frame[at + 8 : at + 24]
    else:
        return None
    packet = bytearray(frame[at : at + total])
    if len(packet) != total or struct.unpack_from(">H", packet, size + 2)[0] != PORT:
        return None
    return source, packet, size


def right(packet, size):
    """Whether the last four bytes are the CRC of what does not change on the way."""
    want = struct.unpack_from("<I", packet, len(packet) - 4)[0]
    if size == 20:
        packet[1] = packet[8] = 0xFF
        packet[10:12] = b"\xff\xff"
    else:
        packet[0] |= 0x0F
        packet[1:4] = b"\xff\xff\xff"
        packet[7] = 0xFF
    packet[size + 6 : size + 8] = b"\xff\xff"
    packet[size + 8 + 4] = 0xFF
    return zlib.crc32(b"\xff" * 8 + packet[:-4]) == want


wrong, opcodes = 0, collections.defaultdict(collections.Counter)
for frame in packets(sys.argv[1]):
    found = datagram(frame)
    if found:
        source, packet, size = found
        sender = ".".join(map(str, source)) if size == 20 else source.hex(":", 2)
        opcodes[sender][packet[size + 8]] += 1
        if not right(packet, size):
            wrong += 1
for sender, seen in opcodes.items():
    print(f"{sender}: {sum(seen.values())} packets, opcodes", *(f"{o:02x}*{n}" for o, n in sorted(seen.items())))
if wrong:
    print(f"{wrong} packets have a wrong ICRC")
sys.exit(bool(wrong) or not opcodes or (len(sys.argv) > 2 and sys.argv[2] not in opcodes))

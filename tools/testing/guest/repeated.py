# SPDX-License-Identifier: GPL-2.0
"""repeated.py FILE.pcap ADDRESS: how many RC requests of ADDRESS were sent again.

A request is sent again if its queue pair has sent its PSN before. Prints the number; exits with 1
if there is no request in the capture, which needs only the first 80 bytes of each packet.
"""
import struct
import sys

PORT = 4791
# Opcodes of RC requests: sends, writes, reads, atomics (IBTA 9.2.1, table 38).
REQUESTS = {*range(0x00, 0x0D), 0x13, 0x14, 0x16, 0x17}


def frames(path):
    with open(path, "rb") as file:
        order = "<" if struct.unpack("<I", file.read(24)[:4])[0] in (0xA1B2C3D4, 0xA1B23C4D) else ">"
        while record := file.read(16):
            yield file.read(struct.unpack(order + "IIII", record)[2])


def main(path, address):
    wanted = bytes(map(int, address.split(".")))
    seen, again = set(), 0
    for frame in frames(path):
        # Ethernet, IPv4 without options, UDP, BTH.
        if len(frame) < 54 or frame[12:14] != b"\x08\x00" or frame[14] != 0x45 or frame[23] != 17:
            continue
        if frame[26:30] != wanted or struct.unpack_from(">H", frame, 36)[0] != PORT or frame[42] not in REQUESTS:
            continue
        request = frame[47:50], frame[51:54]
        again += request in seen
        seen.add(request)
    print(again)
    return not seen


sys.exit(main(*sys.argv[1:]))

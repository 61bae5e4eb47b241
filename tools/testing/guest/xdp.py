#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""xdp.py DEVICE WHAT FAMILY [OUT]: a BPF program at a device, until SIGTERM.

It counts packets to the port of RoCE over IPv4 or IPv6 (v4, v6) and then does WHAT: pass, drop, tx or
redirect (to the device OUT) as a generic XDP program; native passes them as a program of the driver;
ttl is a program at tc's egress, which writes the hop limit 9 into packets of IPv6. Other packets pass.
Prints "attached", and at its end how many it counted. "short N" are those not of one whole
datagram: their length differs from that in their UDP header.
"""
import ctypes
import os
import signal
import socket
import struct
import sys

SYS_BPF = {"x86_64": 321, "aarch64": 280}[os.uname().machine]
libc = ctypes.CDLL(None, use_errno=True)


def bpf(command, attributes):
    buffer = ctypes.create_string_buffer(attributes.ljust(152, b"\0"))
    result = libc.syscall(SYS_BPF, command, buffer, ctypes.c_uint(152))
    if result < 0:
        raise OSError(ctypes.get_errno(), f"bpf command {command}")
    return result, buffer


def insn(code, dst=0, src=0, off=0, imm=0):
    return struct.pack("<BBhi", code, src << 4 | dst, off, imm)


MAP_CREATE, MAP_LOOKUP, PROG_LOAD, LINK_CREATE = 0, 1, 5, 28
ACTIONS = {"drop": 1, "pass": 2, "native": 2, "tx": 3}
PORT = socket.htons(4791)


def program(what, family, map_fd, out):
    """The RoCE part: r2 is the packet, r3 its end, r6 the context."""
    udp = 14 + (20 if family == "v4" else 40)
    at = 76 if what == "ttl" else 0
    other = 0 if what == "ttl" else 2
    head = [
        insn(0xbf, 6, 1),                        # r6 = context
        insn(0x61, 2, 6, at),                    # r2 = data
        insn(0x61, 3, 6, at + 4),                # r3 = end
        insn(0xbf, 4, 2), insn(0x07, 4, imm=udp + 8),
    ]
    body = [
        insn(0x69, 5, 2, udp + 2),               # r5 = destination port
        ("not", PORT),
        # r8 = 1 if the lengths differ, else 0: index of the counter
        insn(0x69, 7, 2, udp + 4), insn(0xdc, 7, imm=16),
        insn(0x07, 7, imm=udp),
        insn(0xbf, 4, 3), insn(0x1f, 4, 2),      # r4 = length of the frame
        insn(0xb7, 8, imm=0),
        insn(0x1d, 4, 7, 1),
        insn(0xb7, 8, imm=1),
    ]
    if what == "ttl":
        body.append(insn(0x72, 2, 0, 14 + 7, 9))  # hop limit
    body += [
        insn(0x63, 10, 8, -4),                   # key on the stack
        insn(0x18, 1, 1, imm=map_fd), insn(0),
        insn(0xbf, 2, 10), insn(0x07, 2, imm=-4),
        insn(0x85, imm=1),                       # look up
        insn(0x15, 0, 0, 2),
        insn(0xb7, 1, imm=1),
        insn(0xdb, 0, 1),                        # atomic add
    ]
    if what == "redirect":
        body += [insn(0xb7, 1, imm=out), insn(0xb7, 2), insn(0x85, imm=23), insn(0x95)]
    else:
        body += [insn(0xb7, 0, imm=ACTIONS.get(what, 0)), insn(0x95)]
    code, rest = b"".join(head), len(body)
    code += insn(0x2d, 4, 3, rest)               # too short: pass
    for number, one in enumerate(body):
        code += insn(0x55, 5, 0, rest - number - 1, one[1]) if isinstance(one, tuple) else one
    return code + insn(0xb7, 0, imm=other) + insn(0x95)


def load(kind, code):
    text, name = ctypes.create_string_buffer(code), ctypes.create_string_buffer(b"GPL")
    log = ctypes.create_string_buffer(65536)
    attributes = struct.pack("<IIQQIIQ", kind, len(code) // 8, ctypes.addressof(text), ctypes.addressof(name),
                             1, len(log), ctypes.addressof(log))
    try:
        return bpf(PROG_LOAD, attributes)[0]
    except OSError:
        print(log.value.decode())
        raise


def attach_xdp(index, fd, flags):
    """RTM_SETLINK with IFLA_XDP; fd -1 detaches."""
    nested = struct.pack("<HHi", 8, 1, fd) + struct.pack("<HHI", 8, 3, flags)
    body = struct.pack("<BxHiII", 0, 0, index, 0, 0) + struct.pack("<HH", 4 + len(nested), 0x8000 | 43) + nested
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as netlink:
        netlink.sendall(struct.pack("<IHHII", 16 + len(body), 19, 5, 1, 0) + body)
        answer = netlink.recv(4096)
    error = struct.unpack_from("<i", answer, 16)[0]
    if error:
        raise OSError(-error, os.strerror(-error))


def main():
    device, what, family = sys.argv[1:4]
    index = socket.if_nametoindex(device)
    out = socket.if_nametoindex(sys.argv[4]) if len(sys.argv) > 4 else 0
    counters = bpf(MAP_CREATE, struct.pack("<IIII", 2, 4, 8, 2))[0]
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    flags = 4 if what == "native" else 2
    fd = load(3 if what == "ttl" else 6, program(what, family, counters, out))
    if what == "ttl":
        bpf(LINK_CREATE, struct.pack("<IIII", fd, index, 47, 0))
    else:
        attach_xdp(index, fd, flags)
    print("attached", flush=True)
    signal.sigwait([signal.SIGTERM])
    if what != "ttl":
        attach_xdp(index, -1, flags)
    counts = []
    for at in range(2):
        key, value = ctypes.c_uint(at), ctypes.c_ulonglong()
        bpf(MAP_LOOKUP, struct.pack("<IxxxxQQ", counters, ctypes.addressof(key), ctypes.addressof(value)))
        counts.append(value.value)
    print(f"{counts[0]} whole, short {counts[1]}", flush=True)


main()

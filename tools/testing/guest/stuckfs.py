# SPDX-License-Identifier: GPL-2.0
"""stuckfs.py FOLDER: a FUSE file system with one file, "file", whose reads are not answered.

The file has 16 MiB of zeros. Reads are answered, also those that came before, once FOLDER.thawed
exists, and with an error once FOLDER.broken does. Prints "mounted"; ends when it is unmounted.
"""

import ctypes
import errno
import os
import select
import struct
import sys

SIZE = 16 << 20
ROOT, FILE = 1, 2
LOOKUP, FORGET, GETATTR, OPEN, READ, FLUSH, INIT, OPENDIR = 1, 2, 3, 14, 15, 25, 26, 27
RELEASE, RELEASEDIR, INTERRUPT, BATCH_FORGET, DESTROY = 18, 29, 36, 42, 38


def attr(node):
    mode, size = (0o040755, 0) if node == ROOT else (0o100666, SIZE)
    return struct.pack("<6Q10I", node, size, size // 512, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


def answer(opcode, node, body):
    """The body of an answer, or an errno."""
    if opcode == INIT:
        # Without readahead and large requests: a fault is a read of one page.
        return struct.pack("<IIIIHHIIHHI7I", 7, 31, 0, 0, 4096, 4096, 4096, 1, 1, 0, 0, *[0] * 7)
    if opcode == LOOKUP:
        if node != ROOT or body.rstrip(b"\0") != b"file":
            return errno.ENOENT
        return struct.pack("<4Q2I", FILE, 0, 3600, 3600, 0, 0) + attr(FILE)
    if opcode == GETATTR:
        return struct.pack("<QII", 3600, 0, 0) + attr(node)
    if opcode in (OPEN, OPENDIR):
        # FOPEN_KEEP_CACHE: an open does not wait for pages that are being read.
        return struct.pack("<QIi", 0, 2, 0)
    if opcode == READ:
        _, offset, size = struct.unpack_from("<QQI", body)
        return bytes(max(0, min(size, SIZE - offset)))
    if opcode in (FLUSH, RELEASE, RELEASEDIR):
        return b""
    return errno.ENOSYS


def main(folder):
    thawed, broken = folder + ".thawed", folder + ".broken"
    fd = os.open("/dev/fuse", os.O_RDWR)
    libc = ctypes.CDLL(None, use_errno=True)
    options = f"fd={fd},rootmode=40000,user_id=0,group_id=0,allow_other,max_read=4096"
    if libc.mount(b"stuck", folder.encode(), b"fuse", 0, options.encode()):
        raise SystemExit(f"mount: {os.strerror(ctypes.get_errno())}")
    print("mounted", flush=True)
    held = []

    def send(unique, what):
        error, body = (-what, b"") if isinstance(what, int) else (0, what)
        try:
            os.write(fd, struct.pack("<IiQ", 16 + len(body), error, unique) + body)
        except FileNotFoundError:
            pass  # Nobody waits for it any more.

    while True:
        answers = os.path.exists(thawed) or os.path.exists(broken)
        if held and answers:
            for unique, what in held:
                send(unique, errno.EIO if os.path.exists(broken) else what)
            held.clear()
        if not select.select([fd], [], [], 0.1)[0]:
            continue
        try:
            request = os.read(fd, 1 << 16)
        except OSError as error:
            if error.errno == errno.ENODEV:
                return
            if error.errno in (errno.EINTR, errno.EAGAIN, errno.ENOENT):
                continue
            raise
        _, opcode, unique, node = struct.unpack_from("<IIQQ", request)
        if opcode in (FORGET, BATCH_FORGET, INTERRUPT):
            continue
        what = answer(opcode, node, request[40:])
        if opcode == READ:
            held.append((unique, what))
        else:
            send(unique, what)
        if opcode == DESTROY:
            return


main(*sys.argv[1:])

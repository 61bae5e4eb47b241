# SPDX-License-Identifier: GPL-2.0
"""Registrations of agents of which the program cannot be told for a while: the page of the request
is protected, and the write of the number waits for userfaultfd.

umad_untold.py HERE-DEVICE THERE-DEVICE HERE-GID THERE-INDEX

Prints cases as the programs of src/ do."""

import ctypes
import errno
import fcntl
import mmap
import os
import select
import struct
import sys
import threading

from umad import REGISTER2, UNREGISTER, Agents, gid, vendor
from umad_answers import libc, register2

UFFD_API, UFFD_REGISTER, UFFD_PROTECT, UFFD_WAKE = 0xC018AA3F, 0xC020AA00, 0xC018AA06, 0x8010AA02
PAGE = mmap.PAGESIZE
LIMIT = 60 * int(os.environ.get("SCALE", "1"))
OUI = 0x1405
failed = 0


def case(name, got, want):
    global failed
    if got == want:
        print(f"ok {name}")
    else:
        failed = 1
        print(f"not ok {name}: {got}, expected {want}")


def userfaultfd():
    """A descriptor, or None if the kernel has no such thing for protected pages."""
    fd = libc.syscall(323, os.O_CLOEXEC | os.O_NONBLOCK)
    if fd < 0:
        return None
    try:
        fcntl.ioctl(fd, UFFD_API, bytearray(struct.pack("=QQQ", 0xAA, 1, 0)))
    except OSError:
        return None
    return fd


class Held(threading.Thread):
    """A registration that waits when the number is written."""

    def __init__(self, fd, request, name):
        super().__init__(daemon=True)
        self.fd, self.uffd, self.answer = fd, userfaultfd(), "no answer"
        self.at = libc.mmap(None, PAGE, 3, 0x22, -1, 0)
        ctypes.memmove(self.at, request, len(request))
        fcntl.ioctl(self.uffd, UFFD_REGISTER, bytearray(struct.pack("=QQQQ", self.at, PAGE, 2, 0)))
        self.protect(1)
        self.start()
        ready, _, _ = select.select([self.uffd], [], [], LIMIT)
        case(f"{name} waits", len(ready), 1)

    def run(self):
        ctypes.set_errno(0)
        got = libc.ioctl(self.fd, REGISTER2, self.at)
        self.answer = got if got == 0 else errno.errorcode[ctypes.get_errno()]

    def protect(self, mode):
        fcntl.ioctl(self.uffd, UFFD_PROTECT, bytearray(struct.pack("=QQQ", self.at, PAGE, mode)))

    def end(self):
        """The answer, and the number."""
        self.protect(0)
        fcntl.ioctl(self.uffd, UFFD_WAKE, bytearray(struct.pack("=QQ", self.at, PAGE)))
        self.join(LIMIT)
        number = struct.unpack("=I", ctypes.string_at(self.at, 4))[0]
        os.close(self.uffd)
        return self.answer, number

    def refuse(self):
        """The answer if the page can no longer be written."""
        libc.mprotect(ctypes.c_void_p(self.at), ctypes.c_size_t(PAGE), 1)
        return self.end()[0]


def tried(run):
    try:
        return run()
    except OSError as error:
        return errno.errorcode[error.errno]


def readable(agents):
    return len(select.select([agents.fd], [], [], 0)[0])


def main():
    here, there, here_gid, there_index = sys.argv[1:5]
    here_gid, there_index = gid(here_gid), int(there_index)
    probe = userfaultfd()
    if probe is None:
        print("skip registrations that wait: no userfaultfd for protected pages")
        print("end")
        return
    os.close(probe)
    # `last` gets a MAD after those of `files`, so that these have been received by then.
    files, last, sender = Agents(here), Agents(here), Agents(there)
    last.register(0x36, 1, [1], oui=OUI)
    agents = [sender.register(cls, 1, [], oui=OUI) for cls in (0x35, 0x36)]
    request = register2(cls=0x35, methods=2, oui=OUI)

    def send(tid):
        sender.send(agents[0], vendor(1, tid, b"early", cls=0x35).ljust(256, b"\0"), here_gid, there_index)
        sender.send(agents[1], vendor(1, tid, b"late", cls=0x36).ljust(256, b"\0"), here_gid, there_index)
        return last.recv() is not None

    held = Held(files.fd, request, "a registration")
    case("nobody can unregister it", tried(lambda: files.unregister(0)), "EINVAL")
    case("another registration gets another number", tried(lambda: files.register(0x21, 1)), 1)
    case("a MAD is received", send(1), True)
    case("nobody can read it", readable(files), 0)
    case("nobody can send with it", tried(lambda: files.send(0, bytes(256), here_gid, 0)), "EIO")
    case("the registration ends", held.end(), (0, 0))
    got = files.recv(5)
    case("the MAD is read", got and got[0], 0)
    case("the agent is unregistered", tried(lambda: files.unregister(0)), None)

    held = Held(files.fd, request, "a registration that fails")
    case("a second MAD is received", send(2), True)
    case("a registration fails when its number is written", held.refuse(), "EFAULT")
    case("its MAD is dropped", readable(files), 0)
    case("its place is free", tried(lambda: files.register(0x35, 1, [1], oui=OUI)), 0)
    case("a third MAD is received", send(3), True)
    case("the third MAD is read", (lambda got: got and got[0])(files.recv(5)), 0)
    for agent in (0, 1):
        case(f"agent {agent} is still there", tried(lambda: files.unregister(agent)), None)
    for each in (files, last, sender):
        each.close()
    print("end")


if __name__ == "__main__":
    main()
    sys.exit(failed)

# SPDX-License-Identifier: GPL-2.0
"""What programs have open of /dev/infiniband/umad* and issm* when the device goes.

umad_ends.py DEVICE COMMAND...

COMMAND removes the device. Prints cases as the programs of src/ do."""

import errno
import fcntl
import os
import select
import subprocess
import sys
import threading
import time

from umad import ENABLE_PKEY, REGISTER2, UNREGISTER
from umad_answers import header, mad, node, register2
from umad_untold import Held, userfaultfd

TRACE = "/sys/kernel/tracing"
LIMIT = 60 * int(os.environ.get("SCALE", "1"))


class Blocked(threading.Thread):
    """A call that waits until the device has gone."""

    def __init__(self, run):
        super().__init__(daemon=True)
        self.call, self.answer = run, "no answer"
        self.start()

    def run(self):
        self.answer = answer(self.call)


def answer(run):
    try:
        return run()
    except OSError as error:
        return errno.errorcode[error.errno]


failed = 0


def case(name, got, want):
    global failed
    if got == want:
        print(f"ok {name}")
    else:
        failed = 1
        print(f"not ok {name}: {got}, expected {want}")


def register(fd):
    fcntl.ioctl(fd, REGISTER2, bytearray(register2()))


def main():
    device, command = sys.argv[1], sys.argv[2:]
    path, issm = node(device), node(device, "issm")
    new = [os.open(path, os.O_RDWR) for _ in range(5)]
    reader, poller, writer, idle, untold = new
    for fd in (reader, poller, writer):
        register(fd)
    holder = os.open(issm, os.O_RDONLY)

    waiting = [Blocked(lambda: os.read(reader, 400)) for _ in range(3)]
    openers = [Blocked(lambda: os.open(issm, os.O_RDONLY)) for _ in range(2)]
    poll = select.poll()
    poll.register(poller, select.POLLIN)
    polled = Blocked(lambda: poll.poll(LIMIT * 1000))
    probe = userfaultfd()
    held = probe and Held(untold, register2(), "a registration")
    # A MAD that is under way: no answer will come of it.
    os.write(writer, header(0, None, 0, timeout=600000, lid=77) + mad())
    time.sleep(2)
    case("all wait", [t.is_alive() for t in waiting + openers + [polled]], [True] * 6)

    print(f"# {' '.join(command)}")
    gone = subprocess.run(command, timeout=LIMIT, check=False).returncode
    case("the device goes while all is open", gone, 0)
    for thread in waiting + [polled]:
        thread.join(LIMIT)
    case("readers are woken", [t.answer for t in waiting], ["EIO"] * 3)
    case("pollers are woken", polled.answer, [(poller, select.POLLERR)])
    for thread in openers:
        thread.join(LIMIT)
    case("openers of issm are woken", [t.answer for t in openers], ["ENXIO"] * 2)
    if held is None:
        print("skip a registration that waits: no userfaultfd for protected pages")
    else:
        case("the registration ends without a device", held.end(), (0, 0))
    # The one that had it is closed last.
    case("issm closes", answer(lambda: os.close(holder)), None)

    with open(f"{TRACE}/events/ib_umad/enable", "w") as enable:
        enable.write("1")
    data = header(0, None, 0, lid=1) + mad()
    case("a write, traced", answer(lambda: os.write(writer, data)), "EIO")
    with open(f"{TRACE}/events/ib_umad/enable", "w") as enable:
        enable.write("0")
    with open(f"{TRACE}/trace") as trace:
        case("the write is in the trace", "ib_umad_write" in trace.read(), True)
    case("a read", answer(lambda: os.read(writer, 400)), "EIO")
    case("a registration", answer(lambda: register(idle)), "EPIPE")
    case("an unregistration",
         answer(lambda: fcntl.ioctl(writer, UNREGISTER, bytes(4))), "EINVAL")
    case("the new layout", answer(lambda: fcntl.ioctl(idle, ENABLE_PKEY)), 0)
    poll = select.poll()
    poll.register(writer)
    case("a poll", poll.poll(0), [(writer, select.POLLERR)])
    case("no node is left", [os.path.exists(p) for p in (path, issm)], [False] * 2)
    for fd in new:
        os.close(fd)
    print("end")
    sys.exit(failed)


if __name__ == "__main__":
    main()

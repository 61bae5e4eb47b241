# SPDX-License-Identifier: GPL-2.0
"""Agents that come and go, are used and closed by many threads at once.

umad_races.py SECONDS DEVICE...

Each thread has a file of its own, or one that it shares; the devices answer themselves. Prints what
was done, and "end"."""

import fcntl
import os
import random
import struct
import sys
import threading
import time

from umad import ENABLE_PKEY, REGISTER2, UNREGISTER
from umad_answers import header, mad, node, register2

done = {}
lock = threading.Lock()


def note(what):
    with lock:
        done[what] = done.get(what, 0) + 1


def step(r, files, paths):
    """One operation on one of the files, which other threads use as well."""
    what = r.random()
    place = r.randrange(len(files))
    fd = files[place]
    try:
        if what < 0.25:
            fcntl.ioctl(fd, REGISTER2, bytearray(register2(
                cls=r.choice([0x21, 0x30, 0x31]), oui=r.choice([1, 2]), methods=r.choice([0, 2]),
                rmpp=r.choice([0, 1]))))
            note("registered")
        elif what < 0.4:
            fcntl.ioctl(fd, UNREGISTER, struct.pack("=I", r.randrange(4)))
            note("unregistered")
        elif what < 0.75:
            data = header(r.randrange(4), None, 0, lid=r.choice([0, 1, 9]),
                          timeout=r.choice([0, 1, 30, 5000]), retries=r.choice([0, 1, 3]))
            data += mad(r.choice([0x21, 0x30, 0x31]), r.choice([1, 3, 0x83]), r.randrange(8),
                        size=r.choice([256, 256, 3000]), rmpp=(1, 1, r.choice([0, 1])))
            os.write(fd, data)
            note("sent")
        elif what < 0.97:
            os.read(fd, r.choice([64, 88, 320, 5000]))
            note("read")
        else:
            new = os.open(r.choice(paths), os.O_RDWR | os.O_NONBLOCK)
            fcntl.ioctl(new, ENABLE_PKEY)
            # The number is reused; the file that had it is closed, even if another thread uses it now.
            os.dup2(new, fd)
            os.close(new)
            note("reopened")
    except OSError as error:
        note(f"{error.strerror}")


def main():
    seconds, paths = float(sys.argv[1]), [node(device) for device in sys.argv[2:]]
    files = []
    for path in paths * 3:
        files.append(os.open(path, os.O_RDWR | os.O_NONBLOCK))
        fcntl.ioctl(files[-1], ENABLE_PKEY)
    end = time.monotonic() + seconds

    def work(seed):
        r = random.Random(seed)
        while time.monotonic() < end:
            step(r, files, paths)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for what in sorted(done):
        print(f"# {done[what]} times: {what}")
    for what in ("registered", "unregistered", "sent", "read", "reopened"):
        assert done.get(what, 0) > 20, what
    # With all outstanding MADs.
    for fd in files:
        os.close(fd)
    print("end")


if __name__ == "__main__":
    main()

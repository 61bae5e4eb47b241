# SPDX-License-Identifier: GPL-2.0
"""netns_storm.py SECONDS SEED: devices are moved between the initial namespace and two others, and
renamed, from all of them at a time, by few names; others are made and deleted, and a namespace ends
again and again with devices in it. Prints how the requests were answered. At the end, in each namespace
the names must be those of one device each, and every device must be there and answer."""

import collections
import errno
import os
import random
import sys
import time

from nldev_answers import opened, refusal
from nldev_fuzz import ask, attr, u32
from netns_names import GET, INDEX, LIMIT, NAME, NET_NS_FD, SET, devices, inside, path, run
from together import together

SECONDS, SEED = int(sys.argv[1]), int(sys.argv[2])
START = time.time()
SPACES = ("init", "a", "b", "c")
NAMES = ("x", "y", "z", "ibdev0", "ibdev1")
# Devices that stay, and the network device of each.
STAYING = {f"s{i}": f"stay{i}" for i in range(4)}
answers = collections.Counter()
# A machine that has much else to do takes longer for these, but not more than ten times as long.
ENOUGH = {"done": 100, "EEXIST": 10}


def over():
    lasted = time.time() - START
    enough = all(answers[word] >= least for word, least in ENOUGH.items())
    return lasted > SECONDS * (1 if enough else 10)


def moves(space, seed):
    """Requests of one namespace: to move, to rename, both."""
    r = random.Random(seed)
    os.setns(os.open(path(space), os.O_RDONLY), 0)
    s = opened()
    while not over():
        there = [int.from_bytes(data[4:8], sys.byteorder) for data in ask(s, GET, b"", 0x305) if not isinstance(data, str)]
        for number in r.sample(there, min(3, len(there))):
            body = u32(INDEX, number)
            what = r.random()
            file = None
            if what < 0.7:
                body += attr(NAME, r.choice(NAMES).encode() + b"\0")
            if what > 0.3:
                try:
                    file = os.open(path(r.choice(SPACES)), os.O_RDONLY)
                except FileNotFoundError:
                    continue
                body += u32(NET_NS_FD, file)
            refused = refusal(s, SET, body)
            if file is not None:
                os.close(file)
            answers[refused[0] if refused else "done"] += 1
    s.close()


def churn(space, seed):
    """Devices that come, by a name that may be in use, and go."""
    r = random.Random(seed)
    prefix = () if space == "init" else ("ip", "netns", "exec", space)
    while not over():
        run(*prefix, "ip", "link", "add", f"churn{space}", "type", "dummy")
        run(*prefix, "rdma", "link", "add", r.choice(NAMES), "type", "rxe", "netdev", f"churn{space}")
        time.sleep(r.random() / 10)
        run(*prefix, "ip", "link", "del", f"churn{space}")


def ending():
    """A namespace that comes, and ends with what was moved to it."""
    while not over():
        run("ip", "netns", "add", "c")
        # Whoever holds its file keeps it, too, for a moment.
        time.sleep(0.3)
        run("ip", "netns", "del", "c")


def main():
    for name, netdev in STAYING.items():
        assert run("ip", "link", "add", netdev, "type", "dummy")[0] == 0
        assert run("rdma", "link", "add", name, "type", "rxe", "netdev", netdev)[0] == 0
    staying = {number for number, name in devices("init").items() if name in STAYING}
    assert len(staying) == len(STAYING), staying
    r = random.Random(SEED)
    calls = [lambda s=space, n=r.random(): moves(s, n) for space in SPACES[:3] for _ in range(2)]
    calls += [lambda s=space, n=r.random(): churn(s, n) for space in SPACES[:2]]
    together(calls + [ending])
    print(dict(answers))
    assert all(answers[word] for word in ENOUGH), "nothing was done, or no name was in use"
    unexpected = set(answers) - {"done", "EEXIST", "EINVAL", "ENODEV", errno.errorcode[errno.EBUSY]}
    assert not unexpected, unexpected

    end = time.time() + 2 * LIMIT
    while True:
        found = {space: devices(space) for space in SPACES[:3]}
        there = {number for seen in found.values() for number in seen}
        if staying == there or time.time() > end:
            break
        time.sleep(0.2)
    print(found)
    assert staying == there, "a device is lost, or one of the others is left"
    for space, seen in found.items():
        assert len(set(seen.values())) == len(seen), f"{space}: a name is there twice"
        prefix = () if space == "init" else ("ip", "netns", "exec", space)
        shown = run(*prefix, "sh", "-c", "ls /sys/class/infiniband")[1].split()
        assert sorted(shown) == sorted(seen.values()), (space, shown)
        for number, name in seen.items():
            with inside(space):
                s = opened()
                assert refusal(s, SET, u32(INDEX, number) + attr(NAME, name.encode() + b"\0")) is None
                s.close()
    for netdev in STAYING.values():
        run("ip", "link", "del", netdev)
    while any(devices(space) for space in SPACES[:3]):
        assert time.time() < end + 2 * LIMIT, "a device does not go"
        time.sleep(0.2)


if __name__ == "__main__":
    main()

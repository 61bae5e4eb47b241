# SPDX-License-Identifier: GPL-2.0
"""netns_names.py DIR: names of devices in namespaces, in exclusive mode: the same requests on any
core. What they were answered, in numbers and in words, which devices each namespace has afterwards,
and what listeners were told goes to DIR/PART.txt, and the parts to DIR/parts.

The devices are d0, d1 and d2, of soft-RoCE; requests name them by their index."""

import contextlib
import os
import socket
import struct
import subprocess
import sys
import time

from nldev_answers import SOL_NETLINK, opened, refusal
from nldev_fuzz import ask, attr, attributes, u32

CLONE_NEWNET = 0x40000000
GET, SET = 1, 2
INDEX, NAME, NET_NS_FD, EVENT_TYPE = 1, 2, 68, 102
ADD_MEMBERSHIP, NOTIFY_GROUP, RENAMED = 1, 4, 4
KOBJECT_UEVENT = 15
SPACES = ("init", "a", "b")
LIMIT = 60 * int(os.environ.get("SCALE", "1"))
CONFIGFS = "/sys/kernel/config"

out = sys.stdout
index = {}
listeners = {}
monitor = None


def say(*words):
    print(*words, file=out, flush=True)


def path(space):
    return "/proc/1/ns/net" if space == "init" else f"/run/netns/{space}"


@contextlib.contextmanager
def inside(space):
    home, there = (os.open(path(s), os.O_RDONLY) for s in ("init", space))
    try:
        os.setns(there, CLONE_NEWNET)
        yield
    finally:
        os.setns(home, CLONE_NEWNET)
        os.close(home)
        os.close(there)


def run(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    return done.returncode, done.stdout.decode(errors="replace").strip()


def do(*command, space="init"):
    """A command in a namespace, and the end of what it printed."""
    prefix = () if space == "init" else ("ip", "netns", "exec", space)
    status, text = run(*prefix, *command)
    say(f"{status}: {space}:", *command, text.splitlines()[-1] if text else "")
    return status


def patiently(what, condition):
    end = time.time() + LIMIT
    while not condition():
        if time.time() > end:
            say("never:", what)
            return
        time.sleep(0.1)


def devices(space):
    """Of each device that the namespace sees: its index and its name."""
    with inside(space):
        s = opened()
        found = {}
        for data in ask(s, GET, b"", 0x305):
            if not isinstance(data, str):
                values = dict(attributes(data))
                found[struct.unpack("I", values[INDEX])[0]] = values[NAME].rstrip(b"\0").decode()
        s.close()
    return found


def request(space, device, to=None, name=None, fd=None, process=None):
    """RDMA_NLDEV_CMD_SET by a socket of one namespace, from a process in the same or another."""
    with inside(space):
        s = opened()
    file = os.open(path(to), os.O_RDONLY) if to else fd
    body = u32(INDEX, index.get(device, 0xFFFF))
    if name is not None:
        body += attr(NAME, name.encode() + b"\0")
    if file is not None:
        body += u32(NET_NS_FD, file & 0xFFFFFFFF)
    with inside(process or space):
        refused = refusal(s, SET, body)
    if to:
        os.close(file)
    s.close()
    asked = " ".join(f"{k}={v}" for k, v in (("to", to), ("name", name), ("process", process)) if v is not None)
    say(f"{space}: {device} {asked}:", *refused[:2] if refused else ["done"])
    told()


def see():
    """What each namespace has: by netlink, and in sysfs."""
    for space in SPACES:
        if not os.path.exists(path(space)):
            continue
        found = devices(space)
        say(f"{space} has", *(f"{name}({number})" for number, name in sorted(found.items())))
        prefix = () if space == "init" else ("ip", "netns", "exec", space)
        shown = run(*prefix, "sh", "-c", "ls /sys/class/infiniband; cat /sys/class/infiniband_verbs/*/ibdev | sort")
        say(f"{space} shows", *shown[1].split())


def listen():
    """A listener to events of the kernel in each namespace, and one to rdma's."""
    global monitor
    for space in SPACES:
        if space not in listeners and os.path.exists(path(space)):
            with inside(space):
                s = socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, KOBJECT_UEVENT)
                s.bind((0, 1))
                s.setblocking(False)
                listeners[space] = s
    if not monitor:
        monitor = opened()
        monitor.setsockopt(SOL_NETLINK, ADD_MEMBERSHIP, NOTIFY_GROUP)
        monitor.setblocking(False)


def told():
    """What listeners were told since the last time: how many devices were added."""
    added = 0
    for space, s in listeners.items():
        with contextlib.suppress(BlockingIOError):
            while True:
                words = s.recv(65536).decode(errors="replace").split("\0")
                values = dict(word.split("=", 1) for word in words if "=" in word)
                if values.get("SUBSYSTEM") != "infiniband":
                    continue
                places = [os.path.basename(values[k]) for k in ("DEVPATH_OLD", "DEVPATH") if k in values]
                say(f"  {space} is told: {values['ACTION']} {values.get('NAME')}", *places)
                added += values["ACTION"] == "add"
    with contextlib.suppress(BlockingIOError):
        while True:
            data = monitor.recv(65536)
            values = dict(attributes(data[16:]))
            if values.get(EVENT_TYPE, b"\xff")[0] == RENAMED:
                say("  renamed:", values[NAME].rstrip(b"\0").decode())
    return added


def come(*labels):
    """Devices in the initial namespace, as they were first."""
    for label in labels:
        netdev = f"net{label}"
        run("ip", "link", "add", netdev, "type", "dummy")
        run("ip", "link", "set", netdev, "up")
        if do("rdma", "link", "add", label, "type", "rxe", "netdev", netdev):
            continue
        index.update({label: number for number, name in devices("init").items() if name == label})
    told()


def go(*labels):
    for label in labels:
        run("ip", "link", "del", f"net{label}")

    def gone():
        there = {number for space in SPACES if os.path.exists(path(space)) for number in devices(space)}
        return not there & {index[label] for label in labels if label in index}

    patiently(f"{labels} go", gone)
    for label in labels:
        index.pop(label, None)
    told()


def spaces_come():
    for space in ("a", "b"):
        do("ip", "netns", "add", space)
    listen()
    told()


def space_ends(space, *labels):
    """The namespace ends, and those of these devices that are in it come to the initial one."""
    listeners.pop(space).close()
    added = 0
    labels = [label for label in labels if index[label] in devices(space)]
    do("ip", "netns", "del", space)

    def back():
        nonlocal added
        added += told()
        return added >= len(labels) and {index[label] for label in labels} <= set(devices("init"))

    patiently(f"{labels} come back", back)


def shared(mode="shared"):
    patiently(mode, lambda: run("rdma", "system", "set", "netns", mode)[0] == 0)


def refusals():
    come("d0", "d1")
    null = os.open("/dev/null", os.O_RDONLY)
    with open(path("a"), "rb") as a:
        for fd in (-1, 1 << 20, 0x7FFFFFFF, null):
            say("to a file that is", "no namespace" if fd == null else "not open")
            request("init", "d0", fd=fd)
            request("init", "d0", fd=fd, name="new")
        request("init", "d0", fd=a.fileno(), name="")
    request("init", "d0", name="")
    request("init", "d0", name="d1")
    request("init", "d0", name="d0")
    request("init", "nobody", to="a", name="new")
    request("a", "d0", to="a", name="new")
    os.close(null)
    see()
    go("d0", "d1")


def same_namespace():
    come("d0", "d1")
    request("init", "d0", to="init")
    request("init", "d0", to="init", name="d0")
    request("init", "d0", to="init", name="d1")
    request("init", "d0", to="init", name="")
    see()
    request("init", "d0", to="init", name="new")
    request("init", "d1", to="init", name="n%d")
    request("init", "d1", to="init", name="n" * 63)
    request("init", "d1", to="init", name="n" * 64)
    see()
    # The socket is of the device's namespace, and its owner is elsewhere.
    request("init", "d0", to="init", name="from elsewhere", process="a")
    request("init", "d0", to="b", name="away", process="a")
    request("init", "d0", to="b", process="a")
    request("init", "d0", to="a", process="a")
    see()
    go("d0", "d1")


def moves():
    come("d0", "d1", "d2")
    request("init", "d0", to="a", name="dup")
    see()
    request("init", "d1", to="b")
    request("b", "d1", name="dup")
    see()
    # Conflicts: nothing happens to the device, nobody is told of anything.
    request("b", "d1", to="a")
    request("b", "d1", to="a", name="dup")
    request("init", "d2", to="a", name="dup")
    request("init", "d2", to="b", name="dup")
    see()
    request("b", "d1", to="a", name="second")
    see()
    request("a", "d0", name="second")
    request("a", "d0", to="a", name="second")
    request("a", "d1", to="init", name="d2")
    request("a", "d1", to="init", name="dup")
    see()
    request("a", "d0", to="init")
    request("a", "d0", to="b", name="d2")
    request("init", "d1", to="b", name="d%d")
    request("b", "d1", to="init", name="dup")
    see()
    go("d0", "d1", "d2")


def links():
    """rdma link add of a name that is in use, in the same namespace or another."""
    come("d0", "d1")
    request("init", "d0", to="a", name="dup")
    request("init", "d1", to="b", name="dup")
    for space in SPACES:
        netdev = f"more{space}"
        do("ip", "link", "add", netdev, "type", "dummy", space=space)
        do("rdma", "link", "add", "dup", "type", "rxe", "netdev", netdev, space=space)
        do("rdma", "link", "add", "d0", "type", "rxe", "netdev", netdev, space=space)
    told()
    see()
    do("rdma", "link", "del", "dup", space="init")
    do("rdma", "link", "del", "dup", space="a")
    told()
    see()
    for space in SPACES:
        do("ip", "link", "del", f"more{space}", space=space)
    patiently("others go", lambda: all(set(devices(space)) <= set(index.values()) for space in SPACES))
    told()
    see()
    go("d0", "d1")


def patterns():
    """A driver that asks for count%d, and which cannot be moved."""
    come("d0", "d1", "d2")
    request("init", "d0", to="a", name="count0")
    request("init", "d1", name="count1")
    request("init", "d2", to="b", name="count2")
    do("modprobe", "countdev")
    told()
    see()
    index["count"] = next((n for n, name in devices("init").items() if n > index["d2"]), 0xFFFF)
    request("init", "count", to="a")
    request("init", "count", to="a", name="new")
    request("init", "count", to="init", name="new")
    see()
    do("rmmod", "countdev")
    told()
    go("d0", "d1", "d2")


def ends():
    come("d0", "d1", "d2")
    request("init", "d0", to="a", name="dup")
    request("init", "d1", to="a", name="d2")
    request("init", "d2", name="dup")
    say("one of two names is in use")
    space_ends("a", "d0", "d1")
    see()
    go("d0", "d1", "d2")
    do("ip", "netns", "add", "a")
    listen()
    come("d0", "d1", "d2")
    request("init", "d0", to="a", name="dup")
    request("init", "d1", name="dup")
    request("init", "d2", name=f"ibdev{index['d0']}")
    say("so is the name by index")
    space_ends("a", "d0")
    see()
    go("d0", "d1", "d2")
    do("ip", "netns", "add", "a")
    listen()
    come("d0", "d1")
    request("init", "d0", to="a", name="ibdev0")
    request("init", "d1", to="b", name="ibdev0")
    say("two namespaces end")
    space_ends("a", "d0")
    space_ends("b", "d1")
    see()
    go("d0", "d1")
    spaces_come()


def configfs():
    """Its folders are found by the name alone."""
    do("modprobe", "rdma_cm")
    if not os.path.ismount(CONFIGFS):
        run("mount", "-t", "configfs", "none", CONFIGFS)
    top = f"{CONFIGFS}/rdma_cm"
    come("d0", "d1")
    request("init", "d0", to="a", name="dup")
    request("init", "d1", to="b", name="dup")
    do("mkdir", f"{top}/dup")
    tos = "ports/1/default_roce_tos"
    do("sh", "-c", f"echo 4 >{top}/dup/{tos}")
    do("cat", f"{top}/dup/{tos}")
    request("a", "d0", name="first")
    do("mkdir", f"{top}/first")
    do("cat", f"{top}/first/{tos}")
    do("cat", f"{top}/dup/{tos}")
    for name in ("dup", "first"):
        do("rmdir", f"{top}/{name}")
    go("d0", "d1")


def in_shared_mode():
    come("d0", "d1")
    for space in ("a", "b"):
        listeners.pop(space).close()
        do("ip", "netns", "del", space)
    shared()
    for space in ("a", "b"):
        do("ip", "netns", "add", space)
    see()
    request("init", "d0", to="a")
    request("init", "d0", to="a", name="new")
    request("a", "d0", to="a", name="new")
    request("init", "d0", to="init")
    request("init", "d0", to="init", name="d1")
    request("a", "d0", to="init", name="new")
    see()
    netdev = ("type", "rxe", "netdev", "more")
    do("ip", "link", "add", "more", "type", "dummy", space="b")
    do("rdma", "link", "add", "new", *netdev, space="b")
    do("ip", "link", "del", "more", space="b")
    go("d0", "d1")


def main():
    global out
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    for old in os.listdir(folder):
        os.remove(f"{folder}/{old}")
    shared("exclusive")
    listen()
    with open(f"{folder}/parts", "w", encoding="ascii") as parts:
        with open(f"{folder}/set-up.txt", "w", encoding="utf-8") as out:
            spaces_come()
        for part in (refusals, same_namespace, moves, links, patterns, ends, configfs, in_shared_mode):
            with open(f"{folder}/{part.__name__}.txt", "w", encoding="utf-8") as out:
                part()
            print(part.__name__, file=parts, flush=True)
        with open(f"{folder}/end.txt", "w", encoding="utf-8") as out:
            for space in ("a", "b"):
                do("ip", "netns", "del", space)
            shared()


if __name__ == "__main__":
    main()

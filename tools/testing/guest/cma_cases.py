# SPDX-License-Identifier: GPL-2.0
"""What rdma_cm does when the network, devices or other threads come between: cma_cases.py CASE."""

import socket
import subprocess
import sys
import threading

from ucma import *

ONE, TWO = "10.0.1.1", "10.0.1.2"


def ip(*words):
    subprocess.run(["ip", *words], check=True)


def until(what, seconds=20):
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


def connected(ucm, port):
    """A listener, a client and the ID of its request, which is accepted."""
    listener, client = ucm.create(), ucm.create()
    ucm.bind(listener, ONE, port)
    ucm.listen(listener)
    ucm.resolve(client, ONE, port)
    ucm.route(client)
    # Another queue pair than the one that is said to accept.
    ucm.connect(client, qpn=0x1000 + port)
    request = struct.unpack_from("=I", ucm.expect(4), 8)[0]
    ucm.accept(request)
    ucm.expect(5)
    return listener, client, request


def bind_races():
    """Calls about the device of an ID, while binding it fails again and again."""
    ucm = Ucm()
    taken = ucm.create()
    ucm.bind(taken, ONE, 7620)
    id = ucm.create()
    end = time.monotonic() + 4
    failed, answers = [], {}

    def bind():
        s, n = Edge(), 0
        body = struct.pack("=Q", 0) + inet(ONE, 7620) + struct.pack("=I", id)
        data = struct.pack("=IHH", N["BIND_IP"], len(body), ROOM) + body
        while time.monotonic() < end:
            if libc.write(ucm.fd, s.put(data), len(data)) > 0:
                failed.append("bound")
            n += 1
        failed.append(n)

    def others():
        s, room = Edge(), ctypes.create_string_buffer(ROOM)
        at = ctypes.addressof(room)
        bodies = [("INIT_QP_ATTR", struct.pack("=QII", at, id, 1)), ("QUERY_ROUTE", struct.pack("=QII", at, id, 0)),
                  ("RESOLVE_ROUTE", struct.pack("=II", id, 500)), ("QUERY", struct.pack("=QII", at, id, 2)),
                  ("DISCONNECT", struct.pack("=I", id)), ("REJECT", struct.pack("=IBB2x", id, 0, 0) + bytes(256)),
                  ("NOTIFY", struct.pack("=II", id, 4)), ("RESOLVE_IB_SERVICE", struct.pack("=IIQ", id, 0, 1) + bytes(64) + struct.pack("=II", 1, 0))]
        n = 0
        while time.monotonic() < end:
            name, body = bodies[n % len(bodies)]
            data = struct.pack("=IHH", N[name], len(body), ROOM) + body
            ctypes.set_errno(0)
            got = libc.write(ucm.fd, s.put(data), len(data))
            key = (name, "done" if got > 0 else errno.errorcode[ctypes.get_errno()])
            answers[key] = answers.get(key, 0) + 1
            n += 1

    threads = [threading.Thread(target=bind), threading.Thread(target=others), threading.Thread(target=others)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(failed, answers)
    assert len(failed) == 1 and failed[0] > 100
    ucm.destroy(id)
    ucm.destroy(taken)
    ucm.close()


def path_mig():
    """A queue pair is said to have migrated to the other path, which there is not."""
    ucm = Ucm()
    _, client, request = connected(ucm, 7621)
    for event in range(20):
        for id in (client, request):
            for _ in range(10):
                ucm.call("NOTIFY", struct.pack("=II", id, event))
    for id in (client, request):
        ucm.must("DISCONNECT", struct.pack("=I", id))
    ucm.close()
    # The device goes, so nobody has a reference to its GIDs any more, or one too few.
    subprocess.run(["rdma", "link", "del", "rxe1"], check=True, timeout=50)


def neighbours():
    """A peer with another hardware address is not reached any more."""
    ucm = Ucm()
    ids = [ucm.create() for _ in range(3)]
    for id in ids:
        ucm.resolve(id, TWO, 7622)
        ucm.route(id)
    bound = ucm.create()
    ucm.bind(bound, ONE, 7623)
    ip("neigh", "replace", TWO, "lladdr", "02:00:00:00:00:99", "dev", "v1", "nud", "permanent")
    got = sorted(struct.unpack_from("=QI", ucm.expect(7))[1] for _ in ids)
    assert got == sorted(ids), got
    assert struct.unpack_from("=I", ucm.answer.raw, 16)[0] == 0xFFFFFFFF & -errno.ETIMEDOUT
    assert ucm.event(0.5)[0] is None
    # The same address again: nothing new for who has it.
    late = ucm.create()
    ucm.resolve(late, TWO, 7622)
    ucm.route(late)
    for id in ids:
        ucm.destroy(id)
    ip("neigh", "replace", TWO, "lladdr", "02:00:00:00:00:99", "dev", "v1", "nud", "permanent")
    assert ucm.event(0.5)[0] is None
    ucm.close()
    ip("neigh", "del", TWO, "dev", "v1")


def other_neighbours():
    """A peer in another namespace has nothing to do with one here that has the same address."""
    ucm = Ucm()
    id = ucm.create()
    ucm.resolve(id, TWO, 7624)
    ucm.route(id)
    index = socket.if_nametoindex("v1")
    ip("netns", "add", "n4")
    try:
        ip("-n", "n4", "link", "add", "d0", "index", str(index), "type", "dummy")
        ip("-n", "n4", "addr", "add", "10.0.1.1/24", "dev", "d0")
        ip("-n", "n4", "link", "set", "d0", "up")
        ip("-n", "n4", "neigh", "replace", TWO, "lladdr", "02:00:00:00:00:98", "dev", "d0", "nud", "permanent")
        assert ucm.event(0.5)[0] is None
    finally:
        ip("netns", "del", "n4")
    ucm.close()


def namespaces():
    """Two namespaces have the same ports; a request reaches the listener of its own."""
    here, there = Ucm(), Ucm()
    listeners = []
    for space in (TCP, UDP):
        for name, ucm, address in (("n1", here, "0.0.0.0"), ("n2", there, "0.0.0.0"), ("n1", here, "::"), ("n2", there, "::")):
            in_namespace(name)
            id = ucm.create(space)
            # IPv6 alone.
            if address == "::":
                ctypes.memmove(ucm.at + 2048, struct.pack("=I", 1), 4)
                ucm.must("SET_OPTION", struct.pack("=QIIII", ucm.at + 2048, id, 0, 2, 4))
            try:
                ucm.bind(id, address, 7625)
            except OSError:
                # An IPv4 listener that does not share the port is in the way.
                ucm.destroy(id)
                continue
            ucm.listen(id)
            listeners.append((ucm, id))
    print(len(listeners), "listeners")
    in_namespace("n1")
    for n, (to, wanted) in enumerate(((TWO, there), (ONE, here), (TWO, there))):
        client = Ucm()
        id = client.create()
        client.resolve(id, to, 7625)
        client.route(id)
        client.connect(id, b"%d" % n)
        data = wanted.expect(4)
        other = here if wanted is there else there
        assert other.event(0.2)[0] is None
        wanted.destroy(struct.unpack_from("=I", data, 8)[0])
        client.expect(8)
        client.close()
    here.close()
    there.close()


def removal():
    """Each ID on a device is told that it goes, in whatever state it is, and the device goes."""
    ucm = Ucm()
    ids = []
    # Nobody answers requests to this one for long.
    ip("neigh", "replace", TWO, "lladdr", "02:00:00:00:00:97", "dev", "v1", "nud", "permanent")
    bound = ucm.create()
    ucm.bind(bound, ONE, 7626)
    ids.append(bound)
    datagrams = ucm.create(UDP)
    ucm.bind(datagrams, ONE, 7626)
    ucm.must("JOIN_IP_MCAST", struct.pack("=QQ", ucm.at, 5) + inet("239.1.1.7", 0) + struct.pack("=I", datagrams))
    ucm.expect(12)
    ids.append(datagrams)
    for routed in (0, 1):
        id = ucm.create()
        ucm.resolve(id, TWO, 7627)
        if routed:
            ucm.route(id)
        ids.append(id)
    id = ucm.create()
    ucm.resolve(id, TWO, 7627)
    ucm.route(id)
    ucm.connect(id)
    ids.append(id)
    ids += connected(ucm, 7628)
    anywhere = ucm.create()
    ucm.bind(anywhere, "0.0.0.0", 7629)
    ucm.listen(anywhere)
    fresh = ucm.create()
    done = []
    remover = threading.Thread(target=lambda: done.append(subprocess.run(["rdma", "link", "del", "rxe1"]).returncode))
    remover.start()
    told = []
    while len(told) < len(ids):
        got, data = ucm.event(10)
        # The ID of a connection that is told first is closed, which disconnects or rejects the other
        # one before that is told.
        assert got in (11, 10, 8), got
        if got == 11:
            told.append(struct.unpack_from("=I", data, 8)[0])
    assert sorted(told) == sorted(ids), (told, ids)
    remover.join(30)
    assert done == [0], done
    # Those that were on no device are as before.
    for id in ids:
        ucm.destroy(id)
    ucm.bind(fresh, "0.0.0.0", 7630)
    subprocess.run(["ip", "neigh", "del", TWO, "dev", "v1"])
    subprocess.run(["rdma", "link", "add", "rxe1", "type", "rxe", "netdev", "v1"], check=True)
    # A listener on any address listens on the device that has come.
    client = Ucm()

    def connects():
        id = client.create()
        try:
            client.resolve(id, ONE, 7629)
            client.route(id)
            client.connect(id)
        except OSError:
            client.destroy(id)
            return False
        return True

    until(connects)
    ucm.expect(4)
    client.close()
    ucm.close()


def new_device_fails():
    """A listener on any address cannot listen on a new device; everyone else can use that."""
    ucm = Ucm()
    listener = ucm.create()
    ucm.bind(listener, "0.0.0.0", 7631)
    ucm.listen(listener)
    subprocess.run(["rdma", "link", "del", "rxe1"], check=True)
    # siw listens by TCP.
    tcp = socket.create_server(("0.0.0.0", 7631))
    subprocess.run(["rdma", "link", "add", "siw1", "type", "siw", "netdev", "v1"], check=True)
    other = ucm.create()

    def binds():
        return isinstance(ucm.call("BIND_IP", struct.pack("=Q", 0) + inet(ONE, 7632) + struct.pack("=I", other)), int)

    until(binds, 5)
    ucm.listen(other)
    ucm.close()
    tcp.close()


def slow_mapper():
    """A listener on any address begins on a device of iWARP, whose port mapper does not answer for ten
    seconds. Requests over RoCE do not wait for that."""
    ucm = Ucm()
    listener, client = ucm.create(), ucm.create()
    ucm.bind(listener, "0.0.0.0", 7636)
    ucm.listen(listener)
    ucm.resolve(client, ONE, 7636)
    ucm.route(client)
    first = os.open("/proc/1/ns/net", os.O_RDONLY)
    mapper = subprocess.Popen([sys.executable, "-u", "./iwpm.py", "serve", "silent", "60"], stdout=subprocess.PIPE,
                              text=True, preexec_fn=lambda: libc.setns(first, 0))
    for line in mapper.stdout:
        if line == "ready\n":
            break
    adding = subprocess.Popen(["rdma", "link", "add", "siw1", "type", "siw", "netdev", "v1"])
    for line in mapper.stdout:
        if line.startswith("ADD"):
            break
    ucm.connect(client)
    ucm.expect(4)
    assert adding.poll() is None, "the listener has begun already"
    mapper.kill()
    mapper.wait()
    assert adding.wait() == 0
    subprocess.run(["rdma", "link", "del", "siw1"], check=True)
    ucm.close()


def failover():
    """The bond's hardware address changes with the device that carries it."""
    ucm = Ucm()
    ids = []
    for n in range(2):
        id = ucm.create()
        ucm.bind(id, ONE, 7633 + n)
        ids.append(id)
    ip("link", "set", "v1", "down")
    got = sorted(struct.unpack_from("=QI", ucm.expect(14))[1] for _ in ids)
    assert got == sorted(ids), got
    ucm.close()


in_namespace("n1")
globals()[sys.argv[1]]()

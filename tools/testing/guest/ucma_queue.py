# SPDX-License-Identifier: GPL-2.0
"""What becomes of events in /dev/infiniband/rdma_cm: the bounds on those that a program writes itself
or asks for, events that cannot be copied, events that move to another file, and requests nobody has read."""

import struct
import sys
import threading

from ucma import *

ONE = "10.0.1.1"
# What a move of a context says that has moved before, or in this moment.
ELSEWHERE = ("EINVAL", "ENOENT")
in_namespace("n1")


def write(ucm, id, arg):
    return ucm.call("WRITE_CM_EVENT", struct.pack("=IIIIQ", id, 0, 18, 0, arg).ljust(320, b"\0"))


def arg(data):
    return struct.unpack_from("=Q", data, 20)[0]


def bound():
    """The bound is the file's, and reading makes room."""
    ucm = Ucm()
    ids = [ucm.create(), ucm.create()]
    sent = 0
    while sent < 10000 and isinstance(write(ucm, ids[sent % 2], sent), int):
        sent += 1
    assert sent == 4096, sent
    assert write(ucm, ids[0], 0) == "ENOMEM"
    assert arg(ucm.event()[1]) == 0
    assert isinstance(write(ucm, ids[0], sent), int)
    # One context is gone, and with it its events; the others keep their order.
    assert ucm.destroy(ids[0]) == 1
    got = [arg(ucm.event(0)[1]) for _ in range(2048)]
    assert got == list(range(1, 4096, 2)), got[:10]
    assert ucm.event(0)[0] is None
    assert ucm.destroy(ids[1]) == 2048
    ucm.close()


def asked():
    """Who does not read the answers may not ask for ever; reading makes room."""
    ucm = Ucm()
    id = ucm.create()
    sent, end = 0, time.monotonic() + 30

    def ask():
        # Nobody there answers.
        return ucm.call("RESOLVE_IP", bytes(28) + inet("10.0.1.77", 7614) + struct.pack("=II", id, 1))

    while sent < 40 and time.monotonic() < end:
        got = ask()
        if got == "ENOMEM":
            break
        if got == "EINVAL":
            # The last question is not answered yet.
            time.sleep(0.001)
        else:
            assert isinstance(got, int), got
            sent += 1
    # The last answer may come between the look at their number and the question.
    assert sent in (16, 17), sent
    assert [ucm.event()[0] for _ in range(sent)] == [1] * sent
    assert isinstance(ask(), int)
    ucm.destroy(id)
    ucm.close()


def not_copied():
    """An event that cannot be copied stays the first, and is not counted."""
    ucm = Ucm()
    id = ucm.create()
    for n in range(3):
        write(ucm, id, n)
    for room in (324, 336):
        assert ucm.call("GET_EVENT", struct.pack("=Q", 8), room) == "EFAULT"
    assert [arg(ucm.event(0)[1]) for _ in range(3)] == [0, 1, 2]
    assert ucm.destroy(id) == 3
    ucm.close()


def moved():
    """Events move with their context, and who waits there is woken. A context that stays keeps their order."""
    one, two = Ucm(), Ucm()
    a, b = one.create(), one.create()
    for n in range(4):
        write(one, (a, b)[n % 2], n)
    one.must("MIGRATE_ID", struct.pack("=QII", one.at, a, one.fd))
    assert struct.unpack_from("=I", one.answer.raw)[0] == 0
    assert arg(one.event(0)[1]) == 0
    poll = select.poll()
    poll.register(two.fd, select.POLLIN)
    assert not poll.poll(0)
    two.must("MIGRATE_ID", struct.pack("=QII", two.at, a, one.fd))
    assert struct.unpack_from("=I", two.answer.raw)[0] == 1
    assert poll.poll(0)
    assert [arg(one.event(0)[1]) for _ in range(2)] == [1, 3]
    assert one.event(0)[0] is None
    assert arg(two.event(0)[1]) == 2
    assert two.destroy(a) == 2 and one.destroy(b) == 2
    one.close()
    two.close()


def unread():
    """Requests that nobody has read go with their listener, and with the file."""
    for how in ("destroy", "close"):
        server, client = Ucm(), Ucm()
        listener = server.create()
        server.bind(listener, ONE, 7611)
        server.listen(listener, 2)
        ids = []
        for n in range(2):
            id = client.create()
            client.resolve(id, ONE, 7611)
            client.route(id)
            client.connect(id)
            ids.append(id)
        poll = select.poll()
        poll.register(server.fd)
        assert poll.poll(3000)
        time.sleep(0.3)
        if how == "destroy":
            assert server.destroy(listener) == 0
        server.close()
        got = sorted(client.event()[0] for _ in range(2))
        assert got == [8, 8], got
        for id in ids:
            client.destroy(id)
        client.close()


def max_backlog(number):
    """The sysctl is in the first namespace."""
    fd = os.open("/proc/1/ns/net", os.O_RDONLY)
    assert not libc.setns(fd, 0)
    os.close(fd)
    with open("/proc/sys/net/rdma_ucm/max_backlog", "r+") as file:
        old = int(file.read())
        file.seek(0)
        file.write(str(number))
    in_namespace("n1")
    return old


def listens_again():
    """LISTEN fails for who listens already, and makes no room for further requests."""
    server, client = Ucm(), Ucm()
    listener = server.create()
    server.bind(listener, ONE, 7615)
    server.listen(listener, 1)
    again = struct.pack("=II", listener, 1)
    ids = []
    for n in range(3):
        id = client.create()
        client.resolve(id, ONE, 7615)
        client.route(id)
        # Two requests of one queue pair would be one that is stale.
        client.connect(id, qpn=0x1000 + n)
        ids.append(id)
        poll = select.poll()
        poll.register(server.fd, select.POLLIN)
        assert poll.poll(3000)
        # Time for a request to come that must find no room.
        time.sleep(0.3)
        assert server.call("LISTEN", again) == "EINVAL"
    # Requests that were not answered are repeated. Reading makes no room for them now.
    old = max_backlog(0)
    try:
        assert server.call("LISTEN", again) == "EINVAL"
        got = [server.event(0)[0] for _ in range(2)]
    finally:
        max_backlog(old)
    assert got == [4, None], got
    assert server.destroy(listener) == 1
    for id in ids:
        client.destroy(id)
    client.close()
    server.close()


def listener_moves():
    """A listener on a wildcard address moves to and fro under requests; each request is read once, at
    one of the files, and nothing is left behind. A listener that has become deaf stays so."""
    files = [Ucm(), Ucm()]
    listener = files[0].create()
    files[0].bind(listener, "0.0.0.0", 7613)
    files[0].listen(listener, 64)
    for n in range(12):
        requests_while_it_moves(files, listener, 40)
    owner = [file for file in files if file.call("MIGRATE_ID", struct.pack("=QII", file.at, listener, file.fd)) not in ELSEWHERE]
    assert len(owner) == 1, len(owner)
    assert owner[0].destroy(listener) == 12 * 40
    for file in files:
        file.close()


def requests_while_it_moves(files, listener, count):
    stop, client = [], Ucm()

    def move(to, file):
        while not stop:
            got = to.call("MIGRATE_ID", struct.pack("=QII", to.at, listener, file.fd))
            assert isinstance(got, int) or got in ELSEWHERE, got

    ids = []
    for n in range(count):
        id = client.create()
        client.resolve(id, ONE, 7613)
        client.route(id)
        ids.append(id)
    movers = [threading.Thread(target=move, args=pair) for pair in (files, files[::-1])]
    for mover in movers:
        mover.start()
    for n, id in enumerate(ids):
        client.connect(id, qpn=0x1000 + n)
    time.sleep(0.3)
    stop.append(None)
    for mover in movers:
        mover.join()
    seen = set()
    end = time.monotonic() + 5
    while len(seen) < count and time.monotonic() < end:
        for file in files:
            got, data = file.event(0.05)
            if got is not None:
                assert got == 4, got
                seen.add(struct.unpack_from("=I", data, 8)[0])
    assert len(seen) == count, len(seen)
    # A request is of the file that its listener was in then, wherever its event was read.
    for id in seen:
        ends = [file.call("DESTROY_ID", struct.pack("=QII", file.at, id, 0)) for file in files]
        assert sorted(map(type, ends), key=str) == [int, str], ends
    got = [client.event()[0] for _ in range(count)]
    assert got == [8] * count, got
    client.close()


def group_twice():
    """Of two joins of a group, the program leaves the first; events name the one that stays."""
    ucm = Ucm()
    id = ucm.create(UDP)
    ucm.bind(id, ONE, 7612)
    joins = []
    for uid in (11, 12):
        ucm.must("JOIN_IP_MCAST", struct.pack("=QQ", ucm.at, uid) + inet("239.1.1.7", 0) + struct.pack("=I", id))
        joins.append(struct.unpack_from("=I", ucm.answer.raw)[0])
    for uid, join in zip((11, 12), joins):
        data = ucm.expect(12)
        assert struct.unpack_from("=QI", data) == (uid, join), data[:16].hex()
    for join in joins:
        ucm.must("LEAVE_MCAST", struct.pack("=QII", ucm.at, join, 0))
        assert struct.unpack_from("=I", ucm.answer.raw)[0] == 1
        assert ucm.call("LEAVE_MCAST", struct.pack("=QII", ucm.at, join, 0)) == "ENOENT"
    # Left at once, before the event.
    for first in (0, 1):
        joins = []
        for uid in (21, 22):
            ucm.must("JOIN_IP_MCAST", struct.pack("=QQ", ucm.at, uid) + inet("239.1.1.8", 0) + struct.pack("=I", id))
            joins.append(struct.unpack_from("=I", ucm.answer.raw)[0])
        ucm.must("LEAVE_MCAST", struct.pack("=QII", ucm.at, joins[first], 0))
        while True:
            got, data = ucm.event(0.3)
            if got is None:
                break
            assert struct.unpack_from("=I", data, 8)[0] == joins[1 - first], data[:16].hex()
        ucm.must("LEAVE_MCAST", struct.pack("=QII", ucm.at, joins[1 - first], 0))
    ucm.destroy(id)
    ucm.close()


for test in (bound, asked, not_copied, moved, unread, listens_again, listener_moves, group_twice):
    if sys.argv[1:] in ([], [test.__name__]):
        test()
        print(test.__name__, "ok")

# SPDX-License-Identifier: GPL-2.0
"""What rdma_cm shows to administrators, and how it answers them: the folder in configfs, and IDs as
`rdma resource` lists them. Two modules rdma_cm must print the same."""

import errno
import json
import subprocess

from ucma import *

ROOT = "/sys/kernel/config/rdma_cm"
ONE, TWO = "10.0.1.1", "10.0.1.2"


def said(text, what):
    """Prints how the system answers."""
    try:
        got = what()
        got = "" if got is None else got
    except OSError as error:
        got = errno.errorcode[error.errno]
    print(f"{text}: {got}")


def read(path):
    with open(path, encoding="ascii") as file:
        return repr(file.read())


def write(path, data):
    fd = os.open(path, os.O_WRONLY)
    try:
        return os.write(fd, data)
    finally:
        os.close(fd)


def tree(top):
    for where, folders, files in sorted(os.walk(top)):
        stat = os.stat(where)
        print(f"{where[len(ROOT):]}/ {stat.st_mode:o} {sorted(folders)}")
        for name in sorted(files):
            stat = os.stat(f"{where}/{name}")
            print(f"{where[len(ROOT):]}/{name} {stat.st_mode:o} {stat.st_size}")


def settings(device):
    top = f"{ROOT}/{device}"
    port = f"{top}/ports/1"
    tree(top)
    for name in ("default_roce_mode", "default_roce_tos"):
        said(f"{name} at first", lambda: read(f"{port}/{name}"))
    for data in (b"IB/RoCE v1", b"RoCE v2\n", b"IB/RoCE v1\n", b"RoCE v2", b"RoCE v2\n\n", b"RoCE v1", b"RoCE v2 ", b"rOcE v2",
                 b"\n", b" ", b"RoCE v2\0junk", b"\0", b"x" * 5000, b"0", b"RoCE v"):
        said(f"mode {data[:20]}", lambda: write(f"{port}/default_roce_mode", data))
        said("then", lambda: read(f"{port}/default_roce_mode"))
    for data in (b"0", b"106", b"106\n", b"255", b"256", b"-1", b"0x1f", b"010", b"+7", b"1 2", b"\n", b" ", b"", b"8\n\n", b"9\0junk",
                 b"0b1", b"99999999999999999999", b"1" * 5000):
        said(f"tos {data[:24]}", lambda: write(f"{port}/default_roce_tos", data))
        said("then", lambda: read(f"{port}/default_roce_tos"))
    for path in (f"{top}/x", f"{top}/ports/2", f"{port}/x"):
        said(f"a folder {path[len(ROOT):]}", lambda: os.mkdir(path))
    for path in (port, f"{top}/ports"):
        said(f"without {path[len(ROOT):]}", lambda: os.rmdir(path))
    said("a link", lambda: os.symlink(port, f"{top}/link"))
    said("a file", lambda: os.close(os.open(f"{port}/file", os.O_CREAT | os.O_WRONLY)))
    said("the mode's file goes", lambda: os.unlink(f"{port}/default_roce_mode"))


def configfs():
    tree(ROOT)
    for name in ("rxe1", "rxe1", "rxe2", "none", "x" * 63, "x" * 64, "x" * 200, "rxe1x", "rxe"):
        said(f"the folder {name[:8]} {len(name)}", lambda: os.mkdir(f"{ROOT}/{name}"))
    settings("rxe1")
    said("rxe1 goes", lambda: os.rmdir(f"{ROOT}/rxe1"))
    said("rxe1 comes", lambda: os.mkdir(f"{ROOT}/rxe1"))
    for name in ("default_roce_mode", "default_roce_tos"):
        said(f"{name} is kept", lambda: read(f"{ROOT}/rxe1/ports/1/{name}"))
    subprocess.run(["rdma", "dev", "set", "rxe2", "name", "other"], check=True)
    said("another name", lambda: read(f"{ROOT}/rxe2/ports/1/default_roce_tos"))
    said("written", lambda: write(f"{ROOT}/rxe2/ports/1/default_roce_tos", b"5"))
    said("written wrongly", lambda: write(f"{ROOT}/rxe2/ports/1/default_roce_tos", b"nothing"))
    said("mode written wrongly", lambda: write(f"{ROOT}/rxe2/ports/1/default_roce_mode", b"nothing"))
    said("the folder of that name", lambda: os.mkdir(f"{ROOT}/other"))
    said("which has", lambda: read(f"{ROOT}/other/ports/1/default_roce_tos"))
    subprocess.run(["rdma", "dev", "set", "other", "name", "rxe2"], check=True)
    said("its former name", lambda: read(f"{ROOT}/rxe2/ports/1/default_roce_mode"))
    open_file = os.open(f"{ROOT}/rxe1/ports/1/default_roce_tos", os.O_RDWR)
    for name in ("rxe1", "rxe2", "other"):
        said(f"{name} goes", lambda: os.rmdir(f"{ROOT}/{name}"))
    said("a file that was open", lambda: os.read(open_file, 9))
    said("written", lambda: os.write(open_file, b"7"))
    os.close(open_file)
    tree(ROOT)


def path(ucm, id):
    """The path of an ID: its first bytes that say how packets look."""
    answer = ucm.must("QUERY", struct.pack("=QII", ucm.at, id, 1))
    return answer[:80].hex()


def tos():
    """IDs take what is set when they resolve their route, unless their programs say otherwise."""
    os.mkdir(f"{ROOT}/rxe1")
    file = f"{ROOT}/rxe1/ports/1/default_roce_tos"
    ucm = Ucm()
    for value in (b"0", b"104", b"0"):
        write(file, value)
        for own in (None, 32):
            id = ucm.create()
            # The number of a port is by chance, and with it the flow label.
            ucm.bind(id, ONE, 7640)
            if own is not None:
                ctypes.memset(ucm.at + 2048, own, 1)
                print("tos of its own:", ucm.call("SET_OPTION", struct.pack("=QIIII", ucm.at + 2048, id, 0, 0, 1)))
            ucm.resolve(id, TWO, 7641)
            ucm.route(id)
            print(f"{value} {own}: {path(ucm, id)}")
            ucm.destroy(id)
    os.rmdir(f"{ROOT}/rxe1")
    ucm.close()


def listed(text):
    """The IDs that are listed, without what differs from run to run."""
    got = subprocess.run(["rdma", "-j", "resource", "show", "cm_id"], check=True, capture_output=True, text=True)
    ids = json.loads(got.stdout or "[]")
    for id in ids:
        if "pid" in id:
            id["pid"] = "own" if id["pid"] == os.getpid() else "another"
        id.pop("cm-idn", None)
    print(f"{text}:")
    for line in sorted(json.dumps(id, sort_keys=True) for id in ids):
        print("   ", line)
    got = subprocess.run(["rdma", "resource", "show"], check=True, capture_output=True, text=True)
    print("   ", [line.split(" cm_id ")[1].split()[0] for line in got.stdout.splitlines() if " cm_id " in line])


def resources():
    ucm, server = Ucm(), Ucm()
    listed("none")
    ids = [ucm.create(space) for space in (TCP, UDP, IB)]
    listed("new")
    ucm.bind(ids[0], ONE, 7650)
    ucm.bind(ids[1], "0.0.0.0", 7651)
    ucm.bind(ids[2], "fd01::1", 7652)
    listed("bound")
    ucm.listen(ids[0])
    ucm.listen(ids[2])
    listed("listening")
    everywhere = ucm.create()
    ucm.bind(everywhere, "::", 7653)
    ucm.listen(everywhere)
    listed("everywhere")
    resolved = ucm.create()
    ucm.bind(resolved, ONE, 7654)
    listed("a client")
    ucm.resolve(resolved, ONE, 7650)
    listed("resolved")
    ucm.route(resolved)
    listed("routed")
    # Another queue pair than the one that is said to accept.
    ucm.connect(resolved, qpn=0x2345)
    data = ucm.expect(4)
    request = struct.unpack_from("=I", data, 8)[0]
    listed("requested")
    ucm.accept(request)
    ucm.expect(5)
    listed("accepted")
    server.must("MIGRATE_ID", struct.pack("=QII", server.at, request, ucm.fd))
    ucm.must("DISCONNECT", struct.pack("=I", resolved))
    time.sleep(0.3)
    listed("disconnected")
    for id in ids:
        ucm.destroy(id)
    listed("destroyed")
    refused = ucm.create()
    said("a port that is taken", lambda: print(ucm.call("BIND_IP", struct.pack("=Q", 0) + inet(ONE, 7654) + struct.pack("=I", refused))))
    listed("refused")
    ucm.bind(refused, ONE, 7655)
    listed("bound after all")
    ucm.close()
    server.close()
    listed("closed")


configfs()
in_namespace("n1")
tos()
resources()
print("end")

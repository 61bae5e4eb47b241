# SPDX-License-Identifier: GPL-2.0
"""Write what a user can see of the subsystem, in a form that two runs can be compared in:
rdma's JSON a line per entry without what differs from run to run, ibv_devinfo, and names,
modes and contents below /sys/class/infiniband.

It is appended to the file that a line of the standard input names, and a line of the output
says that it is done: in an emulator the start of Python takes longer than a look.
"""
import contextlib
import json
import os
import stat
import subprocess
import sys

TOP = "/sys/class/infiniband"
LEFT_OUT = {"power", "subsystem", "device"}
TABLE = 80
# Numbers that a driver or the system hands out, by kind of object.
RANDOM = {"pid", "lkey", "rkey", "local_dma_lkey", "unsafe_global_rkey", "iova", "lqpn", "rqpn", "sq-psn",
          "rq-psn", "netdev_index", "mrn", "cqn", "pdn", "srqn", "ctxn", "cm-idn", "users", "ifindex"}


def output(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    return done.returncode, done.stdout.decode(errors="replace")


def clean(value):
    if isinstance(value, dict):
        return {k: ("N" if k in RANDOM else clean(v)) for k, v in value.items()}
    if isinstance(value, list):
        return [clean(v) for v in value]
    return value


def rdma(*what):
    status, text = output("rdma", "-d", "-j", *what)
    print("= rdma", *what, "->", status)
    try:
        entries = json.loads(text) if text.strip() else []
    except ValueError:
        print(text.strip()[:300])
        return
    for entry in entries if isinstance(entries, list) else [entries]:
        if isinstance(entry, dict):
            if what[0] == "statistic":
                # The counts depend on the network's traffic, their names do not.
                entry = {k: (v if isinstance(v, str) or k == "port" else "N") for k, v in entry.items()}
            if what == ("res",):
                entry = {k: ("N" if k in ("qp", "cq", "pd", "mr") else v) for k, v in entry.items()}
        print(json.dumps(clean(entry)))


def content(path):
    try:
        with open(path, "rb") as file:
            return file.read(4096).decode(errors="replace").strip()
    except OSError as error:
        return f"errno {error.errno}"


def order(name):
    return (not name.isdigit(), int(name) if name.isdigit() else 0, name)


def walk(path, shown):
    # The unused entries of a table read the same: of its hundreds of files the first are read.
    same = {}
    names = sorted(os.listdir(path), key=order)
    print(f"{shown}: {len(names)} entries")
    for name in names:
        if name in LEFT_OUT or (name.isdigit() and int(name) >= TABLE):
            continue
        inner, as_shown = f"{path}/{name}", f"{shown}/{name}"
        mode = os.lstat(inner).st_mode
        line = f"{stat.filemode(mode)} {as_shown}"
        if stat.S_ISDIR(mode):
            print(line)
            walk(inner, as_shown)
        elif stat.S_ISLNK(mode) or not mode & 0o444 or name == "uevent" or "counters" in path:
            print(line)
        else:
            text = content(inner)
            if name.isdigit() and (text.startswith("errno") or not text.strip("0:")):
                same.setdefault((stat.filemode(mode), text), []).append(int(name))
            else:
                print(f"{line}: {text}")
    for (mode, text), indices in same.items():
        print(f"{mode} {shown}/*: {text} ({len(indices)}, from {min(indices)} to {max(indices)})")


def look():
    for kind in ("system", "dev", "link", "res", "statistic"):
        rdma(kind)
    for kind in ("qp", "cq", "mr", "pd", "ctx", "srq", "cm_id"):
        rdma("res", "show", kind)
    print(output("rdma", "statistic", "mode")[1])
    print(output("ibv_devinfo", "-v")[1])
    if os.path.isdir(TOP):
        for device in sorted(os.listdir(TOP)):
            walk(os.path.realpath(f"{TOP}/{device}"), device)


for line in sys.stdin:
    with open(line.rstrip("\n"), "a", encoding="utf-8") as file, contextlib.redirect_stdout(file):
        look()
    print("done", flush=True)

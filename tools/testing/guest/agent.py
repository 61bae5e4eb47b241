#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""How the driving guest of a two-guest test works the other one.

    agent.py serve              run what comes, until "quit" comes
    agent.py ADDRESS CMD        run CMD (bash) there, print its output, exit as it did
    agent.py ADDRESS quit

One TCP connection per command, on port 7000 of the wire; the guests are alone on it.
"""
import socket
import subprocess
import sys
import threading
import time

PORT = 7000


def handle(conn):
    with conn, conn.makefile("rwb") as f:
        cmd = f.read().decode()
        if cmd == "quit":
            return False
        run = subprocess.run(["bash", "-c", ". ./rdma.sh; " + cmd], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        f.write(b"%d\n" % run.returncode + run.stdout)
        return True


def serve():
    stop = threading.Event()
    listener = socket.create_server(("", PORT), reuse_port=True)
    listener.settimeout(0.5)

    def one(conn):
        if not handle(conn):
            stop.set()

    while not stop.is_set():
        try:
            conn, _ = listener.accept()
        except TimeoutError:
            continue
        conn.settimeout(None)
        threading.Thread(target=one, args=(conn,), daemon=True).start()


def ask(address, cmd):
    # It may have another test to finish.
    end = time.monotonic() + 200
    while time.monotonic() < end:
        try:
            conn = socket.create_connection((address, PORT), timeout=5)
            break
        except OSError:
            time.sleep(0.2)
    else:
        sys.exit("the other guest does not answer")
    conn.settimeout(None)
    with conn, conn.makefile("rwb") as f:
        f.write(cmd.encode())
        f.flush()
        conn.shutdown(socket.SHUT_WR)
        if cmd == "quit":
            return 0
        status = f.readline()
        sys.stdout.buffer.write(f.read())
        return int(status or 255)


if sys.argv[1] == "serve":
    serve()
else:
    sys.exit(ask(sys.argv[1], sys.argv[2]))

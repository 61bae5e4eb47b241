# SPDX-License-Identifier: GPL-2.0
"""gids.py DEVICE: are the GIDs of an rxe device those that its network devices call for?

What a port should have is computed from what `ip` tells, by the rules of the C core
(drivers/infiniband/core/roce_gid_mgmt.c): default GIDs of the port's device or the bonds above
it, and a GID for each address of the device and of those above it, where of a bond only the
active slave has them. gids.py --slot DEVICE ADDRESS prints the index of an address.
"""
import ipaddress
import json
import os
import subprocess
import sys

SYSFS = "/sys/class/infiniband"


def content(path):
    try:
        with open(path, encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def table(device):
    """Index, GID and network device of each entry."""
    port = f"{SYSFS}/{device}/ports/1"
    rows = []
    for index in sorted(os.listdir(f"{port}/gids"), key=int):
        gid = content(f"{port}/gids/{index}")
        if gid.strip("0:"):
            rows.append((int(index), gid, content(f"{port}/gid_attrs/ndevs/{index}")))
    return rows


def text(gid):
    return ":".join(gid[i : i + 2].hex() for i in range(0, 16, 2))


def exploded(address):
    packed = ipaddress.ip_address(address).packed
    return text(packed if len(packed) == 16 else bytes(10) + b"\xff\xff" + packed)


def link_local(mac):
    b = bytes.fromhex(mac.replace(":", ""))
    low = bytes([b[0] ^ 2]) + b[1:3] + b"\xff\xfe" + b[3:]
    return text(b"\xfe\x80" + bytes(6) + low)


class World:
    def __init__(self):
        answer = subprocess.run(["ip", "-j", "-d", "addr"], stdout=subprocess.PIPE, check=True).stdout
        self.links = {link["ifname"]: link for link in json.loads(answer)}

    def kind(self, name):
        return self.links[name].get("linkinfo", {}).get("info_kind")

    def below(self, name):
        """The devices just below one."""
        found = {l for l, link in self.links.items() if link.get("master") == name}
        if self.kind(name) in ("vlan", "macvlan") and self.links[name].get("link") in self.links:
            found.add(self.links[name]["link"])
        return found

    def is_above(self, name, port):
        return any(low == port or self.is_above(low, port) for low in self.below(name))

    def real(self, name):
        return self.real(self.links[name]["link"]) if self.kind(name) == "vlan" else name

    def waits(self, name, port):
        real = self.real(name)
        active = content(f"/sys/class/net/{real}/bonding/active_slave") if self.kind(real) == "bond" else ""
        return active not in ("", port)

    def gids(self, port):
        """What a port should have: GIDs and names of network devices."""
        want = set()
        slave = self.kind(self.links[port].get("master", port)) == "bond"
        for name, link in self.links.items():
            above = self.is_above(name, port)
            if (name == port and not slave) or (above and self.kind(name) == "bond"):
                want.add((link_local(link["address"]), name))
            if self.real(name) == port or (above and not self.waits(name, port)):
                for info in link.get("addr_info", []):
                    want.add((exploded(info.get("address", info["local"])), name))
        return want


def main():
    if sys.argv[1] == "--slot":
        gid = exploded(sys.argv[3])
        found = [index for index, each, _ in table(sys.argv[2]) if each == gid]
        print(*found)
        return not found
    device = sys.argv[1]
    port = content(f"{SYSFS}/{device}/parent")
    rows = table(device)
    have, want = {row[1:] for row in rows}, World().gids(port)
    print(f"{len(rows)} entries, {len(want)} called for")
    for row in sorted(have - want):
        print("not called for:", *row)
    for row in sorted(want - have):
        print("missing:", *row)
    if len(rows) != len(have):
        print("some are there twice")
    return have != want or len(rows) != len(have)


sys.exit(main())

# SPDX-License-Identifier: GPL-2.0
"""Prints the files of a device: mode, name, content, a line each, sorted.

Newlines are shown as "|", an error of reading by its name. Of a table (gids, pkeys and the
like) only the entries that hold something are shown, and how many do not.
"""
import errno
import os
import stat
import sys

TABLES = ("gids", "ndevs", "types")
EMPTY = ("0000:0000:0000:0000:0000:0000:0000:0000|", "!EINVAL")
# What the driver model puts there, and ib_cm when it is loaded.
FOREIGN = ("power", "subsystem", "device", "uevent",
           "cm_tx_msgs", "cm_tx_retries", "cm_rx_msgs", "cm_rx_duplicates")


def content(path):
    """What is read of the file."""
    try:
        with open(path, "rb") as file:
            return file.read().decode("latin1").replace("\n", "|")
    except OSError as error:
        return "!" + errno.errorcode[error.errno]


def main(top):
    """Prints the tree below `top`."""
    lines = []
    for folder, folders, files in os.walk(top + "/"):
        folders[:] = sorted(name for name in folders if name not in FOREIGN
                            and not os.path.islink(os.path.join(folder, name)))
        empty = 0
        for name in folders + files:
            path = os.path.join(folder, name)
            if name in FOREIGN:
                continue
            mode = stat.filemode(os.lstat(path).st_mode)
            # A lifespan is rounded to what the kernel's clock can.
            text = "" if name in folders or name == "lifespan" else " " + content(path)
            if os.path.basename(folder) in TABLES and text[1:] in EMPTY:
                empty += 1
                continue
            lines.append(f"{os.path.relpath(path, top)} {mode}{text}")
        if empty:
            lines.append(f"{os.path.relpath(folder, top)} empty: {empty}")
    print("\n".join(sorted(lines)))


main(sys.argv[1])

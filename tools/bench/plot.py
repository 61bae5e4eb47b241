#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Draw throughput against loss, C and Rust, from figures of the netem bench.

    plot.py FIGURES SVG

FIGURES is as for table.py; of its cases those are drawn that are called
"send, loss N%" or "read, loss N%". Medians; a bar from the least to the greatest.
"""
import collections
import math
import pathlib
import re
import statistics
import sys

WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 720, 420, 70, 40, 160, 60
LINES = {("send", "c"): ("#b03030", ""), ("send", "rust"): ("#2060b0", ""),
         ("read", "c"): ("#b03030", "6 4"), ("read", "rust"): ("#2060b0", "6 4")}


def collect(path):
    data = collections.defaultdict(lambda: collections.defaultdict(list))
    for line in path.read_text().splitlines():
        if line.startswith("#"):
            continue
        _, which, case, value, _ = line.split("|")
        match = re.fullmatch(r"(send|read), loss (\d+)%", case)
        if match and value != "failed":
            data[match[1], which][int(match[2])].append(float(value))
    return data


def main():
    data = collect(pathlib.Path(sys.argv[1]))
    losses = sorted({loss for series in data.values() for loss in series})
    every = [v for series in data.values() for values in series.values() for v in values if v > 0]
    if not every:
        sys.exit("no figures to draw")
    low, high = math.floor(math.log10(min(every))), math.ceil(math.log10(max(every)))
    high = max(high, low + 1)

    # Losses stand side by side at equal distances; throughput is on a logarithmic scale.
    def x(loss):
        return LEFT + (WIDTH - LEFT - RIGHT) * losses.index(loss) / max(len(losses) - 1, 1)

    def y(value):
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (math.log10(max(value, 10.0 ** low)) - low) / (high - low)

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="13">',
           "<!-- SPDX-License-Identifier: GPL-2.0; made by tools/bench/plot.py -->",
           f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
           f'<text x="{LEFT}" y="22" font-size="15">Messages of 64 KiB, MTU 1024, loss on both ways</text>',
           f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 16}" text-anchor="middle">packets lost, %</text>',
           f'<text x="18" y="{HEIGHT / 2}" transform="rotate(-90 18 {HEIGHT / 2})" text-anchor="middle">MiB/s</text>']
    for power in range(low, high + 1):
        at = y(10.0 ** power)
        out += [f'<line x1="{LEFT}" y1="{at:.1f}" x2="{WIDTH - RIGHT}" y2="{at:.1f}" stroke="#ccc"/>',
                f'<text x="{LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{10.0 ** power:g}</text>']
    for loss in losses:
        out.append(f'<text x="{x(loss):.1f}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle">{loss}</text>')
    for n, ((what, which), (colour, dash)) in enumerate(LINES.items()):
        series = data.get((what, which), {})
        points = [(x(loss), y(statistics.median(values)), y(min(values)), y(max(values)))
                  for loss, values in sorted(series.items())]
        style = f'stroke="{colour}" stroke-width="2" fill="none"' + (f' stroke-dasharray="{dash}"' if dash else "")
        if points:
            out.append(f'<polyline points="{" ".join(f"{a:.1f},{b:.1f}" for a, b, _, _ in points)}" {style}/>')
        for a, b, least, most in points:
            out += [f'<line x1="{a:.1f}" y1="{least:.1f}" x2="{a:.1f}" y2="{most:.1f}" stroke="{colour}"/>',
                    f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="{colour}"/>']
        at = TOP + 20 + 22 * n
        out += [f'<line x1="{WIDTH - RIGHT + 15}" y1="{at}" x2="{WIDTH - RIGHT + 50}" y2="{at}" {style}/>',
                f'<text x="{WIDTH - RIGHT + 58}" y="{at + 4}">{what}, {"C" if which == "c" else "Rust"}</text>']
    out.append("</svg>")
    pathlib.Path(sys.argv[2]).write_text("\n".join(out) + "\n")


main()

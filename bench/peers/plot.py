"""Plots of times over sizes, both axes logarithmic, as inline SVG that needs nothing else."""
import html
import math

from settings import COLUMNS, KIB, MIB, OWN

WIDTH, HEIGHT = 620, 440
LEFT, RIGHT, TOP, BOTTOM = 62, 150, 34, 48  # margins; the legend stands on the right
COLOURS = {"tutti": "#c0392b", "threads": "#e67e22", "alloc": "#d4ac0d", "openmpi": "#2471a3", "mpich": "#1e8449",
           "gloo": "#7d3c98", "ucc": "#148f77", "oneccl": "#935116", "staged": "#555555", "mapped": "#999999"}


class LogScale:
    """From values to pixels."""

    def __init__(self, least, most, low, high):
        self.least, self.most, self.low, self.high = math.log(least), math.log(most), low, high

    def __call__(self, value):
        share = (math.log(value) - self.least) / ((self.most - self.least) or 1)
        return self.low + share * (self.high - self.low)


def size_label(size):
    return f"{size // MIB}M" if size >= MIB else f"{size // KIB}K" if size >= KIB else str(size)


def time_label(us):
    return f"{us / 1000:g} ms" if us >= 1000 else f"{us:g} us"


def text(x, y, words, anchor="middle", size=11, extra=""):
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" {extra}'
    return f"<text {place}>{html.escape(words)}</text>"


def line(x1, y1, x2, y2, style):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" {style}/>'


def axes(sizes, decades, x, y):
    parts = []
    step = max(1, math.ceil(len(sizes) / 12))
    for size in sizes[::step]:
        parts.append(line(x(size), TOP, x(size), HEIGHT - BOTTOM, 'stroke="#eee"'))
        parts.append(text(x(size), HEIGHT - BOTTOM + 16, size_label(size)))
    for power in decades:
        us = 10.0 ** power
        parts.append(line(LEFT, y(us), WIDTH - RIGHT, y(us), 'stroke="#ddd"'))
        parts.append(text(LEFT - 6, y(us) + 4, time_label(us), "end"))
    parts.append(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, "bytes per rank"))
    return parts


def curve(column, points, x, y):
    """The medians as a line; the rounds' quartiles as a bar at each point."""
    colour = COLOURS[column]
    dashes = ' stroke-dasharray="5 3"' if column in ("staged", "mapped") else ""
    width = 2.4 if column in OWN else 1.4
    path = " ".join(f"{x(size):.1f},{y(us):.1f}" for size, us, _, _ in points)
    parts = [f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width}"{dashes}/>']
    for size, us, low, high in points:
        parts.append(line(x(size), y(low), x(size), y(high), f'stroke="{colour}" stroke-width="3" opacity="0.4"'))
        parts.append(f'<circle cx="{x(size):.1f}" cy="{y(us):.1f}" r="2.2" fill="{colour}">'
                     f"<title>{COLUMNS[column]}, {size_label(size)}: {us:.4g} us</title></circle>")
    return parts


def legend(columns):
    parts = []
    for i, column in enumerate(columns):
        height = TOP + 14 + 19 * i
        dashes = ' stroke-dasharray="5 3"' if column in ("staged", "mapped") else ""
        parts.append(line(WIDTH - RIGHT + 12, height - 4, WIDTH - RIGHT + 34, height - 4,
                          f'stroke="{COLOURS[column]}" stroke-width="2.2"{dashes}'))
        parts.append(text(WIDTH - RIGHT + 40, height, COLUMNS[column], "start"))
    return parts


def plot(title, series):
    """`series`: column to points (bytes, us, first quartile, third quartile)."""
    series = {column: points for column, points in series.items() if points}
    if not series:
        return ""
    points = [point for curve_points in series.values() for point in curve_points]
    sizes = sorted({size for size, _, _, _ in points})
    least = math.floor(math.log10(min(low for _, _, low, _ in points)))
    most = max(least + 1, math.ceil(math.log10(max(high for _, _, _, high in points))))
    x = LogScale(sizes[0], sizes[-1], LEFT + 10, WIDTH - RIGHT - 10)
    y = LogScale(10.0 ** least, 10.0 ** most, HEIGHT - BOTTOM, TOP)
    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" role="img">',
             text(LEFT, 20, title, "start", 14, 'font-weight="bold"'), *axes(sizes, range(least, most + 1), x, y)]
    for column, curve_points in series.items():
        parts += curve(column, curve_points, x, y)
    return "\n".join(parts + legend(series) + ["</svg>"])

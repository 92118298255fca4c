"""The chart of docs/benchmarks.md: each contender a line, with dots for the median and bars to the slowest, on a
scale of powers of ten. Readable on light and on dark pages."""
import math
from html import escape

from report import Figures, number

ROW, TOP, LABELS, PANEL, GAP, MARGIN = 22, 58, 390, 200, 66, 16
# Colours that can be read on either page, and better ones for viewers that know which it is.
STYLE = """
text { font: 12px system-ui, sans-serif; fill: #7d8590 }
.title { font-weight: 600 }
.faint { fill: #7d8590; font-size: 11px }
.grid { stroke: #7d8590; stroke-opacity: .3 }
.ours { fill: #2f81f7 } .peer { fill: #a371f7 } .bare { fill: #7d8590 }
.ours-bar { stroke: #2f81f7 } .peer-bar { stroke: #a371f7 } .bare-bar { stroke: #7d8590 }
.bar { stroke-width: 3; stroke-opacity: .4; stroke-linecap: round }
@media (prefers-color-scheme: light) {
  .title { fill: #1f2328 } .faint, .bare { fill: #59636e } .ours { fill: #0969da } .peer { fill: #8250df }
}
@media (prefers-color-scheme: dark) {
  .title { fill: #f0f6fc } .faint, .bare { fill: #9198a1 } .ours { fill: #4493f8 } .peer { fill: #ab7df8 }
}
"""


class Panel:
    """One measure: where its dots and the ends of its bars are."""

    def __init__(self, document, part, title, dot, end):
        figures = Figures(document, part)
        self.title = title
        self.points = {}
        for one in figures.contenders:
            value = figures.value(one["name"], [dot])
            if value and value > 0:
                self.points[one["name"]] = (value, figures.value(one["name"], [end]) or value)
        values = [value for pair in self.points.values() for value in pair]
        self.low = math.floor(math.log10(min(values))) if values else 0
        self.high = max(self.low + 1, math.ceil(math.log10(max(values)))) if values else 1

    def x(self, value):
        return (math.log10(value) - self.low) / (self.high - self.low) * PANEL


def short(power):
    """Of a power of ten: 0.1, 1, 10, 100, 1k, 10k, …"""
    if power < 3:
        return "%g" % 10.0 ** power
    return "%d%s" % (10 ** (power % 3), "kMG"[min(2, power // 3 - 1)])


def kind_of(one):
    return "ours" if one["ours"] else "bare" if one["name"] == "bare" else "peer"


def draw_grid(panel, left, height):
    yield '<text class="title" x="%d" y="20">%s</text>' % (left, escape(panel.title))
    for power in range(panel.low, panel.high + 1):
        x = left + panel.x(10.0 ** power)
        yield '<line class="grid" x1="%.1f" y1="%d" x2="%.1f" y2="%d"/>' % (x, TOP - 8, x, height - MARGIN)
        yield '<text class="faint" x="%.1f" y="%d" text-anchor="middle">%s</text>' % (x, TOP - 14, short(power))


def draw_points(panel, contenders, left):
    for row, one in enumerate(contenders):
        if one["name"] not in panel.points:
            continue
        kind, (value, end) = kind_of(one), panel.points[one["name"]]
        y, x, x_end = TOP + ROW * row + ROW / 2, left + panel.x(value), left + panel.x(max(value, end))
        yield '<line class="bar %s-bar" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>' % (kind, x, y, x_end, y)
        yield '<circle class="%s" cx="%.1f" cy="%.1f" r="4.5"/>' % (kind, x, y)
        yield '<text class="faint" x="%.1f" y="%.1f">%s</text>' % (x_end + 8, y + 4, number(value))


def draw(document):
    burst = document["settings"]["burst"]
    panels = [Panel(document, "first", "first output, ms", "p50", "p99"),
              Panel(document, "burst", "%d at once, ms" % burst, "p50", "max"),
              Panel(document, "memory", "idle memory, MiB", "pss_mib", "pss_mib")]
    first = panels[0].points
    shown = set().union(*[panel.points for panel in panels])
    contenders = sorted((one for one in document["contenders"] if one["name"] in shown),
                        key=lambda one: first.get(one["name"], (math.inf,))[0])
    height = TOP + ROW * len(contenders) + MARGIN
    width = LABELS + len(panels) * (PANEL + GAP) + MARGIN
    lines = ['<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img">' % (
        width, height, width, height),
        "<title>Time from create to first output, and memory of an idle environment</title>",
        "<style>%s</style>" % STYLE]
    for row, one in enumerate(contenders):
        lines.append('<text class="%s" x="%d" y="%.1f" text-anchor="end">%s</text>' % (
            kind_of(one), LABELS - 16, TOP + ROW * row + ROW / 2 + 4, escape(one["title"])))
    for i, panel in enumerate(panels):
        left = LABELS + i * (PANEL + GAP)
        lines += [*draw_grid(panel, left, height), *draw_points(panel, contenders, left)]
    return "\n".join([*lines, "</svg>"]) + "\n"

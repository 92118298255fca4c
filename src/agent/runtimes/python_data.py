"""What clients can draw themselves: tables of frames and charts of simple figures, both bounded."""
import itertools
import json
import math

TABLE = "application/vnd.msb.table+json"
CHART = "application/vnd.e2b.chart.v0+json"
ROWS_MAX = 1000
COLUMNS_MAX = 50
POINTS_MAX = 1000  # of one line or cloud
ELEMENTS_MAX = 50  # lines, clouds, or charts in a figure
BARS_MAX = 1000
FORM_MAX = 256 << 10


def plain(value):
    """The value as JSON has it: what is missing is null, what is no number or text its text."""
    if hasattr(value, "item") and getattr(value, "shape", None) == ():
        value = value.item()
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if type(value).__name__ in ("NaTType", "NAType"):
        return None
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def size_of(form):
    return len(json.dumps(form))


def guarded(mime, function, value):
    """One form, or none when it cannot be made: a result never fails for it."""
    try:
        form = function(value)
    except Exception:
        return {}
    return {} if form is None or size_of(form) > FORM_MAX else {mime: form}


def table(value):
    return guarded(TABLE, make_table, value)


def unique_names(labels):
    """Of columns, as text; labels that occur again get a number, as pandas does it for files."""
    names = {}
    for label in labels:
        text = name = " / ".join(map(str, label)) if isinstance(label, tuple) else str(label)
        for again in range(1, COLUMNS_MAX):
            if name not in names:
                break
            name = "%s.%d" % (text, again)
        names[name] = None
    return list(names)


def make_table(value):
    frame = value if value.ndim == 2 else value.to_frame("value" if value.name is None else value.name)
    form = take_rows(frame, ROWS_MAX)
    count = min(len(frame), ROWS_MAX)
    while size_of(form) > FORM_MAX and count > 1:
        count //= 2
        form = take_rows(frame, count)
    return form


def take_rows(frame, count):
    part = frame.iloc[:count, :COLUMNS_MAX]
    names = unique_names(part.columns)
    form = {
        "columns": {name: [plain(value) for value in part.iloc[:, at].tolist()]
                    for at, name in enumerate(names)},
        "shape": list(frame.shape),
    }
    if type(frame.index).__name__ != "RangeIndex":
        form["index"] = [plain(label) for label in part.index.tolist()]
    if part.shape != frame.shape:
        form["truncated"] = True
    return form


def chart(figure):
    return guarded(CHART, make_chart, figure)


def make_chart(figure):
    """Of one pair of axes its chart, of several a chart of charts, of others none."""
    charts = [made for made in map(chart_of_axes, figure.axes[:ELEMENTS_MAX]) if made]
    if len(charts) < 2:
        return charts[0] if charts else None
    title = figure._suptitle.get_text() if figure._suptitle else ""
    return {"type": "superchart", "title": title, "elements": charts}


def chart_of_axes(axes):
    bars = [c for c in axes.containers if type(c).__name__ == "BarContainer"]
    wedges = [patch for patch in axes.patches if type(patch).__name__ == "Wedge"]
    clouds = [c for c in axes.collections if type(c).__name__ == "PathCollection"]
    if wedges:
        return {"type": "pie", "title": axes.get_title(),
                "elements": [describe_wedge(wedge) for wedge in wedges[:BARS_MAX]]}
    if bars:
        return {"type": "bar", **labels_of(axes), "elements": describe_bars(axes, bars)}
    if clouds:
        points = [(cloud.get_label(), cloud.get_offsets()) for cloud in clouds]
        return {"type": "scatter", **labels_of(axes), **scales_of(axes), **elements_of(points)}
    if axes.lines:
        points = [(line.get_label(), zip(line.get_xdata(), line.get_ydata())) for line in axes.lines]
        return {"type": "line", **labels_of(axes), **scales_of(axes), **elements_of(points)}
    return None


def describe_wedge(wedge):
    return {"label": wedge.get_label(), "angle": plain(wedge.theta2 - wedge.theta1),
            "radius": plain(wedge.r)}


def describe_bars(axes, containers):
    """A bar is named by the tick below it, or by its place."""
    elements = []
    for container in containers:
        across = getattr(container, "orientation", "vertical") == "horizontal"
        axis = axes.yaxis if across else axes.xaxis
        ticks = dict(zip(axis.get_ticklocs(), (label.get_text() for label in axis.get_ticklabels())))
        for bar in container.patches:
            place = bar.get_y() + bar.get_height() / 2 if across else bar.get_x() + bar.get_width() / 2
            near = [text for at, text in ticks.items() if abs(at - place) < 1e-6 and text]
            elements.append({"label": near[0] if near else str(plain(place)),
                             "group": str(container.get_label()),
                             "value": plain(bar.get_width() if across else bar.get_height())})
    return elements[:BARS_MAX]


def labels_of(axes):
    return {"title": axes.get_title(), "x_label": axes.get_xlabel(), "y_label": axes.get_ylabel(),
            "x_unit": None, "y_unit": None}


def scales_of(axes):
    members = {}
    for name, axis in (("x", axes.xaxis), ("y", axes.yaxis)):
        converter = type(axis.converter).__name__
        scale = {"DateConverter": "datetime", "_SwitchableDateConverter": "datetime",
                 "StrCategoryConverter": "categorical"}.get(converter, axis.get_scale())
        members[name + "_ticks"] = [plain(at) for at in axis.get_ticklocs()]
        members[name + "_tick_labels"] = [label.get_text() for label in axis.get_ticklabels()]
        members[name + "_scale"] = scale
    return members


def elements_of(clouds):
    elements, cut = [], len(clouds) > ELEMENTS_MAX
    for label, points in clouds[:ELEMENTS_MAX]:
        points = [[plain(x), plain(y)] for x, y in itertools.islice(points, POINTS_MAX + 1)]
        cut = cut or len(points) > POINTS_MAX
        elements.append({"label": str(label), "points": points[:POINTS_MAX]})
    return {"elements": elements, **({"truncated": True} if cut else {})}

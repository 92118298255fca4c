"""Rich results: the forms of a value by the display protocol, display() and figures."""
import base64
import json
import os
import sys

RESULT_MAX = 16 << 20
TEXT_MAX = 1 << 20  # of what is left when a result is too large

METHODS = (
    ("text/html", "_repr_html_"),
    ("text/markdown", "_repr_markdown_"),
    ("image/svg+xml", "_repr_svg_"),
    ("image/png", "_repr_png_"),
    ("image/jpeg", "_repr_jpeg_"),
    ("text/latex", "_repr_latex_"),
    ("application/json", "_repr_json_"),
    ("application/javascript", "_repr_javascript_"),
)


def is_json(mime):
    return mime == "application/json" or mime.endswith("+json")


def encode_form(mime, form):
    """A form as it is sent, or None for what is no form of this kind."""
    if isinstance(form, tuple) and len(form) == 2:
        form = form[0]  # the other is metadata
    if form is None:
        return None
    if is_json(mime):
        return json.loads(json.dumps(form, allow_nan=False))
    if isinstance(form, (bytes, bytearray, memoryview)):
        return base64.b64encode(form).decode("ascii")
    return str(form) if isinstance(form, str) else None


def encode_bundle(bundle):
    if isinstance(bundle, tuple):
        bundle = bundle[0]
    if not isinstance(bundle, dict):
        return {}
    forms = {str(mime): encode_form(str(mime), form) for mime, form in bundle.items()}
    return {mime: form for mime, form in forms.items() if form is not None}


def find_method(value, name):
    try:
        method = getattr(value, name, None)
    except Exception:
        return None
    return method if callable(method) else None


def speaks_protocol(value):
    """Not a class, whose methods want an instance, nor an object that has every attribute."""
    return not isinstance(value, type) and not find_method(value, "_no_object_has_this_method_")


class Forms:
    """All forms of a value. One that fails leaves the others; `error` is the first failure."""

    def __init__(self, value):
        self.data = {}
        self.error = None
        if is_figure(value):
            self.data = draw_figure(value)
        elif speaks_protocol(value):
            self.collect(value)
        if is_frame(value):
            self.data.update(driver.part("data").table(value))
        if not isinstance(self.data.get("text/plain"), str):
            self.data["text/plain"] = str(repr(value))

    def collect(self, value):
        bundle = self.attempt(value, "_repr_mimebundle_", encode_bundle)
        self.data.update(bundle or {})
        for mime, name in METHODS:
            if mime in self.data:
                continue
            form = self.attempt(value, name, lambda form, mime=mime: encode_form(mime, form))
            if form is not None:
                self.data[mime] = form

    def attempt(self, value, name, encode):
        method = find_method(value, name)
        if method is None:
            return None
        try:
            return encode(method())
        except NotImplementedError:
            return None
        except Exception as error:
            self.error = error if self.error is None else self.error
            return None


def size_of(form):
    return len(json.dumps(form, ensure_ascii=False).encode("utf-8", "replace"))


def shorten(data):
    """The text of a result that is too large, with a note of what is missing."""
    text = data["text/plain"]
    notes = ["[%s of %.1f MB left out: a result may have %d MB]"
             % (mime, size_of(form) / (1 << 20), RESULT_MAX >> 20)
             for mime, form in data.items() if mime != "text/plain"]
    if size_of(text) > TEXT_MAX:
        notes.append("[text of %.1f MB cut]" % (size_of(text) / (1 << 20)))
        text = text[:TEXT_MAX]
    return {"text/plain": "\n".join([text] + notes)}


def send(data, is_main, **members):
    if sum(map(size_of, data.values())) > RESULT_MAX:
        data = shorten(data)
    driver.flush()
    if driver.forked:
        print(data["text/plain"])
        return
    driver.record({"type": "result", "text": data["text/plain"], "data": data, "is_main": is_main,
                   **members})


def show(value, is_main, **members):
    forms = Forms(value)
    send(forms.data, is_main, **members)
    if forms.error is not None:
        raise forms.error


class DisplayHandle:
    """Something shown that can be shown anew: the records say so."""

    def __init__(self, display_id=None):
        self.display_id = display_id or os.urandom(8).hex()

    def __repr__(self):
        return "<DisplayHandle display_id=%s>" % self.display_id

    def display(self, value, **options):
        display(value, display_id=self.display_id, **options)

    def update(self, value, **options):
        display(value, display_id=self.display_id, update=True, **options)


def display(*values, raw=False, display_id=None, update=False, **options):
    """Shows each value in all its forms; raw: the values are bundles of forms themselves."""
    handle, members = None, {}
    if display_id is not None:
        handle = DisplayHandle(None if display_id is True else str(display_id))
        members = {"display_id": handle.display_id, "update": bool(update)}
    for value in values:
        if raw:
            data = encode_bundle(value)
            data.setdefault("text/plain", "")
            send(data, False, **members)
        else:
            show(value, False, **members)
    return handle


def is_frame(value):
    pandas = sys.modules.get("pandas")  # of which not all may be there yet
    return isinstance(value, (getattr(pandas, "DataFrame", ()), getattr(pandas, "Series", ())))


def is_figure(value):
    figures = sys.modules.get("matplotlib.figure")
    return figures is not None and isinstance(value, figures.Figure)


FIGURE_FORMATS = {
    "png": ("image/png", {}),
    "retina": ("image/png", {"dpi": 2}),  # times the figure's own
    "svg": ("image/svg+xml", {}),
    "jpeg": ("image/jpeg", {}),
    "pdf": ("application/pdf", {}),
}
chosen_formats = []


def choose_formats(*names):
    """Of all figures from now on; none: what the environment says."""
    names = [{"jpg": "jpeg", "png2x": "retina"}.get(name, name) for name in names]
    for name in names:
        if name not in FIGURE_FORMATS:
            raise ValueError("there is no figure format %r; there are %s"
                             % (name, ", ".join(FIGURE_FORMATS)))
    chosen_formats[:] = names


def figure_formats():
    """What was chosen, or MSB_FIGURE_FORMATS says, or png; svg too when savefig.format says so."""
    wanted = os.environ.get("MSB_FIGURE_FORMATS", "").lower().replace(" ", "").split(",")
    formats = chosen_formats or [name for name in wanted if name in FIGURE_FORMATS] or ["png"]
    extra = sys.modules["matplotlib"].rcParams["savefig.format"] == "svg"
    return dict.fromkeys(formats + ["svg"] * extra)


def draw_figure(figure):
    import io
    data = {"text/plain": repr(figure)}
    for name in figure_formats():
        mime, options = FIGURE_FORMATS[name]
        if "dpi" in options:
            options = {"dpi": options["dpi"] * figure.dpi}
        file = io.BytesIO()
        kind = mime.rpartition("/")[2].partition("+")[0]
        figure.savefig(file, format=kind, bbox_inches="tight", **options)
        drawn = file.getvalue()
        data[mime] = drawn.decode("utf-8") if kind == "svg" else encode_form(mime, drawn)
    data.update(driver.part("data").chart(figure))
    figure._msb_shown = True
    figure.stale = False  # until it is changed
    return data


def show_figures():
    """Shows all open figures but those that are shown as they are, and closes them."""
    helpers = sys.modules["matplotlib._pylab_helpers"].Gcf
    try:
        for manager in helpers.get_all_fig_managers():
            figure = manager.canvas.figure
            if figure.stale or not hasattr(figure, "_msb_shown"):
                show(figure, False)
    finally:
        helpers.destroy_all()


def close_figures():
    sys.modules["matplotlib._pylab_helpers"].Gcf.destroy_all()

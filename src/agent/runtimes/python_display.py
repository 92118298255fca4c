"""Rich results: the forms of a value by the display protocol, display() and figures."""
import base64
import json
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


def send(data, is_main):
    if sum(map(size_of, data.values())) > RESULT_MAX:
        data = shorten(data)
    driver.flush()
    if driver.forked:
        print(data["text/plain"])
        return
    driver.record({"type": "result", "text": data["text/plain"], "data": data, "is_main": is_main})


def show(value, is_main):
    forms = Forms(value)
    send(forms.data, is_main)
    if forms.error is not None:
        raise forms.error


def display(*values, raw=False, **options):
    """Shows each value in all its forms; raw: the values are bundles of forms themselves."""
    for value in values:
        if raw:
            data = encode_bundle(value)
            data.setdefault("text/plain", "")
            send(data, False)
        else:
            show(value, False)


def is_figure(value):
    figures = sys.modules.get("matplotlib.figure")
    return figures is not None and isinstance(value, figures.Figure)


def draw_figure(figure):
    """As png; as svg too when matplotlib's savefig.format asks for that."""
    import io
    formats = {"image/png": "png"}
    if sys.modules["matplotlib"].rcParams["savefig.format"] == "svg":
        formats["image/svg+xml"] = "svg"
    data = {"text/plain": repr(figure)}
    for mime, kind in formats.items():
        file = io.BytesIO()
        figure.savefig(file, format=kind, bbox_inches="tight")
        drawn = file.getvalue()
        data[mime] = drawn.decode("utf-8") if kind == "svg" else encode_form(mime, drawn)
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

"""IPython.display, and set_matplotlib_formats, for interpreters without IPython."""
import base64
import os

__all__ = ["Code", "DisplayHandle", "HTML", "IFrame", "Image", "JSON", "Javascript", "Latex",
           "Markdown", "Math", "Pretty", "SVG", "clear_output", "display",
           "set_matplotlib_formats", "update_display"]

display = driver.part("display").display
DisplayHandle = driver.part("display").DisplayHandle


def update_display(value, *, display_id, **options):
    display(value, display_id=display_id, update=True, **options)


def set_matplotlib_formats(*formats, **options):
    driver.part("display").choose_formats(*formats)


def clear_output(wait=False):
    """Accepted and without effect: what was shown has been sent already."""


def read_file(name, binary):
    with open(name, "rb") as file:
        content = file.read()
    return content if binary else content.decode("utf-8")


class Shown:
    """Something of one form, given as data or as the name of a file."""

    binary = False

    def __init__(self, data=None, url=None, filename=None, metadata=None):
        if url is not None and data is None:
            raise ValueError("a url cannot be shown here: give data or filename")
        if filename is None and isinstance(data, os.PathLike):
            data, filename = None, data
        self.data = read_file(filename, self.binary) if filename is not None else data
        self.filename = filename
        self.metadata = metadata

    def __repr__(self):
        return "<IPython.display.%s object>" % type(self).__name__


class HTML(Shown):
    def _repr_html_(self):
        return self.data


class Markdown(Shown):
    def _repr_markdown_(self):
        return self.data


class Latex(Shown):
    def _repr_latex_(self):
        return self.data


class Math(Latex):
    def _repr_latex_(self):
        return "$\\displaystyle %s$" % self.data.strip("$")


class Pretty(Shown):
    def __repr__(self):
        return str(self.data)


class Code(Pretty):
    def __init__(self, data=None, url=None, filename=None, language=None):
        super().__init__(data, url, filename)
        self.language = language or ""

    def _repr_markdown_(self):
        return "```%s\n%s\n```" % (self.language, self.data)


class IFrame:
    def __init__(self, src, width, height, **options):
        self.src, self.width, self.height = src, width, height

    def _repr_html_(self):
        from html import escape
        return '<iframe src="%s" width="%s" height="%s"></iframe>' % (
            escape(str(self.src)), escape(str(self.width)), escape(str(self.height)))


class SVG(Shown):
    def _repr_svg_(self):
        return self.data.decode("utf-8") if isinstance(self.data, bytes) else self.data


class Javascript(Shown):
    def _repr_javascript_(self):
        return self.data


class JSON(Shown):
    def __init__(self, data=None, url=None, filename=None, expanded=False, metadata=None, **_):
        super().__init__(data, url, filename, metadata)
        if isinstance(self.data, str):
            import json
            self.data = json.loads(self.data)

    def _repr_json_(self):
        return self.data


class Image(Shown):
    binary = True
    MAGIC = ((b"\x89PNG", "png"), (b"\xff\xd8", "jpeg"), (b"GIF8", "gif"), (b"RIFF", "webp"))

    def __init__(self, data=None, url=None, filename=None, format=None, embed=None, width=None,
                 height=None, **options):
        if isinstance(data, str) and filename is None and url is None:
            if data.startswith(("http://", "https://")):
                data, url = None, data
            else:
                data, filename = None, data
        self.url = url
        super().__init__(data, None, filename)
        if self.data is None and url is None:
            raise ValueError("an image needs data, filename or url")
        self.format = (format or self.guess_format()).lower().replace("jpg", "jpeg")
        self.width = width
        self.height = height

    def guess_format(self):
        for magic, name in self.MAGIC:
            if self.data is not None and bytes(self.data[:4]).startswith(magic):
                return name
        return "png"

    def _repr_mimebundle_(self, include=None, exclude=None):
        if self.data is None:
            from html import escape
            return {"text/html": '<img src="%s">' % escape(self.url)}
        return {"image/" + self.format: base64.b64encode(self.data).decode("ascii")}

"""What came of code that was run."""


class Output:
    """Lines that were printed: {"stream": "stdout" or "stderr", "text"}."""

    def __init__(self, data):
        self._data = data
        self._lines = data.get("output") or []

    def _text(self, stream):
        return "\n".join(line["text"] for line in self._lines if line["stream"] == stream)

    async def output(self):
        """What was printed on stdout, without white space at its end."""
        return self._text("stdout").rstrip()

    async def error(self):
        """What was printed on stderr."""
        return self._text("stderr")


class Execution(Output):
    @property
    def status(self):
        return self._data.get("status", "unknown")

    @property
    def language(self):
        return self._data.get("language", "unknown")

    @property
    def results(self):
        """Values and pictures in all their forms, as docs/contexts.md describes them."""
        return self._data.get("results") or []

    def has_error(self):
        return self.status in ("error", "exception") or bool(self._text("stderr"))

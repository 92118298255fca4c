"""The figures as tables: on a terminal, and as a page of the documentation."""

PARTS = {
    "first": "create to first output",
    "burst": "many at once",
    "again": "second call",
    "pandas": "create to the end of a first import of pandas",
    "memory": "memory of an idle one",
    "inside": "speed inside",
    "ports": "ports",
    "keeper": "files through the keeper",
    "requests": "requests of a sandbox's life",
    "density": "many alive",
}

WORK = """The work is `python3 -c "print(6*7)"` in a fresh environment, from before it is asked for to the
first byte of the answer; all have the same root, that of the image `microsandbox/python`, except
bare python3. Two kinds of work are not the same: msb's sandboxes come with an interpreter that is
warm, and only the rows with "new python3 process" start one as everybody else does. "Command" is
`msb exe` as a whole, "clone" a sandbox made on demand, "from the pool" one that waited. Over
JSON-RPC the answer is whole when it counts, and the connection is open already. Walls differ too:
see the first table. Bundles of crun and runsc are written before the clock starts; podman makes its
own while it runs. All take turns, round by round, so that what else the host did hit all alike. Of
fewer than 100 samples p99 is the slowest."""


class Table:
    def __init__(self, title, columns, rows, note=""):
        self.title, self.columns, self.rows, self.note = title, columns, rows, note


def number(value, unit=""):
    if value is None:
        return "–"
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return "%.*f%s" % (digits, value, unit)


def engine_of(one):
    """For what does not depend on how msb is asked."""
    return one["title"].partition(",")[0] if one["ours"] else one["title"]


def times(value, reference):
    return number(value / reference, " x") if value and reference else "–"


class Figures:
    """One part of the document, by contender."""

    def __init__(self, document, part):
        self.found = document["results"].get(part, {})
        self.contenders = [one for one in document["contenders"] if one["name"] in self.found]

    def value(self, name, path):
        value = self.found.get(name)
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        return value

    def best_peer(self, path, choose=min):
        """Among those with a wall: its title and figure."""
        values = [(self.value(one["name"], path), one["title"]) for one in self.contenders
                  if not one["ours"] and one["name"] != "bare" and self.value(one["name"], path)]
        return choose(values) if values else (None, "no peer")

    def sorted(self, path, reverse=False):
        """The best first; those without a figure last."""
        def key(one):
            value = self.value(one["name"], path)
            return (value is None, -value if reverse and value is not None else value or 0)
        return sorted(self.contenders, key=key)


# ---- tables ---------------------------------------------------------------------------------------------


def wall_table(document):
    """Ways to use msb that differ in nothing else are one row."""
    rows = dict.fromkeys((engine_of(one), one["wall"], one["version"], one["reason"] or "")
                         for one in document["contenders"])
    return [Table("What is compared", ("", "between its code and the host", "version", "not measured"), list(rows))]


def spread_table(title, part, note=""):
    def make(document):
        figures = Figures(document, part)
        best, who = figures.best_peer(["p50"])
        bare = figures.value("bare", ["p50"])
        rows = []
        for one in figures.sorted(["p50"]):
            told = figures.found[one["name"]]
            rows.append((one["title"], *[number(told.get(key)) for key in ("p50", "p95", "p99")],
                         "%d of %d" % (told.get("worked", 0), told.get("tries", 0)), times(told.get("p50"), best),
                         times(told.get("p50"), bare), told.get("failed", "")))
        columns = ("ms", "p50", "p95", "p99", "worked", "p50 against %s" % who, "against bare", "")
        return [Table(title.format(**document["settings"]), columns, rows, note)] if rows else []
    return make


def memory_table(document):
    figures = Figures(document, "memory")
    best, who = figures.best_peer(["pss_mib"])
    rows = [(one["title"], *[number(figures.value(one["name"], [key])) for key in ("mib", "pss_mib")],
             times(figures.value(one["name"], ["pss_mib"]), best), str(figures.value(one["name"], ["count"]) or "–"),
             figures.value(one["name"], ["failed"]) or "") for one in figures.sorted(["pss_mib"])]
    note = ("By the fall of available memory (MemAvailable and the free pages on per-CPU lists), which\n"
            "whatever else the host did moves, and as the proportional share of its processes (PSS). Peers hold a\n"
            "python3 that has printed and sleeps; \"from the pool\" are those that wait there, rehearsed.")
    columns = ("MiB each", "fall", "PSS", "PSS against %s" % who, "weighed", "")
    return [Table("Memory of an idle environment", columns, rows, note)] if rows else []


def density_table(document):
    figures, rows = Figures(document, "density"), []
    for one in figures.contenders:
        found = figures.found[one["name"]]
        for stage in found if isinstance(found, list) else []:
            rows.append(("%s, %d" % (engine_of(one), stage["wanted"]), str(stage["alive"]),
                         str(stage["answers"]["worked"]), number(stage["mib"] * stage["alive"] / 1024),
                         *[number(stage[key]) for key in ("mib", "pss_mib", "made_s")],
                         number(stage["answers"].get("p50")),
                         stage["start"].get("failed") or stage["answers"].get("failed") or ""))
        if isinstance(found, dict):
            rows.append((one["title"], *["–"] * 7, found.get("failed", "")))
    columns = ("", "alive", "answer", "GiB together", "MiB each", "PSS each", "s until all ran", "answer, p50 ms", "")
    return [Table("Alive at once", columns, rows)] if rows else []


SPEEDS = (("Python loop, ms", ("loop_ms",)), ("getppid, ns", ("calls_ns", "getppid")),
          ("open and close, ns", ("calls_ns", "open and close of a file of the image")),
          ("fork, exit, wait, µs", ("calls_ns", "fork, exit, wait")))


def inside_tables(document):
    figures = Figures(document, "inside")
    if not figures.contenders:
        return []
    rows = []
    for one in figures.sorted(["loop_ms"]):
        row = [engine_of(one)]
        for title, path in SPEEDS:
            value, bare = figures.value(one["name"], path), figures.value("bare", path)
            row += [number(value and value / (1000 if "µs" in title else 1)), times(value, bare)]
        rows.append((*row, figures.value(one["name"], ["failed"]) or ""))
    columns = [""]
    for title, _ in SPEEDS:
        columns += [title, "against bare"]
    note = "The best of many. A loop of a million additions in Python; system calls from a program in C."
    return [Table("Speed inside", (*columns, ""), rows, note), *rate_tables(
        figures, "Files inside, MB/s", (("written", ("files", "write")), ("read", ("files", "read"))),
        "64 MiB without waiting for the disk, the best of three: on the environment's own disk with msb and\n"
        "QEMU, in a folder of the host's with the others.")]


def rate_tables(figures, title, kinds, note=""):
    """More is better: beside the best peer, or bare python3 where no other was measured."""
    rows, columns, best = [], [""], {}
    for kind, path in kinds:
        best[path] = figures.best_peer(path, max)
        if not best[path][0]:
            best[path] = (figures.value("bare", path), "bare")
        columns += [kind, "against %s" % best[path][1]]
    for one in figures.sorted(kinds[0][1], reverse=True):
        row = [engine_of(one)]
        for _, path in kinds:
            value = figures.value(one["name"], path)
            row += [number(value), times(value, best[path][0])]
        rows.append((*row, figures.value(one["name"], ["failed"]) or ""))
    return [Table(title, (*columns, ""), rows, note)] if rows else []


def port_table(document):
    return rate_tables(Figures(document, "ports"), "One connection to a published port, MB/s",
                       (("out of it", ("out",)), ("into it", ("in",))),
                       "Bare is the loopback of the host, with nothing between. The other peers have no ports of their\n"
                       "own: they share the host's network or need a bridge.")


def keeper_table(document):
    figures = Figures(document, "keeper")
    rows = [(engine_of(one), *[number(figures.value(one["name"], [key])) for key in ("in", "out", "changes_ms")],
             figures.value(one["name"], ["failed"]) or "") for one in figures.contenders]
    columns = ("", "file into it, MB/s", "out of it, MB/s", "report of changes in a folder, ms", "")
    return [Table("Files through the keeper", columns, rows)] if rows else []


def request_table(document):
    figures, rows = Figures(document, "requests"), []
    for one in figures.contenders:
        for request, told in figures.found[one["name"]].items():
            if isinstance(told, dict):
                rows.append(("%s: %s" % (one["title"], request),
                             *[number(told.get(key)) for key in ("p50", "p95", "p99")], told.get("failed", "")))
    return [Table("The requests of a sandbox's life", ("ms", "p50", "p95", "p99", ""), rows)] if rows else []


SECTIONS = (
    wall_table,
    spread_table("Create to first output, one after the other", "first"),
    spread_table("Create to first output, {burst} at once", "burst", "Each from the moment the first was asked for."),
    spread_table("Second call in the same environment", "again",
                 "What cannot run a second command in the same environment is left out. Bare starts another process."),
    spread_table("Create to the end of a first import of pandas", "pandas"),
    memory_table, density_table, inside_tables, port_table, keeper_table, request_table)


def without_empty_columns(table):
    """The last columns tell of failures: most of the time there are none."""
    keep = [i for i in range(len(table.columns)) if i == 0 or any(row[i] for row in table.rows)]
    columns, rows = [table.columns[i] for i in keep], [[row[i] for i in keep] for row in table.rows]
    return Table(table.title, columns, rows, table.note)


def tables(document):
    return [without_empty_columns(table) for section in SECTIONS for table in section(document)]


def about(document):
    form = ("{processor}, {processors} processors, {memory_gib} GiB, {system}, Linux {kernel}; "
            "load {load} when it began; {date}")
    return form.format(date=document["date"], **document["machine"])


# ---- forms ------------------------------------------------------------------------------------------------


def is_text(cells):
    return any(cell and not cell[0].isdigit() and cell[0] not in "–-" for cell in cells)


def table_text(table):
    columns = []
    for title, *cells in zip(table.columns, *table.rows):
        width = max(map(len, (title, *cells)))
        columns.append([cell.ljust(width) if is_text(cells) else cell.rjust(width) for cell in (title, *cells)])
    return "\n".join(["", "== " + table.title, *("  ".join(line).rstrip() for line in zip(*columns))])


def as_text(document):
    return "\n".join([about(document) + "." + "".join(warnings(document)).replace("**", ""),
                      *map(table_text, tables(document))])


def table_markdown(table):
    lines = ["## " + table.title, ""]
    if table.note:
        lines += [table.note, ""]
    lines.append("| " + " | ".join(table.columns) + " |")
    lines.append("|" + "|".join("---" if is_text(cells) else "---:" for cells in zip(*table.rows)) + "|")
    for row in table.rows:
        first = "**%s**" % row[0] if row[0].startswith("msb ") else row[0]
        cells = [first, *(cell.replace("|", "\\|") for cell in row[1:])]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def warnings(document):
    if not document["settings"]["slow"]:
        yield " A quick run: few samples, small numbers."
    if document["machine"]["load"] > document["machine"]["processors"] / 2:
        yield " **The host was busy with other work: the times are far too high, and only wide differences count.**"


def as_markdown(document):
    head = ["# Benchmarks", "", "Written by `bench/run --docs`; `make bench` measures the same on your machine.", "",
            "Measured on: %s.%s" % (about(document), "".join(warnings(document))), "", WORK, "",
            "![Create to first output and memory of each](benchmarks.svg)", ""]
    return "\n".join(head) + "\n" + "\n".join(map(table_markdown, tables(document)))

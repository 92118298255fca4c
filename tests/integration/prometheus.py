"""A strict reader of the text format of Prometheus, version 0.0.4."""

import re

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"'
SAMPLE = re.compile(rf"({NAME})(?:\{{({LABEL}(?:,{LABEL})*)?\}})? (NaN|[+-]?Inf|[-+0-9.eE]+)")


def family_of(name, families):
    for suffix in ("_bucket", "_sum", "_count"):
        base = name.removesuffix(suffix)
        if base != name and families.get(base, {}).get("type") == "histogram":
            return base
    return name


def check_histogram(name, samples):
    series = {}
    for sample, labels, value in samples:
        rest = tuple(sorted((key, text) for key, text in labels.items() if key != "le"))
        series.setdefault(rest, []).append((sample, labels.get("le"), value))
    for parts in series.values():
        buckets = [(float(le), value) for sample, le, value in parts if sample == name + "_bucket"]
        counts = [value for sample, _, value in parts if sample == name + "_count"]
        assert [sample for sample, _, _ in parts].count(name + "_sum") == 1, parts
        assert buckets == sorted(buckets) and buckets[-1][0] == float("inf"), buckets
        assert all(a[1] <= b[1] for a, b in zip(buckets, buckets[1:])), buckets
        assert counts == [buckets[-1][1]], parts


def parse(text):
    """{name: {"type", "samples": [(name, labels, value)]}}; fails on what is no such text."""
    families, current, seen = {}, None, set()
    assert text.endswith("\n")
    for line in text[:-1].split("\n"):
        if match := re.fullmatch(rf"# HELP ({NAME}) ([^\n]+)", line):
            current = match[1]
            assert current not in families, f"{current} comes twice"
            families[current] = {"type": None, "samples": []}
        elif match := re.fullmatch(rf"# TYPE ({NAME}) (counter|gauge|histogram)", line):
            assert match[1] == current and families[current]["type"] is None, line
            families[current]["type"] = match[2]
        else:
            match = SAMPLE.fullmatch(line)
            assert match, f"no sample: {line}"
            labels = dict(re.findall(LABEL, match[2] or ""))
            key = (match[1], tuple(sorted(labels.items())))
            assert key not in seen, f"twice: {line}"
            seen.add(key)
            name = family_of(match[1], families)
            assert name == current and families[name]["type"], line
            families[name]["samples"].append((match[1], labels, float(match[match.lastindex])))
    for name, family in families.items():
        if family["type"] == "histogram":
            check_histogram(name, family["samples"])
        if family["type"] == "counter":
            assert name.endswith("_total"), name
    return families

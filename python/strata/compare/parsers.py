"""Figures out of what load generators print: redis-benchmark, memtier, wrk, pgbench, and lines of
`key=value` as this project's own programs write them. Each parser knows its own format by a line
that the others do not print; names of figures tell which way is better."""

from __future__ import annotations

import contextlib
import csv
import math
import re
from collections.abc import Callable, Iterable

from strata.compare.plan import Metric
from strata.errors import StrataError

NUMBER = r"([-+]?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?)"
MILLISECONDS = {"ns": 1e-6, "us": 1e-3, "µs": 1e-3, "ms": 1.0, "s": 1e3, "m": 6e4, "h": 3.6e6}
# by the last part of a name
HIGHER = ("throughput", "rps", "tps", "mops", "ops_s", "rate", "per_s", "coverage", "hits")
LOWER = ("latency", "_ms", "_us", "_ns", "_s", "ns", "us", "kib", "faults", "rss", "seconds")

Figures = dict[str, float]


def higher_is_better(name: str) -> bool | None:
    """Which way is better as the name tells it; None for a figure that is not compared."""
    last = name.rpartition(".")[2].lower()
    last = re.sub(r"_(peak|valley)$", "", last)
    if last.endswith(HIGHER) or last.startswith("coverage"):
        return True
    return False if last.endswith(LOWER) or last.startswith("latency") else None


def _numbers(pairs: Iterable[tuple[str, str | None]]) -> Figures:
    """Those of the pairs that hold a finite number: output may be cut off or mixed up."""
    figures: Figures = {}
    for name, text in pairs:
        with contextlib.suppress(TypeError, ValueError):
            value = float(text)  # type: ignore[arg-type]  # None is what raises TypeError
            if math.isfinite(value):
                figures[name] = value
    return figures


def _redis_long(text: str) -> Figures:
    figures: Figures = {}
    # one part for each test: ====== SET ====== ... throughput summary ... latency summary
    for name, body in re.findall(r"^=+ (.+?) =+\s*$(.*?)(?=^=+ |\Z)", text, re.M | re.S):
        found = re.search(rf"throughput summary: {NUMBER} requests per second", body)
        if found is None:
            continue
        key = _key(name)
        figures[f"{key}.rps"] = float(found[1])
        table = re.search(r"latency summary \(msec\):\s*\n(.+)\n(.+)", body)
        if table is not None:
            columns = zip(table[1].split(), table[2].split(), strict=False)
            figures |= _numbers((f"{key}.{c}_ms", v) for c, v in columns if c != "min")
    return figures


def _redis_quiet(text: str) -> Figures:
    figures: Figures = {}
    # the live line is overwritten with \r; only the last state of it counts
    for line in text.replace("\r", "\n").splitlines():
        found = re.match(rf"\s*(.+?): {NUMBER} requests per second(?:, p50={NUMBER} msec)?", line)
        if found is not None:
            figures[f"{_key(found[1])}.rps"] = float(found[2])
            if found[3]:
                figures[f"{_key(found[1])}.p50_ms"] = float(found[3])
    return figures


def _redis_csv(text: str) -> Figures:
    figures: Figures = {}
    lines = [line for line in text.splitlines() if line.startswith('"')]
    if not lines or not lines[0].startswith('"test","rps"'):
        return figures
    for row in csv.DictReader(lines):
        key = _key(row["test"] or "")
        columns = (c for c in row if isinstance(c, str) and c not in ("test", "min_latency_ms"))
        figures |= _numbers((f"{key}.{c.replace('_latency', '')}", row[c]) for c in columns)
    return figures


def _redis(text: str) -> Figures:
    if "requests per second" not in text and '"test","rps"' not in text:
        return {}
    return _with_mean(_redis_csv(text) or _redis_long(text) or _redis_quiet(text))


def _key(name: str) -> str:
    return re.sub(r"\W+", "_", name.split(" (")[0]).strip("_")


def _with_mean(figures: Figures) -> Figures:
    """One throughput over all tests: the geometric mean, so that no test outweighs the others."""
    rates = [v for k, v in figures.items() if k.endswith(".rps") and v > 0]
    if rates:
        mean = math.exp(sum(math.log(rate) for rate in rates) / len(rates))
        return {"throughput": mean, **figures}
    return figures


def _memtier(text: str) -> Figures:
    header = re.search(r"^Type\s+(Ops/sec.*)$", text, re.M)
    totals = re.search(r"^Totals\s+(.*)$", text, re.M)
    if header is None or totals is None:
        return {}
    names = re.split(r"\s{2,}", header[1].strip())
    values = totals[1].split()
    if len(names) != len(values):
        return {}
    renamed = {"Ops/sec": "throughput"} | {
        name: f"latency_{name.removesuffix(' Latency').rstrip('.').lower()}_ms"
        for name in names
        if name.endswith("Latency")
    }
    pairs = zip(names, values, strict=True)
    return _numbers((renamed[name], value) for name, value in pairs if name in renamed)


def _wrk(text: str) -> Figures:
    rate = re.search(rf"^Requests/sec:\s+{NUMBER}", text, re.M)
    if rate is None:
        return {}
    figures = {"throughput": float(rate[1])}
    mean = re.search(rf"^\s+Latency\s+{NUMBER}(us|ms|s|m|h)\s", text, re.M)
    if mean is not None:
        figures["latency_avg_ms"] = float(mean[1]) * MILLISECONDS[mean[2]]
    shares = rf"^\s+(\d+)(?:\.0+)?%\s+{NUMBER}(us|ms|s|m|h)$"
    for share, value, unit in re.findall(shares, text, re.M):
        figures[f"latency_p{share}_ms"] = float(value) * MILLISECONDS[unit]
    errors = re.search(r"Non-2xx or 3xx responses: (\d+)", text)
    if errors is not None:
        figures["failed_requests"] = float(errors[1])
    return figures


def _pgbench(text: str) -> Figures:
    rate = re.search(rf"^tps = {NUMBER}", text, re.M)
    if rate is None:
        return {}
    figures = {"throughput": float(rate[1])}
    for key, name in (("average", "latency_avg_ms"), ("stddev", "latency_stddev_ms")):
        found = re.search(rf"^latency {key} = {NUMBER} ms", text, re.M)
        if found is not None:
            figures[name] = float(found[1])
    return figures


def _key_values(text: str) -> Figures:
    """The last line made of nothing but `key=value` pairs, at least two."""
    for line in reversed(text.splitlines()):
        words = line.split()
        if len(words) >= 2 and all(re.fullmatch(r"[A-Za-z_][\w.%-]*=\S*", w) for w in words):
            figures: Figures = {}
            for word in words:
                key, _, value = word.partition("=")
                if re.fullmatch(NUMBER, value):
                    figures[key] = float(value)
            return figures
    return {}


PARSERS: tuple[Callable[[str], Figures], ...] = (_redis, _memtier, _wrk, _pgbench, _key_values)


def parse(text: str, metrics: Iterable[Metric] = ()) -> Figures:
    """All figures in the output: the first format that fits, then the expressions asked for."""
    figures: Figures = {}
    for parser in PARSERS:
        # A record that holds another is refused when the run is resumed.
        figures = {name: value for name, value in parser(text).items() if math.isfinite(value)}
        if figures:
            break
    for metric in metrics:
        found = re.findall(metric.pattern, text, re.M)
        if not found:
            raise StrataError(f"metric {metric.name}: nothing in the output matches")
        try:
            figures[metric.name] = value = float(found[-1].replace(",", ""))
            if not math.isfinite(value):
                raise ValueError(value)
        except ValueError as error:
            raise StrataError(f"metric {metric.name}: {found[-1]!r} is not a number") from error
    return figures

"""Writes docs/benchmarks/works.md from the runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from strata_bench.allocators import STRATA, STRATA_KEEPING, Field
from strata_bench.glossary import lines as work_lines
from strata_bench.plan import CASES, OTHER, SPEED, Case
from strata_bench.results import Results, geometric_mean
from strata_bench.targets import Row, against_best, better, burst_limit_kib, speed_means

ABOUT = """\
Each work runs in rounds; in a round every allocator has its turn, and each round starts with
another one. A ratio is made within a round; what is shown is the median over the rounds with the
lowest and the highest behind it. The other figures are medians. Wall time, all cores.
"""

OTHERS = """\
Bold is best. Mobj/s, Mop/s and requests are better when they are higher, all else when it is lower.
"""


def table(header: list[str], rows: list[list[str]]) -> str:
    lines = [
        "| " + " | ".join(header) + " |",
        "|---|" + "---:|" * (len(header) - 1),
    ]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def text_table(header: list[str], rows: list[list[str]]) -> str:
    return table(header, rows).replace("---:", "---")


def figure(value: float | None) -> str:
    if value is None:
        return "–"
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def mib(value: float | None) -> str:
    return "–" if value is None else figure(value / 1024)


class Report:
    def __init__(self, results: Results, field: Field, images: dict[str, Path], docs: Path) -> None:
        self._results = results
        self._field = field
        self._images = images
        self._docs = docs

    def text(self, command: str, date: str, rows: list[Row], machine: dict[str, str]) -> str:
        parts = [
            "# Speed and memory of every work\n",
            f"Written by `{command}` on {date}; the next run overwrites it.\n",
            ABOUT,
            "## Targets\n",
            text_table(
                ["work", "target", "measured", ""],
                [[r.work, r.target, r.measured, r.verdict] for r in rows],
            ),
            "## Machine\n",
            text_table(["", ""], [[k, v] for k, v in machine.items()]),
            "## Allocators\n",
            self._allocators(),
            f"## Works\n\n{work_lines()}\n",
            self._image("speed", "Time of each work relative to the fastest peer"),
            self._speed(),
            self._image("sizes", "ns per malloc and free by size"),
            self._others(),
            self._image("burst", "Memory held 10 s after a burst"),
            self._burst(),
            self._peaks(),
            self._failures(),
        ]
        return "\n".join(p for p in parts if p)

    def _names(self, cases: list[Case]) -> list[str]:
        ran = {name for case in cases for name in self._results.allocators(case.name)}
        return [n for n in self._field.allocators if n in ran]

    def _image(self, key: str, title: str) -> str:
        path = self._images.get(key)
        if path is None:
            return ""
        try:
            shown = path.relative_to(self._docs.parent)
        except ValueError:
            shown = path
        return f"![{title}]({shown})\n"

    def _allocators(self) -> str:
        rows = [
            [a.name, a.version, a.options]
            for a in self._field.allocators.values()
            if any(r.allocator == a.name for r in self._results.runs)
        ]
        text = text_table(["name", "version", "options"], rows)
        for name, why in self._field.skipped.items():
            text += f"\nLeft out: {name} ({why}).\n"
        return text + (
            "\nGoogle's tcmalloc keeps per-CPU caches only where it may register rseq itself, hence"
            " the tunable; it gives memory back only when a thread of the program runs its"
            " background actions, which `tcmalloc-releasing` does. `strata-keeping` is Strata with"
            " release switched off. The crates' jemalloc is built without C++ operators, which then"
            " come from libstdc++ and call malloc.\n"
        )

    def _grid(
        self,
        cases: list[Case],
        value: Callable[[Case, str], float | None],
        show: Callable[[float | None], str],
        *,
        ratio: bool,
    ) -> str:
        names = self._names(cases)
        header = ["work", *names] + (["Strata / best peer"] if ratio else [])
        rows: list[list[str]] = []
        for case in cases:
            if not self._results.allocators(case.name):
                continue
            values = {n: value(case, n) for n in names}
            present = [v for v in values.values() if v is not None]
            best = None
            for v in present:
                best = v if best is None or better(case, v, best) else best
            cells = [
                f"**{show(v)}**" if v is not None and v == best else show(v)
                for v in values.values()
            ]
            if ratio:
                found = against_best(self._results, case)
                cells.append(f"{found[1]} {found[0]}" if found else "–")
            rows.append([f"{case.name} ({case.unit})" if ratio else case.name, *cells])
        return table(header, rows) if rows else ""

    def _median(self, case: Case, name: str) -> float | None:
        return self._results.median(case.name, name, case.metric)

    def _speed(self) -> str:
        grid = self._grid(SPEED, self._median, figure, ratio=True)
        if not grid:
            return ""
        means = speed_means(self._results)
        line = ", ".join(f"{name} {mean:.2f}" for name, mean in means.items())
        text = "## Speed\n\nns per malloc and free as one thread sees it. Bold is best.\n\n" + grid
        if line:
            text += f"\nGeometric mean of Strata's time over each peer's: {line}.\n"
        return text

    def _others(self) -> str:
        skipped = {"burst-oldest", "burst-random", "prodcons-long"}
        cases = [c for c in OTHER if c.name not in skipped]
        grid = self._grid(cases, self._median, figure, ratio=True)
        extra: list[str] = []
        names = self._names([c for c in cases if c.name == "redis"])
        if names:
            rows = [
                [
                    n,
                    figure(self._results.median("redis", n, "requests_per_cpu_s")),
                    figure(self._results.median("redis", n, "requests_per_s")),
                    mib(self._results.median("redis", n, "hwm_kib")),
                    f"{(self._results.median('redis', n, 'coverage') or 0) * 100:.0f} %",
                ]
                for n in names
            ]
            header = ["Redis fill", "requests / CPU s", "requests / s", "peak RSS MiB", "coverage"]
            extra.append(table(header, rows))
        names = self._names([c for c in cases if c.name == "startup"])
        if names:
            rows = [
                [
                    n,
                    figure(self._results.median("startup", n, "us")),
                    figure(self._results.median("startup", n, "child_kib")),
                ]
                for n in names
            ]
            extra.append(table(["start-up of /bin/true", "us", "peak RSS KiB"], rows))
        return "\n".join([f"## Other works\n\n{OTHERS}", grid, *extra]) if grid else ""

    def _burst(self) -> str:
        rows: list[list[str]] = []
        for name in ("burst-oldest", "burst-random", "oscillation"):
            for allocator in [a for a in self._field.allocators if a != STRATA_KEEPING]:
                runs = [r for r in self._results.of(name, allocator) if not r.error]
                if not runs:
                    continue
                first = runs[0].fields
                limit = burst_limit_kib(name, first) if name.startswith("burst") else None
                rows.append(
                    [
                        name,
                        allocator,
                        mib(float(first["live_kib"])),
                        mib(self._results.median(name, allocator, "survivor_pages_kib")),
                        mib(self._results.median(name, allocator, "rss_kib")),
                        mib(self._results.median(name, allocator, "physical_kib")),
                        mib(limit) if allocator == STRATA else "",
                    ]
                )
        if not rows:
            return ""
        header = ["work", "allocator", "live", "survivor pages", "RSS", "physical", "limit"]
        return (
            "## Memory given back\n\nMiB after the idle time (bursts 10 s, oscillation 2 s),"
            " during which the program does not call the allocator. Physical is the process's own"
            " memory cgroup: RSS leaves out pages that the kernel has not freed yet.\n\n"
            + table(header, rows)
        )

    def _peaks(self) -> str:
        cases = [c for c in CASES if c.name not in ("startup", "prodcons-long")]
        grid = self._grid(
            cases, lambda c, n: self._results.median(c.name, n, "hwm_kib"), mib, ratio=False
        )
        if not grid:
            return ""
        return "## Peak RSS\n\nMiB.\n\n" + grid.replace("**", "") + self._peak_means(cases)

    def _peak_means(self, cases: list[Case]) -> str:
        means: list[str] = []
        for name in self._names(cases):
            ratios = [
                own / theirs
                for case in cases
                if (own := self._results.median(case.name, STRATA, "hwm_kib"))
                and (theirs := self._results.median(case.name, name, "hwm_kib"))
            ]
            mean = geometric_mean(ratios)
            if name not in (STRATA, STRATA_KEEPING) and mean is not None:
                means.append(f"{name} {mean:.2f} ({len(ratios)}{' works' if not means else ''})")
        if not means:
            return ""
        return (
            "\nGeometric mean of Strata's peak over each allocator's, in the works that this table"
            f" has of both: {', '.join(means)}.\n"
        )

    def _failures(self) -> str:
        failed = self._results.failures()
        if not failed:
            return ""
        rows = [[r.case, r.allocator, str(r.round), r.error] for r in failed]
        header = ["work", "allocator", "round", "what happened"]
        return "## Runs that failed\n\n" + text_table(header, rows)

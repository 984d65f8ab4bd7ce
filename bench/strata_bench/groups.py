"""Experiments beside the plan: one build of Strata under different settings, or several allocators
under a memory limit, in many interleaved rounds. Each group writes a page of its own,
docs/benchmarks/NAME.md."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from strata.compare.statistics import Interval, Verdict, interval, judge

from strata_bench import execute, limited, switched
from strata_bench.allocators import GLIBC, Allocator, loads
from strata_bench.plan import Case, Kind
from strata_bench.results import Results, Run

MARGIN = 0.01
SEED = 3
QUICK_ROUNDS = 2


@dataclass(frozen=True)
class Figure:
    """A field of the result line, and how a reader sees it."""

    key: str
    label: str
    higher_is_better: bool


@dataclass(frozen=True)
class Target:
    """What the project asks of a variant: a ratio to another's, the least or the most of it."""

    variant: str
    key: str
    bound: float
    work: str = ""  # the case; the first if not named
    base: str = ""  # another variant than the group's base


@dataclass(frozen=True)
class Work:
    """What runs, under settings that all variants share."""

    case: Case
    figures: tuple[Figure, ...]
    env: dict[str, str] = field(default_factory=dict)
    limit_mib: int = 0  # in a memory cgroup of this size
    only: tuple[str, ...] = ()  # these variants; all if none is named

    def variants_of(self, names: Iterable[str]) -> list[str]:
        return [name for name in names if not self.only or name in self.only]


@dataclass(frozen=True)
class Variant:
    """One setting of Strata, or another allocator; the first of a group is its base."""

    name: str
    env: dict[str, str] = field(default_factory=dict)
    library: Path | None = None  # of a peer; None is Strata
    heap: str = ""  # one of the heaps beside Strata: libstrata-HEAP.so
    args: tuple[str, ...] = ()  # for the program, beside the work's


@dataclass(frozen=True)
class Group:
    name: str
    title: str
    about: str
    variants: tuple[Variant, ...]
    works: tuple[Work, ...]
    rounds: int
    targets: tuple[Target, ...] = ()
    must_finish: tuple[str, ...] = ()  # variants of which no run may fail or be killed
    switched: str = ""  # the variants are values of this setting, switched in one running server
    tables: bool = True  # of ratios to the base, one for each work
    # What else the page says, given the results and a folder for pictures beside the page.
    more: Callable[[Results, Path], list[str]] | None = None
    picture: str = ""  # what img/NAME.png shows
    # What else is measured with the variants found, as lines of the page.
    beside: Callable[[Mapping[str, Allocator]], list[str]] | None = None


RATE = Figure("requests_per_cpu_s", "requests / CPU s", True)
THROUGHPUT = Figure("requests_per_s", "requests / s", True)
RSS = Figure("rss_kib", "RSS", False)
COVERAGE = Figure("coverage", "hugepage coverage", True)
OFF = {"STRATA_SPAN_PRIORITY": "off", "STRATA_LIFETIME_FILLER": "off", "STRATA_ADAPTIVE": "off"}
# So that a swing of seconds is one for the release policy, whose windows are 10 and 30 s.
SHORT = {
    "STRATA_RELEASE_SHORT_MS": "500",
    "STRATA_RELEASE_LONG_MS": "1000",
    "STRATA_RELEASE_PEAK_MS": "1000",
    "STRATA_RELEASE_IDLE_MS": "300",
}


def _redis(keys: str) -> Case:
    return Case("redis", "redis", (keys,), "requests_per_cpu_s", kind=Kind.REDIS, quick=("20000",))


TWENTY_THREADS = ("--readers=2", "--mappers=12", "--reducers=6", "--rest=0")
EXPERIMENTS = Group(
    "experiments",
    "Span priority, lifetime-aware filler, adaptive caches",
    "The base has all three switched off. `words` counts words in a pipeline of twenty threads:"
    " strings and map nodes are made on one and freed on another, and the maps grow to the end."
    " `requests` is a server: clients and workers pass requests and answers to each other, sessions"
    " of all lifetimes lie among them, and the load swings. It runs with release windows of 0.5 and"
    " 1 s, so that its swings are swings to the release policy; its trimmed RSS is what stays after"
    " `malloc_trim` in the valley: the fragmentation that no release can mend.",
    (
        Variant("all off", OFF),
        Variant("span priority", OFF | {"STRATA_SPAN_PRIORITY": "on"}),
        Variant("lifetime filler", OFF | {"STRATA_LIFETIME_FILLER": "on"}),
        Variant("adaptive caches", OFF | {"STRATA_ADAPTIVE": "on"}),
        Variant("all on", dict.fromkeys(OFF, "on")),
    ),
    (
        Work(_redis("150000"), (RATE, RSS, COVERAGE)),
        Work(
            Case(
                "words",
                "pipeline",
                (*TWENTY_THREADS, "--scale=0.2"),
                "per_s",
                quick=(*TWENTY_THREADS, "--quick=1"),
            ),
            (
                Figure("per_s", "words / s", True),
                Figure("hwm_kib", "peak RSS", False),
                COVERAGE,
            ),
        ),
        Work(
            Case("requests", "requests", ("--requests=240000",), "ops_s", quick=("--scale=0.05",)),
            (
                Figure("ops_s", "requests / s", True),
                Figure("p50_us", "median latency", False),
                Figure("p99_us", "99th percentile latency", False),
                Figure("rss_peak_kib", "RSS at the peak", False),
                Figure("rss_valley_kib", "RSS in the valley", False),
                Figure("rss_trimmed_kib", "RSS in the valley, trimmed", False),
                Figure("coverage", "hugepage coverage at the peak", True),
                Figure("coverage_valley", "hugepage coverage in the valley", True),
            ),
            SHORT,
        ),
    ),
    rounds=10,
)

SAMPLING = Group(
    "sampling",
    "Cost of the sampler",
    "One redis-server, whose keys redis-benchmark overwrites all the time with values of 700 B;"
    " `sample` is switched over the control socket between off, its default of 2 MiB, and 256 KiB."
    " A round has one slice of each. What is judged is the throughput; the CPU time is that of"
    " the main thread.",
    (
        Variant("off", {"STRATA_SAMPLE": "0"}),
        Variant("2 MiB", {"STRATA_SAMPLE": "2M"}),
        Variant("256 KiB", {"STRATA_SAMPLE": "256K"}),
    ),
    (
        Work(
            _redis("300000"),
            (THROUGHPUT, RATE),
        ),
    ),
    rounds=300,
    targets=(Target("2 MiB", THROUGHPUT.key, 0.99), Target("256 KiB", THROUGHPUT.key, 0.97)),
    switched="sample",
)

ADAPTIVE = Group(
    "adaptive",
    "Adaptive per-CPU caches under a swinging number of threads",
    "`tides`: phases of 12 s with 1, 8, 2 and 6 threads, each with another mix of sizes.",
    (
        Variant("static", {"STRATA_ADAPTIVE": "off"}),
        Variant("adaptive", {"STRATA_ADAPTIVE": "on"}),
    ),
    (
        Work(
            Case(
                "tides",
                "tides",
                # Room moves every 5 s: a phase has to be longer than one round of that.
                ("--phase=12", "--cycles=1"),
                "mops",
                quick=("--phase=0.5",),
                timeout=300,
            ),
            (
                Figure("mops", "operations / µs", True),
                Figure("rss_mean_kib", "mean RSS", False),
                Figure("rss_peak_kib", "peak RSS", False),
                Figure("cache_mean_kib", "mean bytes in caches", False),
                Figure("cache_peak_kib", "peak bytes in caches", False),
                Figure("misses_per_kop", "misses / 1,000 operations", False),
            ),
        ),
    ),
    rounds=3,  # 48 s a run: five minutes
    targets=(
        Target("adaptive", "rss_mean_kib", 0.98),
        Target("adaptive", "mops", 0.99),
        Target("adaptive", "misses_per_kop", 1.0),
    ),
)

LIMIT_MIB = 256
LIMITS = Group(
    "limits",
    "Under a memory limit",
    f"`container`: live data of 217 MiB, 85 % of a memory cgroup of {LIMIT_MIB} MiB.",
    (
        Variant("strata"),
        Variant("glibc", library=GLIBC),
        Variant("jemalloc", library=GLIBC.parent / "libjemalloc.so.2"),
    ),
    (
        Work(
            Case(
                "container",
                "container",
                ("--live=217", "--rounds=2"),
                "seconds",
                quick=("--rounds=1",),
            ),
            (Figure("seconds", "seconds", False), Figure("peak_rss_kib", "peak RSS", False)),
            limit_mib=LIMIT_MIB,
        ),
    ),
    rounds=20,
    must_finish=("strata",),
)

GROUPS = {group.name: group for group in (EXPERIMENTS, SAMPLING, ADAPTIVE, LIMITS)}


def prepare(group: Group, lib: Path, programs: Path) -> tuple[dict[str, Allocator], dict[str, str]]:
    """The variants that this build and machine have, and a line for each one left out."""
    found: dict[str, Allocator] = {}
    skipped: dict[str, str] = {}
    for variant in group.variants:
        beside = lib.with_name(f"libstrata-{variant.heap}.so") if variant.heap else lib
        library = variant.library or beside
        allocator = Allocator(variant.name, "", library, variant.env)
        if not library.exists():
            skipped[variant.name] = f"{library} is not there"
        elif not loads(library, allocator.environment(), programs / "tight"):
            skipped[variant.name] = f"{library} cannot be preloaded"
        elif complaint := limited.complaint(allocator, programs / "tight"):
            skipped[variant.name] = complaint
        else:
            found[variant.name] = allocator
    return found, skipped


def turns(group: Group, work: Work, names: Iterable[str], number: int, count: int) -> list[str]:
    """The variants that the work runs with in this round."""
    peers = {v.name for v in group.variants if v.library or v.heap}
    most = {is_peer: work.case.rounds_for(count, is_peer=is_peer) for is_peer in (False, True)}
    return [name for name in work.variants_of(names) if number <= most[name in peers]]


def run(
    group: Group,
    allocators: dict[str, Allocator],
    programs: Path,
    rounds: int,
    done: Callable[[Run], None],
    *,
    quick: bool,
) -> Results:
    """All works and variants in each round, the variants in random order."""
    if group.switched:
        (work,) = group.works
        return switched.run(work.case, group.switched, allocators, rounds, done, quick=quick)
    results = Results()
    order = random.Random(SEED)
    for number in range(1, rounds + 1):
        for work in group.works:
            names = turns(group, work, allocators, number, rounds)
            order.shuffle(names)
            for name in names:
                allocator = replace(allocators[name], env=allocators[name].env | work.env)
                (args,) = (v.args for v in group.variants if v.name == name)
                step = (replace(work.case, args=work.case.args + args), allocator, number)
                if work.limit_mib:
                    one = limited.run(step, programs, work.limit_mib, quick=quick)
                else:
                    one = execute.run_step(step, programs, quick)
                results.add(one)
                done(one)
    return results


def ratio(results: Results, work: Work, figure: Figure, variant: str, base: str) -> Interval | None:
    top = results.values(work.case.name, variant, figure.key)
    bottom = results.values(work.case.name, base, figure.key)
    rounds = sorted(top.keys() & bottom.keys())
    if not rounds or any(top[r] <= 0 or bottom[r] <= 0 for r in rounds):
        return None
    return interval([top[r] / bottom[r] for r in rounds], SEED)


def _cell(found: Interval | None, figure: Figure) -> str:
    if found is None:
        return "–"
    if found.rounds < 2:
        return f"{found.ratio:.3f}"
    verdict = judge(found, figure.higher_is_better, MARGIN).verdict
    if verdict in (Verdict.BETTER, Verdict.WORSE):
        return f"**{found}** {verdict.value}"
    return f"{found} {'same' if verdict is Verdict.SAME else 'open'}"


def _against(results: Results, work: Work, figure: Figure, name: str, base: str) -> str:
    """The ratio to the base; where a figure is 0 there is none, and the figure itself stands."""
    found = ratio(results, work, figure, name, base)
    compared = results.values(work.case.name, base, figure.key)
    return (
        _plain(results, work, figure, name) if found is None and compared else _cell(found, figure)
    )


def _plain(results: Results, work: Work, figure: Figure, name: str) -> str:
    value = results.median(work.case.name, name, figure.key)
    if value is None:
        return "–"
    if figure.key.endswith("_kib"):
        return f"{value / 1024:,.1f} MiB"
    if figure.key.startswith("coverage"):
        return f"{value * 100:.1f} %"
    unit = " µs" if figure.key.endswith("_us") else " s" if figure.key.endswith("seconds") else ""
    return f"{value:,.0f}{unit}" if value >= 1000 else f"{value:.4g}{unit}"


def _target_lines(group: Group, results: Results, base: str) -> list[str]:
    """What the project asked for, held against the ratios of the works meant."""
    first = group.works[0]
    lines = []
    for name in group.must_finish:
        runs = results.of(first.case.name, name)
        if runs:
            verdict = "missed" if any(one.error for one in runs) else "met"
            ends = limited.ends(results, first.case.name, name)
            lines.append(f"- {name}: {ends} runs finished, asked for all: {verdict}.")
    for target in group.targets:
        work = next((w for w in group.works if w.case.name == target.work), first)
        figure = next(f for f in work.figures if f.key == target.key)
        under = target.base or base
        found = ratio(results, work, figure, target.variant, under)
        if found is None:
            continue
        who = ", ".join(filter(None, (target.work, target.variant)))
        more = figure.higher_is_better
        held = [(value >= target.bound) == more for value in (found.ratio, found.low, found.high)]
        if found.ratio == target.bound:
            held[0] = True
        verdict = "met" if held[0] else "missed"
        sure = "" if held[1] == held[2] else ", but the interval holds both"
        lines.append(
            f"- {who}: {figure.label} {found} × {under}, asked for"
            f" {'≥' if more else '≤'} {target.bound}: {verdict}{sure}."
        )
    return lines


def page(
    group: Group,
    results: Results,
    skipped: dict[str, str],
    how: str,
    images: Path | None = None,
    beside: Sequence[str] = (),
) -> str:
    """The group's page; its pictures go to `images`. `beside`: what its function gave."""
    names = [v.name for v in group.variants if v.name not in skipped]
    base = names[0] if names else group.variants[0].name
    lines = [f"# {group.title}\n", group.about + "\n", how + "\n"]
    for work in (w for w in group.works if w.figures) if group.tables else ():
        shown = work.variants_of(names[1:])
        lines.append("| " + " | ".join([work.case.name, base, *shown]) + " |")
        lines.append("|---|" + "---:|" * (len(shown) + 1))
        for figure in work.figures:
            cells = [_against(results, work, figure, n, base) for n in shown]
            row = [figure.label, _plain(results, work, figure, base), *cells]
            lines.append("| " + " | ".join(row) + " |")
        if work.limit_mib:
            ends = [limited.ends(results, work.case.name, n) for n in (base, *shown)]
            lines.append("| " + " | ".join(["finished", *ends]) + " |")
        lines.append("")
    if group.more is not None and images is not None:
        lines += group.more(results, images)
    lines += beside
    if group.picture:
        lines.append(f"![{group.title}](img/{group.name}.png)\n\n{group.picture}.\n")
    lines += _target_lines(group, results, base)
    lines += [f"- Left out: {name} ({why})." for name, why in skipped.items()]
    if not group.works[0].limit_mib:
        for failed in results.failures():
            lines.append(
                f"- {failed.case}, {failed.allocator}, round {failed.round}: {failed.error}"
            )
    return "\n".join(lines).rstrip() + "\n"

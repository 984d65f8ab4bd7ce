"""The project's targets, each judged from the runs: met, missed, or not measured this time."""

from __future__ import annotations

from dataclasses import dataclass

from strata_bench.allocators import STRATA, STRATA_KEEPING
from strata_bench.plan import CASES, NO_RELEASING, SPEED, Case
from strata_bench.results import Ratio, Results, geometric_mean

JEMALLOC = "jemalloc"
# They write the two ends of each block only, so that their time is the allocator's. On hugepages
# the rest of a block is resident too, used or not; large-used-* are judged.
MOSTLY_UNTOUCHED = ("large-t1", "large-t2")
MIB = 1024.0


@dataclass(frozen=True)
class Row:
    """One judged target; `met` is None when the runs it needs were left out or failed."""

    work: str
    target: str
    measured: str
    met: bool | None

    @property
    def verdict(self) -> str:
        return "not measured" if self.met is None else "met" if self.met else "missed"


def _missing(work: str, target: str) -> Row:
    return Row(work, target, "–", None)


def better(case: Case, a: float, b: float) -> bool:
    return a > b if case.higher_is_better else a < b


def best_peer(results: Results, case: Case, peers: tuple[str, ...] | None = None) -> str | None:
    """The peer with the best median at this work."""
    best: tuple[str, float] | None = None
    for name in results.allocators(case.name):
        if name in (STRATA, STRATA_KEEPING) or (peers is not None and name not in peers):
            continue
        value = results.median(case.name, name, case.metric)
        if value is not None and (best is None or better(case, value, best[1])):
            best = (name, value)
    return best[0] if best else None


def against_best(results: Results, case: Case) -> tuple[str, Ratio] | None:
    """Strata's paired ratio to the best peer, and that peer's name."""
    peer = best_peer(results, case)
    ratio = results.ratio(case.name, STRATA, peer, case.metric) if peer else None
    return (peer, ratio) if peer and ratio else None


def speed_means(results: Results) -> dict[str, float]:
    """For each peer, the geometric mean over the speed works of Strata's time over its time.

    A peer counts only with a figure for every work, so that all means are over the same set.
    """
    means: dict[str, float] = {}
    for peer in NO_RELEASING:
        ratios = [results.ratio(c.name, STRATA, peer, c.metric) for c in SPEED]
        medians = [r.median for r in ratios if r is not None]
        mean = geometric_mean(medians)
        if mean is not None and len(medians) == len(SPEED):
            means[peer] = mean
    return means


def _speed(results: Results) -> list[Row]:
    work = "malloc+free, one and two threads, large blocks, threadtest, Larson"
    target = "geometric mean of time ≤ the best single peer's"
    means = speed_means(results)
    if means:
        peer = max(means, key=lambda p: means[p])
        first = Row(work, target, f"{means[peer]:.2f}× {peer}", means[peer] <= 1.0)
    else:
        first = _missing(work, target)

    each = "each ≤ 1.5× the fastest peer at it (tight loop 1.8×)"
    worst: tuple[float, str] | None = None
    over: list[str] = []
    for case in SPEED:
        found = against_best(results, case)
        if found is None:
            continue
        peer, ratio = found
        share = ratio.median / case.limit
        text = f"{case.name} {ratio} {peer}"
        if worst is None or share > worst[0]:
            worst = (share, text)
        if share > 1:
            over.append(text)
    if worst is None:
        return [first, _missing(work, each)]
    measured = "; ".join(over) if over else f"closest to its limit: {worst[1]}"
    complete = all(results.allocators(c.name) for c in SPEED)
    return [first, Row(work, each, measured, (not over) if complete or over else None)]


def _case(name: str) -> Case:
    return next(c for c in CASES if c.name == name)


def _producer_consumer(results: Results) -> list[Row]:
    work = "producer/consumer"
    rate = "rate ≥ the best peer's"
    held = "RSS ≤ 24 MiB above live"
    found = against_best(results, _case("prodcons"))
    rows = [
        Row(work, rate, f"{found[1]}× {found[0]}", found[1].median >= 1.0)
        if found
        else _missing(work, rate)
    ]
    second = results.worst("prodcons-long", STRATA, "above_second_kib")
    first = results.worst("prodcons-long", STRATA, "above_first_kib")
    ops = results.median("prodcons-long", STRATA, "ops")
    if first is None or second is None or ops is None:
        return [*rows, _missing(work, held)]
    text = (
        f"at most {first / MIB:.1f} MiB in the first half of {ops:.3g} objects,"
        f" {second / MIB:.1f} MiB in the second"
    )
    return [*rows, Row(work, held, text, max(first, second) <= 24 * MIB)]


def _peak_rss(results: Results) -> list[Row]:
    work = "peak RSS over the whole set"
    mean_target = "geometric mean ≤ jemalloc's"
    each_target = "each ≤ 1.25× jemalloc's"
    ratios: dict[str, float] = {}
    for case in CASES:
        if case.name == "startup":  # its peak is the spawner's, see the start-up row
            continue
        ratio = results.ratio(case.name, STRATA, JEMALLOC, "hwm_kib")
        if ratio is not None:
            ratios[case.name] = ratio.median
    mean = geometric_mean(list(ratios.values()))
    if mean is None:
        return [_missing(work, mean_target), _missing(work, each_target)]
    judged = {n: r for n, r in ratios.items() if n not in MOSTLY_UNTOUCHED}
    over = {n: r for n, r in judged.items() if r > 1.25}
    highest = max(judged or ratios, key=lambda n: ratios[n])
    shown = sorted(over, key=lambda n: -over[n]) or [highest]
    aside = [f"{n} {ratios[n]:.2f}×" for n in MOSTLY_UNTOUCHED if n in ratios]
    note = f" (blocks touched at the ends only, not judged: {'; '.join(aside)})" if aside else ""
    return [
        Row(work, mean_target, f"{mean:.2f}× over {len(ratios)} works", mean <= 1.0),
        Row(work, each_target, "; ".join(f"{n} {ratios[n]:.2f}×" for n in shown) + note, not over),
    ]


def burst_limit_kib(case: str, fields: dict[str, str]) -> float:
    """What may be held after the idle time, from the run's own live bytes and page count."""
    if case == "burst-oldest":
        return 1.15 * float(fields["live_kib"]) + 16 * MIB
    return 2 * float(fields["survivor_pages_kib"])


def _burst(results: Results) -> list[Row]:
    rows: list[Row] = []
    for name, rule in (
        ("burst-oldest", "RSS and cgroup ≤ 1.15× live + 16 MiB after 10 s"),
        ("burst-random", "RSS and cgroup ≤ 2× the pages with a survivor after 10 s"),
    ):
        work = f"burst to 1 GiB, 95 % freed, {'oldest' if 'oldest' in name else 'at random'}"
        runs = [r for r in results.of(name, STRATA) if not r.error]
        if not runs:
            rows.append(_missing(work, rule))
            continue
        held = {r.round: max(r.number("rss_kib") or 0, r.number("physical_kib") or 0) for r in runs}
        worst = max(runs, key=lambda r: held[r.round] / burst_limit_kib(name, r.fields))
        limit = burst_limit_kib(name, worst.fields)
        rss, physical = worst.number("rss_kib") or 0, worst.number("physical_kib") or 0
        text = (
            f"worst round: RSS {rss / MIB:.0f} MiB, {worst.fields['physical']}"
            f" {physical / MIB:.0f} MiB, limit {limit / MIB:.0f} MiB"
        )
        rows.append(Row(work, rule, text, held[worst.round] <= limit))
    return rows


def _swing(results: Results) -> list[Row]:
    work, target = "swing between 200 MiB and 1 GiB", "rate ≥ 0.95× STRATA_RELEASE=off"
    ratio = results.ratio("swing", STRATA, STRATA_KEEPING, "mops")
    if ratio is None:
        return [_missing(work, target)]
    return [Row(work, target, f"{ratio}×", ratio.median >= 0.95)]


def _redis(results: Results) -> list[Row]:
    work = "Redis fill, THP mode madvise"
    cover, peak, rate = "coverage ≥ 90 %", "peak RSS ≤ 1.02× jemalloc's", "rate ≥ 0.97× best peer's"
    rows: list[Row] = []
    coverage = results.values("redis", STRATA, "coverage")
    low = min(coverage.values()) if coverage else None
    rows.append(
        _missing(work, cover)
        if low is None
        else Row(work, cover, f"{low * 100:.1f} % in the worst round", low >= 0.9)
    )
    ratio = results.ratio("redis", STRATA, JEMALLOC, "hwm_kib")
    rows.append(
        Row(work, peak, f"{ratio}×", ratio.median <= 1.02) if ratio else _missing(work, peak)
    )
    found = against_best(results, _case("redis"))
    rows.append(
        Row(work, rate, f"{found[1]}× {found[0]}", found[1].median >= 0.97)
        if found
        else _missing(work, rate)
    )
    return rows


def _chase(results: Results) -> list[Row]:
    work, target = "random access over 1 GiB of 256 B objects", "≥ 1.3× faster than glibc"
    ratio = results.ratio("chase", "glibc", STRATA, "ns")
    if ratio is None:
        return [_missing(work, target)]
    return [Row(work, target, f"{ratio}×", ratio.median >= 1.3)]


def _startup(results: Results) -> list[Row]:
    work, target = "start-up of /bin/true", "within 1 ms and 1.5 MiB RSS of glibc's"
    figures = [
        results.median("startup", name, key)
        for key in ("us", "child_kib")
        for name in (STRATA, "glibc")
    ]
    known = [f for f in figures if f is not None]
    if len(known) != len(figures):
        return [_missing(work, target)]
    slower, larger = known[0] - known[1], known[2] - known[3]
    text = f"{slower / 1000:+.2f} ms, {larger / MIB:+.2f} MiB"
    return [Row(work, target, text, slower <= 1000 and larger <= 1.5 * MIB)]


def judge(results: Results) -> list[Row]:
    return [
        *_speed(results),
        *_producer_consumer(results),
        *_peak_rss(results),
        *_burst(results),
        *_swing(results),
        *_redis(results),
        *_chase(results),
        *_startup(results),
    ]

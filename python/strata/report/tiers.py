"""The sections that come from the statistics: what is resident, and what each tier does with it."""

from __future__ import annotations

import polars as pl

from strata.report import (
    advice,
    advice_hugepages,
    advice_memory,
    advice_objects,
    advice_stacks,
    advice_time,
    charts,
    hugemap,
    samples,
    spans,
)
from strata.report.model import OCCUPANCY_LISTS, Recording, Sample, frame
from strata.report.page import Section
from strata.report.spans import (
    MIN_CAPACITY,
    by_live,
    capacity_rates,
    few_and_many,
    rates_by_live,
    spearman,
    stuck_class,
)
from strata.stats import human

MOST_COUNTED = 256 << 10  # bytes of the largest size class
NO_STATS = "No statistics were recorded, so this figure cannot be drawn."
GET_STATS = "strata report PID -o DIR"
UNSEEN = "The process could not ask the kernel what is in memory: it is under a seccomp filter."
OLD_LIBRARY = "The library in this process does not count this; a newer one does. Restart it on:"
GET_LIBRARY = "strata run -- COMMAND"
# Per cent of all fragmentation, as the study's section 3 says; the two caches share the other 5.
STUDY = {"internal_slack": 15.0, "central_free": 29.0, "page_heap_free": 51.0}


def knows_residency(sample: Sample) -> bool:
    return sample.stats.data.get("resident_known") is not False


def resident_parts(sample: Sample, swing: int = 0) -> advice_memory.Resident:
    """RSS by cause, from one sample."""

    def held(name: str) -> int:
        return sample.stats.whole("bytes", name) or 0

    resident = held("resident")
    other = None if sample.rss is None else max(0, sample.rss - resident)
    return advice_memory.Resident(
        held("live"),
        held("internal_slack"),
        held("caches"),
        held("free_resident"),
        held("metadata"),
        held("untouched"),
        resident,
        other,
        min(held("central_free"), held("free_resident")),
        swing,
    )


def pinned(recording: Recording) -> advice_memory.Pinned:
    """What the samples say of the free memory among live objects."""
    waste = recording.profiles.get("fragmentation")
    tops = waste.top("wasted_space", 1) if waste else []
    site = tops[0].site if tops else ""
    last = recording.last
    unknown = advice_memory.Pinned(
        site=site, by_chance=spans.whole_by_chance(last.stats) if last else None
    )
    if waste is None or last is None or not waste.has("level"):
        return unknown
    rows = waste.rows.filter(pl.col("level") == "page")
    count = samples.pinning(recording, rows)
    if count is None or count < advice.ENOUGH_SAMPLES:
        return unknown
    # What the young keep, and objects in caches, the profile does not say.
    taken = spans.bytes_taken(last.stats)
    old = float(rows["inuse_space"].cast(pl.Float64).sum()) if waste.has("inuse_space") else 0.0
    if old < taken / 2:
        return unknown
    stays = float(rows["wasted_space"].cast(pl.Float64).sum()) * max(1.0, taken / old)
    return advice_memory.Pinned(round(stays), site)


def caches_of(recording: Recording) -> advice_memory.Caches:
    """What decides whether caches should be larger or smaller."""
    sample = recording.last
    if sample is None:
        return advice_memory.Caches()
    vcpus, total = sample.stats.whole("cache", "vcpus"), sample.stats.whole("cache", "limit_bytes")
    hits = recording.gained("cache", "hits") or 0.0
    missed = recording.gained("cache", "misses_alloc") or 0.0
    return advice_memory.Caches(
        # not a vCPU's limit: those differ, as memory goes to the ones that miss
        bound=total // vcpus if total and vcpus and min(total, vcpus) > 0 else None,
        live=sample.stats.whole("bytes", "live") or 0,
        held=sample.stats.whole("bytes", "cpu_cache") or 0,
        rate=missed / (hits + missed) if hits + missed else 0.0,
        speed=missed / recording.seconds if recording.seconds > 0 else None,
    )


def resident_section(recording: Recording) -> Section:
    heading = "What is resident, and why"
    sample = recording.last
    if sample is None:
        return Section("resident", heading, missing=NO_STATS, remedy=GET_STATS)
    if not knows_residency(sample):
        return Section("resident", heading, missing=UNSEEN)
    parts = resident_parts(sample, recording.swing)
    heap = recording.profiles.get("heap")
    tops = heap.top("inuse_space", 1) if heap else []
    causes = [
        ("live", parts.live, "what the program asked for and has not freed"),
        ("slack", parts.slack, "rounding up to size classes and pages"),
        ("caches", parts.caches, "free objects kept at hand"),
        ("free", parts.free, "free objects in spans, free pages"),
        ("metadata", parts.metadata, "the allocator's own tables"),
    ]
    rows = [[name, human(value), meaning] for name, value, meaning in causes]
    rows.append(
        [
            "untouched",
            "-" * (parts.untouched > 0) + human(parts.untouched),
            "in use but never written: not in memory",
        ]
    )
    if parts.other is not None:
        rows.append(["not the heap's", human(parts.other), "code, stacks, files, own mappings"])
    rows.append(["sum", human(parts.rss), "RSS" if parts.other is not None else "the heap's part"])
    drawn: list[tuple[str, int]] = []
    untouched = parts.untouched  # most of it is live: objects asked for and never written
    for name, value, _ in causes:
        drawn.append((name, max(0, value - untouched)))
        untouched = max(0, untouched - value)
    if parts.other is not None:
        drawn.append(("not the heap's", parts.other))
    text = ", ".join(f"{name} {human(value)}" for name, value in drawn)
    return Section(
        "resident",
        heading,
        "The parts add up to RSS. What is untouched is left out of “live” in the picture.",
        advice_memory.headline(
            parts,
            caches_of(recording),
            recording.pid,
            tops[0].site if tops else "",
            pinned(recording),
        ),
        charts.stacked_bar(f"Resident memory by cause: {text}", "resident", drawn),
        ("cause", "bytes", "what it is"),
        rows,
    )


def fragmentation_section(recording: Recording) -> Section:
    heading = "Fragmentation by tier"
    sample = recording.last
    if sample is None:
        return Section("fragmentation", heading, missing=NO_STATS, remedy=GET_STATS)
    found = {name: sample.stats.whole("bytes", name) for name in advice_memory.TIERS}
    tiers = {name: value for name, value in found.items() if value is not None}
    if len(tiers) < len(advice_memory.TIERS):
        return Section("fragmentation", heading, missing=OLD_LIBRARY, remedy=GET_LIBRARY)
    live = sample.stats.whole("bytes", "live") or 0
    wasted = sum(tiers.values())
    rows = [
        (title, 100 * tiers[name] / wasted if wasted else 0.0, STUDY.get(name))
        for name, title in advice_memory.TIERS.items()
    ]
    label = "Wasted bytes by tier: " + ", ".join(f"{row[0]} {row[1]:.0f} %" for row in rows)
    return Section(
        "fragmentation",
        heading,
        "Where the bytes are that are resident but not live: inside objects, in the caches, in "
        "spans, in hugepages (the study's Fig. 5b and 6b, where the two caches share 5 %).",
        advice_memory.fragmentation(
            tiers, live, caches_of(recording), recording.pid, pinned(recording), recording.swing
        ),
        charts.tier_bars("tiers", label, rows, "Fig. 6b", "the wasted bytes"),
        ("tier", "bytes", "of live"),
        [
            [title, human(tiers[name]), advice.share(tiers[name], live)]
            for name, title in advice_memory.TIERS.items()
        ],
    )


def size_rows(recording: Recording) -> tuple[list[tuple[int, float, float]], str]:
    """(size, objects, bytes) of everything allocated, and where that is known from: counted, but
    for large blocks, which no class counts, and for caches of threads, which count no sizes."""
    sampled: list[tuple[int, float, float]] = []
    allocs = recording.profiles.get("allocs")
    if allocs is not None and allocs.has("alloc_objects", "alloc_space", "bytes"):
        columns = allocs.rows.select(
            "bytes", pl.col("alloc_objects", "alloc_space").cast(pl.Float64)
        )
        sums = columns.group_by("bytes").sum().sort("bytes")
        sampled = [row for row in sums.iter_rows() if row[1] > 0 and row[0] > 0]
    if recording.last is None:
        return sampled, "Sampled allocations since the start of the process"
    classes = frame(recording.last.stats, "classes", "size", "hits", "misses_alloc").sort("size")
    counted = [
        (size, float(hits + misses), float(size * (hits + misses)))
        for size, hits, misses in classes.iter_rows()
        if hits + misses > 0 and size > 0
    ]
    if not counted or not classes["hits"].sum():
        return sampled, "Sampled allocations since the start of the process"
    exact = "What each size class has served since the start, counted"
    large = [row for row in sampled if row[0] > MOST_COUNTED]
    if large:
        return counted + large, f"{exact}; blocks above 256 KiB are estimated from samples"
    return counted, f"{exact}: blocks above 256 KiB are in none"


def sizes_section(recording: Recording) -> Section:
    heading = "Sizes, by count and by bytes"
    rows, source = size_rows(recording)
    if not rows:
        return Section("sizes", heading, missing=NO_STATS, remedy=GET_STATS)
    count, held = (sum(row[at] for row in rows) for at in (1, 2))
    curves: tuple[list[float], list[float]] = ([], [])
    for at, whole in ((1, count), (2, held)):
        total = 0.0
        for row in rows:
            total += row[at]
            curves[at - 1].append(total / whole)
    site, heaviest = "", advice_objects.heaviest_size(rows)
    allocs = recording.profiles.get("allocs")
    if allocs is not None and allocs.has("bytes", "alloc_space"):
        tops = allocs.top("alloc_space", 1, allocs.rows.filter(pl.col("bytes") == heaviest))
        site = tops[0].site if tops else ""
    verdict = advice_objects.sizes(rows, site)
    biggest = sorted(rows, key=lambda row: -row[2])[:12]
    return Section(
        "sizes",
        heading,
        f"{source} (the study's Fig. 7).",
        verdict,
        charts.size_curves(verdict.text, [row[0] for row in rows], *curves),
        ("size", "objects", "bytes"),
        [[human(size), f"{n:,.0f}", human(taken)] for size, n, taken in biggest],
    )


def misses_section(recording: Recording) -> Section:
    heading = "Cache misses by vCPU"
    sample = recording.last
    if sample is None:
        return Section("misses", heading, missing=NO_STATS, remedy=GET_STATS)
    columns = ("vcpu", "capacity", "used", "misses_alloc", "misses_free")
    now = frame(sample.stats, "cpu_caches", *columns)
    if now.is_empty():
        per_thread = "thread" in sample.stats.text("cache_mode")
        why = "In per-thread mode there are no vCPU caches." if per_thread else OLD_LIBRARY
        return Section("misses", heading, missing=why, remedy="" if per_thread else GET_LIBRARY)
    before = frame(recording.samples[0].stats, "cpu_caches", *columns)
    start = {row["vcpu"]: row for row in before.iter_rows(named=True)}
    if len(recording.samples) < 2:
        start = {}
    rows = []
    for row in now.sort("vcpu").iter_rows(named=True):
        old = start.get(row["vcpu"], {"misses_alloc": 0, "misses_free": 0})
        gained = [max(0, row[name] - old[name]) for name in ("misses_alloc", "misses_free")]
        rows.append((row["vcpu"], *gained, row["used"], row["capacity"]))
    totals = [row[1] + row[2] for row in rows]
    worst = max(totals) / sum(totals) if sum(totals) else 0.0
    used = sum(1 for total in totals if total)
    caches = caches_of(recording)
    verdict = advice_time.misses(caches, worst, used, recording.pid)
    when = "since the process started"
    if caches.speed is not None:
        when = f"over {recording.seconds:.0f} seconds"
    return Section(
        "misses",
        heading,
        f"Calls that a vCPU's own cache could not serve, {when} (the "
        "study's Fig. 9b); beside it what the cache may hold and does hold.",
        verdict,
        charts.miss_bars(verdict.text, rows),
        ("vCPU", "cache empty", "cache full", "used", "capacity"),
        [[str(r[0]), f"{r[1]:,}", f"{r[2]:,}", human(r[3]), human(r[4])] for r in rows],
    )


LIST_NAMES = ("1", "2-3", "4-7", "8-15", "16-31", "32-63", "64-127", "128+")


def span_sections(recording: Recording) -> list[Section]:
    """Return rates by live allocations and by capacity."""
    live_heading = "Span return rate by live objects"
    capacity_heading = "Span return rate by capacity"
    sample = recording.last
    if sample is None:
        return [
            Section(name, heading, missing=NO_STATS, remedy=GET_STATS)
            for name, heading in (
                ("return-live", live_heading),
                ("return-capacity", capacity_heading),
            )
        ]
    return [
        _by_live_section(recording, sample, live_heading),
        _by_capacity_section(recording, sample, capacity_heading),
    ]


def _by_live_section(recording: Recording, sample: Sample, heading: str) -> Section:
    classes = by_live(sample.stats)
    if classes is None:
        return Section("return-live", heading, missing=OLD_LIBRARY, remedy=GET_LIBRARY)
    seen = [sum(one.seen[at] for one in classes) for at in range(OCCUPANCY_LISTS)]
    returned = [sum(one.returned[at] for one in classes) for at in range(OCCUPANCY_LISTS)]
    before = by_live(recording.samples[0].stats) if recording.seconds > 0 else None
    speed = None
    if before is not None:
        speed = (sum(seen) - sum(sum(one.seen) for one in before)) / recording.seconds
    verdict = advice_stacks.span_by_live(sum(seen), few_and_many(classes), recording.pid, speed)
    rates = rates_by_live(classes)
    picture = charts.rate_bars(verdict.text, LIST_NAMES, rates) if sum(seen) else ""
    return Section(
        "return-live",
        heading,
        "Of the spans that were seen with so many live objects on them, those that were empty and "
        "given back at the next look a second later (the study's Fig. 13): the mean over the sizes "
        f"of which a span holds {MIN_CAPACITY} objects and more, as others never have many.",
        verdict,
        picture,
        ("live objects", "seen", "given back", "mean rate"),
        [
            [name, f"{seen[at]:,}", f"{returned[at]:,}", _rate(rates[at])]
            for at, name in enumerate(LIST_NAMES)
        ],
    )


def _rate(rate: float | None) -> str:
    return "none seen" if rate is None else advice.share(rate, 1)


def _by_capacity_section(recording: Recording, sample: Sample, heading: str) -> Section:
    rows = capacity_rates(sample.stats)
    if rows is None:
        return Section("return-capacity", heading, missing=OLD_LIBRARY, remedy=GET_LIBRARY)
    stuck = stuck_class(sample.stats)
    site = ""
    heap = recording.profiles.get("heap")
    if stuck and heap is not None and heap.has("bytes", "inuse_space"):
        tops = heap.top("inuse_space", 1, heap.rows.filter(heap.rows["bytes"] == stuck[0]))
        site = tops[0].site if tops else ""
    correlation = spearman([(row[1], row[2]) for row in rows])
    verdict = advice_stacks.span_by_capacity(correlation, stuck, site)
    points = [(row[1], row[2], row[3]) for row in rows]
    return Section(
        "return-capacity",
        heading,
        "Each dot is a size class: of the spans it ever took, those it gave back, against how many "
        "objects one holds; larger dots took more spans (the study's Fig. 16).",
        verdict,
        charts.rate_points(verdict.text, points) if points else "",
        ("object size", "objects in a span", "spans taken", "given back"),
        [[human(r[0]), f"{r[1]:,}", f"{r[3]:,}", advice.share(r[2], 1)] for r in rows],
    )


def coverage_section(recording: Recording) -> Section:
    heading = "Hugepage coverage over time"
    sample = recording.last
    if sample is None:
        return Section("coverage", heading, missing=NO_STATS, remedy=GET_STATS)
    if not knows_residency(sample):
        return Section("coverage", heading, missing=UNSEEN)
    points = [
        (
            s.at,
            100 * (s.stats.number("coverage") or 0.0),
            max(0, (s.stats.whole("bytes", "resident") or 0)
            - (s.stats.whole("bytes", "metadata") or 0)),
            s.stats.whole("bytes", "hugepage_backed") or 0,
        )
        for s in recording.samples
        if knows_residency(s)
    ]  # fmt: skip
    times, percents, held, huge = (list(column) for column in zip(*points, strict=True))
    verdict = advice_hugepages.coverage(_backing(recording, sample, int(held[-1])))
    return Section(
        "coverage",
        heading,
        "The share of the resident heap that the kernel backs by hugepages: what the TLB sees.",
        verdict,
        charts.coverage_lines(
            verdict.text, times, percents, [int(v) for v in held], [int(v) for v in huge]
        ),
        ("seconds", "coverage", "resident heap", "on hugepages"),
        [
            [f"{at:.0f}", f"{covered:.1f} %", human(all_), human(some)]
            for at, covered, all_, some in points
        ],
    )


def _backing(recording: Recording, sample: Sample, resident: int) -> advice_hugepages.Backing:
    """What the last sample and the system said about hugepages."""

    def page_heap(name: str) -> int:
        return sample.stats.whole("page_heap", name) or 0

    pages = hugemap.hugepages(sample.stats)
    broken, broken_bytes = hugemap.of_states(pages, hugemap.BROKEN)
    begun, begun_bytes = hugemap.of_states(pages, hugemap.BEGUN_SMALL)
    first = recording.samples[0]
    rebuilt = [s.stats.whole("page_heap", "collapsed_total") or 0 for s in (first, sample)]
    return advice_hugepages.Backing(
        coverage=min(1.0, max(0.0, sample.stats.number("coverage") or 0.0)),
        resident=resident,
        broken=broken,
        broken_bytes=broken_bytes,
        broken_begun=hugemap.of_states(pages, hugemap.BOTH)[0],
        begun=begun,
        begun_bytes=begun_bytes,
        thp=sample.stats.text("thp_mode"),
        switched_off=recording.meta.text("hugepages_option") in ("off", "0"),
        forbidden=recording.meta.data.get("thp_allowed") is False,
        first_touch_ms=(page_heap("first_touch_ns") / 1e6 if page_heap("cold_frames") else 0.0),
        thin=bool(page_heap("thin_use")),
        before=first.stats.number("coverage") if rebuilt[1] > rebuilt[0] else None,
    )


def map_section(recording: Recording) -> Section:
    heading = "Hugepages by occupancy and age"
    sample = recording.last
    pages = hugemap.hugepages(sample.stats) if sample else []
    shown = [page for page in pages if page.in_memory]
    if sample is not None and not knows_residency(sample):
        return Section("map", heading, missing=UNSEEN)
    if not shown:
        why = NO_STATS if sample is None else "No hugepage of the heap is in memory."
        return Section("map", heading, missing=why, remedy=GET_STATS if sample is None else "")
    waste = recording.profiles.get("fragmentation")
    tops = []
    if waste is not None and waste.has("level", "wasted_space"):
        tops = waste.top("wasted_space", 1, waste.rows.filter(pl.col("level") == "hugepage"))
    site = tops[0].site if tops else ""
    verdict = advice_hugepages.hugepages(
        hugemap.summary(pages), site, recording.pid, recording.swing
    )
    label = f"Map of {len(shown)} hugepages by the share of their pages in use. {verdict.text}"
    counts = hugemap.by_age(pages)
    if counts is None:
        ages = '<p class="missing">How old each is: not counted by the library in this process.</p>'
    else:
        ages = hugemap.age_table(counts)
    return Section(
        "map",
        heading,
        f"{len(shown):,} hugepages of 2 MiB in the order of their addresses; below, of those in "
        "use, how many are how full and for how long.",
        verdict,
        hugemap.grid(pages, label) + ages,
    )

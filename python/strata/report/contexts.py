"""The sections that come from profiles: how long objects live, and which call stacks hold, waste
and churn memory."""

from __future__ import annotations

import polars as pl

from strata.report import advice, advice_objects, advice_stacks, charts, lifetimes
from strata.report.model import Recording
from strata.report.page import Section, stack_list
from strata.report.profiles import Profile, Top
from strata.report.samples import (
    count_of,
    error_of,
    from_samples,
    pinning,
    pinning_error,
    samples_behind,
    trust,
)
from strata.report.tiers import resident_parts
from strata.stats import human

TOP = 8
FEW_CALLS = 1000  # a second
MUCH = 8 << 20  # bytes: more between live objects, or at the peak, is worth knowing whose


def missing(recording: Recording, kind: str, name: str, heading: str) -> Section:
    """A section that says why its profile is not there and how to get it."""
    why = recording.missing.get(kind, "there is no such profile")
    if "sampl" in why.lower() or recording.meta.whole("sample_interval") == 0:
        return Section(
            name,
            heading,
            missing="Sampling is off in this process. Switch it on, let it run, report again:",
            remedy=f"strata set {recording.pid} sample=2M",
        )
    return Section(
        name,
        heading,
        missing=f"There is no {kind} profile: {why}. Take one from the running process:",
        remedy=f"strata report {recording.pid} -o DIR",
    )


def empty(kind: str, name: str, heading: str, pid: str) -> Section:
    """A section whose profile holds no sample."""
    return Section(
        name,
        heading,
        missing=f"The {kind} profile is empty: too little was allocated for the sampler to see. "
        "Run for longer, or sample more often:",
        remedy=f"strata set {pid} sample=64K",
    )


def short_lived_site(profile: Profile) -> str:
    """The call site with the most objects that died within a millisecond."""
    counts = [lifetimes.spread(row)[0] for row in profile.rows.iter_rows(named=True)]
    rows = profile.rows.with_columns(pl.Series("short", counts).round().cast(pl.Int64))
    tops = profile.top("short", 1, rows)
    return tops[0].site if tops else "many places"


def lifetime_section(recording: Recording) -> Section:
    name, heading = "lifetimes", "Lifetime by size"
    profile = recording.profiles.get("lifetime")
    if profile is None:
        return missing(recording, "lifetime", name, heading)
    if not profile.has("objects", "still_live", "bytes", *lifetimes.COLUMNS):
        return empty("lifetime", name, heading, recording.pid)
    table = lifetimes.by_size(profile.rows)
    total = sum(map(sum, table))
    if not total:
        return empty("lifetime", name, heading, recording.pid)
    short = sum(row[0] for row in table) / total
    live = sum(row[-1] for row in table) / total
    frees = max(1, profile.total("objects"))
    other = None
    if profile.has("freed_by_other_thread"):
        weighted = profile.rows["freed_by_other_thread"] * profile.rows["objects"]
        other = float(weighted.sum()) / frees
    site = short_lived_site(profile)
    lived = pl.col("objects").cast(pl.Float64) + pl.col("still_live")
    rows = profile.rows.with_columns(lived.alias("lived"), (lived * pl.col("bytes")).alias("held"))
    count = count_of(recording, rows, "held", "lived")
    verdict = advice_objects.lifetimes(short, live, other, site, count, recording.pid)
    filled = [at for at, row in enumerate(table) if sum(row)]
    shares = [[count / sum(table[at]) for count in table[at]] for at in filled]
    names = [lifetimes.SIZE_NAMES[at] for at in filled]
    return Section(
        name,
        heading,
        "For each range of sizes, how long the sampled objects lived (the study's Fig. 8). Between "
        "the quantiles that the profile keeps, lifetimes are interpolated.",
        verdict,
        charts.lifetime_bars(verdict.text, names, lifetimes.NAMES, shares),
        ("size", *lifetimes.NAMES),
        [
            [label, *(advice.share(value, 1) for value in row)]
            for label, row in zip(names, shares, strict=True)
        ],
    )


def kept_share(profile: Profile, top: Top) -> float | None:
    """Of the bytes that a function ever allocated, the share that is alive; None if unknown."""
    if not profile.has("alloc_space", "inuse_space"):
        return None
    ours = profile.of_site(top.site)  # not top.stacks: what came by others may be freed
    ever, now = (
        float(ours[name].cast(pl.Float64).sum()) for name in ("alloc_space", "inuse_space")
    )
    return min(1.0, now / ever) if ever else None


def heaviest(
    recording: Recording, kind: str, value: str, name: str, heading: str
) -> tuple[Profile, list[Top]] | Section:
    """A profile and its heaviest functions, or the section that says why there are none."""
    profile = recording.profiles.get(kind)
    if profile is None:
        return missing(recording, kind, name, heading)
    tops = profile.top(value, TOP)
    return (profile, tops) if tops else empty(kind, name, heading, recording.pid)


def live_section(recording: Recording) -> Section:
    name, heading = "live-stacks", "Who holds memory"
    found = heaviest(recording, "heap", "inuse_space", name, heading)
    if isinstance(found, Section):
        return found
    profile, tops = found
    first = tops[0]
    leaked = kept_share(profile, first)
    ours = profile.of_stacks([stack for stack, _ in first.stacks])
    return Section(
        name,
        heading,
        "Functions by the bytes they allocated that are alive now, estimated"
        f"{samples_behind(recording, profile, 'inuse_space', 'inuse_objects')}.",
        advice_stacks.live_stacks(
            first.site,
            first.share,
            first.value,
            leaked,
            trust(recording, ours, "inuse_space", "inuse_objects"),
            recording.pid,
            resident_parts(recording.last) if recording.last is not None else None,
        ),
        stack_list(
            tops,
            [
                f"{human(top.value)}"
                f"{error_of(recording, profile, top, 'inuse_space', 'inuse_objects')}, "
                f"{advice.share(top.share, 1)} of live"
                for top in tops
            ],
        ),
    )


def between_bytes(recording: Recording) -> int:
    return resident_parts(recording.last).between if recording.last is not None else 0


def waste_section(recording: Recording) -> Section:
    name, heading = "waste-stacks", "Who wastes memory"
    found = heaviest(recording, "fragmentation", "wasted_space", name, heading)
    if isinstance(found, Section) and "fragmentation" in recording.profiles:
        return Section(
            name,
            heading,
            "Functions whose long-lived objects keep otherwise free pages from going back.",
            advice_stacks.waste_unexplained(0, between_bytes(recording))
            if between_bytes(recording) > MUCH
            else advice.fine("No sampled object keeps a mostly free page or hugepage."),
        )
    if isinstance(found, Section):
        return found
    profile, tops = found
    first = tops[0]
    pinned = False

    def rows_of(top: Top) -> pl.DataFrame:
        return profile.of_stacks([stack for stack, _ in top.stacks])

    if profile.has("level"):
        levels = rows_of(first).group_by("level").agg(pl.col("wasted_space").sum())
        most = levels.sort("wasted_space", descending=True)["level"][0]
        pinned = most == "hugepage"
    known, free = profile.total("wasted_space"), between_bytes(recording)
    count = pinning(recording, profile.rows)
    few = (pinning(recording, rows_of(first)) or 0) < advice_stacks.FEW_SAMPLES
    verdict = (
        advice_stacks.waste_unexplained(0 if few else known, max(free, known))
        if free > MUCH
        and (few or (known < free / 2 and (count is None or count < advice.ENOUGH_SAMPLES)))
        else advice_stacks.waste_stacks(first.site, first.share, first.value, pinned, recording.pid)
    )
    return Section(
        name,
        heading,
        "Functions whose long-lived objects keep otherwise free pages from going back: the free "
        "bytes around them are charged to them, estimated"
        f"{from_samples(count)}.",
        verdict,
        stack_list(
            tops,
            [
                f"{human(top.value)}{pinning_error(recording, rows_of(top))}, "
                f"{advice.share(top.share, 1)} of waste"
                for top in tops
            ],
        ),
    )


def is_at_rest(recording: Recording) -> bool:
    """Whether next to nothing was allocated while the process was watched, as it counts itself."""
    gained = [recording.gained("cache", name) for name in ("hits", "misses_alloc")]
    if len(recording.samples) < 2 or None in gained:
        return False
    return sum(count or 0.0 for count in gained) < FEW_CALLS * recording.seconds


def churn_section(recording: Recording) -> Section:
    name, heading = "churn-stacks", "Who allocates most"
    watched = recording.profiles.get("churn")
    kind = "churn" if watched is not None and watched.total("alloc_space") else "allocs"
    found = heaviest(recording, kind, "alloc_space", name, heading)
    if isinstance(found, Section):
        return found
    profile, tops = found
    seconds = profile.seconds
    first = tops[0]
    kept = kept_share(recording.profiles.get("heap", profile), first)
    rate = first.value / seconds if seconds else None
    if watched is not None and watched is not profile and is_at_rest(recording):
        rate = 0.0
    ours = profile.of_stacks([stack for stack, _ in first.stacks])
    trusted = trust(recording, ours, "alloc_space", "alloc_objects")

    def amount(top: Top) -> str:
        speed = f", {human(top.value / seconds)} a second" if seconds else ""
        off = error_of(recording, profile, top, "alloc_space", "alloc_objects")
        return f"{human(top.value)}{off}{speed}, {advice.share(top.share, 1)} of all"

    when = f"in {seconds:.0f} seconds" if profile.kind == "churn" else "since the process started"
    return Section(
        name,
        heading,
        f"Functions by the bytes they allocated {when}, estimated"
        f"{samples_behind(recording, profile, 'alloc_space', 'alloc_objects')}.",
        advice_stacks.churn_stacks(first.site, first.share, rate, kept or 0.0, trusted),
        stack_list(tops, [amount(top) for top in tops]),
    )


def peak_section(recording: Recording) -> Section | None:
    """What was live at the peak, if that was much more than now."""
    peak, heap = recording.profiles.get("peak"), recording.profiles.get("heap")
    if peak is None or heap is None:
        return None
    then, now = peak.total("inuse_space"), heap.total("inuse_space")
    tops = peak.top("inuse_space", TOP)
    if not tops or then < max(1.25 * now, now + MUCH):
        return None
    count = count_of(recording, peak.rows, "inuse_space", "inuse_objects")
    first = peak.of_stacks([stack for stack, _ in tops[0].stacks])
    trusted = trust(recording, first, "inuse_space", "inuse_objects")
    return Section(
        "peak-stacks",
        "What made the peak",
        f"At its peak {human(then)} were live, now it is {human(now)}, estimated"
        f"{from_samples(count)}.",
        advice_stacks.peak_stacks(tops[0].site, tops[0].share, trusted),
        stack_list(tops, [f"{human(t.value)}, {advice.share(t.share, 1)}" for t in tops]),
    )

"""How many samples stand behind an estimate of a profile, and how far it can be off for that."""

from __future__ import annotations

import polars as pl

from strata.pprof import sample_count
from strata.report.model import Recording
from strata.report.page import plural
from strata.report.profiles import Profile, Top


def sampled(recording: Recording, space: float, objects: float) -> float | None:
    """About how many samples stand behind so many objects of so many bytes. None if the interval
    is not known."""
    interval = recording.meta.whole("sample_interval")
    if interval is None and recording.last is not None:
        interval = recording.last.stats.whole("sampler", "interval")
    return sample_count(interval or 0, space, objects) or None


def count_of(recording: Recording, rows: pl.DataFrame, space: str, objects: str) -> float | None:
    """How many samples stand behind rows of a profile, as it says itself; one of an older library
    does not, and threads that allocate much may have taken fewer than this makes of it."""
    if "samples" in rows.columns:
        return float(rows["samples"].sum()) or None
    sums = [
        float(rows[name].cast(pl.Float64).sum()) if name in rows.columns else 0.0
        for name in (space, objects)
    ]
    return sampled(recording, *sums)


def samples_behind(recording: Recording, profile: Profile, space: str, objects: str) -> str:
    """How far the estimates of a profile can be trusted."""
    return from_samples(count_of(recording, profile.rows, space, objects))


def from_samples(count: float | None) -> str:
    return "" if count is None else f", from about {plural(max(1, round(count)), 'sample')}"


def trust(recording: Recording, rows: pl.DataFrame, space: str, objects: str) -> float | None:
    """As how many samples of one weight the rows can be trusted. A block that is larger than the
    interval stands for itself and adds no error. None: they are exact, or nobody knows. Of rows
    without samples, as of what was taken before a window, nobody says how good they are."""
    if not {"samples", space, objects} <= set(rows.columns):
        return count_of(recording, rows, space, objects)
    every = rows.select(space, objects, "samples").cast(pl.Float64)
    found = every.filter((pl.col("samples") > 0) & (pl.col(objects) > 0))
    whole = float(found[space].sum())
    if 2 * whole < float(every[space].sum()):
        return 1.0
    guessed = 1 - (found["samples"] / found[objects]).clip(0, 1)
    off = float((found[space] ** 2 / found["samples"] * guessed).sum())
    return whole * whole / off if off > 1e-4 * whole * whole else None


def error_of(recording: Recording, profile: Profile, top: Top, space: str, objects: str) -> str:
    """How far one function's sum can be off: the standard error of its samples."""
    ours = profile.of_stacks([stack for stack, _ in top.stacks])
    count = count_of(recording, ours, space, objects)
    return with_error(count, trust(recording, ours, space, objects))


def with_error(count: float | None, trusted: float | None) -> str:
    if count is None:
        return ""
    if count < 1.5:
        return " (one sample)"
    of = f"{round(count):,} samples"
    return f" ({of})" if trusted is None else f" (± {100 / trusted**0.5:.0f} %, {of})"


def pinning(recording: Recording, rows: pl.DataFrame) -> float | None:
    """About how many samples keep otherwise free pages: a row's objects are of a size."""
    if "samples" in rows.columns:
        return float(rows["samples"].sum()) or None
    if not {"inuse_space", "bytes"} <= set(rows.columns):
        return None
    counts = (
        sampled(recording, space, space / size) or 0.0
        for space, size in rows.select("inuse_space", "bytes").cast(pl.Float64).iter_rows()
        if size
    )
    return sum(counts) or None


def pinning_error(recording: Recording, rows: pl.DataFrame) -> str:
    count = pinning(recording, rows)
    return with_error(count, count)

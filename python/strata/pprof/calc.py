"""Sums, differences and parts of profiles.

Two runs of a program load its code at different addresses, so places are compared by build id (or
file) and the place in the file; places with names, by names as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from strata.errors import StrataError
from strata.pprof.model import Label, Line, Location, Profile, Sample, ValueType

PlaceKey = tuple[str, int, tuple[Line, ...]]
SignedRow = tuple[int, tuple[int, ...]]


def place_key(location: Location) -> PlaceKey:
    mapping = location.mapping
    module = "" if mapping is None else mapping.build_id or mapping.file
    return module, location.file_address, location.lines


def merge(profiles: list[Profile]) -> Profile:
    """One profile of all: those of several processes or moments. Counts and bytes are added;
    of lifetimes and shares, which do not add up, the mean by objects is near the truth."""
    return combine([(1, profile) for profile in profiles])


def subtract(new: Profile, old: Profile) -> Profile:
    """What changed from old to new. Samples that did not change are left out."""
    return combine([(1, new), (-1, old)])


def is_extra(value: ValueType) -> bool:
    """Whether it is a count that older libraries did not write."""
    return value.unit == "count" and (value.type == "samples" or value.type.startswith("died_"))


def alike(profiles: Sequence[Profile]) -> list[Profile]:
    """The profiles, without the counts that not all of them have."""
    if all(profile.types == profiles[0].types for profile in profiles):
        return list(profiles)
    common = set.intersection(*(set(profile.types) for profile in profiles))
    last = [value for value in profiles[0].types if is_extra(value) and value in common]
    return [with_last(profile, last) for profile in profiles]


def with_last(profile: Profile, last: list[ValueType]) -> Profile:
    """The profile with these counts only, behind its other values."""
    types = [*(value for value in profile.types if not is_extra(value)), *last]
    places = [profile.types.index(value) for value in types]
    samples = [replace(s, values=tuple(s.values[at] for at in places)) for s in profile.samples]
    return replace(profile, types=types, samples=samples)


def combine(parts: list[tuple[int, Profile]]) -> Profile:
    parts = list(zip([sign for sign, _ in parts], alike([one for _, one in parts]), strict=True))
    first = parts[0][1]
    for _, profile in parts:
        if profile.types != first.types:
            raise StrataError(
                "profiles of different kinds: one has "
                f"{names(first.types)}, another {names(profile.types)}"
            )
    places: dict[PlaceKey, Location] = {}
    rows: dict[tuple[tuple[PlaceKey, ...], tuple[Label, ...]], list[SignedRow]] = {}
    keys: dict[int, PlaceKey] = {}  # by id(): each location is hashed once
    for sign, profile in parts:
        for sample in profile.samples:
            stack = []
            for location in sample.stack:
                key = keys.get(id(location))
                if key is None:
                    key = keys[id(location)] = place_key(location)
                    places.setdefault(key, location)
                stack.append(key)
            rows.setdefault((tuple(stack), sample.labels), []).append((sign, sample.values))
    samples = []
    for (places_of, labels), found in rows.items():
        values = tuple(fold(first.types, index, found) for index in range(len(first.types)))
        if any(values):
            samples.append(Sample(tuple(places[key] for key in places_of), values, labels))
    return replace(
        first,
        samples=samples,
        mappings=list(dict.fromkeys(m for _, profile in parts for m in profile.mappings)),
        duration_ns=sum(profile.duration_ns for _, profile in parts),
        comments=list(dict.fromkeys(c for _, profile in parts for c in profile.comments)),
    )


def fold(types: list[ValueType], index: int, rows: list[SignedRow]) -> int:
    """One value of several rows of a context. In a difference every value is a difference."""
    rule = types[index].rule
    if rule == "sum" or len(rows) == 1 or any(sign < 0 for sign, _ in rows):
        return sum(sign * values[index] for sign, values in rows)
    weights = [max(0, values[0]) for _, values in rows]
    counted = [values[index] for (_, values), weight in zip(rows, weights, strict=True) if weight]
    if not counted:
        return 0
    if rule != "mean":
        return min(counted) if rule == "min" else max(counted)
    whole = sum(weight * values[index] for (_, values), weight in zip(rows, weights, strict=True))
    return round(whole / sum(weights))


def names(types: Iterable[ValueType]) -> str:
    return ", ".join(value.type for value in types)


def filter_profile(
    profile: Profile,
    *,
    focus: str | None = None,
    ignore: str | None = None,
    hide: str | None = None,
) -> Profile:
    """The samples whose stack has a frame that `focus` finds and none that `ignore` finds, without
    the frames that `hide` finds: what they hold is then their callers' own."""
    wanted, unwanted = pattern("--focus", focus), pattern("--ignore", ignore)
    samples = []
    for sample in profile.samples:
        stack = sample.names()
        if wanted is not None and not any(wanted.search(name) for name in stack):
            continue
        if unwanted is not None and any(unwanted.search(name) for name in stack):
            continue
        samples.append(sample)
    hidden = pattern("--hide", hide)
    if hidden is not None:
        left: dict[Location, Location | None] = {}
        for place in {place for sample in samples for place in sample.stack}:
            left[place] = without(place, hidden)
        samples = [
            replace(sample, stack=tuple(kept for place in sample.stack if (kept := left[place])))
            for sample in samples
        ]
    return replace(profile, samples=samples)


def without(place: Location, hidden: re.Pattern[str]) -> Location | None:
    """The place without its hidden functions; None if nothing is left of it."""
    if not place.lines:
        return None if any(hidden.search(name) for name in place.names()) else place
    lines = tuple(line for line in place.lines if not hidden.search(line.function))
    return replace(place, lines=lines) if lines else None


def pattern(option: str, text: str | None) -> re.Pattern[str] | None:
    try:
        return re.compile(text) if text else None
    except re.error as error:
        raise StrataError(f"{option} {text!r}: not a regular expression: {error}") from error


def sample_count(interval: float, space: float, objects: float) -> float:
    """About how many samples stand behind so many objects of so many bytes: the sampler takes one
    for each interval of bytes, and larger objects each."""
    if interval <= 0 or objects <= 0:
        return 0.0
    return space / max(interval, space / objects)


def with_sample_counts(profile: Profile, index: int) -> Profile | None:
    """The profile with, as its only value, the thousandths of samples that stand behind the values
    at `index`. None where they are no estimate, or nothing tells of how many samples."""
    kind = profile.types[index].type
    known = [value.type for value in profile.types]
    if "samples" in known and kind.split("_")[0] == profile.default_type.split("_")[0]:
        at = known.index("samples")
        return as_sample_counts(profile, [float(sample.values[at]) for sample in profile.samples])
    if kind == "wasted_space":
        return with_counts_beside_waste(profile)
    words = ("space", "objects")
    pair = [kind.replace(other, word) for word in words for other in words if other in kind]
    if profile.period <= 0 or profile.period_type is None or profile.period_type.type != "space":
        return None
    if len(pair) != len(words) or not set(pair) <= set(known):
        return None
    space, objects = (known.index(name) for name in pair)
    return as_sample_counts(
        profile,
        [
            sample_count(profile.period, sample.values[space], sample.values[objects])
            for sample in profile.samples
        ],
    )


def with_counts_beside_waste(profile: Profile) -> Profile | None:
    """The same for free bytes, which lie beside live objects of a size, the label `bytes`."""
    known = [value.type for value in profile.types]
    if profile.period <= 0 or "inuse_space" not in known:
        return None
    space = known.index("inuse_space")
    counts = []
    for sample in profile.samples:
        size = sample.label("bytes")
        if not isinstance(size, int) or size <= 0:
            return None
        live = sample.values[space]
        counts.append(sample_count(profile.period, live, live / size))
    return as_sample_counts(profile, counts)


def as_sample_counts(profile: Profile, counts: Sequence[float]) -> Profile:
    return replace(
        profile,
        types=[ValueType("samples", "thousandths")],
        default_type="samples",
        samples=[
            replace(sample, values=(round(1000 * count),))
            for sample, count in zip(profile.samples, counts, strict=True)
        ],
    )

"""Puts a report together: all sections in order, and the page around them."""

from __future__ import annotations

from strata import __version__
from strata.report import contexts, cpu_time, hotness, prediction_sections, price, tiers
from strata.report.collect import PAGE_SAYS
from strata.report.model import PLACEHOLDER, Recording
from strata.report.page import Section, plural, render
from strata.stats import human


def sections(recording: Recording) -> list[Section]:
    """Every section, first what is resident, last who allocates."""
    found = [
        tiers.resident_section(recording),
        contexts.live_section(recording),
        contexts.waste_section(recording),
        contexts.churn_section(recording),
        contexts.peak_section(recording),
        tiers.fragmentation_section(recording),
        cpu_time.section(recording),
        tiers.map_section(recording),
        tiers.coverage_section(recording),
        tiers.sizes_section(recording),
        contexts.lifetime_section(recording),
        *prediction_sections.sections(recording),
        hotness.section(recording),
        price.section(recording),
        tiers.misses_section(recording),
        *tiers.span_sections(recording),
    ]
    return [section for section in found if section is not None]


def title(recording: Recording) -> str:
    told = (profile.process for profile in recording.profiles.values() if profile.process)
    return f"Memory of {recording.meta.text('name') or next(told, 'a process')}"


def page(recording: Recording, found: list[Section]) -> str:
    """index.html."""
    meta, last = recording.meta, recording.last
    lead = [f"Process {recording.number or PLACEHOLDER}"]
    if meta.text("command"):
        lead.append(meta.text("command"))
    if last is not None:
        resident = last.rss or last.stats.whole("bytes", "resident") or 0
        live = last.stats.whole("bytes", "live") or 0
        lead.append(f"{human(resident)} resident, {human(live)} live")
    if meta.text("taken"):
        lead.append(meta.text("taken"))
    return render(title(recording), " · ".join(lead), found, notes(recording))


def not_here(recording: Recording) -> str:
    return (
        f"Process {recording.number} does not run on Strata here: in the commands, put "
        f"another run's number for {PLACEHOLDER}."
    )


def notes(recording: Recording) -> list[str]:
    """What was gathered and how, for the foot of the page."""
    last = recording.last
    lines = [] if recording.runs else [not_here(recording)]
    if last is not None:
        library = last.stats.text("strata")
        lines.append(
            f"{plural(len(recording.samples), 'sample')} of the statistics over "
            f"{plural(round(recording.seconds), 'second')}, from Strata {library}, caches "
            f"{last.stats.text('cache_mode')}, THP mode {last.stats.text('thp_mode')}. "
            "Rates are over this time or, where only totals are kept, since the process started."
        )
    interval = recording.meta.whole("sample_interval")
    if last is not None and interval is None:
        interval = last.stats.whole("sampler", "interval")
    if recording.profiles:
        every = f" of one object every {human(interval)} allocated" if interval else ""
        lines.append(
            f"Profiles ({', '.join(recording.profiles)}) are estimates from samples{every}: sites "
            "with few samples are uncertain."
        )
    lines.append(
        "The study is “Characterizing a Memory Allocator at Warehouse Scale”, ASPLOS 2024. "
        f"{PAGE_SAYS} {__version__}; the data lies beside this page, and `strata "
        "report` on the folder draws it anew."
    )
    return lines

"""The section on CPU time: how much of the process's the allocator takes, and which of its tiers
(the study's Fig. 5a and 6a). From a profile by the kernel's clock (cpu_profile.py), so it is
measured, not estimated from counters.
"""

from __future__ import annotations

import re
from collections import Counter

from strata.pprof.sites import Stack
from strata.report import advice, advice_time, charts
from strata.report.advice_time import CENTRAL, FRONT, OTHER, PAGES, SAMPLING, TRANSFER
from strata.report.cpu_profile import LIBRARY
from strata.report.model import CPU, Recording
from strata.report.page import Section, plural
from strata.report.tiers import caches_of

# Per cent of the fleet's allocator cycles (Fig. 6a, of which the text gives these). The 16 of
# prefetching are with the fast path, which does it.
STUDY = {FRONT: 53.0 + 16.0, TRANSFER: 3.0, CENTRAL: 12.0, PAGES: 3.0, SAMPLING: None, OTHER: None}

# Which tier a function belongs to, by how its name begins after `strata::`. What is not here is
# shared (locks, units) and belongs to whoever called it.
NAMES = {
    TRANSFER: "TransferCache|DomainTransferCache|RunningCpu",
    CENTRAL: "CentralFreeList|CentralLists|Span(?!Source)",
    PAGES: "PageHeap|Huge|PageBitmap|TrackerLists|DemandTracker|CollapsePacer|StrataHeap|"
    "SpanSource|LargeTier|ReleaseSchedule|ReleaseSteps|"
    r"SystemKernel(?!::(?:base|mapped_end)\b)",  # not what free asks of it
    SAMPLING: r"Sampl|TakeSample|CountBytes|Walk|Unwind|StackReader|Context|Lifetime|OwnMemory|"
    r"Add\w*Rows|Pprof|ProtoBytes|FrameRegisters|FollowsCall|IsReadable|KeepUnwindTables|"
    r"RefreshUnwindTables|EhFrame|CfaState|Dwarf|PinnedAt|FreeBackedIn",
    FRONT: "FrontEnd|CpuCache|Rseq|Slab|TrySmall|ClassOf|ThreadCache|Allocate|Free|Realloc|Resize|"
    "CacheOfThisThread|SizeClass|PageMap|UsableSize|EnsureStarted|CurrentState",
    OTHER: "Background|Control|Stats|Collect|Limits|Cgroup|Text|Message",
}
BEGINS = r"(?:[\w ]+ )?strata::(?:\(anonymous namespace\)::|\w+_internal::)*"
TIERS = [(re.compile(f"{BEGINS}(?:{names})"), tier) for tier, names in NAMES.items()]
ENTRY = re.compile(
    r"(?:_*(?:libc_)?(?:malloc|calloc|realloc|free|cfree|memalign|posix_memalign|aligned_alloc"
    r"|reallocarray|free_sized|free_aligned_sized|malloc_usable_size|valloc|pvalloc)"
    r"|operator (?:new|delete).*)$"
)


def tier_of(stack: Stack) -> str:
    """Of one place in the library: its functions, innermost first, where some were inlined."""
    for name in stack:
        for pattern, tier in TIERS:
            if pattern.match(name):
                return tier
    return FRONT if any(ENTRY.match(name) for name in stack) else OTHER


def again(recording: Recording) -> str:
    return f"strata report {recording.pid} -o DIR"


def section(recording: Recording) -> Section:
    name, heading = "cpu-time", "CPU time by tier"
    profile = recording.profiles.get(CPU)
    if profile is None or not profile.has("samples", "file"):
        why = recording.missing.get(CPU)
        if why is None:
            idle = "The process used no CPU time while it was watched. Report again under load:"
            return Section(name, heading, missing=idle, remedy=again(recording))
        return Section(
            name,
            heading,
            missing=f"No profile of CPU time was taken: {why}. It takes Linux perf, used by the "
            "owner of the process where kernel.perf_event_paranoid is at most 2, else by root:",
            remedy=f"sudo apt-get install linux-perf; {again(recording)}",
        )
    ticks: Counter[str] = Counter(dict.fromkeys(STUDY, 0))
    whole = 0
    for at, count, file in profile.rows.select("stack", "samples", "file").iter_rows():
        whole += count
        if file == LIBRARY:
            ticks[tier_of(profile.stacks[at])] += count
    ours = sum(ticks.values())
    allocs = recording.profiles.get("allocs")
    tops = allocs.top("alloc_objects", 1) if allocs else []
    verdict = advice_time.cpu_time(
        ticks, whole, caches_of(recording), recording.pid, tops[0].site if tops else ""
    )
    rows = [
        (tier, 100 * count / ours if ours else 0.0, STUDY[tier]) for tier, count in ticks.items()
    ]
    return Section(
        name,
        heading,
        "Where the allocator's CPU time goes (the study's Fig. 5a and 6a), from "
        f"{plural(whole, 'sample')} of the kernel's CPU clock over {profile.seconds:.0f} seconds, "
        f"{ours:,} of them in the allocator. The fast path counts as per-CPU caches. Time "
        "in the kernel (page faults, giving memory back) is not in it.",
        verdict,
        charts.tier_bars("cpu", verdict.text, rows, "Fig. 6a", "the allocator's CPU time")
        if ours >= advice_time.ENOUGH_TICKS
        else "",
        ("tier", "samples", "of the allocator", "of the process"),
        [
            [tier, f"{count:,}", advice.share(count, ours), advice.share(count, whole)]
            for tier, count in [*ticks.items(), ("all of the allocator", ours)]
        ],
    )

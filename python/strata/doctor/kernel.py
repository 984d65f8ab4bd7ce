"""Rules about the machine's memory settings: hugepages, overcommit, mappings, swap, pressure."""

from __future__ import annotations

import itertools
import re

from strata.doctor.view import (
    MEMORY_HOLDERS,
    SWAP_HOLDERS,
    V2,
    CannotTellError,
    Finding,
    View,
    Weight,
    human_bytes,
    mend,
    ok,
    sysctl,
    write,
)

THP = "/sys/kernel/mm/transparent_hugepage"
ENABLED = f"{THP}/enabled"
DEFRAG = f"{THP}/defrag"
MAX_PTES_NONE = f"{THP}/khugepaged/max_ptes_none"
USUAL_MAP_COUNT = 65530
LARGER_MAP_COUNT = 262144
ROOM_IN_SWAP = 0.1
BUSY_COMMIT = 0.8
STALLED_PERCENT = 5.0
ROOM_ON_MACHINE = 0.1  # available: whoever waits is probably at a limit of their own


def thp(view: View) -> Finding:
    """Whether a process can have hugepages by asking for them."""
    if not view.exists(THP):
        if not view.exists("/sys/kernel/mm"):
            raise CannotTellError(f"{ENABLED}: no such file or directory")
        return mend(
            "thp",
            Weight.MUCH,
            "this kernel is built without transparent hugepages: Strata works, its main gain is"
            " lost",
            "run a kernel with CONFIG_TRANSPARENT_HUGEPAGE=y",
        )
    mode = view.choice(ENABLED)
    if mode == "never":
        return mend(
            "thp",
            Weight.MUCH,
            "transparent hugepages are switched off: every page of the heap costs a TLB entry of"
            " its own",
            write(ENABLED, "madvise"),
        )
    if mode not in ("always", "madvise"):
        raise CannotTellError(f"{ENABLED}: unknown mode {mode}")
    return ok("thp", f"transparent hugepages are on ({mode}): Strata asks for its own")


def thp_defrag(view: View) -> Finding:
    """Whether a page fault gets a hugepage, and at whose cost."""
    mode = view.choice(DEFRAG)
    fix = write(DEFRAG, "defer+madvise")
    if mode == "always":
        return mend(
            "thp-defrag",
            Weight.SOME,
            "every program's page faults may stop to compact memory: pauses of milliseconds,"
            " also where nobody asked for hugepages",
            fix,
        )
    if mode in ("never", "defer"):
        return mend(
            "thp-defrag",
            Weight.SOME,
            f"a page fault takes a hugepage only if one lies ready (defrag is {mode}): coverage"
            " falls as the machine's memory fragments",
            fix,
        )
    if mode not in ("madvise", "defer+madvise"):
        raise CannotTellError(f"{DEFRAG}: unknown mode {mode}")
    return ok("thp-defrag", f"the kernel compacts memory for those who ask for hugepages ({mode})")


def max_ptes_none(view: View) -> Finding:
    """khugepaged makes hugepages of ranges that are nearly empty: memory given back comes back."""
    count = view.number(MAX_PTES_NONE)
    if count < 0 or count > 511:
        raise CannotTellError(f"{MAX_PTES_NONE} holds {count}, outside of 0 to 511")
    if count <= 64:
        return ok("max-ptes-none", f"khugepaged fills at most {count} missing pages of a hugepage")
    mode = view.choice(ENABLED)
    if mode == "always":
        return mend(
            "max-ptes-none",
            Weight.SOME,
            f"khugepaged makes a hugepage out of {512 - count} used pages of 512, in every"
            " program: memory that was given back, and stacks, grow again",
            write(MAX_PTES_NONE, "0"),
        )
    return ok(
        "max-ptes-none",
        f"khugepaged may fill {count} of 512 pages, but only where hugepages are asked for"
        f" ({mode}); Strata withdraws its advice for hugepages that it has broken",
    )


def overcommit(view: View) -> Finding:
    """Strict accounting is somebody's choice: it hurts only where the limit is near."""
    mode = view.number("/proc/sys/vm/overcommit_memory")
    if mode == 2:
        limit, used = view.meminfo("CommitLimit"), view.meminfo("Committed_AS")
        says = (
            "the kernel promises no more memory than it has (vm.overcommit_memory=2):"
            f" {human_bytes(used)} of {human_bytes(limit)} are promised, malloc returns null at"
            " the end of it"
        )
        if used <= BUSY_COMMIT * limit:
            return ok("overcommit", says)
        return mend("overcommit", Weight.MUCH, says, sysctl("vm.overcommit_memory", 0))
    if mode not in (0, 1):
        raise CannotTellError(f"vm.overcommit_memory is {mode}")
    return ok("overcommit", f"the kernel overcommits memory (vm.overcommit_memory={mode})")


def max_map_count(view: View) -> Finding:
    most = view.number("/proc/sys/vm/max_map_count")
    fix = sysctl("vm.max_map_count", LARGER_MAP_COUNT)
    if view.pid is not None:
        count = view.read(view.proc("maps")).count("\n")
        if count > 0.8 * most:
            return mend(
                "max-map-count",
                Weight.MUCH,
                f"the process has {count:,} of at most {most:,} mappings: the next ones fail, and"
                " malloc with them",
                fix,
            )
    if most < USUAL_MAP_COUNT:
        return mend(
            "max-map-count",
            Weight.SOME,
            f"a process may have {most:,} mappings, fewer than usual: each hugepage that is"
            " partly given back may cost two",
            fix,
        )
    return ok("max-map-count", f"a process may have {most:,} mappings")


def swap(view: View) -> Finding:
    """Full swap slows everything down; none at all is all right."""
    total, free = view.meminfo("SwapTotal"), view.meminfo("SwapFree")
    if total == 0:
        return ok("swap", "there is no swap: what is never used stays in memory")
    areas = [line.split()[0] for line in view.read("/proc/swaps").splitlines()[1:] if line.strip()]
    kind = "zram" if areas and all("zram" in area for area in areas) else "swap"
    if free > total:
        raise CannotTellError("/proc/meminfo has more free swap than swap")
    if free < ROOM_IN_SWAP * total:
        # never a file that is there: it may be the swap in use
        names = (f"/swapfile{number if number > 1 else ''}" for number in itertools.count(1))
        new = next(name for name in names if name not in areas and not view.exists(name))
        return mend(
            "swap",
            Weight.MUCH,
            f"{kind} is full ({human_bytes(total - free)} of {human_bytes(total)}): the kernel can"
            " only reclaim files or kill now",
            SWAP_HOLDERS,
            f"sudo fallocate -l 4G {new} && sudo chmod 600 {new} && sudo mkswap {new}"
            f" && sudo swapon {new}",
        )
    return ok("swap", f"{kind}: {human_bytes(total - free)} of {human_bytes(total)} in use")


def memory_pressure(view: View) -> Finding:
    """How long tasks waited for memory in the last minute."""
    if not view.exists("/proc/pressure/memory"):
        return ok("memory-pressure", "this kernel does not measure it")
    text = view.read("/proc/pressure/memory")
    found = re.search(r"^some avg10=[\d.]+ avg60=([\d.]+) ", text, re.M)
    if found is None:
        raise CannotTellError("/proc/pressure/memory makes no sense")
    share = float(found[1])
    if share <= STALLED_PERCENT:
        return ok("memory-pressure", f"tasks waited for memory {share:.1f} % of the last minute")
    says = f"tasks waited for memory {share:.0f} % of the last minute"
    available = view.meminfo("MemAvailable")
    if available > ROOM_ON_MACHINE * view.meminfo("MemTotal"):
        return mend(
            "memory-pressure",
            Weight.SOME,
            f"{says}, though {human_bytes(available)} are available: a memory cgroup is probably"
            " at its limit, unless a burst just ended",
            cgroups_at_their_limit(view),
        )
    return mend(
        "memory-pressure",
        Weight.MUCH,
        f"{says}: this machine is short of it, whatever the allocator does",
        MEMORY_HOLDERS,
    )


def cgroups_at_their_limit(view: View) -> str:
    if view.exists(f"{V2}/cgroup.controllers"):
        return (
            f"find {V2} -name memory.pressure -exec grep -H ^some {{}} + | sort -t= -k3 -n -r"
            " | head  # whose tasks waited"
        )
    return (
        f"find {V2}/memory -name memory.failcnt -exec grep -H . {{}} + | sort -t: -k2 -n -r"
        " | head  # how often each was at its limit"
    )


RULES = (thp, thp_defrag, max_ptes_none, overcommit, max_map_count, swap, memory_pressure)

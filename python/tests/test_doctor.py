"""`strata doctor` on made-up machines: each rule with good, bad, missing and garbled files."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from doctor_machine import (
    ANSWER,
    GOOD,
    MAPS,
    MEMINFO,
    PID,
    PSI,
    THP,
    V1,
    WITH_STRATA,
    Changes,
    limits,
    machine,
    stats,
)

from strata.doctor import command, kernel, process, system
from strata.doctor.view import (
    MEMORY_HOLDERS,
    SWAP_HOLDERS,
    CannotTellError,
    Finding,
    State,
    View,
    Weight,
    tell,
)

Rule = Callable[[View], Finding]


def name_of(rule: Rule) -> str:
    return rule.__name__.replace("_", "-")


SYSTEM_RULES = (*kernel.RULES, *system.RULES)
PROCESS_RULES = (*process.RULES, *process.STRATA_RULES)


@pytest.mark.parametrize("rule", SYSTEM_RULES, ids=name_of)
def test_a_machine_in_order(rule: Rule, tmp_path: Path) -> None:
    finding = rule(machine(tmp_path, {}))
    assert finding.state is State.OK, finding
    assert finding.rule == name_of(rule)


@pytest.mark.parametrize("rule", PROCESS_RULES, ids=name_of)
def test_a_process_in_order(rule: Rule, tmp_path: Path) -> None:
    finding = rule(machine(tmp_path, {}, PID))
    assert finding.state is State.OK, finding
    assert finding.rule == name_of(rule)


SWAP_FULL = MEMINFO.replace("3000000", "300000")
SWAP_FILE = "sudo fallocate -l 4G {0} && sudo chmod 600 {0} && sudo mkswap {0} && sudo swapon {0}"
PRESSED: Changes = {
    "proc/pressure/memory": PSI.format("23.5"),
    "proc/meminfo": MEMINFO.replace("1000000 kB\nSwapT", "10000000 kB\nSwapT"),
}
NO_ROOM = MEMINFO.replace("6000000", "11000000")
BACKPORTS = (
    "sudo apt install -t bookworm-backports linux-image-$(dpkg --print-architecture)"
    "  # Debian 12 with backports; elsewhere the distribution's newer kernel; in force at the"
    " next boot"
)
DEFER = f"echo defer+madvise | sudo tee /{THP}/defrag"
JEMALLOC = "/usr/lib/libjemalloc.so.2"
# rule, what differs, a word it must say, the whole of what mends it
BAD: list[tuple[Rule, Changes, str, tuple[str, ...]]] = [
    (kernel.thp, {f"{THP}/enabled": "always madvise [never]\n"}, "switched off",
     (f"echo madvise | sudo tee /{THP}/enabled",)),
    (kernel.thp, {k: None for k in GOOD if k.startswith(THP)} | {"sys/kernel/mm/x": ""},
     "built without", ("run a kernel with CONFIG_TRANSPARENT_HUGEPAGE=y",)),
    (kernel.thp_defrag, {f"{THP}/defrag": "[always] defer madvise never\n"}, "pauses", (DEFER,)),
    (kernel.thp_defrag, {f"{THP}/defrag": "always [defer] madvise never\n"}, "lies ready",
     (DEFER,)),
    (kernel.thp_defrag, {f"{THP}/defrag": "always defer madvise [never]\n"}, "lies ready",
     (DEFER,)),
    (kernel.max_ptes_none, {f"{THP}/enabled": "[always] madvise never\n"}, "1 used pages",
     (f"echo 0 | sudo tee /{THP}/khugepaged/max_ptes_none",)),
    (kernel.overcommit, {"proc/sys/vm/overcommit_memory": "2\n", "proc/meminfo": NO_ROOM},
     "10.5 GiB of 11.4 GiB", ("sudo sysctl -w vm.overcommit_memory=0",)),
    (kernel.max_map_count, {"proc/sys/vm/max_map_count": "1000\n"}, "1,000",
     ("sudo sysctl -w vm.max_map_count=262144",)),
    (kernel.swap, {"proc/meminfo": SWAP_FULL}, "swap is full",
     (SWAP_HOLDERS, SWAP_FILE.format("/swapfile"))),
    (kernel.swap, {"proc/meminfo": SWAP_FULL, "swapfile": "",
                   "proc/swaps": "Filename\n/swapfile file 1 1 5\n/swapfile2 file 1 1 5\n"},
     "swap is full", (SWAP_HOLDERS, SWAP_FILE.format("/swapfile3"))),
    (kernel.swap, {"proc/meminfo": MEMINFO.replace("3000000", "0"),
                   "proc/swaps": "Filename\n/dev/zram0 partition 1 1 5\n"}, "zram is full",
     (SWAP_HOLDERS, SWAP_FILE.format("/swapfile"))),
    (kernel.memory_pressure, {"proc/pressure/memory": PSI.format("23.5")}, "24 %",
     (MEMORY_HOLDERS,)),
    (kernel.memory_pressure, PRESSED, "though 9.54 GiB are available: a memory cgroup is probably",
     ("find /sys/fs/cgroup -name memory.pressure -exec grep -H ^some {} + | sort -t= -k3 -n -r"
      " | head  # whose tasks waited",)),
    (kernel.memory_pressure, PRESSED | {"sys/fs/cgroup/cgroup.controllers": None}, "is probably",
     ("find /sys/fs/cgroup/memory -name memory.failcnt -exec grep -H . {} +"
      " | sort -t: -k2 -n -r | head  # how often each was at its limit",)),
    (system.kernel_version, {"proc/sys/kernel/osrelease": "4.15.0\n"}, "no restartable",
     (BACKPORTS,)),
    (system.kernel_version, {"proc/sys/kernel/osrelease": "5.10.0-8\n"}, "rebuild", (BACKPORTS,)),
    (system.kernel_version, {"proc/sys/kernel/osrelease": "6.1.0\n"}, "without holes",
     (BACKPORTS,)),
    (system.glibc_version, {"usr/lib/x86_64-linux-gnu/libc.so.6": "GNU C Library x version 2.31."},
     "glibc 2.31",
     ("use a distribution with glibc 2.35 or later (Debian 12, Ubuntu 22.04, RHEL 10)",)),
    (system.rseq, {"proc/self/environ": "GLIBC_TUNABLES=glibc.pthread.rseq=0\0"}, "switches",
     ("unset GLIBC_TUNABLES  # where the program is started",)),
    (system.rseq, {"proc/self/environ": "GLIBC_TUNABLES=a.b=1:glibc.pthread.rseq=0\0"}, "switches",
     ("export GLIBC_TUNABLES=a.b=1  # where the program is started",)),
    (system.rseq,
     {"proc/self/environ": "GLIBC_TUNABLES=glibc.a.b=1\0glibc.pthread.rseq=0\0A=b\0"}, "switches",
     ("export GLIBC_TUNABLES=glibc.a.b=1  # where the program is started",)),
    (system.address_space, {"proc/self/limits": limits("Max address", "8589934592")},
     "8.00 GiB", ("ulimit -v unlimited  # where the program is started",)),
    (system.address_space,
     {"proc/self/limits": limits("Max data", "1048576")},
     "data size is limited", ("ulimit -d unlimited  # where the program is started",)),
    (system.processes,
     {"proc/self/limits": limits("Max processes", "12")},
     "12 threads", ("ulimit -u 4096  # where the program is started",)),
    (system.cgroup_memory, {"sys/fs/cgroup/app/memory.max": "1073741824\n",
                            "sys/fs/cgroup/app/memory.current": "1073741823\n"},
     "is killed", ("echo 1610612736 | sudo tee /sys/fs/cgroup/app/memory.max",)),
    (system.cgroup_memory, {"sys/fs/cgroup/app/web/memory.high": "1048576\n",
                            "sys/fs/cgroup/app/web/memory.current": "1048000\n"},
     "slowed down", ("echo 1572864 | sudo tee /sys/fs/cgroup/app/web/memory.high",)),
    (system.cgroup_memory,
     V1 | {"sys/fs/cgroup/memory/app/memory.usage_in_bytes": "1073741000\n"},
     "nearly full",
     ("echo 1610612736 | sudo tee /sys/fs/cgroup/memory/app/memory.limit_in_bytes",)),
    (system.cgroup_cpu, {"sys/fs/cgroup/app/cpu.max": "150000 100000\n"}, "1.5 CPUs on 8",
     ("taskset -c 0-1 COMMAND  # or a cpuset of that size",)),
    (system.cgroup_cpu, V1 | {"sys/fs/cgroup/cpu/app/cpu.cfs_quota_us": "50000\n"}, "0.5 CPUs",
     ("taskset -c 0-0 COMMAND  # or a cpuset of that size",)),
    (system.preload_file, {"etc/ld.so.preload": f"/gone.so\n{JEMALLOC}\n", JEMALLOC[1:]: ""},
     "every program", (f"sudoedit /etc/ld.so.preload  # take out {JEMALLOC}",)),
    (system.preload_file, {"etc/ld.so.preload": "/usr/$LIB/libjemalloc.so\n"}, "every program",
     ("sudoedit /etc/ld.so.preload  # take out /usr/$LIB/libjemalloc.so",)),
    (system.preload_file, {"etc/ld.so.preload": "# ours\n/gone.so\n"}, "is not there",
     ("sudoedit /etc/ld.so.preload  # take out /gone.so",)),
]  # fmt: skip
REPORT = "strata report 77 -o report"
SWAPPED = "VmRSS: 500000 kB\nVmSwap: 300000 kB\n"
CGROUP_FULL: Changes = {
    "sys/fs/cgroup/app/memory.max": "1000\n",
    "sys/fs/cgroup/app/memory.current": "999\n",
}
RAISE = "echo 1500 | sudo tee /sys/fs/cgroup/app/memory.max"
BAD_PROCESS: list[tuple[Rule, Changes, str, tuple[str, ...]]] = [
    (kernel.max_map_count, {"proc/sys/vm/max_map_count": "4\n"}, "4 of at most 4",
     ("sudo sysctl -w vm.max_map_count=262144",)),
    (system.address_space, {f"proc/{PID}/limits": limits("Max address", "1048576")},
     "1.00 MiB", ("sudo prlimit --pid 77 --as=unlimited",)),
    (system.cgroup_memory, CGROUP_FULL, "killed", ("strata release 77", RAISE)),
    (system.cgroup_memory, CGROUP_FULL | {f"proc/{PID}/maps": MAPS}, "killed", (RAISE,)),
    (process.library, {f"proc/{PID}/maps": MAPS, f"proc/{PID}/environ": "A=b\0"},
     "does not run on Strata", ("strata run -- server --port '7 7'",)),
    (process.library, {f"proc/{PID}/maps": MAPS, f"proc/{PID}/environ": "A=b\0",
                       f"proc/{PID}/cmdline": "redis-server 127.0.0.1:6379\0\0\0"},
     "does not run on Strata", ("strata run -- COMMAND",)),
    (process.library, {f"proc/{PID}/maps": MAPS}, "had no effect",
     ("LD_PRELOAD=/opt/libstrata.so.0.1.0 /bin/true  # as the process's user: says why",
      "strata run -- server --port '7 7'")),
    (process.library, {f"proc/{PID}/maps": WITH_STRATA.replace(".0\n", ".0 (deleted)\n")},
     "replaced", ("restart the process",)),
    (process.other_allocator,
     {f"proc/{PID}/maps": WITH_STRATA + "7f20000-7f21000 r-xp 0 0:0 1 /x/libjemalloc.so.2\n",
      f"proc/{PID}/environ": "LD_PRELOAD=/x/libjemalloc.so.2:/opt/libstrata.so.0.1.0\0"},
     "stands before Strata", ("name libstrata.so first in LD_PRELOAD, or alone",)),
    (process.thp_allowed, {f"proc/{PID}/status": "Name:\tserver\nTHP_enabled:\t0\n"},
     "PR_SET_THP_DISABLE",
     ("look for PR_SET_THP_DISABLE, or its option, in the program or its service manager",)),
    (process.thp_allowed, {f"proc/{PID}/status": "Name:\tredis-server\nTHP_enabled:\t0\n"},
     "no hugepages at all",
     ("redis-server --disable-thp no  # or `disable-thp no` in redis.conf",)),
    (process.coverage, {ANSWER: stats(2)}, "0.5 % of the heap's 400 MiB", (REPORT,)),
    (process.coverage, {ANSWER: stats(0), f"proc/{PID}/environ": "STRATA_HUGEPAGES=off\0"},
     "is set",
     ("unset STRATA_HUGEPAGES  # where the program is started",)),
    (process.coverage, {ANSWER: stats(0, broken=101, cold=1)},
     "101 of 200 hugepages were broken up", (f"{REPORT}  # says how to keep them whole",)),
    (process.swapped, {f"proc/{PID}/status": SWAPPED}, "swapped out", (MEMORY_HOLDERS,)),
    (process.swapped, {f"proc/{PID}/status": SWAPPED, ANSWER: stats(380, free_mib=200)},
     "200 MiB of its heap are free", ("strata release 77",)),
    (process.swapped, {f"proc/{PID}/status": SWAPPED, f"proc/{PID}/maps": MAPS}, "swapped out",
     (MEMORY_HOLDERS,)),
]  # fmt: skip
FOR_PEOPLE = ("run a kernel", "use a", "name libstrata", "look for", "restart the")


@pytest.mark.parametrize(
    ("rule", "changes", "says", "fixes", "pid"),
    [(*row, None) for row in BAD] + [(*row, PID) for row in BAD_PROCESS],
)
def test_what_hurts_is_told_with_what_mends_it(
    rule: Rule, changes: Changes, says: str, fixes: tuple[str, ...], pid: int | None, tmp_path: Path
) -> None:
    """The whole command, word for word: people paste it as root."""
    finding = rule(machine(tmp_path, changes, pid))
    assert finding.state is State.MEND, finding
    assert says in finding.says
    assert finding.fixes == fixes
    for fix in fixes:
        if not fix.startswith(FOR_PEOPLE):
            subprocess.run(["sh", "-n", "-c", fix], check=True)


def test_a_rewritten_title_is_no_command(tmp_path: Path) -> None:
    """Redis, nginx and PostgreSQL write what they are doing over their command line."""
    title = "redis-server *:6379"
    changes: Changes = {f"proc/{PID}/maps": MAPS, f"proc/{PID}/cmdline": f"{title}\0"}
    view = machine(tmp_path, changes, PID)
    (tmp_path / f"proc/{PID}/exe").symlink_to("/usr/bin/redis-server (deleted)")
    assert process.library(view).fixes == (
        "LD_PRELOAD=/opt/libstrata.so.0.1.0 /bin/true  # as the process's user: says why",
        "strata run -- /usr/bin/redis-server ARGUMENTS",
    )


@pytest.mark.parametrize(
    ("rule", "changes", "says"),
    [
        (kernel.overcommit, {"proc/sys/vm/overcommit_memory": "2\n"}, "5.72 GiB of 11.4 GiB"),
        (system.preload_file, {"etc/ld.so.preload": "/usr/$LIB/libmonitor.so\n"}, "no other"),
        (system.cgroup_memory,
         CGROUP_FULL | {"sys/fs/cgroup/app/memory.stat": "anon 99\ninactive_file 900\n"},
         "99 B of 1000 B"),
        (system.cgroup_memory,
         V1 | {"sys/fs/cgroup/memory/app/memory.usage_in_bytes": "1073741000\n",
               "sys/fs/cgroup/memory/app/memory.stat":
                   "inactive_file 7\ntotal_inactive_file 1073740000\n"},
         "1000 B of 1.00 GiB"),
        (process.coverage, {ANSWER: stats(0, heap_mib=20)}, "0.0 % of the heap's 20.0 MiB"),
        (process.thp_allowed,
         {ANSWER: stats(0, heap_mib=20), f"proc/{PID}/status": "Name:\truby\nTHP_enabled:\t0\n"},
         "stays on small pages anyway"),
        (process.coverage, {ANSWER: stats(0, cold=1, broken=99)}, "takes 2.1 ms to give one"),
        (process.coverage, {ANSWER: stats(0, broken=90, begun_small=101)},
         "101 of 200 hugepages began on small pages, and are rebuilt as they fill"),
        (process.coverage, {ANSWER: stats(0, thin_use=1)}, "touches little of what it allocates"),
    ],
)  # fmt: skip
def test_what_only_looks_bad_is_left_alone(
    rule: Rule, changes: Changes, says: str, tmp_path: Path
) -> None:
    """Strict overcommit with room, a path for the dynamic linker, a cgroup full of file cache; a
    Python with 120 MiB, of which CPython maps a hundred itself."""
    finding = rule(machine(tmp_path, changes, PID if ANSWER in changes else None))
    assert finding.state is State.OK, finding
    assert says in finding.says


# rule, the file it cannot do without
NEEDED: list[tuple[Rule, str]] = [
    (kernel.thp_defrag, f"{THP}/defrag"),
    (kernel.max_ptes_none, f"{THP}/khugepaged/max_ptes_none"),
    (kernel.overcommit, "proc/sys/vm/overcommit_memory"),
    (kernel.max_map_count, "proc/sys/vm/max_map_count"),
    (kernel.swap, "proc/meminfo"),
    (system.kernel_version, "proc/sys/kernel/osrelease"),
    (system.glibc_version, "usr/lib/x86_64-linux-gnu/libc.so.6"),
    (system.address_space, "proc/self/limits"),
    (system.processes, "proc/self/limits"),
    (process.library, f"proc/{PID}/maps"),
    (process.other_allocator, f"proc/{PID}/maps"),
    (process.coverage, ANSWER),
    (process.swapped, f"proc/{PID}/status"),
]
ONLY_MISSING: list[tuple[Rule, str]] = [
    (kernel.thp, "sys"),
    (system.rseq, "proc/self/environ"),
    (system.cgroup_memory, "proc/self/cgroup"),
    (system.cgroup_cpu, "proc/self/cgroup"),
    (process.thp_allowed, f"proc/{PID}/status"),
]


@pytest.mark.parametrize(("rule", "file"), NEEDED + ONLY_MISSING)
def test_a_missing_file_is_told(rule: Rule, file: str, tmp_path: Path) -> None:
    view = machine(tmp_path, {}, PID if f"/{PID}/" in file else None)
    target = tmp_path / file
    shutil.rmtree(target) if target.is_dir() else target.unlink()
    finding = tell(view, rule)
    assert finding.state is State.UNKNOWN
    assert finding.rule == name_of(rule)
    assert "could not tell: " in finding.says


GARBAGE = ["", "\n", "garbage", "\x00\xff\x7f", "-5", "99999999999999999999", "[", "[x]", "0x10"]


@pytest.mark.parametrize(("rule", "file"), NEEDED)
@pytest.mark.parametrize("content", GARBAGE)
def test_garbage_never_passes_for_order(
    rule: Rule, file: str, content: str, tmp_path: Path
) -> None:
    """Nothing but an answer or "could not tell", and never a traceback; a number may be valid."""
    finding = tell(machine(tmp_path, {file: content}, PID if f"/{PID}/" in file else None), rule)
    if finding.state is State.OK:
        assert rule in (kernel.max_map_count, process.other_allocator)
        assert content not in ("", "\n", "[", "[x]", "0x10") or rule is process.other_allocator


@pytest.mark.parametrize(
    ("rule", "changes"),
    [
        (kernel.thp, {f"{THP}/enabled": "always [sometimes] never"}),
        (kernel.thp_defrag, {f"{THP}/defrag": "always [sometimes] never"}),
        (kernel.max_ptes_none, {f"{THP}/khugepaged/max_ptes_none": "512"}),
        (kernel.overcommit, {"proc/sys/vm/overcommit_memory": "3"}),
        (kernel.swap, {"proc/meminfo": MEMINFO.replace("3000000", "5000000")}),
        (kernel.memory_pressure, {"proc/pressure/memory": "some avg10=x"}),
        (system.cgroup_memory, {"sys/fs/cgroup/app/memory.max": "lots"}),
        (system.cgroup_memory, {"sys/fs/cgroup/app/memory.max": "1000"}),  # no usage beside it
        (system.cgroup_cpu, {"sys/fs/cgroup/app/cpu.max": "100 0"}),
        (system.cgroup_cpu, {"sys/fs/cgroup/app/cpu.max": "100"}),
        (system.cgroup_cpu, {"sys/fs/cgroup/app/cpu.max": "100 100", "proc/stat": "x"}),
        (system.address_space, {"proc/self/limits": limits("Max address", "many")}),
        (process.thp_allowed, {f"proc/{PID}/status": "THP_enabled:\tmaybe\n"}),
    ],
)
def test_nonsense_in_one_place_is_told(rule: Rule, changes: Changes, tmp_path: Path) -> None:
    pid = PID if rule is process.thp_allowed else None
    assert tell(machine(tmp_path, changes, pid), rule).state is State.UNKNOWN


def test_an_unreadable_file_is_told(tmp_path: Path) -> None:
    view = machine(tmp_path, {"proc/meminfo": None})
    (tmp_path / "proc/meminfo").mkdir()  # root reads every file, nobody reads a folder
    assert "is a directory" in tell(view, kernel.swap).says


def test_cgroups_are_read_up_to_the_top(tmp_path: Path) -> None:
    """The tightest limit counts wherever it is, also when the path is the host's."""
    top = "sys/fs/cgroup"
    changes: Changes = {
        "proc/self/cgroup": "0::/../host/path\n",
        f"{top}/memory.max": "1000\n",
        f"{top}/memory.current": "500\n",
        f"{top}/cpu.max": "400000 100000\n",
    }
    finding = system.cgroup_memory(machine(tmp_path / "a", changes))
    assert (finding.state, "500 B of 1000 B" in finding.says) == (State.OK, True)
    assert "4.0 of 8 CPUs" in system.cgroup_cpu(machine(tmp_path / "a", changes)).says
    pinned: Changes = {
        f"{top}/cpu.max": "50000 100000\n",
        "proc/self/status": "Cpus_allowed_list:\t3\n",
    }
    assert system.cgroup_cpu(machine(tmp_path / "c", pinned)).state is State.OK
    v1 = machine(tmp_path / "b", V1)
    assert "100 B of 1.00 GiB" in system.cgroup_memory(v1).says
    assert "no CPU quota (cgroup v1)" in system.cgroup_cpu(v1).says


def test_what_the_process_answers(tmp_path: Path) -> None:
    def mode(answer: bytes, environment: str = "A=b\0") -> Finding:
        view = machine(tmp_path, {f"proc/{PID}/environ": environment}, PID)
        return tell(View(view.root, PID, lambda _: answer), process.cache_mode)

    assert mode(b'{"cache_mode":"per-cpu (mm_cid)"}').state is State.OK
    assert "no restartable" in mode(b'{"cache_mode":"per-thread"}').says
    asked = mode(b'{"cache_mode":"per-thread"}', "STRATA_CACHE=thread\0")
    assert asked.fixes[0].startswith("unset STRATA_CACHE")
    for garbage in (b"", b"{}", b"[]", b"3", b"\xff", b'{"cache_mode":7}'):
        assert mode(garbage).state is State.UNKNOWN

    large = stats(0).replace('"hugepage_backed": ', '"hugepage_backed": 1' + 400 * "0").encode()
    garbled = View(tmp_path, PID, lambda _: large)
    assert tell(garbled, process.coverage).state is State.UNKNOWN

    hidden = View(tmp_path, PID, lambda _: b'{"resident_known":false,"bytes":{"resident":1}}')
    assert "filter" in tell(hidden, process.coverage).says

    def silent(_: str) -> bytes:
        raise CannotTellError("nobody answers")

    view = View(tmp_path, PID, silent)
    assert "nobody answers" in tell(view, process.cache_mode).says
    assert tell(View(tmp_path, PID), process.cache_mode).state is State.UNKNOWN
    stopped = View(tmp_path, PID, None, lambda _: "it is statically linked")
    (tmp_path / f"proc/{PID}/maps").write_text(MAPS)
    finding = process.library(stopped)
    assert "statically linked" in finding.says
    assert finding.fixes == ()


def test_hugepages_that_are_being_rebuilt_need_nobody(tmp_path: Path) -> None:
    view = machine(tmp_path, {ANSWER: stats(100)}, PID)

    def told(later: str) -> Finding:
        (tmp_path / ANSWER).write_text(stats(100))

        def wait(_: float) -> None:
            (tmp_path / ANSWER).write_text(later)

        return process.coverage(replace(view, wait=wait))

    rebuilt = told(stats(120, collapsed=10))
    assert rebuilt.state is State.OK, rebuilt
    assert "25.0 % of the heap's 400 MiB lie on hugepages, and 30.0 % now" in rebuilt.says
    assert told(stats(100)).state is State.MEND
    assert told(stats(100, collapsed=10)).state is State.MEND, "as many were broken"


def test_statuses_and_order(tmp_path: Path) -> None:
    fine = command.examine(machine(tmp_path / "fine", {}))
    assert command.status_of(fine) == 0
    changes: Changes = {
        f"{THP}/enabled": "[never]",
        "proc/sys/kernel/osrelease": "6.1.0",
        "proc/meminfo": None,
    }
    found = command.examine(machine(tmp_path / "bad", changes))
    assert command.status_of(found) == 1
    assert [f.state for f in found[:3]] == [State.MEND, State.MEND, State.UNKNOWN]
    assert [f.weight for f in found[:2]] == [Weight.MUCH, Weight.LITTLE]
    unknown = command.examine(machine(tmp_path / "unknown", {"proc/meminfo": None}))
    assert command.status_of(unknown) == 2
    document = json.loads(command.as_json(found))
    assert document["status"] == 1
    assert document["findings"][0]["fixes"] == [f"echo madvise | sudo tee /{THP}/enabled"]
    other = command.examine(machine(tmp_path / "other", {f"proc/{PID}/maps": MAPS}, PID))
    assert not {"coverage", "cache-mode"} & {f.rule for f in other}  # it has no Strata to ask
    mine = command.examine(machine(tmp_path / "mine", {}, PID))
    assert len(mine) == len(SYSTEM_RULES) + len(PROCESS_RULES)


def test_what_matters_little_fails_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Debian 12, the system this is made for, has Linux 6.1."""
    found = command.examine(machine(tmp_path / "old", {"proc/sys/kernel/osrelease": "6.1.0"}))
    assert [f.rule for f in found if f.state is State.MEND] == ["kernel-version"]
    assert command.status_of(found) == 0
    command.show(found)
    shown = capsys.readouterr().out
    assert shown.startswith("note kernel-version: ")
    assert "0 to mend, 1 of little weight, 0 could not be checked" in shown
    assert len(shown.splitlines()) < 8, "what is in order is said in one sentence"
    assert re.search(r"^ok +thp, thp-defrag, ", shown, re.MULTILINE)
    command.show(found, each=True)
    assert re.search(r"^ok +thp: transparent hugepages", capsys.readouterr().out, re.MULTILINE)
    changes: Changes = {"proc/sys/kernel/osrelease": "6.1.0", "proc/meminfo": None}
    assert command.status_of(command.examine(machine(tmp_path / "unknown", changes))) == 2

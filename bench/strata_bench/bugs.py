"""44 small memory bugs, bench/bugs/bugs.c, under each allocator: how many it notices, by kind,
and what the same allocator costs a program without bugs."""

from __future__ import annotations

import datetime
import os
import resource
import statistics
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from strata.peers import public_environment

from strata_bench import crates, machine
from strata_bench.allocators import package_version
from strata_bench.groups import Group

GROUP = Group("bugs", "Memory errors that allocators notice", "", (), (), rounds=11)
SCUDO = Path("/usr/lib/llvm-19/lib/clang/19/lib/linux/libclang_rt.scudo_standalone-x86_64.so")
QUICK_ROUNDS = 2
TRIES = 3  # of each bug; it is noticed if most of them are
SECONDS = 30.0
SQL = (
    "create table t(a integer primary key,b text,c text);create index i on t(b);"
    "with recursive n(x) as (select 1 union all select x+1 from n where x<60000)"
    " insert into t select x,hex(x*7919)||'name',hex(zeroblob(40)) from n;"
    "select count(*),max(c) from t group by substr(b,1,2) limit 1;"
    "update t set c=c||b where a%3=0;delete from t where a%2=0;select sum(length(c)) from t;"
)

OURS = "this tree"


@dataclass(frozen=True)
class Contender:
    name: str
    version: str
    library: Path | None
    env: dict[str, str] = field(default_factory=dict)

    def environment(self) -> dict[str, str]:
        preload = {} if self.library is None else {"LD_PRELOAD": str(self.library)}
        return public_environment(os.environ) | preload | self.env


@dataclass(frozen=True)
class Bug:
    number: int
    kind: str
    what: str


@dataclass
class Outcome:
    contender: Contender
    noticed: dict[int, bool] = field(default_factory=dict)
    ratios: list[float] = field(default_factory=list)  # CPU time, to glibc's in the same round


def contenders(lib: Path, out: Path, say: Callable[[str], None]) -> list[Contender]:
    """glibc first. What cannot be had here is said and left out."""
    found = [
        Contender("glibc", package_version("libc6"), None),
        Contender("strata", OURS, lib),
        Contender("strata, every block guarded", OURS, lib, {"STRATA_GUARD": "1/1"}),
        Contender("strata, checked run", OURS, lib, {"STRATA_CHECK": "on"}),
    ]
    for name, title, env in (
        ("mimalloc-secure", "mimalloc, MI_SECURE=4", {"MIMALLOC_SHOW_ERRORS": "1"}),
        ("snmalloc-check", "snmalloc, CHECK_CLIENT", {}),
        ("hardened", "hardened_malloc", {}),
    ):
        try:
            library = crates.build(name, out / "peers")
        except crates.PeerUnavailableError as error:
            say(f"{title} is left out: {error}")
            continue
        recipe = crates.RECIPES[name]
        version = f"{recipe.version} (crate {recipe.crate} {crates.locked(recipe.crate)})"
        found.append(Contender(title, version, library, dict(env)))
    if SCUDO.exists():
        found.append(Contender("scudo", package_version("libclang-rt-19-dev"), SCUDO))
    else:
        say("scudo is left out: libclang-rt-19-dev is not installed")
    return found


def list_bugs(program: Path) -> list[Bug]:
    text = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    rows = (line.split("\t") for line in text.splitlines())
    return [Bug(int(number), kind, what) for number, kind, what in rows]


def is_noticed(program: Path, bug: Bug, contender: Contender) -> bool:
    """Whether the process was ended for it, or a line was written. A crash much later in the
    program counts as well."""
    noticed = 0
    for _ in range(TRIES):
        try:
            done = subprocess.run(
                [program, str(bug.number)],
                env=contender.environment(),
                capture_output=True,
                timeout=SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            continue
        noticed += done.returncode != 0 or done.stderr != b""
    return noticed * 2 > TRIES


def cpu_seconds(contender: Contender) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        ["sqlite3", ":memory:", SQL],
        env=contender.environment(),
        stdout=subprocess.DEVNULL,
        check=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def run(
    program: Path, found: list[Contender], say: Callable[[str], None], *, quick: bool
) -> tuple[list[Bug], list[Outcome]]:
    bugs = list_bugs(program)
    outcomes = [Outcome(contender) for contender in found]
    for outcome in outcomes:
        say(f"{outcome.contender.name}: {len(bugs)} bugs")
        for bug in bugs:
            outcome.noticed[bug.number] = is_noticed(program, bug, outcome.contender)
    say("SQLite under each")
    for outcome in outcomes:
        cpu_seconds(outcome.contender)
    for _ in range(QUICK_ROUNDS if quick else GROUP.rounds):
        times = [cpu_seconds(outcome.contender) for outcome in outcomes]
        for outcome, seconds in zip(outcomes, times, strict=True):
            outcome.ratios.append(seconds / times[0])
    return bugs, outcomes


def page(bugs: list[Bug], outcomes: list[Outcome], how: str) -> str:
    kinds = list(dict.fromkeys(bug.kind for bug in bugs))
    of_kind = {kind: [bug for bug in bugs if bug.kind == kind] for kind in kinds}
    lines = [
        f"# {GROUP.title}\n",
        f"{len(bugs)} small programs, each with one bug (`bench/bugs/bugs.c`), run {TRIES} times"
        " under each allocator. A bug counts as noticed if most of the runs ended by a signal or an"
        " error, or a line about it was written: the allocator said so, a page was closed, or the"
        " damage showed. The rest went on as if nothing had happened. CPU time is SQLite's on"
        " 60,000 rows in memory, the median of paired ratios to glibc's"
        " ([errors](../errors.md)).\n",
        how + "\n",
        "| allocator | "
        + " | ".join(f"{kind} ({len(of_kind[kind])})" for kind in kinds)
        + f" | all ({len(bugs)}) | CPU time |",
        "|---|" + "---:|" * (len(kinds) + 2),
    ]
    for outcome in outcomes:
        counts = [sum(outcome.noticed[b.number] for b in of_kind[kind]) for kind in kinds]
        cost = statistics.median(outcome.ratios)
        cells = " | ".join(str(n) for n in [*counts, sum(counts)])
        lines.append(f"| {outcome.contender.name} | {cells} | {cost:.2f} × |")
    lines += ["", "Each bug: ● noticed, · not.", ""]
    lines.append("| bug | what | " + " | ".join(o.contender.name for o in outcomes) + " |")
    lines.append("|---|---|" + ":-:|" * len(outcomes))
    for bug in bugs:
        marks = " | ".join("●" if o.noticed[bug.number] else "·" for o in outcomes)
        lines.append(f"| {bug.kind} | {bug.what} | {marks} |")
    others = [o.contender for o in outcomes if o.contender.version != OURS]
    versions = "; ".join(f"{other.name} {other.version}" for other in others)
    lines += ["", f"Versions: {versions}; Strata's are of the tree above.", ""]
    return "\n".join(lines)


def write(bench: Path, lib: Path, place: Path | None, console: Console, *, quick: bool) -> None:
    """Runs the bugs, and writes the page; a quick one lies beside the programs."""
    root = bench.parent
    out = root / "build" / "bench"
    out.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    facts = machine.facts(root)

    def say(line: str) -> None:
        console.print(f"bench: {line}", highlight=False, soft_wrap=True)

    program = out / "bugs"
    subprocess.run(
        ["cc", "-O1", "-g1", "-w", "-pthread", "-o", program, bench / "bugs" / "bugs.c"], check=True
    )
    bugs, outcomes = run(program, contenders(lib, out, say), say, quick=quick)
    how = (
        f"`make bench GROUP={GROUP.name}` on {datetime.date.today().isoformat()}, tree"
        f" {facts['tree']}, {facts['processor']}: {(time.monotonic() - began) / 60:.1f} minutes."
    )
    target = place or (out if quick else root / "docs" / "benchmarks") / "bugs.md"
    text = page(bugs, outcomes, how)
    target.write_text(text)
    console.print(text, highlight=False, markup=False, soft_wrap=True)
    say(f"wrote {target}")

"""What STRATA_PRICE does where memory or process ids run out: Redis beside a program that takes
all, a leak, two that grow alike, a batch job, a fork bomb; each with the price and without, all on
Strata. Writes docs/benchmarks/price.md and its picture."""

from __future__ import annotations

import contextlib
import datetime
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from matplotlib import rc_context
from matplotlib.figure import Figure
from rich.console import Console
from strata.demo.hades.swap import swap
from strata.plot import PALETTE, STYLE, EndLabel, label_ends
from strata.procfs import MemoryGroup
from strata.redis import Client, Pipeline, RedisError

from strata_bench import execute, machine
from strata_bench.groups import Group
from strata_bench.redis_load import requests, started

GROUP = Group("price", "The price of growth", "", (), (), rounds=1)
JOIN = 'echo $$ >"$0" && exec "$@"'
BOX_MIB, QUICK_BOX_MIB = 1024, 256
KEYS, QUICK_KEYS = 150_000, 30_000  # some 1.8 KiB each
PIDS = 500
AFTERWARDS = 20.0
PATIENCE = 660.0  # of Redis's clients: a payment may take ten minutes
PIDS_ROOTS = (Path("/sys/fs/cgroup/pids"), Path("/sys/fs/cgroup"))
ABOUT = """Redis, filled and then overwritten in pipelines of 64 by four connections, in one \
memory cgroup with a *hog*, which takes and touches blocks of 64 KiB as fast as it can; both run \
on Strata. `STRATA_PRICE` ([price](../price.md)) is on or off for both. Redis's figures are beside \
those of the same Redis alone in the same cgroup just before. Then, each in a cgroup of its own: a \
leak of 1 MiB/s; two hogs that begin together; a batch job that takes 65 % of the memory once, \
beside a process that sits on a quarter, and works on it; a fork bomb among 500 process ids.
"""
Say = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    box_mib: int
    keys: int
    alone_s: float
    beside_s: float
    swap_s: float
    leak_s: float
    other_s: float


FULL = Plan(BOX_MIB, KEYS, 30, 600, 600, 200, 60)
QUICK = Plan(QUICK_BOX_MIB, QUICK_KEYS, 4, 12, 12, 12, 12)


@dataclass
class Course:
    """What one grower has told: seconds, and what it held then."""

    points: list[tuple[float, float]] = field(default_factory=list)
    done_s: float | None = None
    killed: bool = False
    lived_s: float = 0.0

    def at(self, seconds: float) -> float:
        before = [amount for at, amount in self.points if at <= seconds]
        return before[-1] if before else 0.0

    @property
    def end(self) -> str:
        return f"killed after {self.lived_s:.0f} s" if self.killed else "lives"


def environment(lib: Path, price: bool) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("STRATA_")}
    return kept | {"LD_PRELOAD": str(lib), "STRATA_PRICE": "on" if price else "off"}


class Grower:
    """bench/programs/grow.cpp in a cgroup."""

    def __init__(self, program: Path, procs: Path, env: dict[str, str], *options: str) -> None:
        self._log = Path(f"{program}.{os.getpid()}.{time.monotonic_ns()}.log")
        self._began = time.monotonic()
        # The preload holds for the program, not for the shell and env before it.
        preload = [f"{k}={v}" for k, v in env.items() if k in ("LD_PRELOAD", "STRATA_PRICE")]
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                ["sh", "-c", JOIN, str(procs), "env", *preload, str(program), *options],
                stdout=log,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        self._died: float | None = None

    def look(self) -> None:
        if self._died is None and self.process.poll() is not None:
            self._died = time.monotonic() - self._began

    def lives(self) -> bool:
        """Or has, until half a minute ago: what Redis does after it is seen too."""
        self.look()
        return self._died is None or time.monotonic() - self._began < self._died + AFTERWARDS

    def end(self) -> Course:
        self.look()
        killed = self.process.poll() in (-signal.SIGKILL, 128 + signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        course = Course(killed=killed, lived_s=self._died or time.monotonic() - self._began)
        for line in self._log.read_text().splitlines():
            word, _, amount = line.partition(" ")
            if word == "done":
                course.done_s = float(amount)
            else:
                course.points.append((float(word), float(amount)))
        self._log.unlink()
        return course


@contextlib.contextmanager
def box(mib: int) -> Iterator[MemoryGroup]:
    group = MemoryGroup.create(f"strata-price-{os.getpid()}")
    if group is None:
        raise RuntimeError("no memory cgroup can be made here")
    try:
        group.limit.write_text(str(mib << 20))
        yield group
    finally:
        for pid in group.pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        group.remove()


@dataclass
class Served:
    """What Redis's clients saw of a stretch of time."""

    rate: float = 0.0
    p99_ms: float = 0.0
    killed_after: float | None = None


def load(
    client: Client, pieces: Sequence[Pipeline], seconds: float, goes_on: Callable[[], bool]
) -> Served:
    """Overwrites keys at random until the time is up, it is to stop, or the server is gone."""
    rng = random.Random(5)
    latencies: list[float] = []
    count, began = 0, time.monotonic()
    try:
        while time.monotonic() - began < seconds:
            measured = client.run(rng.choices(pieces, k=64))
            count += measured.requests
            latencies += measured.latencies
            if not goes_on():
                break
    except RedisError:
        return Served(killed_after=time.monotonic() - began)
    latencies.sort()
    return Served(count / (time.monotonic() - began), 1000 * latencies[int(len(latencies) * 0.99)])


@dataclass
class Neighbours:
    alone: Served
    beside: Served
    hog: Course


def neighbours(lib: Path, program: Path, plan: Plan, price: bool, seconds: float) -> Neighbours:
    env = environment(lib, price)
    pieces = requests(plan.keys)
    with box(plan.box_mib) as group, started(env) as (process, _, port):
        group.procs.write_text(str(process.pid))
        with Client(port, 4, PATIENCE) as client:
            client.run(pieces)
            alone = load(client, pieces, plan.alone_s, lambda: True)
            hog = Grower(program, group.procs, env)
            beside = load(client, pieces, seconds, hog.lives)
            if beside.killed_after is not None:
                process.wait(PATIENCE)  # else it lives, and its clients gave up
            return Neighbours(alone, beside, hog.end())


def alone(
    lib: Path, program: Path, plan: Plan, price: bool, seconds: float, *growers: tuple[str, ...]
) -> list[Course]:
    """The growers beside each other in one box, for so long or until all are done."""
    env = environment(lib, price)
    with box(plan.box_mib) as group:
        running = [Grower(program, group.procs, env, *options) for options in growers]
        until = time.monotonic() + seconds
        while time.monotonic() < until and any(g.process.poll() is None for g in running):
            for grower in running:
                grower.look()
            time.sleep(0.1)
        return [grower.end() for grower in running]


@dataclass
class Bomb:
    """How many processes there were after so many seconds, and whether another could start."""

    counts: list[tuple[float, int]] = field(default_factory=list)
    refused: int = 0
    tried: int = 0


def bomb(lib: Path, program: Path, plan: Plan, price: bool) -> Bomb | None:
    root = next((r for r in PIDS_ROOTS if (r / "cgroup.procs").exists()), None)
    if root is None:
        return None
    group = root / f"strata-price-{os.getpid()}"
    group.mkdir()
    found = Bomb()
    try:
        if not (group / "pids.max").exists():
            return None
        (group / "pids.max").write_text(str(PIDS))
        grower = Grower(program, group / "cgroup.procs", environment(lib, price), "--mode=bomb")
        began = time.monotonic()
        while (passed := time.monotonic() - began) < plan.other_s:
            found.counts.append((passed, int((group / "pids.current").read_text())))
            # A process like any other, in the same cgroup: a shell that starts a program.
            tried = subprocess.run(
                ["sh", "-c", f'echo $$ >"{group}/cgroup.procs" && /bin/true && :'],
                capture_output=True,
                check=False,
            )
            found.tried += 1
            found.refused += tried.returncode != 0
            time.sleep(1)
        grower.process.kill()
    finally:
        while pids := (group / "cgroup.procs").read_text().split():
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            time.sleep(0.05)
        group.rmdir()
    return found


def minutes(course: Course, seconds: float) -> list[str]:
    """What it held after each minute, or each fifth of a short run."""
    step = 60 if seconds >= 120 else seconds / 5
    marks = [step * i for i in range(1, int(seconds / step) + 1)]
    return [f"{course.at(m):,.0f}" if m <= course.lived_s else "–" for m in marks]


def neighbour_rows(name: str, n: Neighbours) -> str:
    redis = (
        "lives" if n.beside.killed_after is None else f"killed after {n.beside.killed_after:.0f} s"
    )
    rate = f"{n.beside.rate / n.alone.rate:.3f}" if n.beside.rate else "–"
    p99 = f"{n.beside.p99_ms / n.alone.p99_ms:.2f}" if n.beside.rate else "–"
    last = n.hog.at(1e9)
    # One that was killed at once may have said no more than that it began.
    held = "not known" if n.hog.killed and not last else f"{last:,.0f} MiB"
    return f"| {name} | {redis} | {n.hog.end} | {rate} | {p99} | {held} |"


def draw(picture: Path, plan: Plan, lines: dict[str, Course]) -> None:
    """What the hog holds over time. A killed one has a cross at its end."""
    with rc_context(STYLE):
        figure = Figure(figsize=(7.5, 3.4))
        axes = figure.subplots()
        ends = []
        for colour, (name, course) in zip(PALETTE, lines.items(), strict=False):
            at, held = zip(*[(max(t, 0.1), mib) for t, mib in course.points], strict=True)
            end = course.lived_s if course.killed else plan.beside_s
            if len(at) > 1:  # of one that was killed at once only the beginning is known
                axes.plot((*at, end), (*held, held[-1]), color=colour, lw=1.6)
            if course.killed:
                axes.plot(end, held[-1], "x", color=colour, ms=7, clip_on=False)
            ends.append(EndLabel(held[-1], f"{name}: {course.end}", colour))
        axes.set_xscale("log")
        axes.set_xlim(0.5, plan.beside_s)
        axes.set_ylim(0, 3 * plan.box_mib)
        axes.axhline(plan.box_mib, color="#b8c1cc", lw=0.8, zorder=0)
        axes.text(
            plan.beside_s,
            plan.box_mib,
            f"{plan.box_mib:,} MiB, the cgroup's limit",
            ha="right",
            va="bottom",
            fontsize=8.5,
        )
        axes.xaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_major_formatter("{x:,.0f}")
        axes.set_xlabel("seconds since the hog began")
        axes.set_title("MiB that the hog has taken")
        label_ends(axes, ends)
        picture.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(picture)


def measure(lib: Path, program: Path, plan: Plan, picture: Path, say: Say) -> list[str]:
    body = [
        f"## Redis and a hog in {plan.box_mib:,} MiB\n",
        "Requests a second and the 99th percentile: beside those of the same Redis alone.\n",
        "| | Redis | hog | requests | p99 | hog holds at the end |",
        "|---|---|---|---:|---:|---:|",
    ]
    drawn: dict[str, Course] = {}
    table: dict[str, tuple[Course, float]] = {}
    for kind, seconds in (("no swap", plan.beside_s), ("swap on zram", plan.swap_s)):
        with (
            swap(2 * plan.box_mib, kinds=("zram",))
            if kind != "no swap"
            else contextlib.nullcontext()
        ):
            for price in (False, True):
                name = f"{kind}, price {'on' if price else 'off'}"
                found = neighbours(lib, program, plan, price, seconds)
                body.append(neighbour_rows(name, found))
                drawn[name] = found.hog
                table[name] = (found.hog, seconds)
                say(body[-1])
    body += ["", "What the hog held after each minute (MiB; – means that it was gone):\n"]
    for name, (course, seconds) in table.items():
        body.append(f"- {name}: {', '.join(minutes(course, seconds))}")
    draw(picture, plan, drawn)
    body += ["", f"![What the hog holds]({picture.parent.name}/{picture.name})\n"]
    body += others(lib, program, plan, say)
    return body


def others(lib: Path, program: Path, plan: Plan, say: Say) -> list[str]:
    body = [
        "## Others\n",
        f"Each for {plan.other_s:.0f} s at most, the leak for {plan.leak_s:.0f}, without swap.\n",
        "| | price off | price on |",
        "|---|---|---|",
    ]
    quarter = ("--mode=batch", f"--mib={plan.box_mib // 4}", "--seconds=100000")
    job = ("--mode=batch", f"--mib={plan.box_mib * 65 // 100}", f"--seconds={plan.other_s / 6:.0f}")
    leak = ("--mode=leak", f"--mib_s={plan.box_mib / 1024 * 8 if plan is QUICK else 1}")
    full = ("--mode=batch", f"--mib={plan.box_mib * 17 // 20}", "--seconds=100000")
    works = {
        "a leak beside a process that holds 85 %": (full, leak),
        "two hogs": (("--mode=hog",), ("--mode=hog",)),
        "batch job: 65 % once, beside 25 %": (quarter, job),
    }
    for name, growers in works.items():
        cells = []
        for price in (False, True):
            seconds = plan.leak_s if leak in growers else plan.other_s
            found = alone(lib, program, plan, price, seconds, *growers)
            last = found[-1]
            if name.startswith("two"):
                cells.append(" and ".join(f"{c.at(1e9):,.0f} MiB, {c.end}" for c in found))
            elif last.done_s is not None:
                cells.append(f"done after {last.done_s:.1f} s")
            else:
                cells.append(f"{last.at(1e9):,.0f} MiB, {last.end}")
        body.append(f"| {name} | {cells[0]} | {cells[1]} |")
        say(body[-1])
    bombs = [bomb(lib, program, plan, price) for price in (False, True)]
    cells = [
        "not measured: no pids cgroup"
        if b is None
        else f"{b.counts[min(5, len(b.counts) - 1)][1]} processes after 5 s, {b.counts[-1][1]} at "
        f"the end; {b.refused} of {b.tried} shells could not start a program"
        for b in bombs
    ]
    body.append(f"| fork bomb among {PIDS} process ids | {cells[0]} | {cells[1]} |")
    say(body[-1])
    return body


def write(bench: Path, lib: Path, place: Path | None, console: Console, *, quick: bool) -> None:
    """Measures, and writes the page; a quick one lies beside its data."""
    root = bench.parent
    out = root / "build" / "price"
    out.mkdir(parents=True, exist_ok=True)
    began, facts = time.monotonic(), machine.facts(root)

    def say(line: str) -> None:
        console.print(f"bench: {line}", highlight=False, soft_wrap=True)

    execute.build_programs(bench, root / "build" / "bench", "grow")
    target = place or (out if quick else root / "docs" / "benchmarks") / "price.md"
    program = root / "build" / "bench" / "grow"
    body = measure(lib, program, QUICK if quick else FULL, target.parent / "img" / "price.png", say)
    how = (
        f"`make bench GROUP={GROUP.name}` on {datetime.date.today().isoformat()}, tree"
        f" {facts['tree']}, {facts['processor']}: {(time.monotonic() - began) / 60:.1f} minutes,"
        " one round."
    )
    target.write_text("\n".join([f"# {GROUP.title}\n", ABOUT, how + "\n", *body]) + "\n")
    say(f"wrote {target}")

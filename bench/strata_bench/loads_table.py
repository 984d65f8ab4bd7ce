"""The four loads in the lifetimes group: what runs them, and the table of what they held."""

from __future__ import annotations

from pathlib import Path

from strata_bench.groups import Work
from strata_bench.plan import Case, Kind
from strata_bench.results import Ratio, Results

OFF, ONLINE, MODEL, LLAMA, GLIBC = "strata", "online", "model", "llama", "glibc"
VARIANTS = (OFF, ONLINE, MODEL, LLAMA, GLIBC)
NAMES = {
    "redis_server": "redis",
    "images": "images",
    "pipeline": "words",
    "inference_server": "inference",
}
SCALE = "--scale=0.5"  # so that the whole group takes a quarter of an hour
LEAST = 0.98  # of the throughput without predictions
ALIKE = 0.05  # by which memory in runs that are compared may differ
PAPER = {"redis": -73, "images": -43, "words": -78, "inference": -19}  # % (CACM 2024, table 3)
HEADER = (
    "load",
    "variant",
    "work / CPU s",
    "work / s",
    "mean RSS",
    "peak RSS",
    "RSS at rest",
    "fragmentation",
    "at rest",
)

ABOUT = f"""\
Warm-up, load, a burst and a rest of 4 s of `bench/loads`: `redis_server` (sessions that come \
and go among users that stay), `images` (a resizing server on libjpeg and libvips with a \
cache), `pipeline` (word count on 224 threads) and `inference_server` (onnxruntime). They run \
with `{SCALE}`. Throughput is that of load and burst, as a paired ratio to `{OFF}` with the \
lowest and the highest of the rounds. Memory is in MiB, the mean of its means over load and over \
burst. Fragmentation is the process's anonymous memory above what is live. Of Strata what it \
holds beyond its objects is read at once with them, in each round in a run of its own, and what \
`{OFF}`'s are rounded up by is added; `{LLAMA}` and `{GLIBC}` have no such statistics, and \
`{OFF}`'s live stands for theirs. `–` stands where these runs held over {ALIKE:.0%} more than the \
RSS beside it. What the process maps without malloc, such as its threads' stacks, counts as \
fragmentation with every variant. `{LLAMA}` is `libstrata-llama.so`, the heap of the paper, \
which learns as it runs.
"""

WORKS = tuple(
    Work(
        Case(
            name,
            program,
            (SCALE,),
            "per_cpu_s",
            kind=Kind.LOAD,
            rounds=2,
            peer_rounds=1,
            quick=("--quick=1",),
        ),
        (),
        only=VARIANTS,
    )
    for program, name in NAMES.items()
)


def _ratio(found: Ratio | None) -> str:
    if found is None:
        return "–"
    if found.rounds < 2:
        return f"{found.median:.3f}"
    return f"{found.median:.3f} ({found.low:.3f} to {found.high:.3f})"


def _mib(value: float | None) -> str:
    return "–" if value is None else f"{value / 1024:,.1f}"


def fragmentation(results: Results, load: str, variant: str, when: str) -> float | None:
    """KiB of anonymous memory above what lives, then or in the runs without predictions. None where
    the runs with statistics held clearly more than is resident in those without: they differ."""
    beyond = results.median(load, variant, f"beyond_{when}_kib")
    rounded = results.median(load, OFF, f"rounded_{when}_kib")
    if beyond is not None and rounded is not None:
        live = results.median(load, variant, f"live_{when}_kib")
        resident = results.median(load, variant, f"rss_{when}_kib")
        if (
            live is not None
            and resident is not None
            and live + beyond + rounded > (1 + ALIKE) * resident
        ):
            return None
        return beyond + rounded
    held = results.median(load, variant, f"anonymous_{when}_kib")
    live = results.median(load, OFF, f"live_{when}_kib")
    return None if held is None or live is None else held - live


def _less(results: Results, load: str, variant: str, when: str) -> str:
    mine = fragmentation(results, load, variant, when)
    base = fragmentation(results, load, OFF, when)
    if mine is None:
        return "–"
    if variant == OFF or base is None or base <= 0:
        return _mib(mine)
    return f"{_mib(mine)} ({100 * (mine / base - 1):+.0f} %)"


def _row(results: Results, load: str, variant: str) -> str:
    def speed(key: str) -> str:
        if variant == OFF:
            value = results.median(load, OFF, key)
            return "–" if value is None else f"{value:,.0f}"
        return _ratio(results.ratio(load, variant, OFF, key))

    memory = (_mib(results.median(load, variant, f"rss_{n}_kib")) for n in ("mean", "peak", "rest"))
    cells = (speed("per_cpu_s"), speed("per_s"), *memory)
    held = (_less(results, load, variant, when) for when in ("mean", "rest"))
    return "| " + " | ".join((load, variant, *cells, *held)) + " |"


def section(results: Results, _: Path) -> list[str]:
    """The loads' part of the page."""
    loads = [name for name in NAMES.values() if results.allocators(name)]
    if not loads:
        return []
    lines = [
        "## Four loads\n",
        ABOUT,
        "| " + " | ".join(HEADER) + " |",
        "|---|---|" + "---:|" * (len(HEADER) - 2),
    ]
    for load in loads:
        found = results.allocators(load)
        lines += [_row(results, load, variant) for variant in VARIANTS if variant in found]
    lines.append("")
    for load in loads:
        live = (_mib(results.median(load, OFF, f"live_{when}_kib")) for when in ("mean", "rest"))
        lines.append(
            f"- {load}: live {' MiB on average, '.join(live)} MiB at rest; the paper's"
            f" fragmentation against its TCMalloc {PAPER[load]} %."
        )
    lines += [
        verdict
        for load in loads
        for verdict in (
            *(_verdict(results, load, variant) for variant in (ONLINE, MODEL)),
            _held_verdict(results, load),
        )
        if verdict
    ]
    return [*lines, ""]


def _held_verdict(results: Results, load: str) -> str:
    """The paper's model against ours: of what is held above what lives, how much it spares."""
    mine, base = (fragmentation(results, load, variant, "mean") for variant in (MODEL, OFF))
    if mine is None or base is None or base <= 0:
        return ""
    change = 100 * (mine / base - 1)
    met = "met" if change <= PAPER[load] else "missed"
    live, lived = (results.median(load, name, "live_mean_kib") for name in (MODEL, OFF))
    strange = live is not None and lived is not None and abs(live / lived - 1) > ALIKE
    sure = ", but what lived in the runs differs" if strange else ""
    return (
        f"- {load}, {MODEL}: fragmentation {change:+.0f} % against {OFF}'s,"
        f" asked for ≤ {PAPER[load]} %: {met}{sure}."
    )


def _verdict(results: Results, load: str, variant: str) -> str:
    found = results.ratio(load, variant, OFF, "per_cpu_s")
    if found is None:
        return ""
    met = "met" if found.median >= LEAST else "missed"
    sure = "" if (found.low >= LEAST) == (found.high >= LEAST) else ", but the rounds disagree"
    return (
        f"- {load}, {variant}: work / CPU s {_ratio(found)} × {OFF}, asked for ≥ {LEAST}:"
        f" {met}{sure}."
    )

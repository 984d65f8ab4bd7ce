"""The pictures in docs/benchmarks.md."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from strata_bench.allocators import PEERS, STRATA
from strata_bench.plan import SPEED
from strata_bench.results import Results
from strata_bench.targets import best_peer, burst_limit_kib

PALETTE = plt.get_cmap("tab10")
MARKERS = "osv^<>Dph"


def _style(name: str) -> dict[str, object]:
    if name == STRATA:
        return {"color": "black", "marker": "*", "zorder": 3, "markersize": 11}
    index = PEERS.index(name) if name in PEERS else 0
    return {
        "color": PALETTE(index % 10),
        "marker": MARKERS[index % len(MARKERS)],
        "zorder": 2,
        "markersize": 5,
    }


def _save(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    plt.savefig(path, dpi=110, bbox_inches="tight")
    plt.close()
    return path


def speed(results: Results, path: Path) -> Path | None:
    """A row for each work, a mark for each allocator, relative to the fastest peer."""
    cases = [c for c in SPEED if best_peer(results, c) is not None]
    if not cases:
        return None
    _, axes = plt.subplots(figsize=(9, 0.36 * len(cases) + 1.6))
    for name in (STRATA, *PEERS):
        xs: list[float] = []
        ys: list[int] = []
        for row, case in enumerate(cases):
            peer = best_peer(results, case)
            value = results.median(case.name, name, case.metric)
            base = results.median(case.name, peer, case.metric) if peer else None
            if value is not None and base:
                xs.append(value / base)
                ys.append(row)
        if xs:
            axes.plot(xs, ys, linestyle="none", label=name, **_style(name))  # type: ignore[arg-type]
    axes.set_xscale("log", base=2)
    axes.set_yticks(range(len(cases)), [c.name for c in cases])
    axes.invert_yaxis()
    axes.axvline(1, color="grey", linewidth=0.8)
    axes.set_xlabel("time / fastest peer's time (left is faster)")
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:g}×")
    axes.grid(axis="both", alpha=0.25)
    axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.01, 1))
    return _save(path)


def sizes(results: Results, path: Path) -> Path | None:
    """ns per malloc and free over the size, both on log scales."""
    _, axes = plt.subplots(figsize=(9, 4.5))
    drawn = False
    for name in (STRATA, *PEERS):
        runs = [r for r in results.of("bysize", name) if not r.error]
        if not runs:
            continue
        points: dict[int, list[float]] = {}
        for run in runs:
            for pair in run.fields.get("by_size", "").split(","):
                size, _, ns = pair.partition(":")
                points.setdefault(int(size), []).append(float(ns))
        xs = sorted(points)
        ys = [sorted(points[x])[len(points[x]) // 2] for x in xs]
        style = _style(name) | {"markersize": 3}
        axes.plot(xs, ys, label=name, linewidth=1.2, **style)  # type: ignore[arg-type]
        drawn = True
    if not drawn:
        plt.close()
        return None
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlabel("bytes")
    axes.set_ylabel("ns per malloc + free")
    axes.grid(alpha=0.25)
    axes.legend(fontsize=8, ncols=2)
    return _save(path)


def _burst_panel(axes: Axes, results: Results, case: str) -> bool:
    drawn = False
    for name in (STRATA, *PEERS):
        runs = [r for r in results.of(case, name) if not r.error]
        if not runs:
            continue
        run = runs[0]
        style = {k: v for k, v in _style(name).items() if k in ("color", "zorder")}
        for key, line in (("rss_series_kib", "-"), ("physical_series_kib", ":")):
            series = [v / 1024 for v in run.series(key)]
            label = name if line == "-" else None
            axes.plot(series, line, label=label, **style)  # type: ignore[arg-type]
        if name == STRATA:
            limit = burst_limit_kib(case, run.fields) / 1024
            axes.axhline(limit, color="red", linewidth=0.8, linestyle="--", label="target")
        drawn = True
    axes.set_ylim(bottom=0)
    axes.set_xlabel("seconds after the frees")
    axes.set_title(f"{case.removeprefix('burst-')} 95 % freed", fontsize=10)
    axes.grid(alpha=0.25)
    return drawn


def burst(results: Results, path: Path) -> Path | None:
    """Held memory over the idle seconds: RSS drawn through, physical dotted."""
    _, panels = plt.subplots(1, 2, figsize=(11, 4.2), sharey=True)
    drawn = [
        _burst_panel(panels[i], results, case)
        for i, case in enumerate(("burst-oldest", "burst-random"))
    ]
    if not any(drawn):
        plt.close()
        return None
    panels[0].set_ylabel("MiB (RSS; dotted: cgroup)")
    panels[1].legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.01, 1))
    return _save(path)


def memory_of_loops(panels: dict[str, dict[str, list[tuple[float, float]]]], path: Path) -> Path:
    """RSS over time, for each server and variant, while one request allocates and frees."""
    meaning = {
        "stock": "stock: the server's own pools, glibc's malloc",
        "strata": "strata: the server's own pools, Strata's malloc",
        "reaps": "reaps: pools on reaps",
    }
    figure, axes = plt.subplots(1, len(panels), figsize=(10, 3.6), sharey=True)
    # Dashed and on top where it lies on another line.
    styles: dict[str, dict[str, Any]] = {
        "stock": {"color": PALETTE(0), "lw": 1.6, "ls": (0, (3, 2)), "zorder": 4},
        "strata": {"color": PALETTE(1), "lw": 2.2},
        "reaps": {"color": "black", "lw": 2.2},
    }
    for index, (server, lines) in enumerate(panels.items()):
        for variant, series in lines.items():
            label, style = meaning.get(variant, variant), styles.get(variant, {})
            axes[index].plot(*zip(*series, strict=True), label=label, **style)
        axes[index].set_title(server)
        axes[index].set_xlabel("seconds")
        axes[index].set_ylim(bottom=-8)
        axes[index].grid(alpha=0.25)
    axes[0].set_ylabel("RSS of the worker, MiB")
    handles, labels = axes[0].get_legend_handles_labels()
    place = {"bbox_to_anchor": (0.5, 0.0), "ncols": len(labels)}
    figure.legend(handles, labels, fontsize=8, loc="upper center", **place)
    return _save(path)


def draw(results: Results, directory: Path) -> dict[str, Path]:
    found = {
        "speed": speed(results, directory / "speed.png"),
        "sizes": sizes(results, directory / "sizes.png"),
        "burst": burst(results, directory / "burst.png"),
    }
    return {key: path for key, path in found.items() if path is not None}

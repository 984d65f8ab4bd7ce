"""The address space before and after, a square a page, and what both cost."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
import polars as pl

mpl.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.patches import Rectangle

PAGE = 4096
ROW = 400  # pages in a row of the picture, at the most
COLOURS = LinearSegmentedColormap.from_list("use", ["#fde0c5", "#e8743b", "#7a1f0f"])
UNUSED = (0.80, 0.82, 0.85)
OUT = (0.95, 0.96, 0.97)
NOTHING = (1.0, 1.0, 1.0)
PLAIN, TIDY = "#8a8f98", "#c8501e"


def grid(table: pl.DataFrame, rows: int) -> npt.NDArray[np.float64]:
    """The pages that hold values, close together, in the order of their addresses: colours."""
    count = len(table)
    columns = max(1, -(-count // rows))
    image = np.tile(np.array(NOTHING), (rows * columns, 1))
    resident = table["resident"].to_numpy() == 1
    share = np.clip(table["used_bytes"].to_numpy() / PAGE, 0, 1)
    image[:count][resident] = UNUSED
    image[:count][~resident] = OUT
    used = share > 0
    image[:count][used] = COLOURS(share[used])[:, :3]
    return image.reshape(columns, rows, 3).transpose(1, 0, 2)


def summary(table: pl.DataFrame) -> tuple[int, int, int]:
    """Pages that were used, that are only in memory, and that are paged out."""
    used = table.filter(pl.col("used_bytes") > 0)
    unused = table.filter(pl.col("used_bytes") == 0)
    return (
        len(used),
        len(unused.filter(pl.col("resident") == 1)),
        len(unused.filter(pl.col("resident") == 0)),
    )


def _map(axes: Axes, table: pl.DataFrame, title: str) -> None:
    rows = max(1, min(ROW, len(table) // 250 + 1))
    axes.imshow(grid(table, rows), aspect="auto", interpolation="nearest", extent=(0, 1, 0, 1))
    used, unused, out = summary(table)
    axes.set_title(title, fontsize=13, loc="left", fontweight="bold")
    parts = [f"{used:,} pages were used", f"{unused:,} lie in memory unused"]
    if out:
        parts.append(f"{out:,} are paged out")
    axes.set_xlabel(", ".join(parts), fontsize=9.5, loc="left")
    axes.set_xticks([])
    axes.set_yticks([])


def _bars(axes: Axes, title: str, values: Sequence[Sequence[float]], form: str) -> None:
    """Of the plain runs and of the tidied ones: the median, and all of them as dots."""
    most = max(max(runs) for runs in values)
    arms = zip(values, (PLAIN, TIDY), ("plain", "tidied"), strict=True)
    for at, (runs, colour, name) in enumerate(arms):
        middle = float(np.median(runs))
        axes.barh(at, middle, color=colour, height=0.6)
        axes.plot(runs, [at] * len(runs), "o", color="black", markersize=3)
        inside = middle > most / 2
        axes.text(
            middle / 2 if inside else max(runs) + most * 0.03,
            at,
            f"{name}: {form.format(middle)}",
            ha="center" if inside else "left",
            va="center",
            color="white" if inside else "black",
            fontsize=10,
            fontweight="bold",
        )
    axes.set_xticks([])
    axes.set_yticks([])
    axes.invert_yaxis()
    axes.set_xlim(0, most * 1.05)
    axes.set_title(title, fontsize=11, loc="left")
    axes.spines[["top", "right", "left", "bottom"]].set_visible(False)


def draw(
    path: Path,
    before: pl.DataFrame,
    after: pl.DataFrame,
    bars: Sequence[tuple[str, Sequence[Sequence[float]], str]],
    about: str,
) -> None:
    figure = plt.figure(figsize=(13, 8.8), dpi=110)
    layout = figure.add_gridspec(2, 6, height_ratios=(4, 0.9), hspace=0.42, wspace=0.35)
    _map(figure.add_subplot(layout[0, :3]), before, "Plain: values stay where malloc put them")
    _map(figure.add_subplot(layout[0, 3:]), after, "Tidied: used values lie together")
    for at, (title, values, form) in enumerate(bars):
        _bars(figure.add_subplot(layout[1, 2 * at : 2 * at + 2]), title, values, form)
    figure.suptitle(about, x=0.125, y=0.95, ha="left", fontsize=12)
    keys = (
        (COLOURS(1.0), "a page that was used wholly"),
        (COLOURS(0.25), "a quarter of it was used"),
        (UNUSED, "in memory, not used"),
        (OUT, "paged out"),
    )
    handles = [Rectangle((0, 0), 1, 1, fc=colour, ec="#bbbbbb") for colour, _ in keys]
    figure.legend(
        handles,
        [text for _, text in keys],
        loc="upper center",
        bbox_to_anchor=(0.5, 0.32),
        ncol=4,
        frameon=False,
        fontsize=10,
    )
    figure.savefig(path, bbox_inches="tight")
    plt.close(figure)

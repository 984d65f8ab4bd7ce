"""How the tools' pictures look, for matplotlib: shared by all that draw."""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK = "#1c2733"
SOFT = "#52606d"
STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": "#b8c1cc",
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "figure.constrained_layout.use": True,
    "legend.frameon": False,
    "savefig.dpi": 160,
}
# for pictures inside of a page
SVG_STYLE: dict[Any, Any] = STYLE | {
    "svg.fonttype": "none",
    "svg.hashsalt": "strata",
    "text.parse_math": False,  # names may hold a dollar
}
# distinguishable with any colour vision
PALETTE = ("#0b6fb8", "#d98200", "#4a9a5b", "#a23b72", "#6b6b6b", "#7a5cc0", "#5b3a1e", "#00868b")
DASHED_FROM = 6  # beyond, a colour alone is easily taken for one of the first


@dataclass(frozen=True)
class EndLabel:
    """What stands at the right end of a line, which ends at `y`."""

    y: float
    text: str
    colour: str = INK
    weight: str = "normal"


def spread(places: Sequence[float], gap: float, top: float) -> list[float]:
    """The places moved apart until `gap` lies between neighbours, in the same order, as few of them
    and as little as this simple way can: upwards from the lowest, then down from the top."""
    order = sorted(range(len(places)), key=lambda at: places[at])
    moved = list(places)
    for below, above in itertools.pairwise(order):
        moved[above] = max(moved[above], moved[below] + gap)
    ceiling = max(top, gap * (len(places) - 1))
    for at in reversed(order):
        moved[at] = min(moved[at], ceiling)
        ceiling = moved[at] - gap
    return moved


def label_ends(axes: Axes, labels: Sequence[EndLabel], size: float = 8.5) -> None:
    """Writes each label beside the end of its line instead of into a legend. Limits, scales and
    titles must stand: where the labels collide is known only then."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    figure.draw_without_rendering()
    height = axes.get_window_extent().height * 72 / figure.dpi
    fractions = [
        float(axes.transAxes.inverted().transform(axes.transData.transform((1, label.y)))[1])
        for label in labels
    ]
    points = [fraction * height for fraction in fractions]
    moved = spread(points, size * 1.3, height)
    for label, fraction, at, to in zip(labels, fractions, points, moved, strict=True):
        axes.annotate(
            label.text,
            (1, fraction),
            xycoords="axes fraction",
            xytext=(14, to - at),
            textcoords="offset points",
            va="center",
            fontsize=size,
            color=label.colour,
            fontweight=label.weight,
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": label.colour,
                "lw": 0.6,
                "shrinkA": 1,
                "shrinkB": 0,
                "relpos": (0, 0.5),
            },
        )


def free_ranges(taken: Iterable[tuple[float, float]], top: float) -> Iterator[tuple[float, float]]:
    """What of 0 to top lies between these ranges."""
    at = 0.0
    for low, high in sorted(taken):
        if low > at:
            yield at, low
        at = max(at, high)
    if top > at:
        yield at, top


def label_beside(axes: Axes, labels: Sequence[tuple[Sequence[float], str, str]]) -> None:
    """Writes each label, (heights at 0, 1, 2…, text, colour), where no line and no other label is
    and its own line is the nearest: for lines that end at one place. Limits and titles must
    stand."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    figure.draw_without_rendering()
    top = axes.get_ylim()[1]
    boxes: list[tuple[int, int, float, float]] = []  # from, to, bottom, top
    for heights, text, colour in labels:
        others = [line for line, _, _ in labels if line is not heights]
        written = axes.text(0, 0, text, fontsize=8.5, color=colour, va="bottom")
        size = written.get_window_extent().transformed(axes.transData.inverted())
        wide, high, away = round(size.width) + 2, size.height, size.height / 3
        best: tuple[float, int, float] | None = None  # how bad it is, where
        for x in range(1, min(len(line) for line, _, _ in labels) - wide):
            lines = [(min(part), max(part)) for part in (ys[x : x + wide] for ys, _, _ in labels)]
            beside = [(low, up) for left, right, low, up in boxes if left < x + wide and x < right]
            for bottom, ceiling in free_ranges([*lines, *beside], top):
                if ceiling - bottom < high + 2 * away:
                    continue
                for y in (bottom + away, ceiling - away - high):
                    own = _gap(heights[x : x + wide], y, high)
                    nearest = min(
                        (_gap(line[x : x + wide], y, high) for line in others), default=own
                    )
                    bad = own + max(0.0, own - nearest) * 3
                    if best is None or bad < best[0]:
                        best = (bad, x, y)
        _, x, y = best or (0.0, 0, 0.0)
        written.set_position((x + 1, y))
        boxes.append((x, x + wide, y, y + high))


def _gap(line: Sequence[float], y: float, high: float) -> float:
    """How far a label at y is from a line, in the mean over its width."""
    return sum(max(y - at, at - y - high) for at in line) / len(line)


def svg(figure: Figure) -> str:
    """The picture as an element of a page; the figure is closed."""
    import matplotlib.pyplot as plt

    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    plt.close(figure)
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    # matplotlib names its metadata's vocabularies by address; nothing is loaded, but none is needed
    return re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.S)

"""How well a model predicts: the numbers, and one HTML page with everything in it."""

from __future__ import annotations

import html
import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from strata.files import write_file
from strata.learn.classes import NAMES
from strata.learn.model_file import CLASSES
from strata.learn.training import Contexts, Floats, Ints

BY = ("bytes", "allocations", "contexts")
STYLE = """body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse}td,th{padding:.2rem .7rem;text-align:right}td:first-child,
th:first-child{text-align:left}tr+tr{border-top:1px solid #ddd}svg{max-width:100%;height:auto}"""


@dataclass
class Score:
    """Shares, by each of BY, of the contexts of one split."""

    exact: tuple[float, ...]
    near: tuple[float, ...]  # within one class


def score(guesses: Ints, data: Contexts, split: str) -> Score | None:
    """None if the split has no contexts."""
    rows = data.is_test if split == "test" else data.is_train
    if not rows.any():
        return None
    off = np.abs(guesses[rows] - data.labels[rows])
    weights = (data.held[rows], data.objects[rows], np.ones(rows.sum(), np.float32))

    def share(right: np.ndarray) -> tuple[float, ...]:
        return tuple(float((right * each).sum() / max(each.sum(), 1e-9)) for each in weights)

    return Score(share(off == 0), share(off <= 1))


def confusion(guesses: Ints, data: Contexts, split: str) -> Floats:
    """[label][guess], shares of the split's bytes."""
    rows = data.is_test if split == "test" else data.is_train
    out = np.zeros((CLASSES, CLASSES), np.float32)
    np.add.at(out, (data.labels[rows], guesses[rows]), data.held[rows])
    return np.asarray(out / max(float(out.sum()), 1e-9), np.float32)


def calibration(odds: Floats, data: Contexts, split: str) -> list[tuple[float, float, int]]:
    """By tenths of the odds of the likeliest class: their mean, the share that was right, count."""
    rows = data.is_test if split == "test" else data.is_train
    sure = odds[rows].max(axis=1)
    right = odds[rows].argmax(axis=1) == data.labels[rows]
    found = []
    for tenth in range(10):
        here = (sure >= tenth / 10) & ((sure < (tenth + 1) / 10) | (tenth == 9))
        if here.any():
            found.append((float(sure[here].mean()), float(right[here].mean()), int(here.sum())))
    return found


def pictures(losses: list[float], matrix: Floats, sure: list[tuple[float, float, int]]) -> str:
    import matplotlib as mpl
    from matplotlib.figure import Figure

    mpl.rcParams["svg.hashsalt"] = "strata"
    figure = Figure(figsize=(12, 4), layout="constrained")
    curve, table, line = figure.subplots(1, 3)
    curve.plot(range(1, len(losses) + 1), losses)
    curve.set(title="Learning curve", xlabel="epoch", ylabel="loss on the training set")
    table.imshow(matrix, cmap="Blues")
    for row in range(CLASSES):
        for column in range(CLASSES):
            if matrix[row, column] >= 0.005:
                text = f"{100 * matrix[row, column]:.0f}"
                table.text(column, row, text, ha="center", va="center", fontsize=8)
    table.set(title="% of bytes", xlabel="predicted", ylabel="observed")
    table.set_xticks(range(CLASSES), NAMES, rotation=90)
    table.set_yticks(range(CLASSES), NAMES)
    line.plot([0, 1], [0, 1], color="#bbb")
    line.plot([mean for mean, _, _ in sure], [right for _, right, _ in sure], marker="o")
    line.set(title="Calibration", xlabel="odds of the likeliest class", ylabel="share right")
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None})
    return out.getvalue()[out.getvalue().index("<svg") :]


def table_of(scores: dict[str, Score | None]) -> str:
    head = "".join(f"<th>exact, by {by}</th><th>within one</th>" for by in BY)
    body = ""
    for name, each in scores.items():
        if each is None:
            continue
        cells = "".join(
            f"<td>{100 * exact:.1f} %</td><td>{100 * near:.1f} %</td>"
            for exact, near in zip(each.exact, each.near, strict=True)
        )
        body += f"<tr><td>{html.escape(name)}</td>{cells}</tr>"
    return f"<table><tr><th>model</th>{head}</tr>{body}</table>"


def write(
    path: Path,
    about: dict[str, object],
    scores: dict[str, dict[str, Score | None]],
    pictured: dict[str, str],
) -> None:
    title = f"Lifetimes of {', '.join(str(name) for name in _list(about.get('programs')))}"
    parts = []
    for split, heading in (("test", "Functions held out"), ("train", "Training set")):
        if split in pictured:
            parts.append(f"<h2>{heading}</h2>{table_of(scores[split])}{pictured[split]}")
    text = (
        f"<!doctype html><meta charset=utf-8><title>{html.escape(title)}</title>"
        f"<style>{STYLE}</style><h1>{html.escape(title)}</h1>"
        f"<p>{about['train']:,} contexts to learn from, {about['test']:,} held out, "
        f"{about['tokens']:,} tokens.</p>{''.join(parts)}"
    )
    write_file(path, text)


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []
